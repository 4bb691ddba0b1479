"""The stages that a stream goes through, as data: the documents' ``t0, t1 … t5, h`` of every block, by what each of them is.

A stage is a value of one forward pass, one vector for each position. It is one of three things::

    stream   the stream itself at that point
    write    what a component adds to the stream
    copy     what a component reads where that is not the stream itself: a normalised copy

So a pre-norm block's ``t1`` and ``t4`` are copies, and a post-norm block has none: there the stream itself is normalised.
"""

from collections.abc import Iterable, Mapping
from dataclasses import dataclass, replace
from itertools import groupby
from typing import Literal, TypeAlias

import torch
from jaxtyping import Float
from torch import Tensor

from headwater.errors import InputError, did_you_mean
from headwater.model.config import ModelConfig, NoNorm, PostNorm, PreNorm
from headwater.model.record import Record
from headwater.model.taps import NOBODY, Tap, all_sites
from headwater.show.values import Progress, silent
from headwater.trace.question import check_one_text, within

Role: TypeAlias = Literal["stream", "write", "copy"]
Made: TypeAlias = Literal[
    "token",
    "position",
    "token-and-position",
    "block-input",
    "attention",
    "attention-added",
    "feed-forward",
    "feed-forward-added",
    "normalised",
]
WORDS: dict[Made, str] = {
    "token": "the token",
    "position": "the position",
    "token-and-position": "token and position",
    "block-input": "into the block",
    "attention": "attention",
    "attention-added": "attention added",
    "feed-forward": "feed-forward",
    "feed-forward-added": "feed-forward added",
    "normalised": "normalised",
}
"""What made a stage, for people."""

START = "start"
"""The stage of a model without blocks in which token and position have been added up; no site of the forward pass is called so."""


@dataclass(frozen=True)
class Stage:
    """One stage: ``L0.t3`` is the site ``L0.middle`` of a pre-norm model."""

    name: str
    site: str
    role: Role
    made: Made
    """By what it came about."""
    of: str | None = None
    """The stage of the stream that a write is added to, that a copy is made of, or that comes before."""
    also: tuple[str, ...] = ()
    """Other names for the same numbers: without norms, what attention reads is what the block gets."""

    @property
    def what(self) -> str:
        """In words, its role first."""
        return f"{self.role}: {WORDS[self.made]}"

    @property
    def names(self) -> str:
        """All of its names.

        >>> Stage("L0.h", "L0.out", "stream", "attention-added", also=("L1.t0",)).names
        'L0.h = L1.t0'
        """
        return " = ".join([self.name, *self.also])


def stages(config: ModelConfig, tap: Tap = NOBODY) -> tuple[Stage, ...]:
    """Every stage of this model, in the order in which they come up.

    Stages that hold the same numbers are one, unless ``tap`` may change one of them.

    >>> from headwater.model.presets import named
    >>> [stage.names for stage in stages(named("one-layer"))]
    ['embed = L0.t0 = L0.t1', 'L0.t2', 'L0.t3 = L0.h = final']
    """
    found: list[Stage] = []
    for stage, same in _every(config):
        of = stage.of and _called(found, stage.of).name
        if same is None or tap.wants(stage.site):
            found.append(replace(stage, of=of))
            continue
        first = _called(found, same)
        found[found.index(first)] = replace(first, also=(*first.also, stage.name))
    return tuple(found)


def _called(found: Iterable[Stage], name: str) -> Stage:
    return next(stage for stage in found if name in (stage.name, *stage.also))


def _every(config: ModelConfig) -> list[tuple[Stage, str | None]]:
    """All stages, each with the earlier one that has the same numbers unless somebody intervenes."""
    is_placed = "positions" in all_sites(config)
    found: list[tuple[Stage, str | None]] = [
        (
            Stage("embed", "embed", "write" if is_placed else "stream", "token"),
            None,
        )
    ]
    end = "embed"
    if is_placed:
        found.append((Stage("positions", "positions", "write", "position", "embed"), None))
    if is_placed and not config.layers:
        end = START
        found.append((Stage(START, START, "stream", "token-and-position", "embed"), None))
    for layer in range(config.layers):
        block = _post_norm if isinstance(config.norm, PostNorm) else _pre_norm
        same = None if is_placed and not layer else end
        found += block(config, f"L{layer}.", end, same)
        end = f"L{layer}.h"
    is_read_normalised = isinstance(config.norm, PreNorm)
    role, made = ("copy", "normalised") if is_read_normalised else ("stream", found[-1][0].made)
    last = Stage("final", "final", role, made, end)
    return [*found, (last, None if is_read_normalised else end)]


