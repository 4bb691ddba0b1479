"""How many directions a circuit has, how strong they are, and which tokens they join.

Singular values of the table itself do not say which transitions matter. A constant added to all logits of a row changes no probability and
any singular value, and a token that never occurs counts as much as any other. Hence three kinds:

=========  ======================================================================================================
raw        the table as it is
centred    each row's mean taken out: what a softmax over the row can see
weighted   centred, and row ``i`` multiplied by √p(i), so that a singular value squared is variance over the corpus
=========  ======================================================================================================
"""

from dataclasses import asdict, dataclass
from typing import Any, Literal, TypeAlias

import torch
from jaxtyping import Float
from torch import Tensor

from headwater.circuits.chance import NEGLIGIBLE
from headwater.circuits.factored import Factored
from headwater.errors import InputError

Kind: TypeAlias = Literal["raw", "centred", "weighted"]


@dataclass(frozen=True)
class Weighted:
    """Some ids, those with the largest weights first, whatever their sign."""

    ids: tuple[int, ...]
    weights: tuple[float, ...]


@dataclass(frozen=True)
class Direction:
    """One way through a circuit: as far as a row reads it, it writes to columns, both with signs.

    Row ``i`` adds ``strength · reads(i) · writes(j)`` to column ``j``. Only the product of both sides has a sign of its own; the largest
    weight that is written is shown as positive.
    """

    strength: float
    """The singular value."""
    reads: Weighted
    writes: Weighted


@dataclass(frozen=True)
class Spectrum:
    """Singular values, falling, and the first directions; all further singular values are zero."""

    kind: Kind
    singular_values: tuple[float, ...]
    directions: tuple[Direction, ...]

    @property
    def norm(self) -> float:
        """The Frobenius norm."""
        return sum(value**2 for value in self.singular_values) ** 0.5

    @property
    def effective_rank(self) -> float:
        """How many directions there would be if all were equally strong; see ``effective_rank``."""
        return effective_rank(torch.tensor(self.singular_values))

    def plain(self) -> dict[str, Any]:
        """Everything as JSON has it."""
        return {**asdict(self), "norm": self.norm, "effective_rank": self.effective_rank}


def effective_rank(singular_values: Float[Tensor, " rank"]) -> float:
    """``exp H(σ / Σσ)``, H being Shannon's entropy: n for n equal ones, 1 for one alone, 0 where all are zero (Roy and Vetterli, 2007).

    >>> round(effective_rank(torch.tensor([5.0, 5.0, 5.0, 0.0])), 6)
    3.0
    """
    values = singular_values.double()
    shares = values[values > 0] / values.sum()
    return float(torch.exp(-(shares * shares.log()).sum())) if len(shares) else 0.0


def spectrum(
    circuit: Factored,
    kind: Kind = "raw",
    *,
    frequencies: Float[Tensor, " row"] | None = None,
    directions: int = 8,
    tokens: int = 10,
) -> Spectrum:
    """Singular values of one kind, with the first ``directions`` and the first ``tokens`` on both sides of each.

    ``frequencies`` are those of the rows, as counts or shares.

    >>> table = Factored(torch.tensor([[1.0, 0.0], [0.0, 1.0], [0.0, 0.0]]), torch.tensor([[0.0, 0.0, 3.0], [2.0, 0.0, 0.0]]))
    >>> first = spectrum(table, tokens=1).directions[0]
    >>> first.strength, first.reads.ids, first.writes.ids
    (3.0, (0,), (2,))
    """
    found = _seen(circuit, kind, frequencies).svd()
    values = [float(value) for value in found.S]
    kept = [number for number in range(min(directions, len(values))) if values[number] > NEGLIGIBLE * values[0]]
    return Spectrum(kind, tuple(values), tuple(_direction(found.S[n], found.U[:, n], found.V[:, n], tokens) for n in kept))


def distribution(frequencies: Float[Tensor, " token"], size: int) -> Float[Tensor, " token"]:
    """Counts or shares of ``size`` tokens as shares that sum to one, in float64."""
    shares = frequencies.double()
    if shares.shape != (size,) or not bool(torch.isfinite(shares).all()) or float(shares.min()) < 0 or not float(shares.sum()):
        raise InputError(
            f"frequencies {list(frequencies.shape)}, {float(shares.sum()):.3g} in all",
            f"one number ≥ 0 for each of {size:,} tokens, not all of them zero",
            "give the unigram counts of a corpus",
        )
    return shares / shares.sum()


def _seen(circuit: Factored, kind: Kind, frequencies: Float[Tensor, " row"] | None) -> Factored:
    match kind:
        case "raw":
            return circuit
        case "centred":
            return circuit.centred_rows()
        case "weighted" if frequencies is not None:
            shares = distribution(frequencies, circuit.shape[0]).to(circuit.device)
            return circuit.centred_rows().weighted(rows=shares.sqrt())
        case "weighted":
            raise InputError("a weighted spectrum without frequencies", "those of the rows' tokens", "give frequencies=…")
        case _:
            raise InputError(f"{kind!r:.40} as a kind of spectrum", "raw, centred or weighted", "use one of these")


def _direction(
    strength: Float[Tensor, ""], reads: Float[Tensor, " row"], writes: Float[Tensor, " column"], tokens: int
) -> Direction:
    sign = writes[writes.abs().argmax()].sign()
    return Direction(float(strength), _weighted(sign * reads, tokens), _weighted(sign * writes, tokens))


def _weighted(weights: Float[Tensor, " token"], tokens: int) -> Weighted:
    first = weights.abs().argsort(descending=True, stable=True)[:tokens]
    return Weighted(tuple(int(token) for token in first), tuple(float(weight) for weight in weights[first]))
