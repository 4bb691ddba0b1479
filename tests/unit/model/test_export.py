import json
import tempfile
from dataclasses import replace
from pathlib import Path

import pytest
import torch
from hypothesis import given
from hypothesis import strategies as st

import foreign_models as made
from headwater.errors import ConfigError, InputError
from headwater.model.config import (
    Attention,
    FeedForward,
    GatedFeedForward,
    LayerNorm,
    LearnedPositions,
    ModelConfig,
    NoNorm,
    NoPositions,
    PostNorm,
    PreNorm,
    RMSNorm,
    RotaryPositions,
    SinusoidalPositions,
    Unembedding,
)
from headwater.model.export import export_hugging_face, export_transformer_lens, recast, to_transformer_lens
from headwater.model.foreign.gpt_neox import share_of
from headwater.model.forward import forward
from headwater.model.sources import load_weights, look
from headwater.model.weights import Weights
from strategies import activations, configs, norms, random_tokens, random_weights, seeds, sizes, stretches

rotaries = st.builds(
    RotaryPositions,
    dims=st.just(4),
    base=st.sampled_from([100.0, 10_000.0]),
    pairs=st.sampled_from(["halves", "adjacent"]),
    stretch=stretches,
)
layer_norms = st.builds(PreNorm, norm=st.builds(LayerNorm, gain=st.booleans(), bias=st.booleans(), eps=st.just(0.01)))


@st.composite
def expressible(draw):
    """A configuration that one of the Hugging Face classes can hold."""
    family = draw(st.sampled_from(["gpt2", "neox", "llama"]))
    biases = {"input_bias": draw(st.booleans()), "output_bias": draw(st.booleans())}
    heads, group_size = draw(st.sampled_from([(1, 1), (2, 1), (2, 2), (3, 3)])) if family == "llama" else (draw(sizes), 1)
    d_head = draw(st.sampled_from([4, 6])) if family == "neox" else 4
    scaled = draw(st.booleans()) if family == "gpt2" else True
    if family == "llama":
        layer = draw(st.builds(GatedFeedForward, d_mlp=sizes, activation=activations, bias=st.booleans()))
    else:
        layer = draw(st.builds(FeedForward, d_mlp=sizes, activation=activations, bias=st.booleans()))
    if family == "neox":
        layer = replace(layer, reads=draw(st.sampled_from(["after-attention", "beside-attention"])))
    fixed = st.sampled_from([LearnedPositions(), NoPositions(), SinusoidalPositions(base=30.0)])
    return ModelConfig(
        vocab=draw(sizes),
        context=draw(sizes),
        d_model=6 * heads if family == "llama" else d_head * heads,
        layers=draw(st.integers(1, 2)),
        attention=Attention(heads=heads, d_head=d_head, group_size=group_size, scaled=scaled, **biases),
        feed_forward=layer,
        norm=draw(st.builds(PreNorm, norm=st.builds(RMSNorm, gain=st.booleans()))) if family == "llama" else draw(layer_norms),
        positions=draw(fixed if family == "gpt2" else rotaries),
        unembedding=Unembedding(tied=draw(st.booleans())),
    )


def bits(weights):
    return {name: tensor.numpy().tobytes() for name, tensor in weights.tensors().items()}


def round_trip(export, weights):
    with tempfile.TemporaryDirectory() as folder:
        export(weights, Path(folder) / "m")
        return load_weights(look(Path(folder) / "m"))


@given(expressible(), seeds, st.sampled_from([torch.float32, torch.float64]))
def test_what_hugging_face_can_hold_comes_back(config, seed, dtype):
    weights = random_weights(config, seed, dtype)
    loaded = round_trip(export_hugging_face, weights)
    tokens = random_tokens(config, seed)
    scale = forward(weights, tokens).abs().max() + 1
    assert (forward(loaded, tokens) - forward(weights, tokens)).abs().max() / scale < (
        1e-4 if dtype == torch.float32 else 1e-12
    )
    assert bits(round_trip(export_hugging_face, loaded)) == bits(loaded)
    if not isinstance(config.positions, RotaryPositions) or config.positions.pairs == "halves":
        assert bits(loaded) == bits(Weights.assemble(loaded.config, recast(weights, loaded.config)))


@given(configs(norm=st.one_of(st.just(NoNorm()), st.builds(PreNorm, norm=norms))), seeds)
def test_what_transformer_lens_can_hold_comes_back(config, seed):
    weights = random_weights(config, seed)
    if isinstance(config.feed_forward, GatedFeedForward):
        zeros = {
            name: torch.zeros_like(tensor) for name, tensor in weights.tensors().items() if name.endswith((".b_in", ".b_gate"))
        }
        weights = Weights.assemble(config, weights.tensors() | zeros)
    loaded = round_trip(export_transformer_lens, weights)
    tokens = random_tokens(config, seed)
    scale = forward(weights, tokens).abs().max() + 1
    assert (forward(loaded, tokens) - forward(weights, tokens)).abs().max() / scale < 1e-12
    assert bits(loaded) == bits(Weights.assemble(loaded.config, recast(weights, loaded.config)))
    assert bits(round_trip(export_transformer_lens, loaded)) == bits(loaded)


