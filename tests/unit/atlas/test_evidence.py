"""Evidence: what counts as a place, what the tables hold, what planted skip-trigrams are found to do."""

import numpy as np
import pytest
import torch
from tests.planted_atlas import AT, BAY, IN, KEEP, MIND, WORDS, all_rows, keeper, sayings

from headwater.atlas.agreement import Agreement, columns
from headwater.atlas.evidence import bigram_likelihoods, evidence
from headwater.atlas.places import Listed, Pairs, count, find
from headwater.circuits.tables import ov
from headwater.errors import InputError
from headwater.files.tables import read_table, write_table
from headwater.model.record import record
from headwater.text.corpus import Bigrams


def rows_of(*triples, head=0, lift=1.0):
    source, dest, out = (np.array(side) for side in zip(*triples, strict=True))
    same = np.ones(len(source))
    return Listed(np.full(len(source), head), source, dest, out, 0.5 * same, 2 * lift * same, lift * same)


@pytest.mark.parametrize(
    ("window", "triple", "chances", "occurs"),
    [
        ([1, 2, 3], (1, 2, 3), 1, 1),
        ([1, 9, 9, 2, 3], (1, 2, 3), 1, 1),
        ([1, 9, 2, 4], (1, 2, 3), 1, 0),
        ([2, 1, 3], (1, 2, 3), 0, 0),
        ([1, 1, 2, 3], (1, 2, 3), 1, 1),
        ([1, 2, 2, 3], (1, 2, 3), 2, 1),
        ([1, 2], (1, 2, 3), 0, 0),
        ([1], (1, 2, 3), 0, 0),
        ([1, 3, 9], (1, 1, 3), 0, 0),
        ([1, 9, 1, 3], (1, 1, 3), 1, 1),
        ([1, 1, 1, 1], (1, 1, 1), 2, 2),
    ],
)
def test_a_place_is_a_destination_with_the_source_before_it_and_something_after_it(window, triple, chances, occurs):
    found = count(np.array([window]), rows_of(triple), vocab=10)
    assert (found.chances.item(), found.occurs.item()) == (chances, occurs)


def test_places_do_not_reach_into_the_next_window():
    found = count(np.array([[1, 9, 9], [2, 3, 9]]), rows_of((1, 2, 3)), vocab=10)
    assert found.chances.item() == 0


