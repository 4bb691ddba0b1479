"""The matrices of a one-layer model as document 000 writes them: columns, ``W x``, where rows multiply from the left elsewhere here."""

from dataclasses import dataclass
from typing import cast

import torch
from jaxtyping import Float
from torch import Tensor

from headwater.api import Model
from headwater.circuits.head import Head, key_head


@dataclass(frozen=True, eq=False)
class Printed:
    """Embedding and unembedding, and the four matrices of one head."""

    W_E: Float[Tensor, "d_model vocab"]
    W_U: Float[Tensor, "vocab d_model"]
    W_Q: Float[Tensor, "d_head d_model"]
    W_K: Float[Tensor, "d_head d_model"]
    W_V: Float[Tensor, "d_head d_model"]
    W_O: Float[Tensor, "d_model d_head"]

    @property
    def W_OV(self) -> Float[Tensor, "d_model d_model"]:  # noqa: N802
        """``W_O W_V``."""
        return self.W_O @ self.W_V


def printed(model: Model, head: int = 0) -> Printed:
    """The matrices of a head of the first layer."""
    weights, shared = model.weights, key_head(model.config, Head(0, head))
    block = weights.blocks[0].attention
    rows = (weights.W_E, weights.W_U, block.W_Q[head], block.W_K[shared], block.W_V[shared], block.W_O[head])
    return Printed(*(matrix.T.contiguous() for matrix in rows))


def every_printed(model: Model) -> list[Printed]:
    """The same for all heads."""
    return [printed(model, head) for head in range(model.config.heads)]


def eye(size: int) -> Float[Tensor, "size size"]:
    """``Id``."""
    return torch.eye(size, dtype=torch.float64)


def rank(matrix: Tensor) -> int:
    """How many of its rows are independent."""
    return int(cast(Tensor, torch.linalg.matrix_rank(matrix)))


def apart(ours: Tensor, theirs: Tensor) -> float:
    """The largest difference between two tensors' entries."""
    return float((ours - theirs).abs().max())


def rounding(values: Tensor) -> float:
    """How far numbers of this size may be apart by rounding alone: 1e-10, and more where they are above ten thousand."""
    return max(1e-10, 1e-14 * float(values.abs().max()))
