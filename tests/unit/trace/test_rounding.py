"""Certificates of plain sums: rounding stays below its bound, and a number that is wrong does not."""

import pytest
import torch

from headwater.trace.rounding import mixture_apart, sums_apart


@pytest.fixture
def drawn():
    generator = torch.Generator().manual_seed(0)
    return lambda *shape: torch.randn(*shape, generator=generator)


@pytest.mark.parametrize("sources", [1, 7, 500])
def test_what_a_head_mixes_is_told_from_what_it_does_not(drawn, sources):
    weights, values = drawn(sources).softmax(dim=0), drawn(sources, 16)
    mixed = (weights[:, None] * values).sum(dim=0)
    found = mixture_apart(weights, values, mixed)
    assert 0 <= found.certificate <= found.bound < 1e-3
    wrong = mixed.clone()
    wrong[3] += 2 * found.bound
    assert mixture_apart(weights, values, wrong).certificate > found.bound
    assert mixture_apart(weights, values, mixed.double()).bound < 1e-6 * found.bound, "in the format of what was mixed"


def test_sums_are_told_from_what_is_none(drawn):
    parts = [drawn(16), 100 * drawn(16)]
    right, wrong = parts[0] + parts[1], parts[0] + parts[1]
    wrong[5] += 0.001
    found = sums_apart([(right, parts), (parts[0], [parts[0]])])
    assert 0 < found.certificate <= found.bound < 0.001
    assert sums_apart([(right, parts), (wrong, parts)]).certificate > found.bound
