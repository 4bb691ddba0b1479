"""``headwater explain`` and ``headwater check`` as a person runs them."""

import json
import math
import re

import pytest
import torch

import headwater as hw
from headwater.api import Model
from headwater.model.config import Attention, FeedForward, LearnedPositions, ModelConfig, PostNorm
from headwater.model.weights import Weights
from headwater.text.tokenizer import byte_tokenizer
from strategies import random_weights

TEXT = "for line in open("
POST = ModelConfig(
    vocab=256,
    context=16,
    d_model=8,
    layers=2,
    attention=Attention(heads=2, d_head=4),
    feed_forward=FeedForward(d_mlp=8),
    norm=PostNorm(),
    positions=LearnedPositions(),
)


@pytest.fixture(scope="module")
def post(tmp_path_factory):
    folder = tmp_path_factory.mktemp("models") / "post"
    Model(random_weights(POST, 0, torch.float32), byte_tokenizer()).save(folder)
    return folder


def adds_up(document):
    """A document's parts, at every level, are its value."""
    if "parts" not in document:
        return 0
    total = math.fsum(part["value"] for part in document["parts"])
    assert total == pytest.approx(document["value"], abs=1e-4)
    return 1 + sum(adds_up(part) for part in document["parts"])


def test_the_tree_begins_with_the_logit_and_ends_with_the_certificate(headwater):
    result = headwater("explain", "two-layer", TEXT, "--token", "self")
    assert result.returncode == 0
    lines = result.stdout.splitlines()
    value = hw.load("two-layer").record(TEXT).explain(token="self").value
    assert lines[0].startswith("logit of ‘self’ after ‘(’@4")
    assert lines[0].endswith(f"{value:+.2f}")
    assert re.match(r"certificate \de-\d|certificate \d\.\de-0\d", lines[-1])
    assert "--part L1H3" in result.stderr


def test_json_adds_up_at_every_level(headwater, post):
    for model, text in (("one-layer", TEXT), ("block", TEXT), (post, "abcde")):
        for more in (
            [],
            ["--by", "source"],
            ["--by", "order"],
            ["--by", "path"],
            ["--by", "token"],
            ["--depth", "4", "--most", "3"],
        ):
            result = headwater("explain", model, text, "--json", *more)
            assert result.returncode == 0, result.stderr
            document = json.loads(result.stdout)
            assert adds_up(document) >= 1
            assert document["certificate"] < 1e-4
            assert {"label", "value", "certificate", "parts", "position", "token", "id"} <= set(document)


def test_parts_are_opened_one_after_the_other(headwater):
    result = headwater("explain", "block", TEXT, "--part", "L1.feed_forward", "--by", "neuron", "--json")
    neurons = json.loads(result.stdout)
    assert neurons["by"] == "neuron"
    name = neurons["parts"][0]["name"]
    opened = json.loads(headwater("explain", "block", TEXT, "--part", "L1.feed_forward", name, "--json").stdout)
    assert opened["value"] == pytest.approx(neurons["parts"][0]["value"])
    source = json.loads(headwater("explain", "two-layer", TEXT, "--part", "L1H3", "@3", "--json").stdout)
    assert source["label"].startswith("‘ open’@3 in L1H3 in logit of")
    assert {part["name"] for part in source["parts"]} == {"embed", "L0H0", "L0H1", "L0H2", "L0H3"}


def test_a_one_layer_model_is_bigrams_and_skip_trigrams(headwater):
    result = headwater("explain", "one-layer", TEXT)
    assert "bigram ‘(’ → ‘line’" in result.stdout
    assert "skip-trigram ‘ line’@1 … ‘(’ → ‘line’" in result.stdout
    assert "product of experts" in result.stdout
    assert "They do not add" in result.stdout


def test_differences_positions_and_ids(headwater):
    pair = json.loads(headwater("explain", "block", TEXT, "--token", "self", "--against", "file", "--json").stdout)
    run = hw.load("block").record(TEXT)
    assert pair["value"] == pytest.approx(run.explain(token="self").value - run.explain(token="file").value, abs=1e-4)
    ids = ",".join(str(int(token)) for token in run.tokens[0])
    same = json.loads(
        headwater("explain", "block", "--ids", ids, "--token", f"#{run.find('self')}", "--position", 4, "--json").stdout
    )
    assert same["value"] == pytest.approx(run.explain(token="self").value)
    dashed = json.loads(headwater("explain", "block", "-", "--json", stdin=TEXT).stdout)
    assert dashed["position"] == 4


