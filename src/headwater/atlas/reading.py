"""Places of skip-trigrams in the text that an atlas was held against, as lines to read."""

from typing import TYPE_CHECKING, Any

import numpy as np
from numpy.typing import NDArray

from headwater.atlas.found import Found
from headwater.atlas.search import Query, Slot, find_heads, matching
from headwater.errors import InputError
from headwater.files.tables import arrays, damaged_if_refused

if TYPE_CHECKING:
    from headwater.atlas.atlas import Atlas
    from headwater.atlas.words import Words

TABLE = "lines_of_text"
PAGE = ("head", "source", "dest", "out", "measured_attention", "measured", "next", "before", "between", "after")
ENDS = "⟦⟧"
"""Stand around the source and the dest in a line."""


def read_places(atlas: "Atlas", query: Query) -> Found:
    """A line for each place, the largest measured contributions first: text, ⟦source⟧, text, ⟦dest⟧, and what came next."""
    if TABLE not in atlas.tables:
        raise InputError(f"{atlas.folder}, which was held against no text", "an atlas with evidence", "build it with --corpus")
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
    return Found(
        title="places in held-out text",
        columns=_columns(atlas.words, atlas.heads, found),
        words=atlas.words,
        total=total[0],
        offset=query.offset,
        remarks=("of each skip-trigram that was looked for, the three places where its head did most",),
        facts={"atlas": str(atlas.folder), "query": query.plain()},
    )


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
    return "".join(" … " if part == "…" else _bare(words, int(part)) for part in ids.split())


def _marked(words: "Words", token: int) -> str:
    return ENDS[0] + _bare(words, token) + ENDS[1]


def _bare(words: "Words", token: int) -> str:
    """A token as people read it, but for the quotes around it."""
    shown = words(token)
    return shown if shown.startswith("#") else shown.strip("\u2068\u2069")[1:-1]
