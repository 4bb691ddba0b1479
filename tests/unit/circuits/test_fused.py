"""When the fused kernel is taken, which integers it takes, and that it says how far it is."""

import pytest
import torch

from headwater.circuits.streamed import fused
from headwater.circuits.streamed.balance import balanced
from headwater.circuits.streamed.guess import Side
from headwater.circuits.streamed.scan import Wants

needs_numba = pytest.mark.skipif(not fused.available(), reason="needs numba and a processor with AVX2")
ROWS = Wants(top_rows=10)


def flat(lines, inner, seed):
    return torch.randn(lines, inner, generator=torch.Generator().manual_seed(seed))


def sides(left, right):
    turned = balanced(left, right)
    return Side.of(turned.left, left, 1.0, 0.0), Side.of(turned.right, right, 1.0, 0.0)


@needs_numba
@pytest.mark.parametrize(
    ("rows", "columns", "inner", "wants", "taken"),
    [
        (50_257, 50_257, 64, ROWS, True),
        (50_257, 50_257, 64, Wants(top_rows=10, top_columns=10, own_ranks=True), True),
        (100, 100, 64, ROWS, False),
        (50_257, 50_257, 2048, ROWS, False),
        (50_257, 50_257, 0, ROWS, False),
        (50_257, 50_257, 64, Wants(top_rows=1000), False),
        (50_257, 50_257, 64, Wants(logsumexp=torch.zeros(50_257)), False),
        (50_257, 1_000_000, 64, ROWS, True),
    ],
)
def test_it_is_taken_where_it_pays(rows, columns, inner, wants, taken):
    assert fused.pays(rows, columns, inner, wants) is taken


def test_bytes_will_do_for_the_largest_and_not_for_ranks_in_the_middle():
    left, right = sides(flat(4000, 64, 0), flat(4000, 64, 1))
    guess = fused._Guess.of
    assert guess(left, right, ROWS).form == 0
    assert guess(left, right, Wants(own_ranks=True)).form == 1


def test_nothing_is_filtered_where_all_entries_are_equal():
    left, right = sides(torch.ones(2000, 16), torch.ones(2000, 16))
    assert fused._Guess.of(left, right, ROWS).form is None


def test_few_lines_are_below_the_guess():
    left, right = flat(3000, 32, 2), flat(5000, 32, 3)
    floors = fused._Guess.of(*sides(left, right), ROWS).rows[1]
    tenth = (left.double() @ right.double().T).topk(10, dim=1).values[:, -1]
    assert float((tenth <= floors).double().mean()) < 0.02


@needs_numba
def test_a_guess_that_is_too_high_is_looked_at_again():
    # Most rows are one-sided with their largest far out; the others are flat, and the sample, every second row, sees none of them.
    left, right = flat(191, 4, 4).abs(), flat(600, 4, 5)
    left[1::2] = -left[1::2]
    right = torch.where(right > 0, right * 10, right)
    entries = left.double() @ right.double().T
    floors = fused._Guess.of(*sides(left, right), ROWS).rows[1]
    assert bool((entries.topk(10, dim=1).values[:, -1] <= floors).any())
    kept = fused.scan(left, right, ROWS, form=0).top_rows
    assert bool((kept.values[:, 9] > kept.ceiling).all())
    assert torch.equal(kept.ids[:, :10], entries.topk(10, dim=1).indices)


@needs_numba
def test_it_runs_in_inference_mode():
    wants = Wants(top_rows=3, top_columns=3, own_ranks=True)
    with torch.inference_mode():
        found = fused.scan(flat(300, 8, 6), flat(300, 8, 7), wants, block=64, form=1)
    assert torch.equal(found.top_rows.ids, fused.scan(flat(300, 8, 6), flat(300, 8, 7), wants, form=1).top_rows.ids)


@needs_numba
def test_progress_ends_at_one():
    told: list[float] = []
    fused.scan(flat(300, 8, 6), flat(400, 8, 7), ROWS, told.append, block=64, form=0)
    assert told == sorted(told)
    assert told[-1] == 1.0
    assert len(told) == 5


@needs_numba
def test_an_error_in_a_block_ends_the_pass():
    def stop(share):
        raise KeyboardInterrupt

    with pytest.raises(KeyboardInterrupt):
        fused.scan(flat(300, 8, 8), flat(400, 8, 9), ROWS, stop, block=64, form=0)


@needs_numba
def test_float64_factors_are_looked_at_as_they_are():
    left, right = flat(40, 8, 10).double(), flat(500, 8, 11).double()
    # These differ beyond float32.
    right[1:6] = right[0] * (1 + torch.arange(1, 6, dtype=torch.float64)[:, None] * 1e-12)
    left[:] = right[0] + 0.01 * left
    kept = fused.scan(left, right * torch.where(torch.arange(500) < 6, 10.0, 0.1)[:, None], Wants(top_rows=3), form=1).top_rows
    assert kept.ids[:, :3].tolist() == [[5, 4, 3]] * 40


@pytest.mark.parametrize("scale", [1.0, 1e-150, 1e150])
@pytest.mark.parametrize("inner", [1, 5, 64])
def test_balanced_factors_have_the_same_product_and_the_same_moments(inner, scale):
    left, right = (
        flat(300, inner, 12).double() * torch.logspace(0, -2, inner, dtype=torch.float64),
        flat(400, inner, 13).double(),
    )
    turned = balanced(left * scale, right / scale)
    assert float((turned.left @ turned.right.T - left @ right.T).abs().max()) <= turned.error
    assert turned.error < 1e-9
    ours, theirs = turned.left.T @ turned.left, turned.right.T @ turned.right
    assert torch.allclose(ours / ours.trace(), theirs / theirs.trace(), atol=1e-9)
