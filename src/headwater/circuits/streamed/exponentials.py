# pyright: basic
# numba and llvmlite carry no types, and what numba compiles cannot.
"""Rows against a panel of columns in float32, and the exponentials of all entries, as vector instructions.

A tile is two rows and six vectors of eight columns. An entry starts from its column's log weight and adds its products in the order of the inner
dimension. All entries of a tile stay in registers. There the row's shift is taken off, ``exp`` is a power of two times a polynomial, and the
sums of the six vectors are added to the row's eight totals in float64.

A shift is some entry of its row, and no entry is let in that is more than ``ROOM`` above it: then the tile adds nothing, writes its
entries out, and is asked again once the shift has been raised. So no row depends on its neighbours.
"""

import math
from functools import reduce
from itertools import chain
from typing import Any, NamedTuple, no_type_check

import numpy as np
from llvmlite import ir
from numba import njit, types
from numba.core.cgutils import unpack_tuple
from numba.extending import intrinsic

from headwater.circuits.streamed.microkernel import Instructions, Value

compiled = njit(nogil=True, cache=True, error_model="numpy")
LANES, VECTORS, ROWS = 8, 6, 2
WIDTH = LANES * VECTORS
"""Columns of a panel."""
ROOM = 16.0
"""How far entries may be above the shift: the further, the more ``entry − shift`` is rounded."""
LEAST = -86.0
"""Powers of two below this one's have no room. Beside the shift's own 1, what is raised to it is nothing in float64."""
DEGREE = 6
"""Of the polynomial: what is left of ``exp`` on [−½ log 2, ½ log 2] is at most 1.3e-7 of it."""
TO_WHOLE = 1.5 * 2.0**23
"""Added to a small number, it leaves the nearest whole number in the lowest bits."""

_I1, _I32, _I64, _F32, _F64 = ir.IntType(1), ir.IntType(32), ir.IntType(64), ir.FloatType(), ir.DoubleType()
_FLOATS, _WORDS = ir.VectorType(_F32, LANES), ir.VectorType(_I32, LANES)
_WIDE = ir.VectorType(_F64, LANES)


class Tile(NamedTuple):
    """Arguments of a tile, all of them addresses but the last."""

    rows: Any
    panel: Any
    start: Any
    shifts: Any
    totals: Any
    out: Any
    inner: Any


