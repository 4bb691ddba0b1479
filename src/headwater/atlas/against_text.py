"""The tables of an atlas that come from a text: evidence for skip-trigrams, places to read, bugs."""

import numpy as np
from jaxtyping import Int64, UInt
from numpy import ndarray

from headwater.atlas.evidence import bigram_likelihoods, evidence
from headwater.atlas.order import Order, subject_of
from headwater.atlas.places import Listed
from headwater.files.tables import read_table, write_table
from headwater.text.corpus import Corpus

__all__ = ["FILES", "bigram_likelihoods", "windows", "write"]
FILES = ("evidence.parquet", "lines_of_text.parquet", "agreement.parquet")
KEY = ("head", "source", "dest", "out")


def windows(text: UInt[ndarray, " token"], length: int, most: int) -> Int64[ndarray, "window pos"]:
    """Up to ``most`` windows of a text, spread evenly over it: neighbours tell the same."""
    there = len(text) // length
    chosen = np.unique(np.linspace(0, there - 1, min(most, there)).astype(np.int64)) if there else np.zeros(0, np.int64)
    return (
        np.stack([text[at * length : (at + 1) * length] for at in chosen]).astype(np.int64)
        if there
        else np.zeros((0, length), np.int64)
    )


def write(order: Order, corpus: Corpus) -> None:
    """What held-out text says of the strongest skip-trigrams."""
    use = order.plan.corpus
    assert use is not None, "an atlas that is held against a text says against which"
    rows = read_table(order.path("strongest.parquet"))
    found = evidence(subject_of(order).weights, windows(corpus.held_out, use.window, use.windows), Listed.of(rows))
    key = {name: rows[name] for name in KEY}
    write_table(order.path("evidence.parquet"), {**key, **found.columns()})
    quoted = found.quotations
    write_table(order.path("lines_of_text.parquet"), {**{name: key[name][quoted.row] for name in KEY}, **quoted.columns()})
    told = found.agreement
    write_table(
        order.path("agreement.parquet"),
        {
            "head": np.array([one.head for one in told], np.uint16),
            "rows": np.array([one.rows for one in told], np.int64),
            "all": np.array([np.nan if one.all is None else one.all for one in told]),
            "raising_rows": np.array([one.raising_rows for one in told], np.int64),
            "raising": np.array([np.nan if one.raising is None else one.raising for one in told]),
        },
    )
