import contextlib
import json
import subprocess
import sys

import pytest
import torch
from hypothesis import given
from hypothesis import strategies as st
from safetensors.torch import load_file

import foreign_models as made
from headwater.errors import ModelFileError
from headwater.model.config import (
    LinearStretch,
    Llama3Stretch,
    NoStretch,
)
from headwater.model.foreign import hugging_face
from headwater.model.forward import forward
from headwater.model.sources import load_weights, look
from strategies import random_tokens

FAMILIES = list(made.CONFIGS)


@pytest.mark.parametrize("family", FAMILIES)
def test_a_folder_gives_back_every_bit(tmp_path, family):
    weights = made.hugging_face(tmp_path / "m", family)
    source = hugging_face.look(tmp_path / "m")
    assert source.config == made.CONFIGS[family]
    loaded = source.read()
    assert {name: tuple(tensor.shape) for name, tensor in loaded.items()} == {
        name: tuple(tensor.shape) for name, tensor in weights.tensors().items()
    }
    assert all(loaded[name].equal(tensor) for name, tensor in weights.tensors().items())
    assert all(tensor.is_contiguous() for tensor in loaded.values())


def test_recognising_imports_no_tensor_library(tmp_path):
    made.hugging_face(tmp_path / "safe", "gpt2")
    made.hugging_face(tmp_path / "pickled", "llama")
    torch.save(load_file(tmp_path / "pickled" / "model.safetensors"), tmp_path / "pickled" / "pytorch_model.bin")
    (tmp_path / "pickled" / "model.safetensors").unlink()
    made.transformer_lens(tmp_path / "lens")
    code = "import sys; from headwater.model.sources import look; [look(p) for p in sys.argv[1:]]; sys.exit('torch' in sys.modules)"
    folders = [str(tmp_path / name) for name in ("safe", "pickled", "lens")]
    assert subprocess.run([sys.executable, "-c", code, *folders], check=False).returncode == 0


REFUSED = [
    ("gpt2", "colour", "red"),
    ("gpt2", "model_type", "llama"),
    ("gpt2", "scale_attn_by_inverse_layer_idx", True),
    ("gpt2", "add_cross_attention", True),
    ("gpt2", "is_encoder_decoder", True),
    ("gpt2", "tie_encoder_decoder", True),
    ("gpt2", "pruned_heads", {"0": [1]}),
    ("gpt2", "activation_function", "quick_gelu"),
    ("gpt2", "activation_function", 3),
    ("gpt2", "n_head", 4),
    ("gpt2", "n_head", 0),
    ("gpt2", "n_ctx", 99),
    ("gpt2", "n_embd", 6.0),
    ("gpt2", "vocab_size", "many"),
    ("gpt2", "vocab_size", True),
    ("gpt2", "layer_norm_epsilon", 0),
    ("gpt2", "layer_norm_epsilon", "small"),
    ("gpt2", "layer_norm_epsilon", 10**30),
    ("gpt2", "scale_attn_weights", 1),
    ("gpt2", "tie_word_embeddings", "yes"),
    ("gpt2", "quantization_config", {"bits": 4}),
    ("gpt2", "per_layer_config", {"0": {"n_head": 3}}),
    ("neox", "hidden_act", "mish"),
    ("neox", "num_attention_heads", 5),
    ("neox", "rotary_pct", -0.5),
    ("neox", "partial_rotary_factor", 0.9),
    ("neox", "attention_bias", 0),
    ("neox", "head_dim", 6),
    ("neox", "hidden_size", 6 * 10**400),
    ("llama", "auto_map", {"AutoModel": "evil.py"}),
    ("llama", "pretraining_tp", 2),
    ("llama", "rope_interleaved", True),
    ("llama", "partial_rotary_factor", 0.5),
    ("llama", "rotary_pct", 0.5),
    ("llama", "layer_types", ["full_attention", "full_attention"]),
    ("llama", "num_key_value_heads", 3),
    ("llama", "num_attention_heads", 0),
    ("llama", "rope_theta", "big"),
    ("llama", "rope_scaling", [1]),
    ("llama", "sliding_window", 4),
    ("mistral", "attention_bias", True),
    ("mistral", "sliding_window", 4.5),
    ("mistral", "layer_types", ["full_attention", "full_attention"]),
    ("qwen2", "use_mrope", True),
    ("qwen2", "attention_bias", True),
    ("qwen2", "layer_types", ["full_attention"]),
    ("qwen2", "layer_types", ["full_attention", "chunked_attention"]),
    ("qwen2", "layer_types", ["full_attention", "sliding_attention"]),
    ("qwen2", "layer_types", [["full_attention"], []]),
    ("qwen2", "layer_types", "full_attention"),
]


