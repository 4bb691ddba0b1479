"""Where skip-trigrams stand in a text.

A *place* of ``A … B → C`` is a position of a window whose token is B, with A at one or more earlier positions of the same window and some token after
it. The last position of a window is none, since what comes next is not known there. Where A is B, the destination itself does not count as
an A: a head that looks at its own position says the same after every B, whatever came before; that is a bigram, and no evidence for two tokens.
"""

from collections.abc import Iterator, Mapping
from dataclasses import dataclass, fields
from typing import Any

import numpy as np
from jaxtyping import Bool, Float64, Int64
from numpy import ndarray
from numpy.typing import NDArray

Windows = Int64[ndarray, "window pos"]
"""Pieces of a text, each looked at for itself."""
AT_ONCE = 2**19
"""Pairs of positions compared together: few enough to stay in a processor's cache."""
SIEVE = 20
"""Bits of a number that stands for a pair at first sight."""
MIXING = np.uint64(0x9E3779B97F4A7C15)
"""Multiplied by, neighbouring numbers fall far apart (Fibonacci hashing)."""


@dataclass(frozen=True, eq=False)
class Listed:
    """Skip-trigrams as a table lists them, row by row: which they are, and what their head's weights say of them."""

    head: Int64[ndarray, " row"]
    """The head's number, in the order of ``every_head``."""
    source: Int64[ndarray, " row"]
    dest: Int64[ndarray, " row"]
    out: Int64[ndarray, " row"]
    attention: Float64[ndarray, " row"]
    output: Float64[ndarray, " row"]
    lift: Float64[ndarray, " row"]

    def __len__(self) -> int:
        return len(self.head)

    @staticmethod
    def of(columns: Mapping[str, NDArray[Any]]) -> "Listed":
        """The columns of these names, such as a Parquet file of an atlas has them."""
        numbers = ("attention", "output", "lift")
        return Listed(
            **{
                field.name: np.ascontiguousarray(columns[field.name], np.float64 if field.name in numbers else np.int64)
                for field in fields(Listed)
            }
        )

    def some(self, chosen: NDArray[Any]) -> "Listed":
        """The rows at these places, or where a mask is true."""
        return Listed(*(getattr(self, field.name)[chosen] for field in fields(self)))

    @staticmethod
    def joined(*parts: "Listed") -> "Listed":
        """All of them."""
        return Listed(*(np.concatenate([getattr(part, field.name) for part in parts]) for field in fields(Listed)))


@dataclass(frozen=True, eq=False)
class Pairs:
    """Different pairs of a source and a destination, to be looked for in a text."""

    vocab: int
    keys: Int64[ndarray, " pair"]
    """``dest · vocab + source``, rising."""
    sieve: Bool[ndarray, " slot"]
    """True where one of the pairs falls; most pairs of a text that are none of these are seen to be none from this alone."""

    @staticmethod
    def of(rows: Listed, vocab: int) -> "tuple[Pairs, Int64[ndarray, ' row']]":
        """The different pairs of some rows, and which of them each row has."""
        keys, of_row = np.unique(rows.dest * vocab + rows.source, return_inverse=True)
        sieve = np.zeros(2**SIEVE, np.bool_)
        sieve[_slot(keys)] = True
        return Pairs(vocab, keys, sieve), of_row


@dataclass(frozen=True, eq=False)
class Places:
    """Places of pairs, by window, destination and pair."""

    pair: Int64[ndarray, " place"]
    window: Int64[ndarray, " place"]
    dest: Int64[ndarray, " place"]
    """The position of the destination."""
    start: Int64[ndarray, " place_and_end"]
    """Where the sources of each place begin; the next one's beginning is their end."""
    source: Int64[ndarray, " look"]
    """Positions of sources, rising at each place."""


def find(windows: Windows, pairs: Pairs) -> Places:
    """All places of all pairs in some windows at once; memory grows with windows · pos²."""
    length = windows.shape[1]
    # The last position has no next token.
    dest, source = np.tril_indices(max(length - 1, 0), -1)
    keys = (windows[:, dest] * pairs.vocab + windows[:, source]).ravel()
    seen = np.flatnonzero(pairs.sieve[_slot(keys)])
    pair = np.searchsorted(pairs.keys, keys[seen])
    pair[pair == len(pairs.keys)] = 0
    is_one = pairs.keys[pair] == keys[seen] if len(pairs.keys) else np.zeros(0, np.bool_)
    seen, pair = seen[is_one], pair[is_one]
    window, look = np.divmod(seen, max(len(dest), 1))
    at = window * length + dest[look]
    # Already by position; only the pairs at each position are still mixed.
    order = np.argsort(at * max(len(pairs.keys), 1) + pair, kind="stable")
    at, pair = at[order], pair[order]
    is_new = np.ones(len(at), np.bool_)
    is_new[1:] = (at[1:] != at[:-1]) | (pair[1:] != pair[:-1])
    first = np.flatnonzero(is_new)
    at_window, at_dest = np.divmod(at[first], length)
    return Places(pair[first], at_window, at_dest, np.append(first, len(at)), source[look[order]])


def batches(windows: Windows, size: int) -> Iterator[slice]:
    """Some windows at a time."""
    return (slice(start, start + size) for start in range(0, len(windows), size))


def expand(start: Int64[ndarray, " many_and_end"], chosen: Int64[ndarray, " chosen"]) -> tuple[NDArray[Any], NDArray[Any]]:
    """All members of some groups, where ``start`` says where each group begins: which of the chosen each belongs to, and its number.

    >>> expand(np.array([0, 2, 2, 5]), np.array([2, 0]))
    (array([0, 0, 0, 1, 1]), array([2, 3, 4, 0, 1]))
    """
    sizes = start[chosen + 1] - start[chosen]
    owner = np.repeat(np.arange(len(chosen)), sizes)
    nth = np.arange(len(owner)) - np.repeat(np.cumsum(sizes) - sizes, sizes)
    return owner, start[chosen][owner] + nth


@dataclass(frozen=True, eq=False)
class Counts:
    """How often each row's places are there in a text."""

    chances: Int64[ndarray, " row"]
    """Places, whatever comes next."""
    occurs: Int64[ndarray, " row"]
    """Places where ``out`` does come next."""


def count(windows: Windows, rows: Listed, vocab: int) -> Counts:
    """How often each skip-trigram occurs, from the text alone; heads do not matter."""
    pairs, of_row = Pairs.of(rows, vocab)
    triples, of_triple = np.unique(of_row * vocab + rows.out, return_inverse=True)
    chances, occurs = np.zeros(len(pairs.keys), np.int64), np.zeros(len(triples), np.int64)
    for some in batches(windows, max(1, 2 * AT_ONCE // windows.shape[1] ** 2)):
        found = find(windows[some], pairs)
        chances += np.bincount(found.pair, minlength=len(chances))
        came = found.pair * vocab + windows[some][found.window, found.dest + 1]
        at = np.searchsorted(triples, came)
        at[at == len(triples)] = 0
        occurs += np.bincount(at[triples[at] == came], minlength=len(occurs)) if len(triples) else 0
    return Counts(chances[of_row], occurs[of_triple])


def _slot(keys: Int64[ndarray, " key"]) -> NDArray[Any]:
    return (keys.view(np.uint64) * MIXING) >> np.uint64(64 - SIEVE)
