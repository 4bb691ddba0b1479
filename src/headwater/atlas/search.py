"""Joined rows by their tokens and heads, in an order that was asked for.

Patterns become ids first. The rows are stored three times, sorted by source, by dest and by out: the copy is read in which fewest ids are
asked for, and of that only parts and row groups that can hold one of them.
"""

import re
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace
from functools import cached_property
from typing import TYPE_CHECKING, Any, Literal, TypeAlias

import numpy as np
from numpy.typing import NDArray

from headwater.atlas.found import Found
from headwater.atlas.patterns import Pattern, written_pattern
from headwater.errors import InputError, did_you_mean
from headwater.files.tables import arrays, damaged_if_refused, parquet

if TYPE_CHECKING:
    from duckdb import DuckDBPyConnection

    from headwater.atlas.atlas import Atlas

Slot: TypeAlias = Literal["source", "dest", "out"]
Sign: TypeAlias = Literal["both", "raising", "lowering"]
SLOTS: tuple[Slot, ...] = ("source", "dest", "out")
STORED = ("lift", "score", "output", "attention")
EVIDENCE = ("chances", "occurs", "fires", "expected", "measured", "nats")
"""What a text adds to a row, where the atlas was built with one."""
SIGNS: dict[Sign, str | None] = {"both": None, "raising": "lift > 0", "lowering": "lift < 0"}
MOST_ROWS = 1_000_000
MOST_BOUNDS = 4_096
"""Sources times heads whose bounds are looked up to say what is left out."""
KEYS = "head, source, dest, out"


@dataclass(frozen=True, kw_only=True)
class Query:
    """What is looked for. None is anything."""

    source: Pattern | None = None
    dest: Pattern | None = None
    out: Pattern | None = None
    head: str | Sequence[str] | None = None
    """A head (``L0H3``), a layer (``L0``), or several of them."""
    sort: str = "lift"
    """A column, the largest first; with a minus before it the smallest."""
    sign: Sign = "both"
    limit: int = 50
    offset: int = 0

    def __post_init__(self) -> None:
        if (
            type(self.limit) is not int
            or type(self.offset) is not int
            or not 0 <= self.limit <= MOST_ROWS
            or not 0 <= self.offset < 2**40
        ):
            given = f"a limit of {self.limit} rows after {self.offset}"
            raise InputError(
                given, f"a limit from 0 to {MOST_ROWS:,} and an offset from 0 on", "ask for one page after the other"
            )
        if self.sign not in SIGNS:
            raise InputError(f"the sign {self.sign!r:.40}", f"one of {', '.join(SIGNS)}", did_you_mean(self.sign, SIGNS))

    @property
    def patterns(self) -> dict[Slot, Pattern]:
        """What is asked of each slot."""
        asked = {"source": self.source, "dest": self.dest, "out": self.out}
        return {slot: pattern for slot in SLOTS if (pattern := asked[slot]) is not None}

    def plain(self) -> dict[str, Any]:
        """For programs: patterns as they are written on the command line."""
        asked = {slot: written_pattern(pattern) for slot, pattern in self.patterns.items()}
        return {**asked, "head": self.head, "sort": self.sort, "sign": self.sign, "limit": self.limit}


def search(atlas: "Atlas", query: Query) -> Found:
    """The rows that are looked for: a page of them, and how many there are."""
    if not atlas.heads:
        raise InputError(f"skip-trigrams of {atlas.folder}", "a model with heads", "ask for bigrams: it has nothing else")
    with damaged_if_refused(atlas.folder), atlas.cursor() as database:
        ids: dict[Slot, NDArray[np.uint32]] = {
            slot: atlas.words.find(pattern, database) for slot, pattern in query.patterns.items()
        }
        heads = None if query.head is None else find_heads(atlas.heads, query.head)
        plan = _Plan(atlas, ids, heads, query)
        total = plan.count(database)
        columns = plan.page(database)
    columns["head"] = np.array(atlas.heads, object)[columns["head"]]
    return Found(
        title=_title(atlas, query),
        columns=columns,
        words=atlas.words,
        total=total,
        offset=query.offset,
        remarks=plan.remarks(),
        beyond=plan.beyond,
        facts={"atlas": str(atlas.folder), "query": query.plain()},
        again=lambda sort, offset, limit: search(atlas, replace(query, sort=sort or query.sort, offset=offset, limit=limit)),
        sorts=plan.sorts,
        limits={name: atlas.manifest.settings.get(name) for name in ("k", "each", "triples")},
    )


