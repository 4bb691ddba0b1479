"""Skip-trigrams held against a text: how often they occur, and what their heads really do there.

At a place of ``A … B → C`` the head's *measured* contribution is what came from the positions of A in its part of C's centred logit, as
``Run.explain(position, C, centred=True)`` tells it, with the run's patterns and norms' scales held fixed:

    δ = Σ_{source of A} pattern[dest, source] · <value_source − b_V, W_O q>

where ``q`` is C's direction above the mean of all, pulled back through the norms after the head.

The lift is what the weights alone say that *one* A brings. A text often has several: with k of them the odds α/(1 − α) of looking at an A are k times as
high, so that the same definition makes us *expect*

    k·α / (k·α + 1 − α) · o(A, C)
"""

from dataclasses import dataclass, replace
from typing import Any

import numpy as np
import torch
from jaxtyping import Float64, Int64
from numpy import ndarray
from numpy.typing import NDArray

from headwater.atlas.agreement import Agreement, agreements
from headwater.atlas.measure import Measured, measure, speakers, together, worth
from headwater.atlas.places import Listed, Pairs, Windows, batches, find
from headwater.atlas.quotations import Quotations, Strongest
from headwater.circuits.bases import widened
from headwater.circuits.streamed.scan import Progress, silent
from headwater.model.record import check_tokens
from headwater.model.weights import Weights
from headwater.text.corpus import Bigrams

QUOTED = 3
"""Places of each row that are quoted."""


@dataclass(frozen=True, eq=False)
class Evidence:
    """What a text says of listed skip-trigrams, row by row. Means are NaN where a row has no place."""

    tokens: int
    """Of the text."""
    chances: Int64[ndarray, " row"]
    """Places, whatever comes next."""
    occurs: Int64[ndarray, " row"]
    """Places where ``out`` does come next."""
    fires: Int64[ndarray, " row"]
    """Places where the measured contribution has the lift's sign and at least half its size."""
    sources: Float64[ndarray, " row"]
    """At how many positions the source stands, on the average over places."""
    expected: Float64[ndarray, " row"]
    """The contribution that so many sources should make, on the average over places."""
    attention: Float64[ndarray, " row"]
    """What the head paid to all of them together, on the average over places."""
    measured: Float64[ndarray, " row"]
    """The measured contribution, on the average over places."""
    nats: Float64[ndarray, " row"]
    """What these contributions are worth (``measure.worth``), added up over all places."""
    agreement: tuple[Agreement, ...]
    """How well lifts agree with what was measured, for each head."""
    quotations: Quotations
    """A few places of each row, to read."""

    def columns(self) -> dict[str, NDArray[Any]]:
        """For a table of these rows."""
        counts = {"chances": self.chances, "occurs": self.occurs, "fires": self.fires}
        means = {"sources": self.sources, "expected": self.expected}
        means |= {"measured_attention": self.attention, "measured": self.measured}
        return {**counts, **means, "nats": self.nats, "nats_per_thousand": self.nats * (1000 / self.tokens)}

    def some(self, rows: slice) -> "Evidence":
        """What is said of some rows; agreement is left as it was of all."""
        each = ("chances", "occurs", "fires", "sources", "expected", "attention", "measured", "nats")
        quotations = self.quotations.some(rows, len(self.chances))
        return replace(self, quotations=quotations, **{name: getattr(self, name)[rows] for name in each})


def evidence(weights: Weights, windows: Windows, rows: Listed, progress: Progress = silent) -> Evidence:
    """What a text says of listed skip-trigrams. Windows are not longer than the model's context."""
    check_tokens(weights.config, torch.from_numpy(windows))
    weights = widened(weights)
    pairs, pair = Pairs.of(rows, weights.config.vocab)
    heads, totals = speakers(weights, rows, pair, len(pairs.keys)), _Totals(rows)
    for some in batches(windows, together(weights, windows.shape[1])):
        found = find(windows[some], pairs)
        if len(found.pair):
            for measured in measure(weights, windows[some], found, heads):
                totals.add(measured, some.start)
        progress(min(1.0, some.stop / len(windows)))
    return totals.told(windows)


class _Totals:
    """What has been measured of each row so far."""

    def __init__(self, rows: Listed) -> None:
        self.rows, self.strongest = rows, Strongest(np.sign(rows.lift), QUOTED)
        self.chances, self.occurs, self.fires = (np.zeros(len(rows), np.int64) for _ in range(3))
        self.sources, self.expected, self.attention, self.measured, self.nats = (np.zeros(len(rows)) for _ in range(5))

    def add(self, some: Measured, first: int) -> None:
        """More places, in windows counted from ``first``."""
        row, rows = some.row, self.rows
        lift, odds = rows.lift[row], some.sources * rows.attention[row]
        came = some.next == self.rows.out[row]
        self.chances += self._sum(row)
        self.occurs += self._sum(row[came])
        self.fires += self._sum(row[some.delta * np.sign(lift) >= np.abs(lift) / 2])
        self.sources += self._sum(row, some.sources)
        self.expected += self._sum(row, odds / (odds + 1 - rows.attention[row]) * rows.output[row])
        self.attention += self._sum(row, some.attention)
        self.measured += self._sum(row, some.delta)
        self.nats += self._sum(row, worth(some.delta, some.log_p, came))
        self.strongest.add(some.later(first))

    def _sum(self, row: NDArray[Any], values: NDArray[Any] | None = None) -> NDArray[Any]:
        return np.bincount(row, values, minlength=len(self.rows))

    def told(self, windows: Windows) -> Evidence:
        """All that a text has."""
        with np.errstate(invalid="ignore"):
            sources, expected, attention, measured = (
                total / self.chances for total in (self.sources, self.expected, self.attention, self.measured)
            )
        return Evidence(
            tokens=windows.size,
            chances=self.chances,
            occurs=self.occurs,
            fires=self.fires,
            sources=sources,
            expected=expected,
            attention=attention,
            measured=measured,
            nats=self.nats,
            agreement=agreements(self.rows, self.chances, expected, measured),
            quotations=self.strongest.quoted(windows),
        )


def bigram_likelihoods(bigrams: Bigrams, token: NDArray[Any], out: NDArray[Any]) -> dict[str, NDArray[Any]]:
    """How often each bigram stands in a corpus, and ``log p(out | token)``; NaN where it never does.

    >>> pairs = Bigrams(np.array([1, 1], "u4"), np.array([2, 3], "u4"), np.array([3, 1]))
    >>> bigram_likelihoods(pairs, np.array([1, 1]), np.array([2, 9]))
    {'count': array([3, 0]), 'log_likelihood': array([-0.28768207,         nan])}
    """
    first, second = bigrams.first.astype(np.int64), bigrams.second.astype(np.int64)
    followed = np.bincount(first, bigrams.count, minlength=int(token.max(initial=0)) + 1)
    keys, asked = first << 32 | second, token.astype(np.int64) << 32 | out.astype(np.int64)
    at = np.minimum(np.searchsorted(keys, asked), max(len(keys) - 1, 0))
    count = np.zeros(len(asked), np.int64)
    if len(keys):
        count = np.where(keys[at] == asked, bigrams.count[at], 0)
    with np.errstate(divide="ignore", invalid="ignore"):
        likelihood = np.log(count / followed[token])
    return {"count": count, "log_likelihood": np.where(count > 0, likelihood, np.nan)}
