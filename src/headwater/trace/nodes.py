"""What can be taken apart: the stream where a question meets it, a head, a feed-forward layer, a neuron."""

from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any

import torch
from jaxtyping import Float
from torch import Tensor

from headwater.shapes import floats, whole
from headwater.trace.components import Beginning, Bias, Component, FeedForwardWrite, HeadWrite, components
from headwater.trace.course import AttentionStep, FeedForwardStep
from headwater.trace.frozen import Frozen, Rows
from headwater.trace.parts import Part, Way, group
from headwater.trace.pull import Covectors, Pulled, one_head, through_attention, through_feed_forward, wanted_of_heads
from headwater.trace.question import Question

STREAM: tuple[Way, ...] = ("component", "head", "layer", "source", "token", "order", "path")
"""How whatever reads the stream can be taken apart."""


@dataclass(frozen=True, eq=False)
class StreamNode:
    """The stream at the place that a question is about."""

    frozen: Frozen
    question: Question
    beyond: int = 0
    """Heads between here and the answer."""
    says: str = ""
    """In a one-layer attention-only model, what its terms are about: ``‘two’ → ‘three’``."""
    ways: tuple[Way, ...] = STREAM

    @property
    def edited(self) -> bool:
        """Whether something intervened in the run."""
        return self.frozen.edited

    def parts(self, by: Way) -> list[Part]:
        """By who wrote it, or in one of the other ways."""
        # Those know what nodes there are.
        from headwater.trace.ways import WAYS

        return self.components() if by == "component" else WAYS[by](self)

    @property
    def position(self) -> int | None:
        """The position that it is about, where there is one."""
        return int(self.question.at[0]) if len(self.question.at) == 1 else None

    def components(self) -> list[Part]:
        """One part for each component that wrote to it."""
        return [self._part(each) for each in components(self.frozen, self.question)]

    def _part(self, found: Component) -> Part:
        facts: dict[str, Any] = {"name": found.name} | ({} if self.position is None else {"position": self.position})
        value, at = float(found.value), self.question.at
        match found:
            case Bias(name=name):
                return Part(label=name, value=value, kind="bias", facts=facts)
            case Beginning():
                return self._beginning(found, facts)
            case HeadWrite(name=name, step=step, head=head, q=q):
                node = HeadNode(self.frozen, step, head, at, q, self.beyond + 1, self.says)
                label = f"{name} skip-trigrams" if self.says else name
                return Part(label=label, value=value, kind="head", facts={**facts, "head": name}, node=node)
            case FeedForwardWrite(step=step, q=q):
                node = FeedForwardNode(self.frozen, step, at, q, self.beyond)
                return Part(label=f"L{step.layer} feed-forward", value=value, kind="feed-forward", facts=facts, node=node)

    def _beginning(self, found: Beginning, facts: Mapping[str, Any]) -> Part:
        if self.position is not None:
            return self._at(found.name, self.position, float(found.value))
        rows = zip(whole(self.question.at), floats(found.rows), strict=True)
        members = [self._at(found.name, position, value) for position, value in rows]
        if found.name == "embed":
            return group("embeddings", members, kind="embedding", facts=facts)
        return group("positions", members, kind="position", facts=facts)

    def _at(self, site: str, position: int, value: float) -> Part:
        """What a token's embedding, or a position, has in it."""
        facts = {"name": site, "position": position}
        if site != "embed":
            return Part(label=f"position {position}", value=value, kind="position", facts=facts)
        label = f"bigram {self.says}" if self.says else f"embedding of {self.frozen.place(position)}"
        return Part(label=label, value=value, kind="embedding", facts=facts | token_facts(self.frozen, position))


