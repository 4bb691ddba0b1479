"""What a table of the report says: rows for people, and numbers against goals."""

import math
from dataclasses import dataclass, field
from typing import Any


@dataclass(frozen=True, kw_only=True)
class Goal:
    """A number that was measured, and what it is held against."""

    name: str
    measured: float | None
    """None: what it is measured beside is not installed."""
    goal: float | None = None
    """None: it is there to read the others by."""
    at_most: bool = False
    unit: str = "×"
    limit: float | None = None
    """What it would be if only the products were counted that it cannot do without, as fast as the machine does them, measured in the same run."""
    why: str = ""
    """The job that says where the time goes, asked when the goal is missed."""
    because: str = ""
    """What keeps it from its goal, in words; told when the goal is missed."""

    @property
    def met(self) -> bool | None:
        """None where nothing was measured or nothing is asked."""
        if self.measured is None or self.goal is None:
            return None
        return self.measured <= self.goal if self.at_most else self.measured >= self.goal

    def plain(self) -> dict[str, Any]:
        """For programs."""
        kept = {"name": self.name, "measured": self.measured, "unit": self.unit, "goal": self.goal, "at_most": self.at_most}
        because = self.because if self.met is False else ""
        return {**kept, "limit": self.limit, "met": self.met, "because": because}


@dataclass(frozen=True)
class Table:
    """One table: rows, the first of which is the head, goals, and what was left out."""

    rows: list[list[str]]
    goals: list[Goal]
    notes: list[str] = field(default_factory=list[str])


def at_least(name: str, measured: float, goal: float, *, limit: float = math.nan, **more: Any) -> Goal:
    """A number that should be large."""
    return Goal(name=name, measured=_known(measured), goal=goal, limit=_known(limit), **more)


def at_most(name: str, measured: float, goal: float, *, limit: float = math.nan, **more: Any) -> Goal:
    """A number that should be small."""
    return Goal(name=name, measured=_known(measured), goal=goal, at_most=True, limit=_known(limit), **more)


def beside(name: str, measured: float, *, unit: str = "×") -> Goal:
    """A number to read the others by."""
    return Goal(name=name, measured=_known(measured), unit=unit)


def shown(value: float, digits: int = 2) -> str:
    """A number in a row; nothing where there is none.

    >>> shown(1234.5, 0), shown(math.nan)
    ('1,234', '')
    """
    return "" if math.isnan(value) else f"{value:,.{digits}f}"


def _known(value: float) -> float | None:
    """To four digits.

    >>> _known(1.23456), _known(math.nan)
    (1.235, None)
    """
    return None if math.isnan(value) else float(f"{value:.4g}")
