"""The way back: weights as a TransformerLens state dict, or as a Hugging Face folder that ``transformers`` loads."""

import json
from collections.abc import Mapping
from dataclasses import replace
from pathlib import Path
from typing import Any

import torch
from torch import Tensor

from headwater.errors import ConfigError
from headwater.files.atomic import new_folder
from headwater.files.safetensors import write_tensors
from headwater.model.config import (
    GatedFeedForward,
    ModelConfig,
    PreNorm,
    RMSNorm,
    RotaryPositions,
    SinusoidalPositions,
)
from headwater.model.foreign import gpt2, gpt_neox, llama, transformer_lens
from headwater.model.foreign.expressed import Expressed
from headwater.model.foreign.links import Layout
from headwater.model.layout import tensor_shapes
from headwater.model.positions import sinusoids
from headwater.model.weights import Weights

OURS = ("config.json", "model.safetensors", "tokenizer.json")


def to_transformer_lens(weights: Weights) -> tuple[dict[str, Any], dict[str, Tensor]]:
    """The arguments of a ``HookedTransformerConfig``, and a state dict for ``load_state_dict(…, strict=False)``.

    Strict loading would also ask for buffers, which hold nothing. Biases that the model lacks are zeros, fixed positions
    are written as learned ones, a tied unembedding as a matrix of its own. What TransformerLens has no word for is refused.

    >>> from headwater.model.presets import named
    >>> config, tensors = to_transformer_lens(Weights.draw(named("zero-layer"), seed=0))
    >>> config["d_vocab"], sorted(tensors)
    (4096, ['embed.W_E', 'pos_embed.W_pos', 'unembed.W_U', 'unembed.b_U'])
    """
    expressed = transformer_lens.express(weights.config)
    tensors = recast(weights, expressed.config)
    for name, tensor in tensors.items():
        if isinstance(expressed.config.feed_forward, GatedFeedForward) and name.endswith((".b_in", ".b_gate")) and tensor.any():
            raise ConfigError(
                f"{name} is not zero", "TransformerLens adds it after the product", "save it in Headwater's own format"
            )
    layout = transformer_lens.layout_of(expressed.config, grouped=expressed.plain["n_key_value_heads"] is not None)
    return expressed.plain | {"dtype": weights.dtype}, layout.save(expressed.config, tensors)


def export_transformer_lens(
    weights: Weights, folder: Path, *, tokenizer_json: bytes | None = None, overwrite: bool = False
) -> None:
    """A folder with the state dict and, as ``config.json``, the dictionary of its configuration."""
    plain, tensors = to_transformer_lens(weights)
    _write(folder, plain | {"dtype": str(weights.dtype), "device": "cpu"}, tensors, tokenizer_json, overwrite=overwrite)


def export_hugging_face(
    weights: Weights, folder: Path, *, tokenizer_json: bytes | None = None, overwrite: bool = False
) -> None:
    """A folder for ``transformers``: GPT-2 for learned positions, GPT-NeoX for rotary ones, Llama or Qwen2 for gated layers.

    Biases and gains that the class always has are written as zeros and ones. Rotary pairs that are neighbours are moved
    apart, as these classes want them: the entries of queries and keys change places alike, so that no score changes.
    What no class can express is refused.
    """
    expressed, layout = _family(weights.config)
    config = expressed.config
    tensors = recast(weights, config)
    if isinstance(config.positions, RotaryPositions) and config.positions.pairs == "adjacent":
        tensors = _in_halves(tensors, config.positions.dims)
        config = replace(config, positions=replace(config.positions, pairs="halves"))
    # Special tokens are the tokenizer's business; left out, the class would assume its own.
    plain = expressed.plain | {"torch_dtype": str(weights.dtype)[6:], "bos_token_id": None, "eos_token_id": None}
    _write(folder, plain, layout.save(config, tensors), tokenizer_json, overwrite=overwrite)


def _family(config: ModelConfig) -> tuple[Expressed, Layout]:
    """The class that fits; what it cannot hold, no other one can."""
    if isinstance(config.feed_forward, GatedFeedForward) or (
        isinstance(config.norm, PreNorm) and isinstance(config.norm.norm, RMSNorm)
    ):
        return llama.express(config), llama.LAYOUT
    if isinstance(config.positions, RotaryPositions):
        return gpt_neox.express(config), gpt_neox.LAYOUT
    return gpt2.express(config), gpt2.LAYOUT


def recast(weights: Weights, config: ModelConfig) -> dict[str, Tensor]:
    """The tensors that the same model has under a nearby configuration: zeros for biases and ones for gains that it adds,
    a table for positions that it calls learned, nothing for biases that it drops, which must be zero."""
    given, needed = weights.tensors(), tensor_shapes(config)
    for name in given.keys() - needed.keys():
        if given[name].any():
            raise ConfigError(f"{name} is not zero", "a bias that the format has", "save the model in Headwater's own format")
    return {name: given[name] if name in given else _added(weights, name, shape) for name, shape in needed.items()}


def _added(weights: Weights, name: str, shape: tuple[int, ...]) -> Tensor:
    kind, positions = name.rsplit(".", 1)[1], weights.config.positions
    if kind == "W_U":
        return weights.W_U
    if kind == "W_pos" and isinstance(positions, SinusoidalPositions):
        return sinusoids(weights.config.d_model, positions.base, 0, weights.config.context).to(weights.W_E)
    return torch.full(shape, 1.0 if kind == "w" else 0.0, dtype=weights.dtype, device=weights.device)


def _in_halves(tensors: Mapping[str, Tensor], dims: int) -> dict[str, Tensor]:
    """Pairs ``(2i, 2i + 1)`` of every query and key moved to ``(i, i + dims/2)``."""
    turning = torch.arange(dims).view(-1, 2).T.flatten()
    moved = dict(tensors)
    for name, tensor in tensors.items():
        if name.rsplit(".", 1)[1] in ("W_Q", "W_K", "b_Q", "b_K"):
            order = torch.cat([turning, torch.arange(dims, tensor.shape[-1])])
            moved[name] = tensor[..., order.to(tensor.device)]
    return moved


def _write(
    folder: Path, plain: dict[str, Any], tensors: Mapping[str, Tensor], tokenizer_json: bytes | None, *, overwrite: bool
) -> None:
    with new_folder(folder, overwrite=overwrite, ours=OURS) as temporary:
        (temporary / "config.json").write_text(json.dumps(plain, indent=2) + "\n", encoding="utf-8")
        write_tensors(temporary / "model.safetensors", tensors, {"format": "pt"})
        if tokenizer_json is not None:
            (temporary / "tokenizer.json").write_bytes(tokenizer_json)
