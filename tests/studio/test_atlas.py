"""Answers of the atlas: the library's own numbers, and nothing that could be a path."""

import json
import re
import shlex
import shutil
import sys
from dataclasses import replace

import numpy as np
import pytest
import torch
from starlette.testclient import TestClient

from headwater import Model
from headwater.atlas.atlas import open_atlas
from headwater.atlas.bug_rows import bug_rows
from headwater.atlas.build import build_atlas
from headwater.atlas.diff import diff
from headwater.atlas.patterns import Prefix
from headwater.atlas.reading import Place, places
from headwater.atlas.search import Query
from headwater.cli.main import main
from headwater.files.tables import read_table
from headwater.studio.app import studio
from headwater.studio.atlas_search import _place
from headwater.studio.guard import Door
from headwater.text.corpus import open_corpus
from headwater.train.recipe import read_recipe
from headwater.train.run import run_recipe
from strategies import random_weights
from studio_app import filled
from tiny import tiny_recipe
from tiny_atlas import CHOSEN, CONFIG, contents, save_corpus, save_model

HOST, TOKEN = "127.0.0.1:8321", "a-token-of-the-tests"


@pytest.fixture(scope="module")
def folder(tmp_path_factory):
    """Two models over one vocabulary with an atlas each, and a third without words and atlas."""
    place = tmp_path_factory.mktemp("atlases")
    for name, seed in (("one", 0), ("two", 1)):
        (place / name).mkdir()
        save_model(place / name / "model", seed=seed)
        corpus = open_corpus(save_corpus(place / name / "corpus"))
        # So many that some of them stand in the text.
        build_atlas(place / name / "model", place / name / "atlas", replace(CHOSEN, triples=600), corpus=corpus)
    Model(random_weights(CONFIG, 2, torch.float32)).save(place / "bare")
    return place


def client_of(folder, *models, **ways):
    shelf = filled(folder, *models, **ways)
    app = studio(shelf, Door(frozenset({HOST}), TOKEN, "cookie"))
    headers = {"authorization": f"Bearer {TOKEN}", "origin": f"http://{HOST}"}
    return TestClient(app, base_url=f"http://{HOST}", headers=headers, raise_server_exceptions=False)


@pytest.fixture(scope="module")
def client(folder):
    with client_of(folder, "one/model", atlases=("two/atlas",)) as found:
        yield found


@pytest.fixture(scope="module")
def atlas(folder):
    with open_atlas(folder / "one" / "atlas") as found:
        yield found


def get(client, route, status=200, **query):
    answer = client.get(f"/api/atlas/{route}", params={"atlas": "one", **query})
    assert answer.status_code == status, answer.text
    return answer.json()


def test_heads_are_those_of_the_summary(client, atlas):
    told = get(client, "heads")
    assert [one["head"] for one in told["heads"]] == list(atlas.heads)
    for one, summary in zip(told["heads"], atlas.summary["heads"], strict=True):
        assert one["copying_centred"] == summary["copying_centred"]
        assert one["positions"] == summary["placement"]["positions"]
        assert one["previous"] == summary["attending"]["previous"]
        assert one["verdict"] == summary["verdict"]
    assert told["vocab"] == len(atlas.words)
    assert told["has_evidence"]
    assert told["lines"]["shell"] == "headwater atlas show one/atlas --json"


def test_a_head_has_its_eigenvalues_and_its_strongest_rows(client, atlas):
    name = atlas.heads[1]
    told, summary = get(client, "head", head=name.lower()), atlas.summary["heads"][1]
    assert told["ov"]["centred"]["values"] == summary["copying_panel"]["centred"]["eigenvalues"]
    assert told["qk"]["raw"]["positive"] == summary["self_match_panel"]["raw"]["positive"]
    assert told["ov"]["singular_values"] == summary["ov"]["singular_values"]
    assert told["ov"]["votes"] == summary["copying_panel"]["votes"]
    for side, lowering in (("raising", False), ("lowering", True)):
        rows = atlas.head(name).strongest(lowering=lowering).rows[:25]
        assert [row["lift"] for row in told[side]] == [row["lift"] for row in rows]
        assert [row["source"]["id"] for row in told[side]] == [row["source_id"] for row in rows]


