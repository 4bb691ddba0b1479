"""A block of rows against all columns, compiled: integers filter, float64 decides.

``left @ rightᵀ`` is looked at through integers ``units · whole``. Every line (a row or a column) has a floor: a number that enough of its
entries are known to be above. An entry is let through where its integer product, with all that rounding may have hidden, reaches
the floor of its line. What is let through waits in the line's buffer; a full buffer is settled: its entries are calculated in float64, the
best are kept, and the floor rises to the last of them. So no buffer ever overflows, and all that was left out is at or below the floor.
"""

import math
from typing import Any, NamedTuple, no_type_check

import numpy as np
from numba import njit

from headwater.circuits.integers import INT8, Panels, Rows
from headwater.circuits.microkernel import (
    BOTTOM_COLUMNS_AT,
    BOTTOM_ROWS_AT,
    BYTES,
    MASKS,
    NEAR_AT,
    TOP_COLUMNS_AT,
    TOP_ROWS_AT,
    lowest,
    tile_int8,
    tile_int16,
)

compiled = njit(nogil=True, cache=True, error_model="numpy")
QUEUE = 4096
"""Entries that pass before they are looked at."""


class Factors(NamedTuple):
    """The factors themselves: what decides."""

    left: Any
    right: Any


class Best(NamedTuple):
    """The best entries of each line so far: the first ones settled and in order, the others waiting."""

    ids: Any
    values: Any
    settled: Any
    waiting: Any
    floors: Any
    """No entry that was left out is above this."""
    keep: Any
    """How many to keep; 0: this is not asked for."""


class Found(NamedTuple):
    """What is looked for."""

    top_rows: Best
    bottom_rows: Best
    top_columns: Best
    bottom_columns: Best
    own: Any
    """The entry on the diagonal of each of the block's rows; none: its rank is not asked for."""
    above: Any
    """How many were found above it one by one; those counted by the innermost loop are in the scratch."""


class Scratch(NamedTuple):
    """Where the innermost loop reads its limits and writes what it finds."""

    limits: Any
    """Of each row: for its largest, its smallest, and both sides of the diagonal's."""
    open: Any
    """Rows in which any entry of the panel can pass."""
    above: Any
    below: Any
    """Limits of the panel's columns."""
    counts: Any
    """Entries above the diagonal's, lane by lane."""
    out: Any
    passed: Any
    """For each mask, which entries passed: ``row · width + column``."""
    count: Any


def scratch(rows: int, panels: Panels) -> Scratch:
    """For a block of rows."""
    width = panels.ids.shape[1]
    limits = (np.zeros(width * 4, np.uint8) for _ in range(2))
    out = np.zeros(width * 4 + MASKS * BYTES, np.uint8)
    passed, count = np.zeros((MASKS, QUEUE + width), np.int32), np.zeros(MASKS, np.int64)
    return Scratch(np.zeros((rows, 4), np.int32), np.zeros(rows, np.bool_), *limits, np.zeros((rows, BYTES), np.uint8), out, passed, count)


class Work(NamedTuple):
    """A block of rows and all that is needed to go over it."""

    rows: Rows
    panels: Panels
    found: Found
    factors: Factors
    scratch: Scratch


@compiled
@no_type_check
def dot(ours, i, theirs, j):
    """The definition of an entry: products and sums one after the other, in float64."""
    total = 0.0
    for n in range(ours.shape[1]):
        total += np.float64(ours[i, n]) * np.float64(theirs[j, n])
    return total


@compiled
@no_type_check
def settle(best, place, ours, i, theirs, sign):
    """Calculate what waits in a line's buffer, keep the best, raise the floor."""
    ids, values, keep, settled = best.ids[place], best.values[place], best.keep, best.settled[place]
    for waits in range(settled, settled + best.waiting[place]):
        which = ids[waits]
        value = sign * dot(ours, i, theirs, which)
        if settled == keep and value <= values[keep - 1]:
            continue
        j = min(settled, keep - 1)
        while j > 0 and values[j - 1] < value:
            values[j], ids[j] = values[j - 1], ids[j - 1]
            j -= 1
        values[j], ids[j] = value, which
        settled = min(settled + 1, keep)
    best.settled[place], best.waiting[place] = settled, 0
    if settled == keep:
        best.floors[place] = max(best.floors[place], values[keep - 1])


