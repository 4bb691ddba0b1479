# pyright: basic
# What numba compiles cannot carry types.
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

from headwater.circuits.streamed.integers import INT8, TOGETHER, Panels
from headwater.circuits.streamed.microkernel import (
    BOTTOM_COLUMNS_AT,
    BOTTOM_ROWS_AT,
    BYTES,
    MASKS,
    TOP_COLUMNS_AT,
    TOP_ROWS_AT,
    Tile,
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
    """The best entries of some lines so far: the first ones settled and in order, the others waiting."""

    lines: Any
    """Which lines of their axis these are."""
    ids: Any
    values: Any
    settled: Any
    waiting: Any
    floors: Any
    """No entry that was left out is above this."""
    keep: Any
    """How many to keep; 0: this is not asked for."""


class Found(NamedTuple):
    """What is looked for in a block of rows."""

    top_rows: Best
    bottom_rows: Best
    top_columns: Best
    bottom_columns: Best
    own: Any
    """The entry on the diagonal of each row; none: its rank is not asked for."""
    above: Any
    """How many were found above it one by one; those that the innermost loop counts are in the scratch."""


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
    """For each mask the entries of a panel that passed: ``row · width + column``."""
    count: Any


class Panel(NamedTuple):
    """One panel beside a block of rows."""

    per_unit: Any
    length: Any
    error: Any
    form: Any
    numbers: Any
    start: Any


def scratch(rows: int, panels: Panels) -> Scratch:
    """For a block of rows."""
    width = panels.ids.shape[1]
    above, below = np.zeros(width * 4, np.uint8), np.zeros(width * 4, np.uint8)
    counts, out = np.zeros((rows, BYTES), np.uint8), np.zeros(width * 4 + MASKS * BYTES, np.uint8)
    passed, count = np.zeros((MASKS, QUEUE + width), np.int32), np.zeros(MASKS, np.int64)
    return Scratch(np.zeros((rows, 4), np.int32), np.zeros(rows, np.bool_), above, below, counts, out, passed, count)


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
def entries(ours, theirs, lines, ids, values):
    """Single entries, each as ``dot`` has it: four at a time, since a sum waits for the one before."""
    n = 0
    while n + 4 <= len(ids):
        one, two, three, four = 0.0, 0.0, 0.0, 0.0
        a, b, c, d = lines[n], lines[n + 1], lines[n + 2], lines[n + 3]
        e, f, g, h = ids[n], ids[n + 1], ids[n + 2], ids[n + 3]
        for m in range(ours.shape[1]):
            one += np.float64(ours[a, m]) * np.float64(theirs[e, m])
            two += np.float64(ours[b, m]) * np.float64(theirs[f, m])
            three += np.float64(ours[c, m]) * np.float64(theirs[g, m])
            four += np.float64(ours[d, m]) * np.float64(theirs[h, m])
        values[n], values[n + 1], values[n + 2], values[n + 3] = one, two, three, four
        n += 4
    for rest in range(n, len(ids)):
        values[rest] = dot(ours, lines[rest], theirs, ids[rest])


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
def _dots(ours, i, theirs, ids, values):
    """Entries ``ids`` of line ``i``, each as ``dot`` has it: four at a time, since a sum waits for the one before."""
    n = 0
    while n + 4 <= len(ids):
        a, b, c, d = ids[n], ids[n + 1], ids[n + 2], ids[n + 3]
        one, two, three, four = 0.0, 0.0, 0.0, 0.0
        for m in range(ours.shape[1]):
            x = np.float64(ours[i, m])
            one += x * np.float64(theirs[a, m])
            two += x * np.float64(theirs[b, m])
            three += x * np.float64(theirs[c, m])
            four += x * np.float64(theirs[d, m])
        values[n], values[n + 1], values[n + 2], values[n + 3] = one, two, three, four
        n += 4
    for rest in range(n, len(ids)):
        values[rest] = dot(ours, i, theirs, ids[rest])


@compiled
@no_type_check
def settle(best, place, ours, theirs, sign):
    """Calculate what waits in a line's buffer, keep the best, raise the floor."""
    ids, values, settled, keep = best.ids[place], best.values[place], best.settled[place], best.keep
    first, last = settled, settled + best.waiting[place]
    _dots(ours, best.lines[place], theirs, ids[first:last], values[first:last])
    for waits in range(first, last):
        which, value = ids[waits], sign * values[waits]
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
def finish(best, ours, theirs, sign):
    """Settle every line, and leave nothing else in its buffer."""
    for place in range(len(best.lines)):
        settle(best, np.int64(place), ours, theirs, sign)
        best.ids[place, best.settled[place] :] = -1
        best.values[place, best.settled[place] :] = -np.inf


@compiled
@no_type_check
def _take(best, pairs, ours, theirs, sign):
    """Let what passed wait in its line's buffer."""
    ids, settled, waiting = best.ids, best.settled, best.waiting
    for i in range(len(pairs)):
        place = np.int64(pairs[i, 0])
        ids[place, settled[place] + waiting[place]] = pairs[i, 1]
        waiting[place] += 1
        if settled[place] + waiting[place] == ids.shape[1]:
            settle(best, place, ours, theirs, sign)


@compiled
@no_type_check
def _take_near(pairs, lines, own, above, factors):
    """Count those of the entries that the integers cannot tell from the diagonal's that stand before it."""
    for i in range(len(pairs)):
        place, which = pairs[i, 0], pairs[i, 1]
        row = lines[place]
        if which != row:
            value = dot(factors.left, row, factors.right, which)
            above[place] += value > own[place] or (value == own[place] and which < row)


@compiled
@no_type_check
def _pairs(passed, lines, ids, mask):
    """Places among the lines of a mask's axis, and ids of the other axis."""
    pairs, count, by_column = np.empty((len(passed), 2), np.int32), 0, mask in (TOP_COLUMNS_AT, BOTTOM_COLUMNS_AT)
    for i in range(len(passed)):
        r, which = passed[i] // len(ids), ids[passed[i] % len(ids)]
        if which >= 0:
            pairs[count, 0], pairs[count, 1] = (which, lines[r]) if by_column else (r, which)
            count += 1
    return pairs[:count]


@compiled
@no_type_check
def _take_all(found, lines, ids, factors, passed, count):
    """Everything that has passed in a panel."""
    left, right = factors
    for mask in range(MASKS):
        if not count[mask]:
            continue
        pairs = _pairs(passed[mask, : count[mask]], lines, ids, mask)
        if mask == TOP_ROWS_AT:
            _take(found.top_rows, pairs, left, right, 1.0)
        elif mask == BOTTOM_ROWS_AT:
            _take(found.bottom_rows, pairs, left, right, -1.0)
        elif mask == TOP_COLUMNS_AT:
            _take(found.top_columns, pairs, right, left, 1.0)
        elif mask == BOTTOM_COLUMNS_AT:
            _take(found.bottom_columns, pairs, right, left, -1.0)
        else:
            _take_near(pairs, lines, found.own, found.above, factors)
        count[mask] = 0


@compiled
@no_type_check
def _limit(floor, wrong, panel):
    """An integer product at or below this stands for an entry below the floor."""
    reach = 32767.0 if panel.form == INT8 else 2147483647.0
    return np.int32(min(max(math.floor((floor - wrong) * panel.per_unit) - 1.0, -reach), reach))


@compiled
@no_type_check
def _row_limits(floors, rows, panel, limits, passable, sign):
    """The limits of all rows in a panel, and whether any entry can pass."""
    for r in range(len(floors)):
        wrong = rows.error[r] * (panel.length + panel.error) + rows.length[r] * panel.error + rows.slack[r]
        limits[r] = sign * _limit(floors[r], wrong, panel)
        passable[r] |= floors[r] < rows.length[r] * panel.length + rows.slack[r]


@compiled
@no_type_check
def _column_limits(floors, rows, panel, ids, limits, sign):
    """The limits of a panel's columns for a whole block; says whether any entry can pass."""
    wrong = rows.most_error * (panel.length + panel.error) + rows.most_length * panel.error + rows.most_slack
    highest, passable = rows.most_length * panel.length + rows.most_slack, False
    narrow, wide = limits.view(np.int16), limits.view(np.int32)
    for c in range(len(ids)):
        floor = floors[ids[c]] if ids[c] >= 0 else np.inf
        passable |= floor < highest
        limit = sign * _limit(floor, wrong, panel)
        if panel.form == INT8:
            narrow[c] = limit
        else:
            wide[c] = limit
    return passable


@compiled
@no_type_check
def _set_row_limits(found, rows, panel, scratch):
    """The limits of rows for everything that is looked for in them."""
    limits, passable = scratch.limits, scratch.open
    passable[:] = len(found.own) > 0
    if found.top_rows.keep:
        _row_limits(found.top_rows.floors, rows, panel, limits[:, 0], passable, np.int64(1))
    if found.bottom_rows.keep:
        _row_limits(found.bottom_rows.floors, rows, panel, limits[:, 1], passable, np.int64(-1))
    if len(found.own):
        _row_limits(found.own, rows, panel, limits[:, 2], passable, np.int64(1))
        _row_limits(-found.own, rows, panel, limits[:, 3], passable, np.int64(-1))


@compiled
@no_type_check
def _set_column_limits(found, rows, panel, ids, scratch):
    """The limits of columns; says whether any entry can pass."""
    passable = False
    if found.top_columns.keep:
        passable |= _column_limits(found.top_columns.floors, rows, panel, ids, scratch.above, np.int64(1))
    if found.bottom_columns.keep:
        passable |= _column_limits(found.bottom_columns.floors, rows, panel, ids, scratch.below, np.int64(-1))
    return passable


@compiled
@no_type_check
def _multiply(words, panel, width, scratch, asks, todo):
    """The rows that are left to do against one panel, till all are seen or much has passed; gives the row where to go on."""
    first, every = todo
    row, steps, counts = words.ctypes.data, words.shape[1], scratch.counts.ctypes.data
    above, below, out = scratch.above.ctypes.data, scratch.below.ctypes.data, scratch.out.ctypes.data
    limits, passable, passed, count = scratch.limits.ctypes.data, scratch.open, scratch.passed, scratch.count
    masks, room = scratch.out[width * 4 :].view(np.uint64), True
    for r in range(first, len(passable)):
        if not (passable[r] or every):
            continue
        ours, theirs, lanes = row + r * steps * 4, limits + r * 16, counts + r * BYTES
        tile = Tile(ours, panel.numbers, panel.start, theirs, above, below, lanes, out, steps, asks)
        if tile_int8(tile) if panel.form == INT8 else tile_int16(tile):
            for mask in range(MASKS):
                if asks >> mask & 1:
                    for word in range(3):
                        bits = masks[mask * 4 + word]
                        while bits:
                            passed[mask, count[mask]] = r * width + word * 64 + np.int64(lowest(bits))
                            count[mask] += 1
                            bits &= bits - np.uint64(1)
                    room &= count[mask] < QUEUE
            if not room:
                return r + 1
    return len(passable)


@compiled
@no_type_check
def sweep(rows, panels, found, factors, scratch, asks):
    """A block of rows against all columns."""
    for p in range(len(panels.ids)):
        numbers, start = panels.numbers[p].ctypes.data, panels.start[p].ctypes.data
        panel = Panel(1 / (rows.unit * panels.unit[p]), panels.length[p], panels.error[p], panels.form, numbers, start)
        ids, row = panels.ids[p], 0
        if p % TOGETHER == 0:
            _set_row_limits(found, rows, panel, scratch)
        every = _set_column_limits(found, rows, panel, ids, scratch)
        while row < len(rows.ids):
            row = _multiply(rows.words, panel, len(ids), scratch, asks, (np.int64(row), every))
            _take_all(found, rows.ids, ids, factors, scratch.passed, scratch.count)
