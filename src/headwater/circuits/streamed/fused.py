"""The fast kernel of a processor: integers filter all entries, float64 decides the few that pass.

The factors are turned and balanced (``headwater.circuits.streamed.balance``), rounded to integers with the error of every line known
(``headwater.circuits.streamed.integers``) and multiplied in registers (``headwater.circuits.streamed.microkernel``); entries that may be among the best
are calculated in float64 at once (``headwater.circuits.streamed.sweep``). Bytes are four times as fast as float32 and wrong by about a fortieth of
``‖row‖ ‖column‖`` at most, 16-bit integers twice as fast and wrong by a ten-thousandth. Which is used is decided by a sample
of lines: how many entries would pass.

Where the floor of a line starts is a guess from the same sample. It is checked in the end: the few lines with too few entries
above it are looked at once more, whole and in float64.
"""

import math
from concurrent.futures import ThreadPoolExecutor
from dataclasses import dataclass
from queue import SimpleQueue
from typing import TYPE_CHECKING

import numpy as np
import torch
from jaxtyping import Float, Int
from torch import Tensor

from headwater.circuits.algebra import lengths
from headwater.circuits.streamed import tiles
from headwater.circuits.streamed.balance import balanced
from headwater.circuits.streamed.exact import whole
from headwater.circuits.streamed.guess import Sample, Side
from headwater.circuits.streamed.machine import available, sweep
from headwater.circuits.streamed.scan import Kept, Progress, Scan, Wants, silent

if TYPE_CHECKING:
    from headwater.circuits.streamed.integers import Panels
    from headwater.circuits.streamed.sweep import Best, Factors, Found

BLOCK = 256
"""Rows that go over the columns together."""
SLACK = 2
"""Entries kept beyond those asked for: they set the ceiling."""
WAITING = 20
"""Entries that wait for being calculated, at least."""
LEAST, MOST_INNER, MOST_KEPT = 2**25, 512, 128
"""Entries of a matrix, its inner dimension and what is kept of a line: where preparing, or too much passing, would cost more than is gained."""
MOST_COLUMNS = 2**19
"""For bytes: a sixteenth of the columns is counted in 16 bits."""
ERRORS = (0.29 * (1 / 255 + 1 / 128), 0.29 * 2 / 46_000)
"""About how wrong integers of either form are, as a share of the norms, for each root of the inner dimension."""
SPEEDS = (60.0, 30.0)
"""Products a cycle."""
PASSING = 200.0
"""Cycles for an entry that passes."""
PLAIN_SPEED, PLAIN_ENTRY = 14.0, 3.0
"""Products a cycle and cycles an entry in plain torch."""


def pays(rows: int, columns: int, inner: int, wants: Wants) -> bool:
    """Whether this kernel is the faster one: it answers all but log-sum-exps, and needs some work to do for what it prepares."""
    most = max(wants.top_rows, wants.bottom_rows, wants.top_columns, wants.bottom_columns)
    fits = 0 < inner <= MOST_INNER and most <= MOST_KEPT
    return available() and wants.logsumexp is None and fits and rows * columns >= LEAST


def scan(
    left: Float[Tensor, "row inner"],
    right: Float[Tensor, "column inner"],
    wants: Wants,
    progress: Progress = silent,
    *,
    block: int = BLOCK,
    form: int | None = None,
) -> Scan:
    """Look at every entry of ``left @ rightᵀ``, ``block`` rows at a time."""
    from headwater.circuits.streamed.integers import INT16, panels
    from headwater.circuits.streamed.sweep import Factors

    left, right = left.contiguous(), right.contiguous()
    turned = balanced(left, right)
    ours = Side.of(turned.left, left, _longest(right), turned.share)
    theirs = Side.of(turned.right, right, _longest(left), turned.share)
    guess = _Guess.of(ours, theirs, wants)
    form = guess.form if form is None else form
    if form is None:
        return tiles.scan(left, right, wants, progress)
    packed = panels(theirs.lines, theirs.lengths, form if len(right) < MOST_COLUMNS else INT16)
    run = _Run(Factors(left.numpy(), right.numpy()), ours, packed, wants, guess)
    run.over(ours.lengths.argsort(descending=True, stable=True), block, progress)
    return run.scan()


def _longest(lines: Tensor) -> float:
    return float(lengths(lines).max())


