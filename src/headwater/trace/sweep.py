"""One sweep upstream: what a question comes to at every component and every token, through everything downstream.

What meets at one place is added up there, so that the number of ways to get there does not matter: a model's (1 + heads)^layers paths are all
in the sum, and none of them is walked. Kept apart are only their orders: by how many heads a path goes.
"""

from collections.abc import Callable, Mapping
from dataclasses import dataclass, field, replace
from functools import cached_property

import torch
from jaxtyping import Float
from torch import Tensor

from headwater.model.record import Record
from headwater.trace.course import AttentionStep, FeedForwardStep, Given, NormStep, Step, course, layer_of
from headwater.trace.frozen import Frozen
from headwater.trace.pull import Covectors, Pulled, of_output_bias, through_feed_forward, through_heads, wanted_of_heads
from headwater.trace.push import added
from headwater.trace.question import Question
from headwater.trace.sizes import Sizes, shared, squares

ByPlace = Mapping[str, Float[Tensor, "_ *many pos"]]
"""By order, as far as there are any; by question; by position."""


@dataclass(frozen=True, eq=False)
class Swept:
    """A question pulled up to the embeddings: what each thing on the way comes to in its answer.

    The first axis of everything is the order (heads between here and the question) where orders were asked for, as far as there are any; else it
    has one entry. The last is the position at which something was written.
    """

    q: Float[Tensor, "order *many pos d_model"]
    """The question about the embeddings (and about positions in the stream)."""
    given: ByPlace
    """What tokens' own embeddings (``embed``), and positions where they are in the stream (``positions``), come to."""
    constants: ByPlace
    """By name of the bias."""
    asked: Mapping[str, Float[Tensor, "*many"]]
    """Constants that the question brought with it."""
    writes: ByPlace
    """What each head (``L0H3``) and each feed-forward layer (``L0.feed_forward``) comes to by what it wrote at a position, through everything
    downstream: by this much the answer would fall if it had written nothing there and all else stayed frozen. Writes are made of earlier ones, so
    that these do not add up; tokens, positions and constants do."""
    layers: ByPlace
    """The same for all that a layer wrote (``L0``), as the layers after it see it."""
    size: Float[Tensor, "*many"]
    """Of what size the numbers are that were added up on the way, as ``headwater.trace.sizes`` has it."""

    def tokens(self) -> Float[Tensor, "*many pos"]:
        """What each token's own embedding comes to, over paths of all orders."""
        return self.given["embed"].sum(dim=0)

    def positions(self) -> Float[Tensor, "*many pos"] | None:
        """What each position's vector comes to; None where the model adds none to the stream."""
        return self.given["positions"].sum(dim=0) if "positions" in self.given else None

    def biases(self) -> dict[str, Float[Tensor, "*many"]]:
        """What each bias comes to, over all positions and orders."""
        return {**self.asked, **{name: value.sum(dim=(0, -1)) for name, value in self.constants.items()}}

    def orders(self) -> Float[Tensor, " order *many"]:
        """What paths from tokens and positions come to, by how many heads they go."""
        return torch.stack(list(self.given.values())).sum(dim=(0, -1))

    def answer(self) -> Float[Tensor, "*many"]:
        """All of it, added up in float64: the number that the model said."""
        return sum((value.double() for value in self.biases().values()), self.orders().double().sum(dim=0))


