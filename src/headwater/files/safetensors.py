"""safetensors files: the header without a tensor library, the tensors without a memory map.

The ``safetensors`` package writes them; reading is ours, because its reader accepts headers that we refuse and because a
mapped file that shrinks kills the process.
"""

import hashlib
import struct
from collections.abc import Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING, Any, cast

from headwater.errors import ModelFileError
from headwater.files.entries import ITEM_BYTES, TensorEntry, checked_shape
from headwater.files.plain import file_size, open_file, parse_json

if TYPE_CHECKING:
    from torch import Tensor

MOST_HEADER_BYTES = 8 * 2**20

_DTYPES = {
    "F64": "float64", "F32": "float32", "F16": "float16", "BF16": "bfloat16",
    "I64": "int64", "I32": "int32", "I16": "int16", "I8": "int8", "U8": "uint8", "BOOL": "bool",
}  # fmt: skip


@dataclass(frozen=True)
class Header:
    """Everything that stands before the numbers; ``entries`` are in file order."""

    entries: tuple[TensorEntry, ...]
    metadata: dict[str, str]


def read_header(path: Path) -> Header:
    """The header of a safetensors file, checked against the file's size."""
    size = file_size(path)
    try:
        with open_file(path) as file:
            length_bytes = file.read(8)
            length = struct.unpack("<Q", length_bytes)[0] if len(length_bytes) == 8 else -1
            if not 2 <= length <= min(size - 8, MOST_HEADER_BYTES):
                raise ModelFileError(
                    f"a header of {length:,} bytes in a file of {size:,}",
                    "a safetensors header within the file",
                    "fetch or write the file again",
                )
            return parse_header(file.read(length), size)
    except ModelFileError as error:
        raise error.within(path.name) from None


def parse_header(data: bytes, file_bytes: int) -> Header:
    """The header's JSON against the file's size: tensors follow each other without gap or overlap up to the end."""
    plain = parse_json(data, "header")
    metadata: Any = plain.pop("__metadata__", {})
    if type(metadata) is not dict or not all(type(value) is str for value in cast(dict[str, Any], metadata).values()):
        raise ModelFileError("__metadata__ is no table of texts", "texts only", "write the file again")
    begin = 8 + len(data)
    entries = sorted((_entry(name, value, begin) for name, value in plain.items()), key=lambda entry: (entry.start, entry.size))
    position = begin
    for entry in entries:
        if entry.start != position:
            raise ModelFileError(
                f"{entry.name!r:.120} starts at byte {entry.start:,}, the one before it ends at {position:,}",
                "tensors without gaps or overlaps",
                "fetch or write the file again",
            )
        position += entry.size
    if position != file_bytes:
        raise ModelFileError(
            f"tensors end at byte {position:,}, the file at {file_bytes:,}",
            "a whole file",
            "it is cut short or has been added to: fetch or write it again",
        )
    return Header(tuple(entries), cast(dict[str, str], metadata))


def _entry(name: str, plain: Any, begin: int) -> TensorEntry:
    if type(plain) is not dict or set(cast(dict[str, Any], plain)) != {"dtype", "shape", "data_offsets"}:
        raise ModelFileError(
            f"{name!r:.120} is described by {plain!r:.80}", "dtype, shape and data_offsets", "write the file again"
        )
    data = cast(dict[str, Any], plain)
    dtype = _DTYPES.get(data["dtype"]) if type(data["dtype"]) is str else None
    offsets: Any = data["data_offsets"]
    if dtype is None:
        raise ModelFileError(
            f"{name!r:.120} has the number format {data['dtype']!r:.40}", f"one of {', '.join(_DTYPES)}", "convert it first"
        )
    shape = checked_shape(name, data["shape"])
    if (
        type(offsets) is not list
        or list(map(type, cast(list[Any], offsets))) != [int, int]
        or not 0 <= offsets[0] <= offsets[1]
    ):
        raise ModelFileError(f"{name!r:.120} has the offsets {offsets!r:.80}", "two ascending numbers", "write the file again")
    first, last = cast(list[int], offsets)
    entry = TensorEntry(name, dtype, shape, begin + first, last - first)
    if entry.count * ITEM_BYTES[dtype] != entry.size:
        raise ModelFileError(
            f"{name!r:.120} has {entry.size:,} bytes for the shape {list(shape)} of {dtype}",
            f"{entry.count * ITEM_BYTES[dtype]:,} bytes",
            "fetch or write the file again",
        )
    return entry


def read_tensors(path: Path, sha256: str | None = None) -> "dict[str, Tensor]":
    """All tensors of a file, in memory of their own; with ``sha256``, the whole file must have that hash."""
    import torch

    header = read_header(path)
    digest = hashlib.sha256()
    tensors: dict[str, Tensor] = {}
    with open_file(path) as file:
        begin = header.entries[0].start if header.entries else file_size(path)
        digest.update(file.read(begin))
        for entry in header.entries:
            tensor = torch.empty(entry.shape, dtype=getattr(torch, entry.dtype))
            fill(tensor, file, digest if sha256 else None, f"{path.name}: {entry.name}")
            tensors[entry.name] = tensor
    if sha256 is not None and digest.hexdigest() != sha256:
        raise ModelFileError(
            f"{path.name} has the hash {digest.hexdigest()[:12]}…",
            f"{sha256[:12]}…, as when it was saved",
            "restore it: bits have changed",
        )
    return tensors


def write_tensors(path: Path, tensors: "Mapping[str, Tensor]", metadata: dict[str, str] | None = None) -> None:
    """Write tensors, each on its own: the package refuses those that share memory, such as slices of one buffer."""
    import torch
    from safetensors import SafetensorError
    from safetensors.torch import save_file  # pyright: ignore[reportUnknownVariableType]

    def alone(tensor: "Tensor") -> "Tensor":
        is_whole = tensor.is_contiguous() and tensor.untyped_storage().nbytes() == tensor.nbytes
        return tensor.detach() if is_whole else tensor.detach().clone(memory_format=torch.contiguous_format)

    # What the package writes can be read by its user alone, whatever the umask allows.
    path.touch()
    rights = path.stat().st_mode
    try:
        save_file({name: alone(tensor) for name, tensor in tensors.items()}, path, metadata)
    except SafetensorError as reason:  # what the package calls a full disk
        raise OSError(str(reason)) from None
    path.chmod(rights)


def hash_tensors(tensors: "Mapping[str, Tensor]", about: str = "") -> str:
    """The SHA-256 of some words, and of tensors with their names, formats and shapes: what they are, not how they lie in a file."""
    import torch

    found = hashlib.sha256(about.encode())
    for name, tensor in sorted(tensors.items()):
        found.update(f"{name} {tensor.dtype} {list(tensor.shape)}".encode())
        found.update(memoryview(cast(Any, tensor.cpu().contiguous().view(-1).view(torch.uint8).numpy())))
    return found.hexdigest()


def fill(tensor: "Tensor", file: Any, digest: Any, name: str) -> None:
    """Read a contiguous tensor's bytes from where the file stands."""
    import torch

    if not tensor.numel():
        return
    room = memoryview(cast(Any, tensor.view(-1).view(torch.uint8).numpy()))
    if file.readinto(room) != len(room):
        raise ModelFileError(f"{name} is cut short", f"{len(room):,} bytes", "fetch or write the file again")
    if digest is not None:
        digest.update(room)
