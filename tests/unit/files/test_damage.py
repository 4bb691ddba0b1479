"""Every container under random damage: a flipped bit, a cut, a file that shrinks while it is read."""

import struct
import subprocess
import sys
import zipfile
from dataclasses import dataclass
from functools import cache
from pathlib import Path

import gguf as peer
import numpy as np
import pytest
import torch
from hypothesis import given
from hypothesis import strategies as st
from safetensors.torch import save_file

from headwater.errors import ModelFileError
from headwater.files import gguf, pickles, safetensors
from headwater.model.foreign import llama2c
from headwater.text.tokenizer import byte_tokenizer, read_tokenizer

VALUES = torch.arange(48.0).reshape(6, 8)


def write_gguf(path):
    writer = peer.GGUFWriter(path, "llama")
    writer.add_array("words", ["a", "b"])
    writer.add_tensor("q", peer.quants.quantize(np.ones((2, 32), np.float32), peer.GGMLQuantizationType.Q8_0), raw_dtype=8)
    writer.add_tensor("w", VALUES.numpy())  # last, because it ends without padding that could be lost
    writer.write_header_to_file()
    writer.write_kv_data_to_file()
    writer.write_tensors_to_file()
    writer.close()


def read_gguf(path):
    return {entry.name: gguf.read_tensor(path, entry) for entry in gguf.look(path).tensors}


def write_llama2c(path):
    numbers = 12 + 4 + 16 + 8 + 8 + 16 + 4 + 48 + 4 + 2 + 2
    path.write_bytes(struct.pack("<7i", 4, 4, 1, 2, 1, 3, 2) + np.ones(numbers, np.float32).tobytes())


@dataclass(frozen=True)
class Container:
    """How a kind of file is written and read; ``checked`` kinds know when their numbers have changed."""

    name: str
    write: object
    read: object
    checked: bool = False


CONTAINERS = [
    Container("model.safetensors", lambda path: save_file({"w": VALUES}, path), safetensors.read_tensors),
    Container("model.pt", lambda path: torch.save({"w": VALUES, "n": {"a": [1, "x"]}}, path), pickles.read, checked=True),
    Container("model.gguf", write_gguf, read_gguf),
    Container("stories.bin", write_llama2c, lambda path: llama2c.look(path).read()),
    Container("tokenizer.json", lambda path: path.write_bytes(byte_tokenizer().to_json()), read_tokenizer),
]
each_container = pytest.mark.parametrize("container", CONTAINERS, ids=lambda container: container.name)


@cache
def whole(name, folder):
    path = Path(folder, name)
    next(container for container in CONTAINERS if container.name == name).write(path)
    return path.read_bytes()


@each_container
@given(place=st.floats(0, 1, exclude_max=True), bit=st.integers(0, 7))
def test_a_flipped_bit_is_refused_or_changes_a_number(tmp_path_factory, container, place, bit):
    folder = tmp_path_factory.getbasetemp()
    data = bytearray(whole(container.name, folder))
    data[int(place * len(data))] ^= 1 << bit
    path = folder / f"flipped-{container.name}"
    path.write_bytes(data)
    try:
        read = container.read(path)
    except ModelFileError:
        return
    if container.checked:
        assert torch.equal(read["w"], VALUES)


@each_container
@given(place=st.floats(0, 1, exclude_max=True))
def test_a_file_cut_short_is_refused(tmp_path_factory, container, place):
    folder = tmp_path_factory.getbasetemp()
    data = whole(container.name, folder)
    path = folder / f"cut-{container.name}"
    path.write_bytes(data[: int(place * len(data))])
    with pytest.raises(ModelFileError):
        container.read(path)


