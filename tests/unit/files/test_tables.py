"""Parquet files from arrays and back."""

import hashlib
import subprocess
import sys
import threading
import time
from pathlib import Path

import duckdb
import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from headwater.errors import InputError, ModelFileError
from headwater.files.tables import NUMBERS, connect, read_table, write_table

TEXTS = [" self", None, "", "a\0b", 'say "x",\n', "é", "\u2028", "[*]"]


def sha(path):
    return hashlib.sha256(path.read_bytes()).hexdigest()


def every_kind(count):
    lots = np.random.default_rng(count)
    return {f"a_{kind}": lots.integers(0, 2, count).astype(kind) for kind in NUMBERS} | {
        "text": (TEXTS * count)[:count],
        "none": [None] * count,
    }


@pytest.mark.parametrize("count", [0, 1, 5, 5_000])
def test_what_is_written_is_read_back_with_its_kinds(tmp_path, count):
    columns = every_kind(count)
    assert write_table(tmp_path / "x.parquet", columns, groups=2_048) == count
    read = read_table(tmp_path / "x.parquet")
    assert list(read) == list(columns)
    for name, column in columns.items():
        assert read[name].tolist() == list(column), name
        assert read[name].dtype == (column.dtype if isinstance(column, np.ndarray) else object), name


@given(st.lists(st.tuples(st.floats(width=64), st.integers(-(2**63), 2**63 - 1), st.none() | st.text(max_size=5))))
def test_numbers_keep_their_bits_and_texts_their_letters(tmp_path_factory, rows):
    path = tmp_path_factory.mktemp("x") / "x.parquet"
    floats, whole, texts = zip(*rows, strict=True) if rows else ((), (), ())
    write_table(path, {"f": np.array(floats, np.float64), "i": np.array(whole, np.int64), "t": list(texts)})
    read = read_table(path)
    given_floats = np.array(floats, np.float64)
    there = ~np.isnan(given_floats)
    assert read["f"][there].tobytes() == given_floats[there].tobytes()
    assert np.isnan(read["f"][~there]).all()
    assert read["i"].tolist() == list(whole)
    assert read["t"].tolist() == list(texts)


def test_masked_numbers_are_null_and_masked_again(tmp_path):
    places = np.ma.masked_array(np.array([4, 5, 6], np.int32), [False, True, False])
    write_table(tmp_path / "x.parquet", {"in_model": places})
    read = read_table(tmp_path / "x.parquet")["in_model"]
    assert (read.dtype, read.tolist()) == (np.int32, [4, None, 6])


def test_equal_arrays_give_equal_bytes_later_and_in_another_process(tmp_path):
    write_table(tmp_path / "one.parquet", every_kind(5_000), groups=2_048)
    time.sleep(1.1)
    write_table(tmp_path / "two.parquet", every_kind(5_000), groups=2_048)
    other = (
        "import sys; sys.path.insert(0, sys.argv[2]); from pathlib import Path; import test_tables as t;"
        "t.write_table(Path(sys.argv[1]), t.every_kind(5_000), groups=2_048)"
    )
    here = Path(__file__).parent
    subprocess.run([sys.executable, "-c", other, tmp_path / "three.parquet", here], check=True)
    assert sha(tmp_path / "one.parquet") == sha(tmp_path / "two.parquet") == sha(tmp_path / "three.parquet")


def test_views_and_turned_arrays_are_written_as_they_read(tmp_path):
    square = np.arange(12, dtype=np.float64).reshape(3, 4)
    columns = {"down": square[:, 1], "back": np.arange(3, dtype=np.uint32)[::-1]}
    write_table(tmp_path / "x.parquet", columns)
    read = read_table(tmp_path / "x.parquet")
    assert (read["down"].tolist(), read["back"].tolist()) == ([1.0, 5.0, 9.0], [2, 1, 0])


def test_neither_pandas_nor_pyarrow_is_needed(tmp_path):
    script = """
import sys
for name in ("pandas", "pyarrow", "polars"):
    sys.modules[name] = None
from pathlib import Path
import numpy as np
from headwater.files.tables import read_table, write_table
path = Path(sys.argv[1])
write_table(path, {"id": np.arange(3, dtype=np.uint32), "text": ["a", None, "c"], "x": np.ma.masked_array([1, 2, 3], [0, 1, 0])})
assert read_table(path)["text"].tolist() == ["a", None, "c"]
assert read_table(path)["x"].tolist() == [1, None, 3]
"""
    subprocess.run([sys.executable, "-c", script, tmp_path / "x.parquet"], check=True)


def test_row_groups_are_as_large_as_asked_for(tmp_path):
    write_table(tmp_path / "x.parquet", {"a": np.arange(10_000)}, groups=4_096)
    groups = duckdb.execute(
        "SELECT DISTINCT row_group_id, row_group_num_rows FROM parquet_metadata(?) ORDER BY 1", [str(tmp_path / "x.parquet")]
    )
    assert groups.fetchall() == [(0, 4_096), (1, 4_096), (2, 1_808)]


def test_several_files_are_read_one_after_the_other(tmp_path):
    paths = [tmp_path / f"{part}.parquet" for part in "bac"]
    for number, path in enumerate(paths):
        write_table(path, {"a": np.full(3_000, number, np.int32), "b": np.arange(3_000)}, groups=2_048)
    read = read_table(paths, ["a"])
    assert list(read) == ["a"]
    assert read["a"].tolist() == [0] * 3_000 + [1] * 3_000 + [2] * 3_000


