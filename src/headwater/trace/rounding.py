"""What rounding may come to: how far a sum of parts may be from the model's own number, if both are right. Of an attention score, of what a head
mixes, and of the sums of a block.

A query is a long sum of products: everything that was written to the stream, through norms and ``W_Q``. Rounding of ``n`` products, added up, comes to about
``√n`` units in the last place of the root of the sum of their squares; and what was lost in one entry does not know of what was lost in another. So squares
are carried along instead of numbers, entry by entry, and are never taken from each other, as numbers are where they cancel::

    reach² = Σ_writes write²,   through a norm  scale² · gain² · (reach² + mean reach²) + bias²,   through W_Q  reach² W_Q² + b_Q²

An error of that size in the query meets the key, and the other way round: ``scale · (‖reach_query‖ ‖key‖ + ‖query‖ ‖reach_key‖)``. Parts of both that are multiplied with each
other are so in double precision, and each product may be as large as both reaches, however small query and key are themselves.
"""

import math
from collections.abc import Sequence
from dataclasses import dataclass

import torch
from einops import einsum
from jaxtyping import Float
from torch import Tensor

from headwater.model.config import LayerNorm, NoNorm
from headwater.trace.course import AttentionStep, FeedForwardStep, Given, NormStep, Step, course
from headwater.trace.frozen import Frozen, Rows
from headwater.trace.sides import Side

Squares = Float[Tensor, "row d_model"]


@dataclass(frozen=True)
class Apart:
    """How far sums are from the model's own numbers, at the most, and what rounding may come to in them."""

    certificate: float
    bound: float


def mixture_apart(
    weights: Float[Tensor, " source"], values: Float[Tensor, "source d_head"], mixed: Float[Tensor, " d_head"]
) -> Apart:
    """A head's attention times its values, added up in double precision, against what the run mixed, in the run's own format.

    The bound has a unit in the last place for each product and each sum: twice what they can lose, since the weights were rounded as well.
    """
    off = weights.double() @ values.double() - mixed.double()
    sizes = einsum(weights.double().abs(), values.double().abs(), "source, source d_head -> d_head")
    return Apart(float(off.abs().max()), float((len(weights) + 2) * torch.finfo(mixed.dtype).eps * sizes.max()))


def sums_apart(sums: Sequence[tuple[Float[Tensor, " d_model"], Sequence[Float[Tensor, " d_model"]]]]) -> Apart:
    """Vectors of a run, each beside those that it is the sum of, all in the run's own format.

    >>> sums_apart([(torch.tensor([3.0, 5.0]), [torch.tensor([1.0, 2.0]), torch.tensor([2.0, 3.0])])]).certificate
    0.0
    """
    off = [abs(total.double() - torch.stack([part.double() for part in parts]).sum(dim=0)).max() for total, parts in sums]
    sizes = [part.double().abs().max() for _, parts in sums for part in parts]
    unit = max((torch.finfo(total.dtype).eps for total, _ in sums), default=0.0)
    return Apart(max(map(float, off), default=0.0), 4 * unit * max(map(float, sizes), default=0.0))


@torch.no_grad()
def score_bound(queries: Side, keys: Side, scale: float) -> float:
    """What the difference between a score and the sum of its parts may come to by rounding alone.

    Of hundreds of random models in single precision, badly conditioned ones among them, the worst came to a sixth of it.
    """
    frozen = queries.frozen
    weights, depth = frozen.record.weights, queries.step.reads + 2
    reached = [float(reach(side).sum(dim=-1).sqrt().sum()) for side in (queries, keys)]
    lengths = [float(side.each().double().square().sum(dim=-1).sqrt().sum()) for side in (queries, keys)]
    met, kind = reached[0] * lengths[1] + lengths[0] * reached[1], torch.finfo(weights.dtype)
    # What underflows in a query meets the key, and the other way round; and the score itself may.
    lost = kind.tiny * (1 + scale * sum(lengths)) + torch.finfo(torch.float64).eps * scale * reached[0] * reached[1]
    return 2 * math.sqrt(frozen.record.config.d_model * depth) * (kind.eps * scale * met + lost)


def reach(side: Side) -> Float[Tensor, "row d_head"]:
    """The squares of all that a query or key was added up from, at each of its rows; a turn by position changes none of their sums."""
    frozen, at, W = side.frozen, side.at, side.W.double()
    squares = torch.zeros(len(at), W.shape[0], dtype=torch.float64, device=W.device)
    for step in course(frozen.record.config)[: side.step.reads]:
        squares = (
            _normed(frozen, f"L{step.layer}.{step.norm}", at, squares)
            if isinstance(step, NormStep)
            else squares + _written(frozen, step, at)
        )
    if side.step.norm is not None:
        squares = _normed(frozen, f"L{side.step.layer}.{side.step.norm}", at, squares)
    marks = side.placed.in_queries_and_keys
    squares = squares if marks is None else squares + marks[at].double().square()
    found = squares @ W.square()
    return found if side.b is None else found + side.b.double().square()


def _written(frozen: Frozen, step: Step, at: Rows) -> Squares:
    match step:
        case Given(site=site):
            return frozen.rows(site, at).double().square()
        case AttentionStep(layer=layer):
            weights, mixed = frozen.block(layer).attention, frozen.mixed(layer, at).double()
            heads = einsum(mixed.square(), weights.W_O.double().square(), "head row d_head, head d_head d_model -> row d_model")
            return heads if weights.b_O is None else heads + weights.b_O.double().square()
        case FeedForwardStep(layer=layer):
            return frozen.rows(f"L{layer}.feed_forward", at).double().square()
        case NormStep():
            raise AssertionError("a norm writes nothing")


def _normed(frozen: Frozen, name: str, at: Rows, squares: Squares) -> Squares:
    norm = frozen.record.config.norm
    assert not isinstance(norm, NoNorm), "asked only where there are norms"
    weights, scale = frozen.record.weights.norm(name), frozen.rows(f"{name}.scale", at).double()
    # A layer norm takes the mean of all entries from each.
    spread = squares + squares.mean(dim=-1, keepdim=True) if isinstance(norm.norm, LayerNorm) else squares
    found = spread * scale[:, None].square()
    found = found if weights.gain is None else found * weights.gain.double().square()
    return found if weights.bias is None else found + weights.bias.double().square()
