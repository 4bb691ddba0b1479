"""How often tokens stand alone and in pairs, counted in bounded memory."""

from collections.abc import Iterable, Iterator
from pathlib import Path
from typing import Any

import numpy as np
from jaxtyping import Int64, Integer
from numpy import ndarray
from numpy.typing import NDArray

RECORD = np.dtype([("first", "<u4"), ("second", "<u4"), ("count", "<i8")])
"""A pair of neighbours and how often they stand in the text, as it is on disk; sorted by ``first``, then ``second``."""

MOST_WAITING = 2**20
"""Pairs that are held in memory before they are sorted, and added up before they go to disk."""

MOST_RUNS = 64
"""Files of sorted pairs on disk before they are made one."""

Run = tuple[NDArray[np.uint64], NDArray[np.int64]]
"""Pairs as single numbers, sorted, each once; and how often each was seen."""


class Counter:
    """Counts the tokens of a text, and its pairs of neighbours, as it comes in pieces."""

    def __init__(self, vocab: int, scratch: Path, most_waiting: int = MOST_WAITING) -> None:
        self.unigrams: Int64[ndarray, " vocab"] = np.zeros(vocab, np.int64)
        self._vocab, self._scratch, self._most = vocab, scratch, most_waiting
        self._last: NDArray[np.uint64] = np.zeros(0, np.uint64)
        self._waiting: list[Run] = []
        self._pairs = 0
        self._spilled: list[Path] = []
        self._written = 0

    def add(self, ids: Integer[ndarray, " some"]) -> None:
        """Count the next piece of the text."""
        self.unigrams += np.bincount(ids, minlength=self._vocab)
        line = np.concatenate([self._last, ids.astype(np.uint64)])
        self._last = line[-1:]
        self._waiting.append((line[:-1] * np.uint64(self._vocab) + line[1:], np.ones(max(0, len(line) - 1), np.int64)))
        self._pairs += max(0, len(line) - 1)
        if self._pairs > self._most:
            self._waiting = [_added_up(self._waiting)]
            self._pairs = len(self._waiting[0][0])
        if self._pairs > self._most // 2 and len(self._waiting) == 1:
            self._spill()

    def write_bigrams(self, path: Path) -> None:
        """Write the pairs as ``RECORD``s."""
        self._spill()
        with path.open("wb") as file:
            for pairs, counts in self._merged():
                records = np.empty(len(pairs), RECORD)
                records["first"], records["second"] = np.divmod(pairs, np.uint64(self._vocab))
                records["count"] = counts
                records.tofile(file)
        for run in self._spilled:
            run.unlink()

    def _spill(self) -> None:
        """Move what waits to disk."""
        run = _added_up(self._waiting)
        self._waiting, self._pairs = [], 0
        if len(run[0]):
            self._write([run])
        if len(self._spilled) >= MOST_RUNS:
            old = list(self._spilled)
            self._write(self._merged())
            for path in old:
                path.unlink()
            self._spilled = self._spilled[-1:]

    def _write(self, blocks: Iterable[Run]) -> None:
        self._written += 1
        path = self._scratch / f"pairs.{self._written}"
        with path.open("wb") as file:
            for pairs, counts in blocks:
                np.stack([pairs, counts.astype(np.uint64)], axis=1).tofile(file)
        self._spilled.append(path)

    def _merged(self) -> Iterator[Run]:
        """All runs as one, a block at a time: of each run the next part is looked at, up to the least of their last pairs."""
        block = max(1, self._most // max(1, len(self._spilled)))
        runs: list[NDArray[Any]] = [np.memmap(path, np.uint64, "r").reshape(-1, 2) for path in self._spilled]
        while runs := [run for run in runs if len(run)]:
            up_to: Any = min(run[:block][-1, 0] for run in runs)
            ends: list[Any] = [np.searchsorted(run[:block, 0], up_to, side="right") for run in runs]
            yield _added_up([(run[:end, 0], run[:end, 1].astype(np.int64)) for run, end in zip(runs, ends, strict=True)])
            runs = [run[end:] for run, end in zip(runs, ends, strict=True)]


def entropy(counts: Integer[ndarray, " thing"]) -> float:
    """``−Σ p ln p`` in nats, where each thing's ``p`` is its share of the counts.

    >>> round(entropy(np.array([5, 5, 0])), 6)
    0.693147
    """
    shares = counts[counts > 0] / max(1, counts.sum())
    return float(-(shares * np.log(shares)).sum())


def conditional_entropy(first: Integer[ndarray, " pair"], count: Integer[ndarray, " pair"]) -> float:
    """``H(X₂ | X₁) = H(X₁, X₂) − H(X₁)`` in nats: what is left to tell of a token by one who knows the token before it."""
    alone = np.bincount(first, weights=count).astype(np.int64) if len(first) else count
    return entropy(count) - entropy(alone)


def _added_up(runs: list[Run]) -> Run:
    pairs = np.concatenate([np.zeros(0, np.uint64), *(pairs for pairs, _ in runs)])
    counts = np.concatenate([np.zeros(0, np.int64), *(counts for _, counts in runs)])
    order = np.argsort(pairs, kind="stable")
    pairs, counts = pairs[order], counts[order]
    begins = np.flatnonzero(np.diff(pairs, prepend=pairs[:1] + np.uint64(1)))
    return pairs[begins], np.add.reduceat(counts, begins) if len(begins) else counts
