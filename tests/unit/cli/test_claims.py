"""``headwater claims``, as a person uses it."""

import json

import pytest
import torch

import headwater as hw
from headwater.claims import registry
from headwater.claims.claim import Claim, Words
from headwater.claims.evidence import corrected, found, stated

QUICK = "000-E4"
"""A claim whose check takes no trained model and no text."""


def test_a_claim_is_shown_in_full_with_the_code_of_its_check(headwater):
    result = headwater("claims", QUICK)
    assert result.returncode == 0, result.stderr
    claim = registry.all_claims()[QUICK]
    for text in (
        claim.en.statement,
        claim.en.why,
        claim.en.correction,
        claim.formula,
        registry.code_of(QUICK),
        "false as stated",
    ):
        assert text in result.stdout


def test_in_portuguese_too(headwater):
    result = headwater("claims", QUICK, "--lang", "pt")
    claim = registry.all_claims()[QUICK]
    assert result.returncode == 0, result.stderr
    assert claim.pt.statement in result.stdout
    assert claim.en.statement not in result.stdout
    assert "falsa como enunciada" in result.stdout


def test_json_has_the_shape_that_programs_rely_on(headwater):
    result = headwater("claims", QUICK, "001-E1", "--json")
    told = json.loads(result.stdout)
    assert [claim["id"] for claim in told["claims"]] == [QUICK, "001-E1"]
    for claim in told["claims"]:
        assert {"id", "verdict", "measured", "ok", "statement", "formula", "why", "facts", "related"} <= set(claim)
        assert claim["ok"] is True
        assert isinstance(claim["measured"], float)
    assert told["ok"] is True
    assert told["claims"][0]["verdict"] == "false"


def test_a_table_counts_verdicts_beside_the_ledgers(headwater, monkeypatch):
    few = {id_: registry.all_claims()[id_] for id_ in (QUICK, "001-E1")}
    monkeypatch.setattr(registry, "all_claims", lambda: few)
    result = headwater("claims")
    assert result.returncode == 0, result.stderr
    assert "found / in the ledger" in result.stdout
    assert "2 / 2" in result.stdout


def passes(given):
    return found(stated("shapes", 0, equal=0))


def settles_nothing(given):
    return found(stated("shapes", 1, equal=0), corrected("right", float("nan"), within=1))


def test_a_verdict_that_is_not_the_recorded_one_ends_with_1(headwater, monkeypatch):
    monkeypatch.setitem(registry._CHECKS, QUICK, passes)
    result = headwater("claims", QUICK)
    assert result.returncode == 1
    assert "verdict: holds" in result.stdout
    monkeypatch.setitem(registry._CHECKS, QUICK, settles_nothing)
    result = headwater("claims", QUICK, "--json")
    assert result.returncode == 1
    told = json.loads(result.stdout)
    assert told["claims"][0]["verdict"] == "unsettled"
    assert told["claims"][0]["facts"][1]["measured"] is None


@pytest.mark.parametrize(
    ("arguments", "said"),
    [
        (["000-L99"], "no claim is called 000-L99"),
        (["--document", "7"], "document 7"),
        (["--verdict", "maybe"], "verdict maybe"),
        (["--lang", "fr"], "--lang"),
        ([QUICK, "--document", "001"], "no claim that is all of these"),
        ([QUICK, "--figures", "there"], "no figure among these claims"),
        (["--model", "nowhere"], "nowhere"),
    ],
)
def test_bad_input_is_told_in_words(headwater, arguments, said, tmp_path, monkeypatch):
    monkeypatch.chdir(tmp_path)
    result = headwater("claims", *arguments)
    assert result.returncode == 2
    assert said in result.stderr
    assert not (tmp_path / "there").exists()


def test_a_figure_is_written_in_both_themes(headwater, tmp_path):
    result = headwater("claims", "001-MER1", "--figures", tmp_path / "figures", "--lang", "pt")
    assert result.returncode == 0, result.stderr
    files = {file.name: file.read_bytes() for file in (tmp_path / "figures").iterdir()}
    assert set(files) == {"001-MER1.pt.light.svg", "001-MER1.pt.dark.svg"}
    assert all(b"<svg" in data[:1000] for data in files.values())
    assert files["001-MER1.pt.light.svg"] != files["001-MER1.pt.dark.svg"]


def test_a_model_of_ones_own_takes_the_place_of_the_reference(headwater, tmp_path):
    ours = hw.load("one-layer")
    doubled = ours.weights.changed({"blocks.0.attn.W_O": 2 * ours.weights.blocks[0].attention.W_O})
    hw.Model(doubled, ours.tokenizer).save(tmp_path / "mine")
    theirs = json.loads(headwater("claims", "000-N3", "--json").stdout)["claims"][0]
    mine = json.loads(headwater("claims", "000-N3", "--model", tmp_path / "mine", "--json").stdout)["claims"][0]
    assert (theirs["on"], mine["on"]) == ("one-layer", str(tmp_path / "mine"))
    assert theirs["verdict"] == mine["verdict"] == "false"
    # ‖W² − W‖ / ‖W‖ is not that of a head half as strong.
    assert theirs["measured"] != pytest.approx(mine["measured"], rel=0.1)


def test_a_model_of_no_family_is_refused(headwater, tmp_path):
    config = hw.ModelConfig(
        vocab=64, context=8, d_model=8, layers=1, attention=hw.Attention(heads=2, d_head=4), norm=hw.PreNorm()
    )
    hw.Model(hw.Weights.draw(config, seed=0)).save(tmp_path / "odd")
    result = headwater("claims", "000-L1", "--model", tmp_path / "odd")
    assert result.returncode == 2
    assert "no family" in result.stderr


def test_the_same_claim_gives_the_same_numbers_twice(headwater):
    torch.manual_seed(1)
    first = headwater("claims", QUICK, "--json").stdout
    torch.manual_seed(2)
    assert headwater("claims", QUICK, "--json").stdout == first


def test_words_are_looked_up_by_language():
    words = Words(place="p", statement="s", why="w")
    claim = Claim(id="000-X1", line=1, kind="claim", ledger="holds", verdict="holds", en=words, pt=words)
    assert claim.words("pt") is words
    assert claim.document == "000"
