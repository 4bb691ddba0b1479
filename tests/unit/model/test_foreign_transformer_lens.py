import contextlib
import json
from dataclasses import replace

import pytest
import torch
from hypothesis import given
from hypothesis import strategies as st
from safetensors.torch import load_file

import foreign_models as made
from headwater.errors import ModelFileError
from headwater.model.config import GatedFeedForward, ModelConfig, PreNorm, RMSNorm, RotaryPositions
from headwater.model.sources import load_weights, look

ROTARY = replace(made.LLAMA, feed_forward=made.GPT2.feed_forward, positions=RotaryPositions(dims=4))

REFUSED = [
    ("colour", "red"),
    ("use_local_attn", True),
    ("num_experts", 4),
    ("experts_per_token", 2),
    ("attn_scores_soft_cap", 30.0),
    ("output_logits_soft_cap", 30.0),
    ("scale_attn_by_inverse_layer_idx", True),
    ("post_embedding_ln", True),
    ("use_normalization_before_and_after", True),
    ("use_qk_norm", True),
    ("use_logn_attn", True),
    ("use_dynamic_ntk_rope", True),
    ("use_yarn_rope", True),
    ("use_attention_sinks", True),
    ("clip_qkv", 8.0),
    ("load_in_4bit", True),
    ("quantization_method", "mxfp4"),
    ("original_architecture", "Olmo2ForCausalLM"),
    ("final_rms", True),
    ("d_vocab_out", 5),
    ("attn_scale", 3.0),
    ("attn_scale", "big"),
    ("attention_dir", "sideways"),
    ("normalization_type", "BatchNorm"),
    ("positional_embedding_type", "alibi"),
    ("positional_embedding_type", "relative_positional_bias"),
    ("act_fn", "solu_ln"),
    ("n_key_value_heads", 4),
    ("n_key_value_heads", 0),
    ("n_layers", "two"),
    ("d_head", 10**400),
    ("d_model", None),
    ("eps", 0),
    ("gated_mlp", "yes"),
]


@pytest.mark.parametrize(("field", "value"), REFUSED)
def test_a_field_that_is_not_honoured_is_refused_by_name(tmp_path, field, value):
    made.transformer_lens(tmp_path / "m")
    made.change_config(tmp_path / "m", **{field: value})
    with pytest.raises(ModelFileError) as refusal:
        look(tmp_path / "m")
    assert f"config.json: {field}=" in refusal.value.given


@pytest.mark.parametrize(
    ("field", "value"),
    [
        ("dtype", "torch.bfloat16"), ("device", "cuda"), ("seed", 3), ("n_params", 99), ("model_name", "x"), ("window_size", 4),
        ("use_attn_result", True), ("attn_scale", 3**0.5), ("attn_scale", -1.0), ("d_vocab_out", -1), ("d_vocab_out", 11),
        ("n_heads", -1), ("original_architecture", "LlamaForCausalLM"), ("rotary_base", 7), ("yarn_factor", 2.0), ("anything", None),
        ("NTK_by_parts_factor", 2.0), ("tokenizer_name", "gpt2"), ("ungroup_grouped_query_attention", True),
    ],
)  # fmt: skip
def test_harmless_fields_change_nothing(tmp_path, field, value):
    made.transformer_lens(tmp_path / "m")
    before = look(tmp_path / "m").config
    made.change_config(tmp_path / "m", **{field: value})
    assert look(tmp_path / "m").config == before


def test_scores_divided_by_one_are_unscaled(tmp_path):
    made.transformer_lens(tmp_path / "m")
    made.change_config(tmp_path / "m", attn_scale=1.0)
    assert not look(tmp_path / "m").config.attention.scaled


def test_no_norm_is_written_as_null_and_a_norm_is_what_is_left_out(tmp_path):
    made.transformer_lens(tmp_path / "m")
    made.drop_fields(tmp_path / "m", "normalization_type")
    assert isinstance(look(tmp_path / "m").config.norm, PreNorm)
    made.change_config(tmp_path / "m", normalization_type=None)
    with pytest.raises(ModelFileError, match=r"unknown 'blocks\.0\.ln1\.w'"):
        look(tmp_path / "m")


@pytest.mark.parametrize("ending", [".pt", ".pth", ".safetensors"])
def test_the_file_and_its_folder_are_the_same_model(tmp_path, ending):
    folder = tmp_path / "m"
    weights = made.transformer_lens(folder)
    if ending != ".safetensors":
        torch.save(load_file(folder / "model.safetensors"), folder / f"model{ending}")
        (folder / "model.safetensors").unlink()
    for path in (folder, folder / f"model{ending}"):
        source = look(path)
        assert source.format == "TransformerLens"
        loaded = source.read()
        assert all(loaded[name].equal(tensor) for name, tensor in weights.tensors().items())


