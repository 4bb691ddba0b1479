"""Where components touch the stream: what each one writes and what each one reads, as matrices that meet in d_model.

**As read.** A component of a pre-norm model reads the stream as ``x C diag(γ) W``, up to a positive scale for each position (``C``
takes out the mean and is there for LayerNorm only): its matrix is ``C diag(γ) W``. With LayerNorm what is written is centred too,
since nobody can read its mean. A post-norm model's matrices stand as they are: its norms are in the stream, and writes pass
through them (``arriving``). Biases and the turn of rotary positions are left out: one component does not hand them to another.

**When.** Attention of layer ``l`` reads and writes at stage ``2l``, its feed-forward layer at ``2l + 1`` (beside attention it reads at
``2l``); the embedding writes at −1, the unembedding reads at ``2 · layers``. A writer comes before a reader whose stage is above.
"""

from collections.abc import Callable, Iterator
from dataclasses import dataclass, replace
from functools import cached_property
from typing import Literal, TypeAlias

import torch
from einops import einsum, rearrange, repeat
from jaxtyping import Float
from torch import Tensor

from headwater.circuits.head import every_head
from headwater.circuits.norms import passage
from headwater.model.config import FeedForward, GatedFeedForward, LayerNorm, PostNorm, PreNorm
from headwater.model.positions import place
from headwater.model.weights import Weights

Mode: TypeAlias = Literal["Q", "K", "V"]
"""Which of a head's three readings."""


@dataclass(frozen=True, eq=False)
class Ports:
    """Components of one kind, in the order of their stages, each by its *Gram matrix* ``leftᵀ right`` (d_model × d_model).

    For a writer ``A`` it is ``Aᵀ A``, for a reader ``B`` it is ``B Bᵀ``: all that matters when lengths are compared. For ``A = W_V W_O``
    it is ``W_Oᵀ · (W_Vᵀ W_V) W_O``, so that only what touches the stream is d_model wide.
    """

    names: tuple[str, ...]
    stages: tuple[int, ...]
    left: Float[Tensor, "component inner d_model"]
    right: Float[Tensor, "component inner d_model"]

    def norms(self) -> Float[Tensor, " component"]:
        """The Frobenius norm of each component's matrix, in float64."""
        rows = einsum(self.left, self.right, "component inner d_model, component inner d_model -> component inner")
        return rows.sum(dim=1, dtype=torch.float64).clamp(min=0).sqrt()

    def where(self, chosen: Callable[[int], bool]) -> "Ports":
        """Those whose stage is chosen."""
        kept = [number for number, stage in enumerate(self.stages) if chosen(stage)]
        names, stages = tuple(self.names[n] for n in kept), tuple(self.stages[n] for n in kept)
        return Ports(names, stages, self.left[kept], self.right[kept])


@dataclass(frozen=True, eq=False)
class Heads:
    """The heads of one layer as read and as written, in float32 or float64; heads of a group each get its key and its value."""

    weights: Weights
    layer: int

    @cached_property
    def W_Q(self) -> Float[Tensor, "head d_model d_head"]:  # noqa: N802
        """``C diag(γ) W_Q``."""
        return self._read(self.weights.blocks[self.layer].attention.W_Q)

    @cached_property
    def W_K(self) -> Float[Tensor, "head d_model d_head"]:  # noqa: N802
        """``C diag(γ) W_K``."""
        return self._read(self.weights.blocks[self.layer].attention.W_K)

    @cached_property
    def W_V(self) -> Float[Tensor, "head d_model d_head"]:  # noqa: N802
        """``C diag(γ) W_V``."""
        return self._read(self.weights.blocks[self.layer].attention.W_V)

    @cached_property
    def W_O(self) -> Float[Tensor, "head d_head d_model"]:  # noqa: N802
        """``W_O C``."""
        return as_written(self.weights, self.weights.blocks[self.layer].attention.W_O)

    def _read(self, W: Float[Tensor, "any_head d_model d_head"]) -> Float[Tensor, "head d_model d_head"]:
        joined = rearrange(W, "any_head d_model d_head -> d_model (any_head d_head)")
        read = as_read(self.weights, f"L{self.layer}.attention", joined)
        group = self.weights.config.heads // len(W)
        return repeat(read, "d_model (any_head d_head) -> (any_head group) d_model d_head", any_head=len(W), group=group)


def as_read(weights: Weights, reader: str, W: Float[Tensor, "d_model column"]) -> Float[Tensor, "d_model column"]:
    """``C diag(γ) W`` where the model is pre-norm, else ``W``; ``reader`` is its place, ``"L0.attention"`` or ``"unembed"``."""
    return passage(weights, "embed", reader).pull(_wide(W)) if isinstance(weights.config.norm, PreNorm) else _wide(W)


def as_written(weights: Weights, W: Float[Tensor, "*any d_model"]) -> Float[Tensor, "*any d_model"]:
    """``W C`` where the model is pre-norm with LayerNorm, else ``W``."""
    wide = _wide(W)
    return wide - wide.mean(dim=-1, keepdim=True) if _is_centred(weights) else wide


