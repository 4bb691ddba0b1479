"""How well two rankings agree."""

from collections.abc import Sequence
from dataclasses import fields
from typing import Any

import numpy as np
from jaxtyping import Float64, Int64
from numpy import ndarray
from numpy.typing import NDArray

from headwater.atlas.places import Listed
from headwater.settings import setting

ENOUGH = 5
"""Places that a row must have for its mean to count."""


@setting
class Agreement:
    """Of one head: rank correlations (Spearman's) with what was measured.

    A correlation is None where there are fewer than two rows, or all are equal.
    """

    head: int
    rows: int
    """Rows that have enough places to be compared."""
    lift: float | None
    """Of lifts, which are for one source, over rows that raise and rows that lower an output."""
    expected: float | None
    """Of what as many sources as the text has should make together."""
    raising_rows: int
    """Those of the rows that raise an output."""
    raising_lift: float | None
    raising_expected: float | None


def ranks(values: Float64[ndarray, " row"]) -> Float64[ndarray, " row"]:
    """Each value's place from the smallest up, counted from 1; equal ones share the mean of theirs.

    >>> ranks(np.array([10.0, 30.0, 10.0, 20.0]))
    array([1.5, 4. , 1.5, 3. ])
    """
    _, which, counts = np.unique(values, return_inverse=True, return_counts=True)
    return (np.cumsum(counts) - (counts - 1) / 2)[which]


def rank_correlation(a: Float64[ndarray, " row"], b: Float64[ndarray, " row"]) -> float | None:
    """Spearman's: the correlation of the two rankings; None where one has no order at all.

    >>> rank_correlation(np.array([1.0, 2.0, 3.0]), np.array([1.0, 4.0, 9.0]))
    1.0
    """
    if not len(a):
        return None
    ours, theirs = (ranks(values) - (len(values) + 1) / 2 for values in (a, b))
    spread = np.sqrt((ours @ ours) * (theirs @ theirs))
    return float(ours @ theirs / spread) if spread else None


def agreements(
    rows: Listed, chances: Int64[ndarray, " row"], expected: Float64[ndarray, " row"], measured: Float64[ndarray, " row"]
) -> tuple[Agreement, ...]:
    """That of every head that has rows."""
    found: list[Agreement] = []
    for head in np.unique(rows.head).tolist():
        known = (rows.head == head) & (chances >= ENOUGH)
        up = known & (rows.lift > 0)
        found.append(
            Agreement(
                head=head,
                rows=int(known.sum()),
                lift=rank_correlation(rows.lift[known], measured[known]),
                expected=rank_correlation(expected[known], measured[known]),
                raising_rows=int(up.sum()),
                raising_lift=rank_correlation(rows.lift[up], measured[up]),
                raising_expected=rank_correlation(expected[up], measured[up]),
            )
        )
    return tuple(found)


def columns(told: Sequence[Agreement]) -> dict[str, NDArray[Any]]:
    """For a table, one row for each head; NaN where there is no correlation."""
    counts = {"head": np.uint16, "rows": np.int64, "raising_rows": np.int64}
    return {
        field.name: np.array([getattr(one, field.name) for one in told], counts.get(field.name, np.float64))
        for field in fields(Agreement)
    }
