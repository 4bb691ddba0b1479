"""``Factored`` is dense algebra that never holds the matrix: every method against the matrix itself, in float64."""

import pytest
import torch
from hypothesis import assume, given
from hypothesis import strategies as st

from headwater.circuits.factored import Factored
from headwater.circuits.streamed import tiles
from headwater.circuits.streamed.scan import Wants
from headwater.circuits.streamed.survey import survey
from strategies import seeds

sizes = st.integers(1, 12)
dtypes = st.sampled_from([torch.float32, torch.float64])
kinds = st.sampled_from(["gauss", "whole numbers", "dominated", "repeated columns", "repeated rows", "zeros", "wild norms"])


def draw(rows: int, inner: int, columns: int, seed: int, dtype: torch.dtype = torch.float64) -> Factored:
    generator = torch.Generator().manual_seed(seed)
    left = torch.randn(rows, inner, generator=generator, dtype=torch.float64)
    right = torch.randn(inner, columns, generator=generator, dtype=torch.float64)
    return Factored(left.to(dtype), right.to(dtype))


def of_kind(kind: str, rows: int, inner: int, columns: int, seed: int) -> Factored:
    """Matrices that kernels have been wrong about: ties, one direction above all, norms of every size."""
    a = draw(rows, inner, columns, seed, torch.float32)
    left, right = a.left, a.right
    match kind:
        case "whole numbers":
            left, right = (2 * left).round(), (2 * right).round()
        case "dominated":
            left, right = left.clone(), right.clone()
            left[:, 0] *= 1000
        case "repeated columns":
            right = right[:, torch.arange(columns) % 3 % columns]
        case "repeated rows":
            left = left[torch.arange(rows) % 2 % rows]
        case "zeros":
            left, right = left * (torch.arange(rows) % 2)[:, None], right * (torch.arange(columns) % 3 > 0)
        case "wild norms":
            left = left * 10.0 ** torch.linspace(-18, 18, rows)[:, None]
        case _:
            pass
    return Factored(left, right)


def values(a: Factored) -> torch.Tensor:
    """All entries by the definition: float64, added one after the other."""
    total = torch.zeros(a.shape, dtype=torch.float64)
    for j in range(a.inner):
        total += a.left[:, j].double()[:, None] * a.right[j].double()
    return total


def largest(line: torch.Tensor, k: int) -> list[int]:
    """The ids of a line's largest entries, equal ones by id: the slow twin."""
    return sorted(range(len(line)), key=lambda i: (-float(line[i]), i))[:k]


@given(sizes, sizes, sizes, sizes, sizes, seeds)
def test_products_and_sums_are_those_of_the_matrices(rows, inner, columns, other, more, seed):
    a, b, c = draw(rows, inner, columns, seed), draw(columns, other, more, seed + 1), draw(rows, other, columns, seed + 2)
    dense = torch.randn(columns, 3, dtype=torch.float64)
    assert torch.allclose((a @ b).dense(), a.dense() @ b.dense())
    assert (a @ b).inner == min(inner, other)
    assert torch.allclose((a @ dense).dense(), a.dense() @ dense)
    assert torch.allclose(a @ dense[:, 0], a.dense() @ dense[:, 0])
    assert torch.allclose((dense.T @ a.T).dense(), dense.T @ a.dense().T)
    assert torch.allclose(dense[:, 0] @ a.T, a.dense() @ dense[:, 0])
    assert torch.allclose((2 * a - c * 0.5).dense(), 2 * a.dense() - 0.5 * c.dense())
    assert torch.allclose((-a + c).dense(), c.dense() - a.dense())
    assert torch.equal(a.T.dense(), a.dense().T) or torch.allclose(a.T.dense(), a.dense().T)
    assert torch.allclose(Factored.sum([a, c, a]).dense(), 2 * a.dense() + c.dense())


