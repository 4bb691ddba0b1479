"""What is found in a large matrix: single entries, and a few entries of every line."""

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
        lines = [
            f"{row:3}   {column:6}   {value:5.4g}"
            for row, column, value in zip(self.rows.tolist(), self.columns.tolist(), self.values.tolist(), strict=True)
        ]
        return "\n".join(["row   column   value", *lines])

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
