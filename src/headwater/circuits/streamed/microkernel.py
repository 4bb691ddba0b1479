# pyright: basic
# numba and llvmlite carry no types, and what numba compiles cannot.
"""One row of integers against a panel of columns, as vector instructions: the innermost loop of the fused kernel.

A panel is twelve vectors of 256 bits wide. In ``int8`` a step multiplies two numbers of the row (bytes without sign) with two of each of
16 × 12 columns (bytes with sign, at most 64 in size) and adds the sums to 16-bit totals: 32 products an instruction. In
``int16`` it is 8 × 12 columns, 32-bit totals and 16 products. Totals may wrap on the way; the last one does not, since no sum of
products is above ``‖row‖ ‖column‖`` and the caller scales the two so that this fits.

All products of a panel stay in registers. They are compared there with the row's limits, and only where one passes is anything written.
"""

from collections.abc import Callable
from typing import Any, NamedTuple, TypeAlias, no_type_check

from llvmlite import ir
from numba import types
from numba.core.cgutils import unpack_tuple
from numba.extending import intrinsic

Value: TypeAlias = Any
"""A number or a vector in the instructions."""
VECTORS = 12
"""Vectors of totals: with a column's numbers, the row's and the products, as many as there are registers."""
BYTES = 32
TOP_ROWS_AT, BOTTOM_ROWS_AT, NEAR_AT, TOP_COLUMNS_AT, BOTTOM_COLUMNS_AT = range(5)
"""What can be looked for: each is a bit of ``asks``, and a mask of four 64-bit words in the output."""
MASKS = 5

_I8, _I16, _I32, _I64 = (ir.IntType(bits) for bits in (8, 16, 32, 64))
_WORDS = ir.VectorType(_I32, 8)


class _Form(NamedTuple):
    """How numbers of one kind lie in vectors."""

    factors: ir.VectorType
    totals: ir.VectorType
    instruction: str

    @property
    def lanes(self) -> int:
        return self.totals.count


_INT8 = _Form(ir.VectorType(_I8, 32), ir.VectorType(_I16, 16), "llvm.x86.avx2.pmadd.ub.sw")
_INT16 = _Form(ir.VectorType(_I16, 16), ir.VectorType(_I32, 8), "llvm.x86.avx2.pmadd.wd")


class Tile(NamedTuple):
    """Arguments of a tile, all of them addresses but the last two."""

    row: Any
    panel: Any
    start: Any
    limits: Any
    above: Any
    below: Any
    counts: Any
    out: Any
    steps: Any
    asks: Any


class Instructions:
    """Writes what every tile needs."""

    def __init__(self, builder: Any) -> None:
        self.builder = builder

    def load(self, address: Value, kind: ir.Type, index: int = 0) -> Value:
        """Number ``index`` of an array, wherever it lies."""
        place = self.builder.gep(self.builder.inttoptr(address, kind.as_pointer()), [_I64(index)])
        return self.builder.load(place, align=1)

    def store(self, value: Value, address: Value, index: int) -> None:
        """Write number ``index`` of an array."""
        place = self.builder.gep(self.builder.inttoptr(address, value.type.as_pointer()), [_I64(index)])
        self.builder.store(value, place, align=1)

    def spread(self, value: Value, kind: ir.VectorType) -> Value:
        """The same number in every lane."""
        nothing = ir.Constant(kind, ir.Undefined)
        first = self.builder.insert_element(nothing, value, _I32(0))
        return self.builder.shuffle_vector(first, nothing, ir.Constant(ir.VectorType(_I32, kind.count), [0] * kind.count))


