"""GGUF models of the architectures ``llama`` and ``qwen2``, dequantised to float32."""

import re
from dataclasses import replace
from pathlib import Path
from typing import TYPE_CHECKING, Any, Literal

from headwater.errors import ModelFileError
from headwater.files import gguf
from headwater.files.entries import TensorEntry
from headwater.model.config import (
    Attention,
    GatedFeedForward,
    LinearStretch,
    ModelConfig,
    NoStretch,
    PreNorm,
    RMSNorm,
    RotaryPositions,
    Unembedding,
)
from headwater.model.foreign.fields import Fields, reading
from headwater.model.foreign.links import Layout, Link, matrix, same
from headwater.model.source import Source

if TYPE_CHECKING:
    from torch import Tensor

_HEADS = "(head d_head)"

LAYOUT = Layout(
    model=(
        same("token_embd.weight", "embed.W_E", "vocab d_model"),
        same("output_norm.weight", "ln_final.w"),
        matrix("output.weight", "unembed.W_U"),
    ),
    block=(
        same("blk.{layer}.attn_norm.weight", "ln1.w"),
        *(
            Link(
                f"blk.{{layer}}.attn_{letter}.weight", (f"attn.W_{letter.upper()}",), f"{_HEADS} d_model", "head d_model d_head"
            )
            for letter in "qkv"
        ),
        *(Link(f"blk.{{layer}}.attn_{letter}.bias", (f"attn.b_{letter.upper()}",), _HEADS, "head d_head") for letter in "qkv"),
        Link("blk.{layer}.attn_output.weight", ("attn.W_O",), f"d_model {_HEADS}", "head d_head d_model"),
        same("blk.{layer}.attn_output.bias", "attn.b_O"),
        same("blk.{layer}.ffn_norm.weight", "ln2.w"),
        matrix("blk.{layer}.ffn_gate.weight", "mlp.W_gate"),
        matrix("blk.{layer}.ffn_up.weight", "mlp.W_in"),
        matrix("blk.{layer}.ffn_down.weight", "mlp.W_out"),
    ),
)

_PAIRS: dict[str, Literal["adjacent", "halves"]] = {"llama": "adjacent", "qwen2": "halves"}
"""Converters reorder the rows of a Llama's queries and keys, so that each rotary pair stands side by side."""


def look(path: Path) -> Source:
    """The model in a GGUF file; its vocabulary is in the same file."""
    file = gguf.look(path)
    with reading("metadata"):
        config = _config(file.metadata, {entry.name: entry for entry in file.tensors})
        # Whatever format a tensor is stored in, float32 is what will be read.
        LAYOUT.match(config, [replace(entry, dtype="float32") for entry in file.tensors])
    return Source(
        path=path,
        format=f"GGUF {file.metadata['general.architecture']}",
        config=config,
        entries=file.tensors,
        read=lambda: _read(path, config, file.tensors),
        files=(path,),
        words=path if "tokenizer.ggml.model" in file.metadata else None,
    )


def _read(path: Path, config: ModelConfig, entries: tuple[TensorEntry, ...]) -> "dict[str, Tensor]":
    return LAYOUT.load(config, {entry.name: gguf.read_tensor(path, entry) for entry in entries})


def _config(metadata: dict[str, Any], tensors: dict[str, TensorEntry]) -> ModelConfig:
    kind = metadata.get("general.architecture")
    if not isinstance(kind, str) or kind not in _PAIRS:
        raise ModelFileError(f"the architecture {kind!r:.40}", "llama or qwen2", "use a model of the Llama family")
    if "rope_freqs.weight" in tensors:
        raise ModelFileError("rope_freqs.weight", "rotary angles given by a base alone", "use the model's Hugging Face folder")
    prefix = f"{kind}."
    own = {name.removeprefix(prefix): value for name, value in metadata.items() if name.startswith(prefix)}
    others = [name for name in metadata if not re.match(rf"(general|tokenizer|quantize|{kind})\.", name)]
    if others:
        raise ModelFileError(f"the metadata {others[0]!r:.80}", f"general, tokenizer and {kind} keys only", "convert it again")
    fields = Fields(own, place=prefix)
    d_model = fields.whole("embedding_length")
    attention = _attention(fields, d_model, tensors)
    config = ModelConfig(
        vocab=fields.whole("vocab_size", default=_rows(tensors)),
        context=fields.whole("context_length"),
        d_model=d_model,
        layers=fields.whole("block_count"),
        attention=attention,
        feed_forward=GatedFeedForward(d_mlp=fields.whole("feed_forward_length")),
        norm=PreNorm(norm=RMSNorm(eps=fields.number("attention.layer_norm_rms_epsilon"))),
        positions=_positions(fields, kind, attention.d_head),
        unembedding=Unembedding(tied="output.weight" not in tensors),
    )
    fields.ignore(["tensor_data_layout"])
    fields.must_be(**{"expert_count": 0, "expert_used_count": 0, "use_parallel_residual": False, "attention.causal": True})
    fields.finish()
    return config


def _rows(tensors: dict[str, TensorEntry]) -> int:
    """The vocabulary where the metadata does not say: as many tokens as the embedding has rows."""
    return tensors["token_embd.weight"].shape[0] if "token_embd.weight" in tensors else 0


def _attention(fields: Fields, d_model: int, tensors: dict[str, TensorEntry]) -> Attention:
    heads = fields.whole("attention.head_count")
    key_heads = fields.whole("attention.head_count_kv", default=heads)
    if heads < 1 or key_heads < 1 or heads % key_heads:
        raise fields.unfit("attention.head_count_kv", key_heads, f"a divisor of attention.head_count={heads}")
    d_head = fields.whole("attention.key_length", default=d_model // heads)
    fields.must_be(**{"attention.value_length": d_head})
    return Attention(
        heads=heads,
        d_head=d_head,
        group_size=heads // key_heads,
        input_bias="blk.0.attn_q.bias" in tensors,
        output_bias="blk.0.attn_output.bias" in tensors,
    )


def _positions(fields: Fields, kind: str, d_head: int) -> RotaryPositions:
    scaling = fields.word("rope.scaling.type", among=("none", "linear"), default="none")
    factor = fields.number("rope.scaling.factor", default=1.0)
    if scaling == "none" and factor != 1:
        raise fields.unfit("rope.scaling.factor", factor, "rope.scaling.type with it")
    # Said of the training, not of the angles.
    fields.ignore(["rope.scaling.original_context_length", "rope.scaling.finetuned"])
    return RotaryPositions(
        dims=fields.whole("rope.dimension_count", default=d_head),
        base=fields.number("rope.freq_base", default=10_000.0),
        pairs=_PAIRS[kind],
        stretch=LinearStretch(factor=factor) if scaling == "linear" else NoStretch(),
    )
