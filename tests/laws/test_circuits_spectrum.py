"""Spectra, cores and chance: against dense algebra, against circuits made one by one, against rotations drawn whole."""

from dataclasses import replace

import numpy as np
import pytest
import torch
from hypothesis import given, settings
from hypothesis import strategies as st

from headwater.circuits.chance import Draws, chance, corners, scores
from headwater.circuits.cores import joined_ov_cores, ov_cores, ov_families, qk_cores
from headwater.circuits.factored import Factored
from headwater.circuits.families import Family, core, r_factor
from headwater.circuits.head import every_head
from headwater.circuits.spectrum import distribution, effective_rank, spectrum
from headwater.circuits.tables import ov, qk
from headwater.errors import InputError
from headwater.model.config import Attention, ModelConfig, RotaryPositions, Unembedding
from strategies import configs, random_weights, seeds

CLOSE = {"rtol": 1e-9, "atol": 1e-9}


def gaussian(seed, *shape):
    return torch.randn(shape, generator=torch.Generator().manual_seed(seed), dtype=torch.float64)


def same_set(ours, theirs):
    """The same complex numbers, whatever their order and however many zeros come on top."""
    size = max(len(ours), len(theirs))
    ours, theirs = (torch.cat([each, each.new_zeros(size - len(each))]) for each in (ours, theirs))
    scale = 1 + float(theirs.abs().max()) if size else 1
    # A zero eigenvalue that is defective is found to the square root of rounding only.
    left = theirs.tolist()
    for value in ours.tolist():
        nearest = min(left, key=lambda other: abs(other - value))
        assert abs(nearest - value) < 1e-6 * scale
        left.remove(nearest)


def same_singular_values(ours, theirs):
    size = max(len(ours), len(theirs))
    ours, theirs = (torch.cat([each, each.new_zeros(size - len(each))]) for each in (ours, theirs))
    torch.testing.assert_close(ours, theirs, rtol=1e-8, atol=1e-8 * (1 + float(theirs.max())))


def rotation(generator, size):
    """A whole rotation (or reflection), uniformly drawn."""
    q, r = np.linalg.qr(generator.standard_normal((size, size)))
    return torch.from_numpy(q * np.sign(np.diagonal(r)))


@given(
    seed=seeds, vocab=st.integers(1, 12), d_model=st.integers(1, 8), inner=st.integers(1, 5), circuits=st.integers(1, 3),
    tied=st.booleans(),
)  # fmt: skip
@settings(max_examples=40, deadline=None)
def test_the_cores_of_a_family_are_those_of_its_dense_circuits(seed, vocab, d_model, inner, circuits, tied):
    rows, columns = gaussian(seed, vocab, d_model), gaussian(seed + 1, d_model, vocab)
    family = Family(
        rows,
        gaussian(seed + 2, circuits, d_model, inner),
        gaussian(seed + 3, circuits, inner, d_model),
        rows.T if tied else columns,
    )
    for number, found in enumerate(family.cores()):
        dense = family[number].dense()
        for ours, table in ((found.raw, dense), (found.centred, dense - dense.mean(dim=1, keepdim=True))):
            same_set(ours.eigenvalues, torch.linalg.eigvals(table))
            same_singular_values(ours.singular_values, torch.linalg.svdvals(table))
            assert ours.norm == pytest.approx(float(table.norm()), abs=1e-9)
            assert ours.trace == pytest.approx(float(table.trace()), abs=1e-9)
        once_round = family.columns @ family.rows @ family.left[number] @ family.right[number]
        same_singular_values(found.raw.loop, torch.linalg.svdvals(once_round))
    torch.testing.assert_close(family.norms(), torch.stack([family[n].dense().norm() for n in range(circuits)]), **CLOSE)


