"""The trained block model on held-out text: its loss as it is and changed, and what can be read off its stream."""

from typing import cast

import torch
from jaxtyping import Float
from torch import Tensor
from torch.nn.functional import cross_entropy

import headwater as hw
from headwater.claims.given import Given
from headwater.model.taps import NOBODY, Tap
from headwater.shapes import Tokens
from headwater.trace.run import Run

Rows = Float[Tensor, "rows width"]
LENGTH = 128
"""Tokens of a window, where the model can take as many."""


def one_text(given: Given) -> Tokens:
    """The beginning of a held-out text."""
    return given.windows("block", 1, length=32)[:, :-1]


def run_of(given: Given) -> Run:
    """The trained model on held-out windows."""
    return given.once(
        "run of the block model", lambda: given.model("block").record(given.windows("block", 64, length=LENGTH)[:, :-1])
    )


def loss(given: Given, tap: Tap = NOBODY) -> float:
    """Nats for each token of held-out text, for the trained model as it is or with something changed."""
    model, windows = given.model("block"), given.windows("block", 16, length=LENGTH)
    logits = model.record(windows[:, :-1], tap=tap).logits
    return float(cross_entropy(logits.flatten(0, 1), windows[:, 1:].flatten()))


def without(model: hw.Model, part: str) -> list[hw.Zero]:
    """Edits by which no layer's ``attention``, or no layer's ``feed_forward``, writes anything."""
    return [hw.Zero(model.place(f"L{layer}.{part}")) for layer in range(model.config.layers)]


class Unnormalised(Tap):
    """Divides by nothing where a norm would divide by the standard deviation."""

    def wants(self, site: str) -> bool:
        """What norms multiply by."""
        return site.endswith(".scale")

    def __call__(self, site: str, value: Tensor) -> Tensor:
        """Ones."""
        del site
        return torch.ones_like(value)


class Even(Tap):
    """Gives all tokens that may be looked at the same weight."""

    def wants(self, site: str) -> bool:
        """All scores."""
        return site.endswith(".scores")

    def __call__(self, site: str, value: Tensor) -> Tensor:
        """Zero, where the mask allows a look."""
        del site
        return torch.where(value.isneginf(), value, 0.0)


def unexplained(given: Given, site: str) -> float:
    """The share of a site's variance that is left among occurrences of the same token: 0 where the token alone decides."""
    run = run_of(given)
    values, tokens = run[site].flatten(0, 1), run.tokens.flatten()
    sums = values.new_zeros(run.config.vocab, values.shape[1]).index_add(0, tokens, values)
    means = sums / tokens.bincount(minlength=run.config.vocab)[:, None].clamp(min=1)
    return float((values - means[tokens]).square().sum() / (values - values.mean(dim=0)).square().sum())


def decoded(read: Rows, target: Rows) -> float:
    """``R²`` of a linear probe: the least-squares map fitted on one half of the rows, and how much of the other half it explains."""
    half, ones = len(read) // 2, torch.ones_like(read[:, :1])
    inputs = torch.cat([read, ones], dim=1)
    map_ = cast(Tensor, torch.linalg.lstsq(inputs[:half], target[:half], driver="gelsd").solution)
    missed, spread = target[half:] - inputs[half:] @ map_, target[half:] - target[half:].mean(dim=0)
    return float(1 - missed.square().sum() / spread.square().sum())


def shuffled(rows: Rows) -> Rows:
    """The same rows in another order: what a probe finds where there is nothing to find."""
    return rows[torch.randperm(len(rows), generator=torch.Generator().manual_seed(0))]


def probe(given: Given, site: str, *, back: int = 0, by_chance: bool = False) -> float:
    """``R²`` of a linear probe on the stream at a site for the token's embedding, or for that of the token so many positions ``back``.

    By chance: with the targets shuffled.
    """
    run = run_of(given)
    length = run.tokens.shape[1]
    read, target = run[site][:, back:].flatten(0, 1), run["embed"][:, : length - back].flatten(0, 1)
    return decoded(read, shuffled(target) if by_chance else target)


def last_stream(given: Given) -> str:
    """The stream that the model's last block leaves."""
    return f"L{given.model('block').config.layers - 1}.out"
