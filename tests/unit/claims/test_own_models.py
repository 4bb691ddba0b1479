"""Claims asked of a model of one's own: what fits is measured, what does not is named, and neither hides the other."""

import json

import pytest
import torch

import headwater as hw
from headwater.claims import given as module
from headwater.claims import registry
from headwater.claims.evidence import found, reported, stated
from headwater.claims.given import LONGEST, Given
from headwater.claims.verdicts import ask, measure
from headwater.errors import InputError
from headwater.text.sources import Files

TEXT = "def add(one, two):\n    return one + two\n\n\nfor line in open(name):\n    print(line, one, two)\n" * 400


@pytest.fixture(scope="module")
def words():
    return hw.load("block").tokenizer


@pytest.fixture
def own(tmp_path, monkeypatch, words):
    """Writes a drawn model, and lets a short text stand for the standard library."""
    for number in range(8):
        (tmp_path / f"text-{number}.py").write_text(f"# {number}\n{TEXT}")
    monkeypatch.setattr(module, "StandardLibrary", lambda: Files(paths=(str(tmp_path / "text-*.py"),)))

    def write(times=1.0, **settings):
        config = hw.ModelConfig(**{"vocab": 2048, "context": 32, "d_model": 16, "layers": 0, **settings})
        weights = Given.drawn(config).weights
        small = weights.changed({name: times * tensor for name, tensor in weights.tensors().items()})
        place = tmp_path / f"model-{len(list(tmp_path.iterdir()))}"
        hw.Model(small.to(dtype=torch.float32), words).save(place)
        return str(place)

    return write


def asked(place, *ids):
    """Verdicts and refusals."""
    refused = []
    with Given(place) as given:
        answers = list(ask(registry.chosen(ids), given, refused=refused))
    assert all(answer.ok for answer in answers), [answer.finding for answer in answers if not answer.ok]
    return [answer.claim.id for answer in answers], {each.claim.id: each.why.given for each in refused}


@pytest.mark.parametrize(
    "settings",
    [
        {},
        {"unembedding": hw.Unembedding(tied=True, bias=True), "positions": hw.LearnedPositions(), "context": 4},
        {"vocab": 2061},
    ],
    ids=["plain", "tied", "more-words"],
)
def test_zero_layers_of_every_kind(own, settings):
    ids = ("001-PC1", "001-E8", "001-QT1")
    assert set(asked(own(**settings), *ids)[0]) == set(ids)


@pytest.mark.parametrize(
    "attention",
    [
        hw.Attention(heads=1, d_head=16, input_bias=True, output_bias=True),
        hw.Attention(heads=4, d_head=4, group_size=2),
        hw.Attention(heads=2, d_head=24, mask="full"),
    ],
    ids=["biases", "grouped", "full"],
)
def test_one_layer_of_every_kind(own, attention):
    place = own(layers=1, attention=attention, context=4)
    answered, refused = asked(place, "000-N1", "000-L1", "000-T1", "000-L5", "000-C2", "000-IN2")
    assert {"000-N1", "000-L1", "000-T1", "000-L5", "000-C2"} <= set(answered)
    assert set(refused) == ({"000-IN2"} if attention.mask == "full" else set())


def test_rounding_of_large_numbers_turns_no_verdict(own):
    place = own(times=30.0, layers=1, attention=hw.Attention(heads=2, d_head=8), context=16)
    ids = ("000-N1", "000-L1", "000-N5", "000-T1", "000-L5")
    assert set(asked(place, *ids)[0]) == set(ids)


def test_more_text_than_a_window_holds_is_read_in_windows(own):
    place = own(layers=2, attention=hw.Attention(heads=2, d_head=8), context=4096)
    assert asked(place, "001-N11", "001-IN1") == (["001-IN1", "001-N11"], {})
    with Given(place) as given:
        assert given.windows("two-layer", 2).shape == (2, LONGEST + 1)


def test_what_comes_out_as_no_number_is_refused_by_name(own):
    place = own(times=0.0, layers=2, attention=hw.Attention(heads=2, d_head=8))
    answered, refused = asked(place, "001-IN1", "001-E1")
    assert answered == ["001-E1"]
    assert "no number" in refused["001-IN1"]
    place = own(times=0.0, layers=1, attention=hw.Attention(heads=2, d_head=8))
    assert set(asked(place, "000-N3", "003-L4")[1]) == {"000-N3", "003-L4"}


def test_blocks_whose_norms_have_learned_nothing(own):
    bare = hw.PreNorm(norm=hw.LayerNorm(gain=False, bias=False))
    place = own(layers=1, attention=hw.Attention(heads=1, d_head=8), feed_forward=hw.FeedForward(d_mlp=8), norm=bare)
    assert asked(place, "004-N11") == (["004-N11"], {})


def test_figures_of_what_a_model_is_not_are_refused(own):
    place = own(layers=1, attention=hw.Attention(heads=2, d_head=8, mask="full", input_bias=True))
    assert asked(place, "000-FIG1", "003-FIG4") == (
        ["003-FIG4"],
        {"000-FIG1": "000-FIG1: heads with biases, or that see the whole text"},
    )
    assert set(asked(own(positions=hw.LearnedPositions()), "001-MER1", "001-E1")[1]) == {"001-MER1"}


def test_a_refusal_is_shown_beside_the_rest(own, headwater):
    place = own(layers=1, attention=hw.Attention(heads=1, d_head=4, mask="full"))
    result = headwater("claims", "000-IN2", "000-E4", "--model", place)
    assert result.returncode == 0, result.stderr
    assert "what cannot be asked of this model" in result.stdout
    assert "a causal mask" in result.stdout
    told = json.loads(headwater("claims", "000-IN2", "000-E4", "--model", place, "--json").stdout)
    assert [claim["id"] for claim in told["claims"]] == ["000-E4"]
    assert [each["id"] for each in told["refused"]] == ["000-IN2"]
    alone = headwater("claims", "000-IN2", "--model", place)
    assert alone.returncode == 2
    assert "000-IN2: heads that see the whole text" in alone.stderr
    with pytest.raises(InputError, match="000-IN2"):
        measure("000-IN2", "000-E4", model=place)


def test_a_model_that_reads_one_token_is_refused(own):
    with pytest.raises(InputError, match="context of 1"):
        Given(own(context=1))


def test_on_the_reference_models_nothing_is_refused(monkeypatch):
    def check(given):
        raise InputError("this", "that", "do")

    monkeypatch.setitem(registry._CHECKS, "000-E4", check)
    with Given() as given, pytest.raises(InputError, match="000-E4: this"):
        list(ask(registry.chosen(["000-E4"]), given, refused=[]))


def test_no_number_on_the_reference_models_is_an_open_verdict(monkeypatch):
    monkeypatch.setitem(
        registry._CHECKS, "000-E4", lambda _: found(stated("a", 0, within=1), reported("b", float("nan"), above=0))
    )
    with Given() as given:
        (answer,) = ask(registry.chosen(["000-E4"]), given, refused=[])
    assert not answer.ok


def test_ids_are_found_in_letters_of_either_case():
    assert registry.chosen(["000-e4", "000-E4"]) == registry.chosen(["000-E4"])


def test_figures_do_not_go_through_a_link_to_nothing(headwater, tmp_path):
    (tmp_path / "link").symlink_to(tmp_path / "gone" / "away")
    result = headwater("claims", "003-FIG8", "--figures", tmp_path / "link")
    assert result.returncode == 2
    assert "a link to nothing" in result.stderr
