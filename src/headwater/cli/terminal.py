"""What verbs share: results on stdout, progress and warnings on stderr, and the number of threads."""

import json
import os
import re
import sys
from collections.abc import Callable, Generator, Sequence
from contextlib import contextmanager
from typing import Any

from rich.console import Console
from rich.table import Table
from rich.text import Text


def show_json(value: Any) -> None:
    """One JSON document on stdout."""
    sys.stdout.write(json.dumps(value, ensure_ascii=False, indent=2, allow_nan=False) + "\n")


def show_table(columns: Sequence[str], rows: Sequence[Sequence[str]], *, title: str | None = None) -> None:
    """A table for people on stdout; columns whose names end in ``#`` are numbers and stand to the right."""
    table = Table(title=title, title_justify="left", title_style="bold", box=None, pad_edge=False, padding=(0, 3, 0, 0))
    table.show_header = any(columns)
    for column in columns:
        is_number = column.endswith("#")
        table.add_column(
            column.rstrip("#"),
            justify="right" if is_number else "left",
            header_style="dim",
            overflow="fold",
            # A number that is folded is another number.
            min_width=max((len(row[len(table.columns)]) for row in rows), default=0) if is_number else None,
        )
    for row in rows:
        # As text and not as markup: a tensor or token may be called [bold].
        table.add_row(*map(Text, row))
    # Whoever reads a pipe has no width of their own.
    Console(highlight=False, width=None if sys.stdout.isatty() else 200).print(table)


@contextmanager
def working(message: str) -> Generator[None]:
    """A sign of life on stderr while something takes its time; nothing where nobody watches."""
    with Console(stderr=True).status(message):
        yield


@contextmanager
def watched(what: str) -> Generator[Callable[[str, float], None]]:
    """A bar on stderr, told what is going on and the share that is done; gone afterwards, so that it does not stand between tables."""
    from rich.progress import Progress

    with Progress(console=Console(stderr=True), transient=True) as bars:
        task = bars.add_task(what, total=1.0)
        yield lambda name, share: bars.update(task, description=name, completed=share)


def note(message: str) -> None:
    """One line on stderr: what is going on, or a warning."""
    Console(stderr=True, highlight=False).print(message, markup=False, style="dim", soft_wrap=True)


def use_cores() -> None:
    """Give torch one thread for each core that this process may use, or ``HEADWATER_THREADS`` of them.

    Left alone, torch counts the machine's cores even where a container or a scheduler grants fewer, and slows down.
    """
    import torch

    granted = len(os.sched_getaffinity(0)) if hasattr(os, "sched_getaffinity") else os.cpu_count() or 1
    wanted = os.environ.get("HEADWATER_THREADS", "")
    torch.set_num_threads(min(int(wanted), 1024) if re.fullmatch("[1-9][0-9]{0,8}", wanted) else granted)
