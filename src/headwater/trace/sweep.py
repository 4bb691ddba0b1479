"""One sweep upstream: what a question comes to at the embeddings, and what every bias on the way adds."""

from collections.abc import Mapping
from dataclasses import dataclass, field

import torch
from einops import einsum
from jaxtyping import Float
from torch import Tensor

from headwater.model.config import NoNorm, PostNorm
from headwater.model.record import Record
from headwater.shapes import Stream
from headwater.trace.pull import Constants, Pulled, through_attention, through_feed_forward, through_norm
from headwater.trace.question import Question


@dataclass(frozen=True, eq=False)
class Swept:
    """A question about the end of a run, as a question about its embeddings."""

    record: Record
    question: Stream
    """About what the embedding (and positions in the stream) wrote."""
    constants: Mapping[str, Float[Tensor, "batch pos"]]
    """By name of the bias, at the position where it was added."""
    writes: Mapping[str, Float[Tensor, "batch pos"]]
    """What each head (``L0H3``) and each feed-forward layer (``L0.feed_forward``) comes to by what it wrote at a position, through everything
    downstream: by this much the answer would fall if it had written nothing there and all else stayed frozen. Writes are made of earlier ones, so
    that these do not add up; tokens, positions and constants do."""

    def tokens(self) -> Float[Tensor, "batch pos"]:
        """What each token's own embedding comes to in the answer, through everything downstream."""
        return (self.record["embed"] * self.question).sum(dim=-1)

    def positions(self) -> Float[Tensor, "batch pos"] | None:
        """What each position's vector comes to; None where the model adds none to the stream."""
        if "positions" not in self.record:
            return None
        return (self.record["positions"] * self.question).sum(dim=-1)

    def answer(self) -> Float[Tensor, " batch"]:
        """All of it, added up: the number that the model said."""
        parts = [self.tokens(), *self.constants.values()]
        at = self.positions()
        return torch.stack([*parts, *([] if at is None else [at])]).sum(dim=(0, 2))


@dataclass(eq=False)
class _Sweep:
    """A question on its way upstream."""

    record: Record
    constants: Constants
    writes: Constants = field(default_factory=dict[str, Tensor])

    def note(self, place: str, pulled: Pulled) -> Stream:
        """Write down what biases add, and go on with the question."""
        self.constants |= {f"{place}.{name}": value for name, value in pulled.constants.items()}
        return pulled.question

    def norm(self, layer: int, which: str, q: Stream) -> Stream:
        """Through one of a block's norms; without norms nothing happens."""
        norm, block = self.record.config.norm, self.record.weights.blocks[layer]
        if isinstance(norm, NoNorm):
            return q
        weights = block.norm_1 if which == "norm_1" else block.norm_2
        scale = self.record[f"L{layer}.{which}.scale"]
        return self.note(f"L{layer}.{which}", through_norm(norm.norm, weights, scale, q))

    def attention(self, layer: int, q: Stream) -> Stream:
        """Through a layer's heads."""
        weights, pattern = self.record.weights.blocks[layer].attention, self.record[f"L{layer}.pattern"]
        wanted = einsum(q, weights.W_O, "batch pos d_model, head d_head d_model -> batch head pos d_head")
        each = (self.record[f"L{layer}.mixed"] * wanted).sum(dim=-1)
        self.writes |= {f"L{layer}H{head}": each[:, head] for head in range(each.shape[1])}
        return self.note(f"L{layer}", through_attention(weights, pattern, q))

    def feed_forward(self, layer: int, q: Stream) -> Stream:
        """Through a feed-forward layer."""
        weights = self.record.weights.blocks[layer].feed_forward
        assert weights is not None, "asked only where there is a feed-forward layer"
        self.writes[f"L{layer}.feed_forward"] = (self.record[f"L{layer}.feed_forward"] * q).sum(dim=-1)
        return self.note(f"L{layer}", through_feed_forward(weights, self.record[f"L{layer}.gates"], q))

    def block(self, layer: int, q: Stream) -> Stream:
        """From what a block leaves to what it got."""
        layer_config, is_post = self.record.config.feed_forward, isinstance(self.record.config.norm, PostNorm)
        if is_post:
            if layer_config is not None:
                q = self.norm(layer, "norm_2", q)
                q = q + self.feed_forward(layer, q)
            q = self.norm(layer, "norm_1", q)
            return q + self.attention(layer, q)
        after = q
        if layer_config is not None:
            after = q + self.norm(layer, "norm_2", self.feed_forward(layer, q))
        beside = layer_config is not None and layer_config.reads == "beside-attention"
        return after + self.norm(layer, "norm_1", self.attention(layer, q if beside else after))


@torch.no_grad()
def sweep(record: Record, question: Question) -> Swept:
    """Pull a question up to the embeddings, through everything at once: what meets at one place is added up there.

    >>> from headwater.model.presets import named
    >>> from headwater.model.record import record
    >>> from headwater.model.weights import Weights
    >>> from headwater.trace.question import about_logit
    >>> run = record(Weights.draw(named("one-layer"), seed=0), torch.tensor([[1, 2, 3]]))
    >>> swept = sweep(run, about_logit(run, position=2, token=7))
    >>> bool(abs(swept.answer() - run.logits[0, 2, 7]) < 1e-5)
    True
    """
    on_its_way, q = _Sweep(record, dict(question.constants)), question.about
    for layer in reversed(range(record.config.layers)):
        q = on_its_way.block(layer, q)
    return Swept(record, q, on_its_way.constants, on_its_way.writes)
