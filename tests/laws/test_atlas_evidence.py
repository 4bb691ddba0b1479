"""What an atlas measures in a text is what ``explain`` tells of each place, for every member of the family."""

import numpy as np
import pytest
import torch
from hypothesis import given
from hypothesis import strategies as st
from tests.strategies import models, seeds

from headwater.atlas import measure
from headwater.atlas.agreement import rank_correlation, ranks
from headwater.atlas.evidence import evidence
from headwater.atlas.places import Listed, count
from headwater.circuits.head import every_head
from headwater.model.forward import forward
from headwater.model.record import record
from headwater.trace.run import Run

NEAR = {"rel": 1e-9, "abs": 1e-9}


def random_rows(config, seed, count):
    """Skip-trigrams of any head, as a table would list them."""
    draw = np.random.default_rng(seed)
    head = draw.integers(0, len(every_head(config)), count)
    source, dest, out = (draw.integers(0, config.vocab, count) for _ in range(3))
    attention, output = draw.uniform(0.01, 0.99, count), draw.normal(size=count)
    return Listed(head, source, dest, out, attention, output, attention * output)


def places_one_by_one(windows, source, dest):
    """(window, position of B, earlier positions of A); a token comes after each."""
    for number, window in enumerate(windows.tolist()):
        for at in range(len(window) - 1):
            earlier = [before for before in range(at) if window[before] == source]
            if window[at] == dest and earlier:
                yield number, at, earlier


def told_by_explain(runs, head, place, out):
    """The head's contribution from some positions, and the attention that it paid to them, as the trace has them."""
    number, at, earlier = place
    part = next(part for part in runs[number].explain(at, out, centred=True).parts if part.facts.get("head") == str(head))
    sources = [source for source in part.split().parts if source.kind == "source" and source.facts["position"] in earlier]
    return sum(source.value for source in sources), [source.facts["attention"] for source in sources]


@given(models(layers=st.integers(1, 2)), seeds)
def test_what_is_measured_is_what_explain_tells(member, seed):
    weights, tokens = member
    rows = random_rows(member.config, seed, 3)
    found = evidence(weights, tokens.numpy(), rows)
    runs, logits = [Run.of(record(weights, text[None])) for text in tokens], forward(weights, tokens)
    for row in range(len(rows)):
        head, out = every_head(member.config)[rows.head[row]], int(rows.out[row])
        places = list(places_one_by_one(tokens, rows.source[row], rows.dest[row]))
        told = [told_by_explain(runs, head, place, out) for place in places]
        assert found.chances[row] == len(places)
        assert found.occurs[row] == sum(int(tokens[number, at + 1]) == out for number, at, _ in places)
        assert np.isnan(found.measured[row]) == (not places)
        if places:
            check_means(found, rows, row, places, told)
            check_quotations(found.quotations, tokens, np.sign(rows.lift[row]), found.quotations.row == row, places, told)
        lost = sum(loss_without(logits, tokens, place, out, value) for place, (value, _) in zip(places, told, strict=True))
        assert found.nats[row] == pytest.approx(lost, **NEAR)


def check_means(found, rows, row, places, told):
    """Averages over places, and how often the head fires."""
    values, several = [value for value, _ in told], [len(earlier) for _, _, earlier in places]
    assert found.measured[row] == pytest.approx(np.mean(values), **NEAR)
    assert found.attention[row] == pytest.approx(np.mean([sum(paid) for _, paid in told]), **NEAR)
    assert found.sources[row] == np.mean(several)
    one = rows.attention[row]
    expected = [count * one / (count * one + 1 - one) * rows.output[row] for count in several]
    assert found.expected[row] == pytest.approx(np.mean(expected), **NEAR)
    sign, half = np.sign(rows.lift[row]), abs(rows.lift[row]) / 2
    assert found.fires[row] == sum(sign * value >= half for value in values)


