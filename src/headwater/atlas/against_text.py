"""The tables of an atlas that come from a text: evidence for skip-trigrams, places to read, bugs.

Looked at are the strongest skip-trigrams of each head, and as many that are *common*: joined rows that raise an output, by lift times how often they
occur in the text.
"""

from collections.abc import Iterator
from typing import Any, Literal

import numpy as np
from jaxtyping import Bool, UInt
from numpy import ndarray

from headwater.atlas.agreement import agreements
from headwater.atlas.agreement import columns as agreement_columns
from headwater.atlas.bugs import Texts, crossings
from headwater.atlas.evidence import evidence
from headwater.atlas.manifest import WORK
from headwater.atlas.order import Order, subject_of
from headwater.atlas.places import Listed, Windows, count
from headwater.circuits.streamed.scan import Progress, silent
from headwater.files.tables import read_table, write_table
from headwater.text.corpus import Corpus

FILES = ("evidence.parquet", "lines_of_text.parquet", "agreement.parquet", "bugs.parquet")
KEY = {"head": np.uint16, "source": np.uint32, "dest": np.uint32, "out": np.uint32}
AT_ONCE = 2**22
"""Joined rows that are counted together."""


def part_of(corpus: Corpus, part: Literal["held-out", "train"]) -> UInt[ndarray, " token"]:
    """The text that a model was not trained on, or the one that it was."""
    return corpus.held_out if part == "held-out" else corpus.train


def windows(text: UInt[ndarray, " token"], length: int, most: int) -> Windows:
    """Up to ``most`` windows of a text, spread evenly over it: neighbours tell the same."""
    there = len(text) // length
    chosen = np.arange(there) if most >= there else np.arange(most) * there // most
    pieces = [np.asarray(text[at * length : (at + 1) * length], np.int64) for at in chosen.tolist()]
    return np.stack(pieces) if pieces else np.zeros((0, length), np.int64)


def write(order: Order, corpus: Corpus, progress: Progress = silent) -> None:
    """What held-out text says of skip-trigrams."""
    use, weights = order.plan.corpus, subject_of(order).weights
    assert use is not None, "an atlas that is held against a text says against which"
    held_out = windows(part_of(corpus, use.part), use.window, use.windows)
    rows, is_strongest = _rows(order, held_out)
    shares = read_table(order.path("vocab.parquet"), ["share"])["share"]
    crossed = crossings(rows, Texts(windows(corpus.train, use.window, use.searched), held_out, shares))
    # One run of the model over the text for both.
    number, found = len(rows), evidence(weights, held_out, Listed.joined(rows, crossed.rows), progress)
    ours, theirs = found.some(slice(None, number)), found.some(slice(number, None))
    told = agreements(rows.some(is_strongest), *(each[is_strongest] for each in (ours.chances, ours.expected, ours.measured)))
    key = {name: getattr(rows, name).astype(kind) for name, kind in KEY.items()}
    quoted = ours.quotations
    _write(order, {
        "evidence.parquet": {**key, "is_strongest": is_strongest, "lift": rows.lift, **ours.columns()},
        "lines_of_text.parquet": {**{name: column[quoted.row] for name, column in key.items()}, **quoted.columns()},
        "agreement.parquet": agreement_columns(told),
        "bugs.parquet": crossed.told(theirs.chances, theirs.occurs, theirs.measured, theirs.nats).columns(),
    })  # fmt: skip


def _write(order: Order, tables: dict[str, dict[str, Any]]) -> None:
    for name, columns in tables.items():
        write_table(order.path(name), columns)


def _rows(order: Order, text: Windows) -> tuple[Listed, Bool[ndarray, " row"]]:
    """What is looked for in the text, by head, source, dest and out; and which rows are among the strongest of their heads."""
    strongest = Listed.of(read_table(order.path("strongest.parquet")))
    rows = Listed.joined(strongest, *_common(order, text))
    first = np.arange(len(rows)) < len(strongest)
    by_key = np.lexsort((~first, rows.out, rows.dest, rows.source, rows.head))
    rows, first = rows.some(by_key), first[by_key]
    is_new = np.ones(len(rows), np.bool_)
    is_new[1:] = np.any([getattr(rows, name)[1:] != getattr(rows, name)[:-1] for name in KEY], axis=0)
    return rows.some(is_new), first[is_new]


def _common(order: Order, text: Windows) -> Iterator[Listed]:
    """Of each head the joined rows that raise an output by the most, times how often they occur."""
    for names in _some_heads(order):
        found = Listed.of(read_table([order.path(f"{WORK}/by_source/{name}.parquet") for name in names]))
        rows = found.some(found.lift > 0)
        worth = rows.lift * count(text, rows, order.plan.vocab).occurs
        for head in np.unique(rows.head).tolist():
            mine = np.flatnonzero((rows.head == head) & (worth > 0))
            yield rows.some(mine[np.argsort(-worth[mine], kind="stable")[: order.settings.triples]])


def _some_heads(order: Order) -> Iterator[tuple[str, ...]]:
    """Heads whose joined rows are held at once."""
    heads, each = order.plan.heads, 6 * order.settings.each * order.plan.vocab
    size = max(1, AT_ONCE // each)
    return (heads[start : start + size] for start in range(0, len(heads), size))
