"""``heads.json``: plain, complete, the same bytes every time, and no second pass over all entries."""

import json
from dataclasses import replace

import pytest
import torch

import headwater
from headwater.atlas.about_heads import links, pairs_above_chance
from headwater.atlas.settings import Settings
from headwater.atlas.subject import Subject
from headwater.atlas.summary import MOST_LINKS, choices_for, document, summaries
from headwater.circuits.chance import Draws
from headwater.circuits.composition import composition
from headwater.circuits.factored import Factored
from headwater.circuits.head import every_head
from headwater.circuits.overview import Choices, overview
from headwater.circuits.placement import placements
from headwater.circuits.tables import ov
from headwater.errors import InputError
from headwater.files.plain import parse_json
from headwater.model.config import Attention, ModelConfig, PreNorm
from headwater.model.presets import named
from headwater.model.weights import Weights

FEW = Draws(20)
SMALL = ModelConfig(vocab=60, context=16, d_model=16, layers=2, attention=Attention(heads=2, d_head=4))


@pytest.fixture(scope="module")
def weights():
    return headwater.load("two-layer").weights


@pytest.fixture(scope="module")
def found(weights):
    return summaries(weights, Choices(ranks=False, draws=FEW))


def test_every_head_is_told_as_its_overview_and_placement_tell_it(weights, found):
    told, pairs = overview(weights, None, Choices(ranks=False, draws=FEW))
    placed = placements(weights)
    assert [one["head"] for one in found["heads"]] == [str(head) for head in every_head(weights.config)]
    for ours, one, of in zip(found["heads"], told, placed, strict=True):
        assert ours["copying"] == pytest.approx(one.copying.raw.score, abs=1e-9)
        assert ours["verdict"] == one.copying.verdict
        assert [entry["source"] for entry in ours["says"]] == one.says.rows.tolist()
        assert ours["placement"]["positions"] == pytest.approx(of.positions, abs=1e-9)
        assert len(ours["copying_panel"]["centred"]["eigenvalues"]) == weights.config.d_head
        assert len(ours["ov"]["singular_values"]) == weights.config.d_head
    assert found["composition"]["writers"] == list(pairs.writers)
    assert found["draws"] == 20


def test_the_previous_token_head_says_that_positions_explain_it(found):
    by_name = {one["head"]: one for one in found["heads"]}
    assert by_name["L0H2"]["placement"]["positions"] > 0.95
    assert by_name["L0H2"]["attending"]["previous"] > 0.5


def test_the_file_is_plain_and_the_same_bytes_whatever_the_threads(weights, found):
    data = document(found)
    assert parse_json(data, "heads.json") == json.loads(data)
    before = torch.get_num_threads()
    torch.set_num_threads(2)
    try:
        assert document(summaries(weights, Choices(ranks=False, draws=FEW))) == data
        assert torch.get_num_threads() == 2
    finally:
        torch.set_num_threads(before)


def test_ranks_that_are_known_are_used_and_no_pass_is_made(monkeypatch):
    weights = Weights.draw(SMALL, seed=0)
    ranks = {head: ov(weights, head).own_ranks() for head in every_head(weights.config)}
    uniform = torch.full((weights.config.vocab,), 1 / weights.config.vocab, dtype=torch.float64)
    choices = choices_for(Subject(weights, uniform, Settings(others=255)), ranks)
    assert choices.draws == Choices().draws  # or an atlas and `headwater heads` would call one head by two names
    once = overview(weights, None, Choices(draws=FEW))[0]
    monkeypatch.setattr(Factored, "survey", None)
    monkeypatch.setattr(Factored, "own_ranks", None)
    found = summaries(weights, replace(choices, draws=FEW))
    for ours, one in zip(found["heads"], once, strict=True):
        assert ours["copying_panel"]["ranks"]["mean"] == pytest.approx(one.copying.ranks.mean)
        assert ours["copying_panel"]["ranks"]["top_10"] == pytest.approx(one.copying.ranks.top_10)
        assert ours["self_match_panel"]["ranks"] is None


def test_a_model_without_heads_has_an_empty_summary():
    found = summaries(Weights.draw(named("zero-layer"), seed=0), Choices())
    assert found["heads"] == []
    assert parse_json(document(found), "heads.json") == found


def test_what_is_taken_for_granted_is_said():
    weights = Weights.draw(replace(SMALL, norm=PreNorm()), seed=0)
    found = summaries(weights, Choices(ranks=False, draws=FEW))
    assert "a scale of 1 at L1.norm_1" in found["given"]
    with pytest.raises(InputError):
        summaries(weights, Choices(ranks=False, draws=FEW, scales="exact"))


def test_of_very_many_heads_only_the_strongest_links_are_listed(monkeypatch):
    weights = Weights.draw(SMALL, seed=0)
    found = summaries(weights, Choices(ranks=False, draws=FEW))
    assert composition(weights).scores.numel() <= MOST_LINKS
    monkeypatch.setattr("headwater.atlas.summary.MOST_LINKS", 4)
    monkeypatch.setattr("headwater.atlas.summary.STRONGEST", 5)
    few = summaries(weights, Choices(ranks=False, draws=FEW))["composition"]
    assert few["strongest"][0]["score"] == max(score for row in found["composition"]["scores"] for score in row if score)
    heads = SMALL.heads**2 * SMALL.layers * (SMALL.layers - 1) // 2
    assert [few["pairs"][kind]["scored"] for kind in "QKV"] == [heads] * 3
    assert sum(few["pairs"][kind]["kept"] for kind in "QKV") == len(few["strongest"]) == 5
    for kind in ("Q", "K", "V"):
        assert pairs_above_chance({"composition": few}, kind) == len(links(found, kind)) == pairs_above_chance(found, kind)


def test_progress_ends_where_the_work_does():
    shares = []
    summaries(Weights.draw(SMALL, seed=0), Choices(ranks=False, draws=FEW, examples=0), shares.append)
    assert shares == sorted(shares)
    assert shares[-1] == 1
