"""River's answers: what flows in adds up to what flows out, numbers are the library's own, and the lines beside them print the same."""

import contextlib
import io
import json
import math
import shlex
from dataclasses import replace

import pytest
import torch
from fastapi.testclient import TestClient

import headwater as hw
from headwater.model.presets import named
from headwater.model.weights import Weights
from headwater.studio.app import describe
from headwater.studio.shared import PREDICTED
from headwater.studio.shelf import fill
from headwater.studio.work import Desk
from headwater.trace.confluence import Asked, confluence

TEXT = "for line in open("
MODELS = ("one-layer", "two-layer", "block", "zero-layer")


@pytest.fixture(scope="module")
def client(tmp_path_factory):
    folder = tmp_path_factory.mktemp("models")
    hw.Model(Weights.draw(replace(named("one-layer"), vocab=50, d_model=32), seed=3)).save(folder / "wordless")
    small = Weights.draw(replace(named("one-layer"), vocab=50, d_model=32), seed=4)
    times = {"embed.W_E": 1e6, "unembed.W_U": 1e37}
    hw.Model(small.changed({name: by * small.tensors()[name] for name, by in times.items()})).save(folder / "overflowing")
    app = describe()
    app.state.shelf, app.state.desk = fill([*MODELS, folder / "wordless", folder / "overflowing"]), Desk()
    with TestClient(app) as client:
        yield client


@pytest.fixture(scope="module")
def runs():
    return {name: hw.load(name).record(TEXT) for name in MODELS}


@pytest.fixture
def ask(client):
    def asked(route="/api/river", status=200, **query):
        answer = client.get(route, params={"model": "one-layer", "text": TEXT, **query})
        assert answer.status_code == status, answer.text
        return answer.json()

    return asked


def flows(river, key, end="target"):
    return {link["source" if end == "target" else "target"]: link["value"] for link in river["links"] if link[end] == key}


def check_conserved(river):
    for node in river["nodes"]:
        into, out = (flows(river, node["key"], end).values() for end in ("target", "source"))
        if node["by"] is not None:
            assert abs(math.fsum(into) - node["value"]) <= river["certificate"] <= river["bound"], node["key"]
        if node["key"] != "logit":
            assert math.isclose(math.fsum(out), node["value"], abs_tol=1e-9), node["key"]
    assert {link["source"] for link in river["links"]} == {node["key"] for node in river["nodes"]} - {"logit"}


@pytest.mark.parametrize(
    ("model", "query"),
    [
        ("one-layer", {}),
        ("one-layer", {"most": 1}),
        ("two-layer", {"against": "#5"}),
        ("two-layer", {"centred": True}),
        ("two-layer", {"position": 2, "token": "#9"}),
        ("block", {}),
        ("block", {"auto": 0}),
        ("zero-layer", {}),
    ],
)
def test_what_flows_in_adds_up_to_what_flows_out(ask, model, query):
    river = ask(model=model, **query)
    check_conserved(river)
    assert river["main"] <= river["certificate"]


@pytest.mark.parametrize("way", ["head", "layer", "source", "token", "order", "component"])
def test_every_way_to_take_it_apart_is_conserved_too(ask, way):
    check_conserved(ask(model="two-layer", open=f"logit:{way}"))


def test_a_feed_forward_layer_opens_by_neurons(ask):
    river = ask(model="block", auto=0, open="L0.feed_forward@4:neuron")
    check_conserved(river)
    assert sum(key.startswith("L0.feed_forward@4/neuron L0N") for key in flows(river, "L0.feed_forward@4")) == 6


@pytest.mark.parametrize("model", MODELS)
def test_the_logit_and_its_parts_are_the_librarys(ask, runs, model):
    river, why = ask(model=model, auto=0, most=20), runs[model].explain()
    assert (river["value"], river["main"], river["token"]["id"]) == (why.value, why.certificate, why.facts["id"])
    assert river["probability"] == why.facts["probability"]
    own = flows(river, "logit")
    heads = {part.facts["name"]: part.value for part in why.split(most=None).parts if part.kind == "head"}
    assert {f"{name}@4": value for name, value in heads.items()}.items() <= own.items()
    biases = [part.value for part in why.split(most=None).parts if part.kind == "bias"]
    assert math.isclose(own.get("biases", 0.0), math.fsum(biases), abs_tol=1e-12)


