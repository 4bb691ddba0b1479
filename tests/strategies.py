"""Random members of the model family: configurations, weights with every number drawn, tokens."""

from dataclasses import dataclass

import torch
from hypothesis import strategies as st

from headwater.model.config import (
    Attention,
    FeedForward,
    GatedFeedForward,
    LayerNorm,
    LearnedPositions,
    LinearStretch,
    Llama3Stretch,
    ModelConfig,
    NoNorm,
    NoPositions,
    NoStretch,
    PostNorm,
    PreNorm,
    RMSNorm,
    RotaryPositions,
    SinusoidalPositions,
    Unembedding,
)
from headwater.model.layout import tensor_shapes
from headwater.model.weights import Weights

seeds = st.integers(0, 2**32 - 1)
sizes = st.integers(1, 6)
intos = st.sampled_from(["stream", "queries-and-keys"])
activations = st.sampled_from(["relu", "gelu", "gelu-tanh", "silu"])
bases = st.sampled_from([100.0, 10_000.0, 500_000.0])

norms = st.one_of(
    st.builds(LayerNorm, eps=st.sampled_from([1e-5, 1e-2]), gain=st.booleans(), bias=st.booleans()),
    st.builds(RMSNorm, eps=st.sampled_from([1e-6, 1e-2]), gain=st.booleans()),
)
stretches = st.one_of(
    st.just(NoStretch()),
    st.builds(LinearStretch, factor=st.sampled_from([2.0, 8.0])),
    st.just(Llama3Stretch(factor=8.0, low_frequency_factor=1.0, high_frequency_factor=4.0, original_context=64)),
)


@st.composite
def attentions(draw):
    group_size, key_heads = draw(st.sampled_from([1, 1, 2, 3])), draw(st.integers(1, 3))
    return Attention(
        heads=group_size * key_heads,
        d_head=draw(sizes),
        group_size=group_size,
        mask=draw(st.sampled_from(["causal", "causal", "full"])),
        scaled=draw(st.booleans()),
        input_bias=draw(st.booleans()),
        output_bias=draw(st.booleans()),
    )


@st.composite
def feed_forwards(draw, *, reads):
    kind = draw(st.sampled_from([FeedForward, GatedFeedForward]))
    return kind(d_mlp=draw(sizes), activation=draw(activations), bias=draw(st.booleans()), reads=draw(st.sampled_from(reads)))


@st.composite
def positions(draw, *, d_model, attention):
    kinds = [st.just(NoPositions())]
    if attention is None:
        kinds.append(st.just(LearnedPositions()))
    else:
        kinds.append(st.builds(LearnedPositions, into=intos))
        if attention.d_head > 1:
            dims = st.sampled_from(range(2, attention.d_head + 1, 2))
            kinds.append(
                st.builds(
                    RotaryPositions, dims=dims, base=bases, pairs=st.sampled_from(["halves", "adjacent"]), stretch=stretches
                )
            )
        if d_model % 2 == 0:
            kinds.append(st.builds(SinusoidalPositions, into=intos, base=bases))
    return draw(st.one_of(kinds))


@st.composite
def configs(draw, *, layers=None, norm=None, mask=None):
    depth, d_model = draw(st.integers(0, 3) if layers is None else layers), draw(st.integers(2, 8))
    attention = draw(attentions()) if depth else None
    if attention and mask:
        attention = Attention(**{name: getattr(attention, name) for name in attention.__slots__} | {"mask": mask})
    kinds = [st.just(NoNorm()), st.builds(PreNorm, norm=norms)] + [st.builds(PostNorm, norm=norms)] * bool(depth)
    chosen = draw(norm if norm is not None else st.one_of(kinds))
    reads = ["after-attention"] + ["beside-attention"] * (not isinstance(chosen, PostNorm))
    return ModelConfig(
        vocab=draw(st.integers(2, 11)),
        context=draw(st.integers(2, 9)),
        d_model=d_model,
        layers=depth,
        attention=attention,
        feed_forward=draw(st.one_of(st.none(), feed_forwards(reads=reads))) if depth else None,
        norm=chosen,
        positions=draw(positions(d_model=d_model, attention=attention)),
        unembedding=draw(st.builds(Unembedding, tied=st.booleans(), bias=st.booleans())),
    )


def random_weights(config, seed, dtype=torch.float64):
    """Every number drawn, gains and biases too: ones and zeros hide mistakes.

    Matrices are divided by √fan-in, so that scores stay within reach of a softmax: in the thousands it would turn
    rounding into answers.
    """
    generator = torch.Generator().manual_seed(seed)
    tensors = {}
    for name, shape in tensor_shapes(config).items():
        fan_in = shape[-2] if len(shape) > 1 and not name.endswith(("W_E", "W_pos")) else 1
        tensors[name] = (torch.randn(shape, generator=generator, dtype=torch.float64) * fan_in**-0.5).to(dtype)
    return Weights.assemble(config, tensors)


def random_tokens(config, seed, batch=2, length=None):
    generator = torch.Generator().manual_seed(seed)
    return torch.randint(0, config.vocab, (batch, length or config.context), generator=generator)


@dataclass(frozen=True)
class Member:
    """A member of the family, drawn; unpacking it makes its weights and tokens that fit them."""

    config: ModelConfig
    seed: int
    length: int

    def __iter__(self):
        # Made here and not while drawing: the shape checker samples containers at random, which strategies must not.
        yield random_weights(self.config, self.seed)
        yield random_tokens(self.config, self.seed, length=self.length)


@st.composite
def models(draw, **choices):
    config = draw(configs(**choices))
    return Member(config, draw(seeds), draw(st.integers(1, config.context)))