def arriving(weights: Weights, writers: Ports, stage: int) -> Ports:
    """Those writers that come before a stage, as they arrive there: in a post-norm model they have passed norms."""
    before = writers.where(lambda written: written < stage)
    if not isinstance(weights.config.norm, PostNorm):
        return before
    ways = [passage(weights, _place(weights, written), _place(weights, stage)) for written in before.stages]
    sides = [
        torch.stack([way.push(rows) for way, rows in zip(ways, side, strict=True)])
        for side in (before.left, before.right)
        if ways
    ]
    return Ports(before.names, before.stages, *sides) if sides else before


def dimensions(weights: Weights) -> int:
    """Of the space in which writers and readers meet: d_model, or one less where LayerNorm takes a direction out of both."""
    return max(1, weights.config.d_model - _is_centred(weights))


def head_writers(weights: Weights) -> Ports:
    """``W_V W_O`` of every head."""
    return _of_heads(weights, lambda heads: (heads.W_V, heads.W_O))


def head_readers(weights: Weights, mode: Mode) -> Ports:
    """What every head reads in one of its three ways: ``W_Q W_Kᵀ``, ``W_K W_Qᵀ`` or ``W_V W_O``."""
    sides: dict[Mode, Callable[[Heads], tuple[Tensor, Tensor]]] = {
        "Q": lambda heads: (heads.W_K, heads.W_Q.mT),
        "K": lambda heads: (heads.W_Q, heads.W_K.mT),
        "V": lambda heads: (heads.W_O.mT, heads.W_V.mT),
    }
    ports = _of_heads(weights, sides[mode])
    return replace(ports, names=tuple(f"{name}.{mode}" for name in ports.names))


def other_writers(weights: Weights) -> Iterator[Ports]:
    """The embedding, positions in the stream, feed-forward layers."""
    yield _whole(("embed",), (-1,), as_written(weights, weights.W_E)[None])
    positions = place(weights, 0, weights.config.context).in_stream
    if positions is not None:
        yield _whole(("positions",), (-1,), as_written(weights, positions)[None])
    written = [as_written(weights, block.feed_forward.W_out) for block in weights.blocks if block.feed_forward]
    if written:
        names, stages = zip(*((f"L{layer}.feed_forward", 2 * layer + 1) for layer in range(len(written))), strict=True)
        yield _whole(names, stages, torch.stack(written))


def other_readers(weights: Weights) -> Iterator[Ports]:
    """Feed-forward layers (a gated one has a second reading, its gate), and the unembedding, centred over the vocabulary: a softmax
    cannot see the mean of all logits."""
    match weights.config.feed_forward:
        case None:
            pass
        case FeedForward():
            yield _of_layers(weights, "W_in", "feed_forward")
        case GatedFeedForward():
            yield _of_layers(weights, "W_in", "feed_forward")
            yield _of_layers(weights, "W_gate", "gate")
    seen = as_read(weights, "unembed", weights.W_U)
    yield _whole(("unembed",), (2 * weights.config.layers,), (seen - seen.mean(dim=1, keepdim=True)).mT[None])


def _of_layers(weights: Weights, symbol: str, word: str) -> Ports:
    """What every feed-forward layer reads by one of its matrices."""
    layers, feed_forward = range(weights.config.layers), weights.config.feed_forward
    late = feed_forward is not None and feed_forward.reads == "after-attention"
    names, stages = tuple(f"L{layer}.{word}" for layer in layers), tuple(2 * layer + late for layer in layers)
    read = [
        as_read(weights, f"L{layer}.feed_forward", getattr(weights.blocks[layer].feed_forward, symbol)).mT for layer in layers
    ]
    return _whole(names, stages, torch.stack(read))


def _of_heads(weights: Weights, sides: Callable[[Heads], tuple[Tensor, Tensor]]) -> Ports:
    """For each head the side that touches the stream, alone and with the far side's Gram matrix."""
    heads, config = every_head(weights.config), weights.config
    dtype = torch.promote_types(weights.dtype, torch.float32)
    left, right = weights.W_E.new_empty(2, len(heads), config.d_head, config.d_model, dtype=dtype)
    for layer in range(config.layers):
        far, near = sides(Heads(weights, layer))
        here = slice(layer * config.heads, (layer + 1) * config.heads)
        left[here], right[here] = near, (far.mT @ far) @ near
    return Ports(tuple(map(str, heads)), tuple(2 * head.layer for head in heads), left, right)


def _whole(names: tuple[str, ...], stages: tuple[int, ...], matrices: Float[Tensor, "component inner d_model"]) -> Ports:
    """Components with nothing on their far side."""
    return Ports(names, stages, matrices, matrices)


def _place(weights: Weights, stage: int) -> str:
    """The name of the place that reads or writes at a stage."""
    if stage < 0 or stage == 2 * weights.config.layers:
        return "embed" if stage < 0 else "unembed"
    return f"L{stage // 2}.{'feed_forward' if stage % 2 else 'attention'}"


def _is_centred(weights: Weights) -> bool:
    norm = weights.config.norm
    return isinstance(norm, PreNorm) and isinstance(norm.norm, LayerNorm)


def _wide(tensor: Tensor) -> Tensor:
    """In float32 at least."""
    return tensor.to(torch.promote_types(tensor.dtype, torch.float32))
