"""``Atlas``: the tables of one model, opened for reading."""

import os
import threading
from collections.abc import Callable, Generator, Sequence
from contextlib import AbstractContextManager, contextmanager, nullcontext
from dataclasses import dataclass
from functools import cached_property
from pathlib import Path
from typing import TYPE_CHECKING, Any, TypeAlias

import numpy as np
from numpy.typing import NDArray

from headwater.atlas.found import Found
from headwater.atlas.manifest import Manifest, read_manifest
from headwater.atlas.patterns import Pattern
from headwater.atlas.search import Query, Sign, search
from headwater.atlas.words import Words
from headwater.errors import InputError, ModelFileError, did_you_mean
from headwater.files.plain import file_size, open_file, read_json
from headwater.files.safetensors import read_header
from headwater.files.tables import arrays, connect, damaged_if_refused, parquet, read_table

if TYPE_CHECKING:
    from duckdb import DuckDBPyConnection, DuckDBPyRelation

THREADS = 4
"""More than these find nothing sooner."""
SUMMARIES = "heads.json"
Watch: TypeAlias = Callable[[Callable[[], None]], AbstractContextManager[None]]
"""A context around each question to the tables; it is given what ends that question, from another thread."""
DIRECT = "direct"


def open_atlas(path: str | Path) -> "Atlas":
    """The atlas in a folder, once each of its files is found to be there in its size; ``headwater atlas verify`` reads every byte.

    It can be used as a context, and by several threads at once.
    """
    folder = Path(path)
    manifest = read_manifest(folder)
    for file in manifest.files:
        size = file_size(folder / file.path)
        if size != file.bytes:
            given = f"{folder / file.path} has {size:,} bytes"
            raise ModelFileError(given, f"the {file.bytes:,} it was written with", "build the atlas again")
    return Atlas(folder, manifest, _words(folder, manifest))


def _words(folder: Path, manifest: Manifest) -> Words:
    read = read_table(folder / "vocab.parquet")
    if len(read["id"]) != manifest.vocab or not np.array_equal(read["id"], np.arange(manifest.vocab)):
        raise ModelFileError(
            f"{folder / 'vocab.parquet'} lists other ids", f"0 to {manifest.vocab - 1:,}", "build the atlas again"
        )
    return Words(tuple(read["text"].tolist()), tuple(read["shown"].tolist()), read["count"], read["share"])


