"""One measure by itself is that of the whole view; shares stay within their bound; reordering moves norms and nothing else."""

import pytest
import torch
from hypothesis import given, settings
from hypothesis import strategies as st

from headwater.errors import ConfigError
from headwater.model.config import LayerNorm, ModelConfig, NoNorm, PostNorm, PreNorm
from headwater.model.forward import forward
from headwater.model.record import record
from headwater.model.reorder import reordered
from headwater.trace.view.measures import LENSES, VECTORS, overview
from headwater.trace.view.stream import stream
from strategies import models, norms, random_weights
from twins import norm_twin

blocks = st.integers(1, 2)


@settings(max_examples=10, deadline=None)
@given(models())
def test_a_measure_by_itself_has_the_numbers_of_the_view(member):
    weights, tokens = member
    run = record(weights, tokens[:1])
    view = stream(run)
    for measure in VECTORS:
        assert torch.equal(overview(run, measure).values.nan_to_num(9), getattr(view, measure).nan_to_num(9))
    for measure, name in LENSES.items():
        assert torch.equal(overview(run, measure).values, torch.stack([getattr(one, name) for one in view.lenses]).double())


@settings(max_examples=25, deadline=None)
@given(models())
def test_in_single_precision_shares_add_up_within_the_bound(member):
    weights, tokens = member
    view = stream(record(weights.to(dtype=torch.float32), tokens[:1]))
    assert view.certificate <= view.bound
    # A bound that everything is below would say nothing.
    wrong = {name: share * 1.5 for name, share in view.shares.items()}
    total = torch.stack(list(wrong.values())).sum(dim=0) - 1
    assert float(total[~total.isnan()].abs().max()) > view.bound


@settings(max_examples=10, deadline=None)
@given(models(layers=blocks, norm=st.builds(PreNorm, norm=norms)))
def test_post_norms_are_the_same_norms_after_each_write(member):
    weights, tokens = member
    if weights.config.feed_forward is not None and weights.config.feed_forward.reads == "beside-attention":
        with pytest.raises(ConfigError):
            reordered(weights, "post")
        return
    after = reordered(weights, "post")
    assert after.config.norm == PostNorm(norm=weights.config.norm.norm)
    for name, tensor in after.tensors().items():
        assert torch.equal(tensor, weights.tensors()[name])
    run = record(after, tokens[:1])
    made = norm_twin(weights.config.norm.norm, weights.blocks[0].norm_1, run["L0.t2"][0, 0])
    assert torch.allclose(made, run["L0.t3"][0, 0], atol=1e-9)
    # And back, but for the last norm, which had no place there.
    back = reordered(after, "pre")
    kept = {name: tensor for name, tensor in back.tensors().items() if not name.startswith("ln_final")}
    assert all(torch.equal(tensor, weights.tensors()[name]) for name, tensor in kept.items())
    assert forward(back, tokens).isfinite().all()


def test_a_model_without_norms_gets_plain_ones_and_one_without_blocks_none():
    bare = random_weights(ModelConfig(vocab=5, context=4, d_model=4, layers=0), 0)
    assert isinstance(bare.config.norm, NoNorm)
    assert reordered(bare, "pre").config.norm == PreNorm(norm=LayerNorm(gain=False, bias=False))
    with pytest.raises(ConfigError):
        reordered(bare, "post")
