"""Heads written by hand that copy, do the opposite, or neither: found, and scored as computed by hand."""

import json
import math

import pytest
import torch

from headwater.circuits.chance import Draws
from headwater.circuits.copying import SELF_MATCH, Known, copying, tally
from headwater.circuits.factored import Factored
from headwater.circuits.head import Head
from headwater.circuits.overview import Choices, overview
from headwater.circuits.panels import copying_joined
from headwater.errors import InputError
from headwater.model.config import Attention, LayerNorm, ModelConfig, PreNorm
from headwater.model.weights import Weights

VOCAB, D_HEAD = 24, 8
DRAWS = Draws(100)
EYE = torch.eye(VOCAB, dtype=torch.float64)


def planted(*heads, queries=None, keys=None):
    """A model whose tokens are the axes of its stream; each head is given by where it reads and what it writes."""
    attention = Attention(heads=len(heads), d_head=D_HEAD, scaled=False)
    config = ModelConfig(vocab=VOCAB, context=8, d_model=VOCAB, layers=1, attention=attention)
    weights = Weights.draw(config, seed=0, dtype=torch.float64)
    changed = {
        "embed.W_E": EYE,
        "unembed.W_U": EYE,
        "blocks.0.attn.W_V": torch.stack([reads for reads, _ in heads]),
        "blocks.0.attn.W_O": torch.stack([writes for _, writes in heads]),
    }
    if queries is not None:
        changed |= {"blocks.0.attn.W_Q": queries[None], "blocks.0.attn.W_K": keys[None]}
    return weights.changed(changed)


def looked_at(weights, **choices):
    """All heads of a model, by their names."""
    return {one.head: one for one in overview(weights, choices=Choices(examples=0, draws=DRAWS, **choices))[0]}


def copying_of(weights, **choices):
    return {head: one.copying for head, one in looked_at(weights, **choices).items()}


def reads(first=0):
    return EYE[:, first : first + D_HEAD]


def writes(first=0):
    return EYE[first : first + D_HEAD]


COPIES, REVERSES, MOVES = (reads(), writes()), (reads(), -writes()), (reads(), writes(D_HEAD))


def test_a_copying_head_an_anti_copying_head_and_neither_are_told_apart():
    panels = list(copying_of(planted(COPIES, REVERSES, MOVES)).values())
    assert [panel.verdict for panel in panels] == ["copying", "anti-copying", "neither"]
    assert [panel.name for panel in panels] == ["L0H0 OV", "L0H1 OV", "L0H2 OV"]
    assert tally(panels)["verdict"] == tally(panels)["trace"] == {"copying": 1, "anti-copying": 1, "neither": 1}


@pytest.mark.parametrize("sign", [1, -1])
def test_a_planted_head_is_scored_as_computed_by_hand(sign):
    """The table is ± the projection on tokens 0 … 7."""
    panel = copying_of(planted((reads(), sign * writes())))[Head(0, 0)]
    assert sorted(value.real for value in panel.raw.eigenvalues) == pytest.approx([sign] * D_HEAD)
    assert panel.raw.score == pytest.approx(sign)
    assert panel.raw.positive == (sign > 0)
    assert panel.raw.trace == pytest.approx(sign * D_HEAD)
    assert panel.raw.norm == pytest.approx(math.sqrt(D_HEAD))
    # ‖M‖_F / √V = √8 / √24, in the tokens as in the stream, which are one here.
    assert panel.raw.tokens.radius == pytest.approx(math.sqrt(1 / 3))
    assert panel.raw.z == panel.raw.z_stream == pytest.approx(sign * D_HEAD * math.sqrt(3))
    # Taking out each row's mean leaves seven eigenvalues and takes the eighth from 1 to 1 − 8/24.
    assert panel.centred.trace == pytest.approx(sign * (7 + 2 / 3))
    assert panel.centred.score == pytest.approx(sign)
    assert panel.diagonal == (D_HEAD / VOCAB if sign > 0 else 0)
    # Rows of zeros stand at their own means, and count half.
    assert panel.diagonal_centred == pytest.approx((D_HEAD if sign > 0 else 0) / VOCAB + (VOCAB - D_HEAD) / VOCAB / 2)