def find_heads(known: Sequence[str], asked: str | Sequence[str]) -> list[int]:
    """The numbers of heads that are named, or whose layer is.

    >>> find_heads(["L0H0", "L0H1", "L1H0"], "L0"), find_heads(["L0H0", "L0H1", "L1H0"], ["L1H0", "L0H1"])
    ([0, 1], [1, 2])
    """
    found: set[int] = set()
    for given in [asked] if isinstance(asked, str) else asked:
        name = given.strip().upper()
        layer = re.fullmatch(r"L\d+", name)
        mine = [number for number, head in enumerate(known) if head == name or (layer and head.startswith(f"{name}H"))]
        if not mine:
            raise InputError(f"the head {given!r:.40}", "heads or layers of this atlas", did_you_mean(name, known))
        found.update(mine)
    if not found:
        raise InputError("no heads", "at least one", "name some, such as L0H3, or leave them out")
    return sorted(found)


def matching(ids: Mapping[Slot, NDArray[np.uint32]], heads: list[int] | None) -> str:
    """What a row of these tokens and heads fulfils, in SQL."""
    tests = [_among(slot, mine.tolist()) for slot, mine in ids.items()]
    tests += [_among("head", heads)] if heads is not None else []
    return " AND ".join(tests) or "true"


@dataclass(frozen=True)
class _Plan:
    """Which rows are read, and how."""

    atlas: "Atlas"
    ids: Mapping[Slot, NDArray[np.uint32]]
    heads: list[int] | None
    query: Query

    @property
    def rows(self) -> str:
        """What is read: the parts of one copy that can hold what is asked for."""
        slot, mine = min(self.ids.items(), key=lambda each: len(each[1]), default=("source", None))
        parts = self.atlas.manifest.parts(f"trigrams/by_{slot}")
        if mine is not None:
            parts = [part for part in parts if part.first is not None and _meets(mine, part.first, part.last or 0)] or parts[:1]
        return parquet(*(self.atlas.folder / part.path for part in parts))

    @property
    def where(self) -> str:
        """What a row has to fulfil."""
        sign, found = SIGNS[self.query.sign], matching(self.ids, self.heads)
        return found if sign is None else sign if found == "true" else f"{found} AND {sign}"

    @property
    def evidence(self) -> str | None:
        """Where a text's rows are read from, if there are any."""
        parts = self.atlas.manifest.parts("evidence")
        return parquet(*(self.atlas.folder / part.path for part in parts)) if parts else None

    @property
    def sorts(self) -> tuple[str, ...]:
        """The columns that rows can be sorted by."""
        return (*STORED, *(EVIDENCE if self.evidence else ()))

    @property
    def order(self) -> str:
        """How rows follow each other; no two of them are equal in all keys."""
        name = self.query.sort.removeprefix("-")
        known = self.sorts
        if name not in known:
            needed = f"{', '.join(known)}, or one of them with a minus for the smallest first"
            advice = "build the atlas with --corpus" if name in EVIDENCE else did_you_mean(name, known)
            raise InputError(f"sorting by {self.query.sort!r:.40}", needed, advice)
        return f"{name} {'ASC' if self.query.sort.startswith('-') else 'DESC'} NULLS LAST, {KEYS}"

    def count(self, database: "DuckDBPyConnection") -> int:
        """How many rows there are."""
        if self.where == "true":
            return sum(part.rows or 0 for part in self.atlas.manifest.parts("trigrams/by_source"))
        found = database.execute(f"FROM {self.rows} SELECT count(*) WHERE {self.where}").fetchone()
        assert found is not None, "a count is one row"
        return found[0]

    def page(self, database: "DuckDBPyConnection") -> dict[str, NDArray[Any]]:
        """The rows that were asked for."""
        rows = f"FROM {self.rows} SELECT {KEYS}, score, output, attention, lift WHERE {self.where}"
        page = f"ORDER BY {self.order} LIMIT {self.query.limit} OFFSET {self.query.offset}"
        if self.evidence is None:
            return arrays(database.execute(f"{rows} {page}"))
        join = f"LEFT JOIN (FROM {self.evidence} SELECT {KEYS}, {', '.join(EVIDENCE)}) USING ({KEYS})"
        if self.query.sort.removeprefix("-") in EVIDENCE:
            return arrays(database.execute(f"FROM ({rows}) {join} {page}"))
        # Joined after the cut: a page is small.
        return arrays(database.execute(f"FROM ({rows} {page}) {join} ORDER BY {self.order}"))

    def remarks(self) -> tuple[str, ...]:
        """What the atlas leaves out of such an answer."""
        k, each, triples = (self.atlas.manifest.settings.get(name) for name in ("k", "each", "triples"))
        listed = (
            f"listed are, of each head, raising and lowering: the {triples} strongest of all, the best {each} for every source and every out, "
            f"and for every dest the best {each} among the {k} sources that it scores highest"
        )
        is_by_lift = self.query.sort.removeprefix("-") == "lift"
        return (
            *self._bounds(),
            listed,
            *(() if is_by_lift else ("rows are listed for their lift, whatever they are sorted by",)),
        )

    @cached_property
    def beyond(self) -> tuple[float, float] | None:
        """Beyond which lifts an answer is known to be whole: every source's own are listed down to a bound."""
        heads = self.heads if self.heads is not None else list(range(len(self.atlas.heads)))
        sources = self.ids.get("source")
        if sources is None or not heads or len(sources) * len(heads) > MOST_BOUNDS:
            return None
        lines = [self.atlas.lines(self.atlas.heads[head], ("bound", "bound_lowering")) for head in heads]
        raising, lowering = (max(float(line[name][sources].max()) for line in lines) for name in ("bound", "bound_lowering"))
        return raising, -lowering

    def _bounds(self) -> tuple[str, ...]:
        """The same in words."""
        sources = self.ids.get("source")
        if self.beyond is None or sources is None:
            return ()
        words = {"raising": f"above {self.beyond[0]:+.4g}", "lowering": f"below {self.beyond[1]:+.4g}"}
        beyond = " or ".join(words.values()) if self.query.sign == "both" else words[self.query.sign]
        return (
            f"every skip-trigram of {'this source' if len(sources) == 1 else 'these sources'} with a lift {beyond} is listed",
        )


def _meets(ids: NDArray[np.uint32], first: int, last: int) -> bool:
    """Whether one of some rising ids lies in a range."""
    place = int(np.searchsorted(ids, first))
    return place < len(ids) and int(ids[place]) <= last


def _among(column: str, ids: Sequence[int]) -> str:
    if len(ids) == 1:
        return f"{column} = {ids[0]}"
    return f"{column} BETWEEN {ids[0]} AND {ids[-1]} AND {column} IN ({', '.join(map(str, ids))})"


def _title(atlas: "Atlas", query: Query) -> str:
    def shown(slot: Slot) -> str:
        pattern = query.patterns.get(slot)
        return "*" if pattern is None else atlas.words(pattern) if isinstance(pattern, int) else f"‘{pattern}’"

    heads = "" if query.head is None else query.head if isinstance(query.head, str) else " ".join(query.head)
    return f"{heads}  {shown('source')} … {shown('dest')} → {shown('out')}, by {query.sort}".strip()
