"""``headwater stream`` as a person runs it."""

import json

import pytest
import torch

from headwater.api import Model, load
from headwater.cli.stream import stream
from headwater.errors import InputError
from headwater.model.config import Attention, FeedForward, ModelConfig, NoNorm, PostNorm, PreNorm
from headwater.text.tokenizer import byte_tokenizer
from strategies import random_weights

NORMS = {"none": NoNorm(), "pre": PreNorm(), "post": PostNorm()}


@pytest.fixture(scope="module")
def models(tmp_path_factory):
    folder = tmp_path_factory.mktemp("models")
    for name, norm in NORMS.items():
        attention, layer = Attention(heads=2, d_head=4), FeedForward(d_mlp=8)
        config = ModelConfig(vocab=256, context=32, d_model=8, layers=2, attention=attention, feed_forward=layer, norm=norm)
        Model(random_weights(config, 0, torch.float32), byte_tokenizer()).save(folder / name)
    return folder


@pytest.mark.parametrize("norm", NORMS)
def test_tables_tell_every_stage_who_wrote_it_and_what_norms_changed(models, capfd, norm):
    stream(models / norm, "abcabc")
    told = capfd.readouterr().out
    assert "position 5, ‘c’" in told
    assert all(f"L1.{letter} " in told for letter in ("t1", "t2", "t3", "t4", "t5", "h"))
    assert "who wrote it" in told
    assert ("what norms changed" in told) == (norm != "none")


def test_json_has_one_position_and_what_else_was_asked_for(models, capfd):
    stream(models / "pre", "abcabc", position=2, token="b", head="L1H0", temperature=[2.0, 1.0], locality=True, json=True)
    document = json.loads(capfd.readouterr().out)
    assert document["positions"] == [2]
    assert document["tokens"] == [{"token": "c", "id": 99}]
    assert document["chosen"] == [{"token": "b", "id": 98}]
    assert [row["beta"] for row in document["lookup"]["series"]] == [0.5, 1.0]
    assert document["lookup"]["sources"] == ["0 ‘a’", "1 ‘b’", "2 ‘c’"]
    assert document["locality"]["position"] == 2
    assert {row["component"] for row in document["locality"]["components"] if row["mixes"]} == {"L0.attention", "L1.attention"}


def test_pages_and_drawings_show_all_positions(models, capfd, tmp_path):
    stream(models / "post", "abcabc", head="L0H1", html=tmp_path / "page.html", svg=tmp_path / "drawing.svg")
    page = (tmp_path / "page.html").read_text()
    assert "cosine with the final stream" in page
    assert all(f"{position} ‘" in page for position in range(6))
    assert (tmp_path / "drawing.svg").read_bytes().startswith(b"<?xml")


def test_a_token_may_be_given_by_its_number(models, capfd):
    stream(models / "pre", ids="1,2,3", token="#7")
    assert "as asked" in capfd.readouterr().out


@pytest.mark.parametrize(
    "choices",
    [
        {"position": 6},
        {"token": "ab"},
        {"token": "#256"},
        {"head": "L9H0"},
        {"temperature": [1.0]},
        {"head": "L0H0", "temperature": [0.0]},
        {"top": 0},
        {"html": "page.pdf"},
    ],
    ids=str,
)
def test_what_does_not_fit_is_refused(models, tmp_path, choices):
    if "html" in choices:
        choices = {"html": tmp_path / choices["html"]}
    with pytest.raises(InputError):
        stream(models / "pre", "abcabc", **choices)


def test_the_same_weights_run_with_their_norms_elsewhere(models, capfd):
    stream(models / "pre", "abcabc", norms="post", json=True)
    told = json.loads(capfd.readouterr().out)
    run = load(models / "pre").reordered("post").record("abcabc")
    assert told["stages"] == json.loads(json.dumps(run.stream([-1], top=3).plain()["stages"]))
    assert told["certificate"] <= told["bound"]


def test_a_saved_run_has_its_norms_where_they_were(models, tmp_path):
    load(models / "pre").record("abcabc").save(tmp_path / "kept")
    with pytest.raises(InputError, match="norms"):
        stream(tmp_path / "kept", norms="post")