def test_ranks_are_counted_as_by_hand():
    """Of the copying head, tokens 0 … 7 stand first in their rows; all other rows are zero, where token i stands behind i others."""
    frequencies = torch.zeros(VOCAB)
    frequencies[3], frequencies[20] = 3, 1
    panel = copying_of(planted(COPIES), frequencies=frequencies)[Head(0, 0)]
    assert panel.ranks.top_1 == pytest.approx(8 / VOCAB)
    assert panel.ranks.top_5 == pytest.approx(8 / VOCAB)
    assert panel.ranks.top_10 == pytest.approx(10 / VOCAB)
    assert panel.ranks.last_10 == pytest.approx(10 / VOCAB)
    assert panel.ranks.mean == pytest.approx(sum(range(8, VOCAB)) / VOCAB)
    by_frequency = panel.ranks_by_frequency
    assert (by_frequency.top_1, by_frequency.top_10, by_frequency.mean) == (0.75, 0.75, pytest.approx(5))
    assert panel.votes["most in top 10"] == "neither"
    assert panel.votes["most in top 10, by frequency"] == "copying"
    assert "most in top 10 says neither" in panel.disagreements


def test_a_score_that_one_tiny_eigenvalue_makes_is_no_verdict():
    """Token i moves to i + 8: all eigenvalues are 0 but the one that centring leaves, −8/24, and that one is well within chance."""
    panel = copying_of(planted(MOVES))[Head(0, 0)]
    assert panel.centred.trace == pytest.approx(-1 / 3)
    assert panel.centred.score == pytest.approx(-1)
    assert (panel.votes["score"], panel.votes["trace"], panel.verdict) == ("anti-copying", "neither", "neither")
    assert "score says anti-copying" in panel.disagreements


def test_a_rotation_is_scored_by_its_cosine_not_by_its_size():
    """All |λ| are 1; the score is cos θ. Beyond a quarter turn a head takes away from what it looks at."""
    for theta, verdict in ((0.5, "copying"), (2.5, "anti-copying"), (math.pi / 2, "neither")):
        turn = torch.tensor([[math.cos(theta), math.sin(theta)], [-math.sin(theta), math.cos(theta)]], dtype=torch.float64)
        panel = copying_of(planted((reads(), torch.block_diag(*[turn] * 4) @ writes())))[Head(0, 0)]
        assert [abs(value) for value in panel.raw.eigenvalues] == pytest.approx([1] * 8)
        assert panel.raw.score == pytest.approx(math.cos(theta))
        assert panel.verdict == verdict


def test_two_heads_that_copy_half_of_the_tokens_each_copy_them_all_together():
    weights = planted(COPIES, (reads(D_HEAD), writes(D_HEAD)), REVERSES)
    joined = copying_joined(weights, ["L0H0", "L0H1"], draws=DRAWS)
    assert joined.name == "L0H0 + L0H1"
    assert joined.raw.trace == pytest.approx(16)
    assert joined.ranks.top_1 == pytest.approx(16 / VOCAB)
    assert (joined.verdict, joined.votes["most in top 10"]) == ("copying", "copying")
    cancelled = copying_joined(weights, ["L0H0", "L0H2"], draws=DRAWS)
    assert cancelled.raw.trace == pytest.approx(0, abs=1e-12)
    assert cancelled.raw.norm == pytest.approx(0, abs=1e-12)
    assert cancelled.verdict == "neither"


