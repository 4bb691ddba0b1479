"""Attention as a lookup, soft and hard.

A query has a score for every key. The soft lookup is the mean of the values under ``softmax(β · scores)``; the hard one takes the value of the best key
alone, and the mean of the values of the best where several tie. β is the inverse temperature: at β = 1 it is what the model does, at β = 0 all values
count the same, and as β grows soft tends to hard. With ``gap`` from the best score to the next lower one and N keys::

    1 − weight of the best          ≤ (N − 1) e^(−β gap)
    ‖soft − hard‖                   ≤ (N − 1) e^(−β gap) max ‖v_i − v_j‖
"""

import math
from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any

import torch
from jaxtyping import Float
from torch import Tensor

from headwater.circuits.head import HeadName, find_head, key_head
from headwater.errors import InputError
from headwater.model.record import Record
from headwater.shapes import floats, whole
from headwater.show.html import fragment
from headwater.show.text import written
from headwater.show.values import Line, Panel, Table
from headwater.trace.frozen import Frozen
from headwater.trace.question import check_one_text, within
from headwater.trace.sizes import score_tie
from headwater.trace.view.normed import length, numbers

BETAS = (0.25, 0.5, 1.0, 2.0, 4.0, 16.0, 64.0)
COLUMNS = {"beta": "g", "best": ".4f", "distance": ".3g", "bound": ".3g"}
AT_ONCE = 256
"""Values whose distances to all others are taken together."""


@dataclass(frozen=True, kw_only=True, eq=False)
class Lookup:
    """One query looked up at several temperatures; in double precision."""

    label: str
    sources: tuple[str, ...]
    """What the keys are called."""
    scores: Float[Tensor, " source"]
    values: Float[Tensor, "source d_head"]
    betas: tuple[float, ...]
    weights: Float[Tensor, "beta source"]
    soft: Float[Tensor, "beta d_head"]
    hard: Float[Tensor, " d_head"]
    best: tuple[int, ...]
    """The keys with the largest score, by number."""
    gap: float
    """From the best score to the next lower one; infinite where all tie."""
    spread: float
    """``max ‖v_i − v_j‖``."""

    @property
    def distance(self) -> Float[Tensor, " beta"]:
        """``‖soft − hard‖``."""
        return length(self.soft - self.hard)

    @property
    def missing(self) -> Float[Tensor, " beta"]:
        """The weight that is not on the best."""
        others = [source for source in range(len(self.scores)) if source not in self.best]
        return self.weights[:, others].sum(dim=-1)

    @property
    def missing_bound(self) -> Float[Tensor, " beta"]:
        """``(N − 1) e^(−β gap)``."""
        if not math.isfinite(self.gap):
            return torch.zeros(len(self.betas), dtype=torch.float64)
        return (len(self.scores) - 1) * torch.exp(-torch.tensor(self.betas, dtype=torch.float64) * self.gap)

    @property
    def bound(self) -> Float[Tensor, " beta"]:
        """What the distance cannot be above."""
        return self.missing_bound * self.spread

    def tables(self) -> tuple[Table, ...]:
        """For people: a row for each temperature."""
        rows = tuple(
            (_temperature(one["beta"]), *(f"{one[name]:{form}}" for name, form in COLUMNS.items())) for one in self._series()
        )
        best = ", ".join(self.sources[source] for source in self.best)
        what = (
            f"the hard lookup gives the value of {best}"
            if len(self.best) == 1
            else f"a tie: the hard lookup gives the mean of {best}"
        )
        gap = f"the next score is {self.gap:.3g} lower" if math.isfinite(self.gap) else "there is no lower score"
        columns = ("temperature#", "β#", "weight of the best#", "‖soft − hard‖#", "at most#")
        return (Table(title=f"{self.label}: {what}; {gap}", columns=columns, rows=rows),)

    def curves(self) -> tuple[Panel, ...]:
        """For a plot: the distance and its bound by inverse temperature."""
        lines = (
            Line(label="‖soft − hard‖", x=self.betas, y=tuple(floats(self.distance))),
            Line(label="(N − 1) e^(−β gap) max ‖v_i − v_j‖", x=self.betas, y=tuple(floats(self.bound)), kind="bound"),
        )
        title = f"{self.label}: from soft to hard lookup"
        return (Panel(title=title, x="inverse temperature β", y="distance", lines=lines, x_scale="log", y_scale="log"),)

    def __str__(self) -> str:
        return written(*self.tables())

    def _repr_html_(self) -> str:
        return fragment(*self.tables(), *self.curves())

    def plain(self) -> dict[str, Any]:
        """For programs."""
        return {
            "label": self.label,
            "sources": list(self.sources),
            "scores": numbers(self.scores),
            "best": list(self.best),
            "gap": self.gap if math.isfinite(self.gap) else None,
            "spread": self.spread,
            "series": [one | {"weights": numbers(each)} for one, each in zip(self._series(), self.weights, strict=True)],
        }

    def _series(self) -> list[dict[str, Any]]:
        held = zip(self.betas, self.missing, self.distance, self.bound, strict=True)
        return [
            {"beta": beta, "best": 1 - float(missing), "missing": float(missing), "distance": float(off), "bound": float(bound)}
            for beta, missing, off, bound in held
        ]