@given(config=configs(layers=st.integers(1, 3)), seed=seeds)
@settings(max_examples=30, deadline=None)
def test_the_cores_of_all_heads_are_those_of_their_tables_in_any_model(config, seed):
    weights = random_weights(config, seed)
    offset = 1 if isinstance(config.positions, RotaryPositions) else 0
    writing, scoring = ov_cores(weights), qk_cores(weights, offset=offset)
    assert list(writing) == list(scoring) == every_head(config)
    for head in every_head(config):
        tables = [(writing[head], ov(weights, head)), (scoring[head], qk(weights, head, offset=offset or None))]
        for ours, table in tables:
            for mine, yours in ((ours.raw, core(table)), (ours.centred, core(table.centred_rows()))):
                same_set(mine.eigenvalues, yours.eigenvalues)
                same_singular_values(mine.singular_values, yours.singular_values)
                assert mine.size == config.vocab


@given(config=configs(layers=st.integers(1, 2)), seed=seeds)
@settings(max_examples=20, deadline=None)
def test_heads_joined_have_the_core_of_their_sum(config, seed):
    weights, heads = random_weights(config, seed), every_head(config)
    joined = joined_ov_cores(weights, heads)
    together = Factored.sum([ov(weights, head) for head in heads])
    same_set(joined.raw.eigenvalues, core(together).eigenvalues)
    same_singular_values(joined.centred.singular_values, core(together.centred_rows()).singular_values)


@given(seed=seeds)
@settings(max_examples=10, deadline=None)
def test_an_invertible_change_inside_a_head_leaves_its_core(seed):
    config = ModelConfig(vocab=9, context=4, d_model=6, layers=1, attention=Attention(heads=2, d_head=3))
    weights = random_weights(config, seed)
    change = torch.eye(3, dtype=torch.float64) + 0.2 * gaussian(seed, 3, 3)
    attention = weights.blocks[0].attention
    changed = weights.changed(
        {"blocks.0.attn.W_V": attention.W_V @ change, "blocks.0.attn.W_O": torch.linalg.solve(change, attention.W_O)}
    )
    for ours, theirs in zip(ov_cores(weights).values(), ov_cores(changed).values(), strict=True):
        same_set(ours.raw.eigenvalues, theirs.raw.eigenvalues)
        same_singular_values(ours.raw.loop, theirs.raw.loop)


@pytest.mark.parametrize("condition", [1e1, 1e6, 1e12])
def test_singular_values_hold_however_badly_conditioned_an_embedding_is(condition):
    """A Cholesky factor squares the condition; it must give way to QR in time."""
    spread = torch.logspace(0, -float(np.log10(condition)), 6, dtype=torch.float64)
    rows = torch.linalg.qr(gaussian(0, 50, 6))[0] * spread @ torch.linalg.qr(gaussian(1, 6, 6))[0]
    factor = r_factor(rows, rows.T @ rows)
    expected = torch.linalg.svdvals(rows)
    torch.testing.assert_close(torch.linalg.svdvals(factor), expected, rtol=1e-8, atol=1e-14)


def test_a_phase_is_found_with_its_sign():
    """A planted rotation by θ has eigenvalues exp(±iθ): cos θ is what a score is made of, not |λ|."""
    for theta in (0.3, 2.0, 3.0):
        turn = torch.tensor([[np.cos(theta), np.sin(theta)], [-np.sin(theta), np.cos(theta)]])
        family = Family(torch.eye(5).double()[:, :2], torch.eye(2).double()[None], turn[None], torch.eye(5).double()[:2])
        values = family.eigenvalues()[0]
        assert sorted(values.angle().tolist()) == pytest.approx([-theta, theta])
        assert float(scores(values)) == pytest.approx(np.cos(theta))


