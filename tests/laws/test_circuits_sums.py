"""Sums of exponentials by the fused kernel, against float64: right whatever the scores are, and the same bits whatever stands beside a row."""

import math

import pytest
import torch
from hypothesis import given, settings
from hypothesis import strategies as st

from headwater.circuits.streamed import fused, sums, tiles
from headwater.circuits.streamed.scan import Wants
from headwater.circuits.streamed.survey import choose, survey

pytestmark = pytest.mark.skipif(not fused.available(), reason="needs numba and a processor with AVX2")

sizes = st.tuples(st.integers(1, 40), st.integers(1, 300), st.sampled_from([1, 2, 3, 7, 8, 33, 64, 65, 130]))
seeds = st.integers(0, 2**31)


def drawn(rows, columns, inner, seed, spread=1.0):
    """Factors whose entries have about this spread, and a distribution some of whose weights are zero, but not all."""
    draw = torch.Generator().manual_seed(seed)
    left, right = (torch.randn(lines, inner, generator=draw) for lines in (rows, columns))
    weights = torch.rand(columns, generator=draw) * (torch.rand(columns, generator=draw) > 0.3)
    weights[int(torch.randint(columns, (), generator=draw))] = 1.0
    return left * (spread / math.sqrt(inner)), right, (weights / weights.sum()).log()


def truth(left, right, log_weights):
    return (left.double() @ right.double().T + log_weights.double()).logsumexp(dim=1)


def found(left, right, log_weights, block=sums.BLOCK):
    return sums.scan(left, right, Wants(logsumexp=log_weights), block=block).logsumexp


@settings(max_examples=100, deadline=None)
@given(sizes, st.sampled_from([0.0, 0.1, 1.0, 10.0, 200.0, 1e4]), seeds)
def test_it_is_the_logarithm_of_the_sum_of_all_exponentials(size, spread, seed):
    left, right, log_weights = drawn(*size, seed, spread)
    # An entry in float32 is wrong by some roundings of ‖row‖ ‖column‖, which is some times the spread.
    assert torch.allclose(found(left, right, log_weights), truth(left, right, log_weights), rtol=0, atol=4e-6 * (1 + spread))


@settings(max_examples=60, deadline=None)
@given(sizes, st.floats(-300, 300), st.floats(0, 50), seeds)
def test_a_constant_moves_the_sum_by_itself_and_no_further(size, constant, spread, seed):
    left, right, log_weights = drawn(*size, seed, spread)
    left, right = (torch.cat([x, torch.full((len(x), 1), y)], dim=1) for x, y in ((left, constant), (right, 1.0)))
    expected = truth(left, right, log_weights)
    assert torch.allclose(found(left, right, log_weights), expected, rtol=0, atol=4e-6 * (1 + spread + abs(constant)))


@settings(max_examples=60, deadline=None)
@given(sizes, st.sampled_from([0.3, 5.0, 100.0]), st.sampled_from([1, 2, 5, 16]), st.sampled_from([1, 2, 3]), seeds)
def test_a_row_has_the_same_bits_whatever_stands_beside_it(size, spread, block, threads, seed):
    left, right, log_weights = drawn(*size, seed, spread)
    everything, before = found(left, right, log_weights), torch.get_num_threads()
    order = torch.randperm(len(left), generator=torch.Generator().manual_seed(seed))
    try:
        torch.set_num_threads(threads)
        shuffled = found(left[order], right, log_weights, block)
    finally:
        torch.set_num_threads(before)
    assert torch.equal(shuffled, everything[order])
    wild = torch.stack([left[0], left[-1] * 1e4])
    assert torch.equal(found(wild, right, log_weights)[:1], everything[:1])
    assert torch.equal(found(wild.flip(0), right, log_weights)[1:], everything[:1])


@settings(max_examples=60, deadline=None)
@given(sizes, st.sampled_from([1.0, 200.0]), seeds)
def test_a_column_without_weight_does_not_count(size, spread, seed):
    left, right, log_weights = drawn(*size, seed, spread)
    there = log_weights > -math.inf
    right[~there] *= 1e6
    assert torch.equal(found(left, right, log_weights), found(left, right[there], log_weights[there]))
    nothing = torch.full_like(log_weights, -math.inf)
    assert found(left, right, nothing).tolist() == [-math.inf] * len(left)


@settings(max_examples=40, deadline=None)
@given(st.integers(1, 300), st.permutations([-1e4, -200.0, 0.0, 17.0, 90.0, 200.0, 5e3]), st.floats(1e-30, 1), seeds)
def test_scores_may_rise_and_fall_as_they_like(columns, heights, weight, seed):
    draw = torch.Generator().manual_seed(seed)
    right = torch.tensor(heights)[torch.randint(len(heights), (columns, 1), generator=draw)]
    left, log_weights = torch.tensor([[1.0], [-1.0], [0.5], [0.0]]), torch.full((columns,), weight).log()
    expected = truth(left, right, log_weights)
    assert torch.allclose(found(left, right, log_weights), expected, rtol=5e-7, atol=1e-5)


@pytest.mark.parametrize("inner", range(1, 131))
def test_every_inner_dimension(inner):
    left, right, log_weights = drawn(3, 97, inner, inner, 3.0)
    assert torch.allclose(found(left, right, log_weights), truth(left, right, log_weights), rtol=0, atol=1e-5)


def test_the_error_is_no_more_than_that_of_tiles():
    left, right, log_weights = drawn(64, 20_000, 64, 5, 3.0)
    expected, wants = truth(left, right, log_weights), Wants(logsumexp=log_weights)
    ours, theirs = ((kernel(left, right, wants).logsumexp - expected).abs().max() for kernel in (sums.scan, tiles.scan))
    assert ours < 3e-6
    assert ours <= theirs


def test_one_pass_asks_it_beside_other_things():
    left, right, log_weights = drawn(5000, 8000, 4, 6)
    both = survey(left, right, Wants(top_rows=2, logsumexp=log_weights))
    alone = survey(left, right, Wants(logsumexp=log_weights))
    assert torch.equal(both.logsumexp, found(left, right, log_weights))
    assert torch.equal(alone.logsumexp, both.logsumexp)
    wide = survey(left.double(), right.double(), Wants(logsumexp=log_weights.double())).logsumexp
    assert torch.allclose(wide[:50], truth(left[:50], right, log_weights), rtol=0, atol=1e-12)


def test_it_is_taken_for_large_matrices_of_float32_alone():
    left, right = torch.zeros(1, 4).expand(9000, 4), torch.zeros(1, 4).expand(4000, 4)
    only = Wants(logsumexp=torch.zeros(4000))
    assert choose(left, right, only) is sums.scan
    assert choose(left.double(), right.double(), only) is tiles.scan
    assert choose(left[:100], right, only) is tiles.scan
    assert choose(left[:, :0], right[:, :0], only) is tiles.scan
    assert choose(left, right, Wants()) is tiles.scan
