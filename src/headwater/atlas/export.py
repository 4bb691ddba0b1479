"""Whole tables for other programs: Parquet, CSV or JSON lines, with heads' names, and tokens' exact texts beside their ids."""

from pathlib import Path
from typing import TYPE_CHECKING, Literal, TypeAlias

import numpy as np

from headwater.errors import InputError, did_you_mean
from headwater.files.tables import damaged_if_refused, parquet, write_query

if TYPE_CHECKING:
    from headwater.atlas.atlas import Atlas

Format: TypeAlias = Literal["parquet", "csv", "json"]
LISTS = ("says", "seeks", "sought", "said")
"""Tables of each head."""
JOINED = "trigrams"
"""Stored three times and named once."""
VOCABULARY = "vocab"


def exportable(atlas: "Atlas") -> tuple[str, ...]:
    """The names that ``export`` knows: every table, and those of all heads together."""
    kinds = [table.split("/")[0] for table in atlas.tables if not table.startswith(f"{JOINED}/")]
    joined = [JOINED] if f"{JOINED}/by_source" in atlas.tables else []
    return tuple(dict.fromkeys([*joined, *kinds, *atlas.tables]))


def export(atlas: "Atlas", table: str, path: Path, kind: Format) -> int:
    """Write a table to a file, its rows in their order; returns how many they are. The file is there as a whole, or as it was before.

    ``says``, ``seeks``, ``sought`` and ``said`` are those of all heads, one after the other. Tokens are texts there (NULL where one has none),
    with their ids beside them as ``source_id``; heads are names.
    """
    if table not in exportable(atlas):
        raise InputError(f"the table {table!r:.60}", "a table of this atlas", did_you_mean(table, exportable(atlas)))
    if path.is_dir() or not path.absolute().parent.is_dir():
        raise InputError(f"{path}", "a file in a folder that is there", "choose another name")
    if path.resolve().is_relative_to(atlas.folder.resolve()):
        raise InputError(f"{path} lies in the atlas itself", "a file elsewhere", "choose another folder")
    query, texts = _query(atlas, table)
    settings = {
        "parquet": "FORMAT parquet, COMPRESSION zstd",
        # Texts in quotes, so that a missing one is told from an empty one.
        "csv": f"FORMAT csv, HEADER, FORCE_QUOTE ({', '.join(texts)})" if texts else "FORMAT csv, HEADER",
        "json": "FORMAT json",
    }
    heads = {"number": np.arange(len(atlas.heads), dtype=np.uint16), "name": np.array(atlas.heads, object)}
    return write_query(path, query, settings[kind], heads)


def _query(atlas: "Atlas", table: str) -> tuple[str, list[str]]:
    """What finds a table's rows as others read them, and which of its columns are texts."""
    rows = _rows(atlas, table)
    with damaged_if_refused(atlas.folder), atlas.cursor() as cursor:
        kinds = {name: str(kind) for name, kind, *_ in cursor.execute(f"DESCRIBE {rows}").fetchall()}
    tokens = [name for name, kind in kinds.items() if kind == "UINTEGER" and table != VOCABULARY]
    words = parquet(atlas.folder / f"{VOCABULARY}.parquet")
    joins = [f"LEFT JOIN {words} AS {name}_word ON {name}_word.id = rows.{name}" for name in tokens]
    shown = {name: f"{name}_word.text AS {name}" if name in tokens else f"rows.{name}" for name in kinds}
    if "head" in kinds:
        joins.append("LEFT JOIN given ON given.number = rows.head")
        shown["head"] = "given.name AS head"
    shown |= {f"{name}_id": f"rows.{name} AS {name}_id" for name in tokens}
    texts = [name for name, kind in kinds.items() if kind == "VARCHAR" or name in (*tokens, "head")]
    return f"FROM ({rows}) AS rows {' '.join(joins)} SELECT {', '.join(shown.values())}", texts


def _rows(atlas: "Atlas", table: str) -> str:
    if table == JOINED:
        table = f"{JOINED}/by_source"
    if table in LISTS:
        each = (
            f"(FROM {atlas.clause(f'{table}/{head}')} SELECT {number}::USMALLINT AS head, *)"
            for number, head in enumerate(atlas.heads)
        )
        return " UNION ALL ".join(each)
    return f"FROM {atlas.clause(table)}"
