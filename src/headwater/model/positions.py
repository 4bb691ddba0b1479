"""Where positions enter: the stream, what queries and keys are made from, or the angle that these are turned by."""

import math
from dataclasses import dataclass

import torch
from einops import rearrange, repeat
from jaxtyping import Float
from torch import Tensor

from headwater.errors import InputError
from headwater.model.config import (
    LearnedPositions,
    LinearStretch,
    Llama3Stretch,
    NoStretch,
    RotaryPositions,
    SinusoidalPositions,
)
from headwater.model.weights import Weights


@dataclass(frozen=True)
class Turn:
    """Rotations of pairs of entries, one angle for each position and pair."""

    cos: Float[Tensor, "pos pair"]
    sin: Float[Tensor, "pos pair"]
    halves: bool
    """Entry i turns with entry i + dims/2; otherwise neighbours turn together."""

    def __call__(self, x: Float[Tensor, "batch any_head pos d_head"]) -> Float[Tensor, "batch any_head pos d_head"]:
        """Turn the first entries of every query or key; the rest stays."""
        dims = 2 * self.cos.shape[-1]
        split = "... (two pair) -> two ... pair" if self.halves else "... (pair two) -> two ... pair"
        first, second = rearrange(x[..., :dims], split, two=2)
        turned = torch.stack([first * self.cos - second * self.sin, second * self.cos + first * self.sin])
        joined = rearrange(turned, " -> ".join(reversed(split.split(" -> "))))
        return joined if dims == x.shape[-1] else torch.cat([joined, x[..., dims:]], dim=-1)


@dataclass(frozen=True)
class Placed:
    """What positions do in one forward pass; at most one of the three is there."""

    in_stream: Float[Tensor, "pos d_model"] | None = None
    in_queries_and_keys: Float[Tensor, "pos d_model"] | None = None
    turn: Turn | None = None


def place(weights: Weights, start: int, length: int) -> Placed:
    """Positions ``start … start + length − 1`` of this model."""
    config = weights.config
    if start < 0:
        raise InputError(f"start={start}", "a position from 0 on", "count the tokens before this text")
    if start + length > config.context:
        raise InputError(f"{start + length:,} tokens", f"at most {config.context:,}, the model's context", "shorten the text")
    match config.positions:
        case LearnedPositions(into=into):
            assert weights.W_pos is not None, "learned positions come with W_pos"
            # A copy, so that whoever looks at it does not hold the weights themselves.
            table = weights.W_pos[start : start + length].clone()
        case SinusoidalPositions(into=into, base=base):
            table = sinusoids(config.d_model, base, start, length).to(weights.W_E)
        case RotaryPositions() as rotary:
            angles = torch.arange(start, start + length, dtype=torch.float64)[:, None] * frequencies(rotary)
            turn = Turn(angles.cos().to(weights.W_E), angles.sin().to(weights.W_E), halves=rotary.pairs == "halves")
            return Placed(turn=turn)
        case _:
            return Placed()
    return Placed(in_stream=table) if into == "stream" else Placed(in_queries_and_keys=table)


def sinusoids(d_model: int, base: float, start: int, length: int) -> Float[Tensor, "pos d_model"]:
    """``sin(pos · base^(−2i/d))`` in entry 2i, the cosine in entry 2i + 1; in float64.

    >>> sinusoids(4, 10_000.0, 0, 1)
    tensor([[0., 1., 0., 1.]], dtype=torch.float64)
    """
    speed = base ** (-torch.arange(0, d_model, 2, dtype=torch.float64) / d_model)
    angles = torch.arange(start, start + length, dtype=torch.float64)[:, None] * speed
    return rearrange(torch.stack([angles.sin(), angles.cos()]), "two pos pair -> pos (pair two)")


def frequencies(rotary: RotaryPositions) -> Float[Tensor, " pair"]:
    """Radians by which each pair turns from one position to the next; in float64."""
    speed = rotary.base ** (-torch.arange(0, rotary.dims, 2, dtype=torch.float64) / rotary.dims)
    match rotary.stretch:
        case NoStretch():
            return speed
        case LinearStretch(factor=factor):
            return speed / factor
        case Llama3Stretch() as stretch:
            turns_in_context = stretch.original_context * speed / (2 * math.pi)
            span = stretch.high_frequency_factor - stretch.low_frequency_factor
            kept = ((turns_in_context - stretch.low_frequency_factor) / span).clamp(0, 1)
            return kept * speed + (1 - kept) * speed / stretch.factor


def for_each_head(keys: Float[Tensor, "batch key_head source d_head"], heads: int) -> Float[Tensor, "batch head source d_head"]:
    """Keys or values handed to every head of their group."""
    return repeat(keys, "batch key_head source d_head -> batch (key_head group) source d_head", group=heads // keys.shape[1])
