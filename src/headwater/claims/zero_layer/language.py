"""A language of twelve words, drawn; zero-layer models trained on it until nothing moves any more; and the document's matrices.

Document 001 multiplies columns, ``W_U W_E t``: a table has a column for each input token. Rows multiply from the left elsewhere here.
"""

from dataclasses import dataclass

import numpy as np
import torch
from jaxtyping import Float
from torch import Tensor

from headwater.circuits import algebra
from headwater.claims.given import Given
from headwater.model.weights import Weights
from headwater.train.plan import Plan
from headwater.train.studies.pairs import Pairs
from headwater.train.studies.zero_layer import descend, zero_layer

WORDS = 12
WIDTHS = (1, 2, 4, 8, WORDS - 1)
NARROW = 4
"""A width that is too small for this language."""
PLAN = Plan(steps=800, batch=1, learning_rate=0.05, warmup=0, final_rate=0.0, beta_2=0.99, clip=1e9)


@dataclass(frozen=True, eq=False)
class Language:
    """How often each word comes first, and what follows it."""

    P: Float[Tensor, "second first"]
    """``p(second | first)``: each column adds up to one."""
    share: Float[Tensor, " first"]

    @property
    def pairs(self) -> Float[Tensor, "second first"]:
        """``p(first, second)``."""
        return self.P * self.share

    @property
    def entropy(self) -> float:
        """``H(X2 | X1)`` in nats."""
        return -float(torch.xlogy(self.pairs, self.P).sum())

    def loss(self, T: Float[Tensor, "second first"]) -> float:
        """``−Σ p(first, second) ln softmax(T t_first)_second``."""
        return -float((self.pairs * T.log_softmax(dim=0)).sum())

    @property
    def counted(self) -> Pairs:
        """The pairs of a text so long that it keeps to these shares."""
        first, second = (torch.arange(WORDS).repeat_interleave(WORDS), torch.arange(WORDS).repeat(WORDS))
        return Pairs(WORDS, first, second, (self.pairs.T.flatten() * 1e14).round().long())

    def without(self, least: float) -> "Language":
        """The same, in which no word follows that did so more rarely than ``least``."""
        kept = torch.where(least > self.P, 0.0, self.P)
        return Language(kept / kept.sum(dim=0), self.share)


def language() -> Language:
    """Twelve words, any of which can follow any other."""
    draws = np.random.default_rng(0)
    P = torch.from_numpy(draws.dirichlet(np.ones(WORDS), size=WORDS)).T + 1e-3
    return Language(P / P.sum(dim=0), torch.from_numpy(draws.dirichlet(np.full(WORDS, 5.0))))


def trained(given: Given, d_model: int) -> Weights:
    """A zero-layer model of this width after 800 updates on the whole language."""
    return given.once(f"twelve words, {d_model} wide", lambda: train(language(), d_model))


def train(words: Language, d_model: int, plan: Plan = PLAN) -> Weights:
    """A zero-layer model trained on the expected loss of a language."""
    return descend(Weights.draw(zero_layer(WORDS, d_model), seed=0, dtype=torch.float64), words.pairs.T, plan)


def composite(weights: Weights) -> Float[Tensor, "second first"]:
    """``W_U W_E`` as the document prints it."""
    return weights.W_U.T @ weights.W_E.T


def factored(T: Float[Tensor, "second first"], d_model: int) -> Weights:
    """The zero-layer model of this width whose ``W_U W_E`` is nearest to a table."""
    U, S, V = algebra.svd(T)
    tensors = {"embed.W_E": V[:, :d_model] * S[:d_model], "unembed.W_U": U[:, :d_model].T}
    return Weights.assemble(zero_layer(len(T), d_model), tensors)


def centred(T: Float[Tensor, "second first"]) -> Float[Tensor, "second first"]:
    """Without the mean of each column, which a softmax cannot see."""
    return T - T.mean(dim=0)
