# pyright: basic
# What numba compiles cannot carry types.
"""Factors as integers, in the order in which the innermost loop reads them, with the error of every line.

A line ``x`` becomes ``unit · whole`` with whole numbers, and ``‖x − unit · whole‖`` is kept. In ``int8`` a row's numbers are at most 127
and its norm is at most 255, a column's 64 and 128, so no product is above 255 · 128 < 2¹⁵; in ``int16`` both norms are at most 46,000.
"""

import math
from typing import Any, NamedTuple, no_type_check

import numpy as np
import torch
from jaxtyping import Float, Int
from numba import njit
from torch import Tensor

from headwater.circuits.streamed.microkernel import VECTORS

INT8, INT16 = 0, 1
WIDTHS = (16 * VECTORS, 8 * VECTORS)
"""Columns of a panel in either form."""
TOGETHER = 4
"""Neighbouring panels with the same unit, length and error, so that a row has the same limits in all of them."""
ROW_SIZES, ROW_NORMS = (127.0, 32767.0), (255.0, 46_000.0)
COLUMN_SIZES, COLUMN_NORMS = (64.0, 32767.0), (128.0, 46_000.0)
compiled = njit(nogil=True, cache=True, error_model="numpy")


class Panels(NamedTuple):
    """All columns in the order of falling norms."""

    numbers: Any
    start: Any
    """What a total starts from: takes back that bytes of a row are 128 too large. A place without a column starts from the least."""
    ids: Any
    """−1 where there is no column."""
    unit: Any
    length: Any
    """The largest norm in the panel."""
    error: Any
    form: Any


class Rows(NamedTuple):
    """A block of rows."""

    words: Any
    """Two numbers each."""
    ids: Any
    unit: Any
    length: Any
    error: Any
    slack: Any
    """What else may be wrong with an entry of the row, beyond rounding to integers."""
    most_length: Any
    most_error: Any
    most_slack: Any


@compiled
@no_type_check
def _whole(line, unit, numbers):
    """Round a line to whole units; gives what that took, as a norm."""
    error, per_unit = 0.0, 1 / unit
    for j in range(len(line)):
        number = np.rint(line[j] * per_unit)
        numbers[j] = number
        error += (line[j] - number * unit) ** 2
    return math.sqrt(error) * (1 + 1e-9)


@compiled
@no_type_check
def _unit(lines, size, norm):
    """The unit in which no number of these lines is above ``size`` and no norm above ``norm`` once rounded."""
    longest, largest = 0.0, 0.0
    for i in range(len(lines)):
        total = 0.0
        for j in range(lines.shape[1]):
            total += lines[i, j] * lines[i, j]
            largest = max(largest, abs(lines[i, j]))
        longest = max(longest, total)
    # Rounding adds at most half a unit to each number.
    room = norm - 0.5 * math.sqrt(lines.shape[1]) - 0.01
    unit = max(math.sqrt(longest) / room, largest / size)
    return unit if unit > 0 else 1.0


@compiled
@no_type_check
def _row_words(lines, form, unit, words, errors):
    """Rows as 32-bit words of two numbers; bytes stand twice, 128 too large."""
    inner = lines.shape[1]
    numbers = np.zeros(2 * words.shape[1], np.int32)
    for i in range(len(lines)):
        errors[i] = _whole(lines[i], unit, numbers[:inner])
        for step in range(words.shape[1]):
            a, b = numbers[2 * step], numbers[2 * step + 1]
            if form == INT8:
                pair = (a + 128) | ((b + 128) << 8)
                words[i, step] = pair | (pair << 16)
            else:
                words[i, step] = (a & 0xFFFF) | (b << 16)


@compiled
@no_type_check
def _panel(lines, form, unit, numbers, start):
    """Columns of one panel: for every step, each column's two numbers; gives the largest error."""
    inner, width, steps = lines.shape[1], len(start), numbers.shape[0]
    whole, most = np.zeros(2 * steps, np.int32), 0.0
    for c in range(width):
        if c >= len(lines):
            start[c] = -32768 if form == INT8 else -2147483648
            continue
        most = max(most, _whole(lines[c], unit, whole[:inner]))
        total = 0
        for step in range(steps):
            numbers[step, c, 0], numbers[step, c, 1] = whole[2 * step], whole[2 * step + 1]
            total += whole[2 * step] + whole[2 * step + 1]
        if form == INT8:
            # Modulo 2¹⁶, as the totals are.
            start[c] = ((-128 * total + 32768) & 0xFFFF) - 32768
    return most


@compiled
@no_type_check
def _fill_panels(columns, form, numbers, start, unit, error):
    width = start.shape[1]
    size, norm = COLUMN_SIZES[form], COLUMN_NORMS[form]
    for first in range(0, len(start), TOGETHER):
        last = min(first + TOGETHER, len(start))
        unit[first:last] = _unit(columns[first * width : last * width], size, norm)
        most = 0.0
        for p in range(first, last):
            most = max(most, _panel(columns[p * width : (p + 1) * width], form, unit[p], numbers[p], start[p]))
        error[first:last] = most


def panels(columns: Float[Tensor, "column inner"], lengths: Float[Tensor, " column"], form: int) -> Panels:
    """The columns of a product."""
    order = lengths.argsort(descending=True, stable=True)
    width, steps = WIDTHS[form], math.ceil(columns.shape[1] / 2)
    count = math.ceil(len(columns) / width)
    ids = torch.full((count * width,), -1, dtype=torch.int32)
    ids[: len(columns)] = order.int()
    number, total = (torch.int8, torch.int16) if form == INT8 else (torch.int16, torch.int32)
    # Torch's memory starts at a multiple of 64 bytes, which full vectors need to be read in one go.
    numbers = torch.zeros(count, steps, width, 2, dtype=number).numpy()
    start = torch.zeros(count, width, dtype=total).numpy()
    unit, error = np.zeros(count), np.zeros(count)
    _fill_panels(columns[order].numpy(), form, numbers, start, unit, error)
    # The first of several panels has the longest column.
    length = lengths[order][:: width * TOGETHER].repeat_interleave(TOGETHER)[:count].numpy()
    return Panels(numbers.view(np.uint8), start.view(np.uint8), ids.view(count, width).numpy(), unit, length, error, form)


def rows(
    lines: Float[Tensor, "row inner"],
    ids: Int[Tensor, " row"],
    lengths: Float[Tensor, " row"],
    slack: Float[Tensor, " row"],
    form: int,
) -> Rows:
    """A block of rows of a product."""
    turned = lines.numpy()
    unit = _unit(turned, ROW_SIZES[form], ROW_NORMS[form])
    words = torch.empty(len(lines), math.ceil(lines.shape[1] / 2), dtype=torch.int32).numpy()
    errors = np.zeros(len(lines))
    _row_words(turned, form, unit, words, errors)
    most = (float(lengths.max()), float(errors.max()), float(slack.max()))
    return Rows(words, ids.int().numpy(), unit, lengths.numpy(), errors, slack.numpy(), *most)
