"""Headwater's own checkpoint: a folder with ``config.json``, ``model.safetensors`` and perhaps ``tokenizer.json``.

``config.json`` is written last and names the size and SHA-256 of the files beside it and its own, so that a changed bit anywhere
is found. A folder made by hand may leave the hashes out; what is there is checked.
"""

import hashlib
import json
from pathlib import Path
from typing import TYPE_CHECKING, Any, cast

from headwater.errors import ConfigError, ModelFileError
from headwater.files.atomic import new_folder, write_file
from headwater.files.plain import file_size, read_json
from headwater.files.safetensors import read_header, read_tensors, write_tensors
from headwater.model.config import ModelConfig
from headwater.model.layout import check_names_and_shapes, tensor_shapes
from headwater.model.source import Source
from headwater.settings import from_plain, to_plain

if TYPE_CHECKING:
    from torch import Tensor

    from headwater.model.weights import Weights

FORMAT = "headwater-model/1"
TENSORS, WORDS, CONFIG = "model.safetensors", "tokenizer.json", "config.json"


def save(weights: "Weights", folder: Path, *, tokenizer_json: bytes | None = None, overwrite: bool = False) -> None:
    """Write a checkpoint that is either whole or not there."""
    with new_folder(folder, overwrite=overwrite, ours=(TENSORS, WORDS, CONFIG)) as temporary:
        write_tensors(temporary / TENSORS, weights.tensors())
        if tokenizer_json is not None:
            write_file(temporary / WORDS, tokenizer_json)
        files = {path.name: _fingerprint(path) for path in sorted(temporary.iterdir())}
        plain: dict[str, Any] = {"format": FORMAT, "model": to_plain(weights.config), "files": files}
        plain["sha256"] = _own_hash(plain)
        write_file(temporary / CONFIG, json.dumps(plain, indent=2, ensure_ascii=False).encode() + b"\n")


def look(folder: Path) -> Source:
    """A checkpoint, checked but for its numbers."""
    plain = read_json(folder / CONFIG)
    config = _config(plain)
    files = _files(plain)
    for name, (size, digest) in files.items():
        _check_file(folder / name, size, None if name == TENSORS else digest)
    entries = read_header(folder / TENSORS).entries
    formats = {entry.dtype for entry in entries}
    if len(formats) > 1 or not formats <= {"float64", "float32", "float16", "bfloat16"}:
        raise ModelFileError(
            f"{TENSORS} has tensors of {', '.join(sorted(formats))}", "one floating-point format", "save the model again"
        )
    check_names_and_shapes(tensor_shapes(config), {entry.name: entry.shape for entry in entries})

    def read() -> "dict[str, Tensor]":
        return read_tensors(folder / TENSORS, sha256=files.get(TENSORS, (0, None))[1])

    words = folder / WORDS
    return Source(
        path=folder,
        format="Headwater",
        config=config,
        entries=entries,
        read=read,
        files=(folder / CONFIG, folder / TENSORS, words),
        words=words if words.exists() else None,
    )


def _config(plain: dict[str, Any]) -> ModelConfig:
    if plain.get("format") != FORMAT:
        raise ModelFileError(f"{CONFIG} has the format {plain.get('format')!r:.80}", FORMAT, "use the Headwater that wrote it")
    unknown = set(plain) - {"format", "model", "files", "sha256"}
    if unknown:
        raise ModelFileError(f"{CONFIG} has unknown keys: {', '.join(sorted(unknown)):.120}", "known keys only", "remove them")
    if "sha256" in plain and plain["sha256"] != _own_hash({key: value for key, value in plain.items() if key != "sha256"}):
        raise ModelFileError(
            f"{CONFIG} does not have the hash that it names",
            "the file as it was saved",
            "restore it; if you changed it on purpose, remove its sha256 line",
        )
    try:
        return from_plain(ModelConfig, plain.get("model"), "model")
    except ConfigError as error:
        raise ModelFileError(f"{CONFIG}: {error.given}", error.needed, error.do) from None


def _files(plain: dict[str, Any]) -> dict[str, tuple[int, str]]:
    files: Any = plain.get("files", {})
    if not isinstance(files, dict) or not all(
        _is_fingerprint(name, file) for name, file in cast(dict[Any, Any], files).items()
    ):
        raise ModelFileError(
            f"{CONFIG} lists the files {files!r:.120}", f"bytes and sha256 of {TENSORS} and {WORDS}", "save the model again"
        )
    return {name: (file["bytes"], file["sha256"]) for name, file in cast(dict[str, Any], files).items()}


def _is_fingerprint(name: str, file: Any) -> bool:
    return (
        name in (TENSORS, WORDS)
        and isinstance(file, dict)
        and {key: type(value) for key, value in cast(dict[Any, Any], file).items()} == {"bytes": int, "sha256": str}
    )


def _check_file(path: Path, size: int, digest: str | None) -> None:
    if file_size(path) != size:
        raise ModelFileError(f"{path.name} has {file_size(path):,} bytes", f"{size:,}, as when it was saved", "restore it")
    if digest is not None and _fingerprint(path)["sha256"] != digest:
        raise ModelFileError(f"{path.name} has changed since it was saved", f"the hash {digest[:12]}…", "restore it")


def _fingerprint(path: Path) -> dict[str, Any]:
    with path.open("rb") as file:
        return {"bytes": path.stat().st_size, "sha256": hashlib.file_digest(file, "sha256").hexdigest()}


def _own_hash(plain: dict[str, Any]) -> str:
    return hashlib.sha256(json.dumps(plain, sort_keys=True, separators=(",", ":")).encode()).hexdigest()
