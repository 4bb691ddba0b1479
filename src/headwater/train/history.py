"""A training so far, from its folder: where it stands, its curve, and what it is held against."""

import math
import sys
from collections.abc import Iterable, Sequence
from dataclasses import dataclass, fields, replace
from functools import cached_property
from itertools import pairwise
from pathlib import Path
from typing import Any, Literal, TypeAlias

from headwater.text.corpus import Corpus, open_corpus
from headwater.text.counts import conditional_entropy, entropy
from headwater.text.sources import Built
from headwater.train.folder import RunFolder
from headwater.train.recipe import Recipe, read_recipe

Phase: TypeAlias = Literal["begun", "running", "finished", "stopped"]
"""``begun``: there is a recipe and no update yet. ``stopped``: it has not come to its end, and nobody trains."""
LATELY = 20
"""Lines of the log that the present speed is from."""

MOST = 2**53
"""Beyond it nobody counts updates: a line that does is not ours."""


@dataclass(frozen=True, kw_only=True, slots=True)
class Point:
    """One line of a log; what is not there, or is no finite number, is None."""

    step: int
    loss: float | None = None
    """Mean nats of the update's own batch, before it."""
    held_out: float | None = None
    """Mean nats on held-out text, after it."""
    bits_per_byte: float | None = None
    """The same as bits for each byte."""
    gradient_norm: float | None = None
    learning_rate: float | None = None
    seconds: float | None = None
    """That training had taken until then."""
    tokens_per_second: float | None = None
    """Since the line before, which the log does not hold: it follows from the seconds."""


@dataclass(frozen=True, kw_only=True)
class State:
    """Where a training stands."""

    phase: Phase
    running: bool
    """Whether a process trains now; before the first update it may still be reading the text."""
    step: int
    """Updates that the log tells of."""
    steps: int
    """Updates that it will have made in the end."""
    tokens: int
    """Tokens that it has been trained on."""
    seconds: float | None
    """That this took."""
    tokens_per_second: float | None
    """Lately."""
    remaining: float | None
    """Seconds until the end at that speed; none where nobody trains."""


@dataclass(frozen=True, kw_only=True)
class History:
    """A training as its folder tells it at one moment."""

    recipe: Recipe
    points: tuple[Point, ...]
    """In the order of their steps."""
    running: bool
    has_model: bool
    """Whether the model of the end is there."""
    snapshots: tuple[int, ...]

    @cached_property
    def state(self) -> State:
        """Where it stands."""
        plan, tokens = self.recipe.training, tokens_of_an_update(self.recipe)
        step = self.points[-1].step if self.points else 0
        rate = speed(self.points)
        return State(
            phase=self._phase,
            running=self.running,
            step=step,
            steps=plan.steps,
            tokens=step * tokens,
            seconds=self.points[-1].seconds if self.points else None,
            tokens_per_second=None if rate is None else rate * tokens,
            remaining=max(0, plan.steps - step) / rate if rate and self.running else None,
        )

    @property
    def _phase(self) -> Phase:
        if self.running:
            return "running" if self.points else "begun"
        if self.has_model:
            return "finished"
        return "stopped" if self.points else "begun"

    @property
    def held_out(self) -> Point | None:
        """The last line with a loss on held-out text."""
        return next((point for point in reversed(self.points) if point.held_out is not None), None)


def read_history(path: str | Path) -> History:
    """A training's folder as it is now; it may grow meanwhile."""
    folder = RunFolder(Path(path))
    # Asked first: a training that ends while the rest is read has then at least all that it had when it was asked.
    running, recipe = folder.is_running(), read_recipe(folder.recipe)
    return History(
        recipe=recipe,
        points=timed(points_of(folder.read_log()), tokens_of_an_update(recipe)),
        running=running,
        has_model=folder.model.is_dir(),
        snapshots=tuple(step for step, _ in folder.snapshots()),
    )


