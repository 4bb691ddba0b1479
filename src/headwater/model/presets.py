"""Configurations that have a name."""

from headwater.errors import InputError, did_you_mean
from headwater.model.config import (
    Attention,
    FeedForward,
    LearnedPositions,
    ModelConfig,
    PostNorm,
    PreNorm,
    SinusoidalPositions,
    Unembedding,
)

NAMED: dict[str, ModelConfig] = {
    # The bigram machine W_E W_U of document 001.
    "zero-layer": ModelConfig(vocab=4096, context=256, d_model=256, layers=0),
    # The skip-trigram machine of document 000: positions reach queries and keys only, so that OV tables are exact.
    "one-layer": ModelConfig(
        vocab=4096,
        context=256,
        d_model=256,
        layers=1,
        attention=Attention(heads=8, d_head=32),
        positions=SinusoidalPositions(into="queries-and-keys"),
    ),
    # The sizes of Vaswani et al. (2017) that document 003 quotes, as a decoder: post-norm, ReLU, tied.
    "original": ModelConfig(
        vocab=37_000,
        context=512,
        d_model=512,
        layers=6,
        attention=Attention(heads=8, d_head=64, input_bias=True, output_bias=True),
        feed_forward=FeedForward(d_mlp=2048),
        norm=PostNorm(),
        positions=SinusoidalPositions(),
        unembedding=Unembedding(tied=True),
    ),
    "gpt2-small": ModelConfig(
        vocab=50_257,
        context=1024,
        d_model=768,
        layers=12,
        attention=Attention(heads=12, d_head=64, input_bias=True, output_bias=True),
        feed_forward=FeedForward(d_mlp=3072, activation="gelu-tanh"),
        norm=PreNorm(),
        positions=LearnedPositions(),
        unembedding=Unembedding(tied=True),
    ),
}


def named(name: str) -> ModelConfig:
    """A configuration by name.

    >>> named("original").attention
    Attention(heads=8, d_head=64, group_size=1, mask='causal', scaled=True, input_bias=True, output_bias=True)
    """
    if name not in NAMED:
        raise InputError(f"no configuration is called {name!r:.80}", "a known name", did_you_mean(name, NAMED))
    return NAMED[name]
