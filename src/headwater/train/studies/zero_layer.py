"""Zero-layer models of a small vocabulary, trained in a moment.

A zero-layer model answers each token by itself, so the loss of any batch is a weighted sum over its pairs,
``−Σ count(first, second) ln q(second | first) / Σ count``: the vocabulary's square is worked through once, however long the batch.
"""

from collections.abc import Callable, Iterable, Iterator
from typing import Any

import torch
from jaxtyping import Float, Int
from numpy.typing import NDArray
from torch import Tensor, nn

from headwater.model.config import ModelConfig
from headwater.model.weights import Weights
from headwater.train.batches import Batches
from headwater.train.loop import train_steps
from headwater.train.plan import Plan

CONTEXT = 256


class PairModule(nn.Module):
    """``W_E W_U`` whose batches are tables of counts and whose answer is the mean nats of their pairs.

    >>> module = PairModule(Weights.draw(zero_layer(vocab=3, d_model=2), seed=0))
    >>> module(torch.tensor([[0.0, 2.0, 0.0], [1.0, 0.0, 0.0], [0.0, 0.0, 0.0]])).shape
    torch.Size([])
    """

    def __init__(self, weights: Weights) -> None:
        super().__init__()
        self.config = weights.config
        self.W_E = nn.Parameter(weights.W_E.detach().clone())
        self.W_U = nn.Parameter(weights.W_U.detach().clone())

    def forward(self, counts: Float[Tensor, "vocab vocab"]) -> Float[Tensor, ""]:
        """The mean cross-entropy of the pairs that were counted."""
        return -(counts * (self.W_E @ self.W_U).log_softmax(dim=-1)).sum() / counts.sum()

    def weights(self) -> Weights:
        """The weights as they are now."""
        return Weights.assemble(self.config, {"embed.W_E": self.W_E.detach().clone(), "unembed.W_U": self.W_U.detach().clone()})


def zero_layer(vocab: int, d_model: int) -> ModelConfig:
    """The bigram machine ``W_E W_U``."""
    return ModelConfig(vocab=vocab, context=CONTEXT, d_model=d_model, layers=0)


def counts_of(windows: Int[Tensor, "batch window"], vocab: int) -> Float[Tensor, "vocab vocab"]:
    """How often each pair occurs in windows of ids.

    >>> counts_of(torch.tensor([[0, 1, 0]]), vocab=2)
    tensor([[0., 1.],
            [1., 0.]])
    """
    codes = (windows[:, :-1] * vocab + windows[:, 1:]).flatten()
    return torch.bincount(codes, minlength=vocab**2).reshape(vocab, vocab).to(torch.float32)


def train_zero_layer(
    weights: Weights, ids: NDArray[Any], plan: Plan, keep: Iterable[int] = ()
) -> Iterator[tuple[int, Weights]]:
    """Train on windows drawn from a text, as every model is trained; hands out the weights after the updates in ``keep`` and the last.

    Update 0 is the beginning.
    """
    batches = Batches(ids=ids, vocab=weights.config.vocab, context=CONTEXT, batch=plan.batch, seed=plan.seed)
    return _train(weights, lambda step: counts_of(batches(step), weights.config.vocab), plan, keep)


def descend(weights: Weights, counts: Float[Tensor, "vocab vocab"], plan: Plan) -> Weights:
    """Train on the whole text at every update: the gradient is that of the expected loss, without noise."""
    *_, (_, best) = _train(weights, lambda step: counts, plan, ())
    return best


def _train(
    weights: Weights, batch_of: Callable[[int], Tensor], plan: Plan, keep: Iterable[int]
) -> Iterator[tuple[int, Weights]]:
    module, kept = PairModule(weights), {*keep, plan.steps}
    if 0 in kept:
        yield 0, module.weights()
    for step in train_steps(module, batch_of, plan):
        if step.number in kept:
            yield step.number, module.weights()