@dataclass(frozen=True, eq=False)
class _Guess:
    """Floors to start from, and the form of integers."""

    rows: dict[int, Tensor]
    columns: dict[int, Tensor]
    form: int | None
    """None: so many entries are about equal that integers filter nothing."""

    @staticmethod
    def of(ours: Side, theirs: Side, wants: Wants) -> "_Guess":
        """From a sample of rows, and one of columns where they are asked for."""
        root = math.sqrt(ours.lines.shape[1])
        costs = [ours.lines.shape[1] * len(theirs.lines) / speed for speed in SPEEDS]
        floors: tuple[dict[int, Tensor], dict[int, Tensor]] = ({}, {})
        asked = ({1: wants.top_rows, -1: wants.bottom_rows}, {1: wants.top_columns, -1: wants.bottom_columns})
        for axis, sides in enumerate(((ours, theirs), (theirs, ours))):
            if not any(asked[axis].values()) and (axis or not wants.own_ranks):
                continue
            sample = Sample.of(*sides)
            for sign, count in asked[axis].items():
                if count:
                    cuts = sample.cuts(count + SLACK, sign)
                    floors[axis][sign] = sample.floors(cuts, sign)
                    for form, error in enumerate(ERRORS):
                        costs[form] += PASSING * sample.passing(cuts, error * root, sign)
            if not axis and wants.own_ranks:
                own = (ours.small[sample.places] * theirs.small[sample.places]).sum(dim=1)
                for form, error in enumerate(ERRORS):
                    costs[form] += PASSING * sample.near(own, error * root)
        plain = len(theirs.lines) * (ours.lines.shape[1] / PLAIN_SPEED + PLAIN_ENTRY)
        return _Guess(*floors, costs.index(min(costs)) if min(costs) < plain else None)


def _best(lines: Int[np.ndarray, " line"], count: int, floors: Tensor | None = None) -> "Best":
    """Nothing found yet."""
    from headwater.circuits.streamed.sweep import Best

    keep = count + SLACK if count else 0
    size = len(lines) if count else 0
    ids, values = np.full((size, keep + WAITING), -1, np.int32), np.full((size, keep + WAITING), -np.inf)
    start = np.full(size, -np.inf) if floors is None or not count else floors.numpy()
    return Best(lines, ids, values, np.zeros(size, np.int32), np.zeros(size, np.int32), start, keep)


@dataclass(eq=False)
class _Lines:
    """What was found in the lines of one axis, for the largest or the smallest."""

    ids: Int[Tensor, "line keep"]
    values: Float[Tensor, "line keep"]
    ceiling: Float[Tensor, " line"]
    count: int

    @staticmethod
    def empty(lines: int, count: int) -> "_Lines":
        """Nothing yet."""
        shape = (lines, count + SLACK)
        ceiling = torch.full((lines,), -math.inf, dtype=torch.float64)
        return _Lines(torch.full(shape, -1), torch.full(shape, -math.inf, dtype=torch.float64), ceiling, count)

    def take(self, places: Tensor, best: "Best") -> None:
        """The lines of one block."""
        ids, values = torch.from_numpy(best.ids), torch.from_numpy(best.values)
        self.ids[places], self.values[places] = ids[:, : best.keep].long(), values[:, : best.keep]
        self.ceiling[places] = torch.from_numpy(best.floors)

    @staticmethod
    def joined(parts: "list[Best]", count: int) -> "_Lines":
        """The best of several threads, each of which has seen other entries."""
        keep = count + SLACK
        ids = torch.cat([torch.from_numpy(best.ids[:, :keep]) for best in parts], dim=1).long()
        values = torch.cat([torch.from_numpy(best.values[:, :keep]) for best in parts], dim=1)
        values[ids < 0] = -math.inf
        best, order = values.topk(keep, dim=1)
        ids = ids.gather(1, order)
        # The threads share their floors. One may write a lower number over another's higher one, but never lower than the last that
        # either keeps.
        ceiling = torch.from_numpy(parts[0].floors)
        return _Lines(ids, best, torch.maximum(ceiling, best[:, -1]), count)

    def again(self, ours: Tensor, theirs: Tensor) -> Kept:
        """All, after a second, whole look at lines in which too few entries are above the floor that was guessed."""
        unsure = self.values[:, self.count - 1] <= self.ceiling
        few = ((self.ids[:, -1] < 0) & unsure & (self.ceiling > -math.inf)).nonzero()[:, 0]
        if len(few):
            keep = min(self.ids.shape[1], len(theirs))
            self.ids[few, :keep], self.values[few, :keep] = whole(ours[few], theirs, keep)
            self.ceiling[few] = self.values[few, keep - 1] if keep < len(theirs) else -math.inf
        return Kept(self.ids, self.ceiling, self.values)


