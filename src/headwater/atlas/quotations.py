"""Keyword in context: a few places of each skip-trigram, as text to read."""

from dataclasses import dataclass
from typing import Any

import numpy as np
from jaxtyping import Float64, Int64
from numpy import ndarray
from numpy.typing import NDArray

from headwater.atlas.measure import Measured
from headwater.atlas.places import Windows

AROUND = 4
"""Tokens quoted before the source, and after the destination; and on each side of what is left out between them."""
LEFT_OUT = "…"


@dataclass(frozen=True, eq=False)
class Quotations:
    """The strongest measured places of rows, by row, the strongest first.

    Texts are ids with spaces between them, for whoever has words for them: ``before`` the source, ``between`` it and the destination (``…`` where some are
    left out), and ``after`` the destination, beginning with the token that does come next.
    """

    row: Int64[ndarray, " line"]
    nth: Int64[ndarray, " line"]
    """1 is the strongest of its row."""
    window: Int64[ndarray, " line"]
    source_position: Int64[ndarray, " line"]
    dest_position: Int64[ndarray, " line"]
    next: Int64[ndarray, " line"]
    attention: Float64[ndarray, " line"]
    measured: Float64[ndarray, " line"]
    before: list[str]
    between: list[str]
    after: list[str]

    def some(self, rows: slice, count: int) -> "Quotations":
        """Those of some of ``count`` rows, which are counted from the first of these."""
        first, last, _ = rows.indices(count)
        chosen = np.flatnonzero((self.row >= first) & (self.row < last))
        numbers = (self.nth, self.window, self.source_position, self.dest_position, self.next, self.attention, self.measured)
        before, between, after = ([each[at] for at in chosen.tolist()] for each in (self.before, self.between, self.after))
        row, (nth, window, source, dest, come, attention, measured) = (
            self.row[chosen] - first,
            (each[chosen] for each in numbers),
        )
        return Quotations(row, nth, window, source, dest, come, attention, measured, before, between, after)

    def columns(self) -> dict[str, Any]:
        """For a table; ``row`` is left out, since a row has a name of its own there."""
        numbers = {
            "nth": np.int16,
            "window": np.int32,
            "source_position": np.int32,
            "dest_position": np.int32,
            "next": np.uint32,
        }
        found = {name: getattr(self, name).astype(kind) for name, kind in numbers.items()}
        texts = {"before": self.before, "between": self.between, "after": self.after}
        return {**found, "measured_attention": self.attention, "measured": self.measured, **texts}


class Strongest:
    """The strongest places of each row so far. Of equal ones the earlier stays."""

    def __init__(self, signs: Float64[ndarray, " row"], most: int) -> None:
        self.signs, self.most = signs, most
        self.kept: Measured | None = None
        self.floor = np.full(len(signs), -np.inf)
        """What a place must be above to be among a row's strongest."""

    def add(self, some: Measured) -> None:
        """Take note of more places, later ones than before."""
        some = some.some(self._strength(some) > self.floor[some.row])
        if not len(some.row):
            return
        joined = some if self.kept is None else Measured.joined(self.kept, some)
        order = np.lexsort((joined.dest, joined.window, -self._strength(joined), joined.row))
        joined = joined.some(order)
        nth = _nth(joined.row)
        self.kept = joined.some(nth < self.most)
        last = self.kept.some(_nth(self.kept.row) == self.most - 1)
        self.floor[last.row] = self._strength(last)

    def _strength(self, some: Measured) -> NDArray[Any]:
        return some.delta * self.signs[some.row]

    def quoted(self, windows: Windows) -> Quotations:
        """What was kept, with the text around it."""
        nobody = np.zeros(0, np.int64)
        kept = self.kept or Measured(*[nobody] * 6, *[np.zeros(0)] * 3)
        texts = [
            _excerpt(windows[window], source, dest)
            for window, source, dest in zip(kept.window.tolist(), kept.source.tolist(), kept.dest.tolist(), strict=True)
        ]
        before, between, after = ([text[part] for text in texts] for part in range(3))
        return Quotations(
            kept.row, _nth(kept.row) + 1, kept.window, kept.source, kept.dest, kept.next, kept.attention, kept.delta,
            before, between, after,
        )  # fmt: skip


def _nth(row: Int64[ndarray, " line"]) -> Int64[ndarray, " line"]:
    """Which of its row's a line is, counted from 0, where lines stand by row."""
    return np.arange(len(row)) - np.searchsorted(row, row)


def _excerpt(window: NDArray[Any], source: int, dest: int) -> tuple[str, str, str]:
    between = _ids(window[source + 1 : dest])
    if len(between) > 2 * AROUND:
        between = [*between[:AROUND], LEFT_OUT, *between[-AROUND:]]
    before, after = _ids(window[max(0, source - AROUND) : source]), _ids(window[dest + 1 : dest + 1 + AROUND])
    return " ".join(before), " ".join(between), " ".join(after)


def _ids(tokens: NDArray[Any]) -> list[str]:
    return [str(token) for token in tokens.tolist()]