@given(sizes, sizes, sizes, seeds)
def test_pieces_are_those_of_the_matrix(rows, inner, columns, seed):
    a = draw(rows, inner, columns, seed)
    dense, some, others = a.dense(), torch.arange(rows).flip(0), torch.arange(columns)[: rows // 2]
    assert torch.allclose(a.rows(some), dense[some])
    assert torch.allclose(a.columns(others), dense[:, others])
    assert torch.allclose(a.entries(some[: len(others)], others), dense[some[: len(others)], others])
    assert torch.allclose(a.diagonal(), dense.diagonal())
    assert torch.allclose(a.centred_rows().dense(), dense - dense.mean(1, keepdim=True))
    assert torch.allclose(a.centred_columns().dense(), dense - dense.mean(0))
    assert torch.allclose(a.row_means(), dense.mean(1))
    assert torch.allclose(a.row_spreads(), dense.std(1, correction=0), atol=1e-12)
    weights, factors = torch.rand(rows, dtype=torch.float64), torch.rand(columns, dtype=torch.float64)
    assert torch.allclose(a.weighted(rows=weights, columns=factors).dense(), weights[:, None] * dense * factors)


@given(sizes, sizes, sizes, seeds)
def test_norm_singular_values_and_vectors_are_those_of_the_matrix(rows, inner, columns, seed):
    a = draw(rows, inner, columns, seed)
    dense = a.dense()
    truth = torch.linalg.svdvals(dense)
    found = a.singular_values()
    shared = min(len(truth), len(found))
    assert torch.allclose(found[:shared], truth[:shared], atol=1e-11)
    assert bool((truth[shared:] < 1e-11).all())
    assert bool((found[shared:] < 1e-11).all())
    assert a.norm() == pytest.approx(float(dense.norm()))
    parts = a.svd()
    assert torch.allclose(parts.U @ torch.diag(parts.S) @ parts.V.T, dense, atol=1e-11)
    assert torch.allclose(parts.U.T @ parts.U, torch.eye(len(parts.S), dtype=torch.float64), atol=1e-11)
    assert torch.allclose(parts.V.T @ parts.V, torch.eye(len(parts.S), dtype=torch.float64), atol=1e-11)
    assert a.rank() == int(torch.linalg.matrix_rank(dense))


@given(sizes, sizes, seeds)
def test_eigenvalues_are_those_of_the_matrix_with_sign_and_phase(size, inner, seed):
    a = draw(size, inner, size, seed)
    truth, found = torch.linalg.eigvals(a.dense()), a.eigenvalues()
    assert bool((found.abs().diff() <= 1e-9).all())
    # Power sums tell a multiset of eigenvalues apart from any other, sign and phase included; zeros add nothing.
    for power in range(1, size + 1):
        ours, theirs = (found**power).sum(), (truth**power).sum()
        assert abs(complex(ours - theirs)) < 1e-8 * (1 + float(truth.abs().max())) ** power * size
    assert a.trace() == pytest.approx(float(a.dense().trace()), abs=1e-9)


def test_an_eigenvalue_keeps_its_sign_and_its_phase():
    turn = torch.tensor([[0.0, 1.0], [-1.0, 0.0]], dtype=torch.float64)
    basis = torch.linalg.qr(torch.randn(6, 2, dtype=torch.float64, generator=torch.Generator().manual_seed(0)))[0]
    assert Factored(basis, -basis.T).eigenvalues().real.tolist() == pytest.approx([-1, -1])
    assert sorted(Factored(basis @ turn, basis.T).eigenvalues().imag.tolist()) == pytest.approx([-1, 1])


@given(
    kinds, st.tuples(st.integers(1, 40), st.integers(1, 5), st.integers(1, 200)), st.integers(1, 9), st.integers(1, 400), seeds
)
def test_every_streamed_answer_is_that_of_brute_force_ties_included(kind, shape, k, tile, seed):
    a = of_kind(kind, *shape, seed)
    truth = values(a)
    wants = Wants(top_rows=k, bottom_rows=k, top_columns=k, bottom_columns=k)

    def scan(*args):
        return tiles.scan(*args, entries=tile)

    found = survey(a.left, a.right.T, wants, kernel=scan)
    for lines, table in (
        (found.top_rows, truth),
        (found.bottom_rows.negated(), -truth),
        (found.top_columns, truth.T),
        (found.bottom_columns.negated(), -truth.T),
    ):
        assert [row.tolist() for row in lines.ids] == [largest(line, k) for line in table]
        assert torch.equal(lines.values, table.gather(1, lines.ids))
        assert lines.margin > 0


@given(kinds, st.integers(1, 60), st.integers(1, 5), st.integers(1, 400), seeds)
def test_own_ranks_are_those_of_brute_force(kind, size, inner, tile, seed):
    a = of_kind(kind, size, inner, size, seed)
    truth = values(a)
    found = survey(a.left, a.right.T, Wants(own_ranks=True), kernel=lambda *args: tiles.scan(*args, entries=tile)).own_ranks
    assert found.tolist() == [largest(line, size).index(i) for i, line in enumerate(truth)]


@given(st.integers(1, 20), st.integers(1, 5), st.integers(1, 50), dtypes, seeds)
def test_log_sum_exp_is_weighted_by_the_distribution(rows, inner, columns, dtype, seed):
    a = draw(rows, inner, columns, seed, dtype)
    p = torch.rand(columns, dtype=torch.float64, generator=torch.Generator().manual_seed(seed))
    p[0] = 0.0 if columns > 1 else 1.0
    dense = a.left.double() @ a.right.double()
    truth = (p * (dense - dense.amax(1, keepdim=True)).exp()).sum(1).log() + dense.amax(1)
    assert torch.allclose(a.logsumexp(p), truth, atol=1e-5 if dtype == torch.float32 else 1e-12)
    assert torch.allclose(a.logsumexp(), dense.logsumexp(1), atol=1e-5 if dtype == torch.float32 else 1e-12)


@given(kinds, st.integers(1, 40), st.integers(1, 5), st.integers(1, 60), st.integers(1, 80), seeds)
def test_the_largest_of_all_entries_are_those_of_brute_force(kind, rows, inner, columns, k, seed):
    a = of_kind(kind, rows, inner, columns, seed)
    truth = values(a)
    for found, table in ((a.top(k), truth), (a.bottom(k).negated(), -truth)):
        order = largest(table.flatten(), k)
        assert list(zip(found.rows.tolist(), found.columns.tolist(), strict=True)) == [divmod(i, columns) for i in order]
        assert torch.equal(found.values, table.flatten()[order])


@given(st.integers(2, 5), seeds)
def test_any_change_of_basis_in_between_changes_nothing(inner, seed):
    a = draw(30, inner, 30, seed)
    change = torch.randn(inner, inner, dtype=torch.float64, generator=torch.Generator().manual_seed(seed))
    assume(float(torch.linalg.cond(change)) < 1e3)
    b = Factored(a.left @ change, torch.linalg.inv(change) @ a.right)
    assert torch.allclose(a.dense(), b.dense(), atol=1e-9)
    assert torch.allclose(a.singular_values(), b.singular_values(), atol=1e-9)
    assert torch.allclose(a.top_rows(1).values, b.top_rows(1).values, atol=1e-9)
    assert a.trace() == pytest.approx(b.trace(), abs=1e-8)


@given(kinds, st.integers(1, 4), seeds)
def test_threads_change_no_answer(kind, threads, seed):
    a = of_kind(kind, 40, 3, 40, seed)
    before = torch.get_num_threads()
    wants = Wants(top_rows=3, bottom_columns=2, own_ranks=True)
    alone = survey(a.left, a.right.T, wants)
    try:
        torch.set_num_threads(threads)
        together = survey(a.left, a.right.T, wants)
    finally:
        torch.set_num_threads(before)
    assert torch.equal(alone.top_rows.ids, together.top_rows.ids)
    assert torch.equal(alone.top_rows.values, together.top_rows.values)
    assert torch.equal(alone.bottom_columns.ids, together.bottom_columns.ids)
    assert torch.equal(alone.own_ranks, together.own_ranks)
