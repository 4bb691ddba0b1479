"""Places of skip-trigrams in the text that an atlas was held against, as lines to read."""

from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

import numpy as np
from numpy.typing import NDArray

from headwater.atlas.found import Found
from headwater.atlas.quotations import LEFT_OUT
from headwater.atlas.search import Query, Slot, find_heads, matching
from headwater.files.tables import arrays, damaged_if_refused

if TYPE_CHECKING:
    from headwater.atlas.atlas import Atlas
    from headwater.atlas.words import Words

TABLE = "lines_of_text"
PAGE = (
    *("head", "source", "dest", "out", "nth", "source_position", "dest_position"),
    *("measured_attention", "measured", "next", "before", "between", "after"),
)
ENDS = "⟦⟧"
"""Stand around the source and the dest in a line."""


@dataclass(frozen=True, kw_only=True)
class Place:
    """One place in the text where a head looks from a dest at a source. Tokens are ids; None stands for what is left out."""

    head: str
    source: int
    dest: int
    out: int
    nth: int
    """1 is where its head did most."""
    source_position: int
    dest_position: int
    """In a window of the text, counted from 0."""
    next: int
    """What came after the dest."""
    measured_attention: float
    measured: float
    """What the head added to the logit of ``out`` there."""
    before: tuple[int | None, ...]
    between: tuple[int | None, ...]
    after: tuple[int | None, ...]
    """Begins with ``next``."""


def places(atlas: "Atlas", query: Query) -> list[Place]:
    """Places as programs have them, in the order of ``read_places``."""
    _, found = _read(atlas, query)
    texts = ("before", "between", "after")
    columns: dict[str, list[Any]] = {
        name: [_ids(text) for text in column.tolist()] if name in texts else column.tolist() for name, column in found.items()
    }
    columns["head"] = [atlas.heads[number] for number in columns["head"]]
    return [Place(**dict(zip(columns, row, strict=True))) for row in zip(*columns.values(), strict=True)]


def _ids(text: str) -> tuple[int | None, ...]:
    return tuple(None if part == LEFT_OUT else int(part) for part in text.split())


def read_places(atlas: "Atlas", query: Query) -> Found:
    """A line for each place, the largest measured contributions first: text, ⟦source⟧, text, ⟦dest⟧, and what came next."""
    total, found = _read(atlas, query)
    return Found(
        title=f"places in {atlas.manifest.read_in}",
        columns=_columns(atlas.words, atlas.heads, found),
        words=atlas.words,
        total=total,
        offset=query.offset,
        remarks=("of each skip-trigram that was looked for, the three places where its head did most",),
        facts={"atlas": str(atlas.folder), "query": query.plain()},
    )


def _read(atlas: "Atlas", query: Query) -> tuple[int, dict[str, NDArray[Any]]]:
    """How many places there are, and a page of them."""
    atlas.manifest.check_evidence(atlas.folder, TABLE)
    with atlas.cursor() as database, damaged_if_refused(atlas.folder):
        ids: dict[Slot, NDArray[np.uint32]] = {
            slot: atlas.words.find(pattern, database) for slot, pattern in query.patterns.items()
        }
        where = matching(ids, None if query.head is None else find_heads(atlas.heads, query.head))
        rows = f"FROM {atlas.clause(TABLE)}"
        total = database.execute(f"{rows} SELECT count(*) WHERE {where}").fetchone()
        found = arrays(
            database.execute(
                f"{rows} SELECT {', '.join(PAGE)} WHERE {where} ORDER BY abs(measured) DESC, head, source, dest, out, nth "
                f"LIMIT {query.limit} OFFSET {query.offset}"
            )
        )
    assert total is not None, "a count is one row"
    return total[0], found


def _columns(words: "Words", heads: tuple[str, ...], found: dict[str, Any]) -> dict[str, Any]:
    lines = [
        "".join((
            _text(words, before), _marked(words, source), _text(words, between), _marked(words, dest), " → ", _text(words, after),
        ))
        for before, source, between, dest, after in zip(
            *(found[name].tolist() for name in ("before", "source", "between", "dest", "after")), strict=True
        )
    ]  # fmt: skip
    text = np.empty(len(lines), object)
    text[:] = lines
    numbers = {name: found[name] for name in ("source", "dest", "out", "measured_attention", "measured")}
    return {"head": np.array(heads, object)[found["head"]], **numbers, "text": text}


def _text(words: "Words", ids: str) -> str:
    """Words in a row, as they stood in the text; what was left out between them is a dot."""
    return "".join(" … " if part == LEFT_OUT else _bare(words, int(part)) for part in ids.split())


def _marked(words: "Words", token: int) -> str:
    return ENDS[0] + _bare(words, token) + ENDS[1]


def _bare(words: "Words", token: int) -> str:
    """A token as people read it, but for the quotes around it."""
    shown = words(token)
    return shown if shown.startswith("#") else shown.strip("\u2068\u2069")[1:-1]