def test_a_line_to_go_on_with_asks_the_same_question_or_leaves_it_open(headwater, tmp_path):
    place = tmp_path / "run"
    headwater("explain", "two-layer", TEXT, "--save", place, "--depth", 1)
    assert f"explain {place} --part" in headwater("explain", place, "--depth", 1).stderr
    assert f"explain {place} … --part" in headwater("explain", place, "--depth", 1, "--position", 1).stderr


def test_a_saved_run_is_asked_again_without_the_model(headwater, tmp_path):
    first = json.loads(headwater("explain", "block", TEXT, "--save", tmp_path / "run", "--json").stdout)
    again = json.loads(headwater("explain", tmp_path / "run", "--json").stdout)
    assert again == first | {"model": str(tmp_path / "run")}


def test_totals_add_up_by_token_and_by_order(headwater):
    document = json.loads(headwater("explain", "block", TEXT, "--totals", "--json").stdout)
    biases = sum(value[0] for value in document["biases"].values())
    assert sum(document["tokens"][0]) + sum(document["positions"][0]) + biases == pytest.approx(document["value"], abs=1e-4)
    assert sum(document["orders"][0]) + biases == pytest.approx(document["value"], abs=1e-4)
    told = headwater("explain", "block", TEXT, "--totals").stdout
    assert list(re.findall(r"^(L\dH?\d?)", told, re.MULTILINE))[:2] == ["L0", "L1"]


def test_pages_and_drawings_are_written(headwater, tmp_path):
    result = headwater("explain", "two-layer", TEXT, "--html", tmp_path / "a.html", "--svg", tmp_path / "a.svg")
    assert result.returncode == 0
    page = (tmp_path / "a.html").read_text()
    assert "certificate" in page
    assert "L1H3" in page
    assert "<script" not in page
    assert "L1H3" in (tmp_path / "a.svg").read_text()


@pytest.mark.parametrize(
    ("arguments", "said"),
    [
        (["two-layer"], "neither a text nor ids"),
        (["two-layer", TEXT, "--token", "no such single token"], "tokens of this model"),
        (["two-layer", TEXT, "--position", "77"], "position 77"),
        (["two-layer", TEXT, "--by", "neuron"], "one of component"),
        (["two-layer", TEXT, "--by", "colour"], "one of component"),
        (["two-layer", TEXT, "--part", "L9H9"], "no part is called"),
        (["two-layer", TEXT, "--depth", "0"], "--depth 0"),
        (["two-layer", TEXT, "--html", "x.txt"], "--html"),
        (["two-layer", TEXT, "--against", "self", "--centred"], "one of the two"),
        (["two-layer", TEXT, "--by", "path", "--share", "2"], "share 2"),
    ],
)
def test_what_cannot_be_asked_is_told_in_two_lines(headwater, arguments, said):
    result = headwater("explain", *arguments)
    assert result.returncode == 2
    assert said in result.stderr
    assert len(result.stderr.strip().splitlines()) == 2
    assert result.stdout == ""


def test_check_adds_everything_up(headwater, post, tmp_path):
    for model in ("zero-layer", "two-layer", "block", post):
        document = json.loads(headwater("check", model, "--json").stdout)
        assert document["ok"] is True
        assert document["certificate"] <= document["bound"] < 1e-2
        assert document["positions"] == min(64, hw.load(model).config.context)
    result = headwater("check", "block", TEXT)
    assert result.returncode == 0
    assert "the parts add up" in result.stdout
    assert headwater("check", "block", TEXT, "--html", tmp_path / "c.html", "--svg", tmp_path / "c.svg").returncode == 0
    assert "the parts add up" in (tmp_path / "c.html").read_text()
    assert "what rounding may come to" in (tmp_path / "c.svg").read_text()
    assert f"5 positions × {hw.load('block').config.vocab:,} tokens" in result.stdout


def test_check_says_no_where_parts_do_not_add_up(monkeypatch, headwater):
    """A model whose head writes are not what its record says: one number of one weight is changed behind the run's back."""
    from headwater.trace import check as module

    real = module.streams

    def disturbed(run):
        W_O = run.weights.blocks[0].attention.W_O.clone()
        W_O[0, 0, 0] += 0.01
        changed = Weights.changed(run.weights, {"blocks.0.attn.W_O": W_O})
        return real(type(run).of(run.__class__(changed, run.tokens, run.kept)))

    monkeypatch.setattr(module, "streams", disturbed)
    result = headwater("check", "two-layer", TEXT)
    assert result.returncode == 1
    assert "do NOT add up" in result.stdout