@pytest.mark.parametrize(
    ("table", "key", "other"),
    [("says", "source", "out"), ("seeks", "dest", "source"), ("sought", "source", "dest"), ("said", "out", "source")],
)
def test_lists_are_the_atlas_own(client, atlas, table, key, other):
    told = get(client, "list", table=table, head=atlas.heads[0], token="e")
    rows = getattr(atlas.head(atlas.heads[0]), table)("e").rows
    assert told["total"] == len(rows) > 0
    assert [row["other"]["id"] for row in told["rows"]] == [row[f"{other}_id"] for row in rows]
    assert {row["key"]["id"] for row in told["rows"]} == {row[f"{key}_id"] for row in rows}
    for name in ("score", "output", "attention", "lift"):
        assert [row[name] for row in told["rows"]] == [row.get(name) for row in rows]


def test_bigrams_and_tokens_that_are_none(client, atlas):
    told = get(client, "list", table="bigrams", token="e", limit=5, offset=2)
    assert [row["output"] for row in told["rows"]] == [row["output"] for row in atlas.bigrams("e").rows[2:7]]
    assert get(client, "list", table="bigrams", token="no such token")["missing"]["slot"] == "token"
    assert "200" in get(client, "list", 413, table="bigrams", token="regex:.*")["needed"]
    assert get(client, "list", 422, table="says", token="e")["needed"] == "a head"


@pytest.fixture
def shell(folder, monkeypatch, capsys):
    """Run a command where the studio was started, and read the JSON that it prints."""

    def ran(lines):
        monkeypatch.chdir(folder)
        monkeypatch.setattr(sys, "argv", shlex.split(lines["shell"]))
        with pytest.raises(SystemExit) as end:
            main()
        assert end.value.code == 0
        return json.loads(capsys.readouterr().out)

    return ran


QUERIES = [
    {},
    {"source": "e"},
    {"dest": "prefix:t", "sign": "lowering"},
    {"out": "#101", "sort": "-lift"},
    {"source": "contains:a", "head": "L0H1", "sort": "measured"},
    {"source": "regex:^[a-c]$", "head": "L0", "offset": "7", "limit": "11"},
]


@pytest.mark.parametrize("query", QUERIES)
def test_a_search_finds_what_its_own_lines_find(client, query, shell):
    told = get(client, "search", **query)
    plain = shell(told["lines"])
    assert told["total"] == plain["total"]
    assert [row["lift"] for row in told["rows"]] == [row["lift"] for row in plain["rows"]]
    assert [row["source"]["text"] for row in told["rows"]] == [row["source"] for row in plain["rows"]]
    assert [row["measured"] for row in told["rows"]] == [row["measured"] for row in plain["rows"]]


def test_lines_of_python_find_the_same(client, folder, monkeypatch, capsys):
    monkeypatch.chdir(folder)
    told = get(client, "search", source="prefix:t", limit=3)
    exec(told["lines"]["python"], {})
    printed = capsys.readouterr().out
    with open_atlas("one/atlas") as again:
        assert printed.strip() == str(again.search(source=Prefix("t"), limit=3))
    for route, query in (
        ("list", {"table": "bigrams", "token": "e"}),
        ("head", {"head": "L0H0"}),
        ("bugs", {}),
        ("composition", {}),
    ):
        exec(get(client, route, **query)["lines"]["python"], {})
        assert capsys.readouterr().out


def test_a_search_says_beyond_which_lifts_it_is_whole_and_which_text_is_no_token(client, atlas):
    told = get(client, "search", source="e")
    assert (told["above"], told["below"]) == atlas.search(source="e").beyond
    assert get(client, "search")["above"] is None
    half = get(client, "search", source="no such token", dest="regex:(", out="e")
    assert (half["total"], [each["slot"] for each in half["missing"]]) == (0, ["source", "dest"])
    assert "chances" in get(client, "search", 422, sort="nonsense")["needed"]


def test_places_are_those_of_the_text(client, atlas, shell):
    one = places(atlas, Query(limit=1))[0]
    asked = {"source": one.source, "dest": one.dest, "out": one.out}
    told = get(client, "places", head=one.head, **asked)
    found = places(atlas, Query(**asked, head=one.head))
    assert [each["measured"] for each in told["places"]] == [each.measured for each in found]
    for each, place in zip(told["places"], found, strict=True):
        assert (each["source"]["id"], each["dest"]["id"], each["comes"]["id"]) == (one.source, one.dest, place.next)
        assert [part and part["id"] for part in each["between"]] == list(place.between)
        assert each["is_whole"] == (None not in place.between)
    assert [row["measured"] for row in shell(told["lines"])["rows"]] == [each.measured for each in found]


