"""n-grams: counted once for all orders, then read as probabilities by counts, by add-k or by Kneser and Ney's smoothing.

The n-grams of each order stand in a sorted array, and an n-gram's *place* there stands for it one order further up: the key of an
n-gram is ``place(all but its last token) · vocab + last token``. So a key fits 64 bits at any order and vocabulary, and what
continues one context lies side by side. The end of a document is a token like any other.
"""

from collections.abc import Iterator
from dataclasses import dataclass
from functools import cached_property
from typing import Any, TypeAlias, cast

import numpy as np
import torch
from jaxtyping import Float, Int, Integer
from numpy import ndarray
from numpy.typing import NDArray
from torch import Tensor

from headwater.errors import InputError

UNSEEN = -1
"""The place of an n-gram that was never counted. As an index it is a table's last entry, which is kept for it."""

Places: TypeAlias = NDArray[np.int64]


@dataclass(frozen=True, eq=False)
class Mixture:
    """One step of interpolation: ``p(token | context) = own[n-gram] + passed[context] · p(token | shorter context)``.

    The last entries are for what was never seen: nothing of its own, everything passed on.
    """

    own: Float[ndarray, " ngrams_and_1"]
    passed: Float[ndarray, " contexts_and_1"]


@dataclass(frozen=True, eq=False)
class Level:
    """The different n-grams of one order, sorted by key, each with how often it stands in the text.

    ``preceded`` is by how many different tokens an n-gram is preceded there: Kneser and Ney's continuation count. It is read off the
    n-grams that are one token longer, so there is none for the longest.
    """

    vocab: int
    contexts: int
    keys: Int[ndarray, " ngrams"]
    counts: Integer[ndarray, " ngrams"]
    preceded: Integer[ndarray, " ngrams"] | None

    def find(self, keys: Places) -> Places:
        """The places of some keys, ``UNSEEN`` where there is none."""
        places = np.minimum(np.searchsorted(self.keys, keys), len(self.keys) - 1)
        return np.where(self.keys[places] == keys, places, UNSEEN)

    @cached_property
    def totals(self) -> Float[ndarray, " contexts_and_1"]:
        """How often each context is continued; of one that was never seen, 0."""
        return self._by_context(self.counts)

    @cached_property
    def longest(self) -> Mixture:
        """Its interpolation where it looks furthest back: an n-gram counts as often as it stands in the text."""
        return self._mixture(self.counts)

    @cached_property
    def shorter(self) -> Mixture:
        """Its interpolation below a longer one: an n-gram counts once for each token that precedes it."""
        assert self.preceded is not None, "the longest n-grams are below no others"
        return self._mixture(self.preceded)

    def _mixture(self, counts: Integer[ndarray, " ngrams"]) -> Mixture:
        kept_back = discounts(counts)[np.minimum(counts, 3)]
        totals = self._by_context(counts)
        divisors = np.where(totals > 0, totals, 1.0)
        passed = np.where(totals > 0, self._by_context(kept_back) / divisors, 1.0)
        own = (counts - kept_back) / divisors[self.keys // self.vocab]
        return Mixture(np.append(own, 0.0), passed)

    def _by_context(self, numbers: NDArray[Any]) -> NDArray[np.float64]:
        return np.bincount(self.keys // self.vocab, weights=numbers, minlength=self.contexts + 1).astype(np.float64, copy=False)


def discounts(counts: Integer[ndarray, " ngrams"]) -> Float[ndarray, "4"]:
    """What is kept back of counts of 0, 1, 2, and 3 or more, for what was not seen (Chen and Goodman, 1998).

    With ``n_j`` n-grams counted ``j`` times: ``D_j = j − (j + 1) · n_1/(n_1 + 2 n_2) · n_{j+1}/n_j``. Where that is not defined or
    negative, as on very small or made-up texts: one half, 1 and 1½.

    >>> discounts(np.array([1, 1, 1, 1, 2, 2, 3, 4]))
    array([0.  , 0.5 , 1.25, 1.  ])
    """
    n = np.bincount(np.minimum(counts, 5), minlength=6)
    j = np.arange(1, 4)
    # Whole numbers, so that rounding does not decide what is negative.
    taken, share = (j + 1) * n[1] * n[2:5], (n[1] + 2 * n[2]) * n[1:4]
    if n[1:5].all() and (taken <= j * share).all():
        return np.append(0.0, j - taken / share)
    return np.array([0.0, 0.5, 1.0, 1.5])


@dataclass(frozen=True, eq=False)
class NGrams:
    """What was counted: ``levels[k]`` has the n-grams of ``k + 1`` tokens, which follow a context of ``k``.

    >>> ngrams = count_ngrams(np.array([0, 1, 0, 1, 2]), vocab=3, order=2)
    >>> pairs = ngrams.levels[1]
    >>> [(int(key // 3), int(key % 3), int(count)) for key, count in zip(pairs.keys, pairs.counts)]
    [(0, 1, 2), (1, 0, 1), (1, 2, 1)]
    """

    vocab: int
    levels: tuple[Level, ...]

    def look_up(self, windows: Int[Tensor, "batch window"], order: int) -> Iterator[tuple[Level, Places, Places]]:
        """For each order up to ``order``: its level, and the places of contexts and of n-grams in the windows.

        Those of level ``k`` end at position ``k``, where the window first has all they look at, and at every later one.
        """
        tokens = windows.cpu().numpy()
        if tokens.min() < 0 or tokens.max() >= self.vocab:
            raise InputError(
                f"token ids {tokens.min()} to {tokens.max()}",
                f"ids from 0 to {self.vocab - 1}",
                "use the same tokenizer for both",
            )
        contexts = np.zeros(tokens.shape, np.int64)
        for k, level in enumerate(self.levels[:order]):
            # The key of a continued UNSEEN is negative, and no key is.
            places = level.find(contexts * self.vocab + tokens[:, k:])
            yield level, contexts, places
            contexts = places[:, :-1]

    def kept(self, order: int) -> int:
        """How many different n-grams there are up to an order."""
        return sum(len(level.keys) for level in self.levels[:order])

    def check(self, order: int) -> None:
        """Refuse an order that was not counted."""
        if not 1 <= order <= len(self.levels):
            raise InputError(f"order {order}", f"an order from 1 to {len(self.levels)}", "count longer n-grams")


def count_ngrams(ids: Integer[ndarray, " tokens"], *, vocab: int, order: int) -> NGrams:
    """Every n-gram of a stream of ids, for each n up to ``order``."""
    if order < 1 or len(ids) < order:
        raise InputError(f"order {order} on {len(ids):,} tokens", "1 to the number of tokens", "change one of them")
    tokens = np.asarray(ids).astype(np.int64)
    if tokens.min() < 0 or tokens.max() >= vocab:
        raise InputError(f"token ids {tokens.min()} to {tokens.max()}", f"ids from 0 to {vocab - 1}", "use their own tokenizer")
    levels = [Level(vocab, 1, np.arange(vocab), np.bincount(tokens, minlength=vocab).astype(np.int32), None)]
    places = tokens
    for k in range(1, order):
        below = levels[-1]
        keys, found, counts = _distinct(places[:-1] * vocab + tokens[k:])
        endings = np.empty(len(keys), np.int64)
        endings[found] = places[1:]
        preceded = np.bincount(endings, minlength=len(below.keys)).astype(np.int32)
        levels[-1] = Level(vocab, below.contexts, below.keys, below.counts, preceded)
        levels.append(Level(vocab, len(below.keys), keys, counts, None))
        places = found
    return NGrams(vocab, tuple(levels))


def _distinct(keys: NDArray[np.int64]) -> tuple[NDArray[np.int64], Places, NDArray[np.int32]]:
    """``np.unique`` with inverse and counts, three times as fast: the different keys, where each key stands, how often each is there."""
    ordered, positions = torch.from_numpy(keys).sort()
    different, inverse, counts = cast(Any, torch.unique_consecutive)(ordered, return_inverse=True, return_counts=True)
    places = torch.empty_like(positions)
    places[positions] = inverse
    return different.numpy(), places.numpy(), counts.int().numpy()


class Counted:
    """``(count(n-gram) + add) / (count(context) + add · vocab)``.

    With ``add=0`` these are the counts themselves, the likeliest probabilities of the text that was counted: an n-gram that is not in
    it has probability 0 and costs infinitely many nats. There is no backing off, except that the beginning of a window has shorter
    contexts.

    >>> ngrams = count_ngrams(np.array([0, 1, 0, 1, 0, 2]), vocab=3, order=2)
    >>> Counted(ngrams, order=2, add=0.0).nats(torch.tensor([[0, 1, 1], [0, 2, 0]])).neg().exp()
    tensor([[0.6667, 0.0000],
            [0.3333, 0.0000]], dtype=torch.float64)
    """

    def __init__(self, ngrams: NGrams, *, order: int, add: float) -> None:
        ngrams.check(order)
        self._ngrams, self._order, self._add = ngrams, order, add
        self.name = f"{called(order)}, {f'add {add:g}' if add else 'counts'}"
        self.parameters = ngrams.kept(order)

    def nats(self, windows: Int[Tensor, "batch pos_plus_1"]) -> Float[Tensor, "batch pos"]:
        """What the counts of the longest context at hand say."""
        p = np.zeros(windows.shape)
        for k, (level, contexts, places) in enumerate(self._ngrams.look_up(windows, self._order)):
            counts = np.where(places == UNSEEN, 0, level.counts[places]) + self._add
            totals = level.totals[contexts] + self._add * self._ngrams.vocab
            p[:, k:] = counts / np.where(totals > 0, totals, 1.0)
        return torch.from_numpy(p[:, 1:]).log().neg()


class KneserNey:
    """Interpolated Kneser-Ney smoothing with three discounts for each order (Chen and Goodman's "modified" one).

    Every count is made smaller by a discount, and what a context saves in this way is spread by the next shorter context::

        p(token | context) = (count − D(count)) / Σ count  +  Σ D(count) / Σ count · p(token | shorter context)

    In a shorter context an n-gram counts not as often as it stands in the text but once for each token that precedes it. The
    shortest is uniform, so no token has probability 0. The beginning of a window has the full model of the order that fits there.

    >>> ngrams = count_ngrams(np.array([0, 1, 0, 1, 0, 2]), vocab=3, order=2)
    >>> KneserNey(ngrams, order=2).nats(torch.tensor([[0, 0], [0, 1], [0, 2]])).neg().exp().sum()
    tensor(1., dtype=torch.float64)
    """

    def __init__(self, ngrams: NGrams, *, order: int) -> None:
        ngrams.check(order)
        self._ngrams, self._order = ngrams, order
        self.name = f"{called(order)}, Kneser-Ney"
        self.parameters = ngrams.kept(order)

    def nats(self, windows: Int[Tensor, "batch pos_plus_1"]) -> Float[Tensor, "batch pos"]:
        """From the uniform distribution up, one order after the other."""
        p = np.full(windows.shape, 1 / self._ngrams.vocab)
        for k, (level, contexts, places) in enumerate(self._ngrams.look_up(windows, self._order)):
            # Position k has no more than k tokens before it: there this level looks furthest back, later on a longer one does.
            is_last = k == self._order - 1
            uses = [(level.longest, slice(None))] if is_last else [(level.longest, slice(1)), (level.shorter, slice(1, None))]
            for mixture, some in uses:
                lower = p[:, k:][:, some]
                p[:, k:][:, some] = mixture.own[places[:, some]] + mixture.passed[contexts[:, some]] * lower
        return torch.from_numpy(p[:, 1:]).log().neg()


def called(order: int) -> str:
    """What n-grams of an order are called.

    >>> [called(order) for order in (1, 2, 3, 4)]
    ['unigram', 'bigram', 'trigram', '4-gram']
    """
    return {1: "unigram", 2: "bigram", 3: "trigram"}.get(order, f"{order}-gram")