def test_many_pairs_of_a_large_vocabulary_are_found_as_one_by_one():
    draw = np.random.default_rng(0)
    used = draw.integers(0, 50_000, 30)
    windows = draw.choice(used, (4, 40))
    rows = rows_of(*draw.integers(0, 50_000, (3000, 3)).tolist(), *draw.choice(used, (300, 3)).tolist())
    pairs, of_row = Pairs.of(rows, 50_000)
    found = find(windows, pairs)
    listed = set(zip(rows.source.tolist(), rows.dest.tolist(), strict=True))
    slow = {
        (window, at, before)
        for window, text in enumerate(windows.tolist())
        for at in range(39)
        for before in range(at)
        if (text[before], text[at]) in listed
    }
    place = np.repeat(np.arange(len(found.pair)), np.diff(found.start))
    looks = list(zip(found.window[place].tolist(), found.dest[place].tolist(), found.source.tolist(), strict=True))
    assert set(looks) == slow
    assert len(looks) == len(slow) > 100
    assert (pairs.keys[of_row] == rows.dest * 50_000 + rows.source).all()
    assert (windows[found.window, found.dest] == pairs.keys[found.pair] // 50_000).all()


def test_without_norms_a_contribution_is_pattern_times_output():
    weights, text = keeper(), sayings(6)
    rows = rows_of((KEEP, IN, MIND), (KEEP, AT, MIND), (KEEP, AT, BAY))
    found = evidence(weights, text, rows)
    pattern = record(weights, torch.from_numpy(text))["L0.pattern"][:, 0]
    output = ov(weights, "L0H0").centred_rows()
    said = (output.left @ output.right)[KEEP]
    for row in range(3):
        places = [(w, at) for w, at in np.argwhere(text == rows.dest[row]) if KEEP in text[w, :at]]
        paid = [float(pattern[w, at][: int(at)][torch.from_numpy(text[w, :at]) == KEEP].sum()) for w, at in places]
        assert found.attention[row] == pytest.approx(np.mean(paid), rel=1e-12)
        assert found.measured[row] == pytest.approx(np.mean(paid) * float(said[rows.out[row]]), rel=1e-12)


def test_planted_skip_trigrams_occur_fire_and_pay():
    weights, text = keeper(), sayings(60)
    shares = np.bincount(text.ravel(), minlength=len(WORDS)) / text.size
    rows = all_rows(weights, shares, others=23)
    found = evidence(weights, text, rows)
    best = np.argsort(-found.nats, kind="stable")[:2]
    assert {(rows.dest[row], rows.out[row]) for row in best} == {(IN, MIND), (AT, BAY)}
    assert (found.occurs[best] == found.chances[best]).all()
    assert (found.fires[best] == found.chances[best]).all()
    [agreement] = found.agreement
    assert agreement.rows == (found.chances >= 5).sum() > agreement.raising_rows > 10
    seeks = np.isin(rows.dest, (IN, AT)) & (rows.lift > 0)
    assert found.measured[seeks].min() > np.nanmax(found.measured[~seeks])


def test_quotations_have_the_text_around_both_tokens():
    text = np.array([[5, 6, 7, 8, 9, KEEP, 10, 11, 12, 13, 14, 15, 16, 17, 18, IN, MIND, 19, 6, 7, 8]])
    quoted = evidence(keeper(), text, rows_of((KEEP, IN, MIND), (KEEP, AT, BAY))).quotations
    assert (quoted.row.tolist(), quoted.source_position.tolist(), quoted.dest_position.tolist()) == ([0], [5], [15])
    assert quoted.before == ["6 7 8 9"]
    assert quoted.between == ["10 11 12 13 … 15 16 17 18"]
    assert quoted.after == [f"{MIND} 19 6 7"]
    close = evidence(keeper(), np.array([[KEEP, 5, IN, MIND]]), rows_of((KEEP, IN, MIND))).quotations
    assert (close.before, close.between, close.after) == ([""], ["5"], [str(MIND)])


def test_columns_go_into_tables_and_come_back(tmp_path):
    found = evidence(keeper(), sayings(8), rows_of((KEEP, IN, MIND), (KEEP, 5, 6), (6, 6, 6)))
    for number, given in enumerate((found.columns(), found.quotations.columns(), columns(found.agreement))):
        write_table(tmp_path / f"{number}.parquet", given)
        back = read_table(tmp_path / f"{number}.parquet")
        assert list(back) == list(given)
        for name, column in given.items():
            expected = list(column) if not isinstance(column, np.ndarray) else column
            np.testing.assert_array_equal(back[name], expected)
    assert found.columns()["nats_per_thousand"][0] == pytest.approx(found.nats[0] * 1000 / (8 * 24))


def test_a_head_without_an_order_has_no_correlation(tmp_path):
    one = Agreement(head=3, rows=1, lift=None, expected=None, raising_rows=0, raising_lift=None, raising_expected=None)
    write_table(tmp_path / "agreement.parquet", columns([one]))
    assert np.isnan(read_table(tmp_path / "agreement.parquet")["lift"]).all()


def test_the_same_rows_and_text_give_the_same_bits():
    weights, text = keeper(), sayings(10)
    rows = all_rows(weights, np.full(len(WORDS), 1 / len(WORDS)), others=23)
    first, second = (evidence(weights, text, rows).columns() for _ in range(2))
    assert all(first[name].tobytes() == second[name].tobytes() for name in first)


def test_rows_that_nobody_listed_are_no_trouble():
    nothing = Listed.of({name: np.zeros(0) for name in ("head", "source", "dest", "out", "attention", "output", "lift")})
    found = evidence(keeper(), sayings(2), nothing)
    assert len(found.chances) == 0
    assert found.agreement == ()
    assert found.quotations.before == []
    assert len(count(sayings(2), nothing, vocab=len(WORDS)).chances) == 0


def test_half_precision_is_measured_in_float32():
    text, rows = sayings(10), rows_of((KEEP, IN, MIND))
    half, whole = (evidence(keeper().to(dtype=dtype), text, rows) for dtype in (torch.bfloat16, torch.float64))
    assert half.measured == pytest.approx(whole.measured, rel=1e-5)


def test_ids_that_the_model_does_not_have_are_refused():
    with pytest.raises(InputError, match="token id 99"):
        evidence(keeper(), np.array([[1, 99, 2]]), rows_of((KEEP, IN, MIND)))


def test_progress_ends_with_all_of_it():
    told = []
    evidence(keeper(), sayings(5), rows_of((KEEP, IN, MIND)), told.append)
    assert told[-1] == 1.0


def test_likelihoods_of_bigrams_are_those_of_the_corpus():
    draw = np.random.default_rng(0)
    table = draw.integers(0, 4, (6, 6)) * (draw.random((6, 6)) < 0.5)
    table[3] = 0
    first, second = table.nonzero()
    pairs = Bigrams(first.astype("u4"), second.astype("u4"), table[first, second])
    token, out = (each.ravel().astype("u4") for each in np.meshgrid(range(7), range(7), indexing="ij"))
    found = bigram_likelihoods(pairs, token, out)
    for number, (a, b) in enumerate(zip(token.tolist(), out.tolist(), strict=True)):
        times = int(table[a, b]) if a < 6 and b < 6 else 0
        assert found["count"][number] == times
        if times:
            assert found["log_likelihood"][number] == pytest.approx(np.log(times / table[a].sum()), rel=1e-14)
        else:
            assert np.isnan(found["log_likelihood"][number])


def test_a_corpus_without_pairs_has_no_likelihoods():
    nothing = Bigrams(np.zeros(0, "u4"), np.zeros(0, "u4"), np.zeros(0, np.int64))
    found = bigram_likelihoods(nothing, np.array([1, 2]), np.array([3, 4]))
    assert found["count"].tolist() == [0, 0]
    assert np.isnan(found["log_likelihood"]).all()
