"""A planted language: made-up text whose every regularity is known, so that what a model finds can be held against the truth.

A text opens with a full stop and goes on word by word. The next word is drawn from the present word's row in a table of bigrams,
unless something else decides:

- **a skip-trigram** ``[source] … [dest] → [out]``: *dest* is the present word and *source* stands some words before it. Several
  sources share a destination, so bigrams cannot tell which *out* is due;
- **copying**, which is a skip-trigram whose *out* is its source: after certain words, a word seen earlier comes again;
- **a repeat**, where the language has them: a segment of the text is written once more, which takes two layers to see.

Of numpy's generator only uniform numbers are asked for, which stay the same from version to version: the truth about a model that
was trained long ago can be made again from the language's settings.
"""

import itertools
from collections.abc import Iterator
from dataclasses import dataclass, field
from enum import IntEnum
from functools import lru_cache
from typing import NamedTuple

import numpy as np
from jaxtyping import Bool, Float, Int, Int8, UInt16
from numpy import ndarray
from numpy.typing import NDArray

from headwater.errors import ConfigError
from headwater.settings import setting
from headwater.text.tokenizer import Tokenizer

TEXTS = 512
"""Texts that are written side by side, a word of each at a time."""

MOST_WORDS, MOST_LENGTH = 4096, 2**15 - 1
OPENING = "."
SYLLABLES = tuple(onset + vowel for onset in "bdfghjklmnprstvz" for vowel in "aeiou")

OFTEN, RATHER_OFTEN = 8.0, 2.0
"""How much more often than a plain word a destination, and a source, comes by its bigrams."""


class SkipTrigram(NamedTuple):
    """``[source] … [dest] → [out]``, as ids."""

    source: int
    dest: int
    out: int


class Cause(IntEnum):
    """What decided on a word."""

    OPENING = 0
    BIGRAM = 1
    SKIP_TRIGRAM = 2
    COPYING = 3
    REPEAT = 4


@setting
class Skips:
    """How many skip-trigrams there are. Where they outnumber the sources, some sources have several destinations, each with its own out."""

    count: int = 48
    sources: int = 40
    destinations: int = 6

    def __post_init__(self) -> None:
        _between("skips.sources", self.sources, 0, MOST_WORDS)
        _between("skips.destinations", self.destinations, 0, MOST_WORDS)
        _between("skips.count", self.count, 0, self.sources * self.destinations)


@setting
class Copying:
    """How many words are copied, and after how many others: each after any of them."""

    words: int = 12
    after: int = 2

    def __post_init__(self) -> None:
        _between("copying.words", self.words, 0, MOST_WORDS)
        _between("copying.after", self.after, 0, MOST_WORDS)


@setting
class Reach:
    """Where a rule can fire: its source was last seen ``nearest`` to ``farthest`` words before its destination.

    There, with this ``chance``, the next word is the *out* of one of the rules that can fire, drawn evenly.
    """

    nearest: int = 2
    farthest: int = 16
    chance: float = 0.8

    def __post_init__(self) -> None:
        _between("reach.farthest", self.farthest, 1, MOST_LENGTH)
        _between("reach.nearest", self.nearest, 1, self.farthest)
        _between("reach.chance", self.chance, 0, 1)


@setting
class Repeats:
    """Segments of ``span`` words, from anywhere earlier in the text, that are written once more.

    In a long text they make up this ``share`` of all words; a text's first words cannot repeat anything.
    """

    share: float = 0.3
    span: int = 16

    def __post_init__(self) -> None:
        _between("repeats.share", self.share, 0, 0.9)
        _between("repeats.span", self.span, 1, MOST_LENGTH - 1)

    @property
    def onset(self) -> float:
        """The chance ``r`` that one begins, where none goes on: ``(1 − r)/r`` words lie between two, and ``share`` is ``span`` of the sum."""
        return self.share / (self.share + self.span * (1 - self.share))