@pytest.mark.parametrize(("family", "field", "value"), REFUSED)
def test_a_field_that_is_not_honoured_is_refused_by_name(tmp_path, family, field, value):
    made.hugging_face(tmp_path / "m", family)
    made.change_config(tmp_path / "m", **{field: value})
    with pytest.raises(ModelFileError) as refusal:
        look(tmp_path / "m")
    assert f"config.json: {field}=" in refusal.value.given


@pytest.mark.parametrize("kind", ["dynamic", "yarn", "longrope", "su", "mrope", 3])
@pytest.mark.parametrize("spelling", ["rope_type", "type"])
@pytest.mark.parametrize("table", ["rope_scaling", "rope_parameters"])
def test_other_ways_to_scale_angles_are_refused_by_name(tmp_path, kind, spelling, table):
    made.hugging_face(tmp_path / "m", "llama")
    made.drop_fields(tmp_path / "m", "rope_scaling")
    made.change_config(tmp_path / "m", **{table: {spelling: kind, "factor": 2.0}})
    with pytest.raises(ModelFileError, match=rf"{table}.{spelling}={kind!r}"):
        look(tmp_path / "m")


@pytest.mark.parametrize(
    ("table", "name"),
    [
        ({"rope_type": "linear"}, "factor"),
        ({"rope_type": "linear", "factor": 0}, "factor"),
        ({"rope_type": "linear", "factor": 2, "attention_factor": 1.0}, "attention_factor"),
        ({"rope_type": "default", "factor": 2.0}, "factor"),
        ({"rope_type": "linear", "type": "llama3", "factor": 2.0}, "type"),
        ({"rope_type": "llama3", "factor": 2.0, "low_freq_factor": 1.0}, "high_freq_factor"),
        ({"full_attention": {"rope_type": "default"}}, "full_attention"),
        ({"partial_rotary_factor": 0.5}, "partial_rotary_factor"),
    ],
)
def test_a_table_of_angles_is_read_whole_or_refused_by_name(tmp_path, table, name):
    made.hugging_face(tmp_path / "m", "llama")
    made.change_config(tmp_path / "m", rope_scaling=table)
    with pytest.raises(ModelFileError, match=rf"rope_scaling\.{name}="):
        look(tmp_path / "m")


LLAMA_3 = {"factor": 8.0, "low_freq_factor": 1.0, "high_freq_factor": 4.0, "original_max_position_embeddings": 4}


@pytest.mark.parametrize(
    ("new", "old", "stretch"),
    [
        ({}, None, NoStretch()),
        ({"rope_type": "linear", "factor": 4.0}, {"type": "linear", "factor": 4}, LinearStretch(factor=4.0)),
        (
            {"rope_type": "llama3", **LLAMA_3},
            {"rope_type": "llama3", "type": "llama3", **LLAMA_3},
            Llama3Stretch(factor=8.0, low_frequency_factor=1.0, high_frequency_factor=4.0, original_context=4),
        ),
    ],
)
def test_old_and_new_spellings_mean_the_same(tmp_path, new, old, stretch):
    for name in ("new", "old"):
        made.hugging_face(tmp_path / name, "llama")
        made.drop_fields(tmp_path / name, "rope_scaling", "rope_theta", "torch_dtype")
    made.change_config(tmp_path / "new", rope_parameters={"rope_theta": 500.0, **new}, dtype="float32")
    made.change_config(tmp_path / "old", rope_scaling=old, rope_theta=500, torch_dtype="float32")
    config = look(tmp_path / "new").config
    assert config == look(tmp_path / "old").config
    assert (config.positions.base, config.positions.stretch) == (500.0, stretch)


def test_old_and_new_spellings_of_neox_mean_the_same(tmp_path):
    for name in ("new", "old"):
        made.hugging_face(tmp_path / name, "neox")
        made.drop_fields(tmp_path / name, "rope_scaling", "rotary_emb_base", "rotary_pct")
    made.change_config(tmp_path / "new", rope_parameters={"rope_theta": 500.0, "partial_rotary_factor": 0.5})
    made.change_config(tmp_path / "old", rotary_emb_base=500, rope_theta=500, rotary_pct=0.5, partial_rotary_factor=0.5)
    config = look(tmp_path / "new").config
    assert config == look(tmp_path / "old").config
    assert (config.positions.base, config.positions.dims) == (500.0, 2)


HARMLESS = {
    "unknown_but_null": None, "torch_dtype": "bfloat16", "transformers_version": "4.40.1", "_name_or_path": "x", "use_cache": False,
    "bos_token_id": 7, "eos_token_id": [1, 2], "initializer_range": 0.3, "task_specific_params": {"text-generation": {}},
    "temperature": 0.7, "attention_dropout": 0.5, "is_llama_config": True, "transformers.js_config": {}, "pretraining_tp": 1,
    "rope_interleaved": False,
}  # fmt: skip


