"""Whole tables for other programs."""

import csv
import json
import shutil

import duckdb
import numpy as np
import pytest

from headwater.atlas.atlas import open_atlas
from headwater.atlas.export import export, exportable
from headwater.atlas.manifest import commit
from headwater.errors import InputError
from headwater.files.tables import write_table
from small_atlas import HEADS, TEXTS, K, small_atlas


@pytest.fixture(scope="module")
def small(tmp_path_factory):
    return small_atlas(tmp_path_factory.mktemp("export") / "atlas")


@pytest.fixture(scope="module")
def atlas(small):
    with open_atlas(small.folder) as opened:
        yield opened


def read(path, kind):
    if kind == "csv":
        with path.open(newline="") as file:
            return list(csv.DictReader(file, quoting=csv.QUOTE_NOTNULL if hasattr(csv, "QUOTE_NOTNULL") else csv.QUOTE_MINIMAL))
    if kind == "json":
        return [json.loads(line) for line in path.read_text().splitlines()]
    relation = duckdb.sql(f"FROM '{path}'")
    return [dict(zip(relation.columns, row, strict=True)) for row in relation.fetchall()]


@pytest.mark.parametrize("kind", ["parquet", "csv", "json"])
def test_joined_rows_have_exact_texts_ids_and_names_in_their_order(atlas, small, tmp_path, kind):
    path = tmp_path / f"x.{kind}"
    assert export(atlas, "trigrams", path, kind) == len(small.rows)
    rows = read(path, kind)
    stored = atlas.relation("trigrams/by_source").fetchall()
    assert list(rows[0]) == [
        "head",
        "source",
        "dest",
        "out",
        "score",
        "output",
        "attention",
        "lift",
        "source_id",
        "dest_id",
        "out_id",
    ]
    for row, (head, source, dest, out, score, _, _, lift) in zip(rows, stored, strict=True):
        assert [int(row[f"{slot}_id"]) for slot in ("source", "dest", "out")] == [source, dest, out]
        assert row["head"] == HEADS[head]
        assert [row[slot] or None for slot in ("source", "dest", "out")] == [TEXTS[each] for each in (source, dest, out)]
        assert (np.float32(row["score"]), np.float32(row["lift"])) == (np.float32(score), np.float32(lift))


def test_in_csv_a_missing_text_is_told_from_an_empty_one(atlas, tmp_path):
    export(atlas, "vocab", tmp_path / "x.csv", "csv")
    text = (tmp_path / "x.csv").read_text()
    assert text.splitlines()[0] == 'id,"text","shown",count,share'
    assert '\n10,,"#10",' in text
    assert '\n11,"a""b,\n",' in text


def test_lists_of_all_heads_follow_each_other(atlas, tmp_path):
    assert export(atlas, "says", tmp_path / "x.json", "json") == len(HEADS) * len(TEXTS) * 2 * K
    rows = read(tmp_path / "x.json", "json")
    assert [row["head"] for row in rows] == [name for name in HEADS for _ in range(len(TEXTS) * 2 * K)]
    assert [row["source_id"] for row in rows] == [token for _ in HEADS for token in range(len(TEXTS)) for _ in range(2 * K)]
    assert export(atlas, "says/L0H1", tmp_path / "y.json", "json") == len(TEXTS) * 2 * K
    assert "head" not in read(tmp_path / "y.json", "json")[0]


def test_every_table_can_be_written(atlas, tmp_path):
    for table in exportable(atlas):
        assert export(atlas, table, tmp_path / "x.parquet", "parquet") > 0
    assert {"trigrams", "says", "said", "strongest", "evidence", "vocab"} <= set(exportable(atlas))


def test_many_rows_keep_their_order(tmp_path):
    small = small_atlas(tmp_path / "atlas")
    lots = np.random.default_rng(0)
    rows = {
        "head": lots.integers(0, 3, 30_000).astype(np.uint16),
        "source": np.sort(lots.integers(0, 14, 30_000)).astype(np.uint32),
    }
    shutil.rmtree(small.folder / "trigrams" / "by_source")
    (small.folder / "trigrams" / "by_source").mkdir()
    write_table(small.folder / "trigrams" / "by_source" / "000.parquet", {**rows, "lift": np.arange(30_000)}, groups=2_048)
    commit(small.folder, model={}, settings={}, plan={}, heads=HEADS, vocab=14)
    with open_atlas(small.folder) as atlas:
        export(atlas, "trigrams", tmp_path / "x.parquet", "parquet")
    assert duckdb.sql(f"SELECT lift FROM '{tmp_path}/x.parquet'").fetchnumpy()["lift"].tolist() == list(range(30_000))


def test_what_cannot_be_written_is_told_and_nothing_is_lost(atlas, tmp_path):
    path = tmp_path / "x.csv"
    path.write_text("mine")
    with pytest.raises(InputError, match="did you mean strongest"):
        export(atlas, "strongst", path, "csv")
    with pytest.raises(InputError, match="a folder that is there"):
        export(atlas, "vocab", tmp_path / "no" / "x.csv", "csv")
    with pytest.raises(InputError, match="a folder that is there"):
        export(atlas, "vocab", tmp_path, "csv")
    assert path.read_text() == "mine"
    export(atlas, "vocab", path, "csv")
    assert path.read_text() != "mine"
    assert sorted(each.name for each in tmp_path.iterdir()) == ["x.csv"]
