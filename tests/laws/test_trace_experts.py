"""Bigrams and skip-trigrams add up to the logits of a one-layer model, and multiply to its probabilities."""

import math

import pytest
import torch
from hypothesis import given
from hypothesis import strategies as st

from headwater.circuits.tables import direct, ov
from headwater.errors import InputError
from headwater.model.config import Attention, ModelConfig, NoNorm
from headwater.model.record import record
from headwater.model.weights import Weights
from headwater.trace.experts import are_experts, experts
from headwater.trace.question import about_logit
from headwater.trace.sweep import sweep
from strategies import models

numbers = st.integers(0, 100)
one_layer = models(layers=st.just(1)).filter(lambda member: member.config.feed_forward is None)


@given(one_layer, numbers, numbers)
def test_terms_add_up_to_the_logit_and_experts_multiply_to_the_probability(member, at, which):
    weights, tokens = member
    run = record(weights, tokens[:1])
    position, token = at % tokens.shape[1], which % weights.config.vocab
    found, logits = experts(run, position, token), run.logits[0, position]
    total = found.bigram + found.positions + found.biases + sum(source.value for source in found.sources)
    assert total == pytest.approx(float(logits[token]), rel=1e-9, abs=1e-9)
    assert found.logit == pytest.approx(float(logits[token]), rel=1e-12, abs=1e-12)
    assert found.p == pytest.approx(float(logits.softmax(dim=-1)[token]), rel=1e-12)
    assert found.certificate <= 1e-9 * max(1.0, float(logits.abs().max()))
    assert found.product_certificate <= 1e-12
    assert found.softmaxed == pytest.approx(1 + len(found.sources))


@given(one_layer, numbers, numbers)
def test_terms_are_what_a_sweep_upstream_finds(member, at, which):
    weights, tokens = member
    run = record(weights, tokens[:1])
    position, token = at % tokens.shape[1], which % weights.config.vocab
    found, swept = experts(run, position, token), sweep(run, about_logit(run, position, token))
    # The sweep has the direct path and the skip-trigram of the token itself in one.
    by_token = [0.0] * tokens.shape[1]
    for source in found.sources:
        by_token[source.position] += source.value
    by_token[position] += found.bigram
    assert by_token == pytest.approx(swept.tokens().tolist(), rel=1e-9, abs=1e-9)
    biases = sum(float(value) for value in swept.biases().values())
    assert found.biases == pytest.approx(biases, rel=1e-9, abs=1e-9)
    placed = swept.positions()
    assert found.positions == pytest.approx(0.0 if placed is None else float(placed.sum()), rel=1e-9, abs=1e-9)


@given(
    models(layers=st.just(1), norm=st.just(NoNorm())).filter(lambda member: member.config.feed_forward is None),
    numbers,
    numbers,
)
def test_without_norms_terms_are_entries_of_the_tables(member, at, which):
    weights, tokens = member
    run = record(weights, tokens[:1])
    position, token = at % tokens.shape[1], which % weights.config.vocab
    found, text = experts(run, position, token), tokens[0].tolist()
    tables = [ov(weights, (0, head)).dense() for head in range(weights.config.heads)]
    assert found.bigram == pytest.approx(float(direct(weights).dense()[text[position], token]), abs=1e-9)
    for source in found.sources:
        looks = run["L0.pattern"][0, :, position, source.position]
        value = sum(float(look * table[text[source.position], token]) for look, table in zip(looks, tables, strict=True))
        assert source.value == pytest.approx(value, abs=1e-9)


@given(one_layer, numbers)
def test_probabilities_of_some_experts_are_those_of_their_logits_alone(member, at):
    weights, tokens = member
    run, position = record(weights, tokens[:1]), at % tokens.shape[1]
    every = [experts(run, position, token) for token in range(weights.config.vocab)]
    base = [each.bigram + each.positions + each.biases for each in every]
    token = at % weights.config.vocab
    found = every[token]

    def p(*places):
        logits = [base[c] + sum(each.sources[place].value for place in places) for c, each in enumerate(every)]
        return math.exp(logits[token] - max(logits)) / sum(math.exp(logit - max(logits)) for logit in logits)

    assert found.p_bigram == pytest.approx(p(), abs=1e-12)
    alone = [p(source.position) for source in found.sources]
    assert [source.p for source in found.sources] == pytest.approx(alone, abs=1e-12)
    assert found.added == pytest.approx(p() + sum(each - p() for each in alone), abs=1e-12)
    for pair in found.pairs:
        assert pair.p == pytest.approx(p(pair.first, pair.second), abs=1e-12)
        defect = p(pair.first, pair.second) - p(pair.first) - p(pair.second) + p()
        assert pair.defect == pytest.approx(defect, abs=1e-12)
    if len(found.sources) > 1:
        first, second = found.strongest[:2]
        assert {abs(first.value), abs(second.value)} == {
            abs(found.sources[place].value) for place in (found.pairs[0].first, found.pairs[0].second)
        }


@given(models())
def test_other_models_are_no_skip_trigrams_and_are_refused(member):
    weights, tokens = member
    run = record(weights, tokens)
    with pytest.raises(InputError, match="texts"):
        experts(run)
    if not are_experts(weights.config):
        with pytest.raises(InputError, match="one layer of heads"):
            experts(record(weights, tokens[:1]))


def test_a_position_or_token_that_is_not_there_is_refused():
    config = ModelConfig(vocab=5, context=4, d_model=3, layers=1, attention=Attention(heads=1, d_head=2))
    run = record(Weights.draw(config, seed=0), torch.tensor([[1, 2, 3]]))
    for position, token in [(3, 0), (-4, 0), (0, 5)]:
        with pytest.raises(InputError):
            experts(run, position, token)
