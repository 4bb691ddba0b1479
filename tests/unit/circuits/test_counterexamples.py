"""Inputs that once had wrong answers."""

from functools import partial

import pytest
import torch

from headwater.circuits.copying import copying
from headwater.circuits.factored import Factored
from headwater.circuits.streamed import exact, fused, tiles
from headwater.circuits.streamed.scan import Wants
from headwater.circuits.streamed.survey import survey

needs_numba = pytest.mark.skipif(not fused.available(), reason="the fused kernel needs numba and AVX2")
KERNELS = [tiles.scan, *([partial(fused.scan, form=form) for form in (0, 1)] if fused.available() else [])]


def test_products_that_a_fused_multiply_add_rounds_the_other_way_change_no_order():
    # x · y is a little above 1, and 1 in float64. Behind a one, at 2⁻⁵³, every such product is rounded away where it is rounded
    # by itself, and counts as 2⁻⁵² where a fused multiply-add keeps all of it.
    found = torch.rand(1000, dtype=torch.float64, generator=torch.Generator().manual_seed(0)) + 1
    x, y = next((x, 1 / x) for x in found.tolist() if x * (1 / x) == 1.0 and _above_one(x, 1 / x))
    tail = torch.full((127,), y * 2.0**-27, dtype=torch.float64)
    row = torch.cat([torch.ones(1, dtype=torch.float64), torch.full((127,), x * 2.0**-26, dtype=torch.float64)])
    first = torch.tensor([1.0, 1 + 2.0**-51], dtype=torch.float64)
    less, more = torch.cat([first[:1], tail]), torch.cat([first[1:], -tail])
    left, right = row.repeat(4, 1), torch.stack([less] * 200 + [more])
    ids = torch.tensor([200])
    assert exact.dots(left, right, torch.tensor([0]), ids) > exact.dots(left, right, torch.tensor([0]), ids - 1)
    assert Factored(left, right.T).top_rows(1).ids[:, 0].tolist() == [200] * 4


def _above_one(x, y):
    (a, b), (c, d) = x.as_integer_ratio(), y.as_integer_ratio()
    return a * c > b * d


@pytest.mark.parametrize("powers", [(-600, 600), (-300, -300), (300, 300), (-500, -500)])
def test_a_power_of_two_in_float64_factors_changes_no_order(powers):
    generator = torch.Generator().manual_seed(0)
    left, right = (torch.randn(60, 4, generator=generator, dtype=torch.float64) for _ in range(2))
    plain, scaled = Factored(left, right.T), Factored(left * 2.0 ** powers[0], right.T * 2.0 ** powers[1])
    assert scaled.own_ranks().equal(plain.own_ranks())
    for kernel in KERNELS:
        ranks = survey(scaled.left, scaled.right.T, Wants(own_ranks=True), kernel=kernel).own_ranks
        assert ranks.equal(plain.own_ranks())
    assert scaled.top_rows(3).ids.equal(plain.top_rows(3).ids)
    assert [entry[:2] for entry in scaled.top(9)] == [entry[:2] for entry in plain.top(9)]


@needs_numba
@pytest.mark.parametrize("form", [0, 1])
def test_a_very_large_vocabulary_does_not_overflow_the_counts_of_a_lane(form):
    columns = 16 * 32767 + 5000
    left, right = torch.ones(1, 2), torch.ones(columns, 2)
    right[0] = -1
    assert fused.scan(left, right, Wants(own_ranks=True), form=form).above.tolist() == [columns - 1]


@pytest.mark.parametrize(("dtype", "power"), [(torch.float64, 30), (torch.float32, 20)])
def test_the_rank_does_not_depend_on_the_basis_in_between(dtype, power):
    generator = torch.Generator().manual_seed(0)
    left, right = torch.randn(40, 4, generator=generator, dtype=dtype), torch.randn(4, 40, generator=generator, dtype=dtype)
    stretch = torch.tensor([2.0**power, 2.0**-power, 1, 1], dtype=dtype)
    # The same product, bit for bit.
    assert Factored(left * stretch, right / stretch[:, None]).rank() == Factored(left, right).rank() == 4


def test_a_matrix_without_an_inner_dimension_has_rank_0():
    assert Factored(torch.zeros(3, 0), torch.zeros(0, 3)).rank() == 0


@pytest.mark.parametrize("rank", [1, 2, 3])
def test_a_copying_head_of_few_dimensions_is_called_copying(rank):
    few = torch.linalg.qr(torch.randn(100, rank, generator=torch.Generator().manual_seed(rank), dtype=torch.float64))[0]
    assert copying(Factored(few, few.T)).verdict == "copying"
