"""The screen ``stream``: its numbers are the library's, another model stands beside it, and what is too much is refused."""

import json
import shlex
from contextlib import redirect_stdout
from io import StringIO

import numpy as np
import pytest
import torch
from starlette.testclient import TestClient

import headwater as hw
from headwater.cli.main import app
from headwater.studio import stream_told
from headwater.studio.app import describe
from headwater.studio.shelf import fill
from headwater.studio.work import Desk
from strategies import random_weights

TEXT = "for line in open("


@pytest.fixture(scope="module")
def folder(tmp_path_factory):
    """Small models of every kind beside our own: post-norm, parallel, without blocks, without words."""
    from headwater.text.tokenizer import byte_tokenizer

    place = tmp_path_factory.mktemp("models")
    attention = hw.Attention(heads=2, d_head=4, output_bias=True)
    common = {"vocab": 256, "context": 32, "d_model": 8, "layers": 2, "attention": attention}
    beside = hw.FeedForward(d_mlp=8, reads="beside-attention")
    kinds = {
        "post": hw.ModelConfig(
            **common, feed_forward=hw.FeedForward(d_mlp=8), norm=hw.PostNorm(), positions=hw.LearnedPositions()
        ),
        "parallel": hw.ModelConfig(**common, feed_forward=beside, norm=hw.PreNorm(norm=hw.RMSNorm())),
        "nothing": hw.ModelConfig(vocab=256, context=32, d_model=8, layers=0, positions=hw.LearnedPositions()),
    }
    for name, config in kinds.items():
        hw.Model(random_weights(config, 0, torch.float32), byte_tokenizer()).save(place / name)
    hw.Model(random_weights(kinds["post"], 1, torch.float32)).save(place / "wordless")
    return place


@pytest.fixture(scope="module")
def client(folder):
    app = describe()
    own = ["one-layer", "block"]
    app.state.shelf = fill([*own, *(folder / name for name in ("post", "parallel", "nothing", "wordless"))])
    app.state.desk = Desk()
    with TestClient(app, raise_server_exceptions=False) as client:
        yield client


def asked(client, **query):
    answer = client.get("/api/stream", params={"model": "block", "text": TEXT, **query})
    assert answer.status_code == 200, answer.text
    return answer.json()


def agrees(told, plain):
    """Every number of an answer is the one that the library tells programs."""
    assert told["position"] == plain["positions"][0]
    assert told["chosen"]["id"] == plain["chosen"][0]["id"]
    assert [each["name"] for each in told["stages"]] == [each["stage"] for each in plain["stages"]]
    for each, stage in zip(told["stages"], plain["stages"], strict=True):
        assert (each["role"], each["of"], each["also"]) == (stage["role"], stage["of"], stage["also"])
        assert each["length"] == stage["norm"][0], stage["stage"]
        for name in ("cosine_before", "cosine_embed", "cosine_final"):
            assert each[name] == stage[name][0], (stage["stage"], name)
        lens = stage["lens"]
        assert (each["probability"], each["rank"], each["entropy"]) == (lens["p"][0], lens["rank"][0], lens["entropy"][0])
        assert [(one["token"]["id"], one["probability"]) for one in each["top"]] == [
            (one["id"], one["p"]) for one in lens["top"][0]
        ]
        shares = None if stage["shares"] is None else [value[0] for value in stage["shares"].values()]
        assert each["shares"] == shares
    for each, norm in zip(told["normed"], plain["norms"], strict=True):
        assert each == {name: value[0] if isinstance(value, list) else value for name, value in norm.items()}
    assert (told["certificate"], told["bound"]) == (plain["certificate"], plain["bound"])
    assert told["certificate"] <= told["bound"]


@pytest.mark.parametrize("model", ["one-layer", "block", "post", "parallel", "nothing"])
def test_the_numbers_are_those_of_the_library(client, folder, model):
    told = asked(client, model=model, position=1, top=3)
    loaded = hw.load(model if model in ("one-layer", "block") else folder / model)
    run = loaded.record(TEXT)
    agrees(told["one"], run.stream([1], top=3).plain())
    assert [each["id"] for each in told["tokens"]] == [int(token) for token in run.tokens[0]]
    assert told["one"]["why"] == "next"
    assert told["other"] is None
    names = [each["name"] for each in told["one"]["components"]]
    assert names == list(run.stream([1]).shares)


def test_a_token_is_chosen_by_its_text_or_by_its_number(client):
    run = hw.load("block").record(TEXT)
    plain = run.stream([-1], token="self", top=2).plain()
    for token in ("self", f"#{run.find('self')}"):
        told = asked(client, token=token, top=2)["one"]
        agrees(told, plain)
        assert told["why"] == "asked"


@pytest.mark.parametrize(
    ("model", "other", "order"), [("block", "~post", "post"), ("post", "~pre", "pre"), ("one-layer", "~post", "post")]
)
def test_the_same_weights_with_norms_elsewhere_stand_beside_it(client, folder, model, other, order):
    told = asked(client, model=model, other=other, top=2)
    loaded = hw.load(folder / model if model == "post" else model)
    run = loaded.reordered(order).record(TEXT)
    agrees(told["other"], run.stream([told["one"]["position"]], token=told["one"]["chosen"]["id"], top=2).plain())
    assert told["other"]["norms"] == f"{order}-norm"
    assert told["other"]["order"] == order
    assert order in told["orders"]
    # From memory the second time, and the same.
    assert asked(client, model=model, other=other, top=2) == told


