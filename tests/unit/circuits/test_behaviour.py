"""Previous-token and induction heads told from weights alone: written by hand, and those of the reference model."""

import json
import math
from dataclasses import replace
from pathlib import Path

import pytest
import torch

import headwater
from headwater.circuits.behaviour import attending, induction
from headwater.circuits.composition import composition
from headwater.errors import ConfigError, InputError
from headwater.model.config import (
    Attention,
    LearnedPositions,
    ModelConfig,
    NoPositions,
    PostNorm,
    PreNorm,
    RMSNorm,
    RotaryPositions,
)
from headwater.model.record import record
from headwater.model.weights import Weights
from headwater.train.studies import induction as measured
from strategies import random_weights

VOCAB, CONTEXT, STRENGTH = 12, 10, 30.0
PLANTED = ModelConfig(
    vocab=VOCAB, context=CONTEXT, d_model=2 * VOCAB + CONTEXT, layers=2,
    attention=Attention(heads=2, d_head=VOCAB, scaled=False), positions=LearnedPositions(into="queries-and-keys"),
)  # fmt: skip


def planted(says=1.0):
    """L0H1 looks at the position before and writes its token to a place of its own; L1H0 looks for its own token there and says
    ``says`` times what it sees. The other two heads do nothing."""
    tensors = {name: torch.zeros_like(tensor) for name, tensor in Weights.draw(PLANTED, seed=0).tensors().items()}
    now, before, marks = slice(0, VOCAB), slice(VOCAB, 2 * VOCAB), slice(2 * VOCAB, None)
    eye, steps = torch.eye(VOCAB), torch.eye(CONTEXT)
    tensors["embed.W_E"][:, now] = eye
    tensors["unembed.W_U"][now] = eye
    tensors["pos_embed.W_pos"][:, marks] = steps
    first = {symbol: tensors[f"blocks.0.attn.{symbol}"][1] for symbol in ("W_Q", "W_K", "W_V", "W_O")}
    first["W_Q"][marks, :CONTEXT] = STRENGTH * steps.roll(-1, dims=1)
    first["W_K"][marks, :CONTEXT] = steps
    first["W_V"][now], first["W_O"][:, before] = eye, eye
    second = {symbol: tensors[f"blocks.1.attn.{symbol}"][0] for symbol in ("W_Q", "W_K", "W_V", "W_O")}
    second["W_Q"][now], second["W_K"][before] = STRENGTH * eye, eye
    second["W_V"][now], second["W_O"][:, now] = eye, says * eye
    return Weights.assemble(PLANTED, tensors)


def test_a_planted_previous_token_head_is_found():
    by_name = {str(one.head): one for one in attending(planted())}
    assert by_name["L0H1"].previous > 0.999
    even = sum(1 / (p + 1) for p in range(1, CONTEXT)) / (CONTEXT - 1)
    for name in ("L0H0", "L1H0", "L1H1"):
        assert by_name[name].previous == pytest.approx(even) == by_name[name].even


def test_a_planted_induction_head_scores_as_computed_by_hand():
    weights = planted()
    found = {str(one.head): one for one in induction(weights)}
    best = found["L1H0"]
    assert str(best.fed_by) == "L0H1"
    # M is STRENGTH times the identity; centred over tokens its diagonal is STRENGTH · (1 − 1/vocab).
    assert best.lead == pytest.approx(best.previous * STRENGTH * (1 - 1 / VOCAB), rel=1e-5)
    assert best.attention == pytest.approx(1 / (1 + (CONTEXT - 1) * math.exp(-best.lead)))
    assert (best.match, best.copying) == (pytest.approx(1), pytest.approx(1))
    assert best.score > 0.999
    assert found["L1H1"].score == 0
    # W_OV^a W_QK^bᵀ is STRENGTH times a partial identity of rank vocab, as each factor is.
    assert composition(weights).between("L0H1", "L1H0.K") == pytest.approx(1 / math.sqrt(VOCAB))
    assert measured.run(weights).best[0] == "L1H0"


def test_a_head_that_finds_repeats_and_speaks_against_them_scores_below_zero():
    best = next(one for one in induction(planted(says=-1.0)) if str(one.head) == "L1H0")
    assert best.copying == pytest.approx(-1)
    assert best.score < -0.999


@pytest.fixture(scope="module")
def two_layer():
    return headwater.load("two-layer")


def test_the_reference_models_induction_heads_are_found_without_text(two_layer):
    weights, config = two_layer.weights, two_layer.weights.config
    found, on_text = induction(weights), measured.run(weights).scores
    ranked = sorted((name for name in on_text if name.startswith("L1")), key=lambda name: -on_text[name])
    assert [str(one.head) for one in found] == ranked == ["L1H1", "L1H2", "L1H0", "L1H3"]
    assert found[0].score > 0.7
    assert found[0].attention == pytest.approx(on_text["L1H1"], abs=0.1)
    assert {str(one.fed_by) for one in found[:3]} == {"L0H2"}
    assert abs(found[3].score) < 1 / config.context
    assert composition(weights).top(1)[0].writer == "L0H2"
    assert composition(weights).top(1)[0].reader == "L1H1.K"


