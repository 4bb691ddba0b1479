"""Interventions as values: what to put in a place instead of what the pass came up with.

Each is a tap, so that ``record(weights, tokens, tap=edit)`` is the run with the edit and ``Chain(one, other)`` makes both. An edit's answer depends
on the site and the value alone: whoever asks again, gets the same.

=============================  ==========================================================================
``Zero(place)``                nothing
``Mean.of(place, *runs)``      the mean over all positions and texts of some runs
``Patch.of(place, run)``       what another run had there
``resample(place, run)``       what a run had at positions drawn by a seed
``Scale(place, factor)``       ``factor · x``
``Steer(place, direction)``    ``x + amount · direction``
``Remove(place, direction)``   ``x − <x, u> u``, where ``u`` is the direction at length 1
``Freeze(run)``                patterns, scales of norms and gates as a run measured them, everywhere
=============================  ==========================================================================
"""

import math
from collections.abc import Sequence
from dataclasses import dataclass, fields

import torch
from jaxtyping import Float
from torch import Tensor

from headwater.errors import InputError, did_you_mean
from headwater.model.config import ModelConfig
from headwater.model.record import Record
from headwater.model.taps import Chain, Tap
from headwater.trace.places import Place, every_write, find_place

HOW = ("zero", "mean", "resample")
"""Ways to ablate."""
MEASURED = ("pattern", "scale", "gates")
"""What the frozen model holds fixed."""


@dataclass(frozen=True, eq=False, repr=False)
class Edit(Tap):
    """Something else in one place; the rest of the site stays as it is."""

    place: Place

    def wants(self, site: str) -> bool:
        """Whether the place is on ``site``."""
        return site == self.place.site

    def __call__(self, site: str, value: Tensor) -> Tensor:
        """The site's value with the edit made."""
        del site
        return self.place.put(value, self.instead(self.place.of(value)))

    def instead(self, value: Tensor) -> Tensor:
        """What to put where ``value`` was."""
        raise NotImplementedError

    def __eq__(self, other: object) -> bool:
        """The same kind of edit, in the same place, with the same numbers."""
        if type(self) is not type(other):
            return NotImplemented
        return all(_same(getattr(self, one.name), getattr(other, one.name)) for one in fields(self))

    def __hash__(self) -> int:
        return hash((type(self), self.place))

    def __repr__(self) -> str:
        rest = [_words(getattr(self, one.name)) for one in fields(self)[1:]]
        return f"{type(self).__name__}({', '.join([str(self.place), *rest])})"


def _same(one: object, other: object) -> bool:
    if isinstance(one, Tensor) and isinstance(other, Tensor):
        return one.dtype == other.dtype and torch.equal(one, other)
    return one == other


def _words(value: object) -> str:
    if isinstance(value, Tensor):
        return "×".join(map(str, value.shape)) + " numbers"
    return f"{value:g}" if isinstance(value, float) else str(value)


class Zero(Edit):
    """Nothing in this place.

    >>> Zero(Place("L0.feed_forward"))
    Zero(L0.feed_forward)
    """

    def instead(self, value: Tensor) -> Tensor:
        """Zeros."""
        return torch.zeros_like(value)


@dataclass(frozen=True, eq=False, repr=False)
class Scale(Edit):
    """``factor · x``; 1 changes nothing, 0 leaves nothing."""

    factor: float

    def __post_init__(self) -> None:
        _finite(self.factor, "factor")

    def instead(self, value: Tensor) -> Tensor:
        """The value, multiplied."""
        return self.factor * value


@dataclass(frozen=True, eq=False, repr=False)
class Mean(Edit):
    """The same vector at every position: a mean of what stood there in some runs."""

    value: Tensor
    """As the site, with 1 for each axis that the mean was taken over."""
    origin: str
    """What it is the mean of."""

    def instead(self, value: Tensor) -> Tensor:
        """The mean, at every position."""
        if any(own not in (1, size) for own, size in zip(self.value.shape, value.shape, strict=True)):
            raise _misfit(self.place, self.value, value)
        return self.value.to(value).expand_as(value)

    @staticmethod
    def of(place: Place, *runs: Record) -> "Mean":
        """The mean over all positions of all texts of these runs.

        Rows of scores and patterns are about other sources at each position: there it is the mean over texts, of one length.
        """
        found = [place.at(None).of(run[place.site]) for run in runs]
        over = [axis for axis, name in enumerate(place.axes) if name == "batch"]
        if not place.is_between_positions:
            over.append(place.position_axis)
        count = sum(math.prod(value.shape[axis] for axis in over) for value in found)
        if not runs or (place.is_between_positions and (count < 2 or len({value.shape[-1] for value in found}) > 1)):
            needed = "several texts of one length" if place.is_between_positions else "one at the least"
            given = ", ".join(map(_size, runs)) or "no runs"
            raise InputError(f"the mean of {place} over {given}", needed, "record such texts together")
        mean = torch.stack([value.sum(dim=over, keepdim=True) for value in found]).sum(dim=0) / count
        if place.is_between_positions:
            mean = mean[:, :, place.numbers(mean.shape[2])]
        return Mean(place, mean, f"the mean of {count}")