def _temperature(beta: float) -> str:
    return f"{1 / beta:.3g}" if beta else "∞"


def lookup(
    scores: Float[Tensor, " source"],
    values: Float[Tensor, "any d_head"],
    betas: Sequence[float] = BETAS,
    *,
    label: str = "lookup",
    sources: Sequence[str] | None = None,
    tie: float = 0.0,
) -> Lookup:
    """Look a query up, given its scores; for a query ``q`` and keys ``k`` these are ``k @ q``, times ``1/√d_head`` where attention is scaled.

    Scores that are no more than ``tie`` below the best are taken to be the best one.

    >>> found = lookup(torch.tensor([0.0, 0.0, -1.0]), torch.tensor([[1.0], [3.0], [9.0]]), [1000.0])
    >>> found.best, found.hard.tolist(), found.soft.tolist()
    ((0, 1), [2.0], [[2.0]])
    """
    if not betas or not all(math.isfinite(beta) and beta >= 0 for beta in betas):
        raise InputError(f"inverse temperatures {list(betas)!r:.80}", "numbers from 0 on", "give some such as 0.5, 1, 4")
    if not len(scores) or len(scores) != len(values) or not bool(scores.isfinite().all()):
        raise InputError(
            f"{len(scores)} scores for {len(values)} values", "a number for each value", "leave out what is masked"
        )
    scores, values = scores.double(), values.double()
    scores = scores.where(scores < scores.max() - tie, scores.max())
    # Differences to the best, so that large β do not overflow.
    below = scores - scores.max()
    weights = (torch.tensor(betas, dtype=torch.float64)[:, None] * below).softmax(dim=-1)
    best, lower = (below == 0).nonzero().flatten(), below[below < 0]
    return Lookup(
        label=label,
        sources=tuple(sources or map(str, range(len(scores)))),
        scores=scores,
        values=values,
        betas=tuple(betas),
        weights=weights,
        soft=weights @ values,
        hard=values[best].mean(dim=0),
        best=tuple(whole(best)),
        gap=-float(lower.max()) if len(lower) else math.inf,
        spread=_spread(values),
    )


def _spread(values: Float[Tensor, "source d_head"]) -> float:
    """``max ‖v_i − v_j‖``, by differences: products would round."""
    exact = "donot_use_mm_for_euclid_dist"
    return max(
        float(torch.cdist(values[first : first + AT_ONCE], values, compute_mode=exact).max())
        for first in range(0, len(values), AT_ONCE)
    )


@torch.no_grad()
def head_lookup(
    record: Record, head: HeadName, dest: int = -1, betas: Sequence[float] = BETAS, *, sources: Sequence[str] | None = None
) -> Lookup:
    """What a head of a run looked up at ``dest``; its scores times 1, and times other β.

    ``sources`` are names for all positions of the text. Scores whose difference is rounding tie.
    """
    found = find_head(head, record.config)
    check_one_text(record)
    length, site = record.tokens.shape[1], f"L{found.layer}."
    at = within(dest, length, "position")
    scores = record[f"{site}scores"][0, found.head, at]
    allowed = scores.isfinite().nonzero().flatten()
    names = [str(position) for position in range(length)] if sources is None else list(sources)
    return lookup(
        scores[allowed],
        record[f"{site}values"][0, key_head(record.config, found)][allowed],
        betas,
        label=f"{found} at position {at}",
        sources=[names[source] for source in whole(allowed)],
        tie=score_tie(Frozen(record), found, at),
    )
