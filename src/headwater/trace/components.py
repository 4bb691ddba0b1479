"""What wrote the answer to a question: every component that the stream passed before it was asked, each with its part."""

from dataclasses import dataclass

import torch
from jaxtyping import Float
from torch import Tensor

from headwater.trace.course import AttentionStep, FeedForwardStep, Given, NormStep, Step, course
from headwater.trace.frozen import Frozen, Rows
from headwater.trace.pull import Covectors, wanted_of_heads
from headwater.trace.question import Question


@dataclass(frozen=True, eq=False)
class Bias:
    """A constant; nothing is upstream of it."""

    name: str
    value: Float[Tensor, "*many"]


@dataclass(frozen=True, eq=False)
class Beginning:
    """Tokens' embeddings, or positions: the stream comes from here."""

    name: str
    value: Float[Tensor, "*many"]
    rows: Float[Tensor, "*many row"]
    """What each position has in it."""


@dataclass(frozen=True, eq=False)
class HeadWrite:
    """What a head wrote, and what is asked of it."""

    name: str
    value: Float[Tensor, "*many"]
    step: AttentionStep
    head: int
    q: Covectors


@dataclass(frozen=True, eq=False)
class FeedForwardWrite:
    """What a feed-forward layer wrote, its ``b_out`` apart, and what is asked of it."""

    name: str
    value: Float[Tensor, "*many"]
    step: FeedForwardStep
    q: Covectors


Component = Bias | Beginning | HeadWrite | FeedForwardWrite


@torch.no_grad()
def components(frozen: Frozen, question: Question) -> list[Component]:
    """The parts of a question's answer by who wrote them, in the order in which they were written.

    >>> from headwater.model.presets import named
    >>> from headwater.model.record import record
    >>> from headwater.model.weights import Weights
    >>> from headwater.trace.question import about_logit
    >>> run = record(Weights.draw(named("one-layer"), seed=0), torch.tensor([[1, 2, 3]]))
    >>> [part.name for part in components(Frozen(run), about_logit(run, position=2, token=7))][:3]
    ['embed', 'L0H0', 'L0H1']
    """
    steps, q = course(frozen.record.config), question.q
    found: list[list[Component]] = [[Bias(name, value) for name, value in question.constants.items()]]
    for step in reversed(steps[: question.stage]):
        if isinstance(step, NormStep):
            pulled = frozen.through(step, question.at, q)
            found.append([Bias(name, value.sum(dim=-1)) for name, value in pulled.constants.items()])
            q = pulled.q
        else:
            found.append(_written(frozen, step, question.at, q))
    return [part for some in reversed(found) for part in some]


def _written(frozen: Frozen, step: Step, at: Rows, q: Covectors) -> list[Component]:
    match step:
        case Given(site=site):
            rows = (frozen.rows(site, at) * q).sum(dim=-1)
            return [Beginning(site, rows.sum(dim=-1), rows)]
        case AttentionStep(layer=layer):
            weights = frozen.block(layer).attention
            each = frozen.heads(layer, at, q, wanted_of_heads(weights, q)).sum(dim=-1)
            heads = [HeadWrite(f"L{layer}H{head}", each[..., head], step, head, q) for head in range(each.shape[-1])]
            return [*heads, *_bias(f"L{layer}.b_O", weights.b_O, q)]
        case FeedForwardStep(layer=layer):
            weights = frozen.block(layer).feed_forward
            assert weights is not None, "a step that the model has"
            bias = _bias(f"L{layer}.b_out", weights.b_out, q)
            value = (frozen.rows(f"L{layer}.feed_forward", at) * q).sum(dim=(-1, -2))
            return [FeedForwardWrite(f"L{layer}.feed_forward", sum((-each.value for each in bias), value), step, q), *bias]
        case NormStep():
            raise AssertionError("a norm writes nothing")


def _bias(name: str, bias: Float[Tensor, " d_model"] | None, q: Covectors) -> list[Bias]:
    return [] if bias is None else [Bias(name, (q @ bias).sum(dim=-1))]
