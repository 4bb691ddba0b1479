"""Tiny folders of other libraries, made without them."""

import json
from dataclasses import replace

import torch
from safetensors.torch import load_file, save_file

from headwater.model.config import (
    Attention,
    FeedForward,
    GatedFeedForward,
    LearnedPositions,
    ModelConfig,
    PreNorm,
    RMSNorm,
    RotaryPositions,
    Unembedding,
)
from headwater.model.export import export_hugging_face, export_transformer_lens
from strategies import random_weights

GPT2 = ModelConfig(
    vocab=11, context=8, d_model=6, layers=2, attention=Attention(heads=2, d_head=3, input_bias=True, output_bias=True),
    feed_forward=FeedForward(d_mlp=5, activation="gelu-tanh"), norm=PreNorm(), positions=LearnedPositions(),
    unembedding=Unembedding(tied=True),
)  # fmt: skip
# Several heads, key heads and turning entries, none of them equal in number: what is mixed up must show.
NEOX = replace(
    GPT2, d_model=12, attention=replace(GPT2.attention, heads=3, d_head=4), positions=RotaryPositions(dims=2),
    unembedding=Unembedding(),
)  # fmt: skip
LLAMA = replace(
    NEOX, attention=Attention(heads=4, d_head=6, group_size=2), feed_forward=GatedFeedForward(d_mlp=5),
    norm=PreNorm(norm=RMSNorm()), positions=RotaryPositions(dims=6),
)  # fmt: skip
QWEN2 = replace(LLAMA, attention=replace(LLAMA.attention, input_bias=True))
CONFIGS = {"gpt2": GPT2, "neox": NEOX, "llama": LLAMA, "mistral": LLAMA, "qwen2": QWEN2}


def hugging_face(folder, family, dtype=torch.float32):
    """A folder of the family, with random numbers."""
    weights = random_weights(CONFIGS[family], seed=0, dtype=dtype)
    export_hugging_face(weights, folder)
    if family == "mistral":
        change_config(folder, architectures=["MistralForCausalLM"], model_type="mistral", sliding_window=None)
        drop_fields(folder, "attention_bias", "mlp_bias")
    return weights


def transformer_lens(folder, config=GPT2):
    """A folder with a state dict, with random numbers."""
    weights = random_weights(config, seed=0, dtype=torch.float32)
    export_transformer_lens(weights, folder)
    return weights


def change_config(folder, **fields):
    """Other values in config.json."""
    plain = json.loads((folder / "config.json").read_text())
    (folder / "config.json").write_text(json.dumps(plain | fields))


def drop_fields(folder, *names):
    """Fields out of config.json."""
    plain = json.loads((folder / "config.json").read_text())
    (folder / "config.json").write_text(json.dumps({key: value for key, value in plain.items() if key not in names}))


def change_tensors(folder, change):
    """Other tensors in model.safetensors: ``change`` gets the dictionary."""
    tensors = load_file(folder / "model.safetensors")
    change(tensors)
    save_file(tensors, folder / "model.safetensors")
