"""A tree as a drawing: labels indented by depth, signed bars around one zero line, numbers and notes in columns."""

import textwrap
import unicodedata
from dataclasses import dataclass
from typing import Any

from headwater.show.rows import Measure, Row, legible, rows_of
from headwater.show.values import Tree

PLUS, MINUS = "#2f86d0", "#d9601a"
"""Close to Okabe and Ito's blue and vermilion, which most people can tell apart; of a lightness that shows on white and on black."""
GREY, FAINT = "#808080", "#80808066"
SIZE, SMALL, LARGE = 9.0, 8.0, 10.5
"""Of letters, in points: in rows, of what is said beside and below, and of the title."""
LINE, INDENT, GAP, EDGE = 0.215, 0.2, 0.16, 0.15
"""In inches: the height of a row, a level's indent, and the space between columns and around all."""
BARS, LEAST = 2.6, 6.4
MOST_OF_A_LABEL, MOST_OF_A_NOTE = 80, 100
"""Letters; the middle of what is longer is left out of a drawing."""


@dataclass(frozen=True)
class Layout:
    """Where everything stands, in inches from the left and the top."""

    rows: list[Row]
    measure: Measure
    labels: list[str]
    notes: list[str]
    title: list[str]
    remarks: list[str]
    zero: float
    numbers: float
    """The right end of the column of numbers."""
    width: float
    top: float
    """The middle of the first row."""
    height: float


def layout(tree: Tree) -> Layout:
    """How large a drawing of the tree is and where its columns stand."""
    rows = rows_of(tree)
    measure = Measure.of(row.branch.value for row in rows)
    labels = [_short(row.label, MOST_OF_A_LABEL) for row in rows]
    notes = [_short(row.note, MOST_OF_A_NOTE) for row in rows]
    weights = ("normal" if row.depth else "bold" for row in rows)
    label = max(row.depth * INDENT + _length(text, weight) for row, text, weight in zip(rows, labels, weights, strict=True))
    number = max(_length(measure.number(row.branch.value), weight="bold") for row in rows)
    zero = EDGE + label + GAP + BARS / 2
    numbers = zero + BARS / 2 + GAP + number
    width = max(LEAST, numbers + GAP + max(map(_length, notes)) + EDGE)
    title = _fold(tree.title, width - 2 * EDGE, LARGE)
    remarks = [line for remark in tree.remarks for line in _fold(remark, width - 2 * EDGE, SMALL)]
    top = EDGE + LINE * (1.25 * len(title) + 0.75)
    height = top + LINE * (len(rows) + len(remarks)) + EDGE
    return Layout(rows, measure, labels, notes, title, remarks, zero, numbers, width, top, height)


def draw_tree(axes: Any, tree: Tree) -> None:
    """Draw the tree on axes as large as its layout."""
    plan = layout(tree)
    axes.set(xlim=(0, plan.width), ylim=(plan.height, 0))
    axes.set_axis_off()
    for number, line in enumerate(plan.title):
        _write(axes, EDGE, EDGE + LINE * (1.25 * number + 0.5), line, size=LARGE, weight="bold")
    last = plan.top + LINE * (len(plan.rows) - 1)
    axes.plot([plan.zero] * 2, [plan.top - 0.6 * LINE, last + 0.6 * LINE], color=GREY, linewidth=0.8, zorder=1)
    for number, row in enumerate(plan.rows):
        _draw_row(axes, plan, number, row)
    for number, line in enumerate(plan.remarks):
        _write(axes, EDGE, last + LINE * (number + 1.25), line, size=SMALL, color=GREY)


def _draw_row(axes: Any, plan: Layout, number: int, row: Row) -> None:
    middle = plan.top + LINE * number
    weight = "normal" if row.depth else "bold"
    look = {"color": GREY, "style": "italic"} if row.branch.kind == "remainder" else {}
    _write(axes, EDGE + row.depth * INDENT, middle, plan.labels[number], weight=weight, **look)
    _write(axes, plan.numbers, middle, plan.measure.number(row.branch.value).replace("-", "−"), weight=weight, ha="right")
    _write(axes, plan.numbers + GAP, middle, plan.notes[number], size=SMALL, color=GREY)
    _draw_guides(axes, row, middle)
    length = plan.measure.share(row.branch.value) * BARS / 2
    if length:
        axes.barh(middle, length, left=plan.zero, height=0.6 * LINE, zorder=2, **_look(row))


def _look(row: Row) -> dict[str, Any]:
    """Filled where a number ends, an outline where its parts follow, hatched where it is many small ones."""
    colour = PLUS if row.branch.value > 0 else MINUS
    if row.branch.kind == "remainder":
        return {"facecolor": "none", "edgecolor": colour, "hatch": "//////", "linewidth": 0.6}
    return {"facecolor": "none" if row.is_open else colour, "edgecolor": colour, "linewidth": 0.9}


def _draw_guides(axes: Any, row: Row, middle: float) -> None:
    """A branch from the row's parent to it, and past it to whatever follows."""
    for level, is_last in enumerate(row.lasts):
        x = EDGE + (level + 0.4) * INDENT
        is_own = level == row.depth - 1
        if is_own or not is_last:
            end = middle if is_last else middle + 0.5 * LINE
            axes.plot([x, x], [middle - 0.5 * LINE, end], color=FAINT, linewidth=0.7, zorder=0)
        if is_own:
            axes.plot([x, x + 0.4 * INDENT], [middle, middle], color=FAINT, linewidth=0.7, zorder=0)


def _write(axes: Any, x: float, y: float, text: str, **look: Any) -> None:
    # Dollar signs are dollar signs: no token is a formula.
    axes.text(x, y, text, va="center_baseline", parse_math=False, **{"size": SIZE, **look})


def _short(text: str, most: int) -> str:
    return text if len(text) <= most else f"{text[: most // 2]} … {text[-(most // 2) :]}"


def _fold(text: str, width: float, size: float) -> list[str]:
    """In lines that a text of ordinary letters fills."""
    return textwrap.wrap(legible(text), int(width * 72 / (0.68 * size)))


def _length(text: str, weight: str = "normal") -> float:
    """The room that a text takes, in inches; letters of the east, which our font lacks, count as two."""
    from matplotlib.font_manager import FontProperties
    from matplotlib.textpath import text_to_path

    known = "".join("oo" if unicodedata.east_asian_width(letter) in "WF" else letter for letter in text)
    font = FontProperties(size=SIZE, weight=weight)
    # In a png each letter is a whole number of pixels wide, and the words a little longer.
    return 1.03 * text_to_path.get_text_width_height_descent(known, font, ismath=False)[0] / 72