@pytest.mark.parametrize(("field", "value"), HARMLESS.items())
def test_harmless_fields_change_nothing(tmp_path, field, value):
    made.hugging_face(tmp_path / "m", "llama")
    before = look(tmp_path / "m").config
    made.change_config(tmp_path / "m", **{field: value})
    assert look(tmp_path / "m").config == before


@pytest.mark.parametrize(
    ("family", "fields", "context"),
    [
        ("mistral", {"sliding_window": 5}, 5),
        ("mistral", {"sliding_window": 50}, 8),
        ("mistral", {"sliding_window": None}, 8),
        ("qwen2", {"sliding_window": 5}, 8),
        ("qwen2", {"sliding_window": 5, "use_sliding_window": True, "max_window_layers": 1}, 5),
        ("qwen2", {"sliding_window": 5, "use_sliding_window": True, "max_window_layers": 2}, 8),
        ("qwen2", {"sliding_window": 5, "use_sliding_window": True, "layer_types": ["full_attention"] * 2}, 8),
        ("qwen2", {"sliding_window": 5, "use_sliding_window": True, "layer_types": ["sliding_attention"] * 2}, 5),
    ],
)
def test_a_window_in_use_bounds_the_context(tmp_path, family, fields, context):
    made.hugging_face(tmp_path / "m", family)
    made.change_config(tmp_path / "m", **fields)
    assert look(tmp_path / "m").config.context == context


@pytest.mark.parametrize(
    "names", [None, [], ["BertModel"], ["LlamaForCausalLM", "GPT2LMHeadModel"], "GPT2LMHeadModel", [[1]], [{}], {"a": 1}]
)
def test_a_class_that_is_not_read_is_refused(tmp_path, names):
    made.hugging_face(tmp_path / "m", "gpt2")
    made.change_config(tmp_path / "m", architectures=names, model_type="bert")
    with pytest.raises(ModelFileError, match="architectures="):
        look(tmp_path / "m")


def test_without_a_class_the_type_decides(tmp_path):
    made.hugging_face(tmp_path / "m", "gpt2")
    made.drop_fields(tmp_path / "m", "architectures")
    assert look(tmp_path / "m").format == "Hugging Face GPT2LMHeadModel"


@pytest.mark.parametrize("field", ["vocab_size", "n_positions", "n_layer", "n_inner"])
@pytest.mark.parametrize("value", [-1, 10**9, 2**70, 10**400])
def test_absurd_sizes_are_a_damaged_file(tmp_path, field, value):
    made.hugging_face(tmp_path / "m", "gpt2")
    made.change_config(tmp_path / "m", **{field: value})
    with pytest.raises(ModelFileError, match=r"config\.json"):
        look(tmp_path / "m")


CHANGES = {
    "no transformer.wte.weight|no wte.weight": lambda tensors: tensors.pop("transformer.wte.weight"),
    "unknown 'extra'": lambda tensors: tensors.update(extra=torch.zeros(1)),
    r"wpe.weight is \[7, 6\], not \[8, 6\]": lambda tensors: tensors.update({"transformer.wpe.weight": torch.zeros(7, 6)}),
    r"c_attn.weight is \[18, 6\], not \[6, 18\]": lambda tensors: tensors.update(
        {"transformer.h.0.attn.c_attn.weight": torch.zeros(18, 6)}
    ),
    "int8": lambda tensors: tensors.update({"transformer.ln_f.bias": torch.zeros(6, dtype=torch.int8)}),
    "both": lambda tensors: tensors.update({"wte.weight": torch.zeros(11, 6)}),
    "unknown 'h.2.ln_1.weight'": lambda tensors: tensors.update({"transformer.h.2.ln_1.weight": torch.zeros(6)}),
}


@pytest.mark.parametrize("needed", CHANGES)
def test_other_tensors_than_the_configuration_calls_for_are_refused(tmp_path, needed):
    made.hugging_face(tmp_path / "m", "gpt2")
    made.change_tensors(tmp_path / "m", CHANGES[needed])
    with pytest.raises(ModelFileError, match=needed):
        look(tmp_path / "m")


