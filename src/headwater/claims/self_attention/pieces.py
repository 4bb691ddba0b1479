"""What the checks of document 003 are made of: one head as wide as its stream, heads without a mask, a post-norm block."""

from collections.abc import Iterator
from dataclasses import dataclass, replace

import torch
from jaxtyping import Float
from torch import Tensor

from headwater.claims.given import SMALL, Given
from headwater.model.attention import Mixed, Rule, Sources, blockwise, four_steps, fused, matrix
from headwater.model.config import Attention, FeedForward, PostNorm
from headwater.shapes import Queries

HEADS = replace(SMALL, attention=Attention(heads=3, d_head=4, mask="full"))
"""Sums over all N positions, as document 003 writes them."""
WIDE = replace(SMALL, attention=Attention(heads=1, d_head=SMALL.d_model, mask="full"))
"""One head whose outputs are as wide as its inputs, so that the two can be compared."""
BLOCK = replace(SMALL, feed_forward=FeedForward(d_mlp=10), norm=PostNorm())
"""The block of Theorem 1."""


@dataclass(frozen=True, eq=False)
class OneHead:
    """Inputs, weights ``a_nm`` and outputs of a head, as the model computed them, and its matrices."""

    x: Float[Tensor, "pos d_model"]
    a: Float[Tensor, "dest source"]
    y: Float[Tensor, "pos d_head"]
    W_V: Float[Tensor, "d_model d_head"]


def one_head(given: Given) -> OneHead:
    """The one head of a drawn model."""
    model = given.drawn(WIDE)
    run = model.record(given.ids())
    W_V = model.weights.blocks[0].attention.W_V[0]
    return OneHead(x=run["L0.attention_input"][0], a=run["L0.pattern"][0, 0], y=run["L0.mixed"][0, 0], W_V=W_V)


def every_form(q: Queries, k: Sources, v: Sources, rule: Rule) -> Iterator[Mixed]:
    """The same attention as the documents' four steps, as matrices, in blocks of four keys, and as PyTorch has it."""
    yield four_steps(q, k, v, rule)
    yield matrix(q, k, v, rule)
    yield blockwise(q, k, v, rule, size=4)
    yield fused(q, k, v, rule)


def drawn(*shape: int, seed: int = 0) -> Tensor:
    """Normal numbers in double precision."""
    return torch.randn(shape, generator=torch.Generator().manual_seed(seed), dtype=torch.float64)


def apart(one: Tensor, other: Tensor) -> float:
    """The largest difference between two tensors of the same shape."""
    assert one.shape == other.shape, f"{list(one.shape)} beside {list(other.shape)}"
    return float((one - other).abs().max())


def length(vectors: Tensor) -> Tensor:
    """The Euclidean norm along the last axis."""
    return vectors.square().sum(dim=-1).sqrt()