@dataclass(frozen=True, eq=False, repr=False)
class Patch(Edit):
    """Values of another run, position by position."""

    values: Tensor
    """As what they stand in for; one text's values may stand in for those of several."""
    origin: str
    """Where they are from."""

    def instead(self, value: Tensor) -> Tensor:
        """The other run's values."""
        fits = self.values.shape == value.shape
        if not fits and "batch" in self.place.axes:
            fits = self.values.shape[0] == 1 and self.values.shape[1:] == value.shape[1:]
        if not fits:
            raise _misfit(self.place, self.values, value)
        return self.values.to(value).expand_as(value)

    @staticmethod
    def of(place: Place, run: Record, source: Sequence[int] | None = None) -> "Patch":
        """What another run had at the same positions, or at those of ``source``, one for each of the place's."""
        if source is None:
            return Patch(place, place.of(run[place.site]), f"a run of {_size(run)}")
        if place.positions is None or len(place.positions) != len(source):
            given = "all positions" if place.positions is None else f"{len(place.positions)} positions"
            raise InputError(f"{place}: {given} patched from {len(source)}", "one for each", "choose as many on both sides")
        return Patch(place, place.at(source).of(run[place.site]), f"positions {_list(source)} of a run of {_size(run)}")


def resample(place: Place, run: Record, reference: Record | None = None, *, seed: int = 0) -> Patch:
    """What stood there at other positions of the run itself, or anywhere in a reference run; the same seed draws the same.

    Rows of scores and patterns are drawn from other texts at their own position: a row of another one would see other sources.
    """
    if not 0 <= seed < 2**63:
        raise InputError(f"seed {seed}", "a whole number from 0 to 2⁶³ − 1", "change it")
    value = place.at(None).of((run if reference is None else reference)[place.site])
    generator = torch.Generator().manual_seed(seed)
    sources = _drawn(place, run, reference, generator)
    origin = f"{'other positions' if reference is None else f'a run of {_size(reference)}'}, drawn by seed {seed}"
    if "batch" not in place.axes:
        return Patch(place, value[sources], origin)
    texts = _draw(0, len(value), len(sources), generator)
    axis = place.position_axis - 1
    rows = [value[text].select(axis, source) for text, source in zip(texts, sources, strict=True)]
    return Patch(place, torch.stack(rows, dim=axis)[None], origin)


def _drawn(place: Place, run: Record, reference: Record | None, generator: torch.Generator) -> list[int]:
    """For each position of a place the one that its values are taken from."""
    length = run.tokens.shape[1]
    there = length if reference is None else reference.tokens.shape[1]
    wanted = place.numbers(length)
    if place.is_between_positions:
        if reference is None or there != length:
            given = f"{place} resampled from {'its own run' if reference is None else f'texts of {there} tokens'}"
            raise InputError(given, f"other texts of {length} tokens", "record such texts, and give them as the reference")
        return wanted
    if reference is not None:
        return _draw(0, there, len(wanted), generator)
    if length == 1:
        raise InputError(f"{place} resampled from a text of one token", "other positions", "give a longer text or a reference")
    ahead = _draw(1, length, len(wanted), generator)
    return [(position + steps) % length for position, steps in zip(wanted, ahead, strict=True)]


def _draw(low: int, high: int, count: int, generator: torch.Generator) -> list[int]:
    return [int(number) for number in torch.randint(low, high, (count,), generator=generator)]


@dataclass(frozen=True, eq=False, repr=False)
class _Directed(Edit):
    """An edit along one direction of a site's last axis."""

    direction: Float[Tensor, " width"]

    def __post_init__(self) -> None:
        last = self.place.axes[-1]
        if last not in ("d_model", "d_head", "d_mlp", "vocab") or (last == "d_mlp" and self.place.unit is not None):
            raise InputError(f"a direction at {self.place}", "a place with vectors", "choose another, such as L0.out")
        if not bool(self.direction.isfinite().all()):
            raise InputError(f"a direction with entries that are no numbers, at {self.place}", "numbers", "check the direction")

    def along(self, value: Tensor) -> Tensor:
        """The direction, where it fits the value."""
        if len(self.direction) != value.shape[-1]:
            given = f"a direction of {len(self.direction)} entries at {self.place}"
            raise InputError(given, f"one of {value.shape[-1]}", "take it from the same site")
        return self.direction.to(value)


