import struct

import gguf as peer
import numpy as np
import pytest
import torch

from headwater.errors import ModelFileError
from headwater.model.config import LinearStretch
from headwater.model.foreign import gguf
from headwater.model.forward import forward
from headwater.model.weights import Weights
from llama_in_numpy import logits, random_llama

SIZES = {"d_model": 32, "d_mlp": 64, "layers": 2, "heads": 4, "key_heads": 2, "vocab": 11}
NAMES = {
    "attention_norm": "attn_norm", "wq": "attn_q", "wk": "attn_k", "wv": "attn_v", "wo": "attn_output",
    "ffn_norm": "ffn_norm", "w1": "ffn_gate", "w2": "ffn_down", "w3": "ffn_up",
}  # fmt: skip
MODEL = {"tok_embeddings": "token_embd", "norm": "output_norm", "output": "output"}
F32 = peer.GGMLQuantizationType.F32


def foreign_name(name):
    if name in MODEL:
        return f"{MODEL[name]}.weight"
    _, layer, own, *bias = name.split(".")
    return f"blk.{layer}.{NAMES[own]}.{'bias' if bias else 'weight'}"


def write(path, tensors, *, kind="llama", stored=None, more=(), left_out=()):
    """A GGUF model of random tensors; ``stored`` gives some of them another number format."""
    writer = peer.GGUFWriter(path, kind)
    settings = {
        "context_length": 9, "embedding_length": SIZES["d_model"], "block_count": SIZES["layers"],
        "feed_forward_length": SIZES["d_mlp"], "attention.head_count": SIZES["heads"], "attention.head_count_kv": SIZES["key_heads"],
    }  # fmt: skip
    for name, value in settings.items():
        if name not in left_out:
            writer.add_uint32(f"{kind}.{name}", value)
    writer.add_float32(f"{kind}.attention.layer_norm_rms_epsilon", 2.0**-10)
    writer.add_string("tokenizer.ggml.model", "gpt2")
    writer.add_uint32("general.file_type", 1)
    for add, name, value in more:
        getattr(writer, add)(name, value)
    for name, tensor in tensors.items():
        form = (stored or {}).get(name, F32)
        writer.add_tensor(
            foreign_name(name) if name in MODEL or name.startswith("layers.") else name,
            peer.quants.quantize(tensor, form),
            raw_dtype=form,
        )
    writer.write_header_to_file()
    writer.write_kv_data_to_file()
    writer.write_tensors_to_file()
    writer.close()
    return path


@pytest.fixture
def path(tmp_path):
    return tmp_path / "model.gguf"


def check(path, tensors, pairs):
    source = gguf.look(path)
    weights = Weights.assemble(source.config, source.read()).to(dtype=torch.float64)
    tokens = [3, 1, 4, 1, 5, 9, 2]
    expected = logits(tensors, tokens, heads=4, key_heads=2, pairs=pairs, eps=2.0**-10)
    assert torch.allclose(forward(weights, torch.tensor([tokens]))[0], torch.from_numpy(expected), atol=1e-10)
    return source


@pytest.mark.parametrize("tied", [True, False])
def test_a_llama_gives_the_logits_of_a_slow_one(path, tied):
    tensors = random_llama(seed=2, tied=tied, **SIZES)
    source = check(write(path, tensors), tensors, "adjacent")
    assert source.format == "GGUF llama"
    assert source.words == path
    assert source.config.unembedding.tied == tied
    assert source.config.context == 9


def test_a_qwen2_has_biases_and_turns_halves(path):
    tensors = random_llama(seed=3, tied=False, **SIZES)
    for layer in range(SIZES["layers"]):
        for name in ("wq", "wk", "wv"):
            tensors[f"layers.{layer}.{name}.bias"] = (
                np.random.default_rng(layer).normal(size=len(tensors[f"layers.{layer}.{name}"])).astype(np.float32)
            )
    check(write(path, tensors, kind="qwen2"), tensors, "halves")


