from dataclasses import FrozenInstanceError, replace

import pytest

from headwater.errors import ConfigError, InputError
from headwater.model.config import (
    Attention,
    FeedForward,
    LayerNorm,
    LearnedPositions,
    Llama3Stretch,
    ModelConfig,
    PostNorm,
    RotaryPositions,
    SinusoidalPositions,
)
from headwater.model.layout import parameter_count
from headwater.model.presets import named

ONE = ModelConfig(vocab=5, context=4, d_model=4, layers=1, attention=Attention(heads=2, d_head=3))


@pytest.mark.parametrize(
    ("make", "told"),
    [
        (lambda: replace(ONE, vocab=0), "vocab=0"),
        (lambda: replace(ONE, layers=-1), "layers=-1"),
        (lambda: replace(ONE, d_model=10**9), "d_model=1000000000"),
        (lambda: replace(ONE, attention=None), "without attention"),
        (lambda: replace(ONE, layers=0), "layers=0 with attention"),
        (lambda: Attention(heads=4, d_head=2, group_size=3), "do not fall into groups of 3"),
        (lambda: Attention(heads=0, d_head=2), "heads=0"),
        (lambda: FeedForward(d_mlp=0), "d_mlp=0"),
        (lambda: LayerNorm(eps=0.0), "eps=0.0"),
        (lambda: RotaryPositions(dims=3), "dims=3 is odd"),
        (lambda: replace(ONE, positions=RotaryPositions(dims=4)), "4 rotary dims with d_head=3"),
        (lambda: replace(ONE, d_model=5, positions=SinusoidalPositions()), "d_model=5"),
        (lambda: replace(ONE, layers=0, attention=None, norm=PostNorm()), "post-norm with layers=0"),
        (lambda: replace(ONE, layers=0, attention=None, positions=LearnedPositions(into="queries-and-keys")), "layers=0"),
        (
            lambda: replace(ONE, norm=PostNorm(), feed_forward=FeedForward(d_mlp=2, reads="beside-attention")),
            "beside attention",
        ),
        (
            lambda: Llama3Stretch(factor=8.0, low_frequency_factor=4.0, high_frequency_factor=1.0, original_context=8),
            "is not above",
        ),
    ],
)
def test_a_combination_that_describes_no_model_is_refused(make, told):
    with pytest.raises(ConfigError) as caught:
        make()
    assert told in caught.value.given
    assert caught.value.needed
    assert caught.value.do


def test_a_configuration_cannot_be_changed_in_place():
    with pytest.raises(FrozenInstanceError):
        ONE.vocab = 7  # pyright: ignore[reportAttributeAccessIssue]


def test_gpt2_small_has_the_number_of_parameters_that_it_is_known_for():
    assert parameter_count(named("gpt2-small")) == 124_439_808


def test_an_unknown_name_gets_the_nearest():
    with pytest.raises(InputError, match="did you mean one-layer"):
        named("one-layr")
