"""Models of ``transformers`` with random weights, read by us; models of ours, read by ``transformers``."""

import copy
import json
from dataclasses import replace

import pytest
import torch

from headwater.errors import InputError
from headwater.model.config import (
    Attention,
    FeedForward,
    GatedFeedForward,
    LayerNorm,
    LearnedPositions,
    LinearStretch,
    Llama3Stretch,
    ModelConfig,
    NoPositions,
    PreNorm,
    RMSNorm,
    RotaryPositions,
    SinusoidalPositions,
    Unembedding,
)
from headwater.model.export import export_hugging_face
from headwater.model.forward import forward
from headwater.model.sources import load_weights, look
from peers.precision import doubled, furthest, randomise
from strategies import random_tokens, random_weights

pytestmark = [pytest.mark.peers, pytest.mark.filterwarnings("ignore")]

GPT2 = {"vocab_size": 37, "n_positions": 16, "n_embd": 24, "n_layer": 2, "n_head": 3, "bos_token_id": 0, "eos_token_id": 0}
NEOX = {
    "vocab_size": 37, "max_position_embeddings": 16, "hidden_size": 24, "num_hidden_layers": 2, "num_attention_heads": 3,
    "intermediate_size": 40,
}  # fmt: skip
LLAMA = {**NEOX, "num_attention_heads": 4, "num_key_value_heads": 2}
LLAMA_3 = {
    "rope_type": "llama3", "rope_theta": 500.0, "factor": 8.0, "low_freq_factor": 1.0, "high_freq_factor": 4.0,
    "original_max_position_embeddings": 12,
}  # fmt: skip
LINEAR = {"rope_type": "linear", "rope_theta": 100.0, "factor": 4.0}

CASES = {
    "gpt2": ("GPT2", GPT2),
    "gpt2 untied": ("GPT2", {**GPT2, "tie_word_embeddings": False, "n_inner": 20, "activation_function": "relu"}),
    "gpt2 unscaled": ("GPT2", {**GPT2, "scale_attn_weights": False, "activation_function": "silu", "layer_norm_epsilon": 0.1}),
    "gpt2 gelu_fast": ("GPT2", {**GPT2, "activation_function": "gelu_fast"}),
    "neox parallel": ("GPTNeoX", NEOX),
    "neox serial": ("GPTNeoX", {**NEOX, "use_parallel_residual": False, "hidden_act": "gelu_new"}),
    "neox partial": ("GPTNeoX", {**NEOX, "rope_parameters": {**LINEAR, "partial_rotary_factor": 0.5}}),
    "neox whole, tied": ("GPTNeoX", {**NEOX, "rotary_pct": 1.0, "attention_bias": False, "tie_word_embeddings": True}),
    "llama": ("Llama", LLAMA),
    "llama ungrouped": ("Llama", {**LLAMA, "num_key_value_heads": 4, "head_dim": 10, "hidden_act": "gelu"}),
    "llama 3": ("Llama", {**LLAMA, "rope_parameters": LLAMA_3, "head_dim": 16}),
    "llama linear": ("Llama", {**LLAMA, "rope_parameters": LINEAR}),
    "llama biased": ("Llama", {**LLAMA, "attention_bias": True, "mlp_bias": True, "rms_norm_eps": 0.1}),
    "llama tied": ("Llama", {**LLAMA, "tie_word_embeddings": True}),
    "mistral window": ("Mistral", {**LLAMA, "sliding_window": 9, "head_dim": 8}),
    "mistral open": ("Mistral", {**LLAMA, "sliding_window": None}),
    "qwen2": ("Qwen2", LLAMA),
    "qwen2 window": ("Qwen2", {**LLAMA, "use_sliding_window": True, "sliding_window": 10, "max_window_layers": 1}),
    "qwen2 tied": ("Qwen2", {**LLAMA, "tie_word_embeddings": True, "num_key_value_heads": 1}),
}  # fmt: skip


@pytest.fixture(scope="module")
def transformers():
    import transformers

    transformers.logging.set_verbosity_error()
    return transformers


def build(transformers, case):
    name, settings = CASES[case]
    model = getattr(transformers, f"{name}LMHeadModel" if name == "GPT2" else f"{name}ForCausalLM")
    return randomise(model(getattr(transformers, f"{name}Config")(**settings)))


