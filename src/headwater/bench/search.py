# pyright: basic
# sqlite3 and DuckDB carry no types.
"""Twenty million joined rows, and the hundred of largest lift of one out: an atlas beside the same rows unsorted, and beside SQLite with an index.

Everything is on disk and has been read once. A turn looks up ten outs.
"""

import itertools
import sqlite3
import tempfile
from collections.abc import Callable, Iterator
from pathlib import Path

import numpy as np

from headwater.bench.contest import close, contest
from headwater.bench.goals import Table, at_most, beside, shown

ROWS, VOCAB, HEADS = 20_000_000, 50_257, 144
TOP, ASKED = 100, 10
TITLE = f"Search: {ROWS:,} skip-trigrams, out = X, the {TOP} of largest lift"
ROUNDS = 6
GOAL = 50.0
"""Milliseconds."""
OURS, PLAIN, SQLITE = "headwater, atlas.search(out=X)", "DuckDB, the same rows unsorted", "SQLite, index on (out, lift)"
NAMES = ("head", "source", "dest", "out", "score", "output", "attention", "lift")


def table(rounds: int) -> Table:
    with tempfile.TemporaryDirectory() as folder:
        sizes = _write(Path(folder))
        jobs = {OURS: f"search:ours:{folder}", PLAIN: f"search:plain:{folder}", SQLITE: f"search:by_sqlite:{folder}"}
        results = contest(jobs, rounds)
    close("the lifts found", results.values(), 1e-9)
    each = {name: result.seconds / ASKED for name, result in results.items()}
    rows = [["", "ms a search", "MB on disk"]]
    rows += [[name, shown(1000 * seconds, 1), shown(sizes[name] / 1e6, 0)] for name, seconds in each.items()]
    goals = [at_most(f"a search over {ROWS:,} rows", 1000 * each[OURS], GOAL, unit="ms")]
    goals += [beside(f"times faster than {peer}", each[peer] / each[OURS]) for peer in (PLAIN, SQLITE)]
    return Table(rows, goals)


def _parts() -> Iterator[dict[str, np.ndarray]]:
    """Rows as an atlas has them: by out, of each the largest in size first; whole outs in each part."""
    from headwater.atlas.order import PART

    lots, parts = np.random.default_rng(0), -(-ROWS // PART)
    edges = [VOCAB * part // parts for part in range(parts + 1)]
    each = ROWS // VOCAB + 1
    for first, end in itertools.pairwise(edges):
        count = (end - first) * each
        attention, output = lots.random(count, np.float32) ** 4, lots.normal(size=count).astype(np.float32)
        out, lift = np.repeat(np.arange(first, end, dtype=np.uint32), each), attention * output
        order = np.lexsort((-np.abs(lift), out))
        columns = {
            "head": lots.integers(0, HEADS, count, np.uint16),
            "source": lots.integers(0, VOCAB, count, np.uint32),
            "dest": lots.integers(0, VOCAB, count, np.uint32),
            "out": out,
            "score": lots.normal(size=count).astype(np.float32),
            "output": output,
            "attention": attention,
            "lift": lift,
        }
        yield {name: column[order] for name, column in columns.items()}


def _write(folder: Path) -> dict[str, int]:
    """The same rows three ways; how many bytes each takes."""
    from headwater.atlas.joins import GROUP
    from headwater.atlas.manifest import commit
    from headwater.files.tables import write_table

    ours, lots = folder / "atlas" / "trigrams" / "by_out", np.random.default_rng(1)
    ours.mkdir(parents=True)
    (folder / "plain").mkdir()
    ids = np.arange(VOCAB, dtype=np.uint32)
    words = [f"{token}" for token in ids]
    shares = {"count": np.zeros(VOCAB, np.int64), "share": np.full(VOCAB, 1 / VOCAB)}
    write_table(folder / "atlas" / "vocab.parquet", {"id": ids, "text": words, "shown": words, **shares})
    with sqlite3.connect(folder / "rows.sqlite") as database:
        database.execute("PRAGMA journal_mode = OFF")
        database.execute("PRAGMA synchronous = OFF")
        database.execute(f"CREATE TABLE rows ({', '.join(NAMES)})")
        for number, columns in enumerate(_parts()):
            write_table(ours / f"{number:03}.parquet", columns, groups=GROUP)
            mixed = lots.permutation(len(columns["out"]))
            write_table(folder / "plain" / f"{number:03}.parquet", {name: column[mixed] for name, column in columns.items()})
            values = zip(*(columns[name].tolist() for name in NAMES), strict=True)
            database.executemany(f"INSERT INTO rows VALUES ({', '.join('?' * len(NAMES))})", values)
        database.execute("CREATE INDEX by_out ON rows (out, lift DESC)")
    settings = {"k": 16, "each": 4, "triples": 1000}
    commit(
        folder / "atlas",
        model={},
        settings=settings,
        plan={},
        heads=[f"L{n // 12}H{n % 12}" for n in range(HEADS)],
        vocab=VOCAB,
    )
    places = {OURS: ours, PLAIN: folder / "plain"}
    sizes = {name: sum(path.stat().st_size for path in place.iterdir()) for name, place in places.items()}
    return {**sizes, SQLITE: (folder / "rows.sqlite").stat().st_size}


def _turns(look: Callable[[int], float]) -> Callable[[], float]:
    """Other outs in each turn, and the same for everyone."""
    lots = np.random.default_rng(2)
    return lambda: sum(look(int(out)) for out in lots.integers(0, VOCAB, ASKED))


def ours(folder: str) -> Callable[[], float]:
    from headwater.atlas.atlas import open_atlas

    atlas = open_atlas(Path(folder) / "atlas")
    return _turns(lambda out: float(np.sum(atlas.search(out=out, limit=TOP).columns["lift"], dtype=np.float64)))


def plain(folder: str) -> Callable[[], float]:
    import duckdb

    database = duckdb.connect()
    query = f"SELECT {', '.join(NAMES)} FROM '{folder}/plain/*.parquet' WHERE out = ? ORDER BY lift DESC LIMIT {TOP}"
    return _turns(lambda out: float(np.sum(database.execute(query, [out]).fetchnumpy()["lift"], dtype=np.float64)))


def by_sqlite(folder: str) -> Callable[[], float]:
    database = sqlite3.connect(Path(folder) / "rows.sqlite")
    query = f"SELECT {', '.join(NAMES)} FROM rows WHERE out = ? ORDER BY lift DESC LIMIT {TOP}"
    return _turns(lambda out: float(sum(row[-1] for row in database.execute(query, [out]))))
