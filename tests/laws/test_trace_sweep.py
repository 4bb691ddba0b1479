"""A question swept upstream has the answer that the model gave, and is the gradient of the frozen model."""

import pytest
import torch
from hypothesis import given
from hypothesis import strategies as st

from headwater.errors import InputError
from headwater.model.forward import forward
from headwater.model.record import record
from headwater.model.taps import Tap
from headwater.trace.question import about_logit
from headwater.trace.sweep import sweep
from strategies import models

FROZEN = ("pattern", "scale", "gates")
numbers = st.integers(0, 100)


class Frozen(Tap):
    """The model with everything held fixed that a run measured; its embeddings can be differentiated."""

    def __init__(self, run):
        self.run, self.embed = run, run["embed"].clone().requires_grad_()

    def wants(self, site):
        return site == "embed" or site.endswith(FROZEN)

    def __call__(self, site, value):
        return self.embed if site == "embed" else self.run[site]


@given(models(), numbers, numbers)
def test_the_parts_of_any_logit_add_up_to_it(member, at, which):
    weights, tokens = member
    run = record(weights, tokens[:1])
    position, token = at % tokens.shape[1], which % weights.config.vocab
    truth = float(run.logits[0, position, token])
    assert float(sweep(run, about_logit(run, position, token)).answer()) == pytest.approx(truth, rel=1e-9, abs=1e-9)


@given(models(), numbers, numbers, numbers)
def test_the_parts_of_any_difference_of_logits_add_up_to_it(member, at, which, other):
    weights, tokens = member
    run, vocab = record(weights, tokens[:1]), weights.config.vocab
    position, token, against = at % tokens.shape[1], which % vocab, other % vocab
    truth = float(run.logits[0, position, token] - run.logits[0, position, against])
    assert float(sweep(run, about_logit(run, position, token, against)).answer()) == pytest.approx(truth, rel=1e-9, abs=1e-9)


@given(models(), numbers, numbers)
def test_a_question_at_the_embeddings_is_the_gradient_of_the_frozen_model(member, at, which):
    weights, tokens = member
    run = record(weights, tokens[:1])
    position, token = at % tokens.shape[1], which % weights.config.vocab
    frozen = Frozen(run)
    said = forward(weights, tokens[:1], frozen)
    assert torch.allclose(said, run.logits, atol=1e-9)
    (gradient,) = torch.autograd.grad(said[0, position, token], frozen.embed)
    assert torch.allclose(gradient, sweep(run, about_logit(run, position, token)).q[0], atol=1e-9)


class Silenced(Frozen):
    """The frozen model in which one head or feed-forward layer writes nothing at one position."""

    def __init__(self, run, name, position):
        super().__init__(run)
        layer, _, head = name.removesuffix(".feed_forward").partition("H")
        self.site = f"{layer}.head_writes" if head else f"{layer}.feed_forward"
        self.place = (0, int(head), position) if head else (0, position)

    def wants(self, site):
        return site == self.site or super().wants(site)

    def __call__(self, site, value):
        if site != self.site:
            return super().__call__(site, value)
        value = value.clone()
        value[self.place] = 0
        return value


@given(models(layers=st.integers(1, 3)), numbers, numbers, numbers)
def test_silencing_a_write_in_the_frozen_model_lowers_the_logit_by_what_it_came_to(member, at, which, where):
    weights, tokens = member
    run, length = record(weights, tokens[:1]), tokens.shape[1]
    position, token = at % length, which % weights.config.vocab
    writes = sweep(run, about_logit(run, position, token)).writes
    for name, parts in writes.items():
        place = where % length
        with torch.no_grad():
            without = forward(weights, tokens[:1], Silenced(run, name, place))
        fell = float(run.logits[0, position, token] - without[0, position, token])
        assert fell == pytest.approx(float(parts[0, place]), rel=1e-8, abs=1e-9), name


@given(models(layers=st.integers(1, 2), mask="causal"), numbers)
def test_later_tokens_have_no_part_in_what_was_said_before_them(member, which):
    weights, tokens = member
    run = record(weights, tokens[:1])
    position = which % tokens.shape[1]
    assert bool((sweep(run, about_logit(run, position, 0)).tokens()[position + 1 :] == 0).all())


@pytest.mark.parametrize(("position", "token"), [(9, 0), (0, 99), (-9, 0)])
def test_what_is_not_there_cannot_be_asked_about(position, token):
    from headwater.model.config import ModelConfig
    from headwater.model.weights import Weights

    run = record(Weights.draw(ModelConfig(vocab=5, context=4, d_model=3, layers=0), seed=0), torch.tensor([[1, 2, 3]]))
    with pytest.raises(InputError):
        about_logit(run, position, token)
