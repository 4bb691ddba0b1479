"""What norms do to a contribution between the place where it is written and the place where it is read.

A norm makes ``s · C(x) ∘ gain + bias`` of the stream ``x``, where ``C`` takes out the mean (RMSNorm: nothing). The gain and ``C`` are
linear and fold into a circuit exactly, the bias is a contribution of its own (``headwater.circuits.bases``). The scale ``s`` depends on
all that the stream holds; no single contribution knows it. So a circuit either has it exactly, because its rows are all that there
is, or it says which number it was given.

Places have the names of the forward pass: ``embed``, ``L0.attention``, ``L0.feed_forward`` … ``unembed``, and ``L0.norm_1``,
``L0.norm_2`` where norms stand in the stream itself (post-norm).
"""

import math
from collections.abc import Mapping
from dataclasses import dataclass
from typing import Literal, TypeAlias

import torch
from jaxtyping import Float
from torch import Tensor

from headwater.errors import InputError, did_you_mean
from headwater.model.config import LayerNorm, ModelConfig, NoNorm, PostNorm, PreNorm
from headwater.model.forward import forward
from headwater.model.record import check_tokens
from headwater.model.taps import Recorder
from headwater.model.weights import Weights
from headwater.shapes import Tokens


@dataclass(frozen=True)
class Scales:
    """Numbers for the norms to multiply by, and the words that say where they are from.

    ``values`` are found by the sites of the forward pass: ``"L1.norm_1.scale"``, ``"final.scale"``.
    """

    words: str
    values: Mapping[str, float]

    def __post_init__(self) -> None:
        for site, value in self.values.items():
            if not 0 < value < float("inf"):
                raise InputError(f"a scale of {value} at {site}", "a number above zero", "measure it with mean_scales")


Scaling: TypeAlias = Scales | Literal["one", "exact"]
"""Where a norm's scale is no function of the row: take 1, take measured numbers, or refuse."""


def mean_scales(weights: Weights, tokens: Tokens, *, words: str = "the mean scale") -> Scales:
    """What every norm multiplied by, on the average over the positions of these texts: one run of the model."""
    check_tokens(weights.config, tokens)
    recorder = Recorder(["*.scale"])
    with torch.no_grad():
        forward(weights, tokens, recorder)
    return Scales(words, {site: float(scale.double().mean()) for site, scale in recorder.kept.items()})


def scale_at(site: str, scaling: Scaling) -> tuple[float, str]:
    """The number that a norm multiplies by, and what is to be said of it.

    >>> scale_at("L1.norm_1.scale", "one")
    (1.0, 'a scale of 1 at L1.norm_1')
    >>> scale_at("final.scale", Scales("the corpus' mean scale", {"final.scale": 0.25}))
    (0.25, "the corpus' mean scale at final (0.25)")
    """
    norm = site.removesuffix(".scale")
    match scaling:
        case "one":
            return 1.0, f"a scale of 1 at {norm}"
        case Scales(words=words, values=values) if site in values:
            return values[site], f"{words} at {norm} ({values[site]:.3g})"
        case Scales(values=values):
            raise InputError(f"no scale for {site}", "one for every norm on the way", did_you_mean(site, values))
        case _:
            raise InputError(
                f"an exact circuit through {norm}, whose scale depends on the rest of the stream",
                "a number to take for it",
                "give scales='one' or those of mean_scales",
            )


def norms_between(config: ModelConfig, writer: str, reader: str) -> list[str]:
    """The sites of the norms' scales that a contribution passes on the skip route from a writer to a reader.

    Pre-norm: only the reader's own. Post-norm: all that stand in the stream on the way.
    """
    match config.norm:
        case NoNorm():
            return []
        case PreNorm():
            layer, _, place = reader.partition(".")
            own = {"": "final", "attention": f"{layer}.norm_1", "feed_forward": f"{layer}.norm_2"}
            return [f"{own[place]}.scale"]
        case PostNorm():
            block = ["attention", "norm_1"] + ["feed_forward", "norm_2"] * (config.feed_forward is not None)
            route = ["embed", *(f"L{layer}.{place}" for layer in range(config.layers) for place in block), "unembed"]
            passed = route[route.index(writer) + 1 : route.index(reader)]
            return [f"{place}.scale" for place in passed if ".norm_" in place]


@dataclass(frozen=True, eq=False)
class Passage:
    """Some norms, one after the other, without their biases and with their scales fixed: a linear map ``x → x M``."""

    gains: tuple[Float[Tensor, " d_model"] | None, ...] = ()
    is_centred: bool = False
    scale: float = 1.0
    """That of all of them together."""
    given: tuple[str, ...] = ()

    def push(self, rows: Float[Tensor, "row d_model"]) -> Float[Tensor, "row d_model"]:
        """``rows M``: what becomes of contributions to the stream."""
        for gain in self.gains:
            rows = rows - rows.mean(dim=1, keepdim=True) if self.is_centred else rows
            rows = rows if gain is None else rows * gain
        return rows * self.scale if self.gains else rows

    def pull(self, columns: Float[Tensor, "d_model column"]) -> Float[Tensor, "d_model column"]:
        """``M columns``: what a reader asks of the stream before the norms, ``s · C(gain ∘ column)`` for each of them."""
        for gain in reversed(self.gains):
            columns = columns if gain is None else columns * gain[:, None]
            columns = columns - columns.mean(dim=0) if self.is_centred else columns
        return columns * self.scale if self.gains else columns


def passage(weights: Weights, writer: str, reader: str, scales: Scaling = "one") -> Passage:
    """What the skip route from a writer to a reader does to a contribution.

    >>> from headwater.model.config import Attention
    >>> config = ModelConfig(vocab=5, context=4, d_model=4, layers=1, attention=Attention(heads=1, d_head=2), norm=PreNorm())
    >>> passage(Weights.draw(config, seed=0), "L0.attention", "unembed").given
    ('a scale of 1 at final',)
    """
    norm = weights.config.norm
    if isinstance(norm, NoNorm):
        return Passage()
    sites = norms_between(weights.config, writer, reader)
    found = [scale_at(site, scales) for site in sites]
    return Passage(
        gains=tuple(weights.norm(site.removesuffix(".scale")).gain for site in sites),
        is_centred=isinstance(norm.norm, LayerNorm),
        scale=math.prod((number for number, _ in found), start=1.0),
        given=tuple(label for _, label in found),
    )