@setting
class PlantedLanguage:
    """The settings of a language; its words, its truth and its text follow from them.

    >>> language = PlantedLanguage(seed=1)
    >>> [language.vocabulary[word] for word in language.skip_trigrams[0]]
    ['vofu', 'govu', 'jovi']
    >>> " ".join(language.vocabulary[word] for word in language.sample(6, seed=0).ids)
    '. godo tove suni nomo dime'
    """

    seed: int = 0
    words: int = 256
    length: int = 128
    """Words in a text, its full stop among them."""
    skips: Skips = field(default_factory=Skips)
    copying: Copying = field(default_factory=Copying)
    reach: Reach = field(default_factory=Reach)
    repeats: Repeats | None = None

    def __post_init__(self) -> None:
        skips, copying = self.skips, self.copying
        _between("seed", self.seed, 0, 2**63 - 1)
        _between("length", self.length, 2, MOST_LENGTH)
        needed = 1 + skips.sources + skips.destinations + skips.count + copying.words + copying.after
        if not max(2, needed) <= self.words <= MOST_WORDS:
            raise ConfigError(
                f"{self.words} words, of which the rules use {needed}",
                f"room for all of them, and at most {MOST_WORDS:,} words",
                "change words, or plant fewer rules",
            )

    @property
    def vocabulary(self) -> tuple[str, ...]:
        """The words, each at its id: the full stop, then two syllables each."""
        return _truth(self).vocabulary

    @property
    def bigrams(self) -> Float[ndarray, "vocab vocab"]:
        """``P(next | present)`` where no rule fires: each row adds up to 1, and none leads to the full stop."""
        return _truth(self).bigrams

    @property
    def skip_trigrams(self) -> tuple[SkipTrigram, ...]:
        """Those whose out is another word than their source."""
        return _truth(self).skip_trigrams

    @property
    def copies(self) -> tuple[SkipTrigram, ...]:
        """Those whose out is their source: each copied word after each word that calls for one."""
        return _truth(self).copies

    def tokenizer(self) -> Tokenizer:
        """One token for each word."""
        # Tokenizers are learned from sources, of which this language is one.
        from headwater.text.training import word_tokenizer

        return word_tokenizer(self.vocabulary)

    def chunks(self, tokens: int, seed: int) -> Iterator[UInt16[ndarray, " some"]]:
        """The first ``tokens`` ids of a text without end, a piece at a time; another ``seed`` gives another text."""
        return (piece.ids for piece in self._pieces(tokens, seed))

    def sample(self, tokens: int, seed: int) -> "Sample":
        """The same ids in one piece, with what decided on each and what it costs."""
        pieces = list(self._pieces(tokens, seed))
        if not pieces:
            return Sample(np.empty(0, np.uint16), np.empty(0, np.int8), np.empty(0))
        return Sample(*(np.concatenate([getattr(piece, name) for piece in pieces]) for name in ("ids", "causes", "nats")))

    def _pieces(self, tokens: int, seed: int) -> Iterator["Sample"]:
        _between("seed", seed, 0, 2**63 - 1)
        for number, begin in enumerate(range(0, tokens, TEXTS * self.length)):
            yield _Writer(self, _draws(self.seed, 1, seed, number)).write().first(tokens - begin)


@dataclass(frozen=True)
class Sample:
    """Planted text, and what is known about each word of it."""

    ids: UInt16[ndarray, " tokens"]
    causes: Int8[ndarray, " tokens"]
    """The ``Cause`` of each."""
    nats: Float[ndarray, " tokens"]
    """``−ln P(word | the text before it)``: what the language itself would lose, and no model can do better on average.

    Full stops and repeated words cost nothing: the language knows where they stand.
    """

    def first(self, tokens: int) -> "Sample":
        """Its beginning."""
        return Sample(self.ids[:tokens], self.causes[:tokens], self.nats[:tokens])


@dataclass(frozen=True)
class _Truth:
    """The tables behind a language."""

    vocabulary: tuple[str, ...]
    bigrams: NDArray[np.float64]
    skip_trigrams: tuple[SkipTrigram, ...]
    copies: tuple[SkipTrigram, ...]

    def cumulative(self) -> NDArray[np.float64]:
        """``row + P(next ≤ word | row)``, row after row: one rising line in which any row's draw is one search."""
        rising = self.bigrams.cumsum(axis=1)
        rising /= rising[:, -1:]
        return (rising + np.arange(len(rising), dtype=np.float64)[:, None]).ravel()


@lru_cache(maxsize=8)
def _truth(language: PlantedLanguage) -> _Truth:
    skips, copying, draws = language.skips, language.copying, _draws(language.seed, 0)
    names = ["".join(pair) for pair in itertools.product(SYLLABLES, repeat=2)]
    order: list[int] = np.argsort(draws.random(len(names))).tolist()
    vocabulary = OPENING, *(names[place] for place in order[: language.words - 1])
    shuffled = 1 + np.argsort(draws.random(language.words - 1))
    sizes = (skips.sources, skips.destinations, copying.words, copying.after, skips.count)
    sources, dests, copied, after, outs = (group.tolist() for group in np.split(shuffled, np.cumsum(sizes))[:5])
    popularity = np.ones(language.words)
    popularity[0] = 0
    popularity[sources + copied] = RATHER_OFTEN
    popularity[dests + after] = OFTEN
    # Exponential draws: but for what is popular, each row is any distribution over the words as likely as any other.
    weights = popularity * -np.log1p(-draws.random((language.words, language.words)))
    trigrams: list[SkipTrigram] = []
    for number, out in enumerate(outs):
        fork, source = divmod(number, skips.sources)
        trigrams.append(SkipTrigram(sources[source], dests[(source + fork) % skips.destinations], out))
    copies = tuple(SkipTrigram(word, dest, word) for word, dest in itertools.product(copied, after))
    bigrams = weights / weights.sum(axis=1, keepdims=True)
    bigrams.setflags(write=False)
    return _Truth(vocabulary, bigrams, tuple(trigrams), copies)