def test_a_heads_sources_are_the_librarys(ask, runs):
    river, why = ask(), runs["one-layer"].explain()
    for head in ("L0H5", "L0H4"):
        there = {f"token@{part.facts['position']}": part for part in why[head].split().parts}
        assert flows(river, f"{head}@4") == {key: part.value for key, part in there.items()}
        told = {link["source"]: link["attention"] for link in river["links"] if link["target"] == f"{head}@4"}
        assert told == {key: part.facts["attention"] for key, part in there.items()}


def test_what_meets_at_one_place_is_the_sum_over_the_paths_that_lead_there(ask, runs):
    """The slow twin: every path by itself, by the library's own splits."""
    why = runs["two-layer"].explain()
    river = ask(model="two-layer", auto=0, most=40, open="L1H0@4,L1H1@4,L1H2@4,L1H3@4,L1@2,L0H1@2")
    through = [why[f"L1H{head}"].split(most=None)["@2"] for head in range(4)]
    stream = {node["key"]: node["value"] for node in river["nodes"]}["L1@2"]
    assert stream == pytest.approx(math.fsum(part.value for part in through), abs=1e-9)
    heads = [part.split(most=None)["L0H1"] for part in through]
    assert flows(river, "L1@2")["L0H1@2"] == pytest.approx(math.fsum(part.value for part in heads), abs=1e-5)
    from_0 = math.fsum(head.split(most=None)["@0"].value for head in heads)
    assert flows(river, "L0H1@2")["token@0"] == pytest.approx(from_0, abs=1e-5)


def test_tokens_add_up_to_their_totals_once_everything_is_open(ask):
    """In the one-layer model every path is drawn: then a token's outflows are its total."""
    river, totals = ask(), ask("/api/river/totals")
    drawn = {node["position"]: node["value"] for node in river["nodes"] if node["kind"] == "embedding"}
    assert [drawn[at] for at in range(5)] == pytest.approx(totals["tokens"], abs=1e-5)


@pytest.mark.parametrize("model", MODELS)
def test_totals_are_the_librarys(ask, runs, model):
    found, totals = runs[model].totals(), ask("/api/river/totals", model=model)
    assert totals["value"] == float(found.values[0]) == ask(model=model)["value"]
    assert totals["tokens"] == found.tokens[0].tolist()
    assert {each["name"]: each["value"] for each in totals["writes"]} == {
        key: float(value[0]) for key, value in found.writes.items()
    }
    assert totals["certificate"] == found.certificate <= totals["bound"]
    centred = ask("/api/river/totals", model=model, centred=True)
    whole = sum(centred["tokens"]) + (centred["positions"] or 0) + (centred["biases"] or 0)
    assert centred["value"] == runs[model].explain(centred=True).value == pytest.approx(whole, abs=1e-4)


def test_places_are_opened_and_closed_by_their_names(ask):
    first = ask(auto=0)
    assert all(node["by"] is None for node in first["nodes"] if node["key"] != "logit")
    opened = ask(auto=0, open="L0H5@4")
    assert flows(opened, "L0H5@4")
    everything = ask()
    closed = ask(open="-L0H5@4")
    assert not flows(closed, "L0H5@4")
    assert {n["key"] for n in closed["nodes"] if n["by"]} == {n["key"] for n in everything["nodes"] if n["by"]} - {"L0H5@4"}


def test_a_remainder_is_exact_and_tells_more_of_its_parts_when_asked(ask):
    cut, more = ask(auto=0, most=2), ask(auto=0, most=2, open="+logit")
    rest = next(node for node in cut["nodes"] if node["kind"] == "remainder")
    assert (rest["count"], rest["of"]) == (5, "logit")
    assert math.isclose(sum(flows(cut, "logit").values()), cut["value"], abs_tol=1e-5)
    assert len(flows(more, "logit")) == 9, "one that is left over is no shorter than itself"
    check_conserved(more)


def test_the_picture_runs_to_the_tokens_within_its_budget(ask):
    for model in MODELS:
        river = ask(model=model)
        assert any(node["kind"] == "embedding" for node in river["nodes"])
        assert len(river["nodes"]) <= 60
    assert len(ask(model="block", auto=0)["nodes"]) < 20


def test_names_that_lead_nowhere_are_passed_over(ask):
    river = ask(open="L9H9@99,-nothing,+nowhere,:,,logit:dance,L0H5@4:neuron,<script>")
    check_conserved(river)


