"""``Plan``: how long, how fast and in what order a model is trained."""

import math
from typing import Literal

from headwater.errors import ConfigError
from headwater.settings import setting


@setting
class Plan:
    """The settings of one training. The numbers that it leads to are a function of these, the text and the weights drawn.

    >>> plan = Plan(steps=1000, batch=16, learning_rate=1e-3)
    >>> plan.rate(0), plan.rate(99), plan.rate(1000)
    (1e-05, 0.001, 0.0001)
    """

    steps: int
    """Updates."""
    batch: int
    """Sequences in one update, over all processes."""
    pieces: int = 1
    """In how many pieces a process takes its sequences, one after the other, where memory is short."""
    learning_rate: float
    warmup: int = 100
    """Updates until the learning rate is reached; after them it falls along a cosine."""
    final_rate: float = 0.1
    """What is left of the learning rate at the end, as a share."""
    weight_decay: float = 0.0
    """Of matrices; gains and biases are left alone."""
    beta_1: float = 0.9
    beta_2: float = 0.95
    clip: float = 1.0
    """The longest gradient, over all parameters together."""
    seed: int = 0
    """Of the first weights and of the order of the text."""
    precision: Literal["float32", "bfloat16"] = "float32"
    """What products are calculated in; weights and the optimiser stay in float32."""
    compiled: bool = False
    """Whether the stack runs through ``torch.compile``, which needs a C++ compiler."""

    def __post_init__(self) -> None:
        for name in ("steps", "batch", "pieces"):
            _check(self, name, getattr(self, name) >= 1, "at least 1")
        _check(self, "batch", self.batch % self.pieces == 0, f"a multiple of pieces, {self.pieces}")
        for name in ("learning_rate", "clip"):
            _check(self, name, getattr(self, name) > 0, "above 0")
        for name in ("warmup", "weight_decay"):
            _check(self, name, getattr(self, name) >= 0, "0 or above")
        _check(self, "seed", 0 <= self.seed < 2**63, "from 0 to 2⁶³ − 1")
        _check(self, "final_rate", 0 <= self.final_rate <= 1, "from 0 to 1")
        for name in ("beta_1", "beta_2"):
            _check(self, name, 0 <= getattr(self, name) < 1, "from 0 to below 1")

    def rate(self, step: int) -> float:
        """The learning rate of an update, counted from 0: linear warm-up, then a cosine."""
        if step < self.warmup:
            return self.learning_rate * (step + 1) / self.warmup
        done = (step - self.warmup) / max(1, self.steps - self.warmup)
        return self.learning_rate * (self.final_rate + (1 - self.final_rate) * 0.5 * (1 + math.cos(math.pi * done)))


def _check(plan: Plan, name: str, holds: bool, needed: str) -> None:  # noqa: FBT001
    if not holds:
        raise ConfigError(f"{name} is {getattr(plan, name)!r}", needed, f"change {name}")
