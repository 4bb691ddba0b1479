"""The same product from factors that both carry the root of each singular value, so that ``‖row‖ ‖column‖`` is a tight bound."""

import math
from dataclasses import dataclass
from functools import cache

import torch
from jaxtyping import Float
from torch import Tensor

from headwater.circuits.algebra import frobenius, lengths, qr, symmetric
from headwater.circuits.streamed.exact import ROUNDING

LEAST = 1e-4
"""A direction smaller than this, beside the largest, is not stretched further: what it would gain is lost to rounding."""


@dataclass(frozen=True, eq=False)
class Balanced:
    """``left @ rightᵀ`` of other factors, both in float64."""

    left: Float[Tensor, "row inner"]
    right: Float[Tensor, "column inner"]
    share: float
    """No entry of the product is further from the true one than this share of ``‖row‖ ‖column‖``, the norms of the original factors."""
    error: float
    """The same for all entries: how far any may be from the true one."""


def balanced(left: Float[Tensor, "row inner"], right: Float[Tensor, "column inner"]) -> Balanced:
    """``left @ rightᵀ = (left T) (right T⁻ᵀ)ᵀ``, with ``T`` such that both new factors have the same second moments: the singular values of the
    product.

    The moments are turned at random besides, so that no number of a line is much larger than the others. ``T`` may be inexact and its
    inverse is; the share says how much: it is measured on ``T T⁻¹ − 1``.
    """
    left, right = left.double(), right.double()
    there, back = _stretch(_moments(left), _moments(right))
    inner = left.shape[1]
    inexact = frobenius(there @ back - torch.eye(inner, dtype=torch.float64, device=left.device))
    rounded = 4 * (inner + 4) * ROUNDING * frobenius(there) * frobenius(back)
    share = 1.01 * (inexact + rounded)
    longest = (float(lengths(lines).max()) if len(lines) else 0.0 for lines in (left, right))
    return Balanced(left @ there, right @ back.T, share, share * next(longest) * next(longest))


def _moments(lines: Tensor) -> Tensor:
    """Second moments, up to a scale that keeps them within float64's range."""
    largest = float(torch.stack(lines.aminmax()).abs().max()) if lines.numel() else 0.0
    if not 0 < largest < math.inf or 1e-100 < largest < 1e100:
        return lines.T @ lines
    return (lines / largest).T @ (lines / largest)


def _stretch(left: Tensor, right: Tensor) -> tuple[Tensor, Tensor]:
    """``T`` and its inverse from the second moments of either side."""
    roots, v = _roots(left)
    half, inverse = (v * roots) @ v.T, (v / roots) @ v.T
    # Both sides of this are half the left moments; between them the right ones: the squares of the product's singular values.
    s, u = _roots(half @ right @ half)
    turn = _turn(len(s)).to(left.device)
    return inverse @ (u * s.sqrt()) @ turn, turn.T @ (u / s.sqrt()).T @ half


def _roots(moments: Tensor) -> tuple[Tensor, Tensor]:
    """The square roots of a symmetric matrix' eigenvalues, none below a share of the largest, and its eigenvectors."""
    values, vectors = symmetric(moments)
    largest = float(values[-1]) if len(values) else 0.0
    return (values.clamp(min=LEAST**2 * largest).sqrt() if largest > 0 else torch.ones_like(values)), vectors


@cache
def _turn(inner: int) -> Tensor:
    """A rotation at random, always the same one."""
    drawn = torch.randn(inner, inner, dtype=torch.float64, generator=torch.Generator().manual_seed(inner))
    return qr(drawn)[0]
