"""The recall task: a key, a gap of words that mean nothing, a question, and the key again.

Nothing but the key tells the answer, so whoever does not look back ``gap + 2`` words guesses: an n-gram needs order ``gap + 3``.
"""

import numpy as np
from jaxtyping import Int
from numpy import ndarray

from headwater.errors import ConfigError, InputError
from headwater.settings import setting


@setting
class RecallTask:
    """Windows ``[filler] … [key] [filler] × gap [ask] [key]``, all of one length.

    Keys are the ids from 0, fillers those from ``keys`` on, both drawn evenly; the last id asks.

    >>> task = RecallTask(keys=2, fillers=3, farthest=4)
    >>> task.windows(2, gap=1, seed=0)
    array([[3, 2, 2, 1, 4, 5, 1],
           [4, 3, 4, 0, 2, 5, 0]])
    """

    keys: int = 10
    fillers: int = 10
    farthest: int = 64
    """The longest gap."""

    def __post_init__(self) -> None:
        for name, least, most in (("keys", 2, 2**12), ("fillers", 1, 2**12), ("farthest", 1, 2**12)):
            if not least <= getattr(self, name) <= most:
                raise ConfigError(f"{name} is {getattr(self, name)}", f"from {least} to {most:,}", f"change {name}")

    @property
    def vocab(self) -> int:
        """Keys, fillers and the word that asks."""
        return self.keys + self.fillers + 1

    @property
    def ask(self) -> int:
        """The word that asks."""
        return self.vocab - 1

    @property
    def context(self) -> int:
        """Words of a window before the answer."""
        return self.farthest + 2

    @property
    def gaps(self) -> tuple[int, ...]:
        """The gaps that are looked at: 1 and 2, which a 5-gram bridges, 3, which it does not, then 4, 8, 16 … up to the longest.

        >>> RecallTask(farthest=64).gaps, RecallTask(farthest=20).gaps
        ((1, 2, 3, 4, 8, 16, 32, 64), (1, 2, 3, 4, 8, 16, 20))
        """
        doubling = (2**power for power in range(self.farthest.bit_length()))
        return tuple(gap for gap in sorted({*doubling, 3, self.farthest}) if gap <= self.farthest)

    def windows(self, count: int, *, seed: int | tuple[int, ...], gap: int | None = None) -> Int[ndarray, "count window"]:
        """So many windows, all with one ``gap``, or each with one of ``gaps`` by lot."""
        if gap is not None and not 0 <= gap <= self.farthest:
            raise InputError(f"a gap of {gap}", f"from 0 to {self.farthest}, the longest", "change the gap, or farthest")
        draws = np.random.default_rng(seed)
        windows = self.keys + np.floor(draws.random((count, self.context + 1)) * self.fillers).astype(np.int64)
        answers = np.floor(draws.random(count) * self.keys).astype(np.int64)
        lots = np.array(self.gaps)[np.floor(draws.random(count) * len(self.gaps)).astype(np.int64)]
        windows[np.arange(count), self.farthest - (lots if gap is None else gap)] = answers
        windows[:, -2], windows[:, -1] = self.ask, answers
        return windows
