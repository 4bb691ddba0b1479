import json
import struct

import pytest
import torch
from hypothesis import given
from hypothesis import strategies as st
from safetensors.torch import save

from headwater.errors import ModelFileError
from headwater.files.safetensors import read_header, read_tensors

DTYPES = ["float64", "float32", "float16", "bfloat16", "int64", "int32", "int16", "int8", "uint8", "bool"]

tables = st.dictionaries(
    st.text(min_size=1).filter(lambda name: name != "__metadata__"),
    st.tuples(st.sampled_from(DTYPES), st.lists(st.integers(0, 3), max_size=3)),
    max_size=5,
)


@given(table=tables)
def test_what_the_safetensors_package_writes_is_read_bit_for_bit(tmp_path_factory, table):
    path = tmp_path_factory.mktemp("x") / "model.safetensors"
    tensors = {
        name: torch.randint(0, 2, shape).to(getattr(torch, dtype)) if shape else torch.tensor(1).to(getattr(torch, dtype))
        for name, (dtype, shape) in table.items()
    }
    path.write_bytes(save(tensors, {"note": "x"}))
    header = read_header(path)
    assert header.metadata == {"note": "x"}
    assert {entry.name: (entry.dtype, list(entry.shape)) for entry in header.entries} == table
    read = read_tensors(path)
    assert all(read[name].dtype == tensor.dtype and torch.equal(read[name], tensor) for name, tensor in tensors.items())


ENTRY = {"dtype": "F32", "shape": [2, 2], "data_offsets": [0, 16]}


def written(path, header, size=16):
    text = header if isinstance(header, bytes) else json.dumps(header).encode()
    path.write_bytes(struct.pack("<Q", len(text)) + text + bytes(size))


@pytest.mark.parametrize(
    ("header", "reason"),
    {
        "two tensors in one place": ({"a": ENTRY, "b": ENTRY}, "gaps or overlaps"),
        "a gap": ({"a": ENTRY | {"data_offsets": [4, 20]}}, "gaps or overlaps"),
        "too few bytes": ({"a": ENTRY | {"shape": [3, 2]}}, "24 bytes"),
        "bytes left over": ({"a": ENTRY | {"shape": [2], "data_offsets": [0, 8]}}, "a whole file"),
        "a giant": ({"a": ENTRY | {"shape": [2**39, 2**39]}}, "sizes that a file could hold"),
        "a giant of nothing": ({"a": ENTRY | {"shape": [0, 2**41], "data_offsets": [0, 0]}}, "sizes that a file could hold"),
        "nine axes": ({"a": ENTRY | {"shape": [1] * 9}}, "at most eight"),
        "a negative size": ({"a": ENTRY | {"shape": [-2, -2]}}, "sizes that a file could hold"),
        "a size that is true": ({"a": ENTRY | {"shape": [True, 4]}}, "sizes that a file could hold"),
        "a broken size": ({"a": ENTRY | {"shape": [2.0, 2]}}, "sizes that a file could hold"),
        "no shape": ({"a": ENTRY | {"shape": None}}, "at most eight"),
        "offsets the wrong way round": ({"a": ENTRY | {"data_offsets": [16, 0]}}, "two ascending"),
        "one offset": ({"a": ENTRY | {"data_offsets": [16]}}, "two ascending"),
        "an endless offset": ({"a": ENTRY | {"data_offsets": [0, 10**400]}}, "bytes"),
        "an unknown format": ({"a": ENTRY | {"dtype": "F8_E4M3"}}, "number format"),
        "a format that is a list": ({"a": ENTRY | {"dtype": []}}, "number format"),
        "an unknown key": ({"a": ENTRY | {"more": 1}}, "described by"),
        "no entry": ({"a": [1]}, "described by"),
        "metadata that is no text": ({"a": ENTRY, "__metadata__": {"x": 1}}, "texts only"),
        "a name twice": (b'{"a": {}, "a": {}}', "stands twice"),
        "a NaN": (b'{"a": NaN}', "NaN"),
    }.values(),
)  # fmt: skip
def test_a_crafted_header_is_refused(tmp_path, header, reason):
    path = tmp_path / "model.safetensors"
    written(path, header)
    with pytest.raises(ModelFileError, match=r"model\.safetensors: ") as caught:
        read_header(path)
    assert reason in str(caught.value)


@pytest.mark.parametrize("length", [0, 1, 19, 2**31, 2**63, 2**64 - 1])
def test_a_header_beyond_the_file_is_refused(tmp_path, length):
    path = tmp_path / "model.safetensors"
    path.write_bytes(struct.pack("<Q", length) + b"{}" + bytes(16))
    with pytest.raises(ModelFileError, match="header"):
        read_header(path)


def test_a_changed_hash_is_found(tmp_path):
    path = tmp_path / "model.safetensors"
    written(path, {"a": ENTRY})
    assert read_tensors(path)["a"].shape == (2, 2)
    with pytest.raises(ModelFileError, match="bits have changed"):
        read_tensors(path, sha256="0" * 64)
