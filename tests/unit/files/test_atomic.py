import os
import stat

import pytest
import torch

from headwater.files.atomic import new_folder, write_file
from headwater.files.safetensors import write_tensors


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
