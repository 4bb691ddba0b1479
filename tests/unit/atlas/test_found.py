"""Rows of an atlas as people read them and as other libraries take them."""

import json
import sys

import numpy as np
import pytest

from headwater.atlas.atlas import open_atlas
from headwater.errors import InputError
from small_atlas import HEADS, small_atlas


@pytest.fixture(scope="module")
def atlas(tmp_path_factory):
    folder = tmp_path_factory.mktemp("found") / "atlas"
    small_atlas(folder)
    with open_atlas(folder) as opened:
        yield opened


def test_it_prints_itself(atlas):
    found = atlas.search(source=" keep", limit=3)
    lines = str(found).splitlines()
    assert lines[0] == "‘ keep’ … * → *, by lift"
    assert lines[1].split()[:8] == ["head", "source", "dest", "out", "score", "output", "attention", "lift"]
    assert "‘ keep’" in lines[2]
    assert f"rows 1 to 3 of {found.total}" in lines
    assert repr(found).startswith("Found(‘ keep’ … * → *, by lift, 3 of")
    assert str(atlas.search(source=" keep", offset=10_000, limit=1)).count("no rows") == 1


def test_markup_in_tokens_stays_text(atlas):
    assert "‘[bold]’" in str(atlas.search(source="[bold]", limit=1))
    assert "&quot;" in atlas.search(source='a"b,\n', limit=1)._repr_html_()


def test_for_programs_it_is_json_with_exact_texts_and_ids(atlas):
    plain = json.loads(json.dumps(atlas.search(source=" keep", head=["L0H0"], limit=2).plain(), allow_nan=False))
    assert set(plain) == {"atlas", "query", "total", "offset", "remarks", "rows"}
    assert {"head", "source", "dest", "out", "score", "output", "attention", "lift", "source_id", "dest_id", "out_id"} <= set(
        plain["rows"][0]
    )
    assert plain["query"] == {"source": " keep", "head": ["L0H0"], "sort": "lift", "sign": "both", "limit": 2}
    assert plain["rows"][0]["source"] == " keep"


def test_a_token_without_text_is_none_and_is_shown_by_its_number(atlas):
    found = atlas.search(source=10, limit=1)
    assert (found.rows[0]["source"], found.rows[0]["source_id"]) == (None, 10)
    assert "#10" in str(found)


def test_duckdb_pandas_and_arrow_have_the_same_rows(atlas):
    for library in ("pandas", "pyarrow"):
        pytest.importorskip(library)
    found = atlas.search(sort="nats", limit=1_000)
    columns, rows = list(found.rows[0]), [tuple(row.values()) for row in found]
    relation = found.relation()
    assert relation.columns == columns
    assert [tuple(row) for row in relation.fetchall()] == rows
    assert relation.aggregate("count(*)").fetchall() == [(found.total,)]
    arrow = found.arrow()
    assert [tuple(row.values()) for row in arrow.to_pylist()] == rows
    frame = found.pandas()
    assert list(frame.columns) == columns
    assert frame["out_id"].tolist() == [row["out_id"] for row in found]
    assert frame["head"].isin(HEADS).all()
    assert np.array_equal(frame["lift"], np.array([row["lift"] for row in found], np.float32))


@pytest.mark.parametrize("library", ["pandas", "polars", "pyarrow"])
def test_a_library_that_is_not_there_is_named(atlas, monkeypatch, library):
    found = atlas.search(limit=1)
    monkeypatch.setitem(sys.modules, library, None)
    ask = {"pandas": found.pandas, "polars": found.polars, "pyarrow": found.arrow}[library]
    with pytest.raises(InputError, match=f"pip install {library}"):
        ask()


def test_an_empty_answer_still_has_its_columns(atlas):
    empty = atlas.search(source=" keep", limit=0)
    assert empty.rows == ()
    assert empty.relation().columns == atlas.search(source=" keep").relation().columns
    assert empty.plain()["rows"] == []