@pytest.mark.parametrize(("source", "text"), [("ab", "abc"), ("é", "ids:195,169,99"), ("ids:", "ids:105,100,115,58,99")])
def test_a_passage_is_run_as_it_stood_in_the_text(atlas, source, text):
    """By ids where letters are in pieces: what pieces are told as is no text that would be read as them again."""
    *before, last = source.encode()
    place = Place(
        head="L0H0", source=last, dest=ord("c"), out=1, nth=1, source_position=len(before), dest_position=len(before) + 1,
        next=1, measured_attention=0.5, measured=0.5, before=tuple(before), between=(), after=(1,),
    )  # fmt: skip
    assert _place(atlas, place).text == text


@pytest.fixture
def crossed(monkeypatch):
    """Bugs of two heads in the atlas' table: drawn at random, its model has none."""
    ids = ("source", "dest", "out", "dest_parent_out", "out_parent_dest")
    counts = ("dest_parent_occurs", "out_parent_occurs", "chances", "places")
    numbers = ("attention", "output", "lift", "expected", "measured")
    columns = {name: [65 + at, 66 + at, 67 + at, 68 + at] for at, name in enumerate((*ids, *counts, *numbers))}
    columns |= {"head": [1, 0, 1, 0], "cost": [4.0, 3.0, 2.0, 1.0]}
    table = {name: np.array(values) for name, values in columns.items()}

    def read(path, names=None):
        return table if path.name == "bugs.parquet" else read_table(path, names)

    monkeypatch.setattr("headwater.atlas.bug_rows.read_table", read)


@pytest.mark.usefixtures("crossed")
def test_bugs_are_the_costliest_first(client, atlas):
    rows = bug_rows(atlas.folder, atlas.manifest, None)
    told = get(client, "bugs", limit=3)
    assert (told["total"], told["cost"]) == (len(rows), sum(row["cost"] for row in rows)) == (4, 10.0)
    assert [bug["cost"] for bug in told["rows"]] == [row["cost"] for row in rows[:3]]
    assert [parent["occurs"] for parent in told["rows"][0]["parents"]] == [each["occurs"] for each in rows[0]["parents"]]
    some = get(client, "bugs", head="l0h1")
    assert [(bug["head"], bug["cost"]) for bug in some["rows"]] == [("L0H1", 4.0), ("L0H1", 2.0)]


def test_tokens_for_whoever_is_typing(client, atlas):
    told = get(client, "suggest", start="e")
    assert told["tokens"][0]["token"]["text"] == "e"
    counts = [each["count"] for each in told["tokens"][1:]]
    assert counts == sorted(counts, reverse=True)
    assert all(each["token"]["text"].startswith(("e", " e")) for each in told["tokens"])
    assert get(client, "suggest", start="no such token")["tokens"] == []
    # Before the first letter, the commonest of all but for a space, which is what begins so itself.
    common = [each["count"] for each in get(client, "suggest")["tokens"] if each["token"]["text"] != " "]
    counted = [count for text, count in zip(atlas.words.texts, atlas.words.count.tolist(), strict=True) if text != " "]
    assert common[:5] == sorted(counted, reverse=True)[:5]


def test_one_layer_composes_with_nobody(client):
    told = get(client, "composition", kind="V")
    assert (told["total"], told["kept"], told["links"]) == (0, 0, [])


def test_two_atlases_side_by_side(client, folder, atlas):
    told = get(client, "compare", other="two", limit=5)
    with open_atlas(folder / "two" / "atlas") as other:
        found = diff(atlas, other, limit=5)
    assert told["counts"] == found.counts
    assert [row["least"] for row in told["appeared"]] == [row.least for row in found.appeared]
    assert [one["head"] for one in told["heads"]] == [one.head for one in found.heads]
    assert told["heads"][0]["numbers"]["centred"]["after"] == found.heads[0].numbers["centred"][1]
    assert not told["same_weights"]
    assert get(client, "compare", other="one")["same_weights"]
    get(client, "compare", 404, other="three")


def test_an_atlas_whose_files_have_changed_is_refused(folder, tmp_path):
    shutil.copytree(folder / "one", tmp_path / "one")
    with client_of(tmp_path, "one/model") as client:
        get(client, "search", source="e")
        file = tmp_path / "one" / "atlas" / "bigrams.parquet"
        file.write_bytes(file.read_bytes()[:-7])
        get(client, "search", 409, source="e")
        get(client, "heads", 409)
        assert client.post("/api/atlas/one/reopen").status_code == 200
        get(client, "heads", 409)


