"""What rounding may come to: sums of parts stay within it in every member of the family, badly conditioned ones too, and what is wrong does not."""

import math
import random

import torch
from hypothesis import given, settings
from hypothesis import strategies as st

from headwater.model.record import record
from headwater.model.weights import Weights
from headwater.trace.check import check
from headwater.trace.confluence import Asked, confluence
from headwater.trace.river import logit_bound
from headwater.trace.run import Run
from headwater.trace.sized import Sized
from strategies import configs, models, random_tokens, random_weights, seeds

ASKED = st.sampled_from([{}, {"centred": True}, {"against": 0}])
WAYS = st.sampled_from(["component", "head", "layer", "source", "token", "order"])


def uneven_weights(config, seed, dtype):
    """Every tensor up to three times larger or smaller than it should be."""
    generator = random.Random(seed)
    tensors = random_weights(config, seed).tensors()
    scaled = {name: (10 ** generator.uniform(-0.5, 0.5) * tensor).to(dtype) for name, tensor in tensors.items()}
    return Weights.assemble(config, scaled)


def of_tokens(run, why):
    """The certificate of a logit that is told by its tokens, and what rounding may come to in it."""
    sized = Sized()
    split = sized.split(why.whole, "token")
    return split.certificate, logit_bound(run, why, sized.size)


@settings(max_examples=settings().max_examples // 2)
@given(configs(layers=st.integers(0, 6)), seeds, ASKED, WAYS, st.sampled_from([torch.float32, torch.float64]))
def test_right_sums_stay_within_it(config, seed, asked, way, dtype):
    run = Run.of(record(uneven_weights(config, seed, dtype), random_tokens(config, seed, batch=1)))
    why = run.explain(-1, seed % config.vocab, **asked)
    river = confluence(why, Asked(opened={"logit": way}))
    assert river.certificate <= logit_bound(run, why, river.size)
    certificate, bound = of_tokens(run, why)
    assert certificate <= bound
    if "centred" not in asked:
        totals = run.totals(-1, why.facts["id"], asked.get("against"))
        assert totals.certificate <= logit_bound(run, why, float(totals.size[0]))
    assert check(run, samples=2, seed=seed % 100).ok


@given(models(layers=st.integers(1, 4)))
def test_wrong_ones_do_not(member):
    """Embeddings that are wrong by a thousandth."""
    weights, tokens = member
    whole = record(weights, tokens[:1])
    wrong = Run(weights, whole.tokens, {**whole.kept, "embed": 1.001 * whole.kept["embed"]})
    why = wrong.explain()
    river, totals = confluence(why, Asked()), wrong.totals(-1, why.facts["id"])
    assert river.certificate > logit_bound(wrong, why, river.size)
    assert totals.certificate > logit_bound(wrong, why, float(totals.size[0]))
    assert not check(wrong, samples=0).ok


@given(models(layers=st.integers(0, 4)))
def test_it_is_some_thousand_units_of_what_is_added_up_and_no_more(member):
    """A bound that everything is below would say nothing."""
    weights, tokens = member
    run = Run.of(record(weights, tokens[:1]))
    why = run.explain()
    river = confluence(why, Asked())
    sizes = math.fsum(abs(part.value) for part in why.parts) + math.fsum(abs(flow.value) for flow in river.flows)
    assert 0 < logit_bound(run, why, river.size) < 1e5 * torch.finfo(weights.dtype).eps * (1 + sizes)