@pytest.mark.parametrize(
    ("family", "buffer"),
    [
        ("gpt2", "transformer.h.1.attn.bias"),
        ("gpt2", "h.0.attn.masked_bias"),
        ("neox", "gpt_neox.layers.0.attention.bias"),
        ("neox", "gpt_neox.layers.1.attention.masked_bias"),
        ("neox", "gpt_neox.layers.1.attention.rotary_emb.inv_freq"),
        ("llama", "model.layers.0.self_attn.rotary_emb.inv_freq"),
    ],
)
def test_buffers_are_left_out(tmp_path, family, buffer):
    weights = made.hugging_face(tmp_path / "m", family)
    made.change_tensors(tmp_path / "m", lambda tensors: tensors.update({buffer: torch.ones(1, 1, 3, 3, dtype=torch.bool)}))
    assert set(look(tmp_path / "m").read()) == set(weights.tensors())


@pytest.mark.parametrize("prefix", ["", "_orig_mod.", "_orig_mod.transformer."])
def test_prefixes_may_differ(tmp_path, prefix):
    weights = made.hugging_face(tmp_path / "m", "gpt2")

    def rename(tensors):
        for name in list(tensors):
            tensors[prefix + name.removeprefix("transformer.")] = tensors.pop(name)

    made.change_tensors(tmp_path / "m", rename)
    assert look(tmp_path / "m").read()["blocks.1.attn.W_K"].equal(weights.blocks[1].attention.W_K)


def test_a_tied_unembedding_may_be_stored_too_but_must_be_the_embedding(tmp_path):
    weights = made.hugging_face(tmp_path / "m", "gpt2")
    made.change_tensors(tmp_path / "m", lambda tensors: tensors.update({"lm_head.weight": weights.W_E.clone()}))
    assert set(look(tmp_path / "m").read()) == set(weights.tensors())
    made.change_tensors(tmp_path / "m", lambda tensors: tensors["lm_head.weight"].mul_(1.0001))
    with pytest.raises(ModelFileError, match="differs from the embedding"):
        look(tmp_path / "m").read()


@pytest.mark.parametrize("dtype", [torch.bfloat16, torch.float16, torch.float64])
def test_half_precision_is_widened_and_double_precision_kept(tmp_path, dtype):
    weights = made.hugging_face(tmp_path / "m", "neox", dtype)
    loaded = look(tmp_path / "m").read()
    wide = torch.float64 if dtype == torch.float64 else torch.float32
    assert {tensor.dtype for tensor in loaded.values()} == {wide}
    assert all(loaded[name].to(dtype).equal(tensor) for name, tensor in weights.tensors().items())


def test_one_wide_tensor_makes_all_wide(tmp_path):
    made.hugging_face(tmp_path / "m", "neox", torch.bfloat16)
    made.change_tensors(
        tmp_path / "m", lambda tensors: tensors.update({"embed_out.weight": tensors["embed_out.weight"].double()})
    )
    assert load_weights(look(tmp_path / "m")).dtype == torch.float64


def test_the_words_lie_beside_the_model(tmp_path):
    folder = tmp_path / "m"
    made.hugging_face(folder, "gpt2")
    assert look(folder).words is None
    (folder / "vocab.json").write_text("{}")
    assert look(folder).words is None
    (folder / "merges.txt").write_text("")
    assert look(folder).words == folder / "vocab.json"
    (folder / "tokenizer.json").write_text("{}")
    assert look(folder).words == folder / "tokenizer.json"


def test_a_folder_without_tensors_says_what_it_lacks(tmp_path):
    made.hugging_face(tmp_path / "m", "gpt2")
    (tmp_path / "m" / "model.safetensors").unlink()
    with pytest.raises(ModelFileError, match=r"no tensors beside config\.json"):
        look(tmp_path / "m")


values = st.recursive(
    st.none() | st.booleans() | st.integers() | st.floats(allow_nan=False, allow_infinity=False) | st.text(max_size=5),
    lambda inner: st.lists(inner, max_size=3) | st.dictionaries(st.sampled_from(["rope_type", "factor", "type", "x"]), inner),
    max_leaves=6,
)


@pytest.mark.parametrize("family", FAMILIES)
def test_any_value_of_any_field_is_read_or_refused(tmp_path_factory, family):
    folder = tmp_path_factory.mktemp("foreign") / "m"
    made.hugging_face(folder, family)
    plain = json.loads((folder / "config.json").read_text())
    known = [
        *plain,
        "rope_parameters",
        "layer_types",
        "pruned_heads",
        "n_ctx",
        "rotary_pct",
        "partial_rotary_factor",
        "head_dim",
    ]

    @given(st.dictionaries(st.sampled_from(known), values, min_size=1, max_size=3))
    def check(changes):
        (folder / "config.json").write_text(json.dumps(plain | changes))
        with contextlib.suppress(ModelFileError):
            look(folder)

    check()


def test_a_loaded_model_runs(tmp_path):
    made.hugging_face(tmp_path / "m", "llama")
    weights = load_weights(look(tmp_path / "m"))
    assert forward(weights, random_tokens(weights.config, seed=0)).isfinite().all()
