"""The bytes of a part of an atlas: whoever changes them changes the format."""

import hashlib
import struct

import duckdb
import numpy as np
import pytest

from headwater.files.tables import write_table

WRITTEN = {"2.0.0": "87899e7518c3258b9e5e2b460e7608e5aebbe4f55a88e62b947bdd730d0de3b2"}
"""The SHA-256 of the part below, by the version of DuckDB that writes it: it names itself in the file."""
KINDS = {
    "head": np.uint16,
    **dict.fromkeys(("source", "dest", "out"), np.uint32),
    **dict.fromkeys(("score", "lift"), np.float32),
}


@pytest.fixture
def part(tmp_path):
    """A fixed part of joined rows, three row groups long."""
    count = 5_000
    numbers = np.arange(count)
    columns = {
        "head": numbers % 3,
        "source": numbers % 977,
        "dest": numbers * 7 % 971,
        "out": numbers // 25,
        "score": (numbers % 25) / 8,
        "lift": (25 - numbers % 25) / 16,
    }
    path = tmp_path / "000.parquet"
    assert write_table(path, {name: column.astype(KINDS[name]) for name, column in columns.items()}, groups=2_048) == count
    return path


def test_its_bytes_are_what_they_were(part):
    golden = WRITTEN.get(duckdb.__version__)
    if golden is None:
        pytest.skip(f"no bytes are known of DuckDB {duckdb.__version__}")
    assert hashlib.sha256(part.read_bytes()).hexdigest() == golden


def test_it_is_parquet_from_end_to_end(part):
    data = part.read_bytes()
    assert data[:4] == data[-4:] == b"PAR1"
    (length,) = struct.unpack("<I", data[-8:-4])
    assert 8 < length < len(data) - 12


def test_its_schema_is_flat_and_its_pages_are_zstd(part):
    schema = duckdb.execute("SELECT name, type, converted_type, num_children FROM parquet_schema(?)", [str(part)]).fetchall()
    assert schema[0][3] == len(KINDS)
    assert schema[1:] == [
        ("head", "INT32", "UINT_16", None),
        ("source", "INT32", "UINT_32", None),
        ("dest", "INT32", "UINT_32", None),
        ("out", "INT32", "UINT_32", None),
        ("score", "FLOAT", None, None),
        ("lift", "FLOAT", None, None),
    ]
    codecs = duckdb.execute("SELECT DISTINCT compression FROM parquet_metadata(?)", [str(part)]).fetchall()
    assert codecs == [("ZSTD",)]


def test_its_row_groups_tell_the_ids_in_them(part):
    """A search passes over a group whose ids cannot be meant."""
    groups = duckdb.execute(
        "SELECT row_group_num_rows, stats_min_value, stats_max_value FROM parquet_metadata(?) WHERE path_in_schema = 'out' ORDER BY row_group_id",
        [str(part)],
    ).fetchall()
    assert [(rows, int(least), int(most)) for rows, least, most in groups] == [
        (2_048, 0, 81),
        (2_048, 81, 163),
        (904, 163, 199),
    ]


def test_another_reader_reads_the_same(part):
    parquet = pytest.importorskip("pyarrow.parquet")
    table = parquet.read_table(part)
    assert {name: str(kind) for name, kind in zip(table.column_names, table.schema.types, strict=True)} == {
        name: {"float32": "float"}.get(np.dtype(kind).name, np.dtype(kind).name) for name, kind in KINDS.items()
    }
    assert table["out"].to_pylist() == (np.arange(5_000) // 25).tolist()
    assert table["lift"].to_pylist() == ((25 - np.arange(5_000) % 25) / 16).tolist()