@compiled
@no_type_check
def finish(best, lines, ours, theirs, sign):
    """Settle every line; line ``place`` is number ``lines[place]`` of its axis."""
    for place in range(len(best.settled)):
        settle(best, place, ours, lines[place], theirs, sign)
        best.ids[place, best.settled[place] :] = -1


@compiled
@no_type_check
def diagonal(factors, lines):
    """The entries on the diagonal of some rows."""
    values = np.empty(len(lines))
    for place in range(len(lines)):
        values[place] = dot(factors.left, lines[place], factors.right, lines[place])
    return values


@compiled
@no_type_check
def _limit(floor, wrong, per_unit, form):
    """An integer product at or below this stands for an entry below the floor."""
    reach = 32767.0 if form == INT8 else 2147483647.0
    return np.int32(min(max(math.floor((floor - wrong) * per_unit) - 1.0, -reach), reach))


@compiled
@no_type_check
def _row_limits(work, p):
    """The limits of all rows in a panel, and whether any entry can pass."""
    rows, panels, found = work.rows, work.panels, work.found
    limits, passable, form = work.scratch.limits, work.scratch.open, work.panels.form
    per_unit, length, error = 1 / (rows.unit * panels.unit[p]), panels.length[p], panels.error[p]
    for r in range(len(rows.ids)):
        wrong = rows.error[r] * (length + error) + rows.length[r] * error + rows.slack[r]
        highest = rows.length[r] * length + rows.slack[r]
        passable[r] = len(found.own) > 0
        if found.top_rows.keep:
            limits[r, 0] = _limit(found.top_rows.floors[r], wrong, per_unit, form)
            passable[r] |= found.top_rows.floors[r] < highest
        if found.bottom_rows.keep:
            limits[r, 1] = -_limit(found.bottom_rows.floors[r], wrong, per_unit, form)
            passable[r] |= found.bottom_rows.floors[r] < highest
        if len(found.own):
            limits[r, 2] = _limit(found.own[r], wrong, per_unit, form)
            limits[r, 3] = -_limit(-found.own[r], wrong, per_unit, form)


@compiled
@no_type_check
def _column_limits(floors, work, p, limits, sign):
    """The limits of a panel's columns for the whole block; opens every row if any entry can pass."""
    rows, panels, form = work.rows, work.panels, work.panels.form
    per_unit, length, error = 1 / (rows.unit * panels.unit[p]), panels.length[p], panels.error[p]
    wrong = rows.most_error * (length + error) + rows.most_length * error + rows.most_slack
    highest, passable = rows.most_length * length + rows.most_slack, False
    narrow, wide = limits.view(np.int16), limits.view(np.int32)
    for c in range(panels.ids.shape[1]):
        which = panels.ids[p, c]
        floor = floors[which] if which >= 0 else np.inf
        passable |= floor < highest
        limit = sign * _limit(floor, wrong, per_unit, form)
        if form == INT8:
            narrow[c] = limit
        else:
            wide[c] = limit
    if passable:
        work.scratch.open[:] = True


@compiled
@no_type_check
def _take_rows(best, work, mask, p, sign):
    """Let what passed wait in its row's buffer."""
    ids, settled, waiting = best.ids, best.settled, best.waiting
    columns, width, room = work.panels.ids, work.panels.ids.shape[1], best.ids.shape[1]
    for i in range(work.scratch.count[mask]):
        r, c = divmod(work.scratch.passed[mask, i], width)
        if columns[p, c] >= 0:
            ids[r, settled[r] + waiting[r]] = columns[p, c]
            waiting[r] += 1
            if settled[r] + waiting[r] == room:
                settle(best, r, work.factors.left, work.rows.ids[r], work.factors.right, sign)


