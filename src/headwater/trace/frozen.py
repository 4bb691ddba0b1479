"""What a run measured and a question on its way upstream holds fixed: patterns, scales of norms, gates; where it passes, no further.

Nothing here is as large as a whole pattern unless all positions are asked for.
"""

from contextlib import suppress
from dataclasses import dataclass, field
from functools import cached_property

import torch
from einops import einsum
from jaxtyping import Float, Int
from torch import Tensor

from headwater.model.attention import Rule, scores
from headwater.model.config import NoNorm, PostNorm
from headwater.model.forward import Block
from headwater.model.positions import Placed, for_each_head
from headwater.model.record import Record
from headwater.model.taps import NOBODY, Chain, Enough, Fetcher, Look, Recorder
from headwater.model.weights import BlockWeights
from headwater.shapes import whole
from headwater.text.spoken import Spoken
from headwater.trace.course import AttentionStep, FeedForwardStep, NormStep
from headwater.trace.pull import Covectors, Pulled, through_norm

Rows = Int[Tensor, " row"]
"""The positions that a question is about."""


@dataclass(frozen=True, eq=False)
class Frozen:
    """A record of one text, held fixed, and the words for its tokens."""

    record: Record
    words: Spoken = field(default_factory=lambda: Spoken(None))

    @cached_property
    def ids(self) -> list[int]:
        """The tokens of the text."""
        return whole(self.record.tokens[0])

    def place(self, position: int) -> str:
        """A position with the token that stands there: ``‘one’@0``."""
        return f"{self.words(self.ids[position])}@{position}"

    @property
    def edited(self) -> bool:
        """Whether something intervened in the run."""
        return self.record.tap is not NOBODY

    def block(self, layer: int) -> BlockWeights:
        """A block's weights."""
        return self.record.weights.blocks[layer]

    def rows(self, site: str, at: Rows) -> Tensor:
        """What a site held at some positions."""
        value = self.record[site]
        # Positions are the same for all texts.
        return (value if site == "positions" else value[0])[at]

    def heads(
        self, layer: int, at: Rows, q: Covectors, wanted: Float[Tensor, "*many head row d_head"]
    ) -> Float[Tensor, "*many head row"]:
        """What each head of a layer has in the answer to a question by what it wrote at each position; ``wanted`` is ``W_O q``."""
        if self.record.tap.wants(f"L{layer}.head_writes"):
            return (self.record[f"L{layer}.head_writes"][0][:, at] * q[..., None, :, :]).sum(dim=-1)
        return (self.mixed(layer, at) * wanted).sum(dim=-1)

    def sources(
        self, layer: int, at: Rows, wanted: Float[Tensor, "head row d_head"]
    ) -> tuple[Float[Tensor, "head source"], Float[Tensor, "head source"]]:
        """What each head has in an answer from each position that it read, without ``b_V``; and the attention that it paid to it."""
        weights, values = self.block(layer).attention, self.record[f"L{layer}.values"]
        if weights.b_V is not None:
            values = values - weights.b_V[:, None]
        pattern = self.pattern(layer, at)
        said = einsum(wanted, for_each_head(values, len(pattern))[0], "head row d_head, head source d_head -> head row source")
        return (pattern * said).sum(dim=1), pattern.sum(dim=1)

    def mixed(self, layer: int, at: Rows) -> Float[Tensor, "head row d_head"]:
        """What each head of a layer mixed."""
        return self.record[f"L{layer}.mixed"][0][:, at]

    def pattern(self, layer: int, at: Rows) -> Float[Tensor, "head row source"]:
        """Where the heads of a layer looked from some positions."""
        record, attention = self.record, self.record.config.attention
        assert attention is not None, "asked only where there are heads"
        site = f"L{layer}.pattern"
        if site in record.kept or record.tap.wants(site) or record.tap.wants(f"L{layer}.scores"):
            return record[site][0][:, at]
        made = record.together([f"L{layer}.queries", f"L{layer}.keys"])
        q, k = made[f"L{layer}.queries"][:, :, at], for_each_head(made[f"L{layer}.keys"], attention.heads)
        return scores(q, k, Rule(attention.mask, attention.scale), at)[0].softmax(dim=-1)

    @torch.no_grad()
    def gates(self, layer: int, at: Rows) -> Float[Tensor, "row d_mlp"]:
        """What the neurons of a layer were multiplied by."""
        return self._feed_forward(layer, "gates", at)

    @torch.no_grad()
    def neurons(self, layer: int, at: Rows) -> Float[Tensor, "row d_mlp"]:
        """What the neurons of a layer said."""
        return self._feed_forward(layer, "neurons", at)

    def _feed_forward(self, layer: int, what: str, at: Rows) -> Tensor:
        """A site of a feed-forward layer at some positions only; an intervention may look at all of them, so that it gets all."""
        record, site = self.record, f"L{layer}.{what}"
        if site in record.kept or self.edited:
            return self.rows(site, at)
        fetcher = Fetcher([site])
        look = Look(Chain(Recorder(["*.scale", "*.gates"]), fetcher), f"L{layer}.")
        block = Block(record.config, self.block(layer), Placed(), look)
        x = self.rows(f"L{layer}.in", at)[None]
        if not block.is_parallel:
            x = x + self.rows(f"L{layer}.attention", at)
        with suppress(Enough):
            block.feed_forward(block.norm_1(x) if isinstance(record.config.norm, PostNorm) else block.norm_2(x))
        return fetcher.kept[site][0]

    def through(self, step: AttentionStep | FeedForwardStep | NormStep, at: Rows, q: Covectors) -> Pulled:
        """Through the norm of a step, if it has one; constants go by the norm's name."""
        norm = self.record.config.norm
        if step.norm is None or isinstance(norm, NoNorm):
            return Pulled(q, {})
        name = f"L{step.layer}.{step.norm}"
        pulled = through_norm(norm.norm, self.record.weights.norm(name), self.rows(f"{name}.scale", at), q)
        return Pulled(pulled.q, {f"{name}.{bias}": value for bias, value in pulled.constants.items()})