class _Writer(Instructions):
    """Writes the instructions of one tile."""

    def __init__(self, builder: Any, tile: Tile) -> None:
        super().__init__(builder)
        self.tile = tile

    def number(self, value: float) -> Value:
        """The same constant in every lane."""
        return ir.Constant(_FLOATS, [float(np.float32(value))] * LANES)

    def called(self, name: str, *arguments: Value) -> Value:
        """One of LLVM's own functions of vectors."""
        known = self.builder.module.globals.get(name)
        kind = ir.FunctionType(arguments[0].type, [each.type for each in arguments])
        return self.builder.call(known or ir.Function(self.builder.module, kind, name), arguments)

    def fused(self, a: Value, b: Value, c: Value) -> Value:
        """``a · b + c``, rounded once."""
        return self.called("llvm.fma.v8f32", a, b, c)

    def larger(self, a: Value, b: Value) -> Value:
        """The larger of two, ``b`` where there is none."""
        return self.builder.select(self.builder.fcmp_ordered(">", a, b), a, b)

    def entries(self) -> list[list[Value]]:
        """Of each row its six vectors: the loop over the inner dimension."""
        builder, tile = self.builder, self.tile
        start = [self.load(tile.start, _FLOATS, vector) for vector in range(VECTORS)]
        before, loop, after = builder.block, builder.append_basic_block("products"), builder.append_basic_block("entries")
        builder.branch(loop)
        builder.position_at_end(loop)
        step, totals = builder.phi(_I64), [[builder.phi(_FLOATS) for _ in start] for _ in range(ROWS)]
        columns = builder.add(tile.panel, builder.mul(step, _I64(WIDTH * 4)))
        place = builder.add(tile.rows, builder.mul(step, _I64(4)))
        length = builder.mul(tile.inner, _I64(4))
        numbers = [
            self.spread(self.load(builder.add(place, builder.mul(length, _I64(row))), _F32), _FLOATS) for row in range(ROWS)
        ]
        # Each vector right before it is used: there are as many registers as this needs.
        added: list[list[Value]] = [[] for _ in totals]
        for vector in range(VECTORS):
            column = self.load(columns, _FLOATS, vector)
            for number, ours, more in zip(numbers, totals, added, strict=True):
                more.append(self.fused(number, column, ours[vector]))
        following = builder.add(step, _I64(1))
        step.add_incoming(_I64(0), before)
        step.add_incoming(following, loop)
        for ours, more in zip(totals, added, strict=True):
            for vector, total in enumerate(ours):
                total.add_incoming(start[vector], before)
                total.add_incoming(more[vector], loop)
        builder.cbranch(builder.icmp_signed("<", following, tile.inner), loop, after)
        builder.position_at_end(after)
        return added

    def exponential(self, x: Value) -> Value:
        """``exp(x) = 2^n · exp(x − n log 2)`` for ``x`` from ``LEAST`` to ``ROOM``."""
        builder = self.builder
        shifted = self.fused(x, self.number(1 / math.log(2)), self.number(TO_WHOLE))
        rest = self.fused(builder.fsub(shifted, self.number(TO_WHOLE)), self.number(-math.log(2)), x)
        power = self.number(1 / math.factorial(DEGREE))
        for n in reversed(range(DEGREE)):
            power = self.fused(power, rest, self.number(1 / math.factorial(n)))
        # The whole number goes into the exponent's bits.
        whole = builder.shl(builder.bitcast(shifted, _WORDS), ir.Constant(_WORDS, [23] * LANES))
        return builder.bitcast(builder.add(builder.bitcast(power, _WORDS), whole), _FLOATS)

    def whole(self) -> Value:
        """Multiply, and add exponentials to the totals; 1 where an entry is too far above its row's shift and nothing was added."""
        builder, entries = self.builder, self.entries()
        shifts = [self.spread(self.load(self.tile.shifts, _F32, row), _FLOATS) for row in range(ROWS)]
        highest = [builder.fsub(reduce(self.larger, ours), shift) for ours, shift in zip(entries, shifts, strict=True)]
        beyond = builder.fcmp_ordered(">", reduce(self.larger, highest), self.number(ROOM))
        far = builder.icmp_unsigned("!=", builder.bitcast(beyond, ir.IntType(LANES)), ir.IntType(LANES)(0))
        with builder.if_else(far, likely=False) as (then, otherwise):
            with then:
                for place, entry in enumerate(chain(*entries)):
                    self.store(entry, self.tile.out, place)
            with otherwise:
                for row, ours in enumerate(entries):
                    self.add(row, ours, shifts[row])
        return builder.zext(far, _I64)

    def add(self, row: int, entries: list[Value], shift: Value) -> None:
        """The exponentials of a row's entries to its totals."""
        builder, least = self.builder, self.number(LEAST)
        powers = [self.exponential(self.larger(builder.fsub(entry, shift), least)) for entry in entries]
        total = self.load(self.tile.totals, _WIDE, row)
        self.store(builder.fadd(total, builder.fpext(reduce(builder.fadd, powers), _WIDE)), self.tile.totals, row)


@intrinsic
@no_type_check
def _tile(context, tile):
    """Two rows against a panel; says whether a shift must be raised."""

    def write(_context, builder, _signature, values):
        return _Writer(builder, Tile(*unpack_tuple(builder, values[0]))).whole()

    return types.int64(tile), write


@compiled
@no_type_check
def _raise(entries, shifts, totals):
    """The highest entry of each row becomes its shift, where it is too far above."""
    for row in range(ROWS):
        highest = entries[row].max()
        if highest - shifts[row] > np.float32(ROOM):
            totals[row] *= math.exp(np.float64(shifts[row]) - np.float64(highest))
            shifts[row] = highest


@compiled
@no_type_check
def sums(lines, panels, start, found):
    """``log Σ exp(entry)`` of every row into ``found``. ``panels [panel, inner, column]``, ``start [panel, column]``; there is a column in each."""
    count, inner = lines.shape
    rows = np.zeros((count + count % ROWS, inner), np.float32)
    rows[:count] = lines
    shifts, totals = np.full(len(rows), -np.inf, np.float32), np.zeros((len(rows), LANES))
    out = np.zeros((ROWS, WIDTH), np.float32)
    at, shifts_at, totals_at, out_at = rows.ctypes.data, shifts.ctypes.data, totals.ctypes.data, out.ctypes.data
    for p in range(len(panels)):
        panel, begin = panels[p].ctypes.data, start[p].ctypes.data
        for r in range(0, len(rows), ROWS):
            tile = Tile(at + r * inner * 4, panel, begin, shifts_at + r * 4, totals_at + r * LANES * 8, out_at, inner)
            if _tile(tile):
                _raise(out, shifts[r : r + ROWS], totals[r : r + ROWS])
                _tile(tile)
    for r in range(count):
        found[r] = math.log(totals[r].sum()) + shifts[r]
