"""The page about the format names every file and every column that an atlas has, and no others."""

import hashlib
import json
import re
from pathlib import Path

import duckdb
import pytest

from headwater.atlas.manifest import read_manifest
from headwater.files.safetensors import read_header
from tiny_atlas import build_here, save_corpus, save_model

PAGE = (Path(__file__).parents[2] / "docs" / "atlas-format.md").read_text()
TYPES = {
    "USMALLINT": "u16", "UINTEGER": "u32", "SMALLINT": "i16", "INTEGER": "i32", "BIGINT": "i64",
    "FLOAT": "f32", "DOUBLE": "f64", "BOOLEAN": "bool", "VARCHAR": "text",
}  # fmt: skip
OF_A_CORPUS = {"count", "log_likelihood"}


def documented(title):
    """Columns and types of a section's table."""
    section = PAGE.split(f"\n## {title}\n")[1].split("\n## ")[0]
    rows = re.findall(r"^\| (`.*?`) \| (\w+) \| ", section, re.MULTILINE)
    return [(name, kind) for names, kind in rows for name in re.findall("`(.*?)`", names)]


@pytest.fixture(scope="module", params=[True, False], ids=["with a text", "without"])
def atlas(request, tmp_path_factory):
    place = tmp_path_factory.mktemp("format")
    save_model(place / "model")
    save_corpus(place / "corpus")
    build_here(place, place / "atlas", with_text=request.param)
    return place / "atlas"


def test_every_column_of_every_table_is_described_with_its_type(atlas):
    for file in read_manifest(atlas).files:
        if file.table is None:
            continue
        kind, *rest = file.table.split("/")
        title = (
            "trigrams/by_source/000.parquet" if kind == "trigrams" else f"{kind}/HEAD.parquet" if rest else f"{kind}.parquet"
        )
        found = [(row[0], TYPES[row[1]]) for row in duckdb.execute(f"DESCRIBE FROM '{atlas / file.path}'").fetchall()]
        there = documented(title)
        has_text = any("evidence" in path.name for path in atlas.iterdir())
        assert found == [
            (name, kind) for name, kind in there if title != "bigrams.parquet" or has_text or name not in OF_A_CORPUS
        ]


def test_every_line_is_described_with_its_type(atlas):
    for file in sorted((atlas / "lines").iterdir()):
        entries = {entry.name: entry.dtype.replace("float", "f").replace("int", "i") for entry in read_header(file).entries}
        section = PAGE.split("\n## lines/HEAD.safetensors\n")[1].split("\n## ")[0]
        if file.name == "direct.safetensors":
            assert all(f"`{name}`" in section.split("lines/direct.safetensors")[1] for name in entries)
        else:
            assert entries == dict(documented("lines/HEAD.safetensors"))


def test_every_file_is_in_the_page_and_every_file_of_the_page_is_there(atlas):
    """By kinds: heads and parts are many."""
    kinds = {
        re.sub(r"L\d+H\d+(\.\d+)?", "HEAD", re.sub(r"/\d+\.parquet", "/000.parquet", file.path))
        for file in read_manifest(atlas).files
    }
    drawn = PAGE.split("```")[1]
    for kind in kinds:
        folder, _, name = kind.rpartition("/")
        assert (f"{folder}/…" in drawn and name == "000.parquet") or kind in drawn, kind
    from_text = {"evidence.parquet", "lines_of_text.parquet", "agreement.parquet", "bugs.parquet"}
    named = set(re.findall(r"[\w/]+\.(?:parquet|json|safetensors)", drawn)) - {"manifest.json"}
    has_text = (atlas / "evidence.parquet").exists()
    assert named - kinds == (set() if has_text else from_text)


def test_every_key_of_the_manifest_is_described(atlas):
    plain = json.loads((atlas / "manifest.json").read_bytes())
    section = PAGE.split("\n## manifest.json\n")[1].split("\n## ")[0]
    rows = dict(re.findall(r"^\| `(\w+)` \| (.*) \|$", section, re.MULTILINE))
    assert list(plain) == list(rows)
    for key in ("model", "settings", "plan"):
        assert set(plain[key]) <= set(re.findall(r"`(\w+)`", rows[key])), key
    assert {name for file in plain["files"] for name in file} <= set(re.findall(r"`(\w+)`", rows["files"]))


def test_a_manifest_can_be_checked_as_the_page_says(atlas):
    data = (atlas / "manifest.json").read_bytes()
    plain = json.loads(data)
    told = plain.pop("sha256")
    assert hashlib.sha256(json.dumps(plain, separators=(",", ":")).encode("ascii")).hexdigest() == told
    assert json.dumps({**plain, "sha256": told}, indent=1, ensure_ascii=False).encode() + b"\n" == data
    for file in plain["files"]:
        content = (atlas / file["path"]).read_bytes()
        assert (len(content), hashlib.sha256(content).hexdigest()) == (file["bytes"], file["sha256"])


def test_rows_stand_in_the_order_that_the_page_says(atlas):
    orders = {
        "says": "source, place", "seeks": "dest, place", "sought": "source, place", "said": "out, place", "bigrams": "token, place",
        "strongest": "head, place", "vocab": "id", "trigrams/by_source": "source, -abs(lift), head, dest, out",
        "trigrams/by_dest": "dest, -abs(lift), head, source, out", "trigrams/by_out": "out, -abs(lift), head, source, dest",
    }  # fmt: skip
    seen = set()
    for file in read_manifest(atlas).files:
        kind = file.table if file.table in orders else (file.table or "").split("/")[0]
        if kind in orders:
            seen.add(kind)
            rows = f"FROM '{atlas / file.path}'"
            assert duckdb.execute(rows).fetchall() == duckdb.execute(f"{rows} ORDER BY {orders[kind]}").fetchall(), file.path
            key = orders[kind].split(",")[0]
            if file.first is not None:
                assert duckdb.execute(f"{rows} SELECT min({key}), max({key}), count(*)").fetchone() == (
                    file.first,
                    file.last,
                    file.rows,
                )
    assert seen == set(orders)


def test_the_query_of_the_page_runs(atlas):
    query = re.search(r"```sql\n(.*?)```", PAGE, re.DOTALL)[1].replace("ATLAS", str(atlas)).replace("' self'", "'e'")
    found = duckdb.execute(query).fetchall()
    assert 0 < len(found) <= 20
    assert [row[3] for row in found] == sorted((row[3] for row in found), reverse=True)
