"""The documents' worked examples, run: what a document states goes into the one forward pass of a post-norm block, and the rest is calculated."""

from collections.abc import Sequence

import torch
from torch import Tensor

import headwater as hw
from headwater.model.layout import tensor_shapes
from headwater.model.weights import Weights
from headwater.shapes import floats
from headwater.trace.run import Run

X_2, T_1 = (1.0, 0.5, -0.2, 0.8), (0.2, -0.1, 0.3, 0.1)
"""The embedding of token 2 and what attention adds to it, in 002 and 004."""
T_3, T_4 = (0.8, -0.2, 0.5, 0.2), (0.1, -0.4, 0.2, -0.1)
"""What 002 supposes that LayerNorm and the feed-forward network give."""
W_1 = ((0.1, 0.2, -0.1, 0.3), (-0.2, 0.1, 0.4, -0.1), (0.3, -0.1, 0.2, 0.1), (0.1, 0.4, -0.2, 0.2))
W_2 = ((0.2, -0.1, 0.3, -0.2), (0.1, 0.3, -0.1, 0.2), (-0.2, 0.1, 0.2, 0.3), (0.3, -0.2, 0.1, -0.1))
B_1, B_2 = (0.1, 0.2, 0.1, 0.0), (0.0, 0.1, 0.2, 0.0)
"""The feed-forward network of 004, which multiplies columns: ``W_1 t + b_1``."""

EXAMPLE = hw.ModelConfig(
    vocab=1,
    context=1,
    d_model=4,
    layers=1,
    attention=hw.Attention(heads=1, d_head=4),
    feed_forward=hw.FeedForward(d_mlp=4),
    # The documents calculate without eps, gain and bias.
    norm=hw.PostNorm(norm=hw.LayerNorm(eps=1e-14, gain=False, bias=False)),
)


def example(x: Sequence[float] = X_2, **stated: Sequence[float]) -> Run:
    """A post-norm block on one token of embedding ``x``, with some of its steps as a document states them."""
    tensors = {name: torch.zeros(shape, dtype=torch.float64) for name, shape in tensor_shapes(EXAMPLE).items()}
    given = {"embed.W_E": [x], "blocks.0.mlp.b_in": B_1, "blocks.0.mlp.b_out": B_2}
    tensors |= {name: torch.tensor(value, dtype=torch.float64) for name, value in given.items()}
    # Rows multiply from the left here, t W_in, hence the transposes.
    tensors |= {
        f"blocks.0.mlp.{name}": torch.tensor(W, dtype=torch.float64).T for name, W in {"W_in": W_1, "W_out": W_2}.items()
    }
    model = hw.Model(Weights.assemble(EXAMPLE, tensors))
    told = {model.place(f"L0.{step}"): torch.tensor([[value]], dtype=torch.float64) for step, value in stated.items()}
    return model.record([0], tap=hw.Chain(*(hw.Patch(place, value, "the document") for place, value in told.items())))


def numbers(value: Tensor) -> list[float]:
    """A step of the one token, for a comparison with printed numbers."""
    return floats(value[0, 0])