@dataclass(frozen=True, eq=False, repr=False)
class Steer(_Directed):
    """``x + amount · direction``."""

    amount: float = 1.0

    def __post_init__(self) -> None:
        super().__post_init__()
        _finite(self.amount, "amount")

    def instead(self, value: Tensor) -> Tensor:
        """The value, moved along the direction."""
        return value + self.amount * self.along(value)


@dataclass(frozen=True, eq=False, repr=False)
class Remove(_Directed):
    """``x − <x, u> u``, where ``u`` is the direction at length 1: what is left of ``x`` says nothing about it."""

    def __post_init__(self) -> None:
        super().__post_init__()
        if not bool(self.direction.any()):
            raise InputError(f"a direction of zeros at {self.place}", "one that can be taken out", "give another direction")

    def instead(self, value: Tensor) -> Tensor:
        """The value without its share of the direction."""
        unit = torch.nn.functional.normalize(self.along(value), dim=0, eps=0.0)
        return value - (value @ unit)[..., None] * unit


@dataclass(frozen=True, repr=False)
class Freeze(Tap):
    """Patterns, scales of norms and gates of activations as a run measured them, whatever else is edited.

    With all three the stream is an affine function of the embeddings: the frozen model, in which every part means what it says. One head's pattern alone is held by
    ``Patch.of(find_place("L1H4.pattern", config), run)``.
    """

    run: Record
    kinds: tuple[str, ...] = MEASURED

    def __post_init__(self) -> None:
        for kind in self.kinds:
            if kind not in MEASURED:
                raise InputError(f"{kind!r:.40} frozen", f"some of {', '.join(MEASURED)}", did_you_mean(kind, MEASURED))

    def wants(self, site: str) -> bool:
        """Whether ``site`` is held fixed."""
        return site.rsplit(".", 1)[-1] in self.kinds

    def __call__(self, site: str, value: Tensor) -> Tensor:
        """What the run measured."""
        measured = self.run[site]
        if measured.shape != value.shape:
            raise _misfit(Place(site), measured, value)
        return measured.to(value)

    def __repr__(self) -> str:
        return f"Freeze({', '.join(self.kinds)} of {_size(self.run)})"


def ablate(place: Place, run: Record, how: str = "zero", *, reference: Record | None = None, seed: int = 0) -> Edit:
    """A place of a run made to say nothing (``zero``), nothing special (``mean``) or something from elsewhere (``resample``).

    Means and other values are taken from ``reference``, or from the run itself where there is none.
    """
    match how:
        case "zero":
            return Zero(place)
        case "mean":
            return Mean.of(place, run if reference is None else reference)
        case "resample":
            return resample(place, run, reference, seed=seed)
        case _:
            raise InputError(f"no ablation is called {how!r:.40}", f"one of {', '.join(HOW)}", did_you_mean(how, HOW))


def check_edits(tap: Tap, config: ModelConfig) -> None:
    """Refuse edits of places that a model does not have."""
    for each in tap.taps if isinstance(tap, Chain) else [tap]:
        if isinstance(each, Chain):
            check_edits(each, config)
        elif isinstance(each, Edit) and not isinstance(each.place, Place):  # pyright: ignore[reportUnnecessaryIsInstance]
            raise InputError(f"{each!r:.80}", "a place and not its name", f"write model.place({str(each.place)!r:.40})")
        elif isinstance(each, Edit):
            find_place(each.place, config)


def every_ablation(
    run: Record, how: str = "zero", *, at: Sequence[int] | None = None, reference: Record | None = None, seed: int = 0
) -> list[Edit]:
    """Each head and each feed-forward layer of a run's model ablated, one by one."""
    places = [place.at(at) for place in every_write(run.config)]
    return [ablate(place, run, how, reference=reference, seed=seed) for place in places]


def _misfit(place: Place, own: Tensor, value: Tensor) -> InputError:
    return InputError(
        f"{place}: values of shape {list(own.shape)}",
        f"{list(value.shape)} ({' '.join(place.axes)})",
        "use texts of the same length, or say which positions go where",
    )


def _finite(number: float, what: str) -> None:
    if not math.isfinite(number):
        raise InputError(f"{what} {number}", "a number", f"choose another {what}")


def _size(run: Record) -> str:
    texts, length = run.tokens.shape
    return f"{length} tokens" if texts == 1 else f"{texts} × {length} tokens"


def _list(numbers: Sequence[int]) -> str:
    return ", ".join(map(str, numbers))
