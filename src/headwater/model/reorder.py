"""The same weights with their norms elsewhere: what pre-norm and post-norm do with one and the same model.

This is no fold: the logits change. The weights were trained for the order that they had, so what comes out says how the other order
treats a stream, and nothing about how good a model of that order would be.
"""

from dataclasses import replace
from typing import Literal, TypeAlias, get_args

import torch

from headwater.errors import InputError, did_you_mean
from headwater.model.config import LayerNorm, ModelConfig, NoNorm, PostNorm, PreNorm
from headwater.model.layout import tensor_shapes
from headwater.model.weights import Weights

Order: TypeAlias = Literal["pre", "post"]


def reordered(weights: Weights, order: Order) -> Weights:
    """The same weights, with norms ``pre`` (before each component and at the end) or ``post`` (in the stream, after each write).

    Norms keep their gain and bias. A pre-norm model's last norm has no place in a post-norm one and is left out; where there was none, it
    has gain 1 and bias 0. A model without norms gets LayerNorms without gain and bias.

    >>> from headwater.model.config import Attention, ModelConfig
    >>> config = ModelConfig(vocab=5, context=4, d_model=4, layers=1, attention=Attention(heads=1, d_head=2), norm=PreNorm())
    >>> drawn = Weights.draw(config, seed=0)
    >>> after = reordered(drawn, "post")
    >>> after.config.norm, sorted(drawn.tensors().keys() - after.tensors().keys())
    (PostNorm(norm=LayerNorm(eps=1e-05, gain=True, bias=True)), ['ln_final.b', 'ln_final.w'])
    """
    config, given = reordered_config(weights.config, order), weights.tensors()
    tensors = {
        name: given[name] if name in given else _neutral(name, shape, weights) for name, shape in tensor_shapes(config).items()
    }
    return Weights.assemble(config, tensors)


def reordered_config(config: ModelConfig, order: Order) -> ModelConfig:
    """What a reordered model is made of; refused where norms cannot stand there."""
    if order not in get_args(Order):
        raise InputError(
            f"norms {order!r:.40}", f"one of {', '.join(get_args(Order))}", did_you_mean(str(order), get_args(Order))
        )
    norm = LayerNorm(gain=False, bias=False) if isinstance(config.norm, NoNorm) else config.norm.norm
    return replace(config, norm=PreNorm(norm=norm) if order == "pre" else PostNorm(norm=norm))


def _neutral(name: str, shape: tuple[int, ...], weights: Weights) -> torch.Tensor:
    """A gain or a bias that changes nothing."""
    return torch.full(shape, float(name.endswith(".w")), dtype=weights.dtype, device=weights.device)