def in_double(model, *arguments):
    """The same model built and run in double precision."""
    with doubled(), torch.no_grad():
        twin = type(model)(model.config).double().eval()
        twin.load_state_dict(model.state_dict())
        return twin(*arguments).logits


def assert_agrees(folder, model):
    weights = load_weights(look(folder))
    tokens = random_tokens(weights.config, seed=0)
    with torch.no_grad():
        theirs = model(tokens).logits
    assert theirs.abs().max() > 1
    assert furthest(forward(weights, tokens), theirs) < 1e-4
    assert furthest(forward(weights.to(dtype=torch.float64), tokens), in_double(model, tokens)) < 1e-9


@pytest.mark.parametrize("case", CASES)
def test_a_saved_model_gives_the_same_logits(transformers, tmp_path, case):
    model = build(transformers, case)
    model.save_pretrained(tmp_path)
    assert_agrees(tmp_path, model)


@pytest.mark.parametrize("case", ["gpt2", "neox parallel", "llama tied", "qwen2"])
def test_shards_give_the_same_logits(transformers, tmp_path, case):
    model = build(transformers, case)
    model.save_pretrained(tmp_path, max_shard_size="10KB")
    assert len(list(tmp_path.glob("*.safetensors"))) > 2
    assert_agrees(tmp_path, model)


@pytest.mark.parametrize("case", ["gpt2", "neox parallel", "llama"])
@pytest.mark.parametrize("dtype", [torch.bfloat16, torch.float16])
def test_half_precision_is_read_exactly(transformers, tmp_path, case, dtype):
    model = build(transformers, case)
    with torch.no_grad():
        for parameter in model.parameters():
            parameter.copy_(parameter.to(dtype))
    copy.deepcopy(model).to(dtype).save_pretrained(tmp_path)
    assert {entry.dtype for entry in look(tmp_path).entries} == {str(dtype)[6:]}
    assert_agrees(tmp_path, model)


@pytest.mark.parametrize("case", ["gpt2", "neox whole, tied", "llama tied", "qwen2"])
def test_a_pickled_state_dict_gives_the_same_logits(transformers, tmp_path, case):
    model = build(transformers, case)
    model.config.architectures = [type(model).__name__]
    model.config.save_pretrained(tmp_path)
    names = {"lm_head.weight": "embed_out.weight"} if case.startswith("neox") else {}
    torch.save({names.get(name, name): tensor for name, tensor in model.state_dict().items()}, tmp_path / "pytorch_model.bin")
    assert_agrees(tmp_path, model)


def test_names_without_their_prefix_are_read(transformers, tmp_path):
    model = build(transformers, "gpt2")
    model.config.architectures = ["GPT2LMHeadModel"]
    model.config.save_pretrained(tmp_path)
    torch.save(model.transformer.state_dict(), tmp_path / "pytorch_model.bin")
    assert_agrees(tmp_path, model)


@pytest.mark.parametrize("case", ["mistral window", "qwen2 window"])
def test_a_window_bounds_the_context_because_longer_texts_differ(transformers, tmp_path, case):
    model = build(transformers, case)
    model.save_pretrained(tmp_path)
    weights = load_weights(look(tmp_path))
    window = model.config.sliding_window
    assert weights.config.context == window
    longer = random_tokens(weights.config, seed=0, length=window + 4)
    with pytest.raises(InputError, match="tokens"):
        forward(weights, longer)
    unbounded = replace(weights, config=replace(weights.config, context=16))
    with torch.no_grad():
        difference = (forward(unbounded, longer) - model(longer).logits).abs().amax(dim=(0, 2))
    assert difference[:window].max() < 1e-4
    assert difference[window:].min() > 1e-3


@pytest.mark.parametrize("case", CASES)
def test_missing_fields_take_the_defaults_of_the_class(transformers, tmp_path, case):
    """What ``save_pretrained`` leaves out because it is a default, and what we leave out ourselves, must mean the same."""
    model = build(transformers, case)
    model.save_pretrained(tmp_path)
    written, defaults = look(tmp_path).config, type(model.config)()
    plain = json.loads((tmp_path / "config.json").read_text())
    ours = {"layer_types", "head_dim", "rope_parameters"}
    kept = {key: value for key, value in plain.items() if key in ours or getattr(defaults, key, None) != value}
    assert len(kept) < len(plain)
    (tmp_path / "config.json").write_text(json.dumps(kept | {"architectures": plain["architectures"]}))
    assert look(tmp_path).config == written


