"""Arrows of a diagram as points: curves that leave and arrive at right angles, and ways around with round corners. In inches."""

import itertools
import math
from collections.abc import Sequence
from dataclasses import dataclass
from typing import TypeAlias

from headwater.show.diagram_values import Side

Point: TypeAlias = tuple[float, float]
NORMALS: dict[Side, Point] = {"left": (-1, 0), "right": (1, 0), "top": (0, -1), "bottom": (0, 1)}
STEPS = 48
"""Points of a curve."""
STRAIGHT = 0.11
"""Before an arrow's tip."""


@dataclass(frozen=True)
class Rectangle:
    """Left, top, right and bottom; what is below is larger."""

    left: float
    top: float
    right: float
    bottom: float

    @classmethod
    def around(cls, middle: Point, width: float, height: float) -> "Rectangle":
        """The one with this middle."""
        x, y = middle
        return cls(x - width / 2, y - height / 2, x + width / 2, y + height / 2)

    @property
    def middle(self) -> Point:
        """Its centre."""
        return (self.left + self.right) / 2, (self.top + self.bottom) / 2

    def grown(self, by: float) -> "Rectangle":
        """With this much more on every side."""
        return Rectangle(self.left - by, self.top - by, self.right + by, self.bottom + by)

    def side(self, side: Side) -> Point:
        """The middle of a side."""
        x, y = self.middle
        return {"left": (self.left, y), "right": (self.right, y), "top": (x, self.top), "bottom": (x, self.bottom)}[side]

    def has(self, point: Point) -> bool:
        """Whether a point lies inside."""
        return self.left < point[0] < self.right and self.top < point[1] < self.bottom

    def meets(self, other: "Rectangle") -> bool:
        """Whether the two share any inside."""
        across = self.left < other.right and other.left < self.right
        return across and self.top < other.bottom and other.top < self.bottom


def curve(start: Point, end: Point, leaves: Side, arrives: Side) -> list[Point]:
    """One bend or two, leaving and arriving at right angles; the last piece is straight, so that the arrow's head is."""
    tip, end = end, _ahead(end, arrives, STRAIGHT)
    apart = abs(end[0] - start[0]), abs(end[1] - start[1])
    turns = NORMALS[leaves][0] == 0, NORMALS[arrives][0] == 0
    share = 0.5 if turns[0] == turns[1] else 0.75
    first, last = (_ahead(p, s, share * apart[turn]) for p, s, turn in zip((start, end), (leaves, arrives), turns, strict=True))
    shares = [step / STEPS for step in range(STEPS + 1)]
    xs, ys = zip(start, first, last, end, strict=True)
    return [*((_cubic(t, xs), _cubic(t, ys)) for t in shares), tip]


def _ahead(point: Point, side: Side, by: float) -> Point:
    across, down = NORMALS[side]
    return point[0] + across * by, point[1] + down * by


def _cubic(t: float, knots: Sequence[float]) -> float:
    u = 1 - t
    return u**3 * knots[0] + 3 * u * u * t * knots[1] + 3 * u * t * t * knots[2] + t**3 * knots[3]


def rounded(corners: list[Point], radius: float = 0.16) -> list[Point]:
    """Straight pieces with round corners, in steps of equal length so that half of the points is half of the way."""
    fine: list[Point] = [corners[0]]
    for before, corner, after in zip(corners, corners[1:], corners[2:], strict=False):
        start, end = _towards(corner, before, radius), _towards(corner, after, radius)
        fine += [start, *((_bend(t / 8, start, corner, end)) for t in range(1, 8)), end]
    fine.append(corners[-1])
    return _even(fine)


def _bend(t: float, start: Point, corner: Point, end: Point) -> Point:
    u = 1 - t
    return u * u * start[0] + 2 * u * t * corner[0] + t * t * end[0], u * u * start[1] + 2 * u * t * corner[1] + t * t * end[1]


def _towards(here: Point, there: Point, by: float) -> Point:
    length = math.dist(here, there)
    share = min(by, length / 2) / length if length else 0.0
    return here[0] + share * (there[0] - here[0]), here[1] + share * (there[1] - here[1])


def _even(points: list[Point], step: float = 0.03) -> list[Point]:
    fine: list[Point] = []
    for here, there in itertools.pairwise(points):
        count = max(1, round(math.dist(here, there) / step))
        fine += [(here[0] + n / count * (there[0] - here[0]), here[1] + n / count * (there[1] - here[1])) for n in range(count)]
    return [*fine, points[-1]]