def test_another_model_is_looked_at_where_the_same_text_ends(client):
    told = asked(client, model="block", other="post", position=0)
    ends = len(told["tokens"][0]["text"])
    assert told["other"]["position"] == ends - 1  # bytes
    # ‘ line’ is no token of bytes, so the other one tells of its own next.
    assert told["one"]["chosen"]["text"] == " line"
    assert told["other"]["why"] in ("next", "likeliest")
    same = asked(client, model="block", other="post", token="(")
    assert (same["other"]["chosen"]["text"], same["other"]["why"]) == ("(", "same")


@pytest.mark.parametrize(
    "measure", ["length", "cosine_before", "cosine_embed", "cosine_final", "probability", "rank", "entropy"]
)
def test_an_overview_has_one_measure_of_all_positions(client, measure):
    answer = client.get("/api/stream/overview", params={"model": "block", "text": TEXT, "measure": measure})
    assert answer.status_code == 200, answer.text
    shape = tuple(map(int, answer.headers["x-shape"].split(",")))
    values = np.frombuffer(answer.content, "<f4").reshape(shape)
    stages = hw.load("block").record(TEXT).stream().plain()["stages"]
    name = {"length": "norm", "probability": "p"}.get(measure, measure)
    expected = [stage["lens"][name] if name in ("p", "rank", "entropy") else stage[name] for stage in stages]
    expected = np.array([[np.nan if each is None else each for each in row] for row in expected], "<f4")
    np.testing.assert_array_equal(values, expected)


def test_an_overview_of_some_positions_in_another_order(client):
    query = {"model": "block", "text": TEXT, "measure": "length", "order": "post", "first": 1, "count": 2}
    answer = client.get("/api/stream/overview", params=query)
    view = hw.load("block").reordered("post").record(TEXT).stream([1, 2])
    np.testing.assert_array_equal(np.frombuffer(answer.content, "<f4").reshape(-1, 2), view.norm.numpy().astype("<f4"))
    assert answer.headers["x-first"] == "1"


def test_more_of_the_lens_than_can_be_had_is_refused_and_lengths_are_not(client, monkeypatch):
    monkeypatch.setattr(stream_told, "LENS_WORK", 1)
    query = {"model": "block", "text": TEXT}
    assert asked(client)["one"]["lens_positions"] == 1
    refused = client.get("/api/stream/overview", params={**query, "measure": "probability"})
    assert refused.status_code == 413
    assert "at most 1" in refused.json()["needed"]
    assert (
        client.get("/api/stream/overview", params={**query, "measure": "probability", "first": 3, "count": 1}).status_code
        == 200
    )
    assert client.get("/api/stream/overview", params={**query, "measure": "length"}).status_code == 200


@pytest.mark.parametrize(
    ("query", "status"),
    [
        ({"model": "none"}, 404),
        ({"other": "none"}, 404),
        ({"other": "~pre"}, 422),
        ({"other": "~nowhere"}, 404),
        ({"model": "nothing", "other": "~post"}, 422),
        ({"model": "parallel", "other": "~post"}, 422),
        ({"position": 99}, 422),
        ({"token": "no such token"}, 422),
        ({"token": "#99999"}, 422),
        ({"token": ""}, 422),
        ({"top": 0}, 422),
        ({"text": ""}, 422),
        ({"model": "wordless"}, 422),
        ({"text": "ids:1,99999"}, 422),
    ],
)
def test_what_cannot_be_answered_is_told_in_three_parts(client, query, status):
    answer = client.get("/api/stream", params={"model": "block", "text": TEXT, **query})
    assert (answer.status_code, sorted(answer.json())) == (status, ["do", "given", "needed"])


def test_positions_beyond_the_text_have_no_overview(client):
    answer = client.get("/api/stream/overview", params={"model": "block", "text": TEXT, "first": 99})
    assert answer.status_code == 422


@pytest.mark.parametrize(
    "query",
    [
        {"other": "~post", "position": 1},
        {"text": "-x 'y' \"z\"", "token": "("},
        {"model": "one-layer", "text": "ids:5,6", "other": "~pre"},
    ],
)
def test_the_lines_give_the_same_numbers(client, query):
    told = asked(client, **query)
    said = StringIO()
    with redirect_stdout(said):
        exec(told["lines"]["python"], {})
    both = [told["one"], *([told["other"]] if told["other"] else [])]
    printed = [eval(line) for line in said.getvalue().splitlines()]
    assert len(printed) == len(both)
    for each, plain in zip(both, printed, strict=True):
        agrees(each, plain)


@pytest.mark.parametrize(
    "query", [{"other": "~post", "token": "self", "top": 2}, {"text": "-x 'y'"}, {"text": "-x", "other": "post"}]
)
def test_the_shell_line_gives_the_same_numbers(client, capfd, query):
    told = asked(client, **query)
    both = [told["one"], *([told["other"]] if told["other"] else [])]
    for each, line in zip(both, told["lines"]["shell"].splitlines(), strict=True):
        program, *words = shlex.split(line)
        assert program == "headwater"
        app(words)
        agrees(each, json.loads(capfd.readouterr().out))
