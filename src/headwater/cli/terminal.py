"""What verbs share: results on stdout, progress and warnings on stderr, and the number of threads."""

import json
import os
import re
import sys
from collections.abc import Callable, Generator, Sequence
from contextlib import contextmanager
from typing import Annotated, Any, TypeAlias

from cyclopts import Parameter, Token
from rich.console import Console
from rich.text import Text

from headwater.show.text import table_of

PIPED = 200
"""The width for whoever reads a pipe and has none of their own."""


def _whole(_: Any, tokens: Sequence[Token]) -> int:
    try:
        return int(tokens[0].value)
    except ValueError:
        raise ValueError(f"{tokens[0].value!r:.40} is no whole number") from None


WHOLE = Parameter(converter=_whole)
"""A whole number; left alone, 1.5 would be taken for 2."""
Whole: TypeAlias = Annotated[int, WHOLE]
Flag: TypeAlias = Annotated[bool, Parameter(negative="")]
"""An option that is there or is not: no other option takes it back."""


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
    table, width = table_of(columns, rows, screen.width)
    screen.width = max(screen.width, width)
    screen.print(table)


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
