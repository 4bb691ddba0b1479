"""Numbers that are very large, very small or none: squares neither overflow nor vanish, and what is no number is not told as zero."""

import math

import pytest
import torch

from headwater.model.config import Attention, ModelConfig
from headwater.model.record import Record, record
from headwater.trace.run import Run
from headwater.trace.view.shares import shares
from headwater.trace.view.stages import see
from strategies import random_weights

CONFIG = ModelConfig(vocab=5, context=4, d_model=4, layers=1, attention=Attention(heads=2, d_head=4))
TOKENS = torch.tensor([[0, 1, 2, 3]])


def run_of(**times):
    """A model some of whose tensors are this many times larger, in single precision."""
    weights = random_weights(CONFIG, 1, torch.float32)
    named = {name: name.rsplit(".", 1)[-1] for name in weights.tensors()}
    larger = {name: times[named[name]] * value for name, value in weights.tensors().items() if named[name] in times}
    return Run.of(record(weights.changed(larger), TOKENS))


@pytest.mark.parametrize("size", [1e25, 1e-30])
def test_lengths_and_shares_are_those_of_their_squares_in_double_precision(size):
    run = run_of(W_E=size, W_Q=0.0)
    plain = run_of(W_Q=0.0)
    weighted = run.looks("L0H1", "weighted")
    assert torch.allclose(weighted.double() / size, plain.looks("L0H1", "weighted").double(), rtol=1e-5)
    assert run.survey().heads[1].longest == pytest.approx(float(weighted.max()))
    found, expected = shares(see(run)), shares(see(plain))
    assert all(torch.allclose(found[name], expected[name], rtol=1e-4, atol=1e-5, equal_nan=True) for name in expected)
    assert run.stream().certificate <= run.stream().bound


@pytest.mark.parametrize("times", [{"W_Q": 1e-25, "W_K": 1e-25}, {"W_E": 1e-24}, {"W_Q": 1e-42, "W_K": 1e30}])
def test_a_score_that_underflows_is_rounding(times):
    why = run_of(**times).attend("L0H0", 3, 1)
    assert 0 < why.certificate <= why.bound < 1e-6


def test_what_is_no_number_is_not_told_as_zero():
    run = run_of()
    pattern = run["L0.pattern"].clone()
    pattern[0, 1] = math.nan
    broken = Run.of(Record(run.weights, TOKENS, {**run.kept, "L0.pattern": pattern}))
    right, wrong = broken.survey().heads
    assert right.entropy == run.survey().heads[0].entropy > 0
    assert all(math.isnan(each) for each in (wrong.previous, wrong.own, wrong.first, wrong.entropy))
    assert math.isnan(broken.attend("L0H1", 3, 1).competition.entropy)
