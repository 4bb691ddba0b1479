"""A small stack of blocks trained for seconds, with the norms of Theorem 1 and without any, at several learning rates."""

import math
from collections import Counter
from collections.abc import Callable
from dataclasses import dataclass, replace
from typing import Any

from numpy.typing import NDArray
from torch import Tensor

from headwater.claims.given import Given
from headwater.model.config import Attention, FeedForward, LearnedPositions, ModelConfig, NoNorm, Norm, PostNorm
from headwater.model.weights import Weights
from headwater.text.planted import PlantedLanguage
from headwater.train.batches import Batches
from headwater.train.loop import DivergedError, train_steps
from headwater.train.module import TransformerModule
from headwater.train.plan import Plan

LANGUAGE = PlantedLanguage()
STACK = ModelConfig(
    vocab=LANGUAGE.words,
    context=32,
    d_model=32,
    layers=4,
    attention=Attention(heads=4, d_head=8),
    feed_forward=FeedForward(d_mlp=64),
    positions=LearnedPositions(),
)
WORDS = 512
"""In the text that the stacks learn by heart."""
RATES = (0.008, 0.032, 0.128)
# No warm-up and no clipping: both are there to make up for what norms are said to do.
PLAN = Plan(steps=48, batch=8, learning_rate=RATES[0], warmup=0, final_rate=1.0, clip=1e9)


@dataclass(frozen=True)
class Course:
    """The loss at each update of one training; the last is no number where it diverged."""

    rate: float
    losses: tuple[float, ...]

    @property
    def is_stable(self) -> bool:
        """Whether the loss stayed below twice that of guessing."""
        return all(loss < 2 * math.log(STACK.vocab) for loss in self.losses)

    @property
    def updates(self) -> float:
        """Until the loss was half that of guessing; infinite if it never was."""
        target = 0.5 * math.log(STACK.vocab)
        return next((float(number) for number, loss in enumerate(self.losses) if loss < target), math.inf)


def with_and_without_norms(given: Given) -> tuple[tuple[Course, ...], tuple[Course, ...]]:
    """The courses at all rates: of the post-norm stack, and of the same without norms."""
    return given.once("003: short runs", lambda: (_courses(PostNorm()), _courses(NoNorm())))


def entropy_of_words() -> float:
    """What the loss of one who knows nothing but how often each word comes would be."""
    often = Counter(int(word) for word in _text())
    return -sum(count / WORDS * math.log(count / WORDS) for count in often.values())


def _text() -> NDArray[Any]:
    return LANGUAGE.sample(WORDS, seed=0).ids


def _courses(norm: Norm) -> tuple[Course, ...]:
    batches = Batches(ids=_text(), vocab=STACK.vocab, context=STACK.context, batch=PLAN.batch, seed=0)
    return tuple(_course(replace(STACK, norm=norm), batches, replace(PLAN, learning_rate=rate)) for rate in RATES)


def _course(config: ModelConfig, batch_of: Callable[[int], Tensor], plan: Plan) -> Course:
    losses: list[float] = []
    try:
        losses.extend(step.loss for step in train_steps(TransformerModule(Weights.draw(config, seed=0)), batch_of, plan))
    except DivergedError:
        losses.append(math.nan)
    return Course(plan.learning_rate, tuple(losses))
