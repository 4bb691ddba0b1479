"""The same product from factors that both carry the root of each singular value, so that ``‖row‖ ‖column‖`` is a tight bound."""

from dataclasses import dataclass

from jaxtyping import Float
from torch import Tensor

from headwater.circuits.algebra import frobenius, lengths, qr, svd
from headwater.circuits.exact import ROUNDING


@dataclass(frozen=True, eq=False)
class Balanced:
    """``left @ rightᵀ`` of other factors, both in float64."""

    left: Float[Tensor, "row rank"]
    right: Float[Tensor, "column rank"]
    error: float
    """How far any entry of the product may be from the one it stands for."""


def balanced(left: Float[Tensor, "row inner"], right: Float[Tensor, "column inner"]) -> Balanced:
    """``left @ rightᵀ = (Q_L U √S) (Q_R V √S)ᵀ``, with ``left = Q_L R_L``, ``right = Q_R R_R`` and ``R_L R_Rᵀ = U S Vᵀ``.

    The error is measured, not believed: how far the products of what was found are from what they were found for.
    """
    left, right = left.double(), right.double()
    (q_left, r_left), (q_right, r_right) = qr(left), qr(right)
    core = r_left @ r_right.T
    u, s, v = svd(core)
    root = s.sqrt()
    ours, theirs = q_left @ (u * root), q_right @ (v * root)
    missed = float(lengths(left - q_left @ r_left).max()) * float(lengths(right).max())
    missed += float(lengths(right - q_right @ r_right).max()) * float(lengths(left).max())
    missed += frobenius(core - (u * s) @ v.T)
    # What the measurements and the products themselves round away.
    rounded = 32 * left.shape[1] * ROUNDING * float(s[0] if len(s) else 0.0)
    return Balanced(ours, theirs, 1.01 * missed + rounded)
