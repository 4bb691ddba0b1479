"""A run in one file: safetensors with the tokens, the sites that were kept, the model's weights and its words.

The metadata says what is in it and has a hash over all of it, so that a changed bit anywhere is found. Sites that can be had from others (what a block
gets is what the one before it leaves) are not written twice.
"""

import json
from collections.abc import Mapping
from fnmatch import fnmatchcase
from pathlib import Path

import torch
from torch import Tensor

from headwater.errors import ConfigError, InputError, ModelFileError
from headwater.files.atomic import new_file
from headwater.files.plain import parse_json
from headwater.files.safetensors import hash_tensors, read_header, read_tensors, write_tensors
from headwater.model.config import ModelConfig
from headwater.model.layout import check_names_and_shapes, tensor_shapes
from headwater.model.record import KEPT, Record, check_tokens
from headwater.model.taps import NOBODY, all_sites, canonical
from headwater.model.weights import Weights, laid_out
from headwater.settings import from_plain, to_plain
from headwater.text.tokenizer import Tokenizer
from headwater.trace.places import Place

FORMAT = "headwater-run/1"


def save(record: Record, path: Path, *, tokenizer: Tokenizer | None) -> None:
    """Write a run: afterwards the whole file is there, or what was there before."""
    if record.tap is not NOBODY:
        raise InputError(
            "a run with interventions", "a run of the model as it is", "save that, and record again with the edits"
        )
    tensors: dict[str, Tensor] = {"tokens": record.tokens}
    tensors |= {f"site/{name}": value for name, value in record.kept.items() if not name.endswith(".in")}
    tensors |= {f"weight/{name}": value for name, value in record.weights.tensors().items()}
    if tokenizer is not None:
        tensors["words"] = torch.frombuffer(bytearray(tokenizer.to_json()), dtype=torch.uint8)
    # Without norms the last stream is what the unembedding reads, one tensor under two names.
    tensors = {name: tensor.detach().cpu().clone(memory_format=torch.contiguous_format) for name, tensor in tensors.items()}
    about = json.dumps({"format": FORMAT, "model": to_plain(record.config)}, sort_keys=True)
    try:
        with new_file(path) as temporary:
            write_tensors(temporary, tensors, {"headwater": about, "sha256": hash_tensors(tensors, about)})
    except OSError as reason:
        given = f"{path} cannot be written ({reason.strerror or reason})"
        raise InputError(given, "a place with room and rights", "choose another name") from reason


def is_run(path: Path) -> bool:
    """Whether a file says that it holds a run."""
    try:
        return path.is_file() and FORMAT in read_header(path).metadata.get("headwater", "")
    except ModelFileError:
        return False


def load(path: Path) -> tuple[Record, Tokenizer | None]:
    """The run in a file, and the words for its tokens."""
    try:
        metadata = read_header(path).metadata
        tensors = read_tensors(path)
        return _record(metadata, tensors), _words(tensors)
    except (ModelFileError, ConfigError, InputError) as error:
        raise ModelFileError(f"{path.name}: {error.given}", error.needed, error.do) from None


def _record(metadata: Mapping[str, str], tensors: dict[str, Tensor]) -> Record:
    about = metadata.get("headwater", "")
    plain = parse_json(about.encode(), "metadata") if about else {}
    if plain.get("format") != FORMAT:
        raise ModelFileError(f"the format {plain.get('format')!r:.80}", FORMAT, "give a file that Run.save wrote")
    if metadata.get("sha256") != hash_tensors(tensors, about):
        raise ModelFileError(
            "bits that have changed since it was saved", "the file as it was", "restore it, or record the run again"
        )
    config = from_plain(ModelConfig, plain.get("model"), "model")
    named = _named(tensors, "weight/")
    check_names_and_shapes(tensor_shapes(config), {name: tuple(tensor.shape) for name, tensor in named.items()})
    weights, tokens = Weights.assemble(config, laid_out(named)), tensors.get("tokens", torch.empty(0))
    check_tokens(config, tokens)
    kept = {canonical(config, name): value for name, value in _named(tensors, "site/").items()}
    _check_sites(weights, tokens, kept)
    return Record(weights, tokens, _streams(config, kept))


def _check_sites(weights: Weights, tokens: Tensor, kept: Mapping[str, Tensor]) -> None:
    """Refuse what no run of this model on these tokens can have kept: the hash says that bits are as they were, not that they fit."""
    config, (texts, length) = weights.config, tokens.shape
    if length > config.context:
        raise ModelFileError(f"{length:,} tokens", f"at most {config.context:,}, the model's context", "record the run again")
    needed = {site for site in all_sites(config) if any(fnmatchcase(site, pattern) for pattern in KEPT)}
    missing = sorted(site for site in needed - set(kept) if not site.endswith(".in"))
    if missing:
        raise ModelFileError(f"no {missing[0]}", "every site that a run keeps", "record the run again")
    attention = config.attention
    sizes = {"batch": texts, "head": config.heads, "d_mlp": config.d_mlp, "d_model": config.d_model, "vocab": config.vocab}
    sizes |= dict.fromkeys(("pos", "dest", "source"), length)
    sizes |= {"key_head": attention.key_heads, "d_head": attention.d_head} if attention else {}
    for site, value in kept.items():
        shape = [sizes[axis] for axis in Place(site).axes]
        if list(value.shape) != shape or value.dtype != weights.dtype:
            given = f"{site} of shape {list(value.shape)} in {str(value.dtype)[6:]}"
            raise ModelFileError(given, f"{shape} in {str(weights.dtype)[6:]}", "record the run again")


def _streams(config: ModelConfig, kept: dict[str, Tensor]) -> dict[str, Tensor]:
    """What each block got, beside what was kept."""
    first = kept["embed"] + kept["positions"] if "positions" in kept else kept["embed"]
    return kept | {f"L{layer}.in": kept[f"L{layer - 1}.out"] if layer else first for layer in range(config.layers)}


def _words(tensors: Mapping[str, Tensor]) -> Tokenizer | None:
    if "words" not in tensors:
        return None
    if tensors["words"].dtype != torch.uint8:
        raise ModelFileError(f"words in {str(tensors['words'].dtype)[6:]}", "bytes", "give a file that Run.save wrote")
    return Tokenizer.parse(tensors["words"].numpy().tobytes())


def _named(tensors: Mapping[str, Tensor], kind: str) -> dict[str, Tensor]:
    return {name.removeprefix(kind): tensor for name, tensor in tensors.items() if name.startswith(kind)}