def check_quotations(quoted, tokens, sign, own, places, told):
    """The three strongest places, each with the source that got most attention."""
    assert quoted.nth[own].tolist() == list(range(1, min(3, len(places)) + 1))
    best = sorted((sign * value for value, _ in told), reverse=True)[:3]
    assert (sign * quoted.measured[own]).tolist() == pytest.approx(best, **NEAR)
    columns = (quoted.window, quoted.dest_position, quoted.source_position, quoted.next)
    for window, dest, source, after in zip(*(column[own] for column in columns), strict=True):
        (_, _, earlier), (_, paid) = next(each for each in zip(places, told, strict=True) if each[0][:2] == (window, dest))
        assert paid[earlier.index(source)] == pytest.approx(max(paid), **NEAR)
        assert tokens[window, dest + 1] == after


def loss_without(logits, tokens, place, out, value):
    """What the next token's log-probability falls by when a contribution is taken out of one logit."""
    number, at, _ = place
    without, after = logits[number, at].clone(), int(tokens[number, at + 1])
    without[out] -= value
    return float(logits[number, at].log_softmax(dim=-1)[after] - without.log_softmax(dim=-1)[after])


@given(models(layers=st.integers(1, 2)), seeds)
def test_counts_do_not_need_the_model(member, seed):
    weights, tokens = member
    rows = random_rows(member.config, seed, 40)
    counted, found = count(tokens.numpy(), rows, member.config.vocab), evidence(weights, tokens.numpy(), rows)
    assert (counted.chances == found.chances).all()
    assert (counted.occurs == found.occurs).all()


@given(models(layers=st.just(1)), seeds, st.integers(1, 40))
def test_portions_change_nothing(member, seed, size):
    weights, tokens = member
    tokens = tokens.repeat(2, 1)
    rows = random_rows(member.config, seed, 40)
    whole = evidence(weights, tokens.numpy(), rows)
    before = measure.NUMBERS, measure.AT_ONCE
    try:
        measure.NUMBERS, measure.AT_ONCE = 1, size
        parts = evidence(weights, tokens.numpy(), rows)
    finally:
        measure.NUMBERS, measure.AT_ONCE = before
    assert (whole.chances == parts.chances).all()
    assert (whole.occurs == parts.occurs).all()
    assert whole.measured == pytest.approx(parts.measured, nan_ok=True, **NEAR)
    assert whole.nats == pytest.approx(parts.nats, **NEAR)
    assert (whole.quotations.row == parts.quotations.row).all()
    assert whole.quotations.measured == pytest.approx(parts.quotations.measured, **NEAR)


@given(st.lists(st.integers(-3, 3), max_size=12))
def test_a_rank_is_one_more_than_how_many_are_smaller_and_half_of_the_other_equals(values):
    slow = [1 + sum(b < a for b in values) + (sum(b == a for b in values) - 1) / 2 for a in values]
    assert ranks(np.array(values, np.float64)).tolist() == slow


@given(st.lists(st.tuples(st.integers(-3, 3), st.integers(-3, 3)), max_size=12))
def test_rank_correlation_is_the_correlation_of_ranks(pairs):
    a, b = (np.array([pair[side] for pair in pairs], np.float64) for side in (0, 1))
    found = rank_correlation(a, b)
    if len(set(a)) < 2 or len(set(b)) < 2:
        assert found is None
    else:
        assert found == pytest.approx(np.corrcoef(ranks(a), ranks(b))[0, 1], abs=1e-12)
        assert rank_correlation(np.exp(a), b) == pytest.approx(found, abs=1e-12)


@given(st.floats(-40, 40), st.floats(-60, 12), st.booleans())
def test_worth_holds_for_hopeless_and_likely_tokens(delta, odds, came):
    """Against two logits, one above the other."""
    before, after = (torch.tensor([each, 0.0], dtype=torch.float64).log_softmax(dim=0) for each in (odds, odds - delta))
    chosen = 0 if came else 1
    found = float(measure.worth(np.array([delta]), before[:1].numpy(), np.array([came]))[0])
    assert found == pytest.approx(float(before[chosen] - after[chosen]), abs=1e-9 * (1 + abs(delta)))


def test_a_token_that_is_certain_has_all_that_it_was_given():
    given, certain = np.array([3.0, -2.0, 5.0]), np.array([0.0, 0.0, 1e-7])
    assert measure.worth(given, certain, np.array([True, True, True])).tolist() == [0.0, 0.0, 0.0]
    assert measure.worth(given, certain, np.array([False, False, False])).tolist() == [-3.0, 2.0, -5.0]
