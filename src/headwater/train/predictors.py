"""``Predictor``: whatever gives each next token a probability, and the simplest that do."""

import math
from dataclasses import dataclass
from typing import Protocol, runtime_checkable

import torch
from jaxtyping import Float, Int, Integer
from numpy import ndarray
from torch import Tensor

from headwater.errors import InputError
from headwater.model.forward import final_stream, last_norm
from headwater.model.layout import parameter_count
from headwater.model.record import check_tokens
from headwater.model.weights import Weights
from headwater.train import loss


@runtime_checkable
class Predictor(Protocol):
    """A language model of any kind, seen from outside."""

    @property
    def name(self) -> str:
        """What it is called in tables."""
        ...

    @property
    def parameters(self) -> int:
        """How many numbers it learned; of one that counts, how many different things it counted."""
        ...

    def nats(self, windows: Int[Tensor, "batch pos_plus_1"]) -> Float[Tensor, "batch pos"]:
        """``−ln p(next token | what precedes it in its window)`` for each token of the windows but the first."""
        ...


@dataclass(frozen=True)
class Uniform:
    """Every token is as likely as any other: ``ln vocab`` nats.

    >>> Uniform(8).nats(torch.tensor([[3, 1, 4]])).exp()
    tensor([[8.0000, 8.0000]], dtype=torch.float64)
    """

    vocab: int
    name: str = "uniform"
    parameters: int = 0

    def nats(self, windows: Int[Tensor, "batch pos_plus_1"]) -> Float[Tensor, "batch pos"]:
        """``ln vocab``, everywhere."""
        batch, length = windows.shape
        return torch.full((batch, length - 1), math.log(self.vocab), dtype=torch.float64)


class Unigram:
    """Tokens by their frequency, whatever precedes them: ``(count + add) / Σ (count + add)``.

    With ``add=0`` a token that was never counted costs infinitely many nats.

    >>> import numpy as np
    >>> Unigram(np.array([1, 3]), add=0.0).nats(torch.tensor([[0, 1, 0]])).neg().exp()
    tensor([[0.7500, 0.2500]], dtype=torch.float64)
    """

    def __init__(self, counts: Integer[ndarray, " vocab"], *, add: float = 1.0) -> None:
        self.name = f"unigram, add {add:g}" if add else "unigram"
        self.parameters = len(counts)
        weights = torch.from_numpy(counts.astype("float64")) + add
        self._nats = weights.sum().log() - weights.log()

    def nats(self, windows: Int[Tensor, "batch pos_plus_1"]) -> Float[Tensor, "batch pos"]:
        """One number for each token, looked up."""
        return self._nats[windows[:, 1:]]


@dataclass(frozen=True)
class Transformer:
    """A model of ours. The logits of a few tokens at a time are all that exists of them."""

    weights: Weights
    name: str = "transformer"

    def __post_init__(self) -> None:
        attention = self.weights.config.attention
        if attention is not None and attention.mask != "causal":
            raise InputError("a model that attends to later tokens", "causal attention", "such a model predicts nothing")

    @property
    def parameters(self) -> int:
        """The numbers in its tensors."""
        return parameter_count(self.weights.config)

    @torch.no_grad()
    def nats(self, windows: Int[Tensor, "batch pos_plus_1"]) -> Float[Tensor, "batch pos"]:
        """The forward pass on all tokens but the last, and the cross-entropy of all but the first."""
        weights, context = self.weights, self.weights.config.context
        check_tokens(weights.config, windows)
        if windows.shape[1] - 1 > context:
            raise InputError(f"windows of {windows.shape[1] - 1:,} tokens", f"at most the context, {context:,}", "cut them")
        windows = windows.to(weights.device)
        stream = last_norm(weights, final_stream(weights, windows[:, :-1]))
        nats = loss.nats(stream.flatten(0, 1), weights.W_U, weights.b_U, windows[:, 1:].flatten())
        return nats.reshape(len(windows), -1)