SHRINK = """
import os, pathlib, sys
from headwater.errors import ModelFileError
from headwater.files import gguf
from headwater.model.foreign import llama2c
path = pathlib.Path(sys.argv[1])

def shrink(event, arguments):
    # After the header has been looked at, the numbers are gone before they are read.
    if event == "import" and arguments[0] == "torch":
        os.truncate(path, os.path.getsize(path) // 2)

sys.addaudithook(shrink)
readers = {
    ".bin": lambda path: llama2c.look(path).read(),
    ".gguf": lambda path: [gguf.read_tensor(path, entry) for entry in gguf.look(path).tensors],
}
try:
    readers[path.suffix](path)
except ModelFileError as error:
    print("refused", error)
"""


@pytest.mark.parametrize("name", ["model.gguf", "stories.bin"])
def test_a_file_that_shrinks_between_look_and_read_is_refused(tmp_path, name):
    path = tmp_path / name
    next(container for container in CONTAINERS if container.name == name).write(path)
    result = subprocess.run([sys.executable, "-c", SHRINK, str(path)], capture_output=True, text=True, check=False)
    assert (result.returncode, result.stdout[:7]) == (0, "refused"), result.stderr


def test_a_torch_file_that_shrinks_while_it_is_read_is_refused(tmp_path, monkeypatch):
    path = tmp_path / "model.pt"
    torch.save({"w": torch.zeros(100_000)}, path)
    checked = pickles.check_sums

    def check_and_shrink(archive):
        checked(archive)
        with path.open("r+b") as file:
            file.truncate(1000)

    monkeypatch.setattr(pickles, "check_sums", check_and_shrink)
    with pytest.raises(ModelFileError, match="torch cannot load it"):
        pickles.read(path)


def test_a_safetensors_file_that_shrinks_after_its_header_is_refused(tmp_path, monkeypatch):
    path = tmp_path / "model.safetensors"
    save_file({"w": torch.zeros(100_000)}, path)
    checked = safetensors.read_header

    def check_and_shrink(path):
        header = checked(path)
        with path.open("r+b") as file:
            file.truncate(1000)
        return header

    monkeypatch.setattr(safetensors, "read_header", check_and_shrink)
    with pytest.raises(ModelFileError, match="cut short"):
        safetensors.read_tensors(path)


HOSTILE = """
import pathlib, resource, sys
from headwater.errors import ModelFileError
from headwater.files import gguf, pickles, safetensors
from headwater.model.foreign import llama2c
from headwater.text.tokenizer import read_tokenizer
path = pathlib.Path(sys.argv[1])
readers = {".safetensors": safetensors.read_header, ".pt": pickles.look, ".bin": llama2c.look, ".gguf": gguf.look, ".json": read_tokenizer}
before = resource.getrusage(resource.RUSAGE_SELF).ru_maxrss
try:
    readers[path.suffix](path)
except ModelFileError:
    print(resource.getrusage(resource.RUSAGE_SELF).ru_maxrss - before)
"""


@pytest.mark.parametrize(
    "name", ["zero-stride.pt", "memo.pt", "laughs.pt", "array.gguf", "header.safetensors", "giant.bin", "regex.json"]
)
def test_a_hostile_file_costs_no_memory(tmp_path, name):
    seeds = Path(__file__).parents[3] / "fuzz" / "seeds"
    path = tmp_path / name
    match name:
        case "zero-stride.pt":
            torch.save(torch.zeros(1).expand(2**34), path)
        case "memo.pt" | "laughs.pt":
            with zipfile.ZipFile(path, "w") as file:
                file.writestr("m/data.pkl", (seeds / "pickle" / {"memo.pt": "sparse-memo"}.get(name, "laughs")).read_bytes())
        case "array.gguf":
            path.write_bytes((seeds / "gguf" / "giant-array").read_bytes())
        case "header.safetensors":
            path.write_bytes((seeds / "safetensors" / "giant-header").read_bytes())
        case "giant.bin":
            path.write_bytes((seeds / "llama2c" / "giant").read_bytes())
        case _:
            path.write_bytes((seeds / "tokenizer" / "regex").read_bytes())
    result = subprocess.run([sys.executable, "-c", HOSTILE, str(path)], capture_output=True, text=True, check=False)
    assert result.returncode == 0, result.stderr
    assert int(result.stdout) < 64 * 1024, "kilobytes"
