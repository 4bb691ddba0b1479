"""What a run measured and a question on its way upstream holds fixed: patterns, scales of norms, gates; where it passes, no further.

Nothing here is as large as a whole pattern unless all positions are asked for.
"""

from collections.abc import Sequence
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
from headwater.shapes import floats, whole
from headwater.text.spoken import Spoken
from headwater.trace.course import AttentionStep, FeedForwardStep, NormStep
from headwater.trace.pull import Covectors, Pulled, through_norm

Rows = Int[Tensor, " row"]
"""The positions that a question is about."""


@dataclass(frozen=True, eq=False)
class Looked:
    """What heads read from each source."""

    values: Float[Tensor, "head source"]
    attention: Float[Tensor, "head source"] | None
    """None from several destinations: each has its own."""

    def paid(self, head: int) -> Sequence[float | None]:
        """The attention of a head to each source, for Python."""
        return [None] * self.values.shape[1] if self.attention is None else floats(self.attention[head])


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

    def sources(self, layer: int, at: Rows, wanted: Float[Tensor, "head row d_head"]) -> Looked:
        """What each head has in an answer from each position that it read, without ``b_V``; and the attention that it paid to it."""
        weights, values = self.block(layer).attention, self.record[f"L{layer}.values"]
        if weights.b_V is not None:
            values = values - weights.b_V[:, None]
        pattern = self.pattern(layer, at)
        said = einsum(wanted, for_each_head(values, len(pattern))[0], "head row d_head, head source d_head -> head row source")
        return Looked((pattern * said).sum(dim=1), pattern[:, 0] if len(at) == 1 else None)

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
        return self._feed_forward(layer, ["gates"], at)[0]

    @torch.no_grad()
    def neurons(self, layer: int, at: Rows) -> Float[Tensor, "row d_mlp"]:
        """What the neurons of a layer said."""
        return self._feed_forward(layer, ["neurons"], at)[0]

    @torch.no_grad()
    def opened(self, layer: int, at: Rows) -> tuple[Float[Tensor, "row d_mlp"], Float[Tensor, "row d_mlp"]]:
        """Both of them: gates and neurons."""
        gates, neurons = self._feed_forward(layer, ["gates", "neurons"], at)
        return gates, neurons

    def _feed_forward(self, layer: int, what: list[str], at: Rows) -> list[Tensor]:
        """Sites of a feed-forward layer at some positions only; an intervention may look at all of them, so that it gets all."""
        record, sites = self.record, [f"L{layer}.{each}" for each in what]
        found = {site: self.rows(site, at) for site in sites if self.edited or site in record.kept}
        if len(found) == len(sites):
            return [found[site] for site in sites]
        fetcher = Fetcher([site for site in sites if site not in found])
        look = Look(Chain(Recorder(["*.scale", "*.gates"]), fetcher), f"L{layer}.")
        block = Block(record.config, self.block(layer), Placed(), look)
        x = self.rows(f"L{layer}.in", at)[None]
        if not block.is_parallel:
            x = x + self.rows(f"L{layer}.attention", at)
        with suppress(Enough):
            block.feed_forward(block.norm_1(x) if isinstance(record.config.norm, PostNorm) else block.norm_2(x))
        found |= {site: value[0] for site, value in fetcher.kept.items()}
        return [found[site] for site in sites]

    def through(self, step: AttentionStep | FeedForwardStep | NormStep, at: Rows, q: Covectors) -> Pulled:
        """Through the norm of a step, if it has one; constants go by the norm's name."""
        norm = self.record.config.norm
        if step.norm is None or isinstance(norm, NoNorm):
            return Pulled(q, {})
        name = f"L{step.layer}.{step.norm}"
        pulled = through_norm(norm.norm, self.record.weights.norm(name), self.rows(f"{name}.scale", at), q)
        return Pulled(pulled.q, {f"{name}.{bias}": value for bias, value in pulled.constants.items()})
