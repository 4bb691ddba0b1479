"""The record that an atlas is finished."""

import json

import numpy as np
import pytest

from headwater.atlas.manifest import FORMAT, commit, read_manifest
from headwater.errors import ModelFileError
from headwater.files.tables import write_table

ABOUT = {
    "model": {"name": "small", "sha256": "0" * 64, "config": {"vocab": 4, "scale": 1e-05}},
    "settings": {"others": 3, "norms": "é\x1f"},
    "plan": {"rows": 65_536},
    "heads": ["L0H0", "L0H1"],
    "vocab": 4,
}


@pytest.fixture
def folder(tmp_path):
    atlas = tmp_path / "atlas"
    (atlas / "trigrams" / "by_out").mkdir(parents=True)
    (atlas / "says").mkdir()
    (atlas / "plan.json").write_text("{}")
    write_table(atlas / "vocab.parquet", {"id": np.arange(4, dtype=np.uint32), "text": ["a", "b", None, "d"]})
    for name, outs in (("000", [0, 1, 1]), ("001", [2, 3]), ("002", [])):
        write_table(atlas / "trigrams" / "by_out" / f"{name}.parquet", {"out": np.array(outs, np.uint32)})
    for first in (0, 2):
        columns = {"source": np.array([first, first + 1], np.uint32), "place": np.array([1, 1], np.int16)}
        write_table(atlas / "says" / f"L0H1.{first:05}.parquet", columns)
    return atlas


def test_what_is_committed_is_read_back(folder):
    manifest = commit(folder, **ABOUT)
    assert read_manifest(folder) == manifest
    assert manifest.format == FORMAT
    assert [file.path for file in manifest.files] == [
        "plan.json",
        "says/L0H1.00000.parquet",
        "says/L0H1.00002.parquet",
        "trigrams/by_out/000.parquet",
        "trigrams/by_out/001.parquet",
        "trigrams/by_out/002.parquet",
        "vocab.parquet",
    ]
    assert manifest.tables == ("says/L0H1", "trigrams/by_out", "vocab")
    assert [(file.rows, file.first, file.last) for file in manifest.parts("trigrams/by_out")] == [
        (3, 0, 1),
        (2, 2, 3),
        (0, None, None),
    ]
    assert [(file.rows, file.first, file.last) for file in manifest.parts("says/L0H1")] == [(2, 0, 1), (2, 2, 3)]
    assert [(file.rows, file.first) for file in manifest.parts("vocab")] == [(4, None)]
    assert {"headwater", "python", "numpy", "torch", "duckdb"} <= set(manifest.libraries)


def test_two_commits_of_the_same_files_have_the_same_bytes(folder):
    commit(folder, **ABOUT)
    before = (folder / "manifest.json").read_bytes()
    commit(folder, **ABOUT)
    assert (folder / "manifest.json").read_bytes() == before


def test_work_in_between_is_not_listed_and_what_killed_writes_left_is_removed(folder):
    (folder / ".work").mkdir()
    (folder / ".work" / "half.parquet").write_bytes(b"half")
    left = folder / "says" / ".L0H1.parquet.x7.part"
    left.write_bytes(b"half")
    assert not any("half" in file.path or "part" in file.path.split(".") for file in commit(folder, **ABOUT).files)
    assert not left.exists()
    assert (folder / ".work" / "half.parquet").exists()


def test_every_flipped_bit_of_the_manifest_is_found(folder):
    commit(folder, **ABOUT)
    path = folder / "manifest.json"
    whole = path.read_bytes()
    lots = np.random.default_rng(0)
    # Besides any bit: the one between small and capital letters, which a number's e and a letter's escape would survive.
    for place in [*range(0, len(whole), 9), *(n for n, letter in enumerate(whole) if letter in b"ef")]:
        changed = bytearray(whole)
        changed[place] ^= 32 if whole[place] in b"ef" else 1 << int(lots.integers(8))
        path.write_bytes(changed)
        with pytest.raises(ModelFileError):
            read_manifest(folder)


def rewrite(folder, **changes):
    """A manifest with a hash that fits, as somebody could write it who means harm."""
    from headwater.atlas.manifest import written

    plain = json.loads((folder / "manifest.json").read_bytes())
    del plain["sha256"]
    (folder / "manifest.json").write_bytes(written({**plain, **changes}))


@pytest.mark.parametrize(
    "path", ["../other.parquet", "/etc/passwd", "says/../../x.parquet", "a//b", ".hidden", "x*.parquet", ""]
)
def test_a_file_outside_the_atlas_is_refused(folder, path):
    commit(folder, **ABOUT)
    rewrite(folder, files=[{"path": path, "bytes": 1, "sha256": "0" * 64}])
    with pytest.raises(ModelFileError, match="inside the atlas"):
        read_manifest(folder)


@pytest.mark.parametrize("changes", [{"more": 1}, {"heads": "L0H0"}, {"vocab": "4"}, {"files": {}}, {"model": None}])
def test_a_manifest_of_another_shape_is_refused(folder, changes):
    commit(folder, **ABOUT)
    rewrite(folder, **changes)
    with pytest.raises(ModelFileError, match="build the atlas again"):
        read_manifest(folder)


def test_an_unfinished_atlas_says_how_to_go_on(folder):
    with pytest.raises(ModelFileError, match="not finished") as told:
        read_manifest(folder)
    assert "headwater atlas build again" in told.value.do


@pytest.mark.parametrize("there", [True, False])
def test_what_is_no_atlas_is_refused(tmp_path, there):
    if there:
        (tmp_path / "x").mkdir()
    with pytest.raises(ModelFileError, match="no atlas" if there else "not there"):
        read_manifest(tmp_path / "x")


@pytest.mark.parametrize("name", ["headwater-atlas/2", "headwater-corpus/1", None])
def test_another_format_is_refused_by_name(folder, name):
    (folder / "manifest.json").write_text(json.dumps({"format": name}))
    with pytest.raises(ModelFileError, match=repr(name)):
        read_manifest(folder)
