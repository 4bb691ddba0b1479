"""GGUF files (versions 2 and 3, little-endian): metadata and tensor places without a library, numbers as float32.

Quantised tensors are turned into numbers by the ``gguf`` package, an optional extra; everything else is read here.
"""

import struct
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING, Any

from headwater.errors import ModelFileError
from headwater.files.entries import TensorEntry, checked_shape
from headwater.files.plain import file_size, open_file
from headwater.files.safetensors import fill

if TYPE_CHECKING:
    from torch import Tensor

MOST_HEADER_BYTES = 128 * 2**20
MOST_VALUES = 1_500_000
MOST_TEXT_BYTES = 16 * 2**20
MOST_DEPTH = 4

_TYPES = {
    0: ("float32", 1, 4), 1: ("float16", 1, 2), 30: ("bfloat16", 1, 2),
    2: ("Q4_0", 32, 18), 3: ("Q4_1", 32, 20), 6: ("Q5_0", 32, 22), 7: ("Q5_1", 32, 24), 8: ("Q8_0", 32, 34),
    10: ("Q2_K", 256, 84), 11: ("Q3_K", 256, 110), 12: ("Q4_K", 256, 144), 13: ("Q5_K", 256, 176), 14: ("Q6_K", 256, 210),
    16: ("IQ2_XXS", 256, 66), 17: ("IQ2_XS", 256, 74), 18: ("IQ3_XXS", 256, 98), 19: ("IQ1_S", 256, 50), 20: ("IQ4_NL", 32, 18),
    21: ("IQ3_S", 256, 110), 22: ("IQ2_S", 256, 82), 23: ("IQ4_XS", 256, 136), 29: ("IQ1_M", 256, 56),
    34: ("TQ1_0", 256, 54), 35: ("TQ2_0", 256, 66),
}  # fmt: skip
"""For each number of ggml's: the name, how many weights make a block, and how many bytes a block has."""
_BLOCKS = {name: (weights, size) for name, weights, size in _TYPES.values()}
_PLAIN = ("float32", "float16", "bfloat16")

_SCALARS = {0: "<B", 1: "<b", 2: "<H", 3: "<h", 4: "<I", 5: "<i", 6: "<f", 10: "<Q", 11: "<q", 12: "<d"}
_BOOL, _TEXT, _ARRAY = 7, 8, 9


@dataclass(frozen=True)
class GgufFile:
    """What a GGUF file says about itself. A quantised tensor's ``dtype`` is ggml's name for its format."""

    metadata: dict[str, Any]
    tensors: tuple[TensorEntry, ...]


def look(path: Path) -> GgufFile:
    """Metadata and tensor places, checked against the file's size; no number of a tensor is read."""
    size = file_size(path)
    try:
        with open_file(path) as file:
            return _Reader(file, size).header()
    except ModelFileError as error:
        raise error.within(path.name) from None


def read_tensor(path: Path, entry: TensorEntry) -> "Tensor":
    """One tensor of a file that ``look`` has passed, as float32."""
    import torch

    name = f"{path.name}: {entry.name}"
    with open_file(path) as file:
        file.seek(entry.start)
        if entry.dtype in _PLAIN:
            tensor = torch.empty(entry.shape, dtype=getattr(torch, entry.dtype))
            fill(tensor, file, None, name)
            return tensor.float()
        packed = torch.empty(entry.size, dtype=torch.uint8)
        fill(packed, file, None, name)
    return _dequantised(packed, entry)