@compiled
@no_type_check
def _take_columns(best, work, mask, p, sign):
    """Let what passed wait in its column's buffer."""
    ids, settled, waiting = best.ids, best.settled, best.waiting
    columns, rows, width, room = work.panels.ids, work.rows.ids, work.panels.ids.shape[1], best.ids.shape[1]
    for i in range(work.scratch.count[mask]):
        r, c = divmod(work.scratch.passed[mask, i], width)
        which = columns[p, c]
        if which >= 0:
            ids[which, settled[which] + waiting[which]] = rows[r]
            waiting[which] += 1
            if settled[which] + waiting[which] == room:
                settle(best, which, work.factors.right, which, work.factors.left, sign)


@compiled
@no_type_check
def _take_near(work, p):
    """Count those of the entries that the integers cannot tell from the diagonal's that stand before it."""
    rows, own, above = work.rows.ids, work.found.own, work.found.above
    columns, width, left, right = work.panels.ids, work.panels.ids.shape[1], work.factors.left, work.factors.right
    for i in range(work.scratch.count[NEAR_AT]):
        r, c = divmod(work.scratch.passed[NEAR_AT, i], width)
        row, which = rows[r], columns[p, c]
        if which >= 0 and which != row:
            value = dot(left, row, right, which)
            above[r] += value > own[r] or (value == own[r] and which < row)


@compiled
@no_type_check
def _take(work, p):
    """Everything that has passed."""
    found, count = work.found, work.scratch.count
    if count[TOP_ROWS_AT]:
        _take_rows(found.top_rows, work, TOP_ROWS_AT, p, 1.0)
    if count[BOTTOM_ROWS_AT]:
        _take_rows(found.bottom_rows, work, BOTTOM_ROWS_AT, p, -1.0)
    if count[NEAR_AT]:
        _take_near(work, p)
    if count[TOP_COLUMNS_AT]:
        _take_columns(found.top_columns, work, TOP_COLUMNS_AT, p, 1.0)
    if count[BOTTOM_COLUMNS_AT]:
        _take_columns(found.bottom_columns, work, BOTTOM_COLUMNS_AT, p, -1.0)
    count[:] = 0


@compiled
@no_type_check
def _multiply(work, asks, p, first):
    """Rows from ``first`` on against one panel; gives the row where to go on: before all were seen where much has passed."""
    scratch, form, width = work.scratch, work.panels.form, work.panels.ids.shape[1]
    passed, count, passable = scratch.passed, scratch.count, scratch.open
    masks = scratch.out[width * 4 :].view(np.uint64)
    row, steps, counts = work.rows.words.ctypes.data, work.rows.words.shape[1], scratch.counts.ctypes.data
    panel, start = work.panels.numbers[p].ctypes.data, work.panels.start[p].ctypes.data
    limits, above, below, out = scratch.limits.ctypes.data, scratch.above.ctypes.data, scratch.below.ctypes.data, scratch.out.ctypes.data
    for r in range(first, len(passable)):
        if not passable[r]:
            continue
        words, ours, lanes = row + r * steps * 4, limits + r * 16, counts + r * BYTES
        if form == INT8:
            hit = tile_int8(words, panel, start, ours, above, below, lanes, out, steps, asks)
        else:
            hit = tile_int16(words, panel, start, ours, above, below, lanes, out, steps, asks)
        if hit:
            full = False
            for mask in range(MASKS):
                if asks & (1 << mask):
                    for word in range(3):
                        bits = masks[mask * 4 + word]
                        while bits:
                            passed[mask, count[mask]] = r * width + word * 64 + np.int64(lowest(bits))
                            count[mask] += 1
                            bits &= bits - np.uint64(1)
                    full |= count[mask] >= QUEUE
            if full:
                return r + 1
    return len(passable)


@compiled
@no_type_check
def sweep(work, asks):
    """A block of rows against all columns."""
    found, scratch, rows = work.found, work.scratch, len(work.rows.ids)
    for p in range(len(work.panels.ids)):
        _row_limits(work, p)
        if found.top_columns.keep:
            _column_limits(found.top_columns.floors, work, p, scratch.above, 1)
        if found.bottom_columns.keep:
            _column_limits(found.bottom_columns.floors, work, p, scratch.below, -1)
        row = 0
        while row < rows:
            row = _multiply(work, asks, p, row)
            _take(work, p)