@pytest.mark.parametrize("form", ["F16", "BF16", "Q8_0", "Q4_1", "Q5_0"])
def test_quantised_tensors_mean_what_the_gguf_package_says(path, form):
    form = peer.GGMLQuantizationType[form]
    tensors = random_llama(seed=4, tied=True, **SIZES)
    stored = {name: form for name in tensors if "norm" not in name}
    write(path, tensors, stored=stored)
    for name in stored:
        packed = peer.quants.quantize(tensors[name], form)
        tensors[name] = peer.quants.dequantize(packed, form).reshape(tensors[name].shape)
    source = check(path, tensors, "adjacent")
    assert {entry.dtype for entry in source.entries} == {
        "float32",
        {"F16": "float16", "BF16": "bfloat16"}.get(form.name, form.name),
    }


def test_linear_scaling_and_the_base_are_honoured(path):
    more = [
        ("add_string", "llama.rope.scaling.type", "linear"),
        ("add_float32", "llama.rope.scaling.factor", 4.0),
        ("add_float32", "llama.rope.freq_base", 500.0),
        ("add_uint32", "llama.rope.dimension_count", 4),
        ("add_uint32", "llama.vocab_size", 11),
    ]
    positions = gguf.look(write(path, random_llama(seed=5, tied=True, **SIZES), more=more)).config.positions
    assert (positions.dims, positions.base, positions.stretch) == (4, 500.0, LinearStretch(factor=4.0))


@pytest.mark.parametrize(
    ("more", "reason"),
    [
        (("add_string", "llama.rope.scaling.type", "yarn"), "rope.scaling.type='yarn'"),
        (("add_float32", "llama.rope.scaling.factor", 4.0), "rope.scaling.type with it"),
        (("add_uint32", "llama.expert_count", 8), "expert_count=8"),
        (("add_uint32", "llama.attention.sliding_window", 128), "attention.sliding_window=128"),
        (("add_float32", "llama.logit_scale", 2.0), "llama.logit_scale=2.0"),
        (("add_uint32", "llama.attention.value_length", 7), "attention.value_length=7"),
        (("add_uint32", "llama.vocab_size", 12), "[11, 32]"),
        (("add_uint32", "llama.vocab_size", 0), "vocab=0"),
        (("add_float32", "llama.rope.freq_base", float("nan")), "rope.freq_base=nan"),
        (("add_uint32", "split.count", 2), "split.count"),
        (("add_uint32", "llama.rope.dimension_count", 64), "64 rotary dims"),
    ],
)
def test_what_changes_the_model_is_refused_by_name(path, more, reason):
    write(path, random_llama(seed=6, tied=True, **SIZES), more=[more])
    with pytest.raises(ModelFileError) as caught:
        gguf.look(path)
    assert reason in str(caught.value)


@pytest.mark.parametrize(
    "name", ["context_length", "embedding_length", "block_count", "feed_forward_length", "attention.head_count"]
)
def test_a_missing_setting_is_refused_by_name(path, name):
    write(path, random_llama(seed=6, tied=True, **SIZES), left_out=[name])
    with pytest.raises(ModelFileError, match=name):
        gguf.look(path)


def test_other_architectures_are_refused_by_name(path):
    write(path, random_llama(seed=6, tied=True, **SIZES), kind="gemma2")
    with pytest.raises(ModelFileError, match="the architecture 'gemma2'"):
        gguf.look(path)


def test_an_architecture_that_is_no_text_is_refused(path):
    key, empty_list = b"general.architecture", struct.pack("<IIQ", 9, 4, 0)
    path.write_bytes(b"GGUF" + struct.pack("<IQQQ", 3, 0, 1, len(key)) + key + empty_list)
    with pytest.raises(ModelFileError, match=r"the architecture \[\]"):
        gguf.look(path)


def test_tensors_that_are_missing_or_unknown_are_refused_by_name(path):
    tensors = random_llama(seed=6, tied=True, **SIZES)
    write(path, {name: tensor for name, tensor in tensors.items() if name != "norm"})
    with pytest.raises(ModelFileError, match=r"no output_norm\.weight"):
        gguf.look(path)
    for name in ("rope_freqs.weight", "blk.0.attn_q_norm.weight"):
        write(path, tensors | {name: np.ones(4, np.float32)})
        with pytest.raises(ModelFileError, match=name):
            gguf.look(path)
