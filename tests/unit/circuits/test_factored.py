"""What ``Factored`` refuses, what it prints, and the cases that no random matrix shows."""

import math
import subprocess
import sys

import pytest
import torch

from headwater.circuits.factored import Factored
from headwater.circuits.head import Head, every_head, find_head
from headwater.circuits.streamed import exact, staircase, tiles
from headwater.circuits.streamed.scan import Kept, Scan, Wants
from headwater.circuits.streamed.survey import survey
from headwater.errors import InputError
from headwater.model.config import Attention, ModelConfig

CONFIG = ModelConfig(vocab=50, context=16, d_model=8, layers=2, attention=Attention(heads=3, d_head=4))


def gauss(*shape, seed=0, dtype=torch.float32):
    return torch.randn(*shape, generator=torch.Generator().manual_seed(seed), dtype=torch.float64).to(dtype)


def test_factors_that_do_not_fit_are_refused():
    # In a process of its own: here jaxtyping would be faster.
    code = "import torch; from headwater.circuits.factored import Factored; Factored(torch.ones(3, 2), torch.ones(3, 4))"
    told = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=False)
    assert "InputError: factors [3, 2] and [3, 4]" in told.stderr
    with pytest.raises(InputError, match="float16"):
        Factored(torch.ones(3, 2, dtype=torch.float16), torch.ones(2, 3, dtype=torch.float16))
    a = Factored(gauss(3, 2), gauss(2, 4))
    with pytest.raises(InputError, match="4 columns and 3 rows"):
        a @ a
    with pytest.raises(InputError, match="one shape"):
        a + Factored(gauss(4, 2), gauss(2, 4))


@pytest.mark.parametrize("name", ["trace", "eigenvalues", "own_ranks"])
def test_what_needs_a_square_matrix_says_so(name):
    with pytest.raises(InputError, match="as many rows as columns"):
        getattr(Factored(gauss(3, 2), gauss(2, 4)), name)()


@pytest.mark.parametrize("ids", [[4], [-1], [0, 99]])
def test_ids_that_are_not_there_are_refused(ids):
    with pytest.raises(InputError, match="from 0 to 3"):
        Factored(gauss(4, 2), gauss(2, 4)).rows(ids)


@pytest.mark.parametrize(
    "ask", [lambda a: a.top(0), lambda a: a.top_rows(0), lambda a: a.bottom_rows(-1), lambda a: a.bottom(0)]
)
def test_asking_for_nothing_is_refused(ask):
    with pytest.raises(InputError, match="from 1 on"):
        ask(Factored(gauss(4, 2), gauss(2, 4)))


@pytest.mark.parametrize("bad", [math.nan, math.inf])
def test_numbers_that_are_none_are_refused(bad):
    a = Factored(gauss(4, 2), torch.tensor([[1.0, bad], [0.0, 1.0]]))
    for ask in (lambda: a.top_rows(1), lambda: a.top(1)):
        with pytest.raises(InputError, match="finite"):
            ask()


def test_weights_that_are_no_distribution_are_refused():
    a = Factored(gauss(4, 2), gauss(2, 4))
    for weights in (torch.ones(3), -torch.ones(4)):
        with pytest.raises(InputError, match="4 columns"):
            a.logsumexp(weights)


def test_more_than_there_is_gives_all_there_is():
    a = Factored(gauss(3, 2), gauss(2, 4))
    assert a.top_rows(99).ids.shape == (3, 4)
    assert len(a.top(99)) == 12
    assert a.top_rows(99).margin == math.inf


@pytest.mark.parametrize("scale", [1e-30, 1e30, 1e-44])
def test_sizes_that_float32_products_cannot_have_change_no_order(scale):
    a = Factored(gauss(20, 3) * scale, gauss(3, 20, seed=1) * scale)
    truth = a.left.double() @ a.right.double()
    order = truth.sort(dim=1, descending=True, stable=True).indices
    assert a.top_rows(3).ids.tolist() == order[:, :3].tolist()
    assert a.own_ranks().tolist() == [row.index(i) for i, row in enumerate(order.tolist())]
    assert a.top(2).values.tolist() == pytest.approx(truth.flatten().topk(2).values.tolist(), rel=1e-12)


def test_one_token_that_all_others_equal_is_found_by_its_id():
    a = Factored(torch.ones(2000, 3), torch.ones(3, 2000))
    assert a.top_rows(3).ids[1234].tolist() == [0, 1, 2]
    assert a.own_ranks()[:4].tolist() == [0, 1, 2, 3]
    assert [(row, column) for row, column, _ in a.top(3)] == [(0, 0), (0, 1), (0, 2)]


