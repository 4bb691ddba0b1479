"""Where heads look: patterns weighted by what they carry, all heads in a few numbers, and what rounding may come to in a score."""

import math
from statistics import mean

import pytest
import torch
from hypothesis import given
from hypothesis import strategies as st

from headwater.errors import InputError
from headwater.model.config import Attention, FeedForward, ModelConfig, PostNorm, SinusoidalPositions, Unembedding
from headwater.model.record import record
from headwater.trace import looks as module
from headwater.trace.run import Run
from strategies import models, random_tokens, random_weights

numbers = st.integers(0, 100)
deep = models(layers=st.integers(1, 3))


def asked(member, which):
    weights, tokens = member
    run, config = Run.of(record(weights, tokens[:1])), weights.config
    return run, which % config.layers, which % config.heads


@given(deep, numbers)
def test_loops_over_sources_give_the_same_weighted_pattern(member, which):
    run, layer, head = asked(member, which)
    attention, W_O = run.weights.blocks[layer].attention, run.weights.blocks[layer].attention.W_O[head]
    values, pattern = run[f"L{layer}.values"][0, head // run.config.attention.group_size], run[f"L{layer}.pattern"][0, head]
    found = run.looks((layer, head), "weighted")
    for source in range(len(values)):
        written = [
            sum(float(values[source, e] * W_O[e, out]) for e in range(W_O.shape[0])) for out in range(run.config.d_model)
        ]
        length = math.sqrt(sum(entry**2 for entry in written))
        for dest in range(len(values)):
            assert float(found[dest, source]) == pytest.approx(float(pattern[dest, source]) * length, rel=1e-9, abs=1e-12)
    wrote = run[f"L{layer}.mixed"][0, head] @ W_O
    assert bool((found.sum(dim=1) >= wrote.norm(dim=-1) - 1e-9).all()), "a sum of lengths is no shorter than the sum"
    assert attention.W_O.shape[0] == run.config.heads


@given(deep, numbers)
def test_one_heads_pattern_and_scores_are_the_models_own(member, which):
    run, layer, head = asked(member, which)
    assert torch.allclose(run.looks((layer, head)), run[f"L{layer}.pattern"][0, head], atol=1e-12)
    own, found = run[f"L{layer}.scores"][0, head], run.looks((layer, head), "scores")
    assert torch.equal(own.isinf(), found.isinf())
    assert torch.allclose(own.nan_to_num(neginf=0.0), found.nan_to_num(neginf=0.0), atol=1e-10)


@given(deep, st.integers(1, 5), st.integers(1, 40))
def test_loops_over_destinations_give_the_same_survey_however_it_is_cut(member, side, room):
    weights, tokens = member
    run, length, heard = Run.of(record(weights, tokens[:1])), tokens.shape[1], []
    whole = module.AT_ONCE
    module.AT_ONCE = room
    try:
        found = module.survey(run.frozen, side, lambda: heard.append(1))
    finally:
        module.AT_ONCE = whole
    assert len(heard) >= run.config.layers
    for number, told in enumerate(found.heads):
        pattern = run[f"L{told.head.layer}.pattern"][0, told.head.head].double()
        assert str(told.head) == f"L{number // run.config.heads}H{number % run.config.heads}"
        assert told.longest == pytest.approx(float(run.looks(told.head, "weighted").max()), abs=1e-12)
        if length < 2:
            assert {told.previous, told.own, told.first, told.entropy, told.even} == {None}
            continue
        rows = [(dest, pattern[dest].tolist()) for dest in range(1, length)]
        causal = run.config.attention.mask == "causal"
        assert told.previous == pytest.approx(mean([row[dest - 1] for dest, row in rows]), abs=1e-12)
        assert told.own == pytest.approx(mean([row[dest] for dest, row in rows]), abs=1e-12)
        assert told.first == pytest.approx(mean([row[0] for _, row in rows]), abs=1e-12)
        assert told.entropy == pytest.approx(mean([-sum(p * math.log(p) for p in row if p > 0) for _, row in rows]), abs=1e-9)
        assert told.even == pytest.approx(mean([1 / (dest + 1 if causal else length) for dest, _ in rows]), abs=1e-12)


@given(deep, st.integers(1, 5))
def test_no_small_picture_hides_a_cell(member, side):
    weights, tokens = member
    run, length = Run.of(record(weights, tokens[:1])), tokens.shape[1]
    found, small = module.survey(run.frozen, side), min(side, length)
    for number, told in enumerate(found.heads):
        for picture, view in ((found.pattern, "pattern"), (found.weighted, "weighted")):
            cells = run.looks(told.head, view)
            assert picture.shape == (len(found.heads), small, small)
            assert torch.allclose(picture[number].max(), cells.max(), atol=1e-12)
            for dest in range(small):
                for source in range(small):
                    field = cells[
                        dest * length // small : -(-(dest + 1) * length // small),
                        source * length // small : -(-(source + 1) * length // small),
                    ]
                    assert float(picture[number, dest, source]) == pytest.approx(float(field.max()), abs=1e-12)


@given(models(layers=st.just(0)))
def test_without_layers_there_is_nothing_to_look_at(member):
    weights, tokens = member
    run = Run.of(record(weights, tokens[:1]))
    assert run.survey().heads == ()
    assert len(run.survey().pattern) == 0
    with pytest.raises(InputError, match="without layers"):
        run.looks("L0H0")


@given(deep, numbers, st.floats(-3, 1.5), st.sampled_from([torch.float32, torch.float64]))
def test_a_scores_certificate_is_within_what_rounding_may_come_to_in_any_format_and_size(member, which, size, dtype):
    config = member.config
    weights = random_weights(config, member.seed, dtype)
    big = {name: tensor * (10.0**size if name.endswith("W_E") else 1.0) for name, tensor in weights.tensors().items()}
    run = Run.of(record(type(weights).assemble(config, big), random_tokens(config, member.seed, 1, member.length)))
    length = member.length
    dest = which % length
    last = dest if config.attention.mask == "causal" else length - 1
    source, other = which % (last + 1), (which // 3) % (last + 1)
    why = run.attend((which % config.layers, which % config.heads), dest, source, None if other == source else other)
    assert why.certificate <= why.bound
    assert why.plain()["bound"] == why.bound


def test_what_cancels_on_both_sides_of_a_score_is_within_it():
    """Query and key are next to nothing beside their parts, and so is all of them but the products of parts."""
    config = ModelConfig(
        vocab=6,
        context=2,
        d_model=2,
        layers=3,
        attention=Attention(heads=2, d_head=1, scaled=False, input_bias=True, output_bias=True),
        feed_forward=FeedForward(d_mlp=4, activation="silu", bias=False),
        norm=PostNorm(),
        positions=SinusoidalPositions(into="queries-and-keys", base=100.0),
        unembedding=Unembedding(bias=False),
    )
    why = Run.of(record(random_weights(config, 593, torch.float64), random_tokens(config, 593, 1, 2))).attend("L2H0", 1, 0)
    assert float(why.table.abs().max()) > 1e3 * abs(why.value)
    assert why.certificate <= why.bound


def test_a_bound_is_no_blank_cheque():
    """Beside the numbers that are added up it is next to nothing: a part that was forgotten would be seen."""
    import headwater as hw

    for name in ("one-layer", "two-layer", "block"):
        why = hw.load(name).record("for line in open(").attend("L0H3", 4, 1)
        assert why.certificate <= why.bound < 1e-3 * max(1.0, float(why.table.abs().max()))
