"""The certificate finds what does not add up, and nothing else: runs with one number changed, and models whose parts cancel."""

import json

import pytest
import torch

from headwater.model.config import Attention, FeedForward, LayerNorm, LearnedPositions, ModelConfig, PostNorm, PreNorm
from headwater.model.record import record
from headwater.trace.check import check
from headwater.trace.run import Run
from strategies import random_weights

CONFIG = ModelConfig(
    vocab=23,
    context=8,
    d_model=8,
    layers=2,
    attention=Attention(heads=2, d_head=4, input_bias=True, output_bias=True),
    feed_forward=FeedForward(d_mlp=6, activation="gelu"),
    norm=PreNorm(),
    positions=LearnedPositions(),
)
TOKENS = torch.tensor([[1, 20, 3, 4, 3, 9]])
MEASURED = ("L0.pattern", "L1.pattern", "L0.gates", "L1.gates")


def run_with(change, site, config=CONFIG, dtype=torch.float32):
    """A run that kept one thing wrong."""
    whole = record(random_weights(config, 5, dtype), TOKENS, MEASURED)
    wrong = whole.kept[site].clone(memory_format=torch.contiguous_format)
    wrong.view(-1)[0] += change * wrong.abs().mean()
    return Run(whole.weights, whole.tokens, {**whole.kept, site: wrong})


@pytest.mark.parametrize(
    "site",
    [
        "embed",
        "positions",
        "L0.mixed",
        "L1.mixed",
        "L1.feed_forward",
        "L0.norm_1.scale",
        "L1.norm_2.scale",
        "final.scale",
        "final",
    ],
)
def test_one_number_that_is_off_by_a_tenth_is_found(site):
    assert not check(run_with(0.1, site)).ok


@pytest.mark.parametrize("site", MEASURED)
def test_so_is_one_in_what_was_held_fixed(site):
    assert not check(run_with(0.3, site)).ok


@pytest.mark.parametrize("norm", [PreNorm(), PostNorm()])
def test_what_is_right_is_not_reported(norm):
    config = ModelConfig(**{name: getattr(CONFIG, name) for name in CONFIG.__slots__} | {"norm": norm})
    for dtype in (torch.float32, torch.float64):
        found = check(Run.of(record(random_weights(config, 5, dtype), TOKENS)))
        assert found.ok
        assert found.certificate < found.bound / 5


def test_orders_that_cancel_are_no_error():
    """The second layer's heads read what is left of two large vectors, and a norm makes it large again: its rounding is theirs."""
    config = ModelConfig(
        vocab=5,
        context=4,
        d_model=2,
        layers=2,
        attention=Attention(heads=1, d_head=2),
        norm=PreNorm(norm=LayerNorm(bias=False)),
    )
    weights = random_weights(config, 1, torch.float32)
    eye = torch.eye(2)[None]
    tensors = {
        "embed.W_E": torch.tensor([[1.0, -1.0]]).repeat(5, 1),
        "blocks.0.ln1.w": torch.tensor([1.0, 1.0]),
        "blocks.0.attn.W_V": eye,
        "blocks.0.attn.W_O": -0.9999 * eye,
    }
    run = Run.of(record(weights.changed(tensors), torch.tensor([[1, 2, 3, 4]])))
    assert float(run["L1.norm_1.scale"].max()) > 100
    assert check(run).ok


def test_what_is_no_number_is_found_wherever_it_is():
    whole = record(random_weights(CONFIG, 5), TOKENS, MEASURED)
    pattern = whole.kept["L1.pattern"].clone()
    pattern[0, 0, -1, 0] = torch.nan
    found = check(Run(whole.weights, whole.tokens, {**whole.kept, "L1.pattern": pattern}), samples=0)
    assert not found.ok
    assert found.paths == float("inf")
    assert json.loads(json.dumps(found.plain(), allow_nan=False))["paths"] is None


def test_what_only_splits_look_at_is_found_by_them():
    """A head's sources are told by what it read from them; components and paths do without that."""
    whole = record(random_weights(CONFIG, 5), TOKENS, [*MEASURED, "L*.values"])
    wrong = {site: 1.5 * value for site, value in whole.kept.items() if site.endswith((".in", ".values"))}
    found = check(Run(whole.weights, whole.tokens, {**whole.kept, **wrong}), samples=20)
    assert max(found.components, found.paths) <= found.bound < found.splits
    assert not found.ok
