"""``Pairs``: how often each token follows each other one in a text. What a zero-layer model can learn, and all of it."""

from dataclasses import dataclass
from functools import cached_property
from typing import Any

import numpy as np
import torch
from jaxtyping import Float, Int
from numpy.typing import NDArray
from torch import Tensor

from headwater.errors import InputError

MOST_DENSE = 4096
"""The largest vocabulary whose pairs are ever written into one square table."""


@dataclass(frozen=True, eq=False)
class Pairs:
    """The bigrams of a text, sparse: ``second[i]`` follows ``first[i]`` ``count[i]`` times, sorted by first, then second.

    >>> pairs = Pairs.of(np.array([0, 1, 0, 1, 0, 0]), vocab=3)
    >>> pairs.table
    tensor([[1., 2., 0.],
            [2., 0., 0.],
            [0., 0., 0.]], dtype=torch.float64)
    >>> round(pairs.entropy, 4)  # 3/5 of the time a choice of one in three
    0.3819
    """

    vocab: int
    first: Int[Tensor, " pair"]
    second: Int[Tensor, " pair"]
    count: Int[Tensor, " pair"]

    def __post_init__(self) -> None:
        if not len(self.count):
            raise InputError("a text without a single pair of tokens", "at least two tokens", "give more text")

    @staticmethod
    def of(ids: NDArray[Any], vocab: int) -> "Pairs":
        """The pairs of a text's ids."""
        return Pairs.sparse(vocab, *_counted(ids, vocab))

    @staticmethod
    def sparse(vocab: int, first: NDArray[Any], second: NDArray[Any], count: NDArray[Any]) -> "Pairs":
        """Pairs that have been counted and sorted before."""
        return Pairs(vocab, *(torch.from_numpy(np.array(part, dtype=np.int64)) for part in (first, second, count)))

    @cached_property
    def total(self) -> int:
        """Pairs in the text, each as often as it occurs."""
        return int(self.count.sum())

    @cached_property
    def seen(self) -> Float[Tensor, " vocab"]:
        """How often each token is the first of a pair."""
        return torch.zeros(self.vocab, dtype=torch.float64).index_add_(0, self.first, self.count.double())

    @cached_property
    def followers(self) -> Int[Tensor, " vocab"]:
        """How many different tokens follow each token."""
        return torch.bincount(self.first, minlength=self.vocab)

    @cached_property
    def log_p(self) -> Float[Tensor, " pair"]:
        """``ln p(second | first)`` of each pair: ``ln count − ln seen``."""
        return self.count.double().log() - self.seen[self.first].log()

    @cached_property
    def entropy(self) -> float:
        """``H(X2 | X1) = −Σ p(first, second) ln p(second | first)`` in nats: what no model of pairs can get below."""
        # Where nothing is left open it is 0, and not minus 0.
        return 0.0 - float((self.count * self.log_p).sum()) / self.total

    @cached_property
    def table(self) -> Float[Tensor, "vocab vocab"]:
        """The counts as a square table, for small vocabularies."""
        if self.vocab > MOST_DENSE:
            raise InputError(
                f"a square table of {self.vocab:,} tokens", f"at most {MOST_DENSE:,} tokens", "use a smaller vocabulary"
            )
        table = torch.zeros(self.vocab, self.vocab, dtype=torch.float64)
        table[self.first, self.second] = self.count.double()
        return table


def _counted(ids: NDArray[Any], vocab: int) -> tuple[NDArray[Any], NDArray[Any], NDArray[Any]]:
    wide = ids.astype(np.int64)
    codes, count = np.unique(wide[:-1] * vocab + wide[1:], return_counts=True)
    return codes // vocab, codes % vocab, count
