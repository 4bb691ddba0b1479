"""A block written out from its tensors, as the equations 10.32 to 10.37 say it: what Headwater's own pass is held against."""

from dataclasses import replace

import torch
from jaxtyping import Float
from torch import Tensor

from headwater.api import Model
from headwater.model.config import Attention, FeedForward, ModelConfig, NoNorm, PostNorm, PreNorm

Positions = Float[Tensor, "pos d_model"]
One = Float[Tensor, " d_model"]

POST = ModelConfig(
    vocab=17,
    context=16,
    d_model=12,
    layers=1,
    attention=Attention(heads=3, d_head=5, input_bias=True, output_bias=True),
    feed_forward=FeedForward(d_mlp=20),
    norm=PostNorm(),
)
"""The documents' block; no two sizes are equal, and the heads together are not as wide as the stream."""
FULL = replace(POST, attention=Attention(heads=3, d_head=5, mask="full", input_bias=True, output_bias=True))
"""The same block where every token sees every other."""
PRE, BARE = replace(POST, norm=PreNorm()), replace(POST, norm=NoNorm())
"""The same block with the norms before its components, and without any."""


def tensors_of(model: Model, part: str) -> dict[str, Tensor]:
    """The tensors of one part of the first block (``attn``, ``mlp``, ``ln1``, ``ln2``) by their symbols."""
    prefix = f"blocks.0.{part}."
    return {name.removeprefix(prefix): tensor for name, tensor in model.weights.tensors().items() if name.startswith(prefix)}


def multi_head(model: Model, x_i: One, xs: Positions) -> One:
    """``MultiHeadAttention(x_i, [x_1 … x_N])``, head by head: a query, and for each token a key and a value."""
    its = tensors_of(model, "attn")
    written = its["b_O"]
    for head in range(model.config.heads):
        query = x_i @ its["W_Q"][head] + its["b_Q"][head]
        keys = [x_j @ its["W_K"][head] + its["b_K"][head] for x_j in xs]
        values = [x_j @ its["W_V"][head] + its["b_V"][head] for x_j in xs]
        raised = [torch.exp(query @ key / model.config.d_head**0.5) for key in keys]
        mixed = sum((e * value for e, value in zip(raised, values, strict=True)), torch.zeros_like(query)) / sum(raised)
        written = written + mixed @ its["W_O"][head]
    return written


def attend(model: Model, xs: Positions) -> Positions:
    """Every token's output; it sees itself and what precedes it, as the mask of a language model allows."""
    return torch.stack([multi_head(model, xs[i], xs[: i + 1]) for i in range(len(xs))])


def normed(t: Float[Tensor, "*any d_model"], eps: float = 1e-5) -> Float[Tensor, "*any d_model"]:
    """``(t − mean) / √(variance + eps)``, the variance being ``1/d Σ (t − mean)²``."""
    away = t - t.sum(dim=-1, keepdim=True) / t.shape[-1]
    return away / (away.square().sum(dim=-1, keepdim=True) / t.shape[-1] + eps) ** 0.5


def layer_norm(model: Model, which: str, t: Positions) -> Positions:
    """That, times the gain, plus the bias of the first block's ``ln1`` or ``ln2``."""
    its = tensors_of(model, which)
    return normed(t) * its["w"] + its["b"]


def feed_forward(model: Model, t: Positions) -> Positions:
    """``W_2 · ReLU(W_1 t + b_1) + b_2``, with columns multiplied from the left as in the documents."""
    its = tensors_of(model, "mlp")
    W_1, W_2 = its["W_in"].T, its["W_out"].T
    return torch.stack([W_2 @ torch.clamp(W_1 @ column + its["b_in"], min=0) + its["b_out"] for column in t])


def post_norm(model: Model, x: Positions) -> dict[str, Positions]:
    """``t1 … t5, h`` of equations 10.32 to 10.37."""
    t1 = attend(model, x)
    t2 = t1 + x
    t3 = layer_norm(model, "ln1", t2)
    t4 = feed_forward(model, t3)
    t5 = t4 + t3
    return {"t1": t1, "t2": t2, "t3": t3, "t4": t4, "t5": t5, "h": layer_norm(model, "ln2", t5)}


def pre_norm(model: Model, x: Positions) -> dict[str, Positions]:
    """The steps of a pre-norm block: each component reads a normalised copy and adds to the stream itself."""
    t1 = layer_norm(model, "ln1", x)
    t2 = attend(model, t1)
    t3 = x + t2
    t4 = layer_norm(model, "ln2", t3)
    t5 = feed_forward(model, t4)
    return {"t1": t1, "t2": t2, "t3": t3, "t4": t4, "t5": t5, "h": t3 + t5}


def apart(one: Tensor, other: Tensor) -> float:
    """The largest difference between two tensors' numbers."""
    return float((one - other).abs().max())
