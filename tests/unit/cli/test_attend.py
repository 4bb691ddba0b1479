"""``headwater attend`` as a person runs it: the competition, the table, both sides, JSON, pictures, and what it refuses."""

import json
import math
import re

import pytest

import headwater as hw

REPEATED = "one red two blue three green one red two blue three"


def asked(headwater, *arguments):
    told = headwater("attend", *arguments)
    assert told.returncode == 0, told.stderr
    return told.stdout


def document(headwater, *arguments):
    return json.loads(asked(headwater, *arguments, "--json"))


def test_the_induction_head_is_told_from_the_competition_to_the_tokens(headwater):
    told = asked(headwater, "two-layer", REPEATED, "--head", "L1H1")
    lines = told.splitlines()
    assert lines[0].startswith("L1H1 at ‘ree’@20 looks at ‘ g’@9 with 45.0% of its attention")
    assert "21 sources, as if 3.3 shared it evenly" in told
    assert re.search(r"‘ g’@9 ← .*0\.4498", told)
    assert re.search(r"15 others together .*0\.0197", told)
    assert re.search(r"^embedding +\+5\.292", told, re.MULTILINE), "the query's embedding meets what L0H2 wrote for the key"
    query, key = told.split("what made the key")
    assert "position 20" in query.split("what made the query")[1]
    assert re.search(r"├─ L0H2.*\+6\.16\n│  ├─ ‘ree’@8.*\+6\.17  attention 1\.00", key)
    assert "certificate" in lines[-1]
    assert max(map(len, lines)) <= 100


def test_json_adds_up_and_says_what_the_library_says(headwater):
    told = document(headwater, "two-layer", REPEATED, "--head", "L1H1", "--most", 3, "--depth", 2)
    why = hw.load("two-layer").record(REPEATED).attend("L1H1")
    assert (told["head"], told["dest"], told["source"], told["source_token"]) == ("L1H1", 20, 9, " g")
    assert told["score"] == why.score
    assert told["attention"] == why.attention
    assert told["certificate"] < 1e-4
    assert math.fsum(part["value"] for part in told["parts"]) == pytest.approx(told["score"], abs=1e-5)
    assert {"label", "query", "key", "value"} == set(told["parts"][0])
    for side in (told["query"], told["key"]):
        assert math.fsum(part["value"] for part in side["parts"]) == pytest.approx(told["score"], abs=1e-5)
        for part in side["parts"]:
            inner = part.get("parts")
            assert inner is None or math.fsum(each["value"] for each in inner) == pytest.approx(part["value"], abs=1e-5)
    sources = told["competition"]["sources"]
    assert len(sources) == 21
    assert math.fsum(each["attention"] for each in sources) == pytest.approx(1, abs=1e-5)


def test_positions_may_count_from_the_end_and_a_difference_is_told(headwater):
    told = document(
        headwater, "block", "def main(self):\n    return self", "--head", "L1H0", "--dest", -2, "--source", -3, "--against", 0
    )
    odds = {each["position"]: each["log_odds"] for each in told["competition"]["sources"]}
    assert told["dest"] - told["source"] == 1
    assert told["value"] == pytest.approx(odds[0], abs=1e-5)
    assert math.fsum(part["value"] for part in told["parts"]) == pytest.approx(told["value"], abs=1e-4)


def test_ids_will_do_and_the_strongest_competitor_is_named(headwater):
    told = headwater("attend", "one-layer", "--ids", "5,6,7,8", "--head", "L0H3", "--source", 1)
    assert told.returncode == 0
    sources = hw.load("one-layer").record([5, 6, 7, 8]).attend("L0H3", -1, 1).competition.plain()["sources"]
    best = max((each for each in sources if each["position"] != 1), key=lambda each: each["score"])
    assert f"--dest 3 --source 1 --against {best['position']}" in told.stderr


def test_pages_and_drawings_are_written(headwater, tmp_path):
    page, drawn = tmp_path / "why.html", tmp_path / "why.svg"
    asked(headwater, "two-layer", REPEATED, "--head", "L1H1", "--html", page, "--svg", drawn)
    text = page.read_text()
    for said in ("who gets its attention", "part of the query", "what made the key", "certificate"):
        assert said in text
    assert "key of L1H1 at" in drawn.read_text()


@pytest.mark.parametrize(
    ("arguments", "said"),
    [
        (["--head", "L9H0"], "L9H0"),
        (["--head", "seven"], "seven"),
        (["--head", "L1H1", "--dest", "99"], "position 99"),
        (["--head", "L1H1", "--dest", "2", "--source", "4"], "position 4 as a source of position 2"),
        (["--head", "L1H1", "--source", "3", "--against", "3"], "against itself"),
        (["--head", "L1H1", "--depth", "0"], "--depth 0"),
        (["--head", "L1H1", "--html", "why.txt"], "why.txt"),
    ],
)
def test_what_cannot_be_asked_is_refused_in_words(headwater, arguments, said):
    told = headwater("attend", "two-layer", REPEATED, *arguments)
    assert told.returncode == 2
    assert said in told.stderr
    assert not told.stdout


def test_a_value_prints_itself_and_shows_itself_in_a_notebook():
    run = hw.load("two-layer").record(REPEATED)
    why = run.attend("L1H1")
    assert str(why).startswith("L1H1 at ‘ree’@20 looks at ‘ g’@9")
    assert "<table" in why._repr_html_()
    assert why.given_key("L0H2").parts[0].kind == "embedding"
    assert why.key.walk().parts[0].label.endswith("‘ree’@8 → L0H2 → key of L1H1")
    crossed = why.tree(2).root
    assert math.fsum(each.value for each in crossed.branches) == pytest.approx(why.score, abs=1e-5)
