"""Edits mean what they say: in the frozen model taking a write away takes its part away, and an edit of nothing changes nothing."""

import math
import random

import pytest
import torch
from hypothesis import assume, given, settings
from hypothesis import strategies as st

from headwater.errors import InputError
from headwater.model.config import NoNorm
from headwater.model.forward import forward
from headwater.model.record import record
from headwater.model.taps import Chain, Tap, all_sites
from headwater.trace.edits import Freeze, Mean, Patch, Remove, Scale, Steer, Zero, every_ablation, resample
from headwater.trace.effects import certificate, edited, effect, effects, loss_effects
from headwater.trace.places import Place, every_write, find_place
from strategies import models, random_tokens

numbers = st.integers(0, 1000)
close = {"rtol": 1e-8, "atol": 1e-9}
FROZEN = ("pattern", "scale", "gates")
BETWEEN = ("scores", "pattern")
# Where each example is several passes that are checked at every call.
half = settings(max_examples=settings().max_examples // 2)


def said(run, tap):
    return record(run.weights, run.tokens, tap=tap).logits


def vector(place, run, seed):
    generator = torch.Generator().manual_seed(seed)
    return torch.randn(run[place.site].shape[-1], generator=generator, dtype=torch.float64)


def some_edit(run, site, seed, positions=None):
    """An edit on any site, of a kind and with numbers that the seed chooses."""
    place = Place(site).at(positions)
    kinds = [Zero(place), Scale(place, 1.5), Patch.of(place, other(run, seed))]
    if not site.endswith((*BETWEEN, "scale")):
        kinds += [Steer(place, vector(place, run, seed), 2.0), Remove(place, vector(place, run, seed))]
    if not site.endswith(BETWEEN):
        kinds += [Mean.of(place, run)]
        kinds += [resample(place, run, seed=seed)] if run.tokens.shape[1] > 1 else []
    return kinds[seed % len(kinds)]


def other(run, seed):
    """Another text of the same length."""
    return record(run.weights, random_tokens(run.config, seed, length=run.tokens.shape[1]))


class Differentiated(Tap):
    """One site as a leaf of the gradient."""

    def __init__(self, site):
        self.site, self.leaf = site, None

    def wants(self, site):
        return site == self.site

    def __call__(self, site, value):
        self.leaf = value.detach().clone().requires_grad_()
        return self.leaf


@given(models(layers=st.integers(1, 3)), numbers, numbers, st.none() | numbers)
def test_zeroing_any_write_in_the_frozen_model_takes_exactly_its_part_away(member, at, which, where):
    weights, tokens = member
    run, vocab, length = record(weights, tokens[:1]), weights.config.vocab, tokens.shape[1]
    edits = every_ablation(run, at=None if where is None else sorted({where % length, -1 % length}))
    assert len(edits) == len(every_write(weights.config))
    some = random.Random(which).sample(edits, min(2, len(edits)))
    for one in effects(run, at % length, which % vocab, at % vocab if at % 2 else None, edits=some):
        assert one.frozen_change == pytest.approx(-one.part, rel=1e-8, abs=1e-9), one


@half
@given(models(layers=st.integers(1, 3)), numbers, numbers, numbers)
def test_zeroing_a_neuron_in_the_frozen_model_takes_its_value_times_its_gradient_away(member, at, which, where):
    assume(member.config.feed_forward is not None)
    weights, tokens = member
    run = record(weights, tokens[:1])
    position, token = at % tokens.shape[1], which % weights.config.vocab
    layer, neuron = where % weights.config.layers, which % weights.config.d_mlp
    leaf = Differentiated(f"L{layer}.neurons")
    forward(weights, run.tokens, Chain(Freeze(run), leaf))[0, position, token].backward()
    part = float((leaf.leaf * leaf.leaf.grad)[0, :, neuron].detach().sum())
    edit = Zero(find_place(f"L{layer}N{neuron}", weights.config))
    assert effect(run, edit, position, token).frozen_change == pytest.approx(-part, rel=1e-8, abs=1e-9)


@half
@given(models(), numbers, numbers)
def test_without_its_embeddings_the_frozen_model_says_what_positions_and_biases_do(member, at, which):
    weights, tokens = member
    run = record(weights, tokens[:1])
    sites = [site for site in ("embed", "positions") if site in run]
    found = effects(run, at % tokens.shape[1], which % weights.config.vocab, edits=[Zero(Place(site)) for site in sites])
    assert certificate(found) == pytest.approx(0, abs=1e-9)
    assert found[0].part is not None


@half
@given(models(layers=st.just(1), norm=st.just(NoNorm())), numbers, numbers)
def test_with_one_layer_of_heads_and_no_norm_nothing_is_lost_by_freezing(member, at, which):
    assume(member.config.feed_forward is None)
    weights, tokens = member
    run = record(weights, tokens[:1])
    for one in effects(run, at % tokens.shape[1], which % weights.config.vocab, edits=every_ablation(run)[-2:]):
        assert one.change == pytest.approx(one.frozen_change, rel=1e-8, abs=1e-9), one


@half
@given(models(), numbers)
def test_an_edit_of_nothing_changes_nothing(member, which):
    weights, tokens = member
    run = record(weights, tokens)
    site = all_sites(weights.config)[which % len(run)]
    for edit in (Scale(Place(site), 1.0), Patch.of(Place(site), run), Freeze(run)):
        assert torch.allclose(said(run, edit), run.logits, **close), edit


@half
@given(models(), numbers)
def test_the_stream_patched_from_another_run_gives_that_runs_logits(member, seed):
    weights, tokens = member
    run = record(weights, tokens)
    there = other(run, seed)
    stream = [site for site in run if site.endswith((".in", ".out")) or site in ("embed", "final")]
    assert torch.allclose(said(run, Chain(*(Patch.of(Place(site), there) for site in stream))), there.logits, **close)
    site = stream[seed % len(stream)]
    assert torch.allclose(said(run, Patch.of(Place(site), there)), there.logits, **close), site


@given(models(mask="causal"), numbers, numbers, numbers)
def test_what_is_edited_at_a_position_is_not_heard_before_it(member, which, where, seed):
    weights, tokens = member
    run, position = record(weights, tokens), where % tokens.shape[1]
    site = all_sites(weights.config)[which % len(run)]
    after = said(run, some_edit(run, site, seed, [position]))
    assert torch.allclose(after[:, :position], run.logits[:, :position], **close)


@half
@given(models(), numbers, numbers)
def test_sites_made_again_under_an_edit_are_those_of_the_pass_itself(member, which, seed):
    weights, tokens = member
    run = record(weights, tokens)
    edit = some_edit(run, all_sites(weights.config)[which % len(run)], seed)
    kept, lazy = record(weights, tokens, all_sites(weights.config), tap=edit), record(weights, tokens, tap=edit)
    for site in kept:
        assert torch.allclose(kept[site], lazy[site], equal_nan=True, **close), (edit, site)


@half
@given(models(), numbers, numbers)
def test_a_pass_that_begins_where_the_edit_does_is_the_whole_pass(member, which, seed):
    weights, tokens = member
    before = Scale(Place("embed"), 0.5)
    run = record(weights, tokens, [site for site in all_sites(weights.config) if site.endswith(FROZEN)], tap=before)
    edit = some_edit(run, all_sites(weights.config)[which % len(run)], seed)
    for short, whole in (
        (edited(run, edit), record(weights, tokens, tap=Chain(before, edit))),
        (edited(run, edit, frozen=True), record(weights, tokens, tap=Chain(before, Freeze(run), edit))),
    ):
        for site in ("logits", *whole.kept):
            assert torch.allclose(short[site], whole[site], equal_nan=True, **close), (edit, site)


@given(models(layers=st.integers(1, 2)), numbers, numbers)
def test_an_edit_of_one_head_leaves_its_neighbours_entries_alone(member, which, seed):
    weights, tokens = member
    run, heads = record(weights, tokens), weights.config.heads
    head = which % heads
    site = ("head_writes", "pattern", "mixed", "queries", "scores")[seed % 5]
    after = record(weights, tokens, tap=Scale(find_place(f"L0H{head}.{site}", weights.config), 0.5))[f"L0.{site}"]
    before, rest = run[f"L0.{site}"], [number for number in range(heads) if number != head]
    assert torch.allclose(after[:, rest], before[:, rest], **close)
    assert torch.allclose(after[:, head], 0.5 * before[:, head], **close)


@half
@given(models(layers=st.integers(1, 2)), numbers)
def test_a_frozen_model_is_affine_in_its_embeddings(member, seed):
    weights, tokens = member
    run = record(weights, tokens)
    direction = vector(Place("embed"), run, seed)
    none, once, twice = (said(run, Chain(Freeze(run), Steer(Place("embed"), direction, amount))) for amount in (0.0, 1.0, 2.0))
    assert torch.allclose(twice - once, once - none, rtol=1e-7, atol=1e-8)


@given(models(), numbers)
def test_what_was_removed_is_not_there_and_the_rest_is(member, seed):
    weights, tokens = member
    run, place = record(weights, tokens), Place("final")
    direction = vector(place, run, seed)
    left = record(weights, tokens, tap=Remove(place, direction))["final"]
    gone = run["final"] - left
    # By the sizes of what is multiplied: without norms a stream of three layers reaches hundreds of millions.
    assert ((left @ direction).abs() <= 1e-9 * run["final"].norm(dim=-1) * direction.norm()).all()
    assert ((gone @ left[0, 0]).abs() <= 1e-9 * run["final"].norm(dim=-1) * run["final"][0, 0].norm()).all()


@half
@given(models(), numbers)
def test_divergence_and_probabilities_are_those_of_the_two_predictions(member, at):
    weights, tokens = member
    run, position = record(weights, tokens[:1]), at % tokens.shape[1]
    edit = Scale(Place("final"), 0.25)
    one = effect(run, edit, position, 0)
    before, after = (logits[0, position].log_softmax(dim=-1) for logits in (run.logits, said(run, edit)))
    # A token that had no probability before has no share in the divergence.
    shares = [
        math.exp(old) * (old - new) for old, new in zip(before.tolist(), after.tolist(), strict=True) if math.exp(old) > 0
    ]
    assert one.unfrozen.divergence == pytest.approx(math.fsum(shares), rel=1e-9, abs=1e-9)
    assert one.unfrozen.probability == pytest.approx(math.exp(float(after[0])), rel=1e-9)
    assert one.before.divergence == 0


@given(models(layers=st.integers(1, 2)))
def test_the_loss_of_an_edited_run_is_that_of_its_predictions(member):
    weights, tokens = member
    run = record(weights, tokens)
    if tokens.shape[1] == 1:
        with pytest.raises(InputError):
            loss_effects(run)
        return
    for one in loss_effects(run, every_ablation(run)[-1:]):
        logits = said(run, one.edit)
        truth = torch.nn.functional.cross_entropy(logits[:, :-1].flatten(0, 1), tokens[:, 1:].flatten())
        assert one.after == pytest.approx(float(truth), rel=1e-9)
        truth = torch.nn.functional.cross_entropy(run.logits[:, :-1].flatten(0, 1), tokens[:, 1:].flatten())
        assert one.before == pytest.approx(float(truth), rel=1e-9)
