"""Where each number lies in a Hugging Face file, and what a file that says nothing means."""

import pytest
from safetensors.torch import load_file

import foreign_models as made
from headwater.model.config import (
    Attention,
    FeedForward,
    GatedFeedForward,
    LayerNorm,
    ModelConfig,
    PreNorm,
    RMSNorm,
    RotaryPositions,
)
from headwater.model.foreign import hugging_face
from headwater.model.foreign.fields import Fields
from headwater.model.presets import named
from headwater.model.sources import look


def test_where_each_head_lies_in_the_files(tmp_path):
    """Written out number by number, because loading and export share one table."""
    for family in ("gpt2", "neox", "llama"):
        weights = made.hugging_face(tmp_path / family, family)
        stored = load_file(tmp_path / family / "model.safetensors")
        heads, d_head, d_model = weights.config.heads, weights.config.d_head, weights.config.d_model
        block = weights.blocks[1].attention
        for head in range(heads):
            for entry in range(d_head):
                place = head * d_head + entry
                if family == "gpt2":
                    for part, (W, b) in enumerate([(block.W_Q, block.b_Q), (block.W_K, block.b_K), (block.W_V, block.b_V)]):
                        column = part * d_model + place
                        assert stored["transformer.h.1.attn.c_attn.weight"][:, column].equal(W[head, :, entry])
                        assert stored["transformer.h.1.attn.c_attn.bias"][column] == b[head, entry]
                    assert stored["transformer.h.1.attn.c_proj.weight"][place].equal(block.W_O[head, entry])
                elif family == "neox":
                    for part, (W, b) in enumerate([(block.W_Q, block.b_Q), (block.W_K, block.b_K), (block.W_V, block.b_V)]):
                        row = (head * 3 + part) * d_head + entry
                        assert stored["gpt_neox.layers.1.attention.query_key_value.weight"][row].equal(W[head, :, entry])
                        assert stored["gpt_neox.layers.1.attention.query_key_value.bias"][row] == b[head, entry]
                    assert stored["gpt_neox.layers.1.attention.dense.weight"][:, place].equal(block.W_O[head, entry])
                else:
                    assert stored["model.layers.1.self_attn.q_proj.weight"][place].equal(block.W_Q[head, :, entry])
                    if head < weights.config.attention.key_heads:
                        assert stored["model.layers.1.self_attn.k_proj.weight"][place].equal(block.W_K[head, :, entry])
                        assert stored["model.layers.1.self_attn.v_proj.weight"][place].equal(block.W_V[head, :, entry])
                    assert stored["model.layers.1.self_attn.o_proj.weight"][:, place].equal(block.W_O[head, entry])


def test_where_each_neuron_lies_in_the_files(tmp_path):
    paths = {
        "gpt2": ("transformer.h.0.mlp.c_fc", "transformer.h.0.mlp.c_proj"),
        "neox": ("gpt_neox.layers.0.mlp.dense_h_to_4h", "gpt_neox.layers.0.mlp.dense_4h_to_h"),
        "llama": ("model.layers.0.mlp.up_proj", "model.layers.0.mlp.down_proj"),
    }
    for family, (into, out) in paths.items():
        layer = made.hugging_face(tmp_path / family, family).blocks[0].feed_forward
        stored = load_file(tmp_path / family / "model.safetensors")
        first, second = stored[f"{into}.weight"], stored[f"{out}.weight"]
        if family == "gpt2":
            first, second = first.T, second.T
        assert first.equal(layer.W_in.T)
        assert second.equal(layer.W_out.T)
        if family == "llama":
            assert stored["model.layers.0.mlp.gate_proj.weight"].equal(layer.W_gate.T)


GATED = {"norm": PreNorm(norm=RMSNorm(eps=1e-6)), "positions": RotaryPositions(dims=128), "d_model": 4096, "layers": 32}
DEFAULTS = {
    "GPT2LMHeadModel": named("gpt2-small"),
    "GPTNeoXForCausalLM": ModelConfig(
        vocab=50432, context=2048, d_model=6144, layers=44,
        attention=Attention(heads=64, d_head=96, input_bias=True, output_bias=True),
        feed_forward=FeedForward(d_mlp=24576, activation="gelu", reads="beside-attention"),
        norm=PreNorm(norm=LayerNorm(eps=1e-5)), positions=RotaryPositions(dims=24),
    ),
    "LlamaForCausalLM": ModelConfig(
        vocab=32000, context=2048, attention=Attention(heads=32, d_head=128), feed_forward=GatedFeedForward(d_mlp=11008), **GATED
    ),
    "MistralForCausalLM": ModelConfig(
        vocab=32000, context=4096, attention=Attention(heads=32, d_head=128, group_size=4),
        feed_forward=GatedFeedForward(d_mlp=14336), **GATED,
    ),
    "Qwen2ForCausalLM": ModelConfig(
        vocab=151936, context=32768, attention=Attention(heads=32, d_head=128, input_bias=True),
        feed_forward=GatedFeedForward(d_mlp=22016), **GATED,
    ),
}  # fmt: skip


@pytest.mark.parametrize("name", DEFAULTS)
def test_an_empty_configuration_is_that_of_the_class(name):
    assert hugging_face.FAMILIES[name].read_config(Fields({})) == DEFAULTS[name]


def test_the_original_context_is_the_context_when_left_out(tmp_path):
    made.hugging_face(tmp_path / "m", "llama")
    table = {"rope_type": "llama3", "factor": 8.0, "low_freq_factor": 1.0, "high_freq_factor": 4.0}
    made.change_config(tmp_path / "m", rope_scaling=table)
    assert look(tmp_path / "m").config.positions.stretch.original_context == made.LLAMA.context


def test_without_a_window_a_mistral_takes_all_its_positions():
    assert hugging_face.FAMILIES["MistralForCausalLM"].read_config(Fields({"sliding_window": None})).context == 131_072