@dataclass(eq=False)
class _Sweep:
    """A question on its way upstream."""

    frozen: Frozen
    at: Tensor
    orders: bool
    given: dict[str, Tensor] = field(default_factory=dict[str, Tensor])
    constants: dict[str, Tensor] = field(default_factory=dict[str, Tensor])
    writes: dict[str, Tensor] = field(default_factory=dict[str, Tensor])
    layers: dict[str, Tensor] = field(default_factory=dict[str, Tensor])
    pending: dict[int, Tensor] = field(default_factory=dict[int, Tensor])
    """What components ask of the stages that they read."""
    size: Tensor | float = 0.0
    """The squares of all sizes so far."""

    @cached_property
    def sizes(self) -> Sizes:
        """Of what was written."""
        return Sizes(self.frozen)

    def take(self, step: Step, q: Covectors, alone: Covectors) -> tuple[Covectors, Covectors]:
        """Past one step; ``alone`` is the question that reaches it along the stream, past no other component of its layer."""
        if not isinstance(step, NormStep):
            self.size = self.size + (squares(q) * self.sizes.written(step, self.at)).sum(dim=(0, -1))
        match step:
            case Given(site=site):
                self.given[site] = (self.frozen.rows(site, self.at) * q).sum(dim=-1)
            case NormStep():
                return self._note(self.frozen.through(step, self.at, q)), self.frozen.through(step, self.at, alone).q
            case AttentionStep(layer=layer):
                weights = self.frozen.block(layer).attention
                wanted = wanted_of_heads(weights, q)
                heads = self.frozen.heads(layer, self.at, q, wanted)
                self.writes |= {f"L{layer}H{head}": heads[..., head, :] for head in range(heads.shape[-2])}
                self._add(layer, f"L{layer}.attention", alone)
                pattern = self.frozen.pattern(layer, self.at)
                self.size = self.size + self.sizes.of_heads(layer, self.at, wanted, shared(pattern)).sum(dim=(0, -1))
                pulled = self._note(through_heads(weights, pattern, wanted), layer)
                self._note(Pulled(q, of_output_bias(weights, q)), layer)
                self._ask(step, torch.cat([torch.zeros_like(pulled[:1]), pulled]) if self.orders else pulled)
            case FeedForwardStep(layer=layer):
                self.writes[f"L{layer}.feed_forward"] = (self.frozen.rows(f"L{layer}.feed_forward", self.at) * q).sum(dim=-1)
                self._add(layer, f"L{layer}.feed_forward", alone)
                weights = self.frozen.block(layer).feed_forward
                assert weights is not None, "a step that the model has"
                gates, neurons = self.frozen.opened(layer, self.at)
                self.size = self.size + self.sizes.of_neurons(layer, neurons, q).sum(dim=0)
                pulled = through_feed_forward(weights, gates, q)
                self._ask(step, self._note(pulled, layer))
        return q, alone

    def arrived(self, q: Covectors, asked: Mapping[str, Tensor]) -> Swept:
        """At the embeddings; ``asked`` are the constants that the question brought with it."""
        swept = Swept(
            q, self.given, self.constants, asked, _downstream(self.writes), _downstream(self.layers), torch.as_tensor(self.size)
        )
        biases = sum((value.double().square() for value in swept.biases().values()), swept.size)
        return replace(swept, size=torch.as_tensor(biases).sqrt())

    def _add(self, layer: int, site: str, alone: Covectors) -> None:
        written = (self.frozen.rows(site, self.at) * alone).sum(dim=-1)
        self.layers[f"L{layer}"] = self.layers.get(f"L{layer}", 0) + written

    def _ask(self, step: AttentionStep | FeedForwardStep, q: Covectors) -> None:
        """Of the stage that a component reads, through its norm."""
        pulled = self._note(self.frozen.through(step, self.at, q))
        self.pending[step.reads] = added(pulled, self.pending.get(step.reads))

    def _note(self, pulled: Pulled, layer: int | None = None) -> Covectors:
        """Write down what biases add, by their names in the model, and go on with the question."""
        for name, value in pulled.constants.items():
            # A norm's are named in full already; a head's is L0H3.b_V, its layer's L0.b_O.
            self.constants[name if layer is None else f"L{layer}{'' if name.startswith('H') else '.'}{name}"] = value
        return pulled.q


@torch.no_grad()
def sweep(record: Record, question: Question, *, orders: bool = False, listen: Callable[[], None] = lambda: None) -> Swept:
    """Pull a question up to the embeddings, through everything at once; ``listen`` is called between two steps, and may end it by an error.

    >>> from headwater.model.presets import named
    >>> from headwater.model.record import record
    >>> from headwater.model.weights import Weights
    >>> from headwater.trace.question import about_logit
    >>> run = record(Weights.draw(named("one-layer"), seed=0), torch.tensor([[1, 2, 3]]))
    >>> swept = sweep(run, about_logit(run, position=2, token=7))
    >>> bool(abs(swept.answer() - run.logits[0, 2, 7]) < 1e-5)
    True
    """
    steps, length = course(record.config), record.tokens.shape[1]
    *many, _, d_model = question.q.shape
    q = question.q.new_zeros(1, *many, length, d_model)
    q[0].index_add_(-2, question.at, question.q)
    on_its_way = _Sweep(Frozen(record), torch.arange(length, device=q.device), orders)
    alone, layer = q, None
    for stage in reversed(range(question.stage)):
        listen()
        step = steps[stage]
        q = added(q, on_its_way.pending.pop(stage + 1, None))
        if getattr(step, "layer", None) != layer:
            alone, layer = q, getattr(step, "layer", None)
        q, alone = on_its_way.take(step, q, alone)
    return on_its_way.arrived(q, question.constants)


def _downstream(names: dict[str, Tensor]) -> dict[str, Tensor]:
    """Layers in the order of the model, which a sweep goes against; within a layer as they are."""
    return dict(sorted(names.items(), key=lambda item: layer_of(item[0]) or 0))
