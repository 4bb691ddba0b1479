"""The cores of all heads of a model at once: OV and QK from tokens to tokens, the same circuits that ``headwater.circuits.tables`` makes.

All layers that read the embedding alike are one family. In a model without positions in its stream and with norms before its
readers, layer 0 reads each token at that token's own scale and is a family by itself.
"""

from collections.abc import Sequence
from dataclasses import dataclass, replace

import torch
from jaxtyping import Float
from torch import Tensor

from headwater.circuits.bases import Basis, Reader, widened
from headwater.circuits.factored import Factored
from headwater.circuits.families import Cores, Family, cores
from headwater.circuits.head import Head, HeadName, every_head, find_head
from headwater.circuits.norms import Scaling, passage
from headwater.circuits.tables import ov
from headwater.model.positions import place
from headwater.model.weights import Weights


@dataclass(frozen=True, eq=False)
class Heads:
    """A family of circuits, and the heads that they belong to."""

    heads: tuple[Head, ...]
    family: Family

    def only(self, wanted: Sequence[Head]) -> "Heads":
        """Those of some heads."""
        numbers = [number for number, head in enumerate(self.heads) if head in wanted]
        family = replace(self.family, left=self.family.left[numbers], right=self.family.right[numbers])
        return Heads(tuple(self.heads[number] for number in numbers), family)


def ov_families(weights: Weights, *, scales: Scaling = "one") -> list[Heads]:
    """``W_E W_V W_O W_U`` of every head."""
    weights, layers = widened(weights), list[Heads]()
    for layer, block in enumerate(weights.blocks):
        rows = Reader(weights, f"L{layer}.attention", scales).basis("tokens")
        way = passage(weights, f"L{layer}.attention", "unembed", scales)
        values = _for_each_head(weights, block.attention.W_V)
        left = torch.stack([rows.passage.pull(W_V) for W_V in values])
        right = torch.stack([way.push(W_O) for W_O in block.attention.W_O])
        layers.append(Heads(_heads(weights, layer), Family(_vectors(rows), left, right, weights.W_U)))
    return _merged(layers)


def qk_families(weights: Weights, *, offset: int = 0, scales: Scaling = "one") -> list[Heads]:
    """``W_E W_Q (W_E W_K)ᵀ · scale`` of every head; rotary positions as they stand ``offset`` apart."""
    weights, layers = widened(weights), list[Heads]()
    for layer, block in enumerate(weights.blocks):
        rows = Reader(weights, f"L{layer}.attention", scales, reads_marks=True).basis("tokens")
        keys = _for_each_head(weights, block.attention.W_K)
        left = torch.stack([rows.passage.pull(_turned(weights, W_Q, max(offset, 0))) for W_Q in block.attention.W_Q])
        right = torch.stack([rows.passage.pull(_turned(weights, W_K, max(-offset, 0))).T for W_K in keys])
        tokens = _vectors(rows)
        layers.append(Heads(_heads(weights, layer), Family(tokens, left * _scale(weights), right, tokens.T)))
    return _merged(layers)


def ov_cores(weights: Weights, heads: Sequence[Head] | None = None, *, scales: Scaling = "one") -> dict[Head, Cores]:
    """What the cores of OV circuits say, unless told otherwise of all.

    >>> from headwater.model.presets import named
    >>> ov_cores(Weights.draw(named("one-layer"), seed=0))[Head(0, 3)].raw.eigenvalues.shape
    torch.Size([32])
    """
    return _cores(ov_families(weights, scales=scales), heads)


def qk_cores(
    weights: Weights, heads: Sequence[Head] | None = None, *, offset: int = 0, scales: Scaling = "one"
) -> dict[Head, Cores]:
    """What the cores of QK circuits say, unless told otherwise of all."""
    return _cores(qk_families(weights, offset=offset, scales=scales), heads)


def joined_ov_cores(weights: Weights, heads: Sequence[HeadName], *, scales: Scaling = "one") -> Cores:
    """What the core of several heads' OV circuits says, added up."""
    chosen = [find_head(head, weights.config) for head in heads]
    for group in ov_families(weights, scales=scales):
        if set(chosen) <= set(group.heads):
            return group.family.joined([group.heads.index(head) for head in chosen]).cores()[0]
    # Heads that read the embedding in different ways are no family; then the stream is not known either.
    return cores(Factored.sum([ov(weights, head, scales=scales) for head in chosen]))


def _cores(groups: list[Heads], heads: Sequence[Head] | None) -> dict[Head, Cores]:
    if heads is not None:
        groups = [some for some in (group.only(heads) for group in groups) if some.heads]
    return {head: found for group in groups for head, found in zip(group.heads, group.family.cores(), strict=True)}


def _merged(layers: list[Heads]) -> list[Heads]:
    """Layers that have their rows in common, together."""
    groups: list[list[Heads]] = []
    for layer in layers:
        known = next((group for group in groups if group[0].family.rows is layer.family.rows), None)
        if known is None:
            groups.append([layer])
        else:
            known.append(layer)
    return [_joined(group) for group in groups]


def _joined(group: list[Heads]) -> Heads:
    """One family of all."""
    left, right = torch.cat([one.family.left for one in group]), torch.cat([one.family.right for one in group])
    heads = tuple(head for one in group for head in one.heads)
    return Heads(heads, replace(group[0].family, left=left, right=right))


def _heads(weights: Weights, layer: int) -> tuple[Head, ...]:
    return tuple(head for head in every_head(weights.config) if head.layer == layer)


def _for_each_head(weights: Weights, W: Float[Tensor, "key_head d_model d_head"]) -> Float[Tensor, "head d_model d_head"]:
    """Grouped keys and values, handed to every head of their group."""
    return W.repeat_interleave(weights.config.heads // len(W), dim=0)


def _vectors(rows: Basis) -> Float[Tensor, "line d_model"]:
    return rows.vectors if rows.own_scales is None else rows.vectors * rows.own_scales[:, None]


def _scale(weights: Weights) -> float:
    assert weights.config.attention is not None, "whoever has heads has attention"
    return weights.config.attention.scale


def _turned(weights: Weights, W: Float[Tensor, "d_model d_head"], offset: int) -> Float[Tensor, "d_model d_head"]:
    """As rotary positions turn what this matrix makes; other positions turn nothing."""
    turn = place(weights, offset, 1).turn
    return W if turn is None else turn(W[:, None, None])[:, 0, 0]
