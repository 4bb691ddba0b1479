"""Tiny folders of other libraries, made without them."""

import json
import struct
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


def with_pickles(folder, shards=1):
    """A folder of the family ``gpt2`` as Hugging Face wrote it before, in one file or in several."""
    hugging_face(folder, "gpt2")
    tensors = load_file(folder / "model.safetensors")
    (folder / "model.safetensors").unlink()
    names = [f"pytorch_model-{number}.bin" for number in range(shards)] if shards > 1 else ["pytorch_model.bin"]
    listed = {tensor: names[number % shards] for number, tensor in enumerate(tensors)}
    for name in names:
        torch.save({tensor: tensors[tensor] for tensor in tensors if listed[tensor] == name}, folder / name)
    if shards > 1:
        (folder / "pytorch_model.bin.index.json").write_text(json.dumps({"metadata": {}, "weight_map": listed}))


def nanogpt(folder):
    """A checkpoint of GPT-2's tensors, matrices as ``nn.Linear`` has them."""
    config = replace(GPT2, feed_forward=replace(GPT2.feed_forward, d_mlp=24))
    export_hugging_face(random_weights(config, seed=0, dtype=torch.float32), folder)
    tensors = load_file(folder / "model.safetensors")
    state = {name: value.T.contiguous() if ".c_" in name and value.ndim == 2 else value for name, value in tensors.items()}
    sizes = {"n_layer": 2, "n_head": 2, "n_embd": 6, "block_size": 8, "bias": True, "vocab_size": 11}
    for path in list(folder.iterdir()):
        path.unlink()
    torch.save({"model": state, "model_args": sizes}, folder / "ckpt.pt")


def llama2c(path):
    """A file of version 0 with random numbers."""
    dim, hidden, layers, heads, vocab, context = 8, 6, 2, 2, 11, 7
    count = (vocab + 1) * dim + layers * (2 * dim + 4 * dim * dim + 3 * dim * hidden) + context * dim // heads
    numbers = torch.randn(count, generator=torch.Generator().manual_seed(0)).numpy().tobytes()
    path.write_bytes(struct.pack("<7i", dim, hidden, layers, heads, heads, vocab, context) + numbers)


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
