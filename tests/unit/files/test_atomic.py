"""A folder is replaced in one step, or stays."""

import errno
import os

import pytest

from headwater.errors import InputError
from headwater.files import atomic


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
