"""A tree in the terminal: guide lines, labels, signed bars around one zero line, numbers in one column, notes."""

import sys
from collections.abc import Iterator
from dataclasses import dataclass
from itertools import zip_longest

from rich.cells import cell_len, set_cell_size
from rich.text import Text

from headwater.cli import terminal
from headwater.cli.terminal import Screen
from headwater.show.rows import Measure, Row, legible, rows_of
from headwater.show.values import Tree

GAP = "  "
MOST, LEAST = 20, 6
"""Cells of a bar on either side of zero, where there is room and where there is not."""
LABEL, NOTE = 24, 16
"""Cells below which no column of labels or notes is squeezed: a tree is wider than the terminal rather than unreadable."""
SOLID, HOLLOW, HATCHED = "█▌▐", "━╸╺", "░░░"
"""A whole cell, and half of one for bars to the right and to the left: where a number ends, where its parts follow, and of a remainder."""
PLUS, MINUS = "color(32)", "color(166)"
"""Told apart by nearly everyone, on dark and on light; the side and the sign say the same."""


def show_tree(tree: Tree, depth: int | None = None) -> None:
    """The tree on stdout, down to ``depth`` levels below its root; what does not fit beside each other folds, nothing is left out."""
    screen = Screen(highlight=False, width=None if sys.stdout.isatty() else terminal.PIPED)
    if tree.title:
        screen.print(Text(legible(tree.title), "bold"), soft_wrap=True)
    rows = rows_of(tree, depth)
    plan = _plan(rows, screen.width)
    for row in rows:
        for line in _lines(row, plan):
            screen.print(line, soft_wrap=True)
    for number, remark in enumerate(tree.remarks):
        screen.print(Text("\n" * (not number) + legible(remark), "dim"), soft_wrap=True)


@dataclass(frozen=True)
class _Plan:
    """How many cells each column has, and how long bars are."""

    measure: Measure
    label: int
    side: int
    number: int
    note: int


def _plan(rows: list[Row], room: int) -> _Plan:
    measure = Measure.of(row.branch.value for row in rows)
    label = max(3 * row.depth + cell_len(row.label) for row in rows)
    note = max(cell_len(row.note) for row in rows)
    number = max(len(measure.number(row.branch.value)) for row in rows)
    left = room - number - 2 * len(GAP) - (len(GAP) if note else 0)
    side = min(MOST, max(LEAST, (left - label - note - 1) // 2))
    left -= 2 * side + 1
    note = min(note, max(left - label, NOTE))
    return _Plan(measure, min(label, max(left - note, LABEL)), side, number, note)


def _lines(row: Row, plan: _Plan) -> Iterator[Text]:
    """A row, and below it whatever of its label and note had no room."""
    labels = terminal.folded(row.label, max(1, plan.label - 3 * row.depth)).split("\n")
    notes = terminal.folded(row.note, plan.note).split("\n") if row.note else []
    is_remainder = row.branch.kind == "remainder"
    for number, (label, note) in enumerate(zip_longest(labels, notes, fillvalue="")):
        line = Text()
        guide = _guide(row, is_first=not number)
        line.append(guide, "dim")
        name = set_cell_size(label, max(cell_len(label), plan.label - len(guide)))
        line.append(name, "dim italic" if is_remainder else "" if row.depth else "bold").append(GAP)
        line.append_text(_bar(row, plan) if not number else _axis(plan.side))
        shown = plan.measure.number(row.branch.value) if not number else ""
        line.append(GAP + shown.rjust(plan.number), "" if row.depth else "bold")
        line.append(GAP + note, "dim")
        line.rstrip()
        yield line


def _guide(row: Row, *, is_first: bool) -> str:
    """The lines that lead from a row to its parent and past it."""
    if not row.lasts:
        return ""
    past = "".join("   " if is_last else "│  " for is_last in row.lasts[:-1])
    own = ("└─ " if row.lasts[-1] else "├─ ") if is_first else ("   " if row.lasts[-1] else "│  ")
    return past + own


def _bar(row: Row, plan: _Plan) -> Text:
    share = plan.measure.share(row.branch.value)
    whole, right, left = HATCHED if row.branch.kind == "remainder" else HOLLOW if row.is_open else SOLID
    # At least half a cell: a number that is there is seen.
    halves = max(1, round(2 * plan.side * abs(share))) if share else 0
    full, half = whole * (halves // 2), halves % 2
    bar = (full + right * half).ljust(plan.side) if share > 0 else (left * half + full).rjust(plan.side)
    empty = " " * plan.side
    if share > 0:
        return Text.assemble(empty, ("│", "dim"), (bar, PLUS))
    return Text.assemble((bar, MINUS), ("│", "dim"), empty)


def _axis(side: int) -> Text:
    return Text.assemble(" " * side, ("│", "dim"), " " * side)
