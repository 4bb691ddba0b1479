"""Where in a model an intervention takes place: a site, or one head, neuron or position of it."""

import re
from collections.abc import Iterable, Sequence
from dataclasses import dataclass, field, replace
from typing import TypeAlias

import torch
from torch import Tensor

from headwater.circuits.head import Head, every_head, find_head
from headwater.errors import InputError, did_you_mean
from headwater.model.config import ModelConfig
from headwater.model.taps import all_sites, canonical
from headwater.trace.question import within

STREAM = "batch pos d_model"
AXES = {
    "positions": "pos d_model",
    "scale": "batch pos",
    "queries": "batch head dest d_head",
    "keys": "batch key_head source d_head",
    "values": "batch key_head source d_head",
    "scores": "batch head dest source",
    "pattern": "batch head dest source",
    "mixed": "batch head dest d_head",
    "head_writes": "batch head dest d_model",
    "gate_input": "batch pos d_mlp",
    "hidden": "batch pos d_mlp",
    "gates": "batch pos d_mlp",
    "neurons": "batch pos d_mlp",
    "logits": "batch pos vocab",
}
"""Of each site, by the end of its name; all others are the stream's."""
UNITS = {
    "H": ("head", "head_writes"),
    "K": ("key_head", "keys"),
    "N": ("d_mlp", "neurons"),
}
"""The axis that a letter chooses one entry of, and the site that it means where none is named."""


@dataclass(frozen=True)
class Place:
    """A site, and what of it is meant: all, or one head or neuron, everywhere or at some positions.

    Positions are those of a site's first axis that has any: the destinations of a pattern, the sources of keys and values. Negative
    ones count from the end.
    """

    site: str
    unit: int | None = None
    """One entry of the head's, key's or neuron's axis; None means all."""
    positions: tuple[int, ...] | None = None
    name: str = field(default="", compare=False)
    """As people write it, without positions."""

    def __str__(self) -> str:
        at = "" if self.positions is None else "@" + ",".join(map(str, self.positions))
        return (self.name or self.site) + at

    def at(self, positions: Sequence[int] | None) -> "Place":
        """The same place, at some positions only; None means at all of them."""
        return replace(self, positions=None if positions is None else tuple(positions))

    @property
    def axes(self) -> tuple[str, ...]:
        """The names of the site's axes."""
        return tuple(AXES.get(self.site.rsplit(".", 1)[-1], STREAM).split())

    @property
    def position_axis(self) -> int:
        """The number of the axis that positions are counted on."""
        return next(number for number, axis in enumerate(self.axes) if axis in ("pos", "dest", "source"))

    @property
    def is_between_positions(self) -> bool:
        """Whether each entry belongs to a destination and a source."""
        return {"dest", "source"} <= set(self.axes)

    def numbers(self, length: int) -> list[int]:
        """The place's positions in a text of this length, counted from the front."""
        return [within(each, length, "position") for each in (range(length) if self.positions is None else self.positions)]

    def of(self, value: Tensor) -> Tensor:
        """What of a site's value is meant; every axis is still there."""
        return value[self._index(value)]

    def put(self, value: Tensor, part: Tensor) -> Tensor:
        """The site's value with something else in this place. Scores that the mask forbids stay forbidden."""
        after, index = value.clone(), self._index(value)
        if self.site.endswith(".scores"):
            part = torch.where(value[index].isneginf(), value[index], part)
        after[index] = part
        return after

    def _index(self, value: Tensor) -> tuple[slice | list[int], ...]:
        index: list[slice | list[int]] = [slice(None)] * value.ndim
        if self.unit is not None:
            axis = next(number for number, axis in enumerate(self.axes) if axis in ("head", "key_head", "d_mlp"))
            index[axis] = slice(self.unit, self.unit + 1)
        if self.positions is not None:
            index[self.position_axis] = self.numbers(value.shape[self.position_axis])
        return tuple(index)


PlaceName: TypeAlias = Place | Head | str
"""A place as people write it: ``"L1H4"``, ``"L1H4.pattern@3"``, ``"L0.feed_forward"``, ``"L0N17"``, ``"embed"``."""


def find_place(name: PlaceName, config: ModelConfig) -> Place:
    """The place of this model that is called so.

    ====================  =============================================================================
    written               meant
    ====================  =============================================================================
    ``embed``, ``L0.out``  a site, or one of the documents' letters for one (``L0.t3``)
    ``L1H4``              what head 4 of layer 1 writes; ``L1H4.pattern``: another site's entry for it
    ``L1K2.keys``         key head 2, which a group of heads shares
    ``L1N17``             neuron 17 of layer 1; ``L1N17.hidden``: another site's entry for it
    ``L1H4@3,-1``         any of these, at some positions only
    ====================  =============================================================================

    >>> from headwater.model.config import Attention
    >>> find_place("l0h7@2", ModelConfig(vocab=50, context=16, d_model=8, layers=1, attention=Attention(heads=8, d_head=4)))
    Place(site='L0.head_writes', unit=7, positions=(2,), name='L0H7')
    """
    if isinstance(name, Place):
        return _checked(name, config)
    what, sign, where = str(name).strip().partition("@")
    positions = tuple(read_positions(where)) if sign else None
    unit = re.fullmatch(r"[Ll](\d{1,6})([HhKkNn])(\d{1,9})(?:\.(\w+))?", what, re.ASCII)
    if unit is None:
        site = canonical(config, re.sub(r"^l(?=\d)", "L", what))
        return Place(site, None, positions, site)
    return _unit(config, int(unit[1]), unit[2].upper(), int(unit[3]), unit[4]).at(positions)


