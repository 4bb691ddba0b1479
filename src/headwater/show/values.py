"""What answers are shown as: tables, trees, curves, clouds and grids; plain values, drawn elsewhere."""

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


@dataclass(frozen=True)
class Disc:
    """All complex numbers up to a size."""

    label: str
    radius: float


@dataclass(frozen=True, kw_only=True)
class Cloud:
    """Points of the complex plane, and the discs that they would fill by chance."""

    title: str
    points: tuple[complex, ...]
    discs: tuple[Disc, ...]


@dataclass(frozen=True, kw_only=True)
class Grid:
    """A number for each row and column, as colours: one for what is above ``middle``, another for what is below."""

    title: str
    rows: tuple[str, ...]
    columns: tuple[str, ...]
    values: tuple[tuple[float, ...], ...]
    x: str
    y: str
    middle: float
    reach: float
    """How far from the middle the strongest colours are: grids that are compared share it."""


@dataclass(frozen=True, kw_only=True)
class Branch:
    """One addend, and what it is made of: the values of its branches add up to its own."""

    label: str
    value: float
    note: str = ""
    """Said beside the number, for people."""
    kind: str = ""
    """What it is: head, source, neuron, bias, remainder …; colours and signs may go by it."""
    branches: tuple["Branch", ...] = ()


@dataclass(frozen=True, kw_only=True)
class Tree:
    """A number taken apart, and what is to be said about it below: the certificate above all."""

    title: str
    root: Branch
    remarks: tuple[str, ...] = ()


Section: TypeAlias = Tree | Table | Panel | Cloud | Grid
"""Anything that an answer is made of when it is shown."""


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
