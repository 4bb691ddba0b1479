"""What heads really do at the places of skip-trigrams: measured in runs of the model, some windows at a time."""

import math
from collections.abc import Iterator
from dataclasses import dataclass, fields, replace
from itertools import groupby
from typing import Any

import numpy as np
import torch
from jaxtyping import Bool, Float64, Int64
from numpy import ndarray
from numpy.typing import NDArray
from torch import Tensor

from headwater.atlas.places import Listed, Places, Windows, expand
from headwater.circuits.head import Head, every_head, key_head
from headwater.circuits.norms import norms_between, passage
from headwater.model.record import Record, record
from headwater.model.weights import Weights

NUMBERS = 2**24
"""Logits, or entries of a layer's patterns, that are held at once."""
AT_ONCE = 2**18
"""Rows at places measured together."""


@dataclass(frozen=True, eq=False)
class Measured:
    """What was measured of some rows, each at one of its places."""

    row: Int64[ndarray, " at"]
    window: Int64[ndarray, " at"]
    dest: Int64[ndarray, " at"]
    """The position of the destination."""
    source: Int64[ndarray, " at"]
    """The position of the source; of several, the one that got most attention."""
    next: Int64[ndarray, " at"]
    """The token that does come next."""
    attention: Float64[ndarray, " at"]
    """Paid to all positions of the source's token."""
    delta: Float64[ndarray, " at"]
    """The contribution to the centred logit of ``out`` that came from there."""
    log_p: Float64[ndarray, " at"]
    """The model's log-probability of ``out``."""

    def some(self, chosen: NDArray[Any]) -> "Measured":
        """Those at these places, or where a mask is true."""
        return Measured(*(getattr(self, field.name)[chosen] for field in fields(self)))

    def later(self, windows: int) -> "Measured":
        """The same, so many windows further on."""
        return replace(self, window=self.window + windows)

    @staticmethod
    def joined(*parts: "Measured") -> "Measured":
        """All of them."""
        return Measured(*(np.concatenate([getattr(part, field.name) for part in parts]) for field in fields(Measured)))


@dataclass(frozen=True, eq=False)
class Speaker:
    """A head that has rows, and what each of them asks of the values that it mixes."""

    head: Head
    rows: Int64[ndarray, " own"]
    """Its rows, by pair."""
    start: Int64[ndarray, " pair_and_end"]
    """Where the rows of each pair begin."""
    out: Int64[ndarray, " own"]
    wanted: NDArray[Any]
    """``[own, d_head]``: ``W_O q`` of each row, but for the scales of norms."""


def speakers(weights: Weights, rows: Listed, pair: Int64[ndarray, " row"], pairs: int) -> list[Speaker]:
    """The heads that have rows, layer by layer; ``pair`` is which of so many ``pairs`` a row has."""
    heads = every_head(weights.config) if weights.config.layers else []
    found: list[Speaker] = []
    for number in np.unique(rows.head).tolist():
        own = np.flatnonzero(rows.head == number)
        own = own[np.argsort(pair[own], kind="stable")]
        start, out = np.searchsorted(pair[own], np.arange(pairs + 1)), rows.out[own]
        found.append(Speaker(heads[number], own, start, out, _wanted(weights, heads[number], out)))
    return found


@torch.no_grad()
def _wanted(weights: Weights, head: Head, out: Int64[ndarray, " own"]) -> NDArray[Any]:
    """``out``'s direction above the mean of all, pulled back through the norms after the head and through its ``W_O``."""
    W_U = weights.W_U
    columns = W_U[:, torch.from_numpy(out).to(W_U.device)] - W_U.mean(dim=1, keepdim=True)
    pulled = passage(weights, f"L{head.layer}.attention", "unembed").pull(columns)
    return _array((weights.blocks[head.layer].attention.W_O[head.head] @ pulled).T)


