"""The course of the stream: everything that happens to it on its way from the embeddings to the logits, in order.

Stage 0 is before anything was written, stage ``n`` after ``n`` steps. A write says which stage its component reads, and through which norm::

    pre-norm     embed, positions, then for each block: attention, feed_forward
    post-norm    embed, positions, then for each block: attention, norm_1, feed_forward, norm_2
"""

import re
from dataclasses import dataclass
from functools import cache
from typing import TypeAlias

from headwater.model.config import ModelConfig, NoNorm, PostNorm
from headwater.model.taps import all_sites


@dataclass(frozen=True)
class Given:
    """What stands at the beginning: tokens' embeddings, or positions where they enter the stream."""

    site: str


@dataclass(frozen=True)
class AttentionStep:
    """The heads of a layer write."""

    layer: int
    reads: int
    """The stage that the heads read."""
    norm: str | None
    """The norm through which they read it."""


@dataclass(frozen=True)
class FeedForwardStep:
    """A feed-forward layer writes."""

    layer: int
    reads: int
    norm: str | None


@dataclass(frozen=True)
class NormStep:
    """The stream itself is normalised: post-norm."""

    layer: int
    norm: str


Step: TypeAlias = Given | AttentionStep | FeedForwardStep | NormStep


@cache
def course(config: ModelConfig) -> tuple[Step, ...]:
    """All steps of a model.

    >>> from headwater.model.presets import named
    >>> course(named("zero-layer"))
    (Given(site='embed'),)
    >>> course(named("one-layer"))[1]
    AttentionStep(layer=0, reads=1, norm=None)
    """
    steps: list[Step] = [Given(site) for site in all_sites(config)[:2] if site in ("embed", "positions")]
    for layer in range(config.layers):
        steps += _block(config, layer, len(steps))
    return tuple(steps)


def _block(config: ModelConfig, layer: int, start: int) -> list[Step]:
    after, feeds = start + 1, config.feed_forward is not None
    match config.norm:
        case PostNorm():
            attending: list[Step] = [AttentionStep(layer, start, None), NormStep(layer, "norm_1")]
            return attending + feeds * [FeedForwardStep(layer, start + 2, None), NormStep(layer, "norm_2")]
        case NoNorm():
            norm_1 = norm_2 = None
        case _:
            norm_1, norm_2 = "norm_1", "norm_2"
    beside = config.feed_forward is not None and config.feed_forward.reads == "beside-attention"
    return [AttentionStep(layer, start, norm_1), *feeds * [FeedForwardStep(layer, start if beside else after, norm_2)]]


def layer_of(name: str) -> int | None:
    """The layer in the name of a site, a component or a bias.

    >>> layer_of("L3H11"), layer_of("L0.b_O"), layer_of("b_U")
    (3, 0, None)
    """
    found = re.match(r"L(\d+)", name)
    return int(found[1]) if found else None