def test_a_flood_of_equal_entries_ends_in_the_first_ones(monkeypatch):
    monkeypatch.setattr(staircase, "FLOOD", 50)
    left, right = gauss(5, 2).repeat(30, 1), gauss(5, 2, seed=1).repeat(30, 1)
    found = staircase.top(left, right, 40)
    values = (left.double()[:, None] * right.double()).cumsum(dim=2)[:, :, -1].flatten()
    order = sorted(range(len(values)), key=lambda i: (-float(values[i]), i))[:40]
    assert [divmod(i, 150) for i in order] == list(zip(found.rows.tolist(), found.columns.tolist(), strict=True))


def test_a_kernel_that_misses_the_best_is_found_out_by_its_own_ceiling():
    a = Factored(gauss(30, 3), gauss(3, 200, seed=1))

    def careless(left, right, wants, progress):
        kept = tiles.scan(left, right, wants, progress).top_rows
        wrong = torch.arange(10).repeat(len(left), 1)
        best = kept.ids[:, :1]
        # It admits how large an entry was left out.
        return Scan(top_rows=Kept(wrong, (left * right[best[:, 0]]).sum(dim=1).double() + 1e-3))

    found = survey(a.left, a.right.T, Wants(top_rows=2), kernel=careless).top_rows
    assert found.ids.tolist() == (a.left.double() @ a.right.double()).topk(2, dim=1).indices.tolist()


def test_progress_ends_at_one():
    told = []
    a = Factored(gauss(300, 3), gauss(3, 300, seed=1))
    survey(a.left, a.right.T, Wants(top_rows=2), told.append, kernel=lambda *x: tiles.scan(*x, entries=3000))
    assert told == sorted(told)
    assert told[-1] == 1.0
    assert len(told) == 30


def test_values_have_the_same_bits_alone_and_among_others():
    left, right = gauss(50, 7), gauss(60, 7, seed=1)
    rows, columns = torch.arange(50).repeat_interleave(60), torch.arange(60).repeat(50)
    whole = exact.dots(left, right, rows, columns)
    alone = torch.cat([exact.dots(left, right, rows[i : i + 1], columns[i : i + 1]) for i in range(0, 3000, 37)])
    assert torch.equal(whole[::37], alone)


def test_heads_have_names():
    assert str(find_head("L1H2", CONFIG)) == "L1H2"
    assert find_head((0, 1), CONFIG) == find_head(Head(0, 1), CONFIG) == find_head(" l0h1 ", CONFIG)
    assert [str(head) for head in every_head(CONFIG)] == ["L0H0", "L0H1", "L0H2", "L1H0", "L1H1", "L1H2"]


@pytest.mark.parametrize("name", ["L2H0", "L0H3", "H0", "", "L0H٣", (0, -1)])
def test_heads_that_are_not_there_are_refused(name):
    with pytest.raises(InputError):
        find_head(name, CONFIG)


@pytest.mark.parametrize("name", [(0,), (0.0, 1.0), (True, False), ("a", "b"), [0, 1, 2]])
def test_what_is_no_name_of_a_head_is_told_as_such(name):
    told = _outside(f"from headwater.circuits.head import find_head; find_head({name!r}, {CONFIG_CODE})")
    assert "InputError" in told
    assert "as a head" in told


CONFIG_CODE = "__import__('headwater').named('one-layer')"


def _outside(code):
    """What a process says in which nobody checks types before we do."""
    return subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=False).stderr


@pytest.mark.parametrize(
    "asked",
    [
        "a.rows(torch.ones(4, dtype=torch.bool))",
        "a.rows([1.5])",
        "a.rows(3)",
        "a.entries([1, 2], [3])",
        "a.top(2.5)",
        "a.top_rows('3')",
        "a.top_rows(2).line(-1)",
        "a.top_rows(2).line(99)",
        "a @ torch.ones(4, dtype=torch.float64)",
        "a @ torch.ones(4, 4, 4)",
        "a.weighted(rows=torch.ones(3))",
        "a.rank(-1.0)",
        "a.rank(float('nan'))",
        "a.logsumexp(torch.full((4,), float('inf')))",
    ],
)
def test_nonsense_is_told_and_never_answered(asked):
    code = f"import torch; from headwater.circuits.factored import Factored; a = Factored(torch.eye(4), torch.eye(4)); {asked}"
    assert "InputError" in _outside(code), asked


@pytest.mark.parametrize("asked", ["a @ [1, 2]", "a + 1", "a / None", "[1] @ a"])
def test_operators_leave_what_they_do_not_know_to_python(asked):
    a = Factored(torch.eye(4), torch.eye(4))
    with pytest.raises(TypeError, match="unsupported operand"):
        eval(asked, {"a": a})


def test_entries_sums_and_quotients_as_python_writes_them():
    a = Factored(gauss(4, 2), gauss(2, 4))
    assert a[1, 3] == pytest.approx(float(a.dense()[1, 3]))
    assert torch.allclose((sum([a, a]) / 2).dense(), a.dense())
