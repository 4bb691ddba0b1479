"""Folding and centring change weights, never what the model says."""

import pytest
import torch
from hypothesis import assume, given
from hypothesis import strategies as st
from test_forward import close

from headwater.errors import ConfigError
from headwater.model.config import LayerNorm, ModelConfig, PreNorm, RMSNorm
from headwater.model.fold import centre_unembed, centre_writes, fold_norms, fold_value_bias
from headwater.model.forward import forward
from strategies import models, norms, random_weights

pre_norms = st.builds(PreNorm, norm=norms)


@given(models(norm=pre_norms))
def test_folding_norms_leaves_the_logits_and_no_gain_or_bias(model):
    weights, tokens = model
    assume(not (weights.config.norm.norm.gain and getattr(weights.config.positions, "into", "") == "queries-and-keys"))
    folded = fold_norms(weights)
    assert close(forward(weights, tokens), forward(folded, tokens))
    assert not folded.config.norm.norm.gain
    assert not folded.config.norm.norm.bias
    assert not any(".ln" in name or name.startswith("ln") for name in folded.tensors())


@given(models(norm=st.builds(PreNorm, norm=st.builds(LayerNorm, gain=st.booleans(), bias=st.booleans()))))
def test_centring_writes_leaves_the_logits_and_writes_without_mean(model):
    weights, tokens = model
    centred = centre_writes(weights)
    # Rounding in a near-constant stream is divided by its spread, hence the wider tolerance.
    assert close(forward(weights, tokens), forward(centred, tokens), 1e-7)
    assert float(centred.W_E.mean(dim=-1).abs().max()) < 1e-12


@given(models())
def test_centring_the_unembedding_leaves_the_log_probabilities(model):
    weights, tokens = model
    centred = centre_unembed(weights)
    before, after = forward(weights, tokens).log_softmax(-1), forward(centred, tokens).log_softmax(-1)
    assert close(before, after)
    logits = forward(centred, tokens)
    assert float(logits.mean(dim=-1).abs().max()) <= 1e-12 * max(
        1.0, float(logits.abs().max()), float(forward(weights, tokens).abs().max())
    )


@given(models())
def test_folding_the_value_bias_leaves_the_logits_and_no_value_bias(model):
    weights, tokens = model
    folded = fold_value_bias(weights)
    assert close(forward(weights, tokens), forward(folded, tokens))
    assert all(block.attention.b_V is None or not block.attention.b_V.any() for block in folded.blocks)


@pytest.mark.parametrize("fold", [fold_norms, centre_writes])
def test_folds_that_need_a_norm_before_each_reader_say_so(fold):
    weights = random_weights(ModelConfig(vocab=5, context=4, d_model=4, layers=0), 0)
    with pytest.raises(ConfigError, match="pre-norm"):
        fold(weights)


def test_centring_writes_under_rms_norm_is_refused_because_it_would_change_the_logits():
    weights = random_weights(ModelConfig(vocab=5, context=4, d_model=4, layers=0, norm=PreNorm(norm=RMSNorm())), 0)
    with pytest.raises(ConfigError, match="RMSNorm"):
        centre_writes(weights)
    assert isinstance(weights.W_E, torch.Tensor)
