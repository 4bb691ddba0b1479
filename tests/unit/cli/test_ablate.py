"""``headwater ablate``: all heads and layers, some places together, JSON, pictures, and what it refuses."""

import json
from pathlib import Path

import pytest
import torch

import headwater as hw
from headwater.cli.ablate import ablate
from headwater.errors import InputError
from headwater.model.config import Attention, FeedForward, LayerNorm, LearnedPositions, ModelConfig, PreNorm
from headwater.text.tokenizer import byte_tokenizer
from strategies import random_weights

CONFIG = ModelConfig(
    vocab=260,
    context=16,
    d_model=8,
    layers=2,
    attention=Attention(heads=2, d_head=4),
    feed_forward=FeedForward(d_mlp=6),
    norm=PreNorm(norm=LayerNorm()),
    positions=LearnedPositions(),
)


@pytest.fixture(scope="module")
def model(tmp_path_factory):
    folder = tmp_path_factory.mktemp("ablate") / "model"
    hw.Model(random_weights(CONFIG, 5, torch.float32), byte_tokenizer()).save(folder)
    return folder


@pytest.fixture
def told(capfd, monkeypatch):
    """What the verb prints."""
    monkeypatch.setenv("HEADWATER_THREADS", "1")

    def run(*arguments, **options):
        ablate(*arguments, **options)
        return capfd.readouterr().out

    return run


def test_all_heads_and_layers_are_taken_away_one_by_one(told, model):
    out = told(model, "hello")
    assert [name for name in ("L0H0", "L0H1", "L1H0", "L1H1", "L0.feed_forward", "L1.feed_forward") if name not in out] == []
    assert "certificate: with all else frozen, each took its part away to within" in out


def test_json_has_every_number_and_the_certificate(told, model):
    out = json.loads(told(model, "hello", position=2, token="o", against="x", loss=True, json=True))
    assert (out["token"], out["id"], out["against"], out["position"], out["tokens"]) == ("o", 111, "x", 2, list("hello"))
    run = hw.load(model).record("hello")
    assert out["value"] == pytest.approx(float(run.logits[0, 2, 111] - run.logits[0, 2, 120]), rel=1e-5)
    assert len(out["effects"]) == len(out["losses"]) == 6
    worst = max(abs(one["frozen_change"] + one["part"]) for one in out["effects"])
    assert out["certificate"] == worst < 1e-4
    for one in out["effects"]:
        assert one["change"] == pytest.approx(one["unfrozen"]["answer"] - out["value"])
        assert one["unfrozen"]["kl"] >= 0


def test_places_are_taken_away_together_and_predictions_shown(told, model):
    out = json.loads(told(model, "hello", "L0H1", "L1N3", top=2, json=True))
    (one,) = out["effects"]
    assert (one["place"], one["part"], out["certificate"]) == ("L0H1 L1N3", None, None)
    assert {side: len(some) for side, some in out["predictions"].items()} == {"before": 2, "frozen": 2, "unfrozen": 2}
    best = out["predictions"]["before"][0]
    assert (best["id"], best["probability"]) == (out["id"], pytest.approx(one["before"]["probability"]))
    shown = told(model, "hello", "L0H1", "L1N3", top=2)
    assert "what comes next" in shown
    assert "L0H1 L1N3" in shown


def test_with_ids_the_first_word_is_a_place(told, model):
    text = json.loads(told(model, "hi", "L0H1", json=True))
    ids = json.loads(told(model, "L0H1", ids="104,105", json=True))
    assert text == ids


def test_positions_are_said_once(told, model):
    out = json.loads(told(model, "hello", at="0,-1", json=True))
    assert out["effects"][0]["place"] == "L0H0@0,-1"
    assert json.loads(told(model, "hello", "embed@0-1", json=True))["effects"][0]["place"] == "embed@0-1"
    with pytest.raises(InputError, match="positions in one way"):
        told(model, "hello", "embed@1", at="2")


@pytest.mark.parametrize("how", ["mean", "resample"])
def test_means_and_other_positions_stand_in(told, model, how):
    own = json.loads(told(model, "hello", "L0H1", how=how, json=True))
    other = json.loads(told(model, "hello", "L0H1", how=how, reference="something else", json=True))
    assert own["certificate"] is None
    assert own["effects"][0]["change"] != other["effects"][0]["change"]
    assert own == json.loads(told(model, "hello", "L0H1", how=how, json=True))


def test_pages_and_drawings_hold_the_effects(told, model, tmp_path):
    told(model, "hello", html=tmp_path / "page.html", svg=tmp_path / "grid.svg", at="1")
    page, drawing = (tmp_path / "page.html").read_text(), (tmp_path / "grid.svg").read_text()
    assert "L1.feed_forward@1" in page
    assert "certificate" in page
    assert "unfrozen: change of the logit" in drawing


@pytest.mark.parametrize(
    ("arguments", "options", "said"),
    [
        (["hello", "L9H0"], {}, "heads from L0H0 to L1H1"),
        (["hello"], {"position": 7}, "position from 0 to 4"),
        (["hello"], {"token": "xyz"}, "3 tokens"),
        (["hello"], {"token": "#999"}, "token from 0 to 259"),
        (["hello"], {"at": "9"}, "position from 0 to 4"),
        (["hello"], {"top": -1}, "--top"),
        (["hello"], {"reference": "more"}, "--how mean"),
        (["h"], {"how": "resample"}, "one token"),
        (["h"], {"loss": True}, "longer text"),
        (["hello", "L0H0"], {"svg": Path("x.svg")}, "leave the places out"),
        ([], {}, "neither a text nor ids"),
    ],
)
def test_what_cannot_be_done_is_refused(told, model, arguments, options, said):
    with pytest.raises(InputError) as refused:
        told(model, *arguments, **options)
    assert said in str(refused.value)


def test_a_model_without_layers_has_only_its_embeddings_to_take_away(told):
    with pytest.raises(InputError, match="such as embed"):
        told(Path("zero-layer"), ids="1,2")
    (one,) = json.loads(told(Path("zero-layer"), "embed", ids="1,2", json=True))["effects"]
    assert one["unfrozen"]["answer"] == 0
