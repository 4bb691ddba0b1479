"""The order of the text: a pure function of (seed, step), so that a training can be taken up anywhere."""

from dataclasses import dataclass
from functools import lru_cache
from typing import Any

import numpy as np
import torch
from jaxtyping import Int
from numpy.typing import NDArray
from torch import Tensor

from headwater.errors import ConfigError, InputError
from headwater.settings import setting


@setting
class Repeats:
    """Sequences of random tokens that repeat themselves, mixed into the text: what induction heads learn from.

    A segment of tokens, drawn evenly from the vocabulary, is written again and again until the sequence is full. On natural text alone
    induction heads need about 10⁹ tokens to appear.
    """

    share: float
    """Of the sequences in each batch."""
    shortest: int = 8
    longest: int = 64
    """Tokens in a segment."""

    def __post_init__(self) -> None:
        if not 0 < self.share <= 1:
            raise ConfigError(f"a share of repeats of {self.share}", "above 0 and at most 1", "change repeats.share")
        if not 1 <= self.shortest <= self.longest:
            raise ConfigError(
                f"segments of {self.shortest} to {self.longest} tokens", "1 ≤ shortest ≤ longest", "change the repeats"
            )


@dataclass(frozen=True, kw_only=True)
class Batches:
    """Windows of ``context + 1`` ids: each epoch walks through the text once, in a new order and from a new beginning.

    Less than two contexts at the ends of the text are left out of an epoch, and windows whose place planted repeats take.

    >>> batches = Batches(ids=np.arange(1000), vocab=1000, context=10, batch=2, seed=0)
    >>> batches(3)
    tensor([[690, 691, 692, 693, 694, 695, 696, 697, 698, 699, 700],
            [980, 981, 982, 983, 984, 985, 986, 987, 988, 989, 990]])
    """

    ids: NDArray[Any]
    vocab: int
    context: int
    batch: int
    seed: int
    repeats: Repeats | None = None

    def __post_init__(self) -> None:
        if len(self.ids) < 2 * self.context:
            raise InputError(
                f"a training text of {len(self.ids):,} tokens",
                f"at least {2 * self.context:,}, two contexts",
                "give more text, or set a smaller model.context",
            )

    @property
    def windows(self) -> int:
        """Sequences in one epoch. One fewer than would fit, so that an epoch may begin anywhere in the first."""
        return len(self.ids) // self.context - 1

    def __call__(self, step: int) -> Int[Tensor, "batch window"]:
        """The sequences of one update."""
        first = step * self.batch
        windows = np.stack([self._window(number) for number in range(first, first + self.batch)])
        if self.repeats is not None:
            self._plant(windows, self.repeats, step)
        return torch.from_numpy(windows)

    def _window(self, number: int) -> NDArray[np.int64]:
        epoch, place = divmod(number, self.windows)
        shift, order = _epoch(self.seed, epoch, self.windows, self.context)
        begin = shift + int(order[place]) * self.context
        return self.ids[begin : begin + self.context + 1].astype(np.int64)

    def _plant(self, windows: NDArray[np.int64], repeats: Repeats, step: int) -> None:
        draws = _generator(self.seed, _REPEATS, step)
        # A fraction of a sequence is made up by chance, so that the share is right on average.
        count = int(repeats.share * self.batch + draws.random())
        for row in draws.permutation(self.batch)[:count]:
            length = int(draws.integers(repeats.shortest, repeats.longest + 1))
            segment = draws.integers(0, self.vocab, min(length, self.context + 1))
            windows[row] = np.resize(segment, self.context + 1)


_ORDER, _REPEATS = 0, 1


@lru_cache(maxsize=4)
def _epoch(seed: int, epoch: int, windows: int, context: int) -> tuple[int, NDArray[np.int64]]:
    draws = _generator(seed, _ORDER, epoch)
    return int(draws.integers(context)), draws.permutation(windows)


def _generator(seed: int, purpose: int, number: int) -> np.random.Generator:
    """Random numbers that depend on these three numbers and on nothing else; one stream has no number in common with another."""
    return np.random.Generator(np.random.Philox(key=[seed, purpose], counter=[0, 0, number, 0]))