def test_a_constant_on_every_logit_turns_the_raw_score_round_and_leaves_the_verdict():
    """``W_U + c 1ᵀ`` adds one number to all logits, which no softmax sees."""
    weights = planted(COPIES)
    c = torch.zeros(VOCAB, 1, dtype=torch.float64)
    c[:D_HEAD] = -3
    shifted = weights.changed({"unembed.W_U": weights.W_U + c})
    before, after = (copying_of(each)[Head(0, 0)] for each in (weights, shifted))
    assert before.raw.score == pytest.approx(1)
    assert after.raw.score < -0.5
    assert after.centred.score == pytest.approx(before.centred.score)
    assert after.ranks == before.ranks
    assert after.diagonal_centred == before.diagonal_centred
    assert after.diagonal < before.diagonal
    assert after.verdict == "copying"
    assert after.votes["raw score"] != "copying"
    assert f"raw score says {after.votes['raw score']}" in after.disagreements


def test_a_head_that_looks_for_equal_tokens_is_found_and_one_that_avoids_them():
    for sign, word in ((1, "self-matching"), (-1, "self-avoiding")):
        weights = planted(COPIES, queries=sign * reads(), keys=reads())
        panel = looked_at(weights)[Head(0, 0)].self_match
        assert panel.verdict == word
        assert panel.raw.trace == pytest.approx(sign * D_HEAD)
        assert panel.words == SELF_MATCH


def test_chance_alone_gives_a_verdict_as_rarely_as_it_should():
    """Random heads between tied embeddings: beyond 5 % and 95 % about one in ten, though nearly all are beyond for tokens alone."""
    generator = torch.Generator().manual_seed(0)
    W_E = torch.randn(60, 12, generator=generator, dtype=torch.float64)
    config = ModelConfig(vocab=60, context=8, d_model=12, layers=1, attention=Attention(heads=60, d_head=4))
    weights = Weights.draw(config, seed=1, dtype=torch.float64).changed({"embed.W_E": W_E, "unembed.W_U": W_E.T.contiguous()})
    panels = copying_of(weights).values()
    verdicts = [panel.verdict for panel in panels]
    assert 0.75 < verdicts.count("neither") / 60 < 0.99
    beyond_tokens = sum(abs(panel.centred.z) > 1.645 for panel in panels)
    assert beyond_tokens > 20


@pytest.mark.parametrize(("sign", "word"), [(1, "copying"), (-1, "anti-copying")])
def test_all_definitions_agree_on_a_table_that_does_nothing_else(sign, word):
    panel = copying(Factored(sign * EYE, EYE), frequencies=torch.arange(1.0, VOCAB + 1), draws=DRAWS)
    assert set(panel.votes.values()) == {panel.verdict} == {word}
    assert len(panel.votes) == 8
    assert panel.disagreements == ()


def test_what_is_known_already_is_not_computed_again():
    circuit = Factored(reads(), writes())
    ranks = torch.full((VOCAB,), 3)
    assert copying(circuit, known=Known(own_ranks=ranks), draws=DRAWS).ranks.top_5 == pytest.approx(1)
    alone = copying(circuit, "by itself", draws=DRAWS)
    assert (alone.name, alone.raw.stream, alone.raw.z_stream) == ("by itself", None, None)


def test_a_panel_is_plain_json_and_says_what_it_was_given():
    config = ModelConfig(
        vocab=12, context=4, d_model=6, layers=2, attention=Attention(heads=2, d_head=3), norm=PreNorm(norm=LayerNorm())
    )
    weights = Weights.draw(config, seed=0)
    panel = copying_joined(weights, ["L0H1", "L1H0"], draws=Draws(20))
    plain = json.loads(json.dumps(panel.plain()))
    assert plain["name"] == "L0H1 + L1H0"
    assert plain["verdict"] == panel.verdict
    assert len(plain["raw"]["eigenvalues"]) == 6
    assert plain["raw"]["eigenvalues"][0] == [panel.raw.eigenvalues[0].real, panel.raw.eigenvalues[0].imag]
    assert "a scale of 1 at L1.norm_1" in panel.given
    with pytest.raises(InputError):
        copying_joined(weights, ["L7H0"], draws=Draws(20))
