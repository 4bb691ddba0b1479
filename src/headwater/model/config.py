"""What a model is made of: one frozen value for the whole family. Everything else about a model follows from it.

Alternatives are types, so that a number exists only where it means something; derived numbers are properties; a
combination that describes no model is refused when it is written down.
"""

from dataclasses import field
from typing import Literal, TypeAlias

from headwater.errors import ConfigError
from headwater.settings import setting

Activation: TypeAlias = Literal["relu", "gelu", "gelu-tanh", "silu"]

MOST = {"vocab": 2**24, "context": 2**24, "layers": 2**12, "d_model": 2**18, "heads": 2**12, "d_head": 2**14, "d_mlp": 2**21}
"""Sizes beyond these are taken for damage, not for a model."""


@setting
class Attention:
    """Heads that move information between positions.

    ``group_size`` heads share one key and one value (1: every head has its own; ``heads``: all share one).
    """

    heads: int
    d_head: int
    group_size: int = 1
    mask: Literal["causal", "full"] = "causal"
    scaled: bool = True
    """Divide scores by √d_head."""
    input_bias: bool = False
    """``b_Q``, ``b_K`` and ``b_V``."""
    output_bias: bool = False
    """``b_O``."""

    def __post_init__(self) -> None:
        _positive(heads=self.heads, d_head=self.d_head, group_size=self.group_size)
        if self.heads % self.group_size:
            divisors = [str(n) for n in range(1, self.heads + 1) if self.heads % n == 0]
            raise ConfigError(
                f"heads={self.heads} do not fall into groups of {self.group_size}",
                "a group_size that divides the heads",
                f"use one of {', '.join(divisors[:12])}",
            )

    @property
    def key_heads(self) -> int:
        """How many heads own a key and a value."""
        return self.heads // self.group_size

    @property
    def scale(self) -> float:
        """What scores are multiplied by."""
        return self.d_head**-0.5 if self.scaled else 1.0


@setting
class FeedForward:
    """``act(x W_in + b_in) W_out + b_out`` at each position alone.

    ``reads`` says what ``x`` is: the stream *after* attention wrote (serial blocks), or the same stream that attention
    read, *beside* it (parallel blocks).
    """

    d_mlp: int
    activation: Activation = "relu"
    bias: bool = True
    reads: Literal["after-attention", "beside-attention"] = "after-attention"

    def __post_init__(self) -> None:
        _positive(d_mlp=self.d_mlp)


@setting
class GatedFeedForward:
    """``(act(x W_gate + b_gate) ∘ (x W_in + b_in)) W_out + b_out`` at each position alone."""

    d_mlp: int
    activation: Activation = "silu"
    bias: bool = False
    reads: Literal["after-attention", "beside-attention"] = "after-attention"

    def __post_init__(self) -> None:
        _positive(d_mlp=self.d_mlp)


@setting
class LayerNorm:
    """``(x − mean) / √(variance + eps) ∘ gain + bias``, with the variance over d_model entries (biased)."""

    eps: float = 1e-5
    gain: bool = True
    bias: bool = True

    def __post_init__(self) -> None:
        _positive(eps=self.eps)


@setting
class RMSNorm:
    """``x / √(mean square + eps) ∘ gain``."""

    eps: float = 1e-6
    gain: bool = True

    def __post_init__(self) -> None:
        _positive(eps=self.eps)

    @property
    def bias(self) -> bool:
        """RMSNorm never has one."""
        return False


@setting
class NoNorm:
    """The stream is read as it is."""


@setting
class PreNorm:
    """Each component reads the normalised stream and writes to the stream itself; one more norm before the unembedding."""

    norm: LayerNorm | RMSNorm = field(default_factory=LayerNorm)


@setting
class PostNorm:
    """The stream itself is normalised after each write, as in the documents' ``t1 … t5, h``."""

    norm: LayerNorm | RMSNorm = field(default_factory=LayerNorm)


Into: TypeAlias = Literal["stream", "queries-and-keys"]


@setting
class NoPositions:
    """The model sees order only through its mask."""


@setting
class LearnedPositions:
    """One learned vector for each position, added to the stream or only to what queries and keys are made from."""

    into: Into = "stream"


@setting
class SinusoidalPositions:
    """``sin, cos (pos / base^(2i/d_model))`` in neighbouring entries, added to the stream or to queries' and keys' input."""

    into: Into = "stream"
    base: float = 10_000.0

    def __post_init__(self) -> None:
        _positive(base=self.base)


@setting
class NoStretch:
    """Rotary angles as they were defined."""


@setting
class LinearStretch:
    """Positions divided by ``factor``."""

    factor: float

    def __post_init__(self) -> None:
        _positive(factor=self.factor)


