import json
from dataclasses import replace
from itertools import pairwise

import numpy as np
import pytest
import torch

from headwater.errors import InputError
from headwater.model.config import Attention, LearnedPositions, ModelConfig
from headwater.model.weights import Weights
from headwater.train.plan import Plan
from headwater.train.studies import bigram
from headwater.train.studies.pairs import Pairs
from headwater.train.studies.zero_layer import zero_layer
from stdlib_text import characters

PLAN = Plan(steps=600, batch=128, learning_rate=0.03, warmup=20, final_rate=0.01, beta_2=0.99)


@pytest.fixture(scope="module")
def study():
    ids, vocab = characters()
    return bigram.train_and_run(ids, vocab, PLAN, d_model=vocab)


def test_a_trained_zero_layer_model_is_the_bigram_table_of_its_text(study):
    last = study.fits[-1]
    assert study.rows > 50
    assert 0 <= last.excess < 0.005 * study.entropy
    assert last.mean_kl < 0.01
    assert last.correlation > 0.999


def test_logits_of_pairs_that_never_occur_go_on_falling(study):
    gaps = [fit.gap for fit in study.fits if fit.step >= 16]
    assert all(later > earlier for earlier, later in pairwise(gaps))
    assert study.fits[-1].unseen_mass < study.fits[0].unseen_mass / 100


def test_a_narrow_model_stays_above_the_entropy():
    ids, vocab = characters()
    plan = Plan(steps=200, batch=32, learning_rate=0.03, warmup=20, final_rate=0.01, beta_2=0.99)
    narrow = bigram.train_and_run(ids, vocab, plan, d_model=4)
    assert narrow.fits[-1].excess > 0.05 * narrow.entropy


def test_the_outcome_is_a_row_and_a_point_for_each_snapshot_and_plain_data(study):
    assert [fit.step for fit in study.fits] == [0, 1, 2, 4, 8, 16, 32, 64, 128, 256, 512, 600]
    text, along = study.tables()
    assert all(len(row) == len(table.columns) for table in (text, along) for row in table.rows)
    assert len(along.rows) == len(study.fits)
    plain = json.loads(json.dumps(study.plain(), allow_nan=False))
    assert plain["fits"][-1]["excess"] == study.fits[-1].excess
    for panel in study.curves():
        assert all(len(line.x) == len(line.y) == len(study.fits) for line in panel.lines)


def test_no_square_of_the_vocabulary_is_made():
    vocab = 300_000  # its square would take 720 GB
    ids = np.random.default_rng(0).integers(0, vocab, 40)
    pairs = Pairs.of(ids, vocab)
    found = bigram.fit(Weights.draw(zero_layer(vocab, 2), seed=0), pairs, often=1)
    assert found.excess == pytest.approx(found.loss - pairs.entropy)
    with pytest.raises(InputError, match="square table of 300,000"):
        _ = pairs.table


def test_the_direct_path_of_a_larger_model_is_called_so():
    attention = ModelConfig(vocab=5, context=4, d_model=4, layers=1, attention=Attention(heads=1, d_head=2))
    placed = ModelConfig(vocab=5, context=4, d_model=4, layers=0, positions=LearnedPositions())
    pairs = Pairs.of(np.array([0, 1, 2, 3, 4, 0]), 5)
    for config in (attention, placed):
        study = bigram.run([(0, Weights.draw(config, seed=0))], pairs)
        assert not study.whole
        assert "the direct path alone" in study.tables()[0].rows[0][1]
    assert bigram.run([(0, Weights.draw(zero_layer(5, 4), seed=0))], pairs).whole


def test_where_no_token_is_seen_often_there_is_no_mean():
    study = bigram.run([(0, Weights.draw(zero_layer(3, 2), seed=0))], Pairs.of(np.array([0, 1, 2, 0]), 3), often=10)
    (fit,) = study.fits
    assert (study.rows, fit.mean_kl, fit.weighted_kl, fit.largest_kl) == (0, None, None, None)
    assert "–" in study.tables()[1].rows[0]
    json.dumps(study.plain(), allow_nan=False)


def test_what_does_not_fit_is_refused():
    weights, pairs = Weights.draw(zero_layer(4, 2), seed=0), Pairs.of(np.array([0, 1, 2]), 3)
    with pytest.raises(InputError, match="a model of 4 tokens and a text of 3"):
        bigram.fit(weights, pairs)
    with pytest.raises(InputError, match="no model"):
        bigram.run([], pairs)
    with pytest.raises(InputError, match="without a single pair"):
        Pairs.of(np.array([1]), 3)


def test_pairs_are_counted():
    ids = np.random.default_rng(0).integers(0, 5, 300)
    pairs = Pairs.of(ids.astype(np.uint16), 5)
    table = torch.zeros(5, 5, dtype=torch.float64)
    for first, second in pairwise(ids):
        table[first, second] += 1
    assert torch.equal(pairs.table, table)
    assert torch.equal(pairs.seen, table.sum(dim=1))
    p = table / table.sum()
    assert pairs.entropy == pytest.approx(float(-(p * (p / p.sum(dim=1, keepdim=True)).log()).sum()))


def test_a_text_that_leaves_nothing_open_has_no_minus_zero():
    pairs = Pairs.of(np.array([0, 1, 0, 1, 0]), 2)
    study = bigram.run([(0, Weights.draw(zero_layer(2, 4), seed=0))], pairs, often=1)
    assert not np.signbit(study.entropy)
    known = replace(study.fits[0], excess=-1e-9, mean_kl=-1e-9, gap=-1e-9)
    words = [word for table in replace(study, entropy=-1e-17, fits=(known,)).tables() for row in table.rows for word in row]
    assert "0.0000 nats" in words
    assert not [word for word in words if word.startswith("-0.0")]
