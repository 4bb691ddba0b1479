"""Every kind of damage to a finished atlas is found."""

import os
import shutil

import numpy as np
import pytest

from headwater.atlas.verify import verify
from headwater.errors import ModelFileError
from small_atlas import small_atlas


@pytest.fixture(scope="module")
def built(tmp_path_factory):
    folder = tmp_path_factory.mktemp("verify") / "atlas"
    small_atlas(folder)
    return folder


@pytest.fixture
def folder(built, tmp_path):
    return shutil.copytree(built, tmp_path / "atlas")


def found(folder):
    return [(each.path, each.what) for each in verify(folder).findings]


def test_an_atlas_as_it_was_built_has_nothing_to_find(folder):
    told = verify(folder)
    sizes = [path.stat().st_size for path in folder.rglob("*") if path.is_file()]
    assert (told.ok, told.files, told.bytes, told.findings) == (True, len(sizes), sum(sizes), ())
    assert "as they were written" in str(told)
    assert told.plain() == {"path": str(folder), "ok": True, "files": len(sizes), "bytes": sum(sizes), "findings": []}


def flipped(data, lots):
    changed = bytearray(data)
    changed[lots.integers(len(data))] ^= 1 << int(lots.integers(8))
    return bytes(changed)


def test_two_hundred_flipped_bits_are_all_found(folder):
    """One in each file at a time, so that each has to be found for itself."""
    lots, flips = np.random.default_rng(0), 0
    whole = {path: path.read_bytes() for path in folder.rglob("*") if path.is_file() and path.name != "manifest.json"}
    while flips < 200:
        for path, data in whole.items():
            path.write_bytes(flipped(data, lots))
        assert found(folder) == [(name, "changed") for name in sorted(path.relative_to(folder).as_posix() for path in whole)]
        flips += len(whole)
    manifest = (folder / "manifest.json").read_bytes()
    for _ in range(20):
        (folder / "manifest.json").write_bytes(flipped(manifest, lots))
        assert found(folder) == [("manifest.json", "manifest")]


def test_one_flipped_bit_is_told_by_its_file(folder):
    for path in sorted(path for path in folder.rglob("*") if path.is_file())[::4]:
        whole = path.read_bytes()
        path.write_bytes(whole[:-1] + bytes([whole[-1] ^ 1]))
        assert [each.path for each in verify(folder).findings] == [path.relative_to(folder).as_posix()]
        path.write_bytes(whole)


def test_a_file_that_is_cut_or_longer_has_another_size(folder):
    for change in (lambda data: data[:-1], lambda data: data + b"\0", lambda data: b""):
        path = folder / "says" / "L0H1.parquet"
        whole = path.read_bytes()
        path.write_bytes(change(whole))
        assert found(folder) == [("says/L0H1.parquet", "size")]
        path.write_bytes(whole)


def test_a_missing_file_is_found(folder):
    (folder / "lines" / "L0H1.safetensors").unlink()
    assert found(folder) == [("lines/L0H1.safetensors", "missing")]


def test_an_extra_file_is_found_and_work_in_between_is_not_one(folder):
    (folder / ".work").mkdir()
    (folder / ".work" / "x.parquet").write_bytes(b"x")
    (folder / "says" / "L9H9.parquet").write_bytes(b"x")
    (folder / ".hidden").write_bytes(b"x")
    assert found(folder) == [(".hidden", "extra"), ("says/L9H9.parquet", "extra")]


def test_swapped_parts_are_told_as_such(folder):
    one, other = (folder / "says" / f"{head}.parquet" for head in ("L0H0", "L1H0"))
    data = one.read_bytes(), other.read_bytes()
    one.write_bytes(data[1])
    other.write_bytes(data[0])
    findings = verify(folder).findings
    assert [(each.path, each.what) for each in findings] == [("says/L0H0.parquet", "swapped"), ("says/L1H0.parquet", "swapped")]
    assert "says/L1H0.parquet" in findings[0].words


def test_a_renamed_part_is_missing_and_told_where_it_is(folder):
    (folder / "says" / "L0H0.parquet").rename(folder / "says" / "L7H0.parquet")
    findings = verify(folder).findings
    assert [(each.path, each.what) for each in findings] == [("says/L0H0.parquet", "missing"), ("says/L7H0.parquet", "extra")]
    assert "says/L0H0.parquet" in findings[1].words


def test_a_link_in_place_of_a_file_is_found(folder, tmp_path):
    path = folder / "vocab.parquet"
    path.rename(tmp_path / "elsewhere")
    path.symlink_to(tmp_path / "elsewhere")
    assert found(folder) == [("vocab.parquet", "changed")]


@pytest.mark.skipif(os.geteuid() == 0, reason="root may read everything")
def test_a_file_that_may_not_be_read_is_found(folder):
    (folder / "vocab.parquet").chmod(0)
    assert found(folder) == [("vocab.parquet", "unreadable")]


def test_what_is_no_atlas_or_not_finished_is_refused(folder, tmp_path):
    (folder / "manifest.json").unlink()
    with pytest.raises(ModelFileError, match="not finished"):
        verify(folder)
    with pytest.raises(ModelFileError, match="not there"):
        verify(tmp_path / "nothing")


def test_findings_are_listed_for_people(folder):
    (folder / "vocab.parquet").unlink()
    assert "vocab.parquet" in str(verify(folder))
    assert verify(folder).plain()["findings"][0]["what"] == "missing"
