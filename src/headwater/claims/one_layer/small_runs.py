"""A one-layer model of bytes, trained in seconds: what a series over training is measured on.

Its vocabulary is small enough for square tables of bigrams, and its text is read many times over, so that what is said of the text
it was trained on can be measured on that text.
"""

from dataclasses import dataclass, replace
from functools import cached_property
from typing import Any

import torch
from numpy.typing import NDArray

from headwater.api import Model
from headwater.claims.given import Given
from headwater.model.weights import Weights
from headwater.shapes import Tokens
from headwater.text.sources import StandardLibrary
from headwater.train.evaluate import window_starts
from headwater.train.plan import Plan
from headwater.train.studies.gradients import train_one_layer
from headwater.train.studies.pairs import Pairs
from headwater.train.studies.small_text import read_bytes
from headwater.train.studies.zero_layer import train_zero_layer, zero_layer

BYTES = 200_000
PLAN = Plan(steps=1200, batch=16, learning_rate=2e-2, warmup=30)
ZERO_LAYER_PLAN = Plan(steps=600, batch=16, learning_rate=2e-2, warmup=30)


@dataclass(frozen=True, eq=False)
class SmallRun:
    """The text of a training, as ids below ``vocab``, and the weights after 0, 16, 64 … updates and the last, in float64."""

    ids: NDArray[Any]
    vocab: int
    series: tuple[tuple[int, Weights], ...]

    @property
    def trained(self) -> Model:
        """The last of the series."""
        return Model(self.series[-1][1])

    @cached_property
    def pairs(self) -> Pairs:
        """The bigrams of the text."""
        return Pairs.of(self.ids, self.vocab)

    def windows(self, count: int = 128) -> Tokens:
        """Windows at even distances over the text, each with the token after it: ``[count, context + 1]``."""
        context = self.series[0][1].config.context
        starts = window_starts(len(self.ids) - context, context, count * context)
        return torch.stack([torch.from_numpy(self.ids[start : start + context + 1]) for start in starts.tolist()])


def small_one_layer(given: Given) -> SmallRun:
    """The training, done once."""
    return given.once("small one-layer run", _train)


def _train() -> SmallRun:
    ids, vocab = read_bytes(StandardLibrary(), BYTES)
    series = tuple((step, weights.to(dtype=torch.float64)) for step, weights in train_one_layer(ids, vocab, PLAN))
    return SmallRun(ids, vocab, series)


def small_zero_layer(given: Given, seed: int = 0) -> Weights:
    """A zero-layer model of the same width, trained on the same text: the direct path with nothing beside it."""

    def make() -> Weights:
        small = small_one_layer(given)
        beginning = Weights.draw(zero_layer(small.vocab, small.trained.config.d_model), seed=seed)
        *_, (_, trained) = train_zero_layer(beginning, small.ids, replace(ZERO_LAYER_PLAN, seed=seed))
        return trained.to(dtype=torch.float64)

    return given.once(f"small zero-layer run {seed}", make)
