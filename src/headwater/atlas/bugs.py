"""Bugs that factorisation forces: ``keep … in → mind`` and ``keep … at → bay`` cannot be raised without ``keep … in → bay``.

A lift is a product of how much ``dest`` looks at ``source`` and of what ``source`` says of ``out``. So two skip-trigrams of one head with the same source, both common in
a text, raise two more: each one's destination with the other one's output. Where the text never shows such a *crossed* skip-trigram, raising it
only costs: at every place of ``source … dest`` in held-out text the head takes ``−log(1 − p + p·exp(−δ))`` nats from whatever comes next, with δ the measured
contribution and p the model's probability of the output.

All crossings of the rows given are looked at: a bug is missing only where one of its parents is not among the rows, or is not common.
"""

from dataclasses import dataclass, fields, replace
from typing import Any

import numpy as np
from jaxtyping import Float64, Int64
from numpy import ndarray
from numpy.typing import NDArray

from headwater.atlas.evidence import evidence
from headwater.atlas.places import Listed, count, expand
from headwater.circuits.streamed.scan import Progress, silent
from headwater.model.weights import Weights
from headwater.settings import setting


@setting
class Thresholds:
    """When a bug is one."""

    common: int = 5
    """How often each parent occurs at least in the text that is searched."""
    chances: int = 20
    """How many places the crossed skip-trigram has there at least, at none of which it occurs."""


@dataclass(frozen=True, eq=False)
class Bugs:
    """Crossed skip-trigrams that a head raises and the text never shows, the costliest first.

    Counts are those of the text that was searched; what is measured and what it costs is from held-out text.
    """

    head: Int64[ndarray, " bug"]
    source: Int64[ndarray, " bug"]
    dest: Int64[ndarray, " bug"]
    out: Int64[ndarray, " bug"]
    attention: Float64[ndarray, " bug"]
    output: Float64[ndarray, " bug"]
    lift: Float64[ndarray, " bug"]
    chances: Int64[ndarray, " bug"]
    """Places of ``source … dest`` in the text that was searched; ``out`` comes next at none of them."""
    expected: Float64[ndarray, " bug"]
    """How often it would if ``out`` came as often there as anywhere."""
    dest_parent_out: Int64[ndarray, " bug"]
    """The parent with this destination, ``source … dest → dest_parent_out``: the one that occurs most."""
    dest_parent_occurs: Int64[ndarray, " bug"]
    out_parent_dest: Int64[ndarray, " bug"]
    """The parent with this output, ``source … out_parent_dest → out``: the one that occurs most."""
    out_parent_occurs: Int64[ndarray, " bug"]
    places: Int64[ndarray, " bug"]
    """Places of ``source … dest`` in held-out text."""
    measured: Float64[ndarray, " bug"]
    """What the head adds to the logit of ``out``, on the average over these."""
    cost: Float64[ndarray, " bug"]
    """Nats lost by it, added up over these."""

    def columns(self) -> dict[str, NDArray[Any]]:
        """For a table."""
        tokens = ("source", "dest", "out", "dest_parent_out", "out_parent_dest")
        kinds: dict[str, Any] = {"head": np.uint16, **dict.fromkeys(tokens, np.uint32)}
        return {
            field.name: getattr(self, field.name).astype(kinds.get(field.name))
            if field.name in kinds
            else getattr(self, field.name)
            for field in fields(self)
        }


@dataclass(frozen=True, eq=False)
class Texts:
    """A text to count in, and held-out text to measure on; and how often tokens come."""

    searched: Int64[ndarray, "searched pos"]
    held_out: Int64[ndarray, "held_out pos"]
    shares: Float64[ndarray, " vocab"]
    """Adding up to one."""


