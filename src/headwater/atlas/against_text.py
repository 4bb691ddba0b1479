"""The tables of an atlas that come from a text: evidence for skip-trigrams, places to read, bugs."""

import numpy as np
from jaxtyping import Int64, UInt
from numpy import ndarray

from headwater.atlas import agreement
from headwater.atlas.bugs import Texts, bugs
from headwater.atlas.evidence import bigram_likelihoods, evidence
from headwater.atlas.order import Order, subject_of
from headwater.atlas.places import Listed
from headwater.files.tables import read_table, write_table
from headwater.text.corpus import Corpus

__all__ = ["FILES", "bigram_likelihoods", "windows", "write"]
FILES = ("evidence.parquet", "lines_of_text.parquet", "agreement.parquet", "bugs.parquet")
KEY = ("head", "source", "dest", "out")
SEARCHED = 2048
"""Windows of training text that are searched for bugs."""


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
    """What a text says of the strongest skip-trigrams, and what the text never does."""
    use = order.plan.corpus
    assert use is not None, "an atlas that is held against a text says against which"
    rows = read_table(order.path("strongest.parquet"))
    weights, held_out = subject_of(order).weights, windows(corpus.held_out, use.window, use.windows)
    found = evidence(weights, held_out, Listed.of(rows))
    key = {name: rows[name] for name in KEY}
    write_table(order.path("evidence.parquet"), {**key, **found.columns()})
    quoted = found.quotations
    write_table(order.path("lines_of_text.parquet"), {**{name: key[name][quoted.row] for name in KEY}, **quoted.columns()})
    write_table(order.path("agreement.parquet"), agreement.columns(found.agreement))
    texts = Texts(
        windows(corpus.train, use.window, SEARCHED), held_out, read_table(order.path("vocab.parquet"), ["share"])["share"]
    )
    write_table(order.path("bugs.parquet"), bugs(weights, _candidates(order, Listed.of(rows)), texts).columns())


def _candidates(order: Order, strongest: Listed) -> Listed:
    """Rows whose crossings are looked at: the strongest, and the joined ones where these are one part and so fit into memory."""
    if len(order.edges) > 2:
        return strongest
    return strongest.and_also(Listed.of(read_table(order.path("trigrams/by_source/000.parquet"))))
