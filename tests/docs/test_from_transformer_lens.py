"""The page for those who come from TransformerLens: its right column runs, in both languages; tests/peers holds it against the left one."""

import pytest
import torch

import headwater as hw
from headwater.text.tokenizer import byte_tokenizer
from lens_page import PAGE, PAGE_PT, is_setting, named, rows, settings
from strategies import random_weights

SIZES = {"vocab": 256, "context": 16, "d_model": 24, "layers": 2}
BIASED = {"input_bias": True, "output_bias": True}
USUAL = hw.ModelConfig(
    **SIZES,
    attention=hw.Attention(heads=3, d_head=8, **BIASED),
    feed_forward=hw.FeedForward(d_mlp=40, activation="gelu-tanh"),
    norm=hw.PreNorm(),
    positions=hw.LearnedPositions(),
    unembedding=hw.Unembedding(bias=True),
)
CONFIGS = {
    "usual": USUAL,
    "other models": hw.ModelConfig(
        **SIZES,
        attention=hw.Attention(heads=3, d_head=8, group_size=3, **BIASED),
        feed_forward=hw.GatedFeedForward(d_mlp=40, bias=True),
        norm=hw.PreNorm(norm=hw.RMSNorm()),
        positions=hw.RotaryPositions(dims=8),
    ),
    "circuits": hw.ModelConfig(**SIZES, attention=hw.Attention(heads=3, d_head=8)),
}


@pytest.fixture(scope="module")
def words(tmp_path_factory):
    """What the right column calls by name, for each kind of model."""
    models = {name: hw.Model(random_weights(config, 0), byte_tokenizer()) for name, config in CONFIGS.items()}
    folder, theirs = tmp_path_factory.mktemp("models") / "one", tmp_path_factory.mktemp("theirs") / "one"
    models["usual"].save(folder)
    models["usual"].save(theirs, to="transformer-lens")
    file = next(file for file in theirs.iterdir() if file.suffix in (".pt", ".safetensors"))
    places = {"folder": folder, "file": file, "out": tmp_path_factory.mktemp("out") / "model"}
    return {name: named(model) | places for name, model in models.items()}


@pytest.mark.parametrize("row", [row for row in rows(PAGE) if not is_setting(row.ours)], ids=lambda row: row.ours[:70])
def test_every_line_of_ours_runs(words, row):
    result = eval(row.ours, words[row.section if row.section in words else "usual"])
    assert ".save(" in row.ours or result is not None
    if isinstance(result, torch.Tensor):
        assert result.numel() > 0
        assert bool(torch.isfinite(result).any())


def test_every_setting_of_ours_makes_a_model():
    found = [row for row in rows(PAGE) if is_setting(row.ours)]
    assert len(found) > 10
    for row in found:
        hw.ModelConfig(**{**SIZES, "attention": hw.Attention(heads=3, d_head=8), **settings(row.ours, hw=hw)})


def test_both_languages_have_the_same_rows():
    assert rows(PAGE) == rows(PAGE_PT)
    assert len(rows(PAGE)) > 130
