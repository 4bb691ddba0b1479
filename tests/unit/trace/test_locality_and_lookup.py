"""Which component mixes positions, and attention as a lookup: the documents' cases and counterexamples."""

import json

import pytest
import torch

from headwater.errors import InputError
from headwater.model.config import Attention, FeedForward, LearnedPositions, ModelConfig, PostNorm, PreNorm
from headwater.model.record import record
from headwater.trace.run import Run
from headwater.trace.view.locality import alone, locality
from headwater.trace.view.lookup import head_lookup, lookup
from strategies import random_tokens, random_weights

SIZES = {"vocab": 11, "context": 8, "d_model": 6}


def model(norm, mask="causal"):
    attention, layer = Attention(heads=2, d_head=3, mask=mask), FeedForward(d_mlp=5)
    return random_weights(ModelConfig(**SIZES, layers=2, attention=attention, feed_forward=layer, norm=norm), 0)


@pytest.mark.parametrize("norm", [PreNorm(), PostNorm()])
def test_attention_alone_mixes_positions_and_yet_the_feed_forward_layer_has_context(norm):
    """002-T1 and 004-N2."""
    weights = model(norm)
    found = locality(weights, random_tokens(weights.config, 0, batch=1), 3)
    assert found.mixing == ("L0.attention", "L1.attention")
    by_name = {one.name: one for one in found.components}
    feeding = by_name["L0.feed_forward"]
    assert feeding.alone.own > 0.01
    assert feeding.alone.later == 0.0
    assert feeding.in_run.later > 0.01
    assert feeding.in_run.earlier == 0.0
    assert "only attention" in found.remark()
    assert found._repr_html_().startswith("<div")
    assert json.dumps(found.plain(), allow_nan=False)


def test_without_a_mask_earlier_positions_change_too():
    weights = model(PreNorm(), mask="full")
    found = {one.name: one for one in locality(weights, random_tokens(weights.config, 0, batch=1), 3).components}
    assert found["L0.attention"].alone.earlier > 0.01


def test_a_norm_over_positions_is_found_out():
    """What 002-T1 does not hold for."""
    first, second = torch.randn(2, 1, 5, 4, generator=torch.Generator().manual_seed(0), dtype=torch.float64)

    def over_positions(x):
        return (x - x.mean(dim=1, keepdim=True)) / x.std(dim=1, keepdim=True)

    assert alone(over_positions, first, second, 2).mixes
    assert not alone(torch.sin, first, second, 2).mixes


def test_a_model_without_blocks_moves_nothing():
    """001-PC1, positions or not."""
    config = ModelConfig(**SIZES, layers=0, norm=PreNorm(), positions=LearnedPositions())
    found = locality(random_weights(config, 0), random_tokens(config, 0, batch=1), 3)
    assert found.mixing == ()
    assert all(one.in_run.own > 0 for one in found.components)
    assert {one.in_run.later for one in found.components} == {0.0}
    assert "no component" in found.remark()
    assert all(row[4] == "no" for table in found.tables() for row in table.rows)


@pytest.mark.parametrize("choices", [{"position": 8}, {"instead": 11}, {"instead": -1}], ids=str)
def test_a_token_can_only_be_replaced_by_another_where_there_is_one(choices):
    weights = model(PreNorm())
    with pytest.raises(InputError):
        locality(weights, random_tokens(weights.config, 0, batch=1), **choices)
    tokens = random_tokens(weights.config, 0, batch=1)
    with pytest.raises(InputError, match="instead of"):
        locality(weights, tokens, 0, instead=int(tokens[0, 0]))


def test_ties_give_the_mean_of_their_values():
    """003-L2."""
    found = lookup(torch.tensor([2.0, 2.0, 1.0]), torch.tensor([[1.0], [3.0], [9.0]]), [64.0])
    assert found.weights[0].tolist() == pytest.approx([0.5, 0.5, 0.0])
    assert found.hard.tolist() == [2.0]
    assert found.gap == 1.0
    assert "a tie" in found.tables()[0].title


