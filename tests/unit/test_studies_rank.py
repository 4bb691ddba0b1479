import json

import numpy as np
import pytest

from headwater.train.plan import Plan
from headwater.train.studies import rank
from stdlib_text import characters


@pytest.fixture(scope="module")
def study():
    ids, vocab = characters()
    plan = Plan(steps=300, batch=64, learning_rate=0.05, warmup=20, final_rate=0.01, beta_2=0.99)
    return rank.run(ids, vocab, plan, widths=(4, 24, vocab))


def test_the_loss_follows_the_rank_limit(study):
    limits = [width.limit for width in study.widths]
    assert limits == sorted(limits, reverse=True)
    assert limits[0] > 0.2
    assert limits[-1] < 0.001
    for width in study.widths:
        assert -1e-3 < width.trained - width.limit < 0.02
        assert width.limit < width.truncated


def test_the_bound_holds_at_every_width(study):
    assert all(width.truncated_distance <= width.bound + 1e-9 for width in study.widths)
    for precision in study.precisions:
        enough = [width for width in study.widths if width.d_model >= precision.bound]
        assert enough
        assert all(width.truncated_distance <= precision.epsilon for width in enough)


def test_fewer_dimensions_than_large_singular_values_reach_a_precision_on_real_text(study):
    fine = study.precisions[-2]
    assert fine.epsilon == 0.1
    assert fine.reached < fine.rank


def test_two_dimensions_write_a_table_of_full_rank():
    found = rank.circle(50, 2000.0)
    assert (found.d_model, found.rank) == (2, 50)
    assert found.distance < 1e-5


def test_the_outcome_is_tables_and_plain_data(study):
    assert [width.parameters for width in study.widths] == [2 * study.vocab * width.d_model for width in study.widths]
    for table in study.tables():
        assert all(len(row) == len(table.columns) for row in table.rows)
    assert len(json.loads(json.dumps(study.plain(), allow_nan=False))["widths"]) == 3
    assert [len(panel.lines) for panel in study.curves()] == [3, 3]


def test_a_short_text_says_how_often_its_rows_are_seen():
    ids = np.tile(np.array([0, 1, 2, 1]), 150)
    study = rank.run(ids, 3, Plan(steps=2, batch=1, learning_rate=0.05, warmup=0), widths=(1, 2), often=1000)
    assert (study.often, study.rows) == (299, 1)
    assert "1 rows seen ≥ 299" in study.tables()[0].title
