"""A folder is replaced in one step, or stays; what is new has the rights of any new file."""

import errno
import os
import stat

import pytest
import torch

from headwater.errors import InputError
from headwater.files import atomic
from headwater.files.atomic import new_folder, write_file
from headwater.files.safetensors import write_tensors


@pytest.fixture
def old(tmp_path):
    (tmp_path / "model").mkdir()
    (tmp_path / "model" / "a").write_text("old")
    return tmp_path / "model"


def put_new(folder):
    with atomic.new_folder(folder, overwrite=True, ours=("a",)) as temporary:
        (temporary / "a").write_text("new")


def no_swap(one, other):
    """A system that has no such call."""
    return False


def test_without_a_swap_the_old_folder_comes_back_when_the_new_one_cannot_take_its_name(old, monkeypatch):
    rename = type(old).rename

    def refuses(self, target):
        if self.name.endswith(".part"):
            raise OSError(errno.ENOSPC, os.strerror(errno.ENOSPC))
        return rename(self, target)

    monkeypatch.setattr(atomic, "_swap", no_swap)
    with monkeypatch.context() as patch:
        patch.setattr(type(old), "rename", refuses)
        with pytest.raises(InputError, match="No space left"):
            put_new(old)
    assert (old / "a").read_text() == "old"
    assert [path.name for path in old.parent.iterdir()] == ["model"]
    put_new(old)
    assert (old / "a").read_text() == "new"
    assert [path.name for path in old.parent.iterdir()] == ["model"]


def test_a_swap_that_fails_is_told_and_not_tried_in_two_steps(old, monkeypatch):
    def fails(*_):
        atomic.ctypes.set_errno(errno.EIO)
        return -1

    monkeypatch.setattr(atomic.ctypes, "CDLL", lambda *_, **__: type("Library", (), {"renameat2": staticmethod(fails)}))
    with pytest.raises(InputError, match="Input/output error"):
        put_new(old)
    assert (old / "a").read_text() == "old"


@pytest.fixture
def shared(monkeypatch):
    """A umask that lets the group read, which nobody else may ask for: that would change it for all threads."""
    before = os.umask(0o027)
    with monkeypatch.context() as patch:
        patch.setattr(os, "umask", None)
        yield
    os.umask(before)


def rights(path):
    return stat.S_IMODE(path.stat().st_mode)


@pytest.mark.usefixtures("shared")
def test_what_is_written_has_the_rights_of_any_new_file(tmp_path):
    with new_folder(tmp_path / "folder") as folder:
        write_file(folder / "words", b"words")
        write_tensors(folder / "tensors", {"w": torch.zeros(3)})
        (folder / "inner").mkdir()
    assert [rights(tmp_path / "folder" / name) for name in (".", "inner", "words", "tensors")] == [0o750, 0o750, 0o640, 0o640]
    write_tensors(tmp_path / "alone", {"w": torch.zeros(3)})
    assert rights(tmp_path / "alone") == 0o640