@given(seed=seeds, vocab=st.integers(2, 12), inner=st.integers(1, 5))
@settings(max_examples=25, deadline=None)
def test_the_directions_of_a_spectrum_add_up_to_its_table(seed, vocab, inner):
    table = Factored(gaussian(seed, vocab, inner), gaussian(seed + 1, inner, vocab))
    counts = torch.arange(1.0, vocab + 1)
    centred = table.dense() - table.dense().mean(dim=1, keepdim=True)
    shares = counts.double() / counts.double().sum()
    for kind, dense in (("raw", table.dense()), ("centred", centred), ("weighted", shares.sqrt()[:, None] * centred)):
        found = spectrum(table, kind, frequencies=counts, directions=vocab, tokens=vocab)
        total = torch.zeros_like(dense)
        for direction in found.directions:
            reads, writes = torch.zeros(2, vocab, dtype=torch.float64)
            reads[list(direction.reads.ids)] = torch.tensor(direction.reads.weights, dtype=torch.float64)
            writes[list(direction.writes.ids)] = torch.tensor(direction.writes.weights, dtype=torch.float64)
            total += direction.strength * torch.outer(reads, writes)
            assert max(direction.writes.weights, key=abs) > 0
        torch.testing.assert_close(total, dense, rtol=1e-6, atol=1e-7)
        assert found.norm == pytest.approx(float(dense.norm()))
        same_singular_values(torch.tensor(found.singular_values, dtype=torch.float64), torch.linalg.svdvals(dense))


@given(seed=seeds, constant=st.floats(-50, 50))
@settings(max_examples=20, deadline=None)
def test_a_constant_on_each_row_changes_the_raw_spectrum_and_nothing_that_a_softmax_sees(seed, constant):
    """001-L2: what the largest singular value is called for can be changed at will without changing one probability."""
    table = Factored(gaussian(seed, 10, 3), gaussian(seed + 1, 3, 10))
    ones = torch.ones(1, 10, dtype=torch.float64)
    shifted = table + Factored((constant + 60) * gaussian(seed + 2, 10, 1).abs() + 20, ones)
    before, after = table.dense().softmax(dim=1), shifted.dense().softmax(dim=1)
    torch.testing.assert_close(before, after, rtol=1e-9, atol=1e-12)
    assert spectrum(shifted).singular_values[0] > 1.5 * spectrum(table).singular_values[0]
    for kind in ("centred", "weighted"):
        mine, yours = (spectrum(each, kind, frequencies=torch.arange(1.0, 11.0)) for each in (table, shifted))
        assert list(yours.singular_values[:3]) == pytest.approx(list(mine.singular_values), rel=1e-8)
        assert yours.directions[0].writes.ids[:2] == mine.directions[0].writes.ids[:2]


def test_a_token_that_hardly_occurs_owns_the_centred_spectrum_but_not_the_weighted_one():
    """001-L2: singular vectors do not know how often a row is used."""
    left = gaussian(0, 20, 4)
    left[7] *= 1000
    table, counts = Factored(left, gaussian(1, 4, 20)), torch.ones(20)
    counts[7] = 1e-9
    first = spectrum(table, "centred").directions[0].reads
    assert first.ids[0] == 7
    assert abs(first.weights[0]) > 0.99
    weighted = spectrum(table, "weighted", frequencies=counts).directions[0].reads
    assert 7 not in weighted.ids[:5]


def test_frequencies_that_are_none_are_refused():
    for bad in (torch.ones(3), -torch.ones(4), torch.zeros(4), torch.tensor([1.0, float("nan"), 1.0, 1.0])):
        with pytest.raises(InputError):
            distribution(bad, 4)
    with pytest.raises(InputError):
        spectrum(Factored(torch.eye(4), torch.eye(4)), "weighted")


def test_the_effective_rank_counts_equal_directions():
    assert effective_rank(torch.ones(7)) == pytest.approx(7)
    assert effective_rank(torch.tensor([3.0, 0.0])) == pytest.approx(1)
    assert effective_rank(torch.zeros(3)) == 0


@pytest.mark.parametrize(("rank", "dims"), [(1, 1), (3, 3), (2, 3), (2, 5), (3, 9)])
def test_corners_are_those_of_whole_rotations(rank, dims):
    """Means of entries, of their squares and fourth powers and of products are those of a uniformly drawn rotation, exactly known."""
    drawn = corners(rank, dims, 40_000, seed=1)
    assert float(torch.linalg.matrix_norm(drawn, ord=2).max()) <= 1 + 1e-9

    def on_the_average(values, expected):
        error = values.std(dim=0) / len(values) ** 0.5
        assert bool(((values.mean(dim=0) - expected).abs() <= 5 * error + 1e-9).all())

    on_the_average(drawn, 0)
    on_the_average(drawn**2, 1 / dims)
    on_the_average(drawn**4, 3 / (dims * (dims + 2)))
    if rank > 1:
        # Entries of a rotation are not independent: E[q11² q22²] = (n + 1) / ((n − 1) n (n + 2)).
        on_the_average(drawn[:, 0, 0] ** 2 * drawn[:, 1, 1] ** 2, (dims + 1) / ((dims - 1) * dims * (dims + 2)))


