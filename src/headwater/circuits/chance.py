"""What eigenvalues would be by chance: those of a circuit one side of which was turned at random.

Cut a circuit ``M = N P`` in two, where ``P`` meets ``N`` again when the circuit is closed to a loop, in a space of ``n`` dimensions. Turn
one side by a random rotation ``Q`` of that space. What each side does stays as it was, all singular values included; only how the
two sides fit together is left to chance. With ``M = U S Vᵀ`` of rank r the eigenvalues of ``N Q P`` are those of ``S K``, where ``K`` is an r × r
corner of a random rotation of n dimensions; for n ≫ r that is a Gaussian matrix (Ginibre's) divided by √n. So:

- the trace has mean 0 and standard deviation ``‖M‖_F / √n``, exactly;
- for n ≫ r the eigenvalues fill a disc of radius ``‖M‖_F / √n`` round 0 as r grows (of a few singular values, one may well lie outside);
- the copying score ``Σλ / Σ|λ|`` has mean 0, and a spread that is found by drawing corners. For a flat spectrum and n ≫ r it is
  about ``3 / (2r)``.

There are two places to cut. *Tokens*: n is the vocabulary's size and M the circuit itself. This does not exclude that embedding and
unembedding simply share directions, as they do in every tied model: then ``W_U W_E`` is far from what chance makes of it, and any head's
eigenvalues lie far outside the disc, on either side. *Stream*: n is d_model and M the loop ``W_U W_E W_V W_O`` (in the order of reading: out of
the stream into logits, back in as a token, through the head). That keeps embedding and unembedding as they are and asks what a
head with the same singular values would do if it had been turned at random in the stream.
"""

from collections.abc import Iterator
from dataclasses import dataclass
from functools import lru_cache

import numpy as np
import torch
from jaxtyping import Complex, Float
from torch import Tensor

from headwater.circuits import algebra
from headwater.errors import InputError

NEGLIGIBLE = 1e-9
"""Eigenvalues and singular values below this share of the largest are taken for zeros."""


@dataclass(frozen=True)
class Draws:
    """How many random circuits to draw, and which; the same seed gives the same numbers."""

    count: int = 200
    seed: int = 0

    def __post_init__(self) -> None:
        if self.count < 2:
            raise InputError(f"{self.count} draws", "at least 2, for a spread", "take 200")


DRAWS = Draws()


@dataclass(frozen=True)
class Range:
    """Where a number lies by chance: standard deviation, and the quantiles at 5 % and 95 %."""

    mean: float
    spread: float
    low: float
    high: float


@dataclass(frozen=True)
class Chance:
    """What a circuit with these singular values would show, had one side been turned at random."""

    radius: float
    """``‖M‖_F / √n``: of the disc of eigenvalues, and the standard deviation of the trace."""
    score: Range
    """Of ``Σλ / Σ|λ|``."""
    positive: Range
    """Of the share of eigenvalues whose real part is positive."""

    def z(self, trace: float) -> float:
        """How many standard deviations a trace is away from 0, its mean."""
        return trace / self.radius if self.radius else 0.0


def chance(singular_values: Float[Tensor, " rank"], dims: int, draws: Draws = DRAWS) -> Chance:
    """The chances for a circuit cut in a space of ``dims`` dimensions.

    >>> flat = chance(torch.ones(20), 10_000)
    >>> round(flat.radius, 4), abs(flat.score.mean) < 0.02, abs(flat.score.spread - 3 / 40) < 0.01
    (0.0447, True, True)
    """
    kept = singular_values.double().cpu()
    kept = kept[kept > NEGLIGIBLE * kept.max()] if len(kept) else kept
    if len(kept) > dims:
        raise InputError(f"{len(kept)} singular values in {dims} dimensions", "no more than dimensions", "check the order")
    if not len(kept):
        return Chance(0.0, Range(0.0, 0.0, 0.0, 0.0), Range(0.0, 0.0, 0.0, 0.0))
    values = torch.cat([algebra.eigenvalues(kept[:, None] * corner) for corner in _batches(len(kept), dims, draws)])
    return Chance(
        radius=float(kept.square().sum().sqrt()) / dims**0.5,
        score=_range(scores(values)),
        positive=_range(positive_shares(values)),
    )


def scores(eigenvalues: Complex[Tensor, "*circuit inner"]) -> Float[Tensor, "*circuit"]:
    """``Σλ / Σ|λ|``, from −1 (all turn vectors round) to 1 (all keep them); 0 where all are 0. The sum is real.

    >>> float(scores(torch.tensor([2 + 0j, 1j, -1j])))
    0.5
    """
    total = eigenvalues.abs().sum(dim=-1)
    return torch.where(total > 0, eigenvalues.real.sum(dim=-1) / total, 0.0)


def positive_shares(eigenvalues: Complex[Tensor, "*circuit inner"]) -> Float[Tensor, "*circuit"]:
    """The share of eigenvalues with a positive real part, among those that are not zero.

    >>> float(positive_shares(torch.tensor([3 + 0j, -1 + 0j, 0j, 2 + 1j, 2 - 1j])))
    0.75
    """
    size = eigenvalues.abs()
    there = (size > NEGLIGIBLE * size.amax(dim=-1, keepdim=True)).double()
    return ((eigenvalues.real > 0) * there).sum(dim=-1) / there.sum(dim=-1).clamp(min=1)


def _range(values: Float[Tensor, " draw"]) -> Range:
    low, high = (float(values.quantile(share)) for share in (0.05, 0.95))
    return Range(float(values.mean()), float(values.std()), low, high)


def _batches(rank: int, dims: int, draws: Draws) -> Iterator[Float[Tensor, "draw rank rank"]]:
    """The draws, a few megabytes at a time; those of small ranks are drawn once for all heads."""
    most = max(1, 2**21 // rank**2)
    for first in range(0, draws.count, most):
        yield corners(rank, dims, min(most, draws.count - first), draws.seed + first)


@lru_cache(maxsize=4)
def corners(rank: int, dims: int, count: int, seed: int) -> Float[Tensor, "draw rank rank"]:
    """The upper left corners of ``count`` random rotations of ``dims`` dimensions, exactly distributed.

    The first ``rank`` columns of a rotation are those of a Gaussian matrix made orthonormal. Of its lower ``dims − rank`` rows only their R factor
    matters, whose entries are independent (Bartlett): Gaussian above the diagonal, χ on it. So no draw is of the size of ``dims``.
    """
    generator = np.random.default_rng([seed, rank, dims])
    below = dims - rank
    lower = generator.standard_normal((count, min(below, rank), rank))
    if below > rank:
        freedom = below - np.arange(rank)
        lower = np.triu(lower, 1)
        lower[:, np.arange(rank), np.arange(rank)] = np.sqrt(generator.chisquare(freedom, (count, rank)))
    whole = torch.from_numpy(np.concatenate([generator.standard_normal((count, rank, rank)), lower], axis=1))
    directions, r = algebra.qr(whole)
    # QR leaves the signs open; with a positive diagonal the directions are uniformly distributed.
    return (directions * r.diagonal(dim1=1, dim2=2).sign()[:, None])[:, :rank]
