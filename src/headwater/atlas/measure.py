"""What heads really do at the places of skip-trigrams: measured in runs of the model, some windows at a time."""

import math
from collections.abc import Iterator, Mapping
from dataclasses import dataclass, fields, replace
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
from headwater.model.forward import affine, final_stream, last_norm
from headwater.model.taps import Chain, Recorder, Tap
from headwater.model.weights import Weights

NUMBERS = 2**22
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
    sources: Int64[ndarray, " at"]
    """How many positions have the source's token."""
    attention: Float64[ndarray, " at"]
    """Paid to all of them together."""
    delta: Float64[ndarray, " at"]
    """The contribution to the centred logit of ``out`` that came from them."""
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
    heads = every_head(weights.config)
    found: list[Speaker] = []
    numbers: list[int] = np.unique(rows.head).tolist()
    for number in numbers:
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
    layers = sorted({speaker.head.layer for speaker in heads})
    watch, kept = _Watch(found, layers), Recorder([*(f"L{layer}.values" for layer in layers), "*.scale"])
    tap = Chain(watch, kept)
    final = last_norm(weights, final_stream(weights, torch.from_numpy(windows).to(weights.W_E.device), tap), tap)
    said = _said(weights, windows, found, final)
    for speaker in heads:
        layer, number = speaker.head.layer, speaker.head.head
        read = _Read(
            speaker,
            watch.paid[layer][:, number],
            _values(weights, speaker.head, kept.kept),
            _scale(weights, layer, kept.kept, found),
        )
        for places in _portions(found, speaker):
            yield _at(said, read, places)


class _Watch(Tap):
    """Sees where heads look, and remembers it for the places alone: no pattern is held longer than its layer takes."""

    def __init__(self, found: Places, layers: list[int]) -> None:
        self.sites = {f"L{layer}.pattern": layer for layer in layers}
        place = np.repeat(np.arange(len(found.pair)), np.diff(found.start))
        self.looks = tuple(torch.from_numpy(at) for at in (found.window[place], found.dest[place], found.source))
        self.paid: dict[int, NDArray[Any]] = {}
        """``[look, head]`` of each layer."""

    def wants(self, site: str) -> bool:
        """Patterns of some layers."""
        return site in self.sites

    def __call__(self, site: str, value: Tensor) -> Tensor:
        """Remember what is asked for."""
        window, dest, source = (at.to(value.device) for at in self.looks)
        self.paid[self.sites[site]] = _array(value[window, :, dest, source])
        return value


def _scale(weights: Weights, layer: int, kept: Mapping[str, Tensor], found: Places) -> NDArray[Any]:
    """What the norms between a layer's heads and the logits multiply by at each place, together."""
    sites = norms_between(weights.config, f"L{layer}.attention", "unembed")
    return math.prod((_array(kept[site])[found.window, found.dest] for site in sites), start=np.ones(len(found.pair), np.int8))


def _values(weights: Weights, head: Head, kept: Mapping[str, Tensor]) -> NDArray[Any]:
    """What a head mixes, ``[window, source, d_head]``, without ``b_V``: that comes from no source."""
    shared, bias = key_head(weights.config, head), weights.blocks[head.layer].attention.b_V
    values = kept[f"L{head.layer}.values"][:, shared]
    return _array(values if bias is None else values - bias[shared])


@dataclass(frozen=True, eq=False)
class _Said:
    """Places in some windows, and what the model said there."""

    found: Places
    next: Int64[ndarray, " place"]
    """The token that does come next."""
    line: Int64[ndarray, " place"]
    """Which line of the log-probabilities a place has: several pairs may share a position."""
    log_p: NDArray[Any]
    """``[line, vocab]``."""


def _said(weights: Weights, windows: Windows, found: Places, final: Tensor) -> _Said:
    at, line = np.unique(found.window * windows.shape[1] + found.dest, return_inverse=True)
    read = final.flatten(0, 1)[torch.from_numpy(at).to(final.device)]
    log_p = affine(read, weights.W_U, weights.b_U).log_softmax(dim=-1)
    return _Said(found, windows[found.window, found.dest + 1], line, _array(log_p))


@dataclass(frozen=True, eq=False)
class _Read:
    """What one head did in some windows."""

    speaker: Speaker
    paid: NDArray[Any]
    """The attention of each look."""
    values: NDArray[Any]
    scale: NDArray[Any]
    """Of each place."""


def _portions(found: Places, speaker: Speaker) -> list[Int64[ndarray, " place"]]:
    """The places that a head has rows for, as many at a time as memory is meant for."""
    rows = speaker.start[found.pair + 1] - speaker.start[found.pair]
    own = np.flatnonzero(rows)
    if not len(own):
        return []
    work = np.cumsum(rows[own] + found.start[own + 1] - found.start[own])
    return np.split(own, np.flatnonzero(np.diff(work // AT_ONCE)) + 1)


def _at(said: _Said, read: _Read, places: Int64[ndarray, " place"]) -> Measured:
    """A head's rows at some places."""
    found, speaker = said.found, read.speaker
    owner, look = expand(found.start, places)
    source, begins = found.source[look], np.flatnonzero(np.diff(owner, prepend=-1))
    paid = read.paid[look]
    mixed = np.add.reduceat(paid[:, None] * read.values[found.window[places][owner], source], begins)
    # Of equal ones, the first.
    most = np.where(paid == np.maximum.reduceat(paid, begins)[owner], source, np.iinfo(np.int64).max)
    at, own = expand(speaker.start, found.pair[places])
    place = places[at]
    delta = (mixed[at] * speaker.wanted[own]).sum(axis=1) * read.scale[place]
    return Measured(
        row=speaker.rows[own],
        window=found.window[place],
        dest=found.dest[place],
        source=np.minimum.reduceat(most, begins)[at],
        next=said.next[place],
        sources=np.diff(begins, append=len(owner))[at],
        attention=np.add.reduceat(paid, begins)[at].astype(np.float64),
        delta=delta.astype(np.float64),
        log_p=said.log_p[said.line[place], speaker.out[own]].astype(np.float64),
    )


def worth(
    delta: Float64[ndarray, " at"], log_p: Float64[ndarray, " at"], came: Bool[ndarray, " at"]
) -> Float64[ndarray, " at"]:
    """What contributions to a token's logit are worth, in nats, where the token has this log-probability and did come next or did not.

    Taking δ out of one logit leaves ``1 − p + p·exp(−δ)`` of what the softmax divides by. So the log-probability of the token that comes next
    falls by ``[it is this one]·δ + log(1 − p + p·exp(−δ))``.

    >>> worth(np.array([1.0, 1.0]), np.log([0.5, 0.5]), np.array([True, False])).round(3)
    array([ 0.62, -0.38])
    """
    # Rounding may take a probability beyond one.
    log_p = np.minimum(log_p, 0.0)
    with np.errstate(divide="ignore"):
        others = np.log(-np.expm1(log_p))
    return came * delta + np.logaddexp(others, log_p - delta)


def _array(tensor: Tensor) -> NDArray[Any]:
    return tensor.cpu().numpy()
