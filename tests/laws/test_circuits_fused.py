"""The fused kernel against all entries written out: nothing above a ceiling is ever left out, whatever the circuit, tiles and threads."""

import math

import numpy as np
import pytest
import torch
from hypothesis import given, settings
from hypothesis import strategies as st

from headwater.circuits.streamed import exact, fused, tiles
from headwater.circuits.streamed.scan import Wants
from headwater.circuits.streamed.survey import survey

pytestmark = pytest.mark.skipif(not fused.available(), reason="needs numba and a processor with AVX2")

KINDS = (
    "flat",
    "dominated",
    "decaying",
    "aligned",
    "shifted",
    "same columns",
    "twins",
    "whole numbers",
    "some zeros",
    "zeros",
    "norms of all sizes",
    "huge",
    "tiny",
    "denormal",
)


def factors(kind, rows, columns, inner, seed):
    draw = torch.Generator().manual_seed(seed)
    left, right = (torch.randn(lines, inner, generator=draw) for lines in (rows, columns))
    first = torch.where(torch.arange(inner) == 0, 100.0, 1.0)
    half, some = torch.arange(columns) % max(1, columns // 2), torch.arange(rows) % 3 > 0
    changed = {
        "dominated": lambda: (left * first, right * first),
        "decaying": lambda: (left * torch.logspace(0, -4, inner), right * torch.logspace(0, -1, inner)),
        "aligned": lambda: (left[:, :1].repeat(1, inner), right[:, :1].repeat(1, inner)),
        "shifted": lambda: (left + 5, right + 5),
        "same columns": lambda: (left, right[:1].repeat(columns, 1)),
        "twins": lambda: (left, right[half]),
        "whole numbers": lambda: (left.round(), right.round()),
        "some zeros": lambda: (left * some[:, None], right),
        "zeros": lambda: (left * 0, right),
        "norms of all sizes": lambda: (
            left * torch.logspace(0, -12, rows)[:, None],
            right * torch.logspace(-6, 6, columns)[:, None],
        ),
        "huge": lambda: (left * 1e30, right * 1e30),
        "tiny": lambda: (left * 1e-25, right * 1e-25),
        "denormal": lambda: (left * 1e-41, right),
    }
    return changed.get(kind, lambda: (left, right))()


def written_out(left, right):
    """Every entry as it is defined: products and sums one after the other, in float64."""
    return (left.double()[:, None, :] * right.double()[None, :, :]).cumsum(dim=2)[:, :, -1]


def check(kept, entries, k):
    """All that is left out is at most the ceiling; what is kept has its values."""
    out = torch.ones_like(entries, dtype=torch.bool)
    lines = torch.arange(len(entries))[:, None].expand_as(kept.ids)
    there = kept.ids >= 0
    assert len(set(zip(lines[there].tolist(), kept.ids[there].tolist(), strict=True))) == int(there.sum())
    out[lines[there], kept.ids[there]] = False
    assert bool((torch.where(out, entries, -math.inf).amax(dim=1) <= kept.ceiling).all())
    assert torch.equal(kept.values[there], entries[lines[there], kept.ids[there]])
    # What cannot be told apart may be left to a second look, but nothing else.
    best = entries.topk(min(k + fused.SLACK, entries.shape[1]), dim=1).values
    clear = best[:, min(k, best.shape[1]) - 1] > best[:, -1]
    found = torch.where(there, kept.values, -math.inf).sort(dim=1, descending=True).values
    last = found[:, min(k, entries.shape[1]) - 1]
    assert bool((last > kept.ceiling)[clear].all())


@settings(max_examples=60, deadline=None)
@given(
    kind=st.sampled_from(KINDS),
    size=st.tuples(st.integers(1, 90), st.integers(1, 450), st.sampled_from([1, 2, 3, 8, 33, 64, 130])),
    counts=st.tuples(*[st.sampled_from([0, 1, 3, 10])] * 4),
    form=st.sampled_from([0, 1]),
    block=st.sampled_from([1, 7, 64, 256]),
    seed=st.integers(0, 2**31),
)
def test_whatever_is_left_out_is_at_most_the_ceiling(kind, size, counts, form, block, seed):
    left, right = factors(kind, *size, seed)
    entries = written_out(left, right)
    names = ("top_rows", "bottom_rows", "top_columns", "bottom_columns")
    found = fused.scan(left, right, Wants(**dict(zip(names, counts, strict=True))), block=block, form=form)
    for name, k, seen in zip(names, counts, (entries, -entries, entries.T, -entries.T), strict=True):
        kept = getattr(found, name)
        assert (kept is None) == (k == 0)
        if k:
            check(kept, seen, k)


@settings(max_examples=30, deadline=None)
@given(
    kind=st.sampled_from(KINDS),
    size=st.integers(1, 230),
    inner=st.sampled_from([1, 3, 64]),
    form=st.sampled_from([0, 1]),
    seed=st.integers(0, 2**31),
)
def test_own_ranks_are_those_of_the_sorted_row(kind, size, inner, form, seed):
    left, right = factors(kind, size, size, inner, seed)
    entries, ids = written_out(left, right), torch.arange(size)
    own = entries.diagonal()[:, None]
    before = (entries > own) | ((entries == own) & (ids[None, :] < ids[:, None]))
    found = fused.scan(left, right, Wants(own_ranks=True, top_rows=2), form=form)
    assert torch.equal(found.above, before.sum(dim=1))
    assert found.near.ids.shape == (size, 0)


@settings(max_examples=12, deadline=None)
@given(kind=st.sampled_from(KINDS), size=st.integers(1, 200), k=st.integers(1, 12), seed=st.integers(0, 2**31))
def test_every_kernel_gives_the_same_answers(kind, size, k, seed):
    left, right = factors(kind, size, size, 8, seed)
    wants = Wants(top_rows=k, bottom_rows=k, top_columns=k, bottom_columns=k, own_ranks=True)
    ours, theirs = (survey(left, right, wants, kernel=kernel) for kernel in (fused.scan, tiles.scan))
    for name in ("top_rows", "bottom_rows", "top_columns", "bottom_columns"):
        assert torch.equal(getattr(ours, name).ids, getattr(theirs, name).ids)
        assert torch.equal(getattr(ours, name).values, getattr(theirs, name).values)
    assert torch.equal(ours.own_ranks, theirs.own_ranks)


@pytest.mark.parametrize("kind", ["flat", "norms of all sizes", "tiny", "zeros"])
@pytest.mark.parametrize("inner", [1, 7, 64])
@pytest.mark.parametrize("dtype", [torch.float32, torch.float64])
def test_many_entries_have_the_bits_that_each_has_by_definition(kind, inner, dtype):
    left, right = factors(kind, 90, 450, inner, 7)
    draw, size = torch.Generator().manual_seed(8), exact.MANY + 3
    rows, columns = torch.randint(90, (size,), generator=draw), torch.randint(450, (size,), generator=draw)
    found = exact.dots(left.to(dtype), right.T.contiguous().T.to(dtype), rows, columns)
    assert torch.equal(found.view(torch.int64), written_out(left, right)[rows, columns].view(torch.int64))


def test_a_ceiling_holds_in_more_than_float64():
    left, right = factors("flat", 64, 3000, 64, 1)
    entries = left.numpy().astype(np.longdouble) @ right.numpy().astype(np.longdouble).T
    for form in (0, 1):
        kept = fused.scan(left, right, Wants(top_rows=5), form=form).top_rows
        np.put_along_axis(entries_left := entries.copy(), kept.ids.numpy(), -np.inf, axis=1)
        assert (entries_left.max(axis=1) <= kept.ceiling.numpy()).all()


@pytest.mark.parametrize("threads", [1, 3])
def test_threads_change_nothing(threads):
    left, right = factors("decaying", 400, 900, 16, 2)
    wants, before = Wants(top_rows=4, top_columns=4), torch.get_num_threads()
    expected = survey(left, right, wants, kernel=tiles.scan)
    try:
        torch.set_num_threads(threads)
        found = survey(left, right, wants, kernel=lambda *asked: fused.scan(*asked, block=16))
    finally:
        torch.set_num_threads(before)
    assert torch.equal(found.top_rows.ids, expected.top_rows.ids)
    assert torch.equal(found.top_columns.ids, expected.top_columns.ids)
