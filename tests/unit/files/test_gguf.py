import struct
import sys

import gguf as peer
import numpy as np
import pytest
import torch

from headwater.errors import ModelFileError
from headwater.files import gguf

KINDS = ["Q4_0", "Q4_1", "Q5_0", "Q5_1", "Q8_0", "TQ1_0", "TQ2_0"]


@pytest.fixture
def path(tmp_path):
    return tmp_path / "model.gguf"


def write(path, tensors, metadata=()):
    writer = peer.GGUFWriter(path, "llama")
    for name, add, value in metadata:
        getattr(writer, add)(name, value)
    for name, (data, kind) in tensors.items():
        writer.add_tensor(name, peer.quants.quantize(data, kind), raw_dtype=kind)
    writer.write_header_to_file()
    writer.write_kv_data_to_file()
    writer.write_tensors_to_file()
    writer.close()


def random(*shape):
    return np.random.default_rng(0).normal(size=shape).astype(np.float32)


@pytest.mark.parametrize("kind", ["F32", "F16", "BF16", *KINDS])
def test_numbers_are_those_that_the_gguf_package_reads(path, kind):
    kind = peer.GGMLQuantizationType[kind]
    write(path, {"a": (random(3, 512), kind), "b": (random(2, 2, 256), kind)})
    entries = gguf.look(path).tensors
    assert [(entry.name, entry.shape) for entry in entries] == [("a", (3, 512)), ("b", (2, 2, 256))]
    for entry, tensor in zip(entries, peer.GGUFReader(path).tensors, strict=True):
        read = gguf.read_tensor(path, entry)
        expected = peer.quants.dequantize(tensor.data, kind).reshape(entry.shape)
        assert read.dtype == torch.float32
        assert np.array_equal(read.numpy(), expected)


def test_metadata_of_every_type_is_read(path):
    values = {
        "uint8": 255, "int8": -128, "uint16": 65535, "int16": -3, "uint32": 2**32 - 1, "int32": -(2**31), "uint64": 2**64 - 1,
        "int64": -(2**63), "float32": 0.5, "float64": 0.1, "bool": True, "string": "né\n", "array": [1, 2, 3],
    }  # fmt: skip
    texts = [("words", "add_array", ["a", "", "☃"]), ("truths", "add_array", [True, False])]
    write(path, {}, [(f"x.{name}", f"add_{name}", value) for name, value in values.items()] + texts)
    read = gguf.look(path).metadata
    assert {name: read[f"x.{name}"] for name in values} == values
    assert read["words"] == ["a", "", "☃"]
    assert read["truths"] == [True, False]


def test_a_quantised_tensor_without_the_gguf_package_is_refused_with_advice(path, monkeypatch):
    write(path, {"a": (random(1, 32), peer.GGMLQuantizationType.Q8_0), "b": (random(1, 32), peer.GGMLQuantizationType.F32)})
    quantised, plain = gguf.look(path).tensors
    monkeypatch.setitem(sys.modules, "gguf", None)
    assert gguf.read_tensor(path, plain).shape == (1, 32)
    with pytest.raises(ModelFileError, match=r"pip install headwater\[gguf\]"):
        gguf.read_tensor(path, quantised)


def text(value):
    return struct.pack("<Q", len(value)) + value


def file(*, version=3, tensors=(), pairs=(), counts=None, data=b""):
    counts = counts or (len(tensors), len(pairs))
    header = b"GGUF" + struct.pack("<IQQ", version, *counts) + b"".join(pairs) + b"".join(tensors)
    return header + bytes(-len(header) % 32) + data


def tensor(name=b"a", dims=(4,), kind=0, offset=0):
    return text(name) + struct.pack(f"<I{len(dims)}QIQ", len(dims), *dims, kind, offset)


def pair(value, key=b"k"):
    return text(key) + value


def test_a_file_written_by_hand_is_read(path):
    path.write_bytes(file(tensors=[tensor()], pairs=[pair(struct.pack("<II", 4, 7))], data=struct.pack("<4f", 1, 2, 3, 4)))
    read = gguf.look(path)
    assert read.metadata == {"k": 7}
    assert gguf.read_tensor(path, read.tensors[0]).tolist() == [1, 2, 3, 4]


@pytest.mark.parametrize(
    ("data", "reason"),
    {
        "another kind": (b"GGML" + bytes(100), "no GGUF"),
        "nothing": (b"", "header"),
        "the first version": (file(version=1), "version 0x1"),
        "big-endian": (file(version=3 << 24), "version 0x3000000"),
        "endless tensors": (file(counts=(2**60, 0)), "tensors in a file"),
        "endless metadata": (file(counts=(0, 2**60)), "metadata in a file"),
        "an endless text": (file(counts=(0, 1), pairs=[struct.pack("<Q", 2**62) + bytes(64)]), "a text of"),
        "an endless array": (file(pairs=[pair(struct.pack("<IIQ", 9, 0, 2**62))]), "array values"),
        "an endless array of texts": (file(pairs=[pair(struct.pack("<IIQ", 9, 8, 2**40))]), "array values"),
        "arrays in arrays": (file(pairs=[pair(struct.pack("<I", 9) + struct.pack("<IQ", 9, 1) * 40)]), "nested"),
        "an unknown type": (file(pairs=[pair(struct.pack("<I", 13) + bytes(32))]), "type 13"),
        "half a truth": (file(pairs=[pair(struct.pack("<IB", 7, 2))]), "truth value 2"),
        "a text that is no UTF-8": (file(pairs=[pair(struct.pack("<I", 8) + text(b"\xff"))]), "UTF-8"),
        "a key twice": (file(pairs=[pair(struct.pack("<II", 4, 7))] * 2), "stands twice"),
        "a tensor twice": (file(tensors=[tensor(), tensor(offset=32)], data=bytes(64)), "stands twice"),
        "two tensors in one place": (file(tensors=[tensor(), tensor(name=b"b")], data=bytes(64)), "a place of its own"),
        "a tensor beyond the file": (file(tensors=[tensor(offset=64)], data=bytes(64)), "a place of its own"),
        "a tensor between places": (file(tensors=[tensor(offset=4)], data=bytes(64)), "a place of its own"),
        "a giant": (file(tensors=[tensor(dims=(2**39, 2**39))], data=bytes(64)), "sizes that a file could hold"),
        "nine axes": (file(tensors=[tensor(dims=(1,) * 9)], data=bytes(64)), "at most eight"),
        "no axes": (file(tensors=[tensor(dims=())], data=bytes(64)), "rows of whole blocks"),
        "an unknown format": (file(tensors=[tensor(kind=4)], data=bytes(64)), "ggml type 4"),
        "half a block": (file(tensors=[tensor(dims=(31,), kind=8)], data=bytes(64)), "rows of whole blocks"),
        "a strange alignment": (file(pairs=[pair(struct.pack("<II", 4, 24), b"general.alignment")]), "power of two"),
        "an endless alignment": (file(pairs=[pair(struct.pack("<II", 4, 2**31), b"general.alignment")]), "power of two"),
    }.values(),
)  # fmt: skip
def test_a_crafted_file_is_refused(path, data, reason):
    path.write_bytes(data)
    with pytest.raises(ModelFileError, match=r"model\.gguf: ") as caught:
        gguf.look(path)
    assert reason in str(caught.value).replace("an aligned place", "a place")
