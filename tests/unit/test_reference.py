"""The models that come with Headwater are what their cards say."""

import json
import textwrap
from pathlib import Path

import pytest
import torch

from headwater.api import load
from headwater.model.config import NoNorm, PreNorm, SinusoidalPositions
from headwater.model.reference import reference_models
from headwater.train.predictors import Transformer
from headwater.train.recipe import read_recipe
from headwater.train.studies import induction

NAMES = ["block", "one-layer", "two-layer", "zero-layer"]


def card(name: str) -> dict[str, object]:
    return json.loads((reference_models()[name] / "card.json").read_text())


def test_the_four_are_there_and_small() -> None:
    assert sorted(reference_models()) == NAMES
    files = [file for folder in reference_models().values() for file in folder.iterdir()]
    assert sum(file.stat().st_size for file in files) < 20e6


@pytest.mark.parametrize("name", NAMES)
def test_each_was_made_by_our_recipe_to_its_end(name: str) -> None:
    folder = reference_models()[name]
    recipe = read_recipe(folder / "recipe.toml")
    log = [json.loads(line) for line in (folder / "log.jsonl").read_text().splitlines()]
    assert recipe == read_recipe(name)
    assert log[-1]["step"] == recipe.training.steps
    assert load(name).config == recipe.model
    assert card(name)["made_by"] == f"headwater train {name}"
    nats = {row["predictor"]: row["nats"] for row in card(name)["held_out"]["rows"]}
    # The card's figure is that of the float16 weights on more of the held-out text than the log's.
    assert nats["this model"] == pytest.approx(log[-1]["held_out"], rel=0.02)


@pytest.mark.parametrize("name", NAMES)
def test_each_knows_python_text(name: str) -> None:
    model = load(name)
    ids = model.tokenizer.encode(Path(textwrap.__file__).read_text())[: model.config.context + 1]
    nats = Transformer(model.weights).nats(torch.tensor([ids]))
    unigram = {row["predictor"]: row["nats"] for row in card(name)["held_out"]["rows"]}["unigram, add 1"]
    assert float(nats.mean()) < unigram - 1


def test_the_one_layer_model_is_the_paper_s() -> None:
    config = load("one-layer").config
    assert config.attention.heads >= 8
    assert config.vocab >= 4096
    assert config.positions == SinusoidalPositions(into="queries-and-keys")
    assert config.norm == NoNorm()
    assert config.feed_forward is None
    assert isinstance(load("block").config.norm, PreNorm)
    assert load("block").config.feed_forward is not None


def test_the_two_layer_model_has_induction_heads() -> None:
    found = induction.run(load("two-layer").weights, seed=1)
    assert found.best[1] > 0.5
    assert found.best[0].startswith("L1"), "an induction head needs a head before it"
    assert found.after < found.before - 3
    assert found.best[0] == card("two-layer")["induction"]["head"]


def test_a_half_way_model_is_not_worth_more_than_its_bits() -> None:
    """Files hold half precision; what is loaded is float32, and the same numbers."""
    weights = load("one-layer").weights
    assert weights.dtype == torch.float32
    assert all(torch.equal(tensor, tensor.half().float()) for tensor in weights.tensors().values())