def test_only_rows_between_two_values_are_read(tmp_path):
    write_table(
        tmp_path / "x.parquet", {"a": np.repeat(np.arange(100, dtype=np.uint32), 100), "b": np.arange(10_000)}, groups=2_048
    )
    assert read_table(tmp_path / "x.parquet", ["b"], between=("a", 20, 21))["b"].tolist() == list(range(2_000, 2_200))


def test_a_folder_whose_name_looks_like_a_pattern_is_that_folder(tmp_path):
    odd, like = tmp_path / "we[i]rd *?'s", tmp_path / "weird xy's"
    for number, folder in enumerate((odd, like)):
        folder.mkdir()
        write_table(folder / "x.parquet", {"a": np.array([number])})
    assert read_table(odd / "x.parquet")["a"].tolist() == [0]
    with connect(odd) as database:
        from headwater.files.tables import parquet

        assert database.execute(f"SELECT a FROM {parquet(odd / 'x.parquet')}").fetchall() == [(0,)]


@pytest.mark.parametrize(
    ("columns", "words"),
    [
        ({"a": np.zeros(2), "b": np.zeros(3)}, "one length"),
        ({}, "one length"),
        ({"a": np.zeros((2, 2))}, "2 axes"),
        ({"a": np.zeros(2, complex)}, "complex128"),
        ({"a": np.array([1, "x"], object)}, "texts or None"),
        ({'a"; drop': np.zeros(2)}, "small letters"),
    ],
)
def test_what_is_no_table_is_refused_and_nothing_is_left(tmp_path, columns, words):
    with pytest.raises(InputError, match=words):
        write_table(tmp_path / "x.parquet", columns)
    assert list(tmp_path.iterdir()) == []


def test_a_place_that_cannot_be_written_is_told(tmp_path):
    with pytest.raises(InputError, match="cannot be written"):
        write_table(tmp_path / "no" / "x.parquet", {"a": np.zeros(2)})


def test_a_full_disk_is_told_and_leaves_what_was_there():
    full = Path("/dev/full")
    if not full.exists():
        pytest.skip("this system has no /dev/full")
    from headwater.files.tables import _as_ours

    with pytest.raises(InputError, match="cannot be written"), _as_ours(full, "written"):
        duckdb.execute("COPY (SELECT * FROM range(100000)) TO '/dev/full' (FORMAT parquet, USE_TMP_FILE false)")


@pytest.mark.parametrize("damage", ["cut", "empty", "other", "missing", "header"])
def test_a_damaged_file_is_refused(tmp_path, damage):
    path = tmp_path / "x.parquet"
    write_table(path, every_kind(3_000))
    data = path.read_bytes()
    path.write_bytes({"cut": data[:500], "empty": b"", "other": b"id,text\n1,a\n", "missing": b"", "header": data}[damage])
    if damage == "missing":
        path.unlink()
    if damage == "header":
        path.write_bytes(data[:-40] + b"\xff" * 32 + data[-8:])
    with pytest.raises(ModelFileError, match=r"x\.parquet"):
        read_table(path)


def test_whatever_bits_change_the_next_file_is_read(tmp_path):
    """Of some damage DuckDB says that it is its own fault, and answers no more questions."""
    path, good = tmp_path / "x.parquet", tmp_path / "good.parquet"
    columns = {"id": np.arange(6_000, dtype=np.uint32), "word": [None if n % 7 == 0 else f"w{n % 50}" for n in range(6_000)]}
    for each in (path, good):
        write_table(each, {**columns, "text": [f"t{n}" for n in range(6_000)]}, groups=2_048)
    whole, lots, refused = path.read_bytes(), np.random.default_rng(0), 0
    # The first is such damage in DuckDB 2.0.
    for place, bit in [(-272, 0), *zip(lots.integers(-2_500, 0, 60).tolist(), lots.integers(0, 8, 60).tolist(), strict=True)]:
        changed = bytearray(whole)
        changed[place] ^= 1 << bit
        path.write_bytes(changed)
        try:
            read_table(path)
        except ModelFileError:
            refused += 1
        assert read_table(good, ["id"])["id"][-1] == 5_999
    assert refused > 10


def test_a_column_that_is_not_there_is_refused(tmp_path):
    write_table(tmp_path / "x.parquet", {"a": np.zeros(2)})
    with pytest.raises(ModelFileError, match="cannot be read"):
        read_table(tmp_path / "x.parquet", ["b"])


def test_a_connection_reaches_its_folder_and_nothing_else(tmp_path):
    inside, outside = tmp_path / "in", tmp_path / "out.parquet"
    inside.mkdir()
    write_table(inside / "x.parquet", {"a": np.arange(3)})
    write_table(outside, {"a": np.arange(3)})
    with connect(inside) as database:
        assert database.execute(f"SELECT sum(a) FROM '{inside}/x.parquet'").fetchall() == [(3,)]
        for query in (
            f"SELECT * FROM '{outside}'",
            f"SELECT * FROM '{inside}/../out.parquet'",
            f"COPY (SELECT 1) TO '{outside}'",
            f"ATTACH '{tmp_path}/x.db'",
            "INSTALL httpfs",
            "SET enable_external_access = true",
            "SET threads = 4",
        ):
            with pytest.raises(duckdb.Error, match=r"disabled|locked|Cannot"):
                database.execute(query)


def test_many_threads_write_at_once(tmp_path):
    def write(number):
        write_table(tmp_path / f"{number}.parquet", {"a": np.full(50_000, number)})

    threads = [threading.Thread(target=write, args=(number,)) for number in range(8)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    assert [read_table(tmp_path / f"{number}.parquet")["a"].max() for number in range(8)] == list(range(8))