def together(weights: Weights, length: int) -> int:
    """How many windows go through the model at once."""
    config = weights.config
    return max(1, NUMBERS // (length * max(config.vocab, config.heads * length)))


@torch.no_grad()
def measure(weights: Weights, windows: Windows, found: Places, heads: list[Speaker]) -> Iterator[Measured]:
    """Every row at every place of its pair in some windows, a bounded number at a time."""
    run = record(weights, torch.from_numpy(windows).to(weights.W_E.device))
    batch = _Batch(windows, found, _array(run.logits), _array(run.logits.logsumexp(dim=-1)))
    for layer, some in groupby(heads, key=lambda speaker: speaker.head.layer):
        made = run.together([f"L{layer}.pattern", f"L{layer}.values"])
        scale = _array(_scale(run, layer))
        for speaker in some:
            pattern, values = made[f"L{layer}.pattern"][:, speaker.head.head], _values(run, speaker.head, made[f"L{layer}.values"])
            reading = _Reading(speaker, _array(pattern), _array(values), scale)
            for places in _portions(found, speaker):
                yield _at(batch, reading, places)


def _scale(run: Record, layer: int) -> Tensor:
    """What the norms between a layer's heads and the logits multiply by, together."""
    sites = norms_between(run.config, f"L{layer}.attention", "unembed")
    return math.prod((run[site] for site in sites), start=torch.ones_like(run["final"][..., 0]))


def _values(run: Record, head: Head, values: Tensor) -> Tensor:
    """What a head mixes, without ``b_V``: that comes from no source."""
    shared, bias = key_head(run.config, head), run.weights.blocks[head.layer].attention.b_V
    return values[:, shared] if bias is None else values[:, shared] - bias[shared]


@dataclass(frozen=True, eq=False)
class _Batch:
    """Some windows, the places in them, and what the model said there."""

    windows: Windows
    found: Places
    logits: NDArray[Any]
    """``[window, pos, vocab]``."""
    normaliser: NDArray[Any]
    """``[window, pos]``: the logarithm of what the softmax divides by."""


@dataclass(frozen=True, eq=False)
class _Reading:
    """What one head did in some windows."""

    speaker: Speaker
    pattern: NDArray[Any]
    """``[window, dest, source]``."""
    values: NDArray[Any]
    """``[window, source, d_head]``."""
    scale: NDArray[Any]
    """``[window, dest]``."""


def _portions(found: Places, speaker: Speaker) -> list[Int64[ndarray, " place"]]:
    """The places that a head has rows for, as many at a time as memory is meant for."""
    rows = speaker.start[found.pair + 1] - speaker.start[found.pair]
    own = np.flatnonzero(rows)
    if not len(own):
        return []
    work = np.cumsum(rows[own] + found.start[own + 1] - found.start[own])
    return np.split(own, np.flatnonzero(np.diff(work // AT_ONCE)) + 1)


def _at(batch: _Batch, reading: _Reading, places: Int64[ndarray, " place"]) -> Measured:
    """A head's rows at some places."""
    found, speaker = batch.found, reading.speaker
    window, dest = found.window[places], found.dest[places]
    owner, look = expand(found.start, places)
    source, begins = found.source[look], np.flatnonzero(np.diff(owner, prepend=-1))
    paid = reading.pattern[window[owner], dest[owner], source]
    mixed = np.add.reduceat(paid[:, None] * reading.values[window[owner], source], begins)
    # Of equal ones, the first.
    most = np.where(paid == np.maximum.reduceat(paid, begins)[owner], source, batch.windows.shape[1])
    at, own = expand(speaker.start, found.pair[places])
    window, dest, out = window[at], dest[at], speaker.out[own]
    delta = (mixed[at] * speaker.wanted[own]).sum(axis=1) * reading.scale[window, dest]
    return Measured(
        row=speaker.rows[own],
        window=window,
        dest=dest,
        source=np.minimum.reduceat(most, begins)[at],
        next=batch.windows[window, dest + 1],
        attention=np.add.reduceat(paid, begins)[at].astype(np.float64),
        delta=delta.astype(np.float64),
        log_p=(batch.logits[window, dest, out] - batch.normaliser[window, dest]).astype(np.float64),
    )


def worth(delta: Float64[ndarray, " at"], log_p: Float64[ndarray, " at"], came: Bool[ndarray, " at"]) -> Float64[ndarray, " at"]:
    """What contributions to a token's logit are worth, in nats, where the token has this log-probability and did come next or did not.

    Taking δ out of one logit leaves ``1 − p + p·exp(−δ)`` of what the softmax divides by. So the log-probability of the token that comes next
    falls by ``[it is this one]·δ + log(1 − p + p·exp(−δ))``.

    >>> worth(np.array([1.0, 1.0]), np.log([0.5, 0.5]), np.array([True, False])).round(3)
    array([ 0.62, -0.38])
    """
    # Rounding may take a probability beyond one.
    log_p = np.minimum(log_p, 0.0)
    with np.errstate(divide="ignore"):
        others = np.log1p(-np.exp(log_p))
    return came * delta + np.logaddexp(others, log_p - delta)


def _array(tensor: Tensor) -> NDArray[Any]:
    return tensor.cpu().numpy()