BASE, ROTARY, GATED = made.GPT2, made.NEOX, made.LLAMA
REFUSED = {
    "attention=None": ModelConfig(vocab=5, context=4, d_model=6, layers=0),
    "feed_forward=None": replace(BASE, feed_forward=None),
    "norm='no-norm'": replace(BASE, norm=NoNorm()),
    "norm='post-norm'": replace(BASE, norm=PostNorm()),
    "norm.norm='layer-norm'": replace(GATED, norm=PreNorm()),
    "feed_forward='feed-forward'": replace(GATED, feed_forward=FeedForward(d_mlp=4)),
    "positions='learned-positions'": replace(GATED, positions=LearnedPositions()),
    "positions.into='queries-and-keys'": replace(BASE, positions=SinusoidalPositions(into="queries-and-keys")),
    "positions.dims=2": replace(GATED, positions=RotaryPositions(dims=2)),
    "feed_forward.reads='beside-attention'": replace(BASE, feed_forward=FeedForward(d_mlp=4, reads="beside-attention")),
    "attention.mask='full'": replace(ROTARY, attention=replace(ROTARY.attention, mask="full")),
    "attention.scaled=False": replace(ROTARY, attention=replace(ROTARY.attention, scaled=False)),
    "attention.group_size=2": replace(BASE, attention=Attention(heads=2, d_head=3, group_size=2)),
    "heads × d_head=8": replace(BASE, attention=Attention(heads=2, d_head=4)),
    "d_model modulo heads=2": replace(GATED, attention=Attention(heads=5, d_head=6)),
    "unembed.b_U is not zero": replace(BASE, unembedding=Unembedding(bias=True)),
}


@pytest.mark.parametrize("reason", REFUSED)
def test_what_hugging_face_has_no_word_for_is_refused_by_name(tmp_path, reason):
    with pytest.raises(ConfigError) as refusal:
        export_hugging_face(random_weights(REFUSED[reason], seed=0), tmp_path / "m")
    assert refusal.value.given == reason
    assert not list(tmp_path.iterdir())


LENS_REFUSED = {
    "norm='post-norm'": replace(BASE, norm=PostNorm()),
    "blocks.0.mlp.b_in is not zero": replace(GATED, feed_forward=GatedFeedForward(d_mlp=4, bias=True)),
}


@pytest.mark.parametrize("reason", LENS_REFUSED)
def test_what_transformer_lens_has_no_word_for_is_refused_by_name(tmp_path, reason):
    with pytest.raises(ConfigError) as refusal:
        export_transformer_lens(random_weights(LENS_REFUSED[reason], seed=0), tmp_path / "m")
    assert refusal.value.given == reason
    assert not list(tmp_path.iterdir())


def test_a_bias_of_zeros_is_dropped_where_the_class_has_none(tmp_path):
    drawn = random_weights(replace(BASE, unembedding=Unembedding(bias=True)), seed=0)
    weights = Weights.assemble(drawn.config, drawn.tensors() | {"unembed.b_U": torch.zeros(11, dtype=torch.float64)})
    export_hugging_face(weights, tmp_path / "m")
    assert not look(tmp_path / "m").config.unembedding.bias


@given(st.integers(1, 2**13), st.integers(0, 2**14))
def test_the_share_of_a_head_that_turns_is_exact(pairs, still):
    dims, d_head = 2 * pairs, 2 * pairs + still
    assert int(d_head * share_of(dims, d_head)) == dims


def test_words_are_put_beside_the_model(tmp_path):
    weights = random_weights(BASE, seed=0)
    for export in (export_hugging_face, export_transformer_lens):
        export(weights, tmp_path / export.__name__, tokenizer_json=b"{}")
        assert look(tmp_path / export.__name__).words.read_bytes() == b"{}"


def test_an_existing_folder_is_not_written_over(tmp_path):
    weights = random_weights(BASE, seed=0)
    (tmp_path / "m").mkdir()
    for export in (export_hugging_face, export_transformer_lens):
        with pytest.raises(InputError, match="already there"):
            export(weights, tmp_path / "m")


def test_the_number_format_is_told_in_their_words(tmp_path):
    weights = random_weights(BASE, seed=0, dtype=torch.float32)
    assert to_transformer_lens(weights)[0]["dtype"] is torch.float32
    export_transformer_lens(weights, tmp_path / "lens")
    export_hugging_face(weights, tmp_path / "face")
    assert json.loads((tmp_path / "lens" / "config.json").read_text())["dtype"] == "torch.float32"
    assert json.loads((tmp_path / "face" / "config.json").read_text())["torch_dtype"] == "float32"


def test_tensors_that_share_memory_are_written(tmp_path):
    """Slices of one buffer, as a reader of other formats may hand over."""
    drawn = random_weights(BASE, seed=0)
    flat = torch.cat([tensor.flatten() for tensor in drawn.tensors().values()])
    parts = flat.split([tensor.numel() for tensor in drawn.tensors().values()])
    shared = {name: part.view(tensor.shape) for (name, tensor), part in zip(drawn.tensors().items(), parts, strict=True)}
    export_hugging_face(Weights.assemble(BASE, shared), tmp_path / "m")
    assert bits(load_weights(look(tmp_path / "m"))) == bits(drawn)
