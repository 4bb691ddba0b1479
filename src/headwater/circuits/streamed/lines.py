"""What is found in a large matrix: single entries, and a few entries of every line."""

import math
from collections.abc import Iterator, Sequence
from dataclasses import dataclass, replace

import torch
from jaxtyping import Float, Int
from torch import Tensor

from headwater.circuits.algebra import scaled
from headwater.errors import InputError


@dataclass(frozen=True, eq=False)
class Entries:
    """Some entries, the first ones first. Iterating gives ``(row, column, value)``."""

    rows: Int[Tensor, " entry"]
    columns: Int[Tensor, " entry"]
    values: Float[Tensor, " entry"]
    """In float64."""
    row_names: Sequence[str] = ()
    column_names: Sequence[str] = ()
    """What ids are called where they are printed; nothing: by their numbers."""

    def __len__(self) -> int:
        return len(self.values)

    def __iter__(self) -> Iterator[tuple[int, int, float]]:
        yield from zip(map(int, self.rows), map(int, self.columns), map(float, self.values), strict=True)

    def __repr__(self) -> str:
        rows = ["row", *(_name(row, self.row_names) for row, _, _ in self)]
        columns = ["column", *(_name(column, self.column_names) for _, column, _ in self)]
        values = ["value", *(f"{value:.4g}" for _, _, value in self)]
        first, second = (max(map(len, words)) for words in (rows, columns))
        lines = (
            f"{row:>{first}}   {column:>{second}}   {value}" for row, column, value in zip(rows, columns, values, strict=True)
        )
        return "\n".join(lines)

    def some(self, numbers: Sequence[int]) -> "Entries":
        """Only these, by their places in the list."""
        chosen = torch.tensor(numbers, dtype=torch.long, device=self.rows.device)
        return replace(self, rows=self.rows[chosen], columns=self.columns[chosen], values=self.values[chosen])

    def scaled(self, power: int) -> "Entries":
        """All values times a power of two."""
        return replace(self, values=_scaled(self.values, power))

    def negated(self) -> "Entries":
        """The same places, the values with the other sign."""
        return replace(self, values=-self.values)


@dataclass(frozen=True, eq=False)
class Lines:
    """The first entries of every line: row ``i`` holds those of line ``i``, equal ones in the order of their ids."""

    ids: Int[Tensor, "line k"]
    values: Float[Tensor, "line k"]
    """In float64."""
    margin: float
    """The certificate: over all lines, the least distance between an entry that is listed and the most that any entry left out of
    the candidates can be. Above zero, or +∞ where every entry was looked at."""
    line_names: Sequence[str] = ()
    names: Sequence[str] = ()
    """What lines, and ids in them, are called where they are printed."""

    def __repr__(self) -> str:
        return f"Lines({self.ids.shape[0]:,} × {self.ids.shape[1]:,}, margin {self.margin:.2g})"

    def line(self, line: int) -> Entries:
        """The entries of one line."""
        if type(line) is not int or not 0 <= line < len(self.ids):
            raise InputError(f"line {line!r:.40}", f"a line from 0 to {len(self.ids) - 1:,}", "check the id")
        rows = torch.full_like(self.ids[line], line)
        return Entries(rows, self.ids[line], self.values[line], self.line_names, self.names)

    def scaled(self, power: int) -> "Lines":
        """All values times a power of two."""
        return replace(self, values=_scaled(self.values, power), margin=math.ldexp(self.margin, power))

    def negated(self) -> "Lines":
        """The same places, the values with the other sign."""
        return replace(self, values=-self.values)


def _scaled(values: Tensor, power: int) -> Tensor:
    found = scaled(values, power)
    if not bool(found.isfinite().all()):
        raise InputError("factors whose products are infinite", "entries that float64 has room for", "look at the weights")
    return found


def _name(number: int, names: Sequence[str]) -> str:
    return repr(names[number]) if names else str(number)
