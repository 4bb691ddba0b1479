"""``Found``: rows of an atlas, to be read, drawn, or handed to another library."""

import math
from collections.abc import Callable, Iterator, Mapping
from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Any, TypeAlias, cast

import numpy as np
from numpy.typing import NDArray

from headwater.atlas.words import Words
from headwater.errors import InputError
from headwater.show.text import written
from headwater.show.values import Table
from headwater.show.widgets import Displayed, Drawing

if TYPE_CHECKING:
    from duckdb import DuckDBPyRelation

FORMATS = {"attention": ".3f", "measured_attention": ".3f", "share": ".2g"}
NUMBER = "+z.4g"
ROWS = 1_000
"""Of a table that a notebook gets at once; the others when somebody scrolls there."""
Page: TypeAlias = Callable[[str | None, int, int], "Found"]
"""Other rows of the same question: sorted by a column (None: as before), after so many, at most so many."""


@dataclass(frozen=True, eq=False, kw_only=True, repr=False)
class Found(Displayed):
    """A table: rows of an atlas in some order, perhaps a page of more."""

    title: str
    columns: Mapping[str, NDArray[Any]]
    """Ids and numbers as they are stored; heads by their names."""
    words: Words
    total: int
    """How many rows there are, of which these are a page."""
    offset: int = 0
    """How many stand before the first of these."""
    remarks: tuple[str, ...] = ()
    """What is left out, above all."""
    beyond: tuple[float, float] | None = None
    """Of a search: every row with a lift above the first, or below the second, is listed; None where that is not known."""
    facts: Mapping[str, Any] = field(default_factory=dict[str, Any])
    """For programs: what was asked for."""
    again: Page | None = None
    """Who has the rows that are not on this page."""
    sorts: tuple[str, ...] = ()
    """By which columns it can be asked again."""
    limits: Mapping[str, Any] = field(default_factory=dict[str, Any])
    """The numbers of the remarks, for whoever says them in another language."""

    def __len__(self) -> int:
        return len(next(iter(self.columns.values())))

    def __repr__(self) -> str:
        return f"Found({self.title}, {len(self):,} of {self.total:,} rows)"

    def __iter__(self) -> Iterator[dict[str, Any]]:
        return iter(self.rows)

    @property
    def rows(self) -> tuple[dict[str, Any], ...]:
        """For programs: texts exactly (None where a token has none), ids beside them as ``source_id``; None for what is unknown."""
        whole = {name: _values(column) for name, column in self._arrays().items()}
        return tuple(dict(zip(whole, row, strict=True)) for row in zip(*whole.values(), strict=True))

    def plain(self) -> dict[str, Any]:
        """For programs: dictionaries, lists, numbers, texts."""
        page = {"total": self.total, "offset": self.offset, "remarks": list(self.remarks)}
        return {**self.facts, **page, "rows": list(self.rows)}

    def table(self) -> Table:
        """For people."""
        shown = {name: self._shown(name, column) for name, column in self.columns.items()}
        # Of what is known of none of these rows, nothing is to be read.
        kept = [name for name, cells in shown.items() if any(cells) or not cells]
        names = (name if is_token(self.columns[name]) or self.columns[name].dtype == object else f"{name}#" for name in kept)
        return Table(title=self.title, columns=tuple(names), rows=tuple(zip(*(shown[name] for name in kept), strict=True)))

    def __str__(self) -> str:
        return "\n".join([written(self.table()), "", *self.notes()]).rstrip()

    def _repr_html_(self) -> str:
        from headwater.show.html import fragment

        return fragment(self.table(), remarks=self.notes())

    def drawing(self) -> Drawing:
        """For notebooks: the rows of this page, and the others when they are asked for."""
        return Drawing(kind="table", data=self.page(0, ROWS), answer=self.answer)

    def page(self, first: int, count: int) -> dict[str, Any]:
        """Some of these rows as lists, each column with its name, what it holds and how its numbers are written; a token is its text and its id."""
        shown = [column for column in self.table().columns if column]
        names = [name.removesuffix("#") for name in shown]
        cells = [self._cells(self.columns[name][first : first + count]) for name in names]
        columns = [{"name": name, "sorts": name in self.sorts, **self._kind(name)} for name in names]
        return {
            "title": self.title,
            "columns": columns,
            "rows": [list(row) for row in zip(*cells, strict=True)],
            "total": self.total,
            "offset": self.offset + first,
            "start": self.offset,
            "has_more": self.again is not None,
            "sort": self.facts.get("query", {}).get("sort"),
            "remarks": list(self.remarks),
            "limits": dict(self.limits),
            "beyond": self.beyond,
            "sign": self.facts.get("query", {}).get("sign"),
        }

    def answer(self, request: Mapping[str, Any]) -> dict[str, Any]:
        """For notebooks: ``{"ask": "page", "sort": …, "offset": …, "limit": …}``."""
        sort, offset, limit = request.get("sort"), request.get("offset"), request.get("limit")
        is_asked = request.get("ask") == "page" and (sort is None or isinstance(sort, str))
        if not is_asked or not isinstance(offset, int) or not isinstance(limit, int) or offset < 0 or limit < 0:
            raise InputError(f"the question {dict(request)!r:.80}", "a page: sort, offset, limit", "ask in Python")
        limit = min(limit, ROWS)
        if self.again is None or (sort is None and self.offset <= offset and offset + limit <= self.offset + len(self)):
            return self.page(max(0, offset - self.offset), limit)
        return self.again(sort, offset, limit).page(0, limit)

    def _cells(self, column: NDArray[Any]) -> list[Any]:
        values = _values(column)
        return [[self.words.texts[token], token] for token in values] if is_token(column) else values

    def _kind(self, name: str) -> dict[str, Any]:
        column = self.columns[name]
        if is_token(column):
            return {"kind": "token", "form": None}
        if column.dtype == object:
            return {"kind": "text", "form": None}
        return {"kind": "number", "form": FORMATS.get(name, NUMBER) if column.dtype.kind == "f" else ","}

    def notes(self) -> tuple[str, ...]:
        """What is said below the table: which page it is, and the remarks."""
        first, last = self.offset + 1, self.offset + len(self)
        page = () if len(self) == self.total else (f"rows {first:,} to {last:,} of {self.total:,}" if len(self) else "no rows",)
        return (*page, *self.remarks)

    def relation(self) -> "DuckDBPyRelation":
        """A DuckDB relation with the columns of ``rows``, in a database of its own."""
        import duckdb

        database = duckdb.connect(":memory:")
        database.register("found", self._arrays())
        return database.sql("SELECT * FROM found")

    def pandas(self) -> Any:
        """A pandas data frame with the columns of ``rows``."""
        _need("pandas")
        return self.relation().df()

    def polars(self) -> Any:
        """A polars data frame with the columns of ``rows``."""
        _need("polars", "pyarrow")
        return self.relation().pl()

    def arrow(self) -> Any:
        """An Arrow table with the columns of ``rows``."""
        _need("pyarrow")
        return self.relation().to_arrow_table()

    def _arrays(self) -> dict[str, NDArray[Any]]:
        """The columns of ``rows``: texts are objects."""
        ids = {name: column for name, column in self.columns.items() if is_token(column)}
        texts = {name: np.array(self.words.texts, object)[column] for name, column in ids.items()}
        return {**self.columns, **texts, **{f"{name}_id": column for name, column in ids.items()}}

    def _shown(self, name: str, column: NDArray[Any]) -> list[str]:
        values = _values(column)
        if is_token(column):
            return [self.words(token) for token in values]
        if column.dtype.kind == "f":
            kind = FORMATS.get(name, NUMBER)
            return ["" if value is None else format(value, kind) for value in values]
        return ["" if value is None else value if isinstance(value, str) else f"{value:,}" for value in values]


def is_token(column: NDArray[Any]) -> bool:
    """Whether a column's numbers stand for tokens: in an atlas, those that are uint32 do and no others."""
    return column.dtype == np.uint32


def _values(column: NDArray[Any]) -> list[Any]:
    """As Python has them, None for what is NULL or no number."""
    values = cast(list[Any], column.tolist())
    return [None if isinstance(value, float) and not math.isfinite(value) else value for value in values]


def _need(*libraries: str) -> None:
    import importlib.util

    missing = [library for library in libraries if importlib.util.find_spec(library) is None]
    if missing:
        names = " and ".join(missing)
        raise InputError(f"no {names} here", f"{names}, which Headwater can do without", f"pip install {' '.join(missing)}")
