"""Parts taken apart, and of what size the numbers are that were added up in it; and parts of one place as few."""

import math
from collections.abc import Sequence
from dataclasses import replace

import torch
from torch import Tensor

from headwater.shapes import whole
from headwater.trace.frozen import Frozen
from headwater.trace.nodes import FeedForwardNode, HeadNode, NeuronNode, SourceNode, StreamNode
from headwater.trace.parts import Group, Node, Part, Split, Way, take_apart
from headwater.trace.pull import one_head, wanted_of_heads
from headwater.trace.question import Question
from headwater.trace.sizes import Sizes, shared
from headwater.trace.sweep import sweep
from headwater.trace.ways import orders_of, tokens_of


class Sized:
    """Takes parts apart, and knows the size of all that was added up so far."""

    def __init__(self) -> None:
        self._squares = 0.0
        self._known: Sizes | None = None
        self._questions: list[Question] = []

    @property
    def size(self) -> float:
        """As errors are added up that do not know of each other."""
        # What was written is looked up once, at all positions that questions met.
        met = 0.0 if self._known is None else self._known.of_questions(self._questions)
        return math.sqrt(self._squares + met)

    def split(self, part: Part, by: Way) -> Split:
        """All parts of a part."""
        node = part.node
        match node:
            case HeadNode():
                return self._through_head(part, node, by)
            case FeedForwardNode(frozen=frozen, step=step, at=at, q=q):
                gates, neurons = frozen.opened(step.layer, at)
                self._add(self._sizes(frozen).of_neurons(step.layer, neurons, q))
                return self._split(part, node if by == "neuron" else node.through(gates), by)
            case SourceNode() | NeuronNode():
                return self._split(part, node.read(), by)
            case _:
                return self._split(part, node, by)

    def meet(self, node: Node | None) -> None:
        """A question where it meets the stream."""
        if isinstance(node, StreamNode):
            self._sizes(node.frozen)
            self._questions.append(node.question)

    def _split(self, part: Part, node: Node | None, by: Way) -> Split:
        if isinstance(node, StreamNode) and by in ("token", "order"):
            return self._swept(part, node, by)
        self.meet(node)
        return replace(part, node=node).split(by, most=None)

    @torch.no_grad()
    def _through_head(self, part: Part, node: HeadNode, by: Way) -> Split:
        split, layer = self._split(part, node if by == "source" else node.read(), by), node.step.layer
        looked = shared(node.frozen.pattern(layer, node.at)[node.head, None])
        wanted = wanted_of_heads(one_head(node.frozen.block(layer).attention, node.head), node.q)
        self._add(self._sizes(node.frozen).of_heads(layer, node.at, wanted, looked, node.head))
        return split

    def _swept(self, part: Part, node: StreamNode, by: Way) -> Split:
        swept = sweep(node.frozen.record, node.question, orders=by == "order")
        self._add(swept.size.square())
        found = Group(lambda: (orders_of if by == "order" else tokens_of)(node, swept), ways=(by,), edited=node.edited)
        return take_apart(part.label, part.value, found, by, most=None)

    def _sizes(self, frozen: Frozen) -> Sizes:
        self._known = self._known or Sizes(frozen)
        return self._known

    def _add(self, squared: Tensor) -> None:
        self._squares += float(squared.sum())


def together(parts: Sequence[Part]) -> list[Part]:
    """Parts of one place as few: what is asked of the same component at the same positions along several paths is asked at once, their covectors added up."""
    found: dict[object, list[Part]] = {}
    for number, part in enumerate(parts):
        node = part.node.read() if isinstance(part.node, SourceNode | NeuronNode) else part.node
        match node:
            case StreamNode(question=question):
                same: object = ("stream", question.stage, tuple(whole(question.at)))
            case HeadNode() | FeedForwardNode():
                same = (type(node), node.step, getattr(node, "head", None), tuple(whole(node.at)))
            case _:
                same = number
        found.setdefault(same, []).append(replace(part, node=node))
    return [some[0] if len(some) == 1 else _sum(some) for some in found.values()]


def _sum(parts: list[Part]) -> Part:
    nodes = [part.node for part in parts]
    first, value = nodes[0], math.fsum(part.value for part in parts)
    if isinstance(first, StreamNode):
        questions = [node.question for node in nodes if isinstance(node, StreamNode)]
        names = {name for each in questions for name in each.constants}
        constants = {
            name: _added([each.constants[name] for each in questions if name in each.constants]) for name in sorted(names)
        }
        asked = replace(questions[0], q=_added([each.q for each in questions]), constants=constants)
        return replace(parts[0], value=value, node=replace(first, question=asked))
    assert isinstance(first, HeadNode | FeedForwardNode), "what is put together"
    q = _added([node.q for node in nodes if isinstance(node, HeadNode | FeedForwardNode)])
    return replace(parts[0], value=value, node=replace(first, q=q))


def _added(tensors: list[Tensor]) -> Tensor:
    return torch.stack(tensors).sum(dim=0)