class Atlas:
    """The tables of one model: what its tokens say by themselves, what its heads look for and say, and skip-trigrams."""

    def __init__(self, folder: Path, manifest: Manifest, words: Words) -> None:
        self.folder, self.manifest, self.words = folder, manifest, words
        self._database = self._connected()
        self._watched = threading.local()

    def _connected(self) -> "DuckDBPyConnection":
        granted = len(os.sched_getaffinity(0)) if hasattr(os, "sched_getaffinity") else os.cpu_count() or 1
        database = connect(self.folder, threads=min(THREADS, granted))
        database.execute(f"CREATE TABLE vocabulary AS FROM {parquet(self.folder / 'vocab.parquet')} SELECT id, text")
        return database

    def __repr__(self) -> str:
        return f"Atlas({self.folder}, {len(self.heads)} heads, {len(self.words):,} tokens)"

    def __enter__(self) -> "Atlas":
        return self

    def __exit__(self, *reason: object) -> None:
        self.close()

    def close(self) -> None:
        """Let go of its files; nothing can be asked afterwards."""
        self._database.close()

    @property
    def heads(self) -> tuple[str, ...]:
        """Their names; a head's number in tables is its place here."""
        return self.manifest.heads

    @property
    def tables(self) -> tuple[str, ...]:
        """The names of all tables: ``vocab``, ``says/L0H3``, ``trigrams/by_out`` …"""
        return self.manifest.tables

    @cached_property
    def summary(self) -> dict[str, Any]:
        """What there is to say about each head as a whole."""
        return read_json(self.folder / SUMMARIES)

    def search(  # noqa: PLR0913  (each is one choice a person makes)
        self,
        *,
        source: Pattern | None = None,
        dest: Pattern | None = None,
        out: Pattern | None = None,
        head: str | Sequence[str] | None = None,
        sort: str = "lift",
        sign: Sign = "both",
        limit: int = 50,
        offset: int = 0,
    ) -> Found:
        """Skip-trigrams ``source … dest → out`` by their tokens and heads.

        A token is its exact text or its id; ``Prefix``, ``Contains`` and ``Matches`` mean several. ``head`` is one (``"L0H3"``), a layer
        (``"L0"``) or several. Rows are sorted by falling ``lift``, ``score``, ``output`` or ``attention``, or where the atlas was held against a text by
        ``chances``, ``occurs``, ``fires``, ``measured`` or ``nats``; by ``"-lift"`` the other way round.
        """
        return search(
            self,
            Query(source=source, dest=dest, out=out, head=head, sort=sort, sign=sign, limit=limit, offset=offset),
        )

    def head(self, name: str) -> "HeadLists":
        """What one head looks for and says; ``l0h3`` is L0H3."""
        known = name.strip().upper()
        if known not in self.heads:
            raise InputError(f"the head {name!r:.40}", "a head of this atlas", did_you_mean(known, self.heads))
        return HeadLists(self, known)

    def strongest(self, head: str | None = None, *, lowering: bool = False) -> Found:
        """The skip-trigrams of largest lift, or with ``lowering`` of most negative lift: exactly so, of one head or of all."""
        name = None if head is None else self.head(head).name
        place, title = ("in_model", "of the model") if name is None else ("place", f"of {name}")
        tests = [f"{place} {'<' if lowering else '>'} 0"]
        tests += [] if name is None else [f"head = {self.heads.index(name)}"]
        rows = (
            f"FROM {self.clause('strongest')} SELECT {place} AS place, head, source, dest, out, score, output, attention, lift"
        )
        with damaged_if_refused(self.folder), self.cursor() as cursor:
            columns = arrays(cursor.execute(f"{rows} WHERE {' AND '.join(tests)} ORDER BY abs({place})"))
        columns["head"] = np.array(self.heads, object)[columns["head"]]
        return self._found(f"the strongest skip-trigrams {title}{', lowering' if lowering else ''}", columns)

    def bigrams(self, token: Pattern) -> Found:
        """What tokens say by themselves: the outputs that the direct path raises and lowers most."""
        return self.listed("bigrams", "token", token)

    def listed(self, table: str, key: str, pattern: Pattern) -> Found:
        """The lines of a table of lists that a pattern means, the largest entries first."""
        with damaged_if_refused(self.folder), self.cursor() as cursor:
            ids = ", ".join(map(str, self.words.find(pattern, cursor)))
            query = f"FROM {self.clause(table)} WHERE {key} IN ({ids}) ORDER BY {key}, place < 0, abs(place)"
            columns = arrays(cursor.execute(query))
        return self._found(f"{table}, {key} {self.words(pattern) if isinstance(pattern, int) else pattern!s}", columns)

    def lines(self, name: str, columns: Sequence[str]) -> dict[str, NDArray[Any]]:
        """What there is one number of for every token, of a head or ``direct``: ``mass``, ``own_rank``, ``bound`` …"""
        if name not in (*self.heads, DIRECT):
            raise InputError(
                f"lines of {name!r:.40}", "a head of this atlas, or direct", did_you_mean(name, (*self.heads, DIRECT))
            )
        path = self.folder / "lines" / f"{name}.safetensors"
        entries = {entry.name: entry for entry in read_header(path).entries}
        missing = next((column for column in columns if column not in entries), None)
        if missing is not None:
            raise InputError(f"no line {missing!r:.40} of {name}", "a line of the atlas", did_you_mean(missing, entries))
        found: dict[str, NDArray[Any]] = {}
        with open_file(path) as file:
            for column in columns:
                file.seek(entries[column].start)
                found[column] = np.frombuffer(file.read(entries[column].size), entries[column].dtype)
        return found

    def relation(self, table: str) -> "DuckDBPyRelation":
        """A whole table as a DuckDB relation, for questions in SQL; it can reach nothing but the atlas."""
        with damaged_if_refused(self.folder):
            return self._database.cursor().sql(f"FROM {self.clause(table)}")

    @contextmanager
    def cursor(self) -> "Generator[DuckDBPyConnection]":
        """A connection of one's own to the same files: each thread needs one."""
        import duckdb

        try:
            cursor = self._database.cursor()
        except duckdb.ConnectionException:
            raise InputError(f"{self.folder}, which is closed", "an open atlas", "open it again with open_atlas") from None
        try:
            with self._watch(cursor.interrupt):
                yield cursor
        except (duckdb.InternalException, duckdb.FatalException):
            # A damaged file has taken the whole database with it: others are still to be read.
            self._database = self._connected()
            raise
        finally:
            cursor.close()

    @contextmanager
    def watched(self, by: Watch) -> Generator[None]:
        """Let what is asked in this thread meanwhile be looked after, and ended once nobody waits for it."""
        before, self._watched.by = self._watch, by
        try:
            yield
        finally:
            self._watched.by = before

    @property
    def _watch(self) -> Watch:
        return getattr(self._watched, "by", lambda _: nullcontext())

    def clause(self, table: str) -> str:
        """What a query reads a table from."""
        parts = self.manifest.parts(table)
        if not parts:
            raise InputError(f"the table {table!r:.60}", "a table of this atlas", did_you_mean(table, self.tables))
        return parquet(*(self.folder / part.path for part in parts))

    def _found(self, title: str, columns: dict[str, NDArray[Any]]) -> Found:
        total = len(next(iter(columns.values())))
        return Found(title=title, columns=columns, words=self.words, total=total, facts={"atlas": str(self.folder)})


@dataclass(frozen=True)
class HeadLists:
    """One head's lists: a few entries of every line of its tables."""

    atlas: Atlas
    name: str

    def says(self, source: Pattern) -> Found:
        """What the head says when it looks at ``source``: outputs that it raises and lowers most."""
        return self.atlas.listed(f"says/{self.name}", "source", source)

    def seeks(self, dest: Pattern) -> Found:
        """What the head looks for from ``dest``: the sources of highest score."""
        return self.atlas.listed(f"seeks/{self.name}", "dest", dest)

    def sought(self, source: Pattern) -> Found:
        """Who looks at ``source``: the dests that pay it most attention."""
        return self.atlas.listed(f"sought/{self.name}", "source", source)

    def said(self, out: Pattern) -> Found:
        """What makes the head say ``out``: sources by their lift at the dest that attends to them most."""
        return self.atlas.listed(f"said/{self.name}", "out", out)

    def strongest(self, *, lowering: bool = False) -> Found:
        """Its skip-trigrams of largest, or most negative, lift."""
        return self.atlas.strongest(self.name, lowering=lowering)
