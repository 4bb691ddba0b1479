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
from typing import Any, Literal, TypeAlias

import torch
from einops import einsum, rearrange
from jaxtyping import Float
from torch import Tensor

from headwater.circuits.head import every_head
from headwater.circuits.norms import passage
from headwater.model.config import FeedForward, GatedFeedForward, LayerNorm, PostNorm, PreNorm
from headwater.model.positions import place
from headwater.model.weights import Weights

_linalg: Any = torch.linalg  # it has no types

Mode: TypeAlias = Literal["Q", "K", "V"]
"""Which of a head's three readings."""


@dataclass(frozen=True, eq=False)
class Ports:
    """Components of one kind, in the order of their stages.

    Only ``factorᵀ factor`` (d_model × d_model) matters when lengths are compared, so whatever stands on the far side of the stream
    is there as a root of its Gram matrix: ``W_V W_O`` is given by ``R W_O`` with ``Rᵀ R = W_Vᵀ W_V``. Readers are transposed.
    """

    names: tuple[str, ...]
    stages: tuple[int, ...]
    factors: Float[Tensor, "component inner d_model"]

    def norms(self) -> Float[Tensor, " component"]:
        """The Frobenius norm of each component's matrix, in float64."""
        return _linalg.vector_norm(self.factors, dim=(1, 2), dtype=torch.float64)

    def where(self, chosen: Callable[[int], bool]) -> "Ports":
        """Those whose stage is chosen."""
        kept = [number for number, stage in enumerate(self.stages) if chosen(stage)]
        return Ports(tuple(self.names[n] for n in kept), tuple(self.stages[n] for n in kept), self.factors[kept])


@dataclass(frozen=True, eq=False)
class HeadMatrices:
    """The heads of one layer as read and as written; grouped keys and values are handed to every head of their group."""

    W_Q: Float[Tensor, "head d_model d_head"]
    W_K: Float[Tensor, "head d_model d_head"]
    W_V: Float[Tensor, "head d_model d_head"]
    W_O: Float[Tensor, "head d_head d_model"]


def heads_of(weights: Weights, layer: int) -> HeadMatrices:
    """All heads of a layer, in float32 or float64."""
    attention, heads = weights.blocks[layer].attention, weights.config.heads

    def read(W: Float[Tensor, "any_head d_model d_head"]) -> Float[Tensor, "head d_model d_head"]:
        joined = as_read(weights, f"L{layer}.attention", rearrange(W, "any_head d_model d_head -> d_model (any_head d_head)"))
        each = rearrange(joined, "d_model (any_head d_head) -> any_head d_model d_head", any_head=len(W))
        return each.repeat_interleave(heads // len(W), dim=0)

    return HeadMatrices(read(attention.W_Q), read(attention.W_K), read(attention.W_V), as_written(weights, attention.W_O))


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
    carried = [
        passage(weights, _place(weights, written), _place(weights, stage)).push(factor)
        for written, factor in zip(before.stages, before.factors, strict=True)
    ]
    return replace(before, factors=torch.stack(carried)) if carried else before


def dimensions(weights: Weights) -> int:
    """Of the space in which writers and readers meet: d_model, or one less where LayerNorm takes a direction out of both."""
    return weights.config.d_model - _is_centred(weights)


def head_writers(weights: Weights) -> Ports:
    """``W_V W_O`` of every head."""
    return _of_heads(weights, lambda heads: (heads.W_V, heads.W_O))


def head_readers(weights: Weights, mode: Mode) -> Ports:
    """What every head reads in one of its three ways: ``W_Q W_Kᵀ``, ``W_K W_Qᵀ`` or ``W_V W_O``."""
    sides: dict[Mode, Callable[[HeadMatrices], tuple[Tensor, Tensor]]] = {
        "Q": lambda heads: (heads.W_K, heads.W_Q.mT),
        "K": lambda heads: (heads.W_Q, heads.W_K.mT),
        "V": lambda heads: (heads.W_O.mT, heads.W_V.mT),
    }
    ports = _of_heads(weights, sides[mode])
    return replace(ports, names=tuple(f"{name}.{mode}" for name in ports.names))


def other_writers(weights: Weights) -> Iterator[Ports]:
    """The embedding, positions in the stream, feed-forward layers."""
    yield Ports(("embed",), (-1,), as_written(weights, weights.W_E)[None])
    positions = place(weights, 0, weights.config.context).in_stream
    if positions is not None:
        yield Ports(("positions",), (-1,), as_written(weights, positions)[None])
    written = [as_written(weights, block.feed_forward.W_out) for block in weights.blocks if block.feed_forward]
    if written:
        names, stages = zip(*((f"L{layer}.feed_forward", 2 * layer + 1) for layer in range(len(written))), strict=True)
        yield Ports(names, stages, torch.stack(written))


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
    yield Ports(("unembed",), (2 * weights.config.layers,), (seen - seen.mean(dim=1, keepdim=True)).mT[None])


def _of_layers(weights: Weights, symbol: str, word: str) -> Ports:
    """What every feed-forward layer reads by one of its matrices."""
    layers, feed_forward = range(weights.config.layers), weights.config.feed_forward
    late = feed_forward is not None and feed_forward.reads == "after-attention"
    names, stages = tuple(f"L{layer}.{word}" for layer in layers), tuple(2 * layer + late for layer in layers)
    read = [
        as_read(weights, f"L{layer}.feed_forward", getattr(weights.blocks[layer].feed_forward, symbol)).mT for layer in layers
    ]
    return Ports(names, stages, torch.stack(read))


def _of_heads(weights: Weights, sides: Callable[[HeadMatrices], tuple[Tensor, Tensor]]) -> Ports:
    """For each head the side that touches the stream, times a root of the far side's Gram matrix."""
    heads, config = every_head(weights.config), weights.config
    factors = weights.W_E.new_zeros(len(heads), config.d_head, config.d_model, dtype=_wide(weights.W_E[:0]).dtype)
    for layer in range(config.layers):
        factors[layer * config.heads : (layer + 1) * config.heads] = _reduced(*sides(heads_of(weights, layer)))
    return Ports(tuple(map(str, heads)), tuple(2 * head.layer for head in heads), factors)


def _reduced(
    far: Float[Tensor, "head far d_head"], near: Float[Tensor, "head d_head d_model"]
) -> Float[Tensor, "head d_head d_model"]:
    """``R near`` with ``Rᵀ R = farᵀ far``: as long as ``far near`` in every direction of the stream."""
    far = far.double()
    gram = einsum(far, far, "head far row, head far column -> head row column")
    return (_root(gram) @ near.double()).to(near.dtype)


def _root(gram: Float[Tensor, "head row column"]) -> Float[Tensor, "head row column"]:
    """``R`` with ``Rᵀ R = gram``."""
    lower, failed = _linalg.cholesky_ex(gram)
    if not bool(failed.any()):
        return lower.mT
    # Some head does not use all of its dimensions.
    values, vectors = _linalg.eigh(gram)
    return values.clamp(min=0).sqrt()[..., None] * vectors.mT


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
