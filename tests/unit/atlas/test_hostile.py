"""What people do to an atlas by mistake, or on purpose."""

import os
import shutil
from dataclasses import replace

import pytest

from headwater.atlas.atlas import open_atlas
from headwater.atlas.build import build_atlas
from headwater.atlas.diff import diff
from headwater.atlas.export import export
from headwater.atlas.manifest import read_manifest
from headwater.atlas.verify import verify
from headwater.errors import HeadwaterError, InputError, ModelFileError
from headwater.files.atomic import new_file
from small_atlas import small_atlas
from tiny_atlas import CHOSEN, save_model


@pytest.fixture(scope="module")
def small(tmp_path_factory):
    return small_atlas(tmp_path_factory.mktemp("hostile") / "atlas")


@pytest.fixture
def folder(small, tmp_path):
    """A copy, to do things to."""
    shutil.copytree(small.folder, tmp_path / "atlas")
    return tmp_path / "atlas"


def test_a_link_or_a_pipe_is_never_replaced_by_a_file(tmp_path):
    # As root, a file in the place of /dev/stdout is there for every other process too.
    (tmp_path / "file").write_text("mine")
    (tmp_path / "link").symlink_to(tmp_path / "file")
    (tmp_path / "nowhere").symlink_to(tmp_path / "nothing")
    os.mkfifo(tmp_path / "pipe")
    before = sorted(path.name for path in tmp_path.iterdir())
    for name in ("link", "nowhere", "pipe"):
        with pytest.raises(InputError, match="a link, a folder or a device"), new_file(tmp_path / name):
            pass
    assert sorted(path.name for path in tmp_path.iterdir()) == before
    assert (tmp_path / "link").is_symlink()
    assert (tmp_path / "pipe").is_fifo()


def test_a_table_cannot_be_exported_over_the_atlas_it_is_from(folder, tmp_path):
    (tmp_path / "way").symlink_to(folder)
    with open_atlas(folder) as atlas:
        for path in (folder / "vocab.parquet", folder / "new.csv", tmp_path / "way" / "vocab.parquet"):
            with pytest.raises(InputError, match="in the atlas itself"):
                export(atlas, "vocab", path, "parquet")
    assert verify(folder).ok


@pytest.mark.parametrize("size", [0, 100])
def test_whatever_is_asked_of_files_cut_short_meanwhile_is_refused(folder, small, tmp_path, size):
    with open_atlas(folder) as atlas, open_atlas(small.folder) as whole:
        for path in [*folder.glob("says/*"), *folder.glob("bigrams.parquet"), *folder.glob("lines/*")]:
            os.truncate(path, size)
        head = atlas.heads[0]
        for ask in (
            lambda: atlas.relation(f"says/{head}"),
            lambda: export(atlas, "says", tmp_path / "x.csv", "csv"),
            lambda: diff(whole, atlas),
            lambda: atlas.lines(head, ("mass",)),
            lambda: atlas.bigrams(0),
        ):
            with pytest.raises(HeadwaterError):
                ask()
    assert not (tmp_path / "x.csv").exists()


def test_lines_are_those_of_heads_and_of_no_other_file(folder):
    shutil.copy(next(folder.glob("lines/*.safetensors")), folder.parent / "other.safetensors")
    with open_atlas(folder) as atlas, pytest.raises(InputError, match="a head of this atlas, or direct"):
        atlas.lines("../../other", ("mass",))


def test_a_file_is_said_to_be_one(tmp_path):
    (tmp_path / "file").write_text("mine")
    with pytest.raises(ModelFileError, match="is a file"):
        read_manifest(tmp_path / "file")


def test_heads_are_found_in_small_letters_too(small):
    with open_atlas(small.folder) as atlas:
        name = atlas.heads[0]
        assert atlas.search(head=f" {name.lower()} ").rows == atlas.search(head=name).rows
        with pytest.raises(InputError, match="at least one"):
            atlas.search(head=[])


@pytest.mark.parametrize("odd", [{"device": "nonsense"}, {"device": "cuda:99"}, {"triples": 10**12}])
def test_what_cannot_be_built_is_refused_before_a_folder_is_made(tmp_path, odd):
    with pytest.raises(HeadwaterError, match=r"device|triples"):
        build_atlas(save_model(tmp_path / "model"), tmp_path / "atlas", replace(CHOSEN, **odd))
    assert not (tmp_path / "atlas").exists()
