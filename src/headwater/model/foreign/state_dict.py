"""Flat tables of named tensors, in one file or in a set of shards."""

from collections.abc import Callable, Mapping
from dataclasses import dataclass, replace
from pathlib import Path
from typing import TYPE_CHECKING, Any

from headwater.errors import ModelFileError
from headwater.files import pickles, safetensors
from headwater.files.entries import TensorEntry
from headwater.files.plain import read_json

if TYPE_CHECKING:
    from torch import Tensor

PICKLES = (".pt", ".pth", ".bin")
INDEX = ".index.json"


@dataclass(frozen=True)
class StateDict:
    """The tensors that a file lists, and how to read them."""

    entries: tuple[TensorEntry, ...]
    read: "Callable[[], dict[str, Tensor]]"
    files: tuple[Path, ...]
    """That they are read from."""


def look(path: Path) -> StateDict:
    """The tensors of a ``.safetensors``, ``.pt``, ``.pth`` or ``.bin`` file, or of the shards that an index file names."""
    if path.name.endswith(INDEX):
        return _look_at_shards(path)
    if path.suffix == ".safetensors":
        return StateDict(safetensors.read_header(path).entries, lambda: safetensors.read_tensors(path), (path,))
    if path.suffix in PICKLES:
        return StateDict(flat_entries(pickles.look(path), path.name), lambda: pickles.read(path), (path,))
    raise ModelFileError(f"{path.name} is of an unknown kind", "a .safetensors, .pt, .pth or .bin file", "convert it first")


def flat_entries(tree: Any, name: str) -> tuple[TensorEntry, ...]:
    """The entries of a pickled state dict; anything but a table of tensors under texts is refused."""
    if not isinstance(tree, dict):
        raise ModelFileError(f"{name} holds no state dict", "a dictionary of tensors", "save model.state_dict()")
    entries: list[TensorEntry] = []
    for key, value in tree.items():  # pyright: ignore[reportUnknownVariableType]
        if not isinstance(key, str) or not isinstance(value, TensorEntry):
            raise ModelFileError(
                f"{name} holds {type(value).__name__} under {key!r:.80}",  # pyright: ignore[reportUnknownArgumentType]
                "a dictionary of tensors",
                "save model.state_dict()",
            )
        entries.append(replace(value, name=key))
    return tuple(entries)


def widened(tensors: "Mapping[str, Tensor]") -> "dict[str, Tensor]":
    """All tensors in the widest of their number formats, float32 at least; no number changes.

    Every bfloat16 and float16 number is a float32 number, and every float32 number a float64 number.
    """
    import torch

    is_double = any(tensor.dtype == torch.float64 for tensor in tensors.values())
    return {name: tensor.to(torch.float64 if is_double else torch.float32) for name, tensor in tensors.items()}


def _look_at_shards(index: Path) -> StateDict:
    """Each tensor must lie in exactly the shard that the index says, and no shard may hold any other."""
    listed = _weight_map(index)
    shards = {name: look(_shard_path(index, name)) for name in sorted(set(listed.values()))}
    entries = [(shard, entry) for shard, state in shards.items() for entry in state.entries]
    for shard, entry in entries:
        if listed.get(entry.name) != shard:
            where = f"in {listed[entry.name]}" if entry.name in listed else "nowhere"
            raise ModelFileError(
                f"{shard} holds {entry.name!r:.120}, which {index.name} lists {where}",
                "each tensor in the one shard that the index says",
                "fetch the folder again",
            )
    # Every entry is where the map says, and names are unique within a shard: equal counts mean that nothing is missing.
    if len(entries) < len(listed):
        there = {entry.name for _, entry in entries}
        name = next(name for name in listed if name not in there)
        raise ModelFileError(f"{listed[name]} has no {name!r:.120}", f"all that {index.name} lists", "fetch the shard again")

    def read() -> "dict[str, Tensor]":
        return {name: tensor for state in shards.values() for name, tensor in state.read().items()}

    files = (index, *(file for state in shards.values() for file in state.files))
    return StateDict(tuple(entry for _, entry in entries), read, files)


def _weight_map(index: Path) -> dict[str, str]:
    plain = read_json(index)
    listed = plain.get("weight_map")
    if set(plain) - {"metadata", "weight_map"} or not isinstance(listed, dict) or not listed:
        raise ModelFileError(f"{index.name} is no index", "a weight_map from tensors to files", "fetch it again")
    if not all(isinstance(shard, str) for shard in listed.values()):  # pyright: ignore[reportUnknownVariableType]
        raise ModelFileError(f"{index.name} maps a tensor to no file name", "file names", "fetch it again")
    return listed  # pyright: ignore[reportUnknownVariableType]


def _shard_path(index: Path, name: str) -> Path:
    """The shard beside its index; a name that could lead anywhere else is refused before the disk is asked."""
    ending = ".safetensors" if ".safetensors" in index.name else ".bin"
    if any(sign in name for sign in "/\\:\0") or name.startswith(".") or not name.endswith(ending):
        raise ModelFileError(
            f"{index.name} names the shard {name!r:.80}", f"a plain file name that ends in {ending}", "do not use this folder"
        )
    path = index.parent / name
    if not _is_within(path, index.parent):
        raise ModelFileError(f"{name[:80]} is a link out of the folder", "a file in the folder", "copy the shard there")
    return path


def _is_within(path: Path, folder: Path) -> bool:
    """Whether a file really lies in the folder, or in the store that a Hugging Face cache keeps for its snapshots."""
    home, target = folder.resolve(), path.resolve()
    homes = [home, home.parent.parent / "blobs"] if home.parent.name == "snapshots" else [home]
    return target.parent in homes
