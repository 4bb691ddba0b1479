"""``HookedTransformer`` with random weights, read by us; models of ours, read by ``HookedTransformer``."""

import json
from dataclasses import replace

import pytest
import torch
from safetensors.torch import save_file

from headwater.model.config import (
    Attention,
    FeedForward,
    GatedFeedForward,
    LayerNorm,
    LearnedPositions,
    LinearStretch,
    Llama3Stretch,
    ModelConfig,
    NoNorm,
    NoPositions,
    PreNorm,
    RMSNorm,
    RotaryPositions,
    SinusoidalPositions,
    Unembedding,
)
from headwater.model.export import export_transformer_lens, to_transformer_lens
from headwater.model.forward import forward
from headwater.model.record import record
from headwater.model.sources import load_weights, look
from peers.precision import doubled, furthest, randomise
from strategies import random_tokens, random_weights

pytestmark = [pytest.mark.peers, pytest.mark.filterwarnings("ignore")]

SIZES = {"d_model": 24, "d_head": 8, "n_heads": 3, "n_layers": 2, "n_ctx": 16, "d_vocab": 37, "d_mlp": 40, "device": "cpu"}
ROTARY = {**SIZES, "act_fn": "relu", "positional_embedding_type": "rotary"}

CASES = {
    "attention only": {**SIZES, "attn_only": True, "normalization_type": None},
    "attention only, LN": {**SIZES, "attn_only": True, "normalization_type": "LN"},
    "no layers": {**SIZES, "n_layers": 0, "attn_only": True, "normalization_type": "LN"},
    "LN, relu": {**SIZES, "act_fn": "relu"},
    "LNPre, gelu": {**SIZES, "act_fn": "gelu", "normalization_type": "LNPre"},
    "no norm, gelu_new": {**SIZES, "act_fn": "gelu_new", "normalization_type": None},
    "RMS, gated silu": {**SIZES, "act_fn": "silu", "normalization_type": "RMS", "gated_mlp": True, "final_rms": True},
    "RMSPre, gated gelu": {**SIZES, "act_fn": "gelu", "normalization_type": "RMSPre", "gated_mlp": True, "eps": 0.1},
    "gelu_fast": {**SIZES, "act_fn": "gelu_fast"},
    "halves turn": {**ROTARY, "rotary_base": 100},
    "neighbours turn": {**ROTARY, "rotary_adjacent_pairs": True, "rotary_dim": 4},
    "linear": {**ROTARY, "rotary_scaling_factor": 4.0},
    "by parts": {**ROTARY, "use_NTK_by_parts_rope": True, "NTK_original_ctx_len": 12, "rotary_base": 500},
    "shortformer": {**SIZES, "act_fn": "relu", "positional_embedding_type": "shortformer"},
    "shortformer, no norm": {
        **SIZES, "attn_only": True, "normalization_type": None, "positional_embedding_type": "shortformer",
    },
    "parallel": {**SIZES, "act_fn": "gelu", "parallel_attn_mlp": True},
    "grouped": {**SIZES, "n_heads": 6, "n_key_value_heads": 2, "act_fn": "relu"},
    "all share": {**ROTARY, "n_heads": 6, "n_key_value_heads": 1},
    "grouped one by one": {**SIZES, "n_key_value_heads": 3, "act_fn": "relu"},
    "unscaled": {**SIZES, "act_fn": "relu", "use_attn_scale": False},
    "both ways": {**SIZES, "act_fn": "relu", "attention_dir": "bidirectional"},
}  # fmt: skip


@pytest.fixture(scope="module")
def lens():
    import transformer_lens

    return transformer_lens


def build(lens, case, dtype):
    model = lens.HookedTransformer(lens.HookedTransformerConfig(**CASES[case], dtype=dtype))
    # Without norms the stream grows, and single precision has fewer digits left behind the point.
    randomise(model, spread=0.2 if model.cfg.normalization_type is None else 0.4)
    for block in model.blocks if model.cfg.gated_mlp else []:
        block.mlp.b_in.data.zero_()
    return model


