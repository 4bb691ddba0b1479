"""Footnotes 3, 6 and 14 of document 003."""

from math import prod

from jaxtyping import Float
from torch import Tensor

import headwater as hw
from headwater.circuits.algebra import lengths
from headwater.claims.evidence import Finding, beside, found, outside, stated
from headwater.claims.given import Given
from headwater.claims.registry import checks
from headwater.claims.self_attention.one_head import asymmetry, drawn_steps, keys_of_queries
from headwater.claims.self_attention.pieces import drawn
from headwater.model.layout import parameter_count, tensor_shapes


@checks("003-FN3")
def no_sign(given: Given) -> Finding:
    """Weights and outputs over the longest value, as attention has them; with signs; without division; with signs and another division."""
    at = drawn_steps(given)
    longest = lengths(at.v).max()
    signed = drawn(9, 9)
    to_one, by_size = signed / signed.sum(dim=1, keepdim=True), signed / signed.abs().sum(dim=1, keepdim=True)

    def length(weights: Float[Tensor, "dest source"]) -> Tensor:
        return lengths(weights @ at.v).max() / longest

    return found(
        stated("least", at.alpha.min(), above=0),
        stated("largest", at.alpha.max(), below=1),
        stated("length", lengths(at.a).max() / longest, below=1),
        stated("signed", length(to_one), above=1),
        outside("undivided", length(at.scores.exp()), below=1),
        outside("by_size", length(by_size), above=1),
    )


@checks("003-FN6")
def rows_are_divided_alone(given: Given) -> Finding:
    """‖M − Mᵀ‖ / ‖M‖ of symmetric scores and of the weights that they give, on a text of many tokens and on one token repeated."""
    symmetric = keys_of_queries(given, 1.0)
    repeated = keys_of_queries(given, 1.0, repeated=True)
    return found(
        stated("scores", asymmetry(symmetric.scores), within=1e-10),
        stated("weights", asymmetry(symmetric.alpha), above=1e-6),
        outside("repeated", asymmetry(repeated.alpha), above=1e-6),
    )


@checks("003-FN14")
def original_sizes(given: Given) -> Finding:
    """The sizes of the configuration that is called original, and whether its heads side by side are as wide as the stream."""
    del given
    config = hw.named("original")
    shapes = tensor_shapes(config)
    heads, d, d_k = shapes["blocks.0.attn.W_Q"]
    d_v = shapes["blocks.0.attn.W_V"][2]
    return found(
        stated("d", d, equal=512),
        stated("d_k", d_k, equal=64),
        stated("d_v", d_v, equal=64),
        stated("joined", heads * d_v - d, equal=0),
        beside("parameters", both_stacks(config) / 1e6),
    )


def both_stacks(config: hw.ModelConfig) -> int:
    """Parameters of an encoder and a decoder of these sizes; each block of the decoder has a second attention with its norm."""
    shapes = tensor_shapes(config)
    second = ("blocks.0.attn.", "blocks.0.ln1.")
    block = sum(prod(shape) for name, shape in shapes.items() if name.startswith("blocks.0."))
    more = sum(prod(shape) for name, shape in shapes.items() if name.startswith(second))
    return parameter_count(config) + config.layers * (block + more)
