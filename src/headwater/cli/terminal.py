"""What verbs share: results on stdout, progress and warnings on stderr, and the number of threads."""

import json
import os
import re
import sys
from collections.abc import Callable, Generator, Sequence
from contextlib import contextmanager
from typing import Any

from rich.cells import cell_len, chop_cells
from rich.console import Console
from rich.table import Table
from rich.text import Text

SHORT = 30
"""Columns up to this width never fold: names and numbers are not read across lines."""
PIPED = 200
"""The width for whoever reads a pipe and has none of their own."""
_QUOTED = "‘[^’]*’|“[^”]*”"
_PIECES = (re.compile(rf"\s*(?:{_QUOTED}|\S|\s(?!\s))+\s*"), re.compile(rf"\s*(?:{_QUOTED}|\S)+\s*"))
"""Where a text may fold: first at two spaces, then at one; never inside quotes."""


class Screen(Console):
    """A console that says when its reader has gone, rather than end the program with an exit code of its own."""

    def on_broken_pipe(self) -> None:
        """Leave it to whoever called."""
        raise BrokenPipeError


def show_json(value: Any) -> None:
    """One JSON document on stdout."""
    sys.stdout.write(json.dumps(value, ensure_ascii=False, indent=2, allow_nan=False) + "\n")


def say(line: str) -> None:
    """One line of the result on stdout."""
    Screen(highlight=False).print(line, markup=False, soft_wrap=True)


def show_table(columns: Sequence[str], rows: Sequence[Sequence[str]], *, title: str | None = None) -> None:
    """A table for people on stdout; columns whose names end in ``#`` are numbers and stand to the right.

    Only columns of long texts fold. Where that is not enough the table is wider than the terminal: nothing is left out.
    """
    screen = Screen(highlight=False, width=None if sys.stdout.isatty() else PIPED)
    if title:
        screen.print(Text(title, "bold"), soft_wrap=True)
    names = [column.removesuffix("#") for column in columns]
    widths, gap = _layout([(name, *cells) for name, *cells in zip(names, *rows, strict=True)], screen.width)
    table = Table(box=None, pad_edge=False, padding=(0, gap, 0, 0), show_header=any(columns))
    lines = max(name.count("\n") for name in names)
    for column, name, width in zip(columns, names, widths, strict=True):
        justify = "right" if column.endswith("#") else "left"
        # Names of one line stand next to their numbers.
        head = "\n" * (lines - name.count("\n")) + name
        table.add_column(head, justify=justify, header_style="dim", width=width, no_wrap=True)
    for row in rows:
        # As text and not as markup: a tensor or token may be called [bold].
        table.add_row(*(Text(folded(cell, width)) for cell, width in zip(row, widths, strict=True)))
    screen.width = max(screen.width, sum(widths) + gap * (len(widths) - 1))
    screen.print(table)


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


@contextmanager
def working(message: str) -> Generator[None]:
    """A sign of life on stderr while something takes its time; nothing where nobody watches."""
    if not sys.stderr.isatty():
        yield
        return
    with Screen(stderr=True).status(message):
        yield


@contextmanager
def watched(what: str) -> Generator[Callable[[str, float], None]]:
    """A bar on stderr, told what is going on and the share that is done; gone afterwards, so that it does not stand between tables."""
    from rich.progress import Progress

    with Progress(console=Screen(stderr=True), transient=True, disable=not sys.stderr.isatty()) as bars:
        task = bars.add_task(what, total=1.0)
        yield lambda name, share: bars.update(task, description=name, completed=share)


def note(message: str) -> None:
    """One line on stderr: what is going on, or a warning."""
    Screen(stderr=True, highlight=False).print(message, markup=False, style="dim", soft_wrap=True)


def use_cores() -> None:
    """Give torch ``HEADWATER_THREADS`` threads; without that ``OMP_NUM_THREADS``, as torch itself would; else one for each core.

    The cores counted are those that this process may use. Left alone, torch counts the machine's even where a container or a
    scheduler grants fewer, and slows down.
    """
    import torch

    granted = len(os.sched_getaffinity(0)) if hasattr(os, "sched_getaffinity") else os.cpu_count() or 1
    asked = (_threads(os.environ.get(name, "")) for name in ("HEADWATER_THREADS", "OMP_NUM_THREADS"))
    torch.set_num_threads(next(filter(None, asked), granted))


def _threads(wanted: str) -> int | None:
    """A number of threads as people write it; OpenMP's may go on with those of nested regions."""
    found = re.fullmatch(r"\s*([1-9][0-9]{0,8})\s*(,.*)?", wanted)
    return min(int(found[1]), 1024) if found else None