def _dequantised(packed: "Tensor", entry: TensorEntry) -> "Tensor":
    import torch

    try:
        from gguf import GGMLQuantizationType
        from gguf.quants import dequantize
    except ImportError:
        raise ModelFileError(
            f"{entry.name!r:.120} is quantised ({entry.dtype})", "the gguf package", "pip install headwater[gguf]"
        ) from None
    weights, size = _BLOCKS[entry.dtype]
    rows = packed.view(*entry.shape[:-1], entry.shape[-1] // weights * size)
    return torch.from_numpy(dequantize(rows.numpy(), GGMLQuantizationType[entry.dtype]))


class _Reader:
    """A file read from front to back; nothing is taken that the file could not hold."""

    def __init__(self, file: Any, size: int) -> None:
        self.file, self.size = file, size
        self.position = 0
        self.values = 0

    def header(self) -> GgufFile:
        if self.take(4) != b"GGUF":
            raise ModelFileError("no GGUF file", "a file that starts with GGUF", "check that it is the right file")
        version = self.number("<I")
        if version not in (2, 3):
            raise ModelFileError(
                f"GGUF version {version:#x}", "version 2 or 3, little-endian", "convert it with a current llama.cpp"
            )
        # The shortest metadata has 13 bytes, the shortest tensor 25.
        tensors, pairs = self.counted("<Q", "tensors", 25), self.counted("<Q", "metadata", 13)
        metadata: dict[str, Any] = {}
        for _ in range(pairs):
            key = self.text()
            if key in metadata:
                raise ModelFileError(f"the metadata {key!r:.80} stands twice", "each key once", "write the file again")
            metadata[key] = self.value(self.number("<I"), MOST_DEPTH)
        infos = [self.tensor_info() for _ in range(tensors)]
        return GgufFile(metadata, _placed(infos, self.position, _alignment(metadata), self.size))

    def take(self, count: int) -> bytes:
        if self.position + count > min(self.size, MOST_HEADER_BYTES):
            raise ModelFileError(f"a header beyond byte {self.position:,}", "a header within the file", "fetch the file again")
        data = self.file.read(count)
        if len(data) != count:
            raise ModelFileError("the file is cut short", f"{self.size:,} bytes", "fetch the file again")
        self.position += count
        return data

    def number(self, form: str) -> Any:
        return struct.unpack(form, self.take(struct.calcsize(form)))[0]

    def counted(self, form: str, what: str, least_bytes: int) -> int:
        """A count of things that have at least so many bytes each."""
        count = self.number(form)
        self.values += count
        if count * least_bytes > self.size - self.position or self.values > MOST_VALUES:
            raise ModelFileError(f"{count:,} {what} in a file of {self.size:,} bytes", "as many as fit", "fetch the file again")
        return count

    def text(self) -> str:
        length = self.number("<Q")
        if length > MOST_TEXT_BYTES:
            raise ModelFileError(f"a text of {length:,} bytes", f"at most {MOST_TEXT_BYTES:,}", "fetch the file again")
        try:
            return self.take(length).decode()
        except UnicodeDecodeError:
            raise ModelFileError("a text that is not UTF-8", "texts in UTF-8", "fetch or convert the file again") from None

    def value(self, kind: int, depth: int) -> Any:
        if kind in _SCALARS:
            return self.number(_SCALARS[kind])
        if kind == _BOOL:
            return self.truth(self.take(1))
        if kind == _TEXT:
            return self.text()
        if kind == _ARRAY and depth:
            return self.array(depth)
        raise ModelFileError(f"metadata of type {kind}", "one of GGUF's types, not nested too deep", "fetch the file again")

    def truth(self, byte: bytes) -> bool:
        if byte not in (b"\0", b"\1"):
            raise ModelFileError(f"the truth value {byte[0]}", "0 or 1", "fetch the file again")
        return byte == b"\1"

    def array(self, depth: int) -> list[Any]:
        kind = self.number("<I")
        form = _SCALARS.get(kind)
        least = {_BOOL: 1, _TEXT: 8, _ARRAY: 12}.get(kind, 1) if form is None else struct.calcsize(form)
        count = self.counted("<Q", "array values", least)
        if form is not None:
            return list(struct.unpack(f"<{count}{form[1]}", self.take(count * least)))
        return [self.value(kind, depth - 1) for _ in range(count)]

    def tensor_info(self) -> TensorEntry:
        name = self.text()
        dims = [self.number("<Q") for _ in range(min(self.number("<I"), 9))]
        # GGUF lists the fastest axis first.
        shape = checked_shape(name, dims[::-1])
        kind, offset = self.number("<I"), self.number("<Q")
        if kind not in _TYPES:
            raise ModelFileError(f"{name!r:.120} has the ggml type {kind}", f"one of {', '.join(_BLOCKS)}", "convert it first")
        dtype, weights, block = _TYPES[kind]
        if not shape or shape[-1] % weights:
            raise ModelFileError(
                f"{name!r:.120} is {list(shape)} in {dtype}", f"rows of whole blocks of {weights}", "convert it again"
            )
        entry = TensorEntry(name, dtype, shape, offset, 0)
        return TensorEntry(name, dtype, shape, offset, entry.count // weights * block)


def _alignment(metadata: dict[str, Any]) -> int:
    alignment = metadata.get("general.alignment", 32)
    if type(alignment) is not int or alignment not in [2**power for power in range(3, 17)]:
        raise ModelFileError(
            f"general.alignment is {alignment!r:.40}", "a power of two from 8 to 65,536", "write the file again"
        )
    return alignment


def _placed(infos: list[TensorEntry], position: int, alignment: int, size: int) -> tuple[TensorEntry, ...]:
    """The tensors at their places in the file, in its order: aligned, apart from each other, within the file."""
    begin = -(-position // alignment) * alignment
    placed = [TensorEntry(info.name, info.dtype, info.shape, begin + info.start, info.size) for info in infos]
    names: set[str] = set()
    end = begin
    for entry in sorted(placed, key=lambda entry: (entry.start, entry.size)):
        if entry.name in names:
            raise ModelFileError(f"{entry.name!r:.120} stands twice", "each tensor once", "write the file again")
        names.add(entry.name)
        if entry.start < end or (entry.start - begin) % alignment or entry.start + entry.size > size:
            given = f"{entry.name!r:.120} has {entry.size:,} bytes at {entry.start:,} in a file of {size:,}"
            raise ModelFileError(
                given, f"an aligned place of its own from byte {end:,} on", "it is cut short or damaged: fetch it again"
            )
        end = entry.start + entry.size
    return tuple(placed)