@dataclass(eq=False)
class _Run:
    """One pass over some rows and all columns."""

    factors: "Factors"
    ours: Side
    panels: "Panels"
    wants: Wants
    guess: _Guess

    def __post_init__(self) -> None:
        wants, (rows, columns) = self.wants, (len(self.ours.lines), len(self.factors.right))
        self.above = torch.zeros(rows, dtype=torch.int64)
        asked = {1: wants.top_rows, -1: wants.bottom_rows}
        self.rows = {sign: _Lines.empty(rows, count) for sign, count in asked.items() if count}
        # Every thread has buffers of its own for the columns; all see the same floors.
        asked = {1: wants.top_columns, -1: wants.bottom_columns}
        floors, ids = self.guess.columns, np.arange(columns, dtype=np.int32)
        self.columns = [
            {sign: _best(ids, count, floors.get(sign)) for sign, count in asked.items()} for _ in range(torch.get_num_threads())
        ]
        self.free: SimpleQueue[dict[int, Best]] = SimpleQueue()
        for one in self.columns:
            self.free.put(one)

    def over(self, order: Int[Tensor, " row"], block: int, progress: Progress) -> None:
        """Rows in this order."""
        blocks = [order[start : start + block] for start in range(0, len(order), block)]
        pool = ThreadPoolExecutor(torch.get_num_threads())
        try:
            for number, found in enumerate(pool.map(self._borrow, blocks)):
                # Torch lets only the thread that began in inference mode write to what was made there.
                self._take(blocks[number], found)
                progress((number + 1) / len(blocks))
        finally:
            pool.shutdown(cancel_futures=True)

    def _borrow(self, ids: Int[Tensor, " row"]) -> "Found":
        columns = self.free.get()
        try:
            return self._block(ids, columns)
        finally:
            self.free.put(columns)

    def _block(self, ids: Int[Tensor, " row"], columns: "dict[int, Best]") -> "Found":
        from headwater.circuits.streamed import integers

        compiled, ours, wants, floors = sweep(), self.ours, self.wants, self.guess.rows
        rows = integers.rows(ours.lines[ids], ids, ours.lengths[ids], ours.slack[ids], self.panels.form)
        best = {
            sign: _best(rows.ids, count, floors[sign][ids] if sign in floors else None)
            for sign, count in ((1, wants.top_rows), (-1, wants.bottom_rows))
        }
        own = compiled.diagonal(self.factors, rows.ids if wants.own_ranks else rows.ids[:0])
        found = compiled.Found(best[1], best[-1], columns[1], columns[-1], own, np.zeros(len(own), np.int64))
        scratch = compiled.scratch(len(ids), self.panels)
        compiled.sweep(rows, self.panels, found, self.factors, scratch, _bits(wants))
        for sign in self.rows:
            compiled.finish(best[sign], self.factors.left, self.factors.right, float(sign))
        if wants.own_ranks:
            counts = scratch.counts.view(np.int16 if self.panels.form == integers.INT8 else np.int32)
            found.above[:] += counts.sum(axis=1)
        return found

    def _take(self, ids: Int[Tensor, " row"], found: "Found") -> None:
        for sign, lines in self.rows.items():
            lines.take(ids, found.top_rows if sign > 0 else found.bottom_rows)
        if self.wants.own_ranks:
            self.above[ids] = torch.from_numpy(found.above)

    def scan(self) -> Scan:
        """The answers."""
        left, right = (torch.from_numpy(factor) for factor in self.factors)
        rows = {sign: lines.again(sign * left, right) for sign, lines in self.rows.items()}
        columns = {sign: self._columns(sign).again(sign * right, left) for sign in self.guess.columns}
        nothing = Kept(torch.zeros(len(left), 0, dtype=torch.int64), torch.full((len(left),), -math.inf, dtype=torch.float64))
        return Scan(
            top_rows=rows.get(1),
            bottom_rows=rows.get(-1),
            top_columns=columns.get(1),
            bottom_columns=columns.get(-1),
            above=self.above if self.wants.own_ranks else None,
            near=nothing if self.wants.own_ranks else None,
        )

    def _columns(self, sign: int) -> _Lines:
        parts, (left, right) = [one[sign] for one in self.columns], self.factors
        with ThreadPoolExecutor(len(parts)) as pool:
            finished = [pool.submit(sweep().finish, best, right, left, float(sign)) for best in parts]
        for one in finished:
            one.result()
        return _Lines.joined(parts, self.wants.top_columns if sign > 0 else self.wants.bottom_columns)


def _bits(wants: Wants) -> int:
    """What the innermost loop is asked."""
    asked = (wants.top_rows, wants.bottom_rows, wants.own_ranks, wants.top_columns, wants.bottom_columns)
    return sum(1 << place for place, one in enumerate(asked) if one)