@dataclass(frozen=True, eq=False)
class Crossings:
    """Every destination of a head's source with every output of it that the text never shows there, and whose they were."""

    rows: Listed
    chances: NDArray[Any]
    expected: NDArray[Any]
    dest_parent_out: NDArray[Any]
    dest_parent_occurs: NDArray[Any]
    out_parent_dest: NDArray[Any]
    out_parent_occurs: NDArray[Any]

    def some(self, chosen: NDArray[Any]) -> "Crossings":
        """Those at these places, or where a mask is true."""
        names = [field.name for field in fields(self) if field.name != "rows"]
        return Crossings(self.rows.some(chosen), *(getattr(self, name)[chosen] for name in names))

    def told(self, chances: NDArray[Any], occurs: NDArray[Any], measured: NDArray[Any], nats: NDArray[Any]) -> Bugs:
        """Those that cost anything, from what held-out text says of each row."""
        cost = np.where(occurs == 0, -nats, 0.0)
        order = np.lexsort((self.rows.out, self.rows.dest, self.rows.source, self.rows.head, -cost))
        order = order[cost[order] > 0]
        found = self.some(order)
        return Bugs(
            **{field.name: getattr(found.rows, field.name) for field in fields(Listed)},
            **{field.name: getattr(found, field.name) for field in fields(found) if field.name != "rows"},
            places=chances[order],
            measured=measured[order],
            cost=cost[order],
        )


def crossings(rows: Listed, texts: Texts, thresholds: Thresholds | None = None) -> Crossings:
    """Every crossing of two rows that the text never shows while both are common in it; from counts alone."""
    needed, vocab = thresholds or Thresholds(), len(texts.shares)
    raising = rows.some(rows.lift > 0)
    occurs = count(texts.searched, raising, vocab).occurs
    is_common = occurs >= needed.common
    crossed = _cross(raising.some(is_common), occurs[is_common])
    seen = count(texts.searched, crossed.rows, vocab)
    counted = replace(crossed, chances=seen.chances, expected=seen.chances * texts.shares[crossed.rows.out])
    return counted.some((seen.occurs == 0) & (seen.chances >= needed.chances))


def bugs(
    weights: Weights, rows: Listed, texts: Texts, thresholds: Thresholds | None = None, progress: Progress = silent
) -> Bugs:
    """Every crossing of two rows that the text never shows while both are common in it, and that costs anything."""
    crossed = crossings(rows, texts, thresholds)
    found = evidence(weights, texts.held_out, crossed.rows, progress)
    return crossed.told(found.chances, found.occurs, found.measured, found.nats)


def _cross(parents: Listed, occurs: NDArray[Any]) -> Crossings:
    by_dest, by_out = _most_common(parents, parents.dest, occurs), _most_common(parents, parents.out, occurs)
    # Of each parent by its destination, all parents by their output that have the same head and source.
    group = parents.head << 32 | parents.source
    groups, of_row = np.unique(group, return_inverse=True)
    start = np.searchsorted(of_row[by_out], np.arange(len(groups) + 1))
    ours, theirs = expand(start, of_row[by_dest])
    dest, out = by_dest[ours], by_out[theirs]
    rows = Listed(
        head=parents.head[dest],
        source=parents.source[dest],
        dest=parents.dest[dest],
        out=parents.out[out],
        attention=parents.attention[dest],
        output=parents.output[out],
        lift=parents.attention[dest] * parents.output[out],
    )
    nothing = np.zeros(len(rows), np.int64)
    return Crossings(rows, nothing, nothing, parents.out[dest], occurs[dest], parents.dest[out], occurs[out])


def _most_common(parents: Listed, side: NDArray[Any], occurs: NDArray[Any]) -> NDArray[Any]:
    """For each head, source and entry of a side the parent that occurs most, by head and source."""
    order = np.lexsort((-occurs, side, parents.source, parents.head))
    keys = np.stack([parents.head[order], parents.source[order], side[order]])
    is_first = np.ones(len(order), np.bool_)
    is_first[1:] = (keys[:, 1:] != keys[:, :-1]).any(axis=0)
    return order[is_first]
