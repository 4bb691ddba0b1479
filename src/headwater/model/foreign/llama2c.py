"""llama2.c's ``.bin`` files: a header of seven whole numbers, then every tensor in float32, in an order that never varies."""

import struct
from collections.abc import Iterator
from dataclasses import dataclass
from math import prod
from pathlib import Path
from typing import TYPE_CHECKING

from headwater.errors import ModelFileError
from headwater.files.entries import TensorEntry
from headwater.files.plain import file_size, open_file
from headwater.files.safetensors import fill
from headwater.model.config import Attention, GatedFeedForward, ModelConfig, PreNorm, RMSNorm, RotaryPositions, Unembedding
from headwater.model.foreign.fields import reading
from headwater.model.foreign.links import Layout, Link, matrix, same
from headwater.model.layout import Shape
from headwater.model.source import Source

if TYPE_CHECKING:
    from torch import Tensor

MAGIC = 0x616B3432
_HEADS = "(head d_head)"

LAYOUT = Layout(
    model=(
        same("tok_embeddings", "embed.W_E", "vocab d_model"),
        same("norm", "ln_final.w"),
        matrix("output", "unembed.W_U"),
    ),
    block=(
        same("layers.{layer}.attention_norm", "ln1.w"),
        Link("layers.{layer}.wq", ("attn.W_Q",), f"{_HEADS} d_model", "head d_model d_head"),
        Link("layers.{layer}.wk", ("attn.W_K",), f"{_HEADS} d_model", "head d_model d_head"),
        Link("layers.{layer}.wv", ("attn.W_V",), f"{_HEADS} d_model", "head d_model d_head"),
        Link("layers.{layer}.wo", ("attn.W_O",), f"d_model {_HEADS}", "head d_head d_model"),
        same("layers.{layer}.ffn_norm", "ln2.w"),
        matrix("layers.{layer}.w1", "mlp.W_gate"),
        matrix("layers.{layer}.w2", "mlp.W_out"),
        matrix("layers.{layer}.w3", "mlp.W_in"),
    ),
)
"""The names are those of llama2.c's own modules, since the file has none."""

_MATRICES = ("wq", "wk", "wv", "wo")
_NEURONS = ("w1", "w2", "w3")
_ORDERS = {
    0: ("tok_embeddings", "attention_norm", *_MATRICES, "ffn_norm", *_NEURONS, "norm", "freqs_cos", "freqs_sin", "output"),
    1: ("attention_norm", "ffn_norm", "norm", "tok_embeddings", *_MATRICES, *_NEURONS, "output"),
}
"""How the two versions order their tensors; one that a layer has stands for all layers in turn."""


@dataclass(frozen=True, slots=True)
class _Header:
    version: int
    size: int
    config: ModelConfig


def look(path: Path) -> Source:
    """A llama2.c model of version 0 or 1, with the ``tokenizer.bin`` that lies beside it."""
    with reading("header"):
        size = file_size(path)
        with open_file(path) as file:
            header = _header(file.read(256))
        entries = tuple(_entries(header))
        end = entries[-1].start + entries[-1].size
        if end != size:
            raise ModelFileError(
                f"{size:,} bytes", f"{end:,} bytes, as its header says", "it is cut short or damaged: fetch it again"
            )
    words = path.parent / "tokenizer.bin"
    return Source(
        path=path,
        format=f"llama2.c version {header.version}",
        config=header.config,
        entries=entries,
        read=lambda: _read(path, header.config, entries),
        files=(path, words),
        words=words if words.exists() else None,
    )


def _header(data: bytes) -> _Header:
    """The header, with or without the magic number that later versions begin with."""
    if len(data) < 28:
        raise ModelFileError(f"a file of {len(data)} bytes", "a header of at least 28", "check that it is the right file")
    if data.startswith(b"PK"):
        raise ModelFileError("a torch file, not one of llama2.c's", "seven whole numbers", "give the folder that it lies in")
    magic, version = struct.unpack_from("<Ii", data)
    if magic != MAGIC:
        numbers = struct.unpack_from("<7i", data)
        # The sign of the vocabulary says whether the unembedding is a tensor of its own.
        return _Header(0, 28, _config(numbers, tied=numbers[5] > 0))
    if version != 1 or len(data) < 256:
        raise ModelFileError(
            f"llama2.c version {version}", "version 0 or 1, in float32", "export it again with --version 1: int8 is not read"
        )
    numbers, shared = struct.unpack_from("<7i", data, 8), data[36]
    if shared > 1 or any(data[37:]):
        raise ModelFileError("flags that version 1 does not have", "a shared classifier or not, then zeros", "export it again")
    return _Header(1, 256, _config(numbers, tied=shared == 1))


def _config(numbers: tuple[int, ...], *, tied: bool) -> ModelConfig:
    d_model, d_mlp, layers, heads, key_heads, vocab, context = numbers
    if layers < 1 or heads < 1 or d_model % heads or key_heads < 1 or heads % key_heads:
        raise ModelFileError(
            f"dim {d_model}, {layers} layers, {heads} heads and {key_heads} key heads",
            "a llama2.c header with heads that divide both",
            "check that it is the right file",
        )
    d_head = d_model // heads
    return ModelConfig(
        vocab=abs(vocab),
        context=context,
        d_model=d_model,
        layers=layers,
        attention=Attention(heads=heads, d_head=d_head, group_size=heads // key_heads),
        feed_forward=GatedFeedForward(d_mlp=d_mlp),
        norm=PreNorm(norm=RMSNorm(eps=1e-5)),
        positions=RotaryPositions(dims=d_head, pairs="adjacent"),
        unembedding=Unembedding(tied=tied),
    )


def _entries(header: _Header) -> Iterator[TensorEntry]:
    """Every tensor at its place; the tables of angles are listed too, though nobody reads them."""
    config = header.config
    shapes: dict[str, Shape] = {name: link.shape(shape) for name, (link, _, shape) in LAYOUT.links(config).items()}
    shapes |= dict.fromkeys(["freqs_cos", "freqs_sin"], (config.context, config.d_head // 2))
    start = header.size
    for name in _ORDERS[header.version]:
        for full in [name] if name in shapes else [f"layers.{layer}.{name}" for layer in range(config.layers)]:
            if full in shapes:
                size = 4 * prod(shapes[full])
                yield TensorEntry(full, "float32", shapes[full], start, size)
                start += size


def _read(path: Path, config: ModelConfig, entries: tuple[TensorEntry, ...]) -> "dict[str, Tensor]":
    import torch

    tensors: dict[str, Tensor] = {}
    with open_file(path) as file:
        for entry in entries:
            if not entry.name.startswith("freqs"):
                file.seek(entry.start)
                tensors[entry.name] = torch.empty(entry.shape)
                fill(tensors[entry.name], file, None, f"{path.name}: {entry.name}")
    return LAYOUT.load(config, tensors)