def points_of(lines: Iterable[dict[str, Any]]) -> tuple[Point, ...]:
    """The lines of a log in the order of their steps; of several of one step, the last.

    >>> points_of([{"step": 2, "loss": 3.5, "seconds": 1.0}, {"step": 1, "loss": float("nan"), "seconds": "?"}])[0]
    Point(step=1, loss=None, held_out=None, bits_per_byte=None, gradient_norm=None, learning_rate=None, seconds=None, tokens_per_second=None)
    """
    names = [field.name for field in fields(Point) if field.name not in ("step", "tokens_per_second")]
    told = [line for line in lines if 0 <= line["step"] <= MOST]
    found = {line["step"]: Point(step=line["step"], **{name: _finite(line.get(name)) for name in names}) for line in told}
    return tuple(found[step] for step in sorted(found))


def tokens_of_an_update(recipe: Recipe) -> int:
    """How many tokens one update is trained on."""
    return recipe.training.batch * recipe.model.context


def timed(points: Sequence[Point], tokens: int) -> tuple[Point, ...]:
    """Points in their order, each with the speed since the one before; ``tokens`` are those of one update.

    >>> [point.tokens_per_second for point in timed([Point(step=1, seconds=1.0), Point(step=3, seconds=2.0)], 8)]
    [None, 16.0]
    """
    rates = [None, *(speed(two, 2) for two in pairwise(points))]
    return tuple(
        point if rate is None else replace(point, tokens_per_second=rate * tokens)
        for point, rate in zip(points, rates, strict=False)
    )


def speed(points: Sequence[Point], lately: int = LATELY) -> float | None:
    """Updates for each second over the last lines of a log; None where they do not tell.

    >>> speed([Point(step=step, seconds=0.5 * step) for step in range(1, 9)])
    2.0
    """
    timed = [(point.step, point.seconds) for point in points[-lately:] if point.seconds is not None]
    if not timed:
        return None
    (first, begin), (last, end) = timed[0], timed[-1]
    return (last - first) / (end - begin) if last > first and end > begin else None


def thinned(points: Sequence[Point], most: int) -> tuple[Point, ...]:
    """At most ``most`` points of a curve, to draw: the first, the last, and of each stretch between the extremes of both losses.

    >>> points = [Point(step=step, loss=float(step % 7)) for step in range(1000)]
    >>> some = thinned(points, 50)
    >>> len(some) <= 50, some[0].step, some[-1].step, {point.loss for point in some} >= {0.0, 6.0}
    (True, 0, 999, True)
    """
    if len(points) <= most:
        return tuple(points)
    kept = {0, len(points) - 1}
    stretches = max(1, (most - 2) // 4)
    for number in range(stretches):
        here = range(number * len(points) // stretches, (number + 1) * len(points) // stretches)
        for name in ("loss", "held_out"):
            there = [(value, at) for at in here if (value := getattr(points[at], name)) is not None]
            kept |= {min(there)[1], max(there)[1]} if there else set()
    return tuple(points[at] for at in sorted(kept))


def corpus_place(path: Path, recipe: Recipe) -> Path:
    """Where the text of a training lies, or will lie."""
    source = recipe.text.source
    return Path(source.folder) if isinstance(source, Built) else RunFolder(path).corpus


def corpus_of(path: Path, recipe: Recipe) -> Corpus | None:
    """The text that a training is trained on; None until it has been cut into tokens."""
    place = corpus_place(path, recipe)
    return open_corpus(place) if (place / "manifest.json").is_file() else None


@dataclass(frozen=True, kw_only=True)
class Entropies:
    """What a text costs whoever knows less of it than its pairs, in nats for each token."""

    uniform: float
    """``ln`` of how many tokens the text's tokenizer has, whether they occur or not."""
    unigram: float
    """H(X₁) of the training part."""
    bigram: float
    """H(X₂|X₁) of the training part: the least that anything loses on it that sees one token."""


def entropies(corpus: Corpus) -> Entropies:
    """Those of a corpus, as ``headwater eval`` prints them."""
    bigram = conditional_entropy(corpus.bigrams.first, corpus.bigrams.count)
    return Entropies(uniform=math.log(corpus.vocab), unigram=entropy(corpus.unigrams), bigram=bigram)


def _finite(value: Any) -> float | None:
    is_number = isinstance(value, int | float) and not isinstance(value, bool) and abs(value) < sys.float_info.max
    return float(value) if is_number else None
