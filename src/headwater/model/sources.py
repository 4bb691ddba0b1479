"""Which reader a path needs, and the weights behind it."""

import os
from collections.abc import Callable
from pathlib import Path
from typing import TYPE_CHECKING

from headwater.errors import ModelFileError, did_you_mean
from headwater.files.entries import ITEM_BYTES
from headwater.files.plain import read_json
from headwater.model import checkpoint
from headwater.model.reference import reference_models
from headwater.model.source import Source

if TYPE_CHECKING:
    from headwater.model.weights import Weights

READS = (
    "a Headwater, Hugging Face, TransformerLens or nanoGPT folder, or a .pt, .pth, .safetensors, .bin (llama2.c) or .gguf file"
)


def look(path: Path | str) -> Source:
    """The model at ``path``, recognised and checked without reading its numbers or importing torch."""
    path = Path(path)
    try:
        path = _meant(path)
        if not path.exists():
            names = reference_models()
            do = f"{did_you_mean(str(path), names)}, or check the path" if names else "check the path"
            raise ModelFileError("nothing is there", f"{READS}; or one of ours: {', '.join(names)}", do)
        return _reader(path)(path)
    except ModelFileError as error:
        raise _told_of(path, error) from None
    except OSError as reason:
        raise ModelFileError(f"{path!s:.200} cannot be read ({reason.strerror})", READS, "check path and rights") from None


def _meant(path: Path) -> Path:
    """A path as it is, the model inside the folder of a training, or one of ours by name."""
    if (path / "recipe.toml").exists() and (path / "model").is_dir():
        return path / "model"
    return path if path.exists() else reference_models().get(str(path), path)


def load_weights(source: Source) -> "Weights":
    """Read the numbers; NaN and infinities are refused."""
    from headwater.model.weights import Weights, laid_out

    _check_memory(source)
    try:
        tensors = source.read()
        for name, tensor in tensors.items():
            # The extremes of a tensor are finite exactly when all of it is: NaN wins every comparison here.
            if tensor.numel() and not all(bound.isfinite() for bound in tensor.aminmax()):
                raise ModelFileError(
                    f"{name} holds NaN or infinity", "finite numbers", "fetch the model again, or find where it diverged"
                )
        return Weights.assemble(source.config, laid_out(tensors))
    except ModelFileError as error:
        raise _told_of(source.path, error) from None


def _check_memory(source: Source) -> None:
    """Refuse a model that cannot fit before any of it is read: a file may claim more than any machine has."""
    needed = sum(entry.count * max(4, ITEM_BYTES.get(entry.dtype, 4)) for entry in source.entries)
    there = os.sysconf("SC_PAGE_SIZE") * os.sysconf("SC_PHYS_PAGES") if hasattr(os, "sysconf") else needed
    if needed > there:
        raise ModelFileError(
            f"{source.path}: {needed / 1e9:,.0f} GB of numbers",
            f"at most the {there / 1e9:,.0f} GB of this machine",
            "use a larger machine",
        )


def _told_of(path: Path, error: ModelFileError) -> ModelFileError:
    """The error with the whole path before it; a reader of single files has said the name already."""
    return ModelFileError(f"{path}: {error.given.removeprefix(f'{path.name}: ')}", error.needed, error.do)


def _reader(path: Path) -> Callable[[Path], Source]:
    from headwater.model.foreign import gguf, llama2c, nanogpt, transformer_lens

    if path.is_dir():
        return _folder_reader(path)
    beside = path.parent / "config.json"
    match path.suffix:
        case ".gguf":
            return gguf.look
        case ".bin":
            return llama2c.look
        case ".pt" | ".pth" | ".safetensors" if beside.exists():
            reader = _folder_reader(path.parent)
            return reader if reader is transformer_lens.look else lambda file: reader(file.parent)
        case ".pt" | ".pth":
            return nanogpt.look
        case ".safetensors":
            raise ModelFileError(
                "no config.json lies beside it", "the model's configuration", "put it there, or give its folder"
            )
        case _:
            raise ModelFileError(f"a file that ends in {path.suffix!r}", READS, "give the model's file or folder")


def _folder_reader(folder: Path) -> Callable[[Path], Source]:
    from headwater.model.foreign import hugging_face, nanogpt, transformer_lens

    if not (folder / "config.json").exists():
        if (folder / "ckpt.pt").exists():
            return nanogpt.look
        raise ModelFileError("a folder without config.json", READS, "check that the path is the model's own folder")
    plain = read_json(folder / "config.json")
    if "format" in plain:
        return checkpoint.look
    if "architectures" in plain or "model_type" in plain:
        return hugging_face.look
    if {"n_layers", "d_model", "n_ctx"} <= set(plain):
        return transformer_lens.look
    raise ModelFileError("a config.json of an unknown kind", READS, "check that the path is the model's own folder")