class _Writer(Instructions):
    """Writes the instructions of one tile."""

    def __init__(self, builder: Any, form: _Form, tile: Tile) -> None:
        super().__init__(builder)
        self.form, self.tile = form, tile
        self.zero = ir.Constant(form.totals, [0] * form.lanes)

    def limit(self, index: int) -> Value:
        """One of the row's limits in every lane."""
        number = self.load(self.tile.limits, _I32, index)
        element = self.form.totals.element
        return self.spread(number if element is _I32 else self.builder.trunc(number, element), self.form.totals)

    def products(self) -> list[Value]:
        """The totals of the whole panel: the loop over steps."""
        builder, form, tile = self.builder, self.form, self.tile
        module = builder.module
        known = module.globals.get(form.instruction)
        multiply = known or ir.Function(module, ir.FunctionType(form.totals, [form.factors] * 2), form.instruction)
        start = [self.load(tile.start, form.totals, vector) for vector in range(VECTORS)]
        before, loop, after = builder.block, builder.append_basic_block("steps"), builder.append_basic_block("compared")
        builder.branch(loop)
        builder.position_at_end(loop)
        step, totals = builder.phi(_I64), [builder.phi(form.totals) for _ in range(VECTORS)]
        row = self.load(builder.add(tile.row, builder.mul(step, _I64(4))), _I32)
        numbers = builder.bitcast(self.spread(row, _WORDS), form.factors)
        panel = builder.add(tile.panel, builder.mul(step, _I64(VECTORS * BYTES)))
        added = [
            builder.add(total, builder.call(multiply, [numbers, self.load(panel, form.factors, vector)]))
            for vector, total in enumerate(totals)
        ]
        following = builder.add(step, _I64(1))
        step.add_incoming(_I64(0), before)
        step.add_incoming(following, loop)
        for vector, total in enumerate(totals):
            total.add_incoming(start[vector], before)
            total.add_incoming(added[vector], loop)
        builder.cbranch(builder.icmp_signed("<", following, tile.steps), loop, after)
        builder.position_at_end(after)
        return added

    def passed(self, found: Value, comparison: Callable[[], list[Value]], mask: int) -> Value:
        """``found``, and what passes a comparison where that is asked for."""
        builder = self.builder
        before = builder.block
        with builder.if_then(self.asked(mask)):
            more = found
            for one in comparison():
                more = builder.or_(more, one)
            inside = builder.block
        both = builder.phi(self.form.totals)
        both.add_incoming(found, before)
        both.add_incoming(more, inside)
        return both

    def asked(self, mask: int) -> Value:
        """Whether this is asked for."""
        return self.builder.icmp_unsigned("!=", self.builder.and_(self.tile.asks, _I64(1 << mask)), _I64(0))

    def compare(self, sign: str, ours: Value, theirs: Value) -> Value:
        """All bits set in the lanes where it holds."""
        return self.builder.sext(self.builder.icmp_signed(sign, ours, theirs), self.form.totals)

    def bits(self, comparison: list[Value], place: int) -> None:
        """Write one bit a lane."""
        address = self.builder.add(self.tile.out, _I64(VECTORS * self.form.lanes * 4 + place * BYTES))
        for vector, one in enumerate(comparison):
            lanes = self.builder.icmp_signed("<", one, self.zero)
            self.store(self.builder.bitcast(lanes, ir.IntType(self.form.lanes)), address, vector)

    def whole(self) -> Value:
        """Multiply, compare, write where something passes; 1 where it does."""
        builder, totals = self.builder, self.products()
        comparisons: dict[int, Callable[[], list[Value]]] = {
            TOP_ROWS_AT: lambda: self.against(">", totals, self.limit(0)),
            BOTTOM_ROWS_AT: lambda: self.against("<", totals, self.limit(1)),
            NEAR_AT: lambda: self.near(totals),
            TOP_COLUMNS_AT: lambda: self.against_columns(">", totals, self.tile.above),
            BOTTOM_COLUMNS_AT: lambda: self.against_columns("<", totals, self.tile.below),
        }
        found = self.zero
        for mask, comparison in comparisons.items():
            found = self.passed(found, comparison, mask)
        with builder.if_then(self.asked(NEAR_AT)):
            self.count(totals)
        lanes = builder.bitcast(builder.icmp_signed("<", found, self.zero), ir.IntType(self.form.lanes))
        something = builder.icmp_unsigned("!=", lanes, ir.IntType(self.form.lanes)(0))
        with builder.if_then(something, likely=False):
            for vector, total in enumerate(totals):
                wide = total if self.form.totals.element is _I32 else builder.sext(total, ir.VectorType(_I32, self.form.lanes))
                self.store(wide, self.tile.out, vector)
            for mask, comparison in comparisons.items():
                with builder.if_then(self.asked(mask)):
                    self.bits(comparison(), mask)
        return builder.zext(something, _I64)

    def against(self, sign: str, totals: list[Value], limit: Value) -> list[Value]:
        """Every total against one limit."""
        return [self.compare(sign, total, limit) for total in totals]

    def against_columns(self, sign: str, totals: list[Value], limits: Value) -> list[Value]:
        """Every total against its column's limit."""
        return [self.compare(sign, total, self.load(limits, self.form.totals, vector)) for vector, total in enumerate(totals)]

    def near(self, totals: list[Value]) -> list[Value]:
        """Above the lower of the diagonal's limits, not above the higher."""
        low, high = self.limit(2), self.limit(3)
        return [self.builder.xor(self.compare(">", total, low), self.compare(">", total, high)) for total in totals]

    def count(self, totals: list[Value]) -> None:
        """Add those above the higher of the diagonal's limits to the row's counts, lane by lane."""
        counts, high = self.load(self.tile.counts, self.form.totals), self.limit(3)
        for total in totals:
            counts = self.builder.sub(counts, self.compare(">", total, high))
        self.store(counts, self.tile.counts, 0)


def _tile(form: _Form, tile: Any) -> Any:
    """What numba wants to know of a function that writes its own instructions: its types, and how to write it."""

    def write(_context: Any, builder: Any, _signature: Any, values: Any) -> Value:
        return _Writer(builder, form, Tile(*unpack_tuple(builder, values[0]))).whole()

    return types.int64(tile), write


@intrinsic
@no_type_check
def tile_int8(context, tile):
    """A row against a panel in bytes; says whether anything passed."""
    return _tile(_INT8, tile)


@intrinsic
@no_type_check
def tile_int16(context, tile):
    """A row against a panel in 16-bit integers; says whether anything passed."""
    return _tile(_INT16, tile)


@intrinsic
@no_type_check
def lowest(context, word):
    """The place of the lowest bit that is set."""

    def write(_context, builder, _signature, values):
        return builder.cttz(values[0], ir.IntType(1)(1))

    return types.uint64(types.uint64), write