@pytest.mark.parametrize("case", CASES)
def test_every_field_that_the_class_can_write_is_known(transformers, tmp_path, case):
    model = build(transformers, case)
    model.save_pretrained(tmp_path)
    config = look(tmp_path).config
    model.config.to_json_file(tmp_path / "config.json", use_diff=False)
    assert look(tmp_path).config == config


ROTARY = RotaryPositions(dims=8, base=100.0)
EXPORTED = {
    "gpt2": ModelConfig(
        vocab=37, context=16, d_model=24, layers=2, attention=Attention(heads=3, d_head=8), norm=PreNorm(),
        feed_forward=FeedForward(d_mlp=20, activation="gelu-tanh"), positions=LearnedPositions(),
        unembedding=Unembedding(tied=True),
    ),
    "neox": ModelConfig(
        vocab=37, context=16, d_model=24, layers=2, attention=Attention(heads=3, d_head=8, input_bias=True), norm=PreNorm(),
        feed_forward=FeedForward(d_mlp=20, activation="gelu", reads="beside-attention"), positions=ROTARY,
    ),
    "llama": ModelConfig(
        vocab=37, context=16, d_model=24, layers=2, attention=Attention(heads=4, d_head=8, group_size=2),
        norm=PreNorm(norm=RMSNorm()), feed_forward=GatedFeedForward(d_mlp=20), positions=ROTARY,
    ),
}  # fmt: skip
LLAMA_STRETCH = Llama3Stretch(factor=8.0, low_frequency_factor=1.0, high_frequency_factor=4.0, original_context=12)
EXPORTED |= {
    "gpt2 without biases, gains, or ties": replace(
        EXPORTED["gpt2"],
        feed_forward=FeedForward(d_mlp=20, activation="silu", bias=False),
        norm=PreNorm(norm=LayerNorm(gain=False, bias=False, eps=0.1)),
        unembedding=Unembedding(),
    ),
    "gpt2 sinusoidal, unscaled": replace(
        EXPORTED["gpt2"], positions=SinusoidalPositions(base=50.0), attention=Attention(heads=3, d_head=8, scaled=False)
    ),
    "gpt2 without positions": replace(EXPORTED["gpt2"], positions=NoPositions()),
    "neox serial, neighbours turn": replace(
        EXPORTED["neox"], feed_forward=FeedForward(d_mlp=20, bias=False), positions=replace(ROTARY, pairs="adjacent", dims=4)
    ),
    "neox linear": replace(EXPORTED["neox"], positions=replace(ROTARY, stretch=LinearStretch(factor=3.0))),
    "llama 3, neighbours turn": replace(
        EXPORTED["llama"],
        positions=replace(ROTARY, pairs="adjacent", stretch=LLAMA_STRETCH),
        unembedding=Unembedding(tied=True),
    ),
    "llama with some biases": replace(
        EXPORTED["llama"],
        attention=Attention(heads=4, d_head=8, group_size=4, output_bias=True),
        feed_forward=GatedFeedForward(d_mlp=20, activation="gelu", bias=True),
        norm=PreNorm(norm=RMSNorm(gain=False)),
    ),
    "qwen2": replace(EXPORTED["llama"], attention=Attention(heads=5, d_head=8, input_bias=True)),
}


@pytest.mark.parametrize("case", EXPORTED)
def test_an_exported_folder_loads_in_transformers(transformers, tmp_path, case):
    weights = random_weights(EXPORTED[case], seed=0, dtype=torch.float64)
    tokens = random_tokens(weights.config, seed=0)
    export_hugging_face(weights.to(dtype=torch.float32), tmp_path / "single")
    model, report = transformers.AutoModelForCausalLM.from_pretrained(
        tmp_path / "single", dtype=torch.float32, output_loading_info=True
    )
    assert not any(report.values())
    with torch.no_grad():
        theirs = model(tokens).logits
    assert theirs.abs().max() > 1
    assert furthest(forward(weights.to(dtype=torch.float32), tokens), theirs) < 1e-4
    export_hugging_face(weights, tmp_path / "double")
    with doubled(), torch.no_grad():
        theirs = transformers.AutoModelForCausalLM.from_pretrained(tmp_path / "double", dtype=torch.float64)(tokens).logits
    assert furthest(forward(weights, tokens), theirs) < 1e-9