def test_scores_whose_difference_is_rounding_tie():
    """Two tokens whose embeddings are two units in the last place apart."""
    config = ModelConfig(vocab=9, context=64, d_model=64, layers=1, attention=Attention(heads=4, d_head=16))
    weights = random_weights(config, 0, torch.float32)
    W_E = weights.tensors()["embed.W_E"].clone()
    W_E[1] = W_E[0] * (1 + 2 * torch.finfo(torch.float32).eps)
    run = Run.of(record(weights.changed({"embed.W_E": W_E}), torch.tensor([[0, 1] * 20])))
    assert len(set(run.looks("L0H1", "scores")[-1].tolist())) > 1
    found = head_lookup(run, "L0H1", -1, [1e6])
    assert found.best == tuple(range(40))
    assert found.gap == float("inf")
    assert float(found.distance) == pytest.approx(0, abs=1e-9)
    assert all(run.attend("L0H1", -1, source).competition.rank == 1 for source in (0, 1, 39))
    assert run.attend("L0H1").source == 0


def test_what_differs_by_more_than_rounding_does_not_tie():
    config = ModelConfig(vocab=9, context=8, d_model=8, layers=1, attention=Attention(heads=2, d_head=4))
    run = Run.of(record(random_weights(config, 0, torch.float32), torch.arange(8)[None]))
    scores = run.looks("L0H1", "scores")[-1]
    why = run.attend("L0H1")
    assert 0 < why.competition.tie < 1e-4
    assert why.source == int(scores.argmax())
    assert head_lookup(run, "L0H1").best == (why.source,)
    assert [run.attend("L0H1", -1, at).competition.rank for at in scores.argsort(descending=True).tolist()] == list(range(1, 9))


def test_where_all_tie_nothing_is_missing_and_json_has_no_infinity():
    found = lookup(torch.zeros(3), torch.eye(3))
    assert found.missing.tolist() == found.bound.tolist() == [0.0] * 7
    assert json.loads(json.dumps(found.plain(), allow_nan=False))["gap"] is None
    assert "no lower score" in str(found)
    assert found._repr_html_().startswith("<div")


def test_the_largest_score_is_no_exact_match_where_keys_differ_in_length():
    """003-E15: the query is key 0 itself, and key 1, twice as long, is returned."""
    keys = torch.tensor([[1.0, 0.0], [2.0, 0.0]])
    assert lookup(keys @ keys[0], torch.eye(2)).best == (1,)
    assert lookup(keys / keys.norm(dim=1, keepdim=True) @ keys[0], torch.eye(2)).best == (0, 1)


def test_every_value_counts_in_a_soft_lookup():
    """003-N12."""
    scores = torch.randn(6, generator=torch.Generator().manual_seed(0))
    assert bool((lookup(scores, torch.eye(6), [1.0]).weights > 0).all())


def test_hot_is_the_mean_of_all():
    values = torch.arange(4.0)[:, None]
    assert lookup(torch.tensor([5.0, 1.0, 0.0, 2.0]), values, [0.0]).soft.tolist() == [[1.5]]


def test_a_head_sees_only_what_its_mask_allows_and_calls_it_by_name():
    weights = model(PreNorm())
    run = record(weights, random_tokens(weights.config, 0, batch=1))
    found = head_lookup(run, "L1H1", 2, sources=list("abcdefgh"))
    assert found.sources == ("a", "b", "c")
    assert found.label == "L1H1 at position 2"
    assert len(found.curves()[0].lines) == 2


@pytest.mark.parametrize("betas", [[], [-1.0], [float("inf")], [float("nan")]], ids=str)
def test_a_temperature_is_a_number(betas):
    with pytest.raises(InputError):
        lookup(torch.zeros(2), torch.eye(2), betas)


@pytest.mark.parametrize("scores", [torch.zeros(3), torch.zeros(0), torch.tensor([0.0, -torch.inf])], ids=str)
def test_every_value_needs_a_score(scores):
    with pytest.raises(InputError):
        lookup(scores, torch.eye(2))