@dataclass(frozen=True, eq=False)
class HeadNode:
    """A head, and what is asked of what it wrote."""

    frozen: Frozen
    step: AttentionStep
    head: int
    at: Rows
    q: Covectors
    beyond: int
    """Heads between what it read and the answer, itself among them."""
    says: str = ""
    ways: tuple[Way, ...] = ("source", *(way for way in STREAM if way != "source"))

    @property
    def edited(self) -> bool:
        """Whether something intervened in the run."""
        return self.frozen.edited

    def parts(self, by: Way) -> list[Part]:
        """Its sources; or what it read, added up over all of them."""
        return self.sources() if by == "source" else self.read().parts(by)

    def read(self) -> StreamNode:
        """What it read, at all of its sources together."""
        return _read(self.frozen, self.step.reads, *self._pulled(), self.beyond)

    def _pulled(self) -> tuple[Rows, Pulled, dict[str, Tensor]]:
        """The question about what the head read, at each of its sources; what ``b_V`` adds."""
        weights = one_head(self.frozen.block(self.step.layer).attention, self.head)
        seen = torch.arange(last_position(self.frozen, self.at) + 1, device=self.at.device)
        pattern = self.frozen.pattern(self.step.layer, self.at)[self.head, None, :, : len(seen)]
        pulled = through_attention(weights, pattern, self.q)
        biases = {f"L{self.step.layer}H{self.head}.b_V": value.sum(dim=-1) for value in pulled.constants.values()}
        return seen, self.frozen.through(self.step, seen, pulled.q), biases

    @torch.no_grad()
    def sources(self) -> list[Part]:
        """One part for each position that it read, and one for ``b_V``."""
        layer = self.step.layer
        wanted = wanted_of_heads(self.frozen.block(layer).attention, self.q)
        looked = self.frozen.sources(layer, self.at, wanted)
        values, attention = floats(looked.values[self.head]), looked.paid(self.head)
        seen = range(last_position(self.frozen, self.at) + 1)
        return [*(self.source(at, values[at], attention[at]) for at in seen), *bias_parts(self.biases(wanted))]

    def biases(self, wanted: Float[Tensor, "head row d_head"]) -> dict[str, Tensor]:
        """What ``b_V`` adds, where there is one: as often as the head looks anywhere."""
        layer, bias = self.step.layer, self.frozen.block(self.step.layer).attention.b_V
        if bias is None:
            return {}
        looks = self.frozen.pattern(layer, self.at)[self.head].sum(dim=-1)
        own = bias[self.head * len(bias) // self.frozen.record.config.heads]
        return {f"L{layer}H{self.head}.b_V": (wanted[self.head] @ own * looks).sum()}

    def source(self, position: int, value: float, attention: float | None) -> Part:
        """What it has from one position; asked at several destinations, it paid no one attention to it."""
        place, paid = self.frozen.place(position), {} if attention is None else {"attention": attention}
        return Part(
            label=f"skip-trigram {place} … {self.says}" if self.says else place,
            value=value,
            kind="source",
            note="" if attention is None else f"attention {attention:.2f}",
            facts={"position": position} | paid | token_facts(self.frozen, position),
            node=SourceNode(self, position),
        )


@dataclass(frozen=True, eq=False)
class SourceNode:
    """One position that a head read."""

    head: HeadNode
    position: int
    ways: tuple[Way, ...] = STREAM

    @property
    def edited(self) -> bool:
        """Whether something intervened in the run."""
        return self.head.edited

    def parts(self, by: Way) -> list[Part]:
        """Of the stream that was read there."""
        return self.read().parts(by)

    @torch.no_grad()
    def read(self) -> StreamNode:
        """The stream that was read there."""
        head, step = self.head, self.head.step
        at = torch.tensor([self.position], device=head.at.device)
        pattern = head.frozen.pattern(step.layer, head.at)[head.head, None][..., at]
        pulled = through_attention(one_head(head.frozen.block(step.layer).attention, head.head), pattern, head.q)
        return _read(head.frozen, step.reads, at, head.frozen.through(step, at, pulled.q), {}, head.beyond)


@dataclass(frozen=True, eq=False)
class FeedForwardNode:
    """A feed-forward layer, and what is asked of what it wrote."""

    frozen: Frozen
    step: FeedForwardStep
    at: Rows
    q: Covectors
    beyond: int
    ways: tuple[Way, ...] = ("component", "neuron", *STREAM[1:])

    @property
    def edited(self) -> bool:
        """Whether something intervened in the run."""
        return self.frozen.edited

    def parts(self, by: Way) -> list[Part]:
        """Its neurons; or what its input was made of."""
        return self.neurons() if by == "neuron" else self.read().parts(by)

    def read(self) -> StreamNode:
        """What it read."""
        return self.through(self.frozen.gates(self.step.layer, self.at))

    @torch.no_grad()
    def through(self, gates: Tensor) -> StreamNode:
        """What it read, by way of neurons that are this far open."""
        layer, weights = self.step.layer, self.frozen.block(self.step.layer).feed_forward
        assert weights is not None, "a step that the model has"
        pulled = through_feed_forward(weights, gates, self.q)
        biases = {f"L{layer}.b_in": pulled.constants["b_in"].sum(dim=-1)} if "b_in" in pulled.constants else {}
        normed = self.frozen.through(self.step, self.at, pulled.q)
        return _read(self.frozen, self.step.reads, self.at, normed, biases, self.beyond)

    @torch.no_grad()
    def neurons(self) -> list[Part]:
        """One part for each neuron."""
        weights, said = self.frozen.block(self.step.layer).feed_forward, self.frozen.neurons(self.step.layer, self.at)
        assert weights is not None, "a step that the model has"
        values, opened = floats((said * (self.q @ weights.W_out.T)).sum(dim=0)), floats(said.sum(dim=0))
        return [self._neuron(number, *both) for number, both in enumerate(zip(values, opened, strict=True))]

    def _neuron(self, number: int, value: float, activation: float) -> Part:
        name = f"L{self.step.layer}N{number}"
        facts = {"name": name, "neuron": number, "activation": activation}
        node = NeuronNode(self, number)
        return Part(label=name, value=value, kind="neuron", note=f"activation {activation:.2f}", facts=facts, node=node)


@dataclass(frozen=True, eq=False)
class NeuronNode:
    """One neuron of a feed-forward layer."""

    layer: FeedForwardNode
    neuron: int
    ways: tuple[Way, ...] = STREAM

    @property
    def edited(self) -> bool:
        """Whether something intervened in the run."""
        return self.layer.frozen.edited

    def parts(self, by: Way) -> list[Part]:
        """What opened it."""
        return self.read().parts(by)

    def read(self) -> StreamNode:
        """What its layer read, by way of this neuron only."""
        gates = self.layer.frozen.gates(self.layer.step.layer, self.layer.at)
        alone = torch.zeros_like(gates)
        alone[:, self.neuron] = gates[:, self.neuron]
        return self.layer.through(alone)


def _read(frozen: Frozen, stage: int, at: Rows, pulled: Pulled, biases: Mapping[str, Tensor], beyond: int) -> StreamNode:
    """The stream that a component read, where a question has been pulled through the component and its norm."""
    constants = {name: value.sum(dim=-1) for name, value in pulled.constants.items()}
    return StreamNode(frozen, Question(stage, at, pulled.q, {**biases, **constants}), beyond)


def token_facts(frozen: Frozen, position: int) -> dict[str, Any]:
    """A position's token: its exact text and its id."""
    token = frozen.ids[position]
    return {"token": frozen.words.text(token), "id": token}


def last_position(frozen: Frozen, at: Rows) -> int:
    """The last position that a question at some positions can come from."""
    attention, length = frozen.record.config.attention, frozen.record.tokens.shape[1]
    return int(at.max()) if attention is None or attention.mask == "causal" else length - 1


def bias_parts(found: Mapping[str, Tensor]) -> list[Part]:
    """What biases add, each by its name."""
    return [Part(label=name, value=float(value), kind="bias", facts={"name": name}) for name, value in found.items()]