def test_chance_is_what_turning_the_tokens_at_random_gives():
    """The closed forms and the drawn quantiles, against 1,500 rotations of the whole token space."""
    generator = np.random.default_rng(0)
    circuit = Factored(gaussian(2, 30, 4), gaussian(3, 4, 30))
    turned = torch.stack([torch.linalg.eigvals(circuit.right @ rotation(generator, 30) @ circuit.left) for _ in range(1500)])
    traces = turned.real.sum(dim=1)
    found = chance(circuit.singular_values(), 30, Draws(4000))
    assert found.radius == pytest.approx(circuit.norm() / 30**0.5)
    assert float(traces.mean()) == pytest.approx(0, abs=4 * found.radius / 1500**0.5)
    assert float(traces.std()) == pytest.approx(found.radius, rel=0.08)
    low, high = torch.quantile(scores(turned), torch.tensor([0.05, 0.95], dtype=torch.float64)).tolist()
    assert (found.score.low, found.score.high) == (pytest.approx(low, abs=0.05), pytest.approx(high, abs=0.05))
    assert found.score.mean == pytest.approx(0, abs=0.03)
    assert found.positive.mean == pytest.approx(0.5, abs=0.03)


def test_random_eigenvalues_fill_the_disc_whose_radius_chance_gives():
    """Of a flat spectrum: uniformly, so that |λ|² is on the average half the radius squared, and none is far outside."""
    drawn = torch.linalg.eigvals(corners(60, 5000, 40, seed=0) * 3.0)
    radius = chance(torch.full((60,), 3.0), 5000, Draws(2)).radius
    assert float((drawn.abs() ** 2).mean()) / radius**2 == pytest.approx(0.5, abs=0.03)
    assert float(drawn.abs().max()) < 1.35 * radius
    assert float((drawn.abs() > radius).double().mean()) < 0.08


def test_chance_in_the_stream_is_what_turning_a_heads_writes_gives():
    config = ModelConfig(
        vocab=40, context=4, d_model=10, layers=1, attention=Attention(heads=1, d_head=3), unembedding=Unembedding(tied=True)
    )
    weights = random_weights(config, 5)
    family, generator = ov_families(weights)[0].family, np.random.default_rng(0)
    turned = [replace(family, right=family.right @ rotation(generator, 10)) for _ in range(1500)]
    values = torch.cat([each.eigenvalues() for each in turned])
    found = family.cores()[0].raw
    expected = chance(found.loop, found.width, Draws(4000))
    assert float(values.real.sum(dim=1).std()) == pytest.approx(expected.radius, rel=0.08)
    low, high = torch.quantile(scores(values), torch.tensor([0.05, 0.95], dtype=torch.float64)).tolist()
    assert (expected.score.low, expected.score.high) == (pytest.approx(low, abs=0.06), pytest.approx(high, abs=0.06))
    # In a tied model any head is far from what turning the tokens would give, and none is from what turning heads gives.
    tokens = chance(found.singular_values, found.size, Draws(100))
    assert float(values.real.sum(dim=1).std()) > 1.5 * tokens.radius


def test_draws_repeat_with_their_seed_and_differ_without():
    strengths = torch.tensor([3.0, 1.0])
    assert chance(strengths, 9, Draws(50, seed=1)) == chance(strengths, 9, Draws(50, seed=1))
    assert chance(strengths, 9, Draws(50, seed=1)) != chance(strengths, 9, Draws(50, seed=2))
    with pytest.raises(InputError):
        chance(torch.ones(5), 4)
    with pytest.raises(InputError):
        Draws(1)