def _post_norm(config: ModelConfig, at: str, end: str, same: str | None) -> list[tuple[Stage, str | None]]:
    t0, t2, t3, t5 = (at + letter for letter in ("t0", "t2", "t3", "t5"))
    found: list[tuple[Stage, str | None]] = [
        (Stage(t0, f"{at}in", "stream", "block-input", end), same),
        (Stage(f"{at}t1", f"{at}attention", "write", "attention", t0), None),
        (Stage(t2, f"{at}middle", "stream", "attention-added", t0), None),
    ]
    if config.feed_forward is None:
        out = Stage(t3, f"{at}out", "stream", "normalised", t2)
        return [*found, (out, None), (replace(out, name=f"{at}h"), t3)]
    return [
        *found,
        (Stage(t3, f"{at}feed_forward_input", "stream", "normalised", t2), None),
        (Stage(f"{at}t4", f"{at}feed_forward", "write", "feed-forward", t3), None),
        (Stage(t5, f"{at}sum", "stream", "feed-forward-added", t3), None),
        (Stage(f"{at}h", f"{at}out", "stream", "normalised", t5), None),
    ]


def _pre_norm(config: ModelConfig, at: str, end: str, same: str | None) -> list[tuple[Stage, str | None]]:
    t0, t1, t3, t4 = (at + letter for letter in ("t0", "t1", "t3", "t4"))
    is_bare, layer = isinstance(config.norm, NoNorm), config.feed_forward
    found: list[tuple[Stage, str | None]] = [
        (Stage(t0, f"{at}in", "stream", "block-input", end), same),
        (Stage(t1, f"{at}attention_input", "copy", "normalised", t0), t0 if is_bare else None),
        (Stage(f"{at}t2", f"{at}attention", "write", "attention", t0), None),
        (Stage(t3, f"{at}middle", "stream", "attention-added", t0), None),
    ]
    if layer is None:
        return [*found, (Stage(f"{at}h", f"{at}out", "stream", "attention-added", t3), t3)]
    read = t0 if layer.reads == "beside-attention" else t3
    copy = Stage(t4, f"{at}feed_forward_input", "copy", "normalised", read)
    return [
        *found,
        (copy, read if is_bare else None),
        (Stage(f"{at}t5", f"{at}feed_forward", "write", "feed-forward", t3), None),
        (Stage(f"{at}h", f"{at}out", "stream", "feed-forward-added", t3), None),
    ]


@dataclass(frozen=True, eq=False)
class Seen:
    """What a pass went through at some positions of its one text: every stage, and what norms and heads did on the way."""

    record: Record
    positions: tuple[int, ...]
    stages: tuple[Stage, ...]
    sites: Mapping[str, Tensor]
    """By site: ``pos d_model``, mixed values ``head pos d_head``, scales ``pos``."""

    def __getitem__(self, name: str) -> Float[Tensor, "pos d_model"]:
        """The vectors of a stage, by any of its names."""
        return self.sites[self.stage(name).site]

    def stage(self, name: str) -> Stage:
        """The stage that has this name."""
        found = [stage for stage in self.stages if name in (stage.name, *stage.also, stage.site)]
        if not found:
            names = [name for stage in self.stages for name in (stage.name, *stage.also)]
            raise InputError(f"no stage is called {name!r:.80}", "a stage of this model", did_you_mean(name, names))
        return found[0]

    def some(self, first: int, last: int) -> "Seen":
        """The same at some of these positions."""
        chosen = {site: value.narrow(_axis(site), first, last - first) for site, value in self.sites.items()}
        return Seen(self.record, self.positions[first:last], self.stages, chosen)


def see(record: Record, positions: int | Iterable[int] | None = None, tell: Progress = silent) -> Seen:
    """Every stage of a record of one text at ``positions``, all of them unless told otherwise."""
    check_one_text(record)
    length = record.tokens.shape[1]
    asked = [positions] if isinstance(positions, int) else positions
    chosen = range(length) if asked is None else [within(position, length, "position") for position in asked]
    if not chosen:
        raise InputError("no positions", "at least one", "name some, or leave them out for all")
    found = stages(record.config, record.tap)
    heads_and_norms = [site for site in all_sites(record.config) if site.endswith((".mixed", ".scale"))]
    wanted = dict.fromkeys([stage.site for stage in found if stage.site != START] + heads_and_norms)
    index, sites = torch.tensor(chosen, device=record.tokens.device), dict[str, Tensor]()
    for block, together in groupby(sorted(wanted, key=_block), key=_block):
        tell(f"looking at {block}", 0.0)
        for site, value in record.together(together).items():
            some = value.index_select(_axis(site), index)
            sites[site] = some if site == "positions" else some[0]
    if any(stage.site == START for stage in found):
        sites[START] = sites["embed"] + sites["positions"]
    return Seen(record, tuple(chosen), found, sites)


def _block(site: str) -> str:
    return site.partition(".")[0]


def _axis(site: str) -> int:
    """Where positions are counted."""
    return -1 if site.endswith(".scale") else -2
