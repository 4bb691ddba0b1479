"""Where heads look, and why: the studio's answers are the library's numbers."""

import contextlib
import io
import json
import math
import shlex
import subprocess
import sys

import numpy as np
import pytest
from starlette.testclient import TestClient

import headwater as hw
from headwater.model.config import Attention, FeedForward, ModelConfig, PostNorm, RotaryPositions
from headwater.studio.app import studio
from headwater.studio.guard import Door
from headwater.studio.shelf import fill
from strategies import random_weights

TEXT = "for line in open("
LONG = "ids:" + ",".join(str(7 * number % 400) for number in range(120))


@pytest.fixture(scope="module")
def grouped(tmp_path_factory):
    """Grouped keys, rotary positions, no causal mask, norms on the stream itself."""
    config = ModelConfig(
        vocab=40,
        context=16,
        d_model=12,
        layers=2,
        attention=Attention(heads=4, d_head=4, group_size=2, mask="full", input_bias=True, output_bias=True),
        feed_forward=FeedForward(d_mlp=9),
        norm=PostNorm(),
        positions=RotaryPositions(dims=4),
    )
    folder = tmp_path_factory.mktemp("grouped") / "grouped"
    hw.Model(random_weights(config, 3)).save(folder)
    return folder


@pytest.fixture(scope="module")
def client(grouped):
    door = Door(hosts=frozenset({"127.0.0.1:8000"}), token="secret", cookie="attention")
    shelf = fill(["one-layer", "two-layer", "zero-layer", str(grouped)])
    headers = {"authorization": "Bearer secret"}
    return TestClient(studio(shelf, door), base_url="http://127.0.0.1:8000", headers=headers)


@pytest.fixture(scope="module")
def ask(client):
    def asked(route, *, status=200, **query):
        answer = client.get(f"/api/attention{route}", params=query)
        assert answer.status_code == status, answer.text
        return answer

    return asked


def array(answer):
    kind = {"float32": "<f4", "uint8": "u1"}[answer.headers["x-dtype"]]
    return np.frombuffer(answer.content, kind).reshape([int(size) for size in answer.headers["x-shape"].split(",")])


def test_every_head_is_told_by_the_librarys_numbers(ask):
    told = ask("", model="two-layer", text=TEXT).json()
    run = hw.load("two-layer").record(TEXT)
    assert (told["layers"], told["heads"], told["mask"]) == (run.config.layers, run.config.heads, "causal")
    assert [token["text"] for token in told["tokens"]] == [run.words.text(int(token)) for token in run.tokens[0]]
    expected = [each.plain() for each in run.survey().heads]
    assert [{name: each[name] for name in expected[0]} for each in told["facts"]] == expected
    assert ask("", model="two-layer", text=TEXT, facts=False).json()["facts"] is None


@pytest.mark.parametrize(("model", "text"), [("two-layer", TEXT), ("grouped", "ids:1,2,3,2,1,7,9")])
def test_patterns_are_the_models_own_in_all_views(ask, grouped, model, text):
    run = hw.load(grouped if model == "grouped" else model).record(
        [int(each) for each in text[4:].split(",")] if model == "grouped" else text
    )
    for head in range(run.config.heads):
        pattern, scores = run["L1.pattern"][0, head], run["L1.scores"][0, head]
        found = {view: array(ask("/pattern", model=model, text=text, head=f"L1H{head}", view=view))
                 for view in ("pattern", "weighted", "scores")}  # fmt: skip
        assert np.allclose(found["pattern"], pattern, atol=1e-6)
        assert np.allclose(found["weighted"], run.looks((1, head), "weighted"), rtol=1e-5)
        assert np.array_equal(np.isnan(found["scores"]), scores.isinf().numpy())
        assert np.allclose(np.nan_to_num(found["scores"]), scores.nan_to_num(neginf=0.0), rtol=1e-4, atol=1e-4)


@pytest.mark.parametrize("view", ["pattern", "weighted"])
def test_thumbnails_are_small_and_hide_no_cell(ask, view):
    small = array(ask("/thumbnails", model="two-layer", text=TEXT, view=view))
    run = hw.load("two-layer").record(TEXT)
    assert small.shape == (2 * run.config.heads, 5, 5)
    for head in range(run.config.heads):
        cells = run.looks((1, head), view)
        cells = cells if view == "pattern" else cells / cells.max()
        assert np.abs(small[run.config.heads + head] - 255 * cells.numpy()).max() <= 0.51
    long = array(ask("/thumbnails", model="two-layer", text=LONG, view=view, size=16))
    assert long.shape == (2 * run.config.heads, 16, 16)
    whole = hw.load("two-layer").record([int(each) for each in LONG[4:].split(",")]).looks("L0H2", view)
    whole = whole if view == "pattern" else whole / whole.max()
    assert long[2, 15, 15] == pytest.approx(255 * float(whole[112:, 112:].max()), abs=0.51)
    assert long[2].max() == pytest.approx(255 * float(whole.max()), abs=0.51)