@setting
class Llama3Stretch:
    """Slow rotations slowed further by ``factor``, fast ones kept, a ramp in between (Llama 3.1)."""

    factor: float
    low_frequency_factor: float
    high_frequency_factor: float
    original_context: int

    def __post_init__(self) -> None:
        _positive(factor=self.factor, low_frequency_factor=self.low_frequency_factor, original_context=self.original_context)
        if self.high_frequency_factor <= self.low_frequency_factor:
            raise ConfigError(
                f"high_frequency_factor={self.high_frequency_factor} is not above low_frequency_factor={self.low_frequency_factor}",
                "a ramp between the two",
                "swap or separate them",
            )


@setting
class RotaryPositions:
    """Queries and keys turned by angles that grow with the position.

    The first ``dims`` entries turn, two by two: entry ``i`` with ``i + dims/2`` (``halves``: GPT-NeoX, Llama) or
    with its neighbour (``adjacent``: GPT-J, llama2.c).
    """

    dims: int
    base: float = 10_000.0
    pairs: Literal["halves", "adjacent"] = "halves"
    stretch: NoStretch | LinearStretch | Llama3Stretch = field(default_factory=NoStretch)

    def __post_init__(self) -> None:
        _positive(dims=self.dims, base=self.base)
        if self.dims % 2:
            raise ConfigError(f"dims={self.dims} is odd", "rotary positions turn pairs", "use an even number")


Norm: TypeAlias = NoNorm | PreNorm | PostNorm
Positions: TypeAlias = NoPositions | LearnedPositions | SinusoidalPositions | RotaryPositions


@setting
class Unembedding:
    """From the stream to logits: ``x W_U + b_U``. Tied: ``W_U`` is ``W_E`` transposed, one tensor for both."""

    tied: bool = False
    bias: bool = False


@setting
class ModelConfig:
    """What a model is made of.

    >>> ModelConfig(vocab=50, context=16, d_model=8, layers=1, attention=Attention(heads=2, d_head=4)).heads
    2
    """

    vocab: int
    context: int
    d_model: int
    layers: int
    attention: Attention | None = None
    feed_forward: FeedForward | GatedFeedForward | None = None
    norm: Norm = field(default_factory=NoNorm)
    positions: Positions = field(default_factory=NoPositions)
    unembedding: Unembedding = field(default_factory=Unembedding)

    def __post_init__(self) -> None:
        _positive(vocab=self.vocab, context=self.context, d_model=self.d_model)
        _whole("layers", self.layers, least=0)
        if self.layers and self.attention is None:
            raise ConfigError(
                f"layers={self.layers} without attention", "every block has attention", "set attention, or layers=0"
            )
        if not self.layers and (self.attention or self.feed_forward):
            raise ConfigError(
                "layers=0 with attention or feed_forward", "a model without blocks", "remove them, or set layers=1"
            )
        self._check_norm()
        self._check_positions()

    def _check_norm(self) -> None:
        if not isinstance(self.norm, PostNorm):
            return
        if not self.layers:
            raise ConfigError("post-norm with layers=0", "a block whose writes can be normalised", "use no-norm or pre-norm")
        if self.feed_forward and self.feed_forward.reads == "beside-attention":
            raise ConfigError(
                "post-norm with a feed-forward layer beside attention", "one write at a time", "use reads='after-attention'"
            )

    def _check_positions(self) -> None:
        match self.positions:
            case RotaryPositions(dims=dims) if self.attention is None or dims > self.attention.d_head:
                given = "no attention" if self.attention is None else f"d_head={self.attention.d_head}"
                raise ConfigError(f"{dims} rotary dims with {given}", "dims within d_head", "lower positions.dims")
            case LearnedPositions(into="queries-and-keys") | SinusoidalPositions(into="queries-and-keys") if not self.layers:
                raise ConfigError(
                    "positions into queries and keys with layers=0", "a layer that has queries", "use no-positions"
                )
            case SinusoidalPositions() if self.d_model % 2:
                raise ConfigError(
                    f"sinusoidal positions with d_model={self.d_model}", "pairs of entries", "use an even d_model"
                )
            case _:
                pass

    @property
    def heads(self) -> int:
        """Heads in each layer."""
        return self.attention.heads if self.attention else 0

    @property
    def d_head(self) -> int:
        """Width of a query, key or value."""
        return self.attention.d_head if self.attention else 0

    @property
    def d_mlp(self) -> int:
        """Neurons of each feed-forward layer."""
        return self.feed_forward.d_mlp if self.feed_forward else 0


def _positive(**sizes: int | float) -> None:
    for name, size in sizes.items():
        if isinstance(size, int):
            _whole(name, size, least=1)
        elif not 0 < size < float("inf"):
            raise ConfigError(f"{name}={size}", "a number above zero", f"change {name}")


def _whole(name: str, size: int, least: int) -> None:
    most = MOST.get(name, 2**31)
    if not least <= size <= most:
        raise ConfigError(f"{name}={size}", f"a whole number from {least} to {most}", f"change {name}")
