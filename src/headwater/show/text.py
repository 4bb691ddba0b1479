"""Trees and tables as lines of text: columns and bars for people, in a terminal or wherever a value is printed."""

import io
import re
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from itertools import zip_longest

from rich.cells import cell_len, chop_cells, set_cell_size
from rich.console import Console
from rich.table import Table as Columns
from rich.text import Text

from headwater.show.rows import Measure, Row, legible, rows_of
from headwater.show.values import Table, Tree

SHORT = 30
"""Columns up to this width never fold: names and numbers are not read across lines."""
_QUOTED = "‘[^’]*’|“[^”]*”"
_PIECES = (re.compile(rf"\s*(?:{_QUOTED}|\S|\s(?!\s))+\s*"), re.compile(rf"\s*(?:{_QUOTED}|\S)+\s*"))
"""Where a text may fold: first at two spaces, then at one; never inside quotes."""
GAP = "  "
MOST, LEAST = 20, 6
"""Cells of a bar on either side of zero, where there is room and where there is not."""
LABEL, NOTE = 24, 16
"""Cells below which no column of labels or notes is squeezed: a tree is wider than the terminal rather than unreadable."""
SOLID, HOLLOW, HATCHED = "█▌▐", "━╸╺", "░░░"
"""A whole cell, and half of one for bars to the right and to the left: where a number ends, where its parts follow, and of a remainder."""
PLUS, MINUS = "color(32)", "color(166)"
"""Told apart by nearly everyone, on dark and on light; the side and the sign say the same."""
WIDE = 100
"""Letters in a line of a value that is printed."""


def written(*sections: Tree | Table, width: int = WIDE) -> str:
    """Values as plain text, one below the other.

    >>> print(written(Table(title="ages", columns=("name", "years#"), rows=(("one", "12"), ("two", "7")))))
    ages
    name   years
    one       12
    two        7
    """
    file = io.StringIO()
    screen = Console(file=file, highlight=False, width=width, color_system=None)
    for number, section in enumerate(sections):
        if section.title:
            screen.print(Text("\n" * bool(number) + legible(section.title.strip())), soft_wrap=True)
        if isinstance(section, Tree):
            for line in tree_lines(section, width):
                screen.print(line, soft_wrap=True)
        else:
            table, needed = table_of(section.columns, section.rows, width)
            screen.width = max(width, needed)
            screen.print(table)
    return "\n".join(line.rstrip() for line in file.getvalue().splitlines())


def tree_lines(tree: Tree, room: int) -> Iterator[Text]:
    """A tree's rows, then its remarks; what does not fit beside each other folds, nothing is left out."""
    rows = rows_of(tree)
    plan = _plan(rows, room)
    for row in rows:
        yield from _rows(row, plan)
    for number, remark in enumerate(tree.remarks):
        yield Text("\n" * (not number) + folded(legible(remark), room), "dim")


def table_of(columns: Sequence[str], rows: Sequence[Sequence[str]], room: int) -> tuple[Columns, int]:
    """A table, and the width that it needs: only columns of long texts fold, nothing is left out."""
    names = [column.removesuffix("#") for column in columns]
    widths, gap = _layout([(name, *cells) for name, *cells in zip(names, *rows, strict=True)], room)
    table = Columns(box=None, pad_edge=False, padding=(0, gap, 0, 0), show_header=any(columns))
    lines = max(name.count("\n") for name in names)
    for column, name, width in zip(columns, names, widths, strict=True):
        justify = "right" if column.endswith("#") else "left"
        # Names of one line stand next to their numbers.
        head = "\n" * (lines - name.count("\n")) + name
        table.add_column(head, justify=justify, header_style="dim", width=width, no_wrap=True)
    for row in rows:
        # As text and not as markup: a tensor or token may be called [bold].
        table.add_row(*(Text(folded(cell, width)) for cell, width in zip(row, widths, strict=True)))
    return table, sum(widths) + gap * (len(widths) - 1)


def _layout(columns: Sequence[Sequence[str]], room: int) -> tuple[list[int], int]:
    """Each column's width and the gap between them: as much as they need, else closer together, else with long ones folded."""
    whole = [max(cell_len(line) for cell in column for line in cell.split("\n")) for column in columns]
    heads = [max(cell_len(line) for line in column[0].split("\n")) for column in columns]
    tries = [(whole, 3), (whole, 2), *((_squeezed(whole, heads, room - gap * (len(whole) - 1)), gap) for gap in (3, 2))]
    return next((each for each in tries if sum(each[0]) + each[1] * (len(whole) - 1) <= room), tries[-1])


def _squeezed(widths: list[int], heads: list[int], room: int) -> list[int]:
    """Short columns as they are; long ones share the rest evenly, none of them below its header and what counts as short."""
    chosen = list(widths)
    long = sorted((number for number, width in enumerate(widths) if width > SHORT), key=lambda number: widths[number])
    left = room - sum(width for width in widths if width <= SHORT)
    for done, number in enumerate(long):
        chosen[number] = min(widths[number], max(left // (len(long) - done), heads[number], SHORT))
        left -= chosen[number]
    return chosen


def folded(text: str, width: int) -> str:
    """A text in lines of at most this width, where it may be folded at all: between words, and never inside quotes if it can be helped."""
    return "\n".join(line for whole in text.split("\n") for line in _lines(whole, width, _PIECES))


def _lines(text: str, width: int, pieces: tuple[re.Pattern[str], ...]) -> list[str]:
    """A text in lines of at most this width, folded at the first kind of pieces that are short enough."""
    if cell_len(text.rstrip()) <= width:
        return [text]
    if not pieces:
        return chop_cells(text, width)
    lines = [""]
    for piece in pieces[0].findall(text):
        if cell_len((lines[-1] + piece).rstrip()) <= width:
            lines[-1] += piece
        else:
            lines += _lines(piece, width, pieces[1:])
    return [line.rstrip() for line in lines if line]


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


def _rows(row: Row, plan: _Plan) -> Iterator[Text]:
    """A row, and below it whatever of its label and note had no room."""
    labels = folded(row.label, max(1, plan.label - 3 * row.depth)).split("\n")
    notes = folded(row.note, plan.note).split("\n") if row.note else []
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
