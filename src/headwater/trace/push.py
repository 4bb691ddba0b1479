"""Parts of the stream pushed through the components of a block: the affine maps of ``pull``, the other way.

The stream is held as a sum of parts, ``x = Σ_part x_part``. With what a run measured held fixed, a component is ``x → x M + c``: every part goes
through ``M``, and the constant ``c``, which is made of biases, joins the first part. So the parts of what comes out add up to all of it.
"""

import torch
from einops import einsum, repeat
from jaxtyping import Float
from torch import Tensor

from headwater.model.config import LayerNorm, RMSNorm
from headwater.model.weights import AttentionWeights, FeedForwardWeights, NormWeights
from headwater.shapes import Pattern


def joined(parts: Float[Tensor, "part ..."], constant: Float[Tensor, "..."] | None) -> Float[Tensor, "part ..."]:
    """The parts, a constant being added to the first; None adds nothing."""
    return parts if constant is None else torch.cat([parts[:1] + constant, parts[1:]])


def added(one: Float[Tensor, "_ ..."], other: Float[Tensor, "_ ..."] | None) -> Float[Tensor, "_ ..."]:
    """Parts, added up one by one; one side may have more of them than the other, or none."""
    if other is None or len(one) == len(other):
        return one if other is None else one + other
    short, long = sorted((one, other), key=len)
    return torch.cat([short + long[: len(short)], long[len(short) :]])


def through_norm(
    norm: LayerNorm | RMSNorm, weights: NormWeights, scale: Float[Tensor, "*place"], parts: Float[Tensor, "part *place d_model"]
) -> Float[Tensor, "part *place d_model"]:
    """Through ``(x − mean) · scale ∘ gain + bias`` with the scale held fixed."""
    centred = parts - parts.mean(dim=-1, keepdim=True) if isinstance(norm, LayerNorm) else parts
    scaled = centred * scale.to(centred)[..., None]
    return joined(scaled if weights.gain is None else scaled * weights.gain, weights.bias)


def values(
    weights: AttentionWeights, parts: Float[Tensor, "part batch source d_model"]
) -> Float[Tensor, "part batch head source d_head"]:
    """``x W_V + b_V`` for every head; those of a group share it."""
    found = einsum(parts, weights.W_V, "part batch source d_model, head d_model d_head -> part batch head source d_head")
    found = joined(found, None if weights.b_V is None else weights.b_V[:, None])
    group = len(weights.W_O) // len(weights.W_V)
    return repeat(found, "part batch key_head source d_head -> part batch (key_head group) source d_head", group=group)


def through_heads(
    weights: AttentionWeights, pattern: Pattern, parts: Float[Tensor, "part batch pos d_model"]
) -> Float[Tensor, "part batch pos d_model"]:
    """What all heads of a layer write with their patterns held fixed, without ``b_O``, which belongs to none of them."""
    mixed = einsum(
        pattern, values(weights, parts), "batch head dest source, part batch head source d_head -> part batch head dest d_head"
    )
    return einsum(mixed, weights.W_O, "part batch head dest d_head, head d_head d_model -> part batch dest d_model")


def through_feed_forward(
    weights: FeedForwardWeights, gates: Float[Tensor, "batch pos d_mlp"], parts: Float[Tensor, "part batch pos d_model"]
) -> Float[Tensor, "part batch pos d_model"]:
    """Through ``(gates ∘ (x W_in + b_in)) W_out + b_out`` with the gates held fixed."""
    return joined((gates * joined(parts @ weights.W_in, weights.b_in)) @ weights.W_out, weights.b_out)
