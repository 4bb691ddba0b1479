"""The softmax competition: all sources that a destination may look at share one unit of attention, by the differences of their scores."""

import math
from dataclasses import dataclass
from typing import Any

import torch
from jaxtyping import Float, Int
from torch import Tensor

from headwater.shapes import floats, whole
from headwater.show.values import Table
from headwater.trace.frozen import Frozen
from headwater.trace.nodes import token_facts


@dataclass(frozen=True, eq=False, kw_only=True)
class Competition:
    """Every source that may be looked at from one destination, with the model's own score and attention."""

    frozen: Frozen
    source: int
    """The one that is asked about."""
    against: int | None
    """Another one that is asked about."""
    positions: Int[Tensor, " source"]
    scores: Float[Tensor, " source"]
    attention: Float[Tensor, " source"]
    """``softmax(scores)``, unless somebody intervened."""
    tie: float
    """Scores that are no further apart are equal: which of them is larger is decided by rounding alone."""

    @property
    def score(self) -> float:
        """The score of the source that is asked about."""
        return float(self.scores[self._of(self.source)])

    @property
    def share(self) -> float:
        """The attention that it gets."""
        return float(self.attention[self._of(self.source)])

    @property
    def log_odds(self) -> Float[Tensor, " source"]:
        """The log of how many times more attention it gets than each source: the difference of their scores."""
        return self.score - self.scores.double()

    @property
    def entropy(self) -> float:
        """Of the attention, in nats."""
        # It may be a little below zero; what is no number stays none.
        return float((0.0 - torch.xlogy(self.attention.double(), self.attention.double()).sum()).clamp(min=0))

    @property
    def effective(self) -> float:
        """The number of sources that would have this entropy if they shared evenly: ``exp(entropy)``."""
        return math.exp(self.entropy)

    @property
    def rank(self) -> int:
        """The place of the source that is asked about among all, by score; 1 is the first, and those that tie share a place."""
        return 1 + int((self.scores.double() - self.score > self.tie).sum())

    def table(self, most: int = 8) -> Table:
        """The sources with the highest scores, those that are asked about whatever their score is, and the others together."""
        first, rest = self.cut(most)
        rows = [self._row(number) for number in first]
        count = f"{len(self.scores):,} source{'s' * (len(self.scores) > 1)}"
        title = (
            f"who gets its attention: {count}, as if {self.effective:.1f} shared it evenly (entropy {self.entropy:.2f} nats)"
        )
        columns = ("source", "score#", "attention#", "log-odds against it#")
        return Table(title=title, columns=columns, rows=(*rows, *([self._others(rest)] if rest else [])))

    def cut(self, most: int) -> tuple[list[int], list[int]]:
        """The numbers of the sources with the highest scores, and of those that are asked about, by falling score; and those of all others."""
        order = whole(self.scores.argsort(descending=True, stable=True))
        asked = {self._of(each) for each in (self.source, self.against) if each is not None}
        # One that is left over is no shorter than itself.
        first = set(order if len(order) <= most + 1 else order[:most]) | asked
        return [number for number in order if number in first], [number for number in order if number not in first]

    def together(self, some: list[int]) -> tuple[float, float]:
        """Score and attention of several sources together.

        Their score is ``log Σ exp(score)``: as one source with that score they would get the same attention.
        """
        return float(self.scores.double()[some].logsumexp(dim=0)), float(self.attention.double()[some].sum())

    def plain(self) -> dict[str, Any]:
        """For programs: every source, in the order of the text."""
        numbers = zip(whole(self.positions), *map(floats, (self.scores, self.attention, self.log_odds)), strict=True)
        sources = [
            {"position": at, **token_facts(self.frozen, at), "score": score, "attention": share, "log_odds": odds}
            for at, score, share, odds in numbers
        ]
        return {"entropy": self.entropy, "effective_sources": self.effective, "rank": self.rank, "sources": sources}

    def _of(self, position: int) -> int:
        return whole(self.positions).index(position)

    def _row(self, number: int) -> tuple[str, ...]:
        position = int(self.positions[number])
        mark = {self.source: " ←", self.against: " against"}.get(position, "")
        odds = "" if position == self.source else f"{float(self.log_odds[number]):+z.3f}"
        return (
            f"{self.frozen.place(position)}{mark}",
            f"{float(self.scores[number]):+z.3f}",
            f"{float(self.attention[number]):.4f}",
            odds,
        )

    def _others(self, rest: list[int]) -> tuple[str, ...]:
        score, share = self.together(rest)
        return (f"{len(rest):,} others together", f"{score:+z.3f}", f"{share:.4f}", f"{self.score - score:+z.3f}")