def _unit(config: ModelConfig, layer: int, letter: str, number: int, site: str | None) -> Place:
    """One head, key head or neuron, or another site's entry for it."""
    axis, usual = UNITS[letter]
    if letter == "H":
        find_head((layer, number), config)
    there = _sites_with(config, layer, axis)
    site = site or usual
    if letter == "H" and site in ("keys", "values"):
        return _key_of(config, layer, number, site)
    written = f"{site!r:.40} of L{layer}{letter}{number}"
    if not there:
        raise InputError(f"{written} in a model without such a layer", "a layer that is there", _layers(config))
    if site not in there:
        raise InputError(written, f"a site with one entry for each {axis.replace('_', ' ')}", did_you_mean(site, there))
    _check_number(config, axis, number, written)
    name = f"L{layer}{letter}{number}" + ("" if site == usual else f".{site}")
    return Place(f"L{layer}.{site}", number, None, name if letter != "K" else f"L{layer}K{number}.{site}")


def _checked(place: Place, config: ModelConfig) -> Place:
    """A place that was found for some model: an edit where this one has no such place would do nothing, and nobody would know."""
    if place.site not in all_sites(config):
        raise InputError(f"the place {place}", "a place of this model", "find it with this model's own place()")
    if place.unit is not None:
        axis = next((axis for axis in place.axes if axis in ("head", "key_head", "d_mlp")), None)
        if axis is None:
            raise InputError(
                f"the place {place}, number {place.unit}", "a site with one entry for each head or neuron", "leave it out"
            )
        _check_number(config, axis, place.unit, f"the place {place}, number {place.unit}")
    return place


def _check_number(config: ModelConfig, axis: str, number: int, written: str) -> None:
    attention = config.attention
    sizes = {"head": config.heads, "key_head": attention.key_heads if attention else 0, "d_mlp": config.d_mlp}
    if not 0 <= number < sizes[axis]:
        raise InputError(written, f"numbers from 0 to {sizes[axis] - 1}", "choose one of these")


def _key_of(config: ModelConfig, layer: int, head: int, site: str) -> Place:
    """A head's own key or value; one that others use as well has to be asked for by its own number."""
    group = config.attention.group_size if config.attention else 1
    if group > 1:
        shared = head // group
        users = " and ".join(f"L{layer}H{other}" for other in range(shared * group, (shared + 1) * group))
        raise InputError(f"the {site} of L{layer}H{head}", f"{users} share them", f"write L{layer}K{shared}.{site}")
    return Place(f"L{layer}.{site}", head, None, f"L{layer}H{head}.{site}")


def _sites_with(config: ModelConfig, layer: int, axis: str) -> list[str]:
    """The sites of a layer that have an axis."""
    own = (site.removeprefix(f"L{layer}.") for site in all_sites(config) if site.startswith(f"L{layer}."))
    return [site for site in own if axis in AXES.get(site, STREAM).split()]


def _layers(config: ModelConfig) -> str:
    if not config.layers:
        return "choose another model: this one has no layers"
    return f"use L0 to L{config.layers - 1}" + ("" if config.feed_forward else "; none has a feed-forward layer")


MANY = 2**20
"""Positions that can be written as one stretch: more are taken for a slip."""


def read_positions(text: str) -> list[int]:
    """Positions as people write them: ``3``, ``0,2,-1``, ``4-7`` (both ends count).

    >>> read_positions("0,4-6,-1")
    [0, 4, 5, 6, -1]
    """
    found: list[int] = []
    for piece in text.replace(" ", "").split(","):
        one = re.fullmatch(r"(-?\d{1,9})(?:-(\d{1,9}))?", piece, re.ASCII)
        if one is None or (one[2] and not 0 <= int(one[1]) <= int(one[2]) < int(one[1]) + MANY):
            raise InputError(f"{text!r:.80} as positions", "whole numbers, such as 3, 0,2,-1 or 4-7", "count tokens from 0")
        found += range(int(one[1]), int(one[2]) + 1) if one[2] else [int(one[1])]
    return found


def every_write(config: ModelConfig) -> list[Place]:
    """All heads and feed-forward layers, layer by layer.

    >>> from headwater.model.config import Attention
    >>> config = ModelConfig(vocab=50, context=16, d_model=8, layers=1, attention=Attention(heads=2, d_head=4))
    >>> [str(place) for place in every_write(config)]
    ['L0H0', 'L0H1']
    """
    heads: Iterable[tuple[int, str]] = ((head.layer, str(head)) for head in every_head(config))
    layers = range(config.layers if config.feed_forward else 0)
    names = [*heads, *((layer, f"L{layer}.feed_forward") for layer in layers)]
    return [find_place(name, config) for _, name in sorted(names, key=lambda each: each[0])]