def save(model, folder, name="model.pt"):
    (folder / "config.json").write_text(json.dumps(model.cfg.to_dict(), default=str))
    state = {name: tensor.contiguous() for name, tensor in model.state_dict().items()}
    save_file(state, folder / name) if name.endswith(".safetensors") else torch.save(state, folder / name)


def assert_agrees(weights, model, within):
    tokens = random_tokens(weights.config, seed=0)
    with torch.no_grad():
        logits, cache = model.run_with_cache(tokens)
    recorded = record(weights, tokens)
    assert logits.abs().max() > 1
    assert furthest(forward(weights, tokens), logits) < within
    for layer in range(weights.config.layers):
        assert furthest(recorded[f"L{layer}.pattern"], cache[f"blocks.{layer}.attn.hook_pattern"]) < within


@pytest.mark.parametrize("case", CASES)
def test_a_state_dict_gives_the_same_logits_and_patterns(lens, tmp_path, case):
    model = build(lens, case, torch.float32)
    save(model, tmp_path)
    assert_agrees(load_weights(look(tmp_path)), model, within=1e-4)


@pytest.mark.parametrize("case", CASES)
def test_in_double_precision_they_agree_to_nine_digits(lens, tmp_path, case):
    with doubled():
        model = build(lens, case, torch.float64)
    save(model, tmp_path, "weights.safetensors")
    weights = load_weights(look(tmp_path / "weights.safetensors"))
    assert weights.dtype == torch.float64
    assert_agrees(weights, model, within=1e-9)


BASE = ModelConfig(
    vocab=37, context=16, d_model=24, layers=2, attention=Attention(heads=4, d_head=8, group_size=2), norm=PreNorm(),
    feed_forward=FeedForward(d_mlp=20, activation="gelu-tanh", bias=False), positions=LearnedPositions(),
    unembedding=Unembedding(tied=True),
)  # fmt: skip
TURNING = RotaryPositions(dims=4, base=100.0, pairs="adjacent")
LLAMA_STRETCH = Llama3Stretch(factor=8.0, low_frequency_factor=1.0, high_frequency_factor=4.0, original_context=12)
EXPORTED = {
    "tied": BASE,
    "no layers": ModelConfig(vocab=37, context=16, d_model=24, layers=0),
    "attention only": replace(BASE, feed_forward=None, norm=NoNorm(), positions=NoPositions()),
    "positions into queries": replace(BASE, positions=SinusoidalPositions(into="queries-and-keys", base=50.0)),
    "gain without bias": replace(BASE, norm=PreNorm(norm=LayerNorm(bias=False))),
    "gated": replace(BASE, feed_forward=GatedFeedForward(d_mlp=20, reads="beside-attention"), norm=PreNorm(norm=RMSNorm())),
    "neighbours turn": replace(BASE, positions=TURNING, norm=PreNorm(norm=RMSNorm(gain=False))),
    "linear": replace(BASE, positions=replace(TURNING, stretch=LinearStretch(factor=3.0))),
    "llama 3": replace(BASE, positions=replace(TURNING, pairs="halves", stretch=LLAMA_STRETCH)),
    "full, unscaled": replace(BASE, attention=Attention(heads=4, d_head=8, mask="full", scaled=False, input_bias=True)),
}


@pytest.mark.parametrize("case", EXPORTED)
def test_an_exported_state_dict_loads_in_hooked_transformer(lens, tmp_path, case):
    weights = random_weights(EXPORTED[case], seed=0)
    config, tensors = to_transformer_lens(weights)
    with doubled():
        model = lens.HookedTransformer(lens.HookedTransformerConfig(**config))
    missing, unexpected = model.load_state_dict(tensors, strict=False)
    assert not unexpected
    assert all(name.endswith((".mask", ".IGNORE", ".rotary_sin", ".rotary_cos")) for name in missing)
    assert_agrees(weights, model, within=1e-9)
    export_transformer_lens(weights, tmp_path / "folder")
    assert_agrees(load_weights(look(tmp_path / "folder")), model, within=1e-9)
