"""Taps see what they want and nothing else; what they hand back takes effect, in a run and in its record."""

import pytest
import torch
from hypothesis import given
from hypothesis import strategies as st
from test_forward import close

from headwater.errors import InputError
from headwater.model.forward import forward
from headwater.model.record import record
from headwater.model.taps import Chain, Recorder, Tap, all_sites
from strategies import models


class Edit(Tap):
    """Every value of one site multiplied by a number."""

    def __init__(self, site, factor):
        self.site, self.factor = site, factor

    def wants(self, site):
        return site == self.site

    def __call__(self, site, value):
        assert site == self.site
        return value * self.factor


@given(models(), st.data())
def test_a_record_of_an_edited_run_answers_as_the_edited_run_did(model, data):
    weights, tokens = model
    edit = Edit(data.draw(st.sampled_from(all_sites(weights.config))), 0.5)
    everything = Recorder("*")
    logits = forward(weights, tokens, Chain(edit, everything))
    run = record(weights, tokens, tap=edit)
    assert close(run.logits, logits)
    for site in run:
        assert torch.allclose(run[site], everything.kept[site], rtol=1e-9, atol=1e-9), site


@given(models(), st.data())
def test_an_edit_of_any_site_but_the_mask_takes_effect(model, data):
    weights, tokens = model
    # A softmax over one source, and norms, swallow factors: an edit to zero of what they give cannot be.
    site = data.draw(
        st.sampled_from([site for site in all_sites(weights.config) if not site.endswith(("queries", "keys", "scores"))])
    )
    edited = forward(weights, tokens, Edit(site, float("nan")))
    assert not torch.isfinite(edited).all()


@given(models())
def test_a_tap_is_called_with_what_it_wants_and_with_nothing_else(model):
    weights, tokens = model
    called = []

    class Nosy(Tap):
        def __call__(self, site, value):
            called.append(site)
            return value

    forward(weights, tokens, Nosy())
    assert called == []


@given(models())
def test_changing_a_value_in_place_or_handing_back_nothing_is_refused(model):
    weights, tokens = model

    class InPlace(Recorder):
        def __call__(self, site, value):
            return value.mul_(0)

    class Nothing(Recorder):
        def __call__(self, site, value):
            pass

    for tap, told in ((InPlace("embed"), "in place"), (Nothing("embed"), "no tensor")):
        with pytest.raises(InputError, match=told):
            forward(weights, tokens, tap)


@given(models(), st.sampled_from([torch.float16, torch.bfloat16]))
def test_half_precision_says_the_same_recorded_and_unrecorded_within_its_rounding(model, dtype):
    weights, tokens = model
    # Large numbers, whose squares half precision cannot hold.
    low = weights.to(dtype=dtype)
    low = low.changed({"embed.W_E": low.W_E * 300})
    plain, recorded = forward(low, tokens), forward(low, tokens, Recorder("*.scale"))
    assert torch.isfinite(plain).all() == torch.isfinite(recorded).all()
    if torch.isfinite(plain).all():
        assert close(plain.double(), recorded.double(), 0.1)
