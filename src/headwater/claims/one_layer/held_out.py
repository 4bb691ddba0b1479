"""What the trained one-layer model does with held-out text, for the statements that only a model can answer."""

from collections.abc import Callable
from dataclasses import dataclass
from functools import cached_property

import numpy as np
import torch
from jaxtyping import Bool, Float, Int
from torch import Tensor

from headwater.api import Model
from headwater.circuits.chance import Draws
from headwater.circuits.copying import Known, Panel, copying
from headwater.circuits.cores import ov_cores
from headwater.circuits.head import Head, every_head
from headwater.claims.given import Given
from headwater.model.taps import NOBODY, Tap
from headwater.model.weights import Weights
from headwater.trace.run import Run

WINDOWS = 4
"""So many stretches of text are read."""
DRAWS = Draws(count=100)
"""Heads turned at random, that each head is compared with."""
SHUFFLES = 20
"""So many draws stand for chance: what is above all of them is so by chance once in 21 times."""


@dataclass(frozen=True, eq=False)
class Reading:
    """Windows of text, what came next at each place, and the run of the model on them."""

    run: Run
    next: Int[Tensor, "batch pos"]

    @property
    def tokens(self) -> Int[Tensor, "batch pos"]:
        """What was read."""
        return self.run.tokens

    @cached_property
    def repeats(self) -> Bool[Tensor, "batch pos"]:
        """Where the next token has been in the window before."""
        length = self.next.shape[1]
        seen = (self.next[:, :, None] == self.tokens[:, None, :]) & torch.ones(length, length).tril().bool()
        return seen.any(dim=2)

    @cached_property
    def kinds(self) -> Int[Tensor, " kind"]:
        """Every token that occurs, once."""
        return torch.from_numpy(np.unique(self.tokens.numpy()))

    def nats(self, model: Model, tap: Tap = NOBODY) -> Float[Tensor, "batch pos"]:
        """What each next token costs a model, perhaps with an edit: −ln p."""
        log_p = model.record(self.tokens, tap=tap).logits.log_softmax(dim=-1)
        return -log_p.gather(2, self.next[:, :, None])[:, :, 0]


def reading(given: Given) -> Reading:
    """The same windows for all checks."""

    def make() -> Reading:
        windows = given.windows("one-layer", WINDOWS)
        return Reading(given.model("one-layer").record(windows[:, :-1], ["L0.pattern"]), windows[:, 1:])

    return given.once("one-layer reading", make)


def panels(given: Given) -> dict[Head, Panel]:
    """Whether each head of the trained model copies, by all definitions that need no pass over the whole table."""

    def make() -> dict[Head, Panel]:
        model = given.model("one-layer")
        found = ov_cores(model.weights)
        return {head: copying(model.ov(head), known=Known(found[head], leaves_out_ranks=True), draws=DRAWS) for head in found}

    return given.once("one-layer copying", make)


def copies_most(given: Given) -> Head:
    """The head with the highest copying score."""
    found = panels(given)
    return max(found, key=lambda head: found[head].centred.score)


def untrained(given: Given) -> Model:
    """Drawn weights of the trained model's sizes."""
    config = given.model("one-layer").config
    return given.once("one-layer untrained", lambda: Model(Weights.draw(config, seed=0, dtype=torch.float64)))


def in_every_head(model: Model, measure: Callable[[Head], float]) -> list[float]:
    """A number for each head."""
    return [measure(head) for head in every_head(model.config)]


def fitting(given: Given, writes: Float[Tensor, "batch pos d_model"]) -> tuple[float, float]:
    """What writes add, above the mean of all outputs, to next tokens that were not there before: to those of their own place on the
    average, and at the most over ``SHUFFLES`` ways to exchange the places' next tokens among each other.
    """
    text, W_U = reading(given), given.model("one-layer").weights.W_U
    new, there = text.next[~text.repeats], writes[~text.repeats] @ (W_U - W_U.mean(dim=1, keepdim=True))
    lots = torch.Generator().manual_seed(0)
    orders = [torch.arange(len(new)), *(torch.randperm(len(new), generator=lots) for _ in range(SHUFFLES))]
    own, *others = (float(there.gather(1, new[order, None]).mean()) for order in orders)
    return own, max(others)


def own_ranks(model: Model, head: Head, tokens: Int[Tensor, " kind"]) -> Int[Tensor, " kind"]:
    """How many outputs a head raises more than the source itself, for each of these sources: 0 where it copies best."""
    rows = model.ov(head).rows(tokens)
    own = rows.gather(1, tokens[:, None])
    return (rows > own).sum(dim=1)