def test_a_model_without_words_speaks_in_ids(ask):
    river = ask(model="wordless", text="ids:1,2,3", token="7", against="#9")
    assert (river["token"], river["against"]["id"]) == ({"text": None, "shown": "#7", "id": 7}, 9)
    check_conserved(river)
    assert ask("/api/river/words", model="wordless", like="7")["exact"]["id"] == 7
    assert ask("/api/river/words", model="wordless", like="seven") == {"exact": None, "pieces": [], "like": []}


@pytest.mark.parametrize(
    ("query", "status"),
    [
        ({"token": "notatokenreally"}, 422),
        ({"token": "#4096"}, 422),
        ({"position": 5}, 422),
        ({"position": -6}, 422),
        ({"against": "#1", "centred": True}, 422),
        ({"model": "nobody"}, 404),
        ({"text": "ids:99999"}, 422),
        ({"most": 0}, 422),
        ({"auto": 1000}, 422),
        ({"text": "\ud800".encode("utf-8", "surrogatepass").decode("utf-8", "replace"), "token": "#1"}, 200),
    ],
)
def test_what_cannot_be_asked_is_refused_in_the_one_body(ask, query, status):
    for route in ("/api/river", "/api/river/totals"):
        if status == 422 and route.endswith("totals") and {"most", "auto"} & query.keys():
            continue
        answer = ask(route, status, **query)
        assert status == 200 or set(answer) == {"given", "needed", "do"}


def test_a_typed_token_is_found_or_told_in_pieces(ask):
    assert ask("/api/river/words", like=" import")["exact"]["text"] == " import"
    found = ask("/api/river/words", like="impor")
    assert found["exact"] is None
    assert "".join(piece["text"] for piece in found["pieces"]) == "impor"
    assert "import" in [each["text"] for each in found["like"]]
    assert ask("/api/river/words", like="#4096")["exact"] is None


def test_next_tokens_are_told_only_where_they_are_asked_for(ask):
    tokens = ask("/api/tokens", **{"from": 1, "to": 3, "count": 2})["tokens"]
    assert [len(each["next"]) for each in tokens] == [0, 2, 2, 0, 0]
    long = ask("/api/tokens", text="x " * 100, count=1)["tokens"]
    assert sum(len(each["next"]) for each in long) == PREDICTED < len(long)
    assert ask("/api/river/next", position=2, count=2)["next"] == tokens[2]["next"]


@pytest.mark.parametrize(
    "query",
    [{}, {"against": "#5"}, {"centred": True}, {"text": "-x = '\"", "position": 1}, {"model": "wordless", "text": "ids:1,2,3"}],
)
def test_the_lines_print_the_same_numbers(ask, client, headwater, query):
    river = ask(**query, auto=0, most=20)
    printed = io.StringIO()
    with contextlib.redirect_stdout(printed):
        exec(river["lines"]["python"], {})
    largest = max(flows(river, "logit").values(), key=abs)
    assert f"{largest:+.3g}"[:5] in printed.getvalue()
    document = json.loads(headwater(*shlex.split(river["lines"]["shell"])[1:]).stdout)
    assert (document["value"], document["certificate"], document["position"]) == (
        river["value"],
        river["main"],
        river["position"],
    )
    heads = {part["name"]: part["value"] for part in document["parts"] if part["kind"] == "head"}
    own = {key.split("@")[0]: value for key, value in flows(river, "logit").items() if key.startswith("L")}
    assert heads == own


@pytest.mark.parametrize("route", ["/api/river", "/api/river/totals", "/api/river/next", "/api/stream", "/api/attention"])
def test_logits_that_overflow_are_refused(ask, route):
    refused = ask(route, 422, model="overflowing", text="ids:1,2,3")
    assert "logits" in json.dumps(refused)
    assert "its numbers overflow" in json.dumps(refused)


def test_a_river_ends_when_nobody_waits_for_it(runs):
    def stop():
        raise KeyboardInterrupt

    with pytest.raises(KeyboardInterrupt):
        confluence(runs["two-layer"].explain(), Asked(), stop)


@pytest.mark.parametrize("length", [1, 2, 300])
def test_short_and_long_texts_have_a_river(ask, length):
    ids = torch.randint(50, (length,), generator=torch.Generator().manual_seed(0)).tolist()
    if length > 256:
        ask(model="wordless", text=f"ids:{','.join(map(str, ids))}", status=422)
        ids = ids[:256]
    river = ask(model="wordless", text=f"ids:{','.join(map(str, ids))}")
    check_conserved(river)
    assert len(river["nodes"]) <= 70