def events(client, model):
    with client.stream("POST", "/api/atlas/build", params={"model": model}) as answer:
        assert answer.status_code == 200, answer.read()
        assert answer.headers["content-type"].startswith("text/event-stream")
        return [json.loads(line.removeprefix("data: ")) for line in answer.iter_lines() if line.startswith("data: ")]


def test_an_atlas_is_built_below_the_studios_folder_and_served(folder, tmp_path):
    shutil.copytree(folder / "bare", tmp_path / "bare")
    with client_of(tmp_path, "bare") as client:
        assert client.get("/api/shelf").json()["models"][0]["atlas"] is None
        how = client.get("/api/atlas/build", params={"model": "bare"}).json()
        assert how["lines"]["shell"] == "headwater atlas build bare --out models/bare/atlas"
        told = events(client, "bare")
        assert told[-1] == {"done": "bare"}
        shares = [event["share"] for event in told[:-1]]
        assert shares == sorted(shares)
        assert client.get("/api/shelf").json()["models"][0]["atlas"] == "bare"
        heads = get(client, "heads", atlas="bare")
        assert (heads["has_evidence"], heads["lines"]["shell"]) == (False, "headwater atlas show models/bare/atlas --json")
        assert get(client, "bugs", atlas="bare")["has_text"] is False
        assert get(client, "places", atlas="bare", head="L0H0", source=1, dest=2, out=3)["has_text"] is False
    assert (tmp_path / "models" / "bare" / "atlas" / "manifest.json").is_file()


def test_the_lines_build_what_the_page_does(tmp_path, headwater, monkeypatch):
    run_recipe(read_recipe(tiny_recipe(tmp_path)), tmp_path / "run")
    monkeypatch.chdir(tmp_path)
    made, place = [], tmp_path / "models" / "run" / "atlas"
    with client_of(tmp_path, "run") as client:
        told = client.get("/api/atlas/build", params={"model": "run"}).json()["lines"]
        assert told["shell"] == "headwater atlas build run --corpus run/corpus --out models/run/atlas"
        ways = (
            lambda: events(client, "run"),
            lambda: exec(told["python"], {}),
            lambda: headwater(*shlex.split(told["shell"])[1:]),
        )
        for way in ways:
            way()
            # But for the manifest, which has the name that the model was given by.
            made.append({name: each for name, each in contents(place).items() if name != "manifest.json"})
            shutil.rmtree(place)
    assert made[0]
    assert made[0] == made[1] == made[2]


@pytest.mark.parametrize(
    ("source", "held_out", "shell"),
    [
        ('{ kind = "files", paths = ["a b.txt", "c.txt"] }', 0.05, "--text 'a b.txt' c.txt"),
        ('{ kind = "standard-library" }', 0.05, "--text standard-library"),
        # No option says how much is held out.
        ('{ kind = "standard-library" }', 0.2, None),
    ],
)
def test_the_text_of_an_atlas_is_the_models_own(folder, tmp_path, source, held_out, shell):
    shutil.copytree(folder / "one" / "model", tmp_path / "mine")
    recipe = re.sub("source = .*", f"source = {source}", tiny_recipe(tmp_path).read_text())
    (tmp_path / "mine" / "recipe.toml").write_text(recipe.replace("held_out = 0.2", f"held_out = {held_out}"))
    with client_of(tmp_path, "mine") as client:
        told = client.get("/api/atlas/build", params={"model": "mine"}).json()["lines"]
    assert told["shell"] == (
        f"headwater atlas build mine {shell} --out models/mine/atlas" if shell else f"python -c {shlex.quote(told['python'])}"
    )


def test_what_cannot_be_built_is_told_and_one_is_built_at_a_time(folder, tmp_path):
    shutil.copytree(folder / "bare", tmp_path / "bare")
    (tmp_path / "models" / "bare" / "atlas").mkdir(parents=True)
    (tmp_path / "models" / "bare" / "atlas" / "letter.txt").write_text("mine")
    with client_of(tmp_path, "bare") as client:
        assert "letter.txt" in events(client, "bare")[-1]["error"]["given"]
        client.app.app.state.memory.building.add("bare")
        answer = client.post("/api/atlas/build", params={"model": "bare"})
        assert answer.status_code == 409
        assert client.post("/api/atlas/build", params={"model": "../bare"}).status_code == 404
