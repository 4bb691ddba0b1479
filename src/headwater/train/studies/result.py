"""What every study hands back: tables for people, plain data for programs, curves for a plot."""

from collections.abc import Callable
from dataclasses import dataclass
from typing import Any, Literal, Protocol, TypeAlias

Progress: TypeAlias = Callable[[str, float], None]
"""Told what is going on and the share that is done, from 0 to 1."""


def silent(what: str, share: float) -> None:
    """Progress that nobody watches."""
    del what, share


@dataclass(frozen=True, kw_only=True)
class Table:
    """Words in rows; columns whose names end in ``#`` are numbers."""

    title: str
    columns: tuple[str, ...]
    rows: tuple[tuple[str, ...], ...]


@dataclass(frozen=True, kw_only=True)
class Line:
    """One curve: what was ``measured``, or a ``bound`` to hold it against."""

    label: str
    x: tuple[float, ...]
    y: tuple[float, ...]
    kind: Literal["measured", "bound"] = "measured"


Scale: TypeAlias = Literal["linear", "log"]


@dataclass(frozen=True, kw_only=True)
class Panel:
    """Curves over common axes, named by what they show and in which unit."""

    title: str
    x: str
    y: str
    lines: tuple[Line, ...]
    x_scale: Scale = "linear"
    y_scale: Scale = "linear"


class Result(Protocol):
    """A study's outcome: a frozen value."""

    def tables(self) -> tuple[Table, ...]:
        """For people."""
        ...

    def plain(self) -> dict[str, Any]:
        """For programs: dictionaries, lists, numbers, texts; no NaN and no infinity."""
        ...

    def curves(self) -> tuple[Panel, ...]:
        """For a plot, one panel beside the other."""
        ...
