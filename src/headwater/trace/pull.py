"""Questions pulled through the components of a block.

A question about the stream is a covector ``q`` at each of some positions; its answer is ``Σ_row <x_row, q_row>``. With what a run measured
held fixed (patterns, scales of norms, gates of activations) every component is an affine map. Pulling a question through it gives the question
about its input that has the same answer but for constants, which are the parts that biases have::

    residual sum  <x + w, q>  = <x, q> + <w, q>
    norm          <LN(x), q>  = <x, s · C(γ ∘ q)> + <β, q>            C takes the mean out; RMSNorm: no C, no β
    attention     <att(x), q> = Σ_source <x_source, Σ_heads W_V W_O Σ_dest A[dest, source] q_dest> + Σ A <b_V W_O, q> + <b_O, q>
    feed-forward  <ff(x), q>  = <x, W_in (g ∘ W_out q)> + <b_in, g ∘ W_out q> + <b_out, q>

A gated layer's ``g`` is its whole gate branch. Constants go by the names of biases: ``H3.b_V``, ``b_O``, ``b_in``, ``bias`` of a norm. Several questions may be asked at once, along the axes before the last two.
"""

from dataclasses import dataclass, replace
from typing import TypeAlias

from einops import einsum, repeat
from jaxtyping import Float
from torch import Tensor

from headwater.model.config import LayerNorm, RMSNorm
from headwater.model.weights import AttentionWeights, FeedForwardWeights, NormWeights

Covectors: TypeAlias = Float[Tensor, "*many row d_model"]
"""One covector for each position that a question is about."""
Constants: TypeAlias = dict[str, Float[Tensor, "*many dest"]]
"""What each bias adds to the answer, at the positions where the component wrote."""


@dataclass(frozen=True, eq=False)
class Pulled:
    """A question about a component's input, and what the component's biases add to its answer."""

    q: Covectors
    constants: Constants


def through_norm(norm: LayerNorm | RMSNorm, weights: NormWeights, scale: Float[Tensor, " row"], q: Covectors) -> Pulled:
    """Through ``(x − mean) · scale ∘ gain + bias`` with the scale held fixed."""
    gained = q if weights.gain is None else q * weights.gain
    if isinstance(norm, LayerNorm):
        gained = gained - gained.mean(dim=-1, keepdim=True)
    constants = {} if weights.bias is None else {"bias": q @ weights.bias}
    return Pulled(scale.to(gained)[:, None] * gained, constants)


def through_attention(weights: AttentionWeights, pattern: Float[Tensor, "head row source"], q: Covectors) -> Pulled:
    """Through the heads of a layer with their patterns held fixed, from destinations to all sources."""
    pulled = through_heads(weights, pattern, wanted_of_heads(weights, q))
    return Pulled(pulled.q, pulled.constants | of_output_bias(weights, q))


def through_heads(
    weights: AttentionWeights, pattern: Float[Tensor, "head row source"], wanted: Float[Tensor, "*many head row d_head"]
) -> Pulled:
    """From what each head mixed to what the layer read."""
    group = len(weights.W_O) // len(weights.W_V)
    W_V = repeat(weights.W_V, "key_head d_model d_head -> (key_head group) d_model d_head", group=group)
    at_sources = einsum(pattern, wanted, "head row source, ... head row d_head -> ... head source d_head")
    asked = einsum(at_sources, W_V, "... head source d_head, head d_model d_head -> ... source d_model")
    if weights.b_V is None:
        return Pulled(asked, {})
    b_V = repeat(weights.b_V, "key_head d_head -> (key_head group) d_head", group=group)
    each = einsum(wanted, b_V, pattern.sum(dim=-1), "... head row d_head, head d_head, head row -> ... head row")
    return Pulled(asked, {f"H{head}.b_V": each[..., head, :] for head in range(len(weights.W_O))})


def of_output_bias(weights: AttentionWeights, q: Covectors) -> Constants:
    """What ``b_O`` adds, which no head wrote."""
    return {} if weights.b_O is None else {"b_O": q @ weights.b_O}


def wanted_of_heads(weights: AttentionWeights, q: Covectors) -> Float[Tensor, "*many head row d_head"]:
    """The question about what each head mixed: ``W_O q``."""
    return einsum(q, weights.W_O, "... row d_model, head d_head d_model -> ... head row d_head")


def one_head(weights: AttentionWeights, head: int) -> AttentionWeights:
    """A layer that has this head only; what all heads share (``b_O``) is left out."""
    key_head = head * len(weights.W_V) // len(weights.W_O)
    b_V = None if weights.b_V is None else weights.b_V[key_head, None]
    own = {"W_Q": weights.W_Q[head, None], "W_O": weights.W_O[head, None]}
    shared = {"W_K": weights.W_K[key_head, None], "W_V": weights.W_V[key_head, None]}
    return replace(weights, **own, **shared, b_Q=None, b_K=None, b_V=b_V, b_O=None)


def through_feed_forward(weights: FeedForwardWeights, gates: Float[Tensor, "row d_mlp"], q: Covectors) -> Pulled:
    """Through ``(gates ∘ (x W_in + b_in)) W_out + b_out`` with the gates held fixed."""
    # In place: over many positions this is the largest thing there is.
    opened = (q @ weights.W_out.T).mul_(gates)
    biases = {"b_in": (weights.b_in, opened), "b_out": (weights.b_out, q)}
    constants = {name: asked @ bias for name, (bias, asked) in biases.items() if bias is not None}
    return Pulled(opened @ weights.W_in.T, constants)