@pytest.mark.parametrize("against", [None, 2])
def test_why_adds_up_and_says_what_the_library_says(ask, against):
    given = {} if against is None else {"against": against}
    told = ask("/why", model="two-layer", text=TEXT, head="l1h1", dest=-1, source=0, most=3, **given).json()
    why = hw.load("two-layer").record(TEXT).attend("L1H1", -1, 0, against)
    assert (told["head"], told["dest"]["position"], told["source"]["position"]) == ("L1H1", 4, 0)
    for name in ("score", "attention", "value", "certificate", "bound"):
        assert told[name] == getattr(why, name), name
    assert told["certificate"] <= told["bound"]
    grid = why.grid(3)
    assert told["table"] == [list(row) for row in grid.values]
    assert told["total"] == pytest.approx(told["value"], abs=told["bound"])
    assert math.fsum(told["row_sums"]) == pytest.approx(told["total"], abs=1e-12)
    assert math.fsum(told["column_sums"]) == pytest.approx(told["total"], abs=1e-12)
    for side, sums in (("rows", told["table"]), ("columns", zip(*told["table"], strict=True))):
        for part, cells in zip(told[side], sums, strict=True):
            assert part["value"] == pytest.approx(math.fsum(cells), abs=told["bound"])
            inner = [each["value"] for each in part["parts"]]
            assert not inner or math.fsum(inner) == pytest.approx(part["value"], abs=told["bound"])
    assert told["rows"][-1]["kind"] == "remainder"
    assert told["rows"][-1]["count"] == len(why.query_parts) - 3
    sources = told["competition"]["sources"]
    assert math.fsum(each["attention"] for each in sources) == pytest.approx(1, abs=1e-6)
    assert told["competition"]["rank"] == why.competition.rank
    assert {0, against} - {None} <= {each["place"]["position"] for each in sources if each["place"]}
    assert told["held"] == ["patterns"]


def test_grouped_rotary_full_and_post_norm_models_are_explained_too(ask):
    for head, dest, source in (("L0H3", 1, 5), ("L1H2", 6, 0), ("L1H1", 0, 6)):
        told = ask("/why", model="grouped", text="ids:1,2,3,2,1,7,9", head=head, dest=dest, source=source).json()
        assert math.fsum(map(math.fsum, told["table"])) == pytest.approx(told["value"], abs=1e-9)
        assert told["certificate"] <= told["bound"]
        assert told["held"] == (["norms"] if head == "L0H3" else ["norms", "patterns", "gates"])


def test_a_model_without_heads_has_nothing_to_show(ask):
    told = ask("", model="zero-layer", text=TEXT).json()
    assert (told["layers"], told["heads"], told["mask"], told["facts"]) == (0, 0, None, [])
    assert array(ask("/thumbnails", model="zero-layer", text=TEXT)).size == 0
    assert "without layers" in ask("/pattern", model="zero-layer", text=TEXT, head="L0H0", status=422).json()["given"]


@pytest.mark.parametrize(
    ("route", "query", "status"),
    [
        ("", {"model": "nobody", "text": "a"}, 404),
        ("/pattern", {"model": "one-layer", "text": "a", "head": "L9H9"}, 422),
        ("/pattern", {"model": "one-layer", "text": "a", "head": "L0H0", "view": "other"}, 422),
        ("/thumbnails", {"model": "one-layer", "text": "a", "size": 0}, 422),
        ("/thumbnails", {"model": "one-layer", "text": "a", "view": "scores"}, 422),
        ("/why", {"model": "one-layer", "text": TEXT, "head": "L0H0", "dest": 1, "source": 3}, 422),
        ("/why", {"model": "one-layer", "text": TEXT, "head": "L0H0", "dest": 99}, 422),
        ("/why", {"model": "one-layer", "text": TEXT, "head": "L0H0", "dest": 3, "source": 1, "against": 1}, 422),
        ("/why", {"model": "one-layer", "text": TEXT, "head": "L0H0", "most": 0}, 422),
    ],
)
def test_what_cannot_be_asked_is_refused_in_words(ask, route, query, status):
    assert set(ask(route, status=status, **query).json()) == {"given", "needed", "do"}


def test_the_lines_give_the_same_numbers(ask):
    told = ask("/why", model="one-layer", text="it's -x", head="L0H5", dest=2, source=0).json()
    said = io.StringIO()
    with contextlib.redirect_stdout(said):
        exec(told["lines"]["python"], {})
    assert f"'certificate': {told['certificate']}" in said.getvalue()
    assert f"'score': {told['score']}" in said.getvalue()
    words = shlex.split(told["lines"]["shell"])
    done = subprocess.run([sys.executable, "-m", *words], capture_output=True, text=True, check=True)
    printed = json.loads(done.stdout)
    assert (printed["score"], printed["attention"], printed["bound"]) == (told["score"], told["attention"], told["bound"])
    cells = [value for row in told["table"] for value in row]
    assert [part["value"] for part in printed["parts"]] == cells


def test_the_lines_of_all_heads_give_the_same_numbers(ask):
    told = ask("", model="one-layer", text="-a\0").json()
    said = io.StringIO()
    with contextlib.redirect_stdout(said):
        exec(told["lines"]["python"], {})
    assert f"entropy={told['facts'][0]['entropy']}" in said.getvalue()
    assert "--ids" in told["lines"]["shell"], "a shell would take a dash for an option, and has no way to say NUL"
