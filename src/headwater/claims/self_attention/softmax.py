"""The derivative of the softmax: at given scores, and against d_k, measured once."""

import torch
from jaxtyping import Float
from torch import Tensor

from headwater.claims.given import Given
from headwater.train.studies import softmax_scaling
from headwater.train.studies.softmax_scaling import SoftmaxStudy


def study(given: Given) -> SoftmaxStudy:
    """d_k from 1 to 1024, with and without the division by √d_k."""
    return given.once("derivative of the softmax", softmax_scaling.run)


def derivative(z: Float[Tensor, "draw key"]) -> Float[Tensor, "draw key key"]:
    """``∂softmax(z)_i / ∂z_j`` at each row of scores, by automatic differentiation."""
    return torch.func.vmap(torch.func.jacrev(_softmax))(z)


def _softmax(z: Float[Tensor, " key"]) -> Float[Tensor, " key"]:
    return z.softmax(dim=0)