def test_a_folder_with_two_state_dicts_is_refused(tmp_path):
    made.transformer_lens(tmp_path / "m")
    torch.save({}, tmp_path / "m" / "other.pt")
    with pytest.raises(ModelFileError, match=r"model\.safetensors, other\.pt"):
        look(tmp_path / "m")
    assert look(tmp_path / "m" / "model.safetensors").config.layers == 2


def test_buffers_are_left_out(tmp_path):
    made.transformer_lens(tmp_path / "m", ROTARY)
    names = set(look(tmp_path / "m").read())
    buffers = {
        "blocks.0.attn.mask": torch.ones(8, 8, dtype=torch.bool),
        "blocks.1.attn.IGNORE": torch.tensor(-torch.inf),
        "blocks.0.attn.rotary_sin": torch.zeros(8, 4),
        "blocks.1.attn.rotary_cos": torch.ones(8, 4),
    }
    made.change_tensors(tmp_path / "m", lambda tensors: tensors.update(buffers))
    assert set(load_weights(look(tmp_path / "m")).tensors()) == names


CHANGES = {
    "no unembed.b_U": lambda tensors: tensors.pop("unembed.b_U"),
    "unknown 'blocks.2.ln1.w'": lambda tensors: tensors.update({"blocks.2.ln1.w": torch.zeros(6)}),
    r"W_Q is \[2, 3, 6\], not \[2, 6, 3\]": lambda tensors: tensors.update({"blocks.0.attn.W_Q": torch.zeros(2, 3, 6)}),
    "unknown 'blocks.0.attn._W_K'": lambda tensors: tensors.update({"blocks.0.attn._W_K": tensors.pop("blocks.0.attn.W_K")}),
    "int64": lambda tensors: tensors.update({"ln_final.b": torch.zeros(6, dtype=torch.int64)}),
}


@pytest.mark.parametrize("needed", CHANGES)
def test_other_tensors_than_the_configuration_calls_for_are_refused(tmp_path, needed):
    made.transformer_lens(tmp_path / "m")
    made.change_tensors(tmp_path / "m", CHANGES[needed])
    with pytest.raises(ModelFileError, match=needed):
        look(tmp_path / "m")


def test_shared_keys_have_a_name_of_their_own(tmp_path):
    weights = made.transformer_lens(tmp_path / "m", ROTARY)
    assert {"blocks.0.attn._W_K", "blocks.0.attn._b_V"} <= {entry.name for entry in look(tmp_path / "m").entries}
    loaded = load_weights(look(tmp_path / "m"))
    assert loaded.blocks[1].attention.W_V.equal(weights.blocks[1].attention.W_V)
    assert loaded.config.attention.group_size == 2


def test_a_gated_layer_may_have_no_bias_after_its_product(tmp_path):
    gated = replace(ROTARY, feed_forward=GatedFeedForward(d_mlp=5), norm=PreNorm(norm=RMSNorm(gain=False)))
    made.transformer_lens(tmp_path / "m", gated)
    loaded = load_weights(look(tmp_path / "m"))
    assert not loaded.blocks[0].feed_forward.b_gate.any()
    made.change_tensors(tmp_path / "m", lambda tensors: tensors["blocks.1.mlp.b_in"].add_(0.5))
    source = look(tmp_path / "m")
    with pytest.raises(ModelFileError, match=r"blocks\.1\.mlp\.b_in is not zero"):
        load_weights(source)


def test_a_model_without_layers_is_read(tmp_path):
    weights = made.transformer_lens(tmp_path / "m", ModelConfig(vocab=11, context=8, d_model=6, layers=0))
    loaded = load_weights(look(tmp_path / "m"))
    assert loaded.config.layers == 0
    assert loaded.W_U.equal(weights.W_U)


def test_unmarked_positions_need_no_table(tmp_path):
    made.transformer_lens(tmp_path / "m")
    made.change_config(tmp_path / "m", positional_embedding_type="none")
    made.change_tensors(tmp_path / "m", lambda tensors: tensors.pop("pos_embed.W_pos"))
    assert load_weights(look(tmp_path / "m")).W_pos is None


values = (
    st.none() | st.booleans() | st.integers() | st.floats(allow_nan=False, allow_infinity=False) | st.text(max_size=5)
    | st.lists(st.integers(), max_size=3) | st.sampled_from(["rotary", "none", "shortformer", "RMS", "bidirectional", 10**400])
)  # fmt: skip


def test_any_value_of_any_field_is_read_or_refused(tmp_path):
    folder = tmp_path / "m"
    made.transformer_lens(folder, ROTARY)
    plain = json.loads((folder / "config.json").read_text())
    known = [*plain, "attn_scale", "use_NTK_by_parts_rope", "rotary_scaling_factor", "final_rms", "original_architecture"]

    @given(st.dictionaries(st.sampled_from(known), values, min_size=1, max_size=3))
    def check(changes):
        (folder / "config.json").write_text(json.dumps(plain | changes))
        with contextlib.suppress(ModelFileError):
            look(folder / "model.safetensors")

    check()
