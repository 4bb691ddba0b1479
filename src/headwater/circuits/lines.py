"""What is found in a large matrix: single entries, and a few entries of every line."""

from collections.abc import Iterator
from dataclasses import dataclass

from jaxtyping import Float, Int
from torch import Tensor


@dataclass(frozen=True, eq=False)
class Entries:
    """Some entries, the first ones first."""

    rows: Int[Tensor, " entry"]
    columns: Int[Tensor, " entry"]
    values: Float[Tensor, " entry"]
    """In float64."""

    def __len__(self) -> int:
        return len(self.values)

    def __repr__(self) -> str:
        return "\n".join(["   row   column   value", *(f"{row:6}   {column:6}   {value:.4g}" for row, column, value in self)])

    def __iter__(self) -> Iterator[tuple[int, int, float]]:
        yield from zip(map(int, self.rows), map(int, self.columns), map(float, self.values), strict=True)

    def negated(self) -> "Entries":
        """The same places, the values with the other sign."""
        return Entries(self.rows, self.columns, -self.values)


@dataclass(frozen=True, eq=False)
class Lines:
    """The first entries of every line: row ``i`` holds those of line ``i``, equal ones in the order of their ids."""

    ids: Int[Tensor, "line k"]
    values: Float[Tensor, "line k"]
    """In float64."""
    margin: float
    """The certificate: over all lines, the least distance between an entry that is listed and the most that any entry left out of
    the candidates can be. Above zero, or +∞ where every entry was looked at."""

    def negated(self) -> "Lines":
        """The same places, the values with the other sign."""
        return Lines(self.ids, -self.values, self.margin)
