"""Questions pulled through the components of a block.

A question about the stream is a covector ``q`` at each position; its answer is ``Σ_pos <x_pos, q_pos>``. With what a run measured held
fixed (patterns, scales of norms, gates of activations) every component is an affine map. Pulling a question through it gives the question
about its input that has the same answer but for constants, which are the parts that biases have::

    norm          <LN(x), q>  = <x, s · C(γ ∘ q)> + <β, q>            C takes the mean out; RMSNorm: no C, no β
    attention     <att(x), q> = Σ_source <x_source, Σ_heads W_V W_O Σ_dest A[dest, source] q_dest> + <b_V W_O, q> + <b_O, q>
    feed-forward  <ff(x), q>  = <x, W_in (g ∘ W_out q)> + <b_in, g ∘ W_out q> + <b_out, q>
"""

from dataclasses import dataclass

from einops import einsum, repeat
from jaxtyping import Float
from torch import Tensor

from headwater.model.config import LayerNorm, RMSNorm
from headwater.model.weights import AttentionWeights, FeedForwardWeights, NormWeights
from headwater.shapes import Pattern, Stream

Constants = dict[str, Float[Tensor, "batch pos"]]
"""What each bias adds to the answer, at the position where it is added."""


@dataclass(frozen=True, eq=False)
class Pulled:
    """A question about a component's input, and what the component's biases add to its answer."""

    question: Stream
    constants: Constants


def through_norm(norm: LayerNorm | RMSNorm, weights: NormWeights, scale: Float[Tensor, "batch pos"], q: Stream) -> Pulled:
    """Through ``(x − mean) · scale ∘ gain + bias`` with the scale held fixed."""
    gained = q if weights.gain is None else q * weights.gain
    if isinstance(norm, LayerNorm):
        gained = gained - gained.mean(dim=-1, keepdim=True)
    constants = {} if weights.bias is None else {"bias": q @ weights.bias}
    return Pulled(scale[..., None] * gained, constants)


def through_attention(weights: AttentionWeights, pattern: Pattern, q: Stream) -> Pulled:
    """Through all heads of a layer with their patterns held fixed."""
    group = len(weights.W_O) // len(weights.W_V)
    W_V = repeat(weights.W_V, "key_head d_model d_head -> (key_head group) d_model d_head", group=group)
    wanted = einsum(q, weights.W_O, "batch dest d_model, head d_head d_model -> batch head dest d_head")
    at_sources = einsum(pattern, wanted, "batch head dest source, batch head dest d_head -> batch head source d_head")
    question = einsum(at_sources, W_V, "batch head source d_head, head d_model d_head -> batch source d_model")
    constants: Constants = {}
    if weights.b_V is not None:
        b_V = repeat(weights.b_V, "key_head d_head -> (key_head group) d_head", group=group)
        each = einsum(wanted, b_V, "batch head dest d_head, head d_head -> batch head dest")
        constants |= {f"H{head}.b_V": each[:, head] for head in range(len(weights.W_O))}
    if weights.b_O is not None:
        constants["b_O"] = q @ weights.b_O
    return Pulled(question, constants)


def through_feed_forward(weights: FeedForwardWeights, gates: Float[Tensor, "batch pos d_mlp"], q: Stream) -> Pulled:
    """Through ``(gates ∘ (x W_in + b_in)) W_out + b_out`` with the gates held fixed."""
    opened = gates * (q @ weights.W_out.T)
    biases = {"b_in": (weights.b_in, opened), "b_out": (weights.b_out, q)}
    constants = {name: asked @ bias for name, (bias, asked) in biases.items() if bias is not None}
    return Pulled(opened @ weights.W_in.T, constants)