class _Writer:
    """Writes ``TEXTS`` texts at once; arrays over texts have them in their last axis."""

    def __init__(self, language: PlantedLanguage, draws: np.random.Generator) -> None:
        self._language, self._draws = language, draws
        truth = _truth(language)
        self._bigrams, self._cumulative = truth.bigrams, truth.cumulative()
        rules = truth.skip_trigrams + truth.copies
        self._source, self._dest, self._out = np.array(rules, np.int64).reshape(-1, 3).T
        self._cause = np.where(self._out == self._source, Cause.COPYING, Cause.SKIP_TRIGRAM).astype(np.int8)
        self._is_dest = np.isin(np.arange(language.words), self._dest)
        self._ids = np.zeros((language.length, TEXTS), np.int64)
        self._causes = np.full((language.length, TEXTS), Cause.OPENING, np.int8)
        self._chances = np.ones((language.length, TEXTS))
        self._last_seen = np.full((language.words, TEXTS), -(2**15), np.int32)
        self._left = np.zeros(TEXTS, np.int64)
        self._from = np.zeros(TEXTS, np.int64)

    def write(self) -> Sample:
        """The texts, one after the other."""
        for place in range(1, self._language.length):
            draws = self._draws.random((5, TEXTS))
            self._by_bigrams(place, draws[0])
            self._by_rules(place, draws[1:3])
            if self._language.repeats:
                self._by_repeats(place, draws[3:], self._language.repeats)
            self._last_seen[self._ids[place], np.arange(TEXTS)] = place
        return Sample(self._ids.T.ravel().astype(np.uint16), self._causes.T.ravel(), -np.log(self._chances.T.ravel()))

    def _by_bigrams(self, place: int, draw: NDArray[np.float64]) -> None:
        present: NDArray[np.int64] = self._ids[place - 1]
        at = present + draw
        words = np.searchsorted(self._cumulative, at, side="right") - present * self._language.words
        self._ids[place], self._causes[place], self._chances[place] = words, Cause.BIGRAM, self._bigrams[present, words]

    def _by_rules(self, place: int, draws: Float[ndarray, "two text"]) -> None:
        texts = np.flatnonzero(self._is_dest[self._ids[place - 1]])
        able = self._able(place, texts)
        texts, able = texts[able.any(axis=0)], able[:, able.any(axis=0)]
        if not len(texts):
            return
        count, chance = able.sum(axis=0), self._language.reach.chance
        whether, which = draws[:, texts]
        chosen = (able.cumsum(axis=0) > np.floor(which * count)).argmax(axis=0)
        fires = whether < chance
        words = np.where(fires, self._out[chosen], self._ids[place, texts])
        self._ids[place, texts] = words
        self._causes[place, texts] = np.where(fires, self._cause[chosen], Cause.BIGRAM)
        by_rule = (able & (self._out[:, None] == words)).sum(axis=0) / count
        self._chances[place, texts] = chance * by_rule + (1 - chance) * self._bigrams[self._ids[place - 1, texts], words]

    def _able(self, place: int, texts: Int[ndarray, " some"]) -> Bool[ndarray, "rule some"]:
        """Which rules can fire in some of the texts."""
        reach = self._language.reach
        distance = place - 1 - self._last_seen[self._source[:, None], texts]
        is_near = (reach.nearest <= distance) & (distance <= reach.farthest)
        return is_near & (self._dest[:, None] == self._ids[place - 1, texts])

    def _by_repeats(self, place: int, draws: Float[ndarray, "two text"], repeats: Repeats) -> None:
        room = place - repeats.span
        begins = (self._left == 0) & (draws[0] < repeats.onset) & (room >= 1)
        self._left[begins] = repeats.span
        self._from[begins] = 1 + np.floor(draws[1, begins] * room)
        texts = np.flatnonzero(self._left)
        self._ids[place, texts] = self._ids[self._from[texts], texts]
        self._causes[place, texts], self._chances[place, texts] = Cause.REPEAT, 1.0
        self._left[texts] -= 1
        self._from[texts] += 1


def _draws(*seeds: int) -> np.random.Generator:
    return np.random.Generator(np.random.PCG64(seeds))


def _between(name: str, value: int | float, least: int, most: int | float) -> None:
    if not least <= value <= most:
        raise ConfigError(f"{name} is {value}", f"from {least:,} to {most:,}", f"change {name}")