def test_the_head_that_feeds_them_looks_at_the_token_before_on_real_text(two_layer):
    predicted = {str(one.head): one for one in attending(two_layer.weights)}
    text = (Path(headwater.__file__).parent / "model" / "config.py").read_text(encoding="utf-8")
    tokens = torch.cat([two_layer.tokens(text[start : start + 2000])[:, :128] for start in range(0, 8000, 2000)])
    run = record(two_layer.weights, tokens, ["*.pattern"])
    for head in range(4):
        seen = float(run["L0.pattern"][:, head].diagonal(offset=-1, dim1=1, dim2=2).mean())
        assert predicted[f"L0H{head}"].previous == pytest.approx(seen, abs=0.1)
    assert predicted["L0H2"].previous > 0.95


@pytest.mark.parametrize(
    "positions", [NoPositions(), LearnedPositions(), LearnedPositions(into="queries-and-keys"), RotaryPositions(dims=4)]
)
@pytest.mark.parametrize("norm", [PreNorm(), PreNorm(norm=RMSNorm()), PostNorm()])
def test_patterns_are_those_of_the_first_layer_on_mean_tokens(positions, norm):
    attention = Attention(heads=2, d_head=4, input_bias=True)
    config = ModelConfig(vocab=5, context=6, d_model=8, layers=2, attention=attention, norm=norm, positions=positions)
    weights = random_weights(config, seed=0)
    mean = weights.changed({"embed.W_E": weights.W_E.mean(dim=0).expand(5, 8)})
    pattern = record(mean, torch.zeros(1, 6, dtype=torch.long))["L0.pattern"][0]
    for one, seen in zip(attending(weights)[:2], pattern, strict=True):
        assert one.previous == pytest.approx(float(seen.diagonal(offset=-1).mean()))
        assert one.own == pytest.approx(float(seen.diagonal()[1:].mean()))
        assert one.first == pytest.approx(float(seen[1:, 0].mean()))


@pytest.mark.parametrize("norm", [PreNorm(), PreNorm(norm=RMSNorm())])
def test_the_lead_of_a_model_with_norms_is_that_of_the_table_it_stands_for(norm):
    config = ModelConfig(
        vocab=7, context=6, d_model=8, layers=2, attention=Attention(heads=4, d_head=3, group_size=2), norm=norm,
        positions=LearnedPositions(),
    )  # fmt: skip
    weights = random_weights(config, seed=1)
    x = weights.W_E + weights.W_pos.mean(dim=0)
    x = x - x.mean(dim=1, keepdim=True) if norm == PreNorm() else x
    scales = 1 / (x.square().mean(dim=1) + norm.norm.eps).sqrt()
    read = x * scales[:, None]
    one, two = weights.blocks
    for found in induction(weights):
        a, b = found.fed_by.head, found.head.head
        W_OV = one.attention.W_V[a // 2] @ one.attention.W_O[a]
        queries = (read * two.norm_1.gain) @ two.attention.W_Q[b]
        written = (read * one.norm_1.gain) @ W_OV
        written = written - written.mean(dim=1, keepdim=True) if norm == PreNorm() else written
        keys = (written * scales.mean() * two.norm_1.gain) @ two.attention.W_K[b // 2]
        M = queries @ keys.T * config.attention.scale
        assert found.lead == pytest.approx(found.previous * float(M.diagonal().mean() - M.mean()))
        centred = M - M.mean(dim=0) - M.mean(dim=1, keepdim=True) + M.mean()
        values = torch.linalg.eigvals(centred)
        assert found.match == pytest.approx(float(values.sum().real / values.abs().sum()))


def test_answers_are_plain_numbers():
    plain = json.loads(json.dumps([one.plain() for one in (*attending(planted()), *induction(planted()))]))
    assert plain[1]["head"] == "L0H1"
    assert plain[4]["fed_by"] == "L0H1"


def test_one_layer_has_no_induction_heads_and_none_has_none_to_ask():
    assert induction(Weights.draw(replace(PLANTED, layers=1), seed=0)) == ()
    assert attending(Weights.draw(ModelConfig(vocab=5, context=4, d_model=4, layers=0), seed=0)) == ()


def test_models_that_cannot_be_told_are_refused():
    with pytest.raises(ConfigError, match="post-norm"):
        induction(Weights.draw(replace(PLANTED, norm=PostNorm()), seed=0))
    with pytest.raises(InputError, match="one position"):
        attending(Weights.draw(replace(PLANTED, context=1), seed=0))
