import json

import pytest
import torch

from headwater.errors import InputError
from headwater.model.config import ModelConfig, PreNorm
from headwater.model.weights import Weights
from headwater.train.batches import Batches
from headwater.train.plan import Plan
from headwater.train.studies import gradient_depth, gradient_paths, gradients, softmax_scaling
from headwater.train.studies.gradient_depth import Depth
from stdlib_text import characters


@pytest.fixture(scope="module")
def depth():
    return gradient_depth.run((4, 16), (0.5, 1.4), seeds=3)


def test_only_norms_keep_the_gradient_within_bounds_at_both_scales(depth):
    gain = {(at.kind, at.scale): at.gains[0] for at in depth.depths if at.layers == 16}
    assert gain["plain", 0.5] < 1e-10
    assert gain["residual", 0.5] > 0.1
    assert gain["residual", 1.4] > 1e6
    for scale in (0.5, 1.4):
        for kind in ("plain-norm", "pre-norm", "post-norm"):
            assert 1e-2 < gain[kind, scale] < 1e2, (kind, scale)


def test_the_last_layer_gets_less_with_depth_before_and_not_after_the_norm(depth):
    assert depth.power("pre-norm", 1.4) < -0.2
    assert abs(depth.power("post-norm", 1.4)) < 0.2


def test_the_factor_of_one_layer_is_the_slope_of_the_gains():
    at = Depth(kind="plain", scale=1.0, layers=3, gains=(8.0, 4.0, 2.0, 1.0), first=1.0, last=1.0)
    assert at.factor == pytest.approx(2.0)


@pytest.mark.parametrize("scale", [1e-30, 1e30])
def test_gradients_beyond_what_a_number_can_hold_are_refused(scale):
    with pytest.raises(InputError, match="a plain stack of 8 layers"):
        gradient_depth.run((8,), (scale,), seeds=1)


def test_the_derivative_of_the_softmax_is_bounded_and_vanishes_without_scaling():
    study = softmax_scaling.run((4, 64, 1024))
    for at in study.dimensions:
        assert max(at.unscaled.largest_entry, at.scaled.largest_entry) <= 0.25
        assert max(at.unscaled.largest_spectral, at.scaled.largest_spectral) <= 0.5 + 1e-12
        assert at.scaled.median == pytest.approx(0.235, abs=0.02)
    medians = [at.unscaled.median for at in study.dimensions]
    assert medians == sorted(medians, reverse=True)
    assert medians[-1] < 1e-3


@pytest.fixture(scope="module")
def paths():
    ids, vocab = characters(300_000)
    plan = Plan(steps=64, batch=8, learning_rate=3e-3, warmup=20)
    batches = Batches(ids=ids, vocab=vocab, context=64, batch=8, seed=1)
    return gradient_paths.run(gradients.train_one_layer(ids, vocab, plan), batches, batches=8)


def test_gradients_of_shared_parameters_are_not_orthogonal(paths):
    assert paths.at_the_logits == pytest.approx(1, abs=1e-6)
    assert [(angle.step, angle.parameter) for angle in paths.angles] == [
        (step, parameter) for step in (0, 16, 64) for parameter in ("W_E", "W_U")
    ]
    at_first = paths.angles[0]
    assert at_first.batches == 8
    assert abs(at_first.mean) > 5 * at_first.error > 0


def test_the_outcome_is_tables_and_plain_data(paths, depth):
    study = gradients.GradientStudy(paths=paths, depth=depth, softmax=softmax_scaling.run((1, 4)))
    for table in study.tables():
        assert table.rows
        assert all(len(row) == len(table.columns) for row in table.rows)
    assert set(json.loads(json.dumps(study.plain(), allow_nan=False))) == {"study", "paths", "depth", "softmax"}
    assert len(study.curves()) == 1 + 2 + 1


def test_a_model_whose_logits_are_no_sum_of_paths_is_refused():
    windows = torch.tensor([[0, 1, 2]])
    normed = ModelConfig(**{**{name: getattr(gradient_depth.MODEL, name) for name in ModelConfig.__slots__}, "norm": PreNorm()})
    with pytest.raises(InputError, match="with norms"):
        gradient_paths.path_gradients(Weights.draw(normed, seed=0), windows)
    with pytest.raises(InputError, match="without layers"):
        gradient_paths.path_gradients(Weights.draw(ModelConfig(vocab=4, context=4, d_model=2, layers=0), seed=0), windows)
