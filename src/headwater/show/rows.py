"""A tree as rows, one for each number, and how texts and numbers are written so that they are what they seem."""

import math
from collections.abc import Iterable, Iterator
from dataclasses import dataclass

from headwater.letters import visible
from headwater.show.values import Branch, Tree

ISOLATES = "\u2068\u2069"
"""What stands around words that are read from the right, so that nothing beside them turns."""


def legible(text: str) -> str:
    """A text in which everything can be seen: control characters by their pictures, other invisible ones by number.

    Nothing in it breaks a line, rings a bell, turns what stands beside it, or is forbidden in XML.

    >>> legible("a\\n\\x1b[1m\\u202eb")
    'a␊␛[1m<U+202E>b'
    """
    return "".join(letter if letter in ISOLATES else visible(letter) for letter in text)


@dataclass(frozen=True, kw_only=True)
class Row:
    """One number of a tree, where it stands in it, and how much follows."""

    branch: Branch
    lasts: tuple[bool, ...]
    """For each level from below the root down to this row: whether it is the last one there. As many as the row is deep."""

    @property
    def is_open(self) -> bool:
        """Whether its parts are the rows that follow."""
        return bool(self.branch.branches)

    @property
    def label(self) -> str:
        """What it is, legibly."""
        return legible(self.branch.label)

    @property
    def note(self) -> str:
        """What is said beside the number, legibly."""
        return legible(self.branch.note)

    @property
    def depth(self) -> int:
        """How many numbers it is a part of."""
        return len(self.lasts)


def rows_of(tree: Tree) -> list[Row]:
    """The rows of a tree from the top."""
    return list(_rows(tree.root, ()))


def _rows(branch: Branch, lasts: tuple[bool, ...]) -> Iterator[Row]:
    yield Row(branch=branch, lasts=lasts)
    for number, inner in enumerate(branch.branches, 1):
        yield from _rows(inner, (*lasts, number == len(branch.branches)))


@dataclass(frozen=True)
class Measure:
    """How numbers that are compared are written and how long their bars are: ``reach`` is the largest of their sizes.

    >>> measure = Measure(3.2)
    >>> measure.number(-1.6), measure.share(-1.6), measure.number(-0.001)
    ('-1.60', -0.5, '+0.00')
    """

    reach: float

    @classmethod
    def of(cls, values: Iterable[float]) -> "Measure":
        """That of some numbers; infinities and what is no number have no say."""
        return cls(max((abs(value) for value in values if math.isfinite(value)), default=0.0))

    def share(self, value: float) -> float:
        """How far from zero the bar ends, from -1 to 1; what is written as zero has none."""
        if not self.reach or not math.isfinite(value) or float(self.number(value)) == 0:
            return 0.0
        return value / self.reach

    def number(self, value: float) -> str:
        """With its sign, and with as many places as show three digits of the largest, at least two."""
        size = math.floor(math.log10(self.reach)) if self.reach else 0
        return f"{value:+z.2e}" if not -4 <= size <= 6 else f"{value:+z.{max(2, 2 - size)}f}"
