"""How well two rankings agree."""

from typing import Any

import numpy as np
from jaxtyping import Float64, Int64
from numpy import ndarray
from numpy.typing import NDArray

from headwater.settings import setting

ENOUGH = 5
"""Places that a row must have for its mean to count."""


@setting
class Agreement:
    """Of one head: the rank correlation (Spearman's) between predicted lifts and measured contributions.

    A correlation is None where there are fewer than two rows, or all are equal.
    """

    head: int
    rows: int
    """Rows that have enough places to be compared."""
    all: float | None
    """Over rows that raise and rows that lower an output."""
    raising_rows: int
    raising: float | None
    """Over those alone that raise one."""


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
    head: Int64[ndarray, " row"], lift: Float64[ndarray, " row"], measured: Float64[ndarray, " row"], chances: Int64[ndarray, " row"]
) -> tuple[Agreement, ...]:
    """That of every head that has rows."""
    return tuple(_agreement(number, lift, measured, (head == number) & (chances >= ENOUGH)) for number in np.unique(head).tolist())


def _agreement(head: int, lift: NDArray[Any], measured: NDArray[Any], known: NDArray[np.bool_]) -> Agreement:
    rising = known & (lift > 0)
    return Agreement(
        head=head,
        rows=int(known.sum()),
        all=rank_correlation(lift[known], measured[known]),
        raising_rows=int(rising.sum()),
        raising=rank_correlation(lift[rising], measured[rising]),
    )
