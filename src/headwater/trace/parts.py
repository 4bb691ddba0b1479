"""``Part`` and ``Split``: one addend, and a number taken apart into addends that add up to it."""

import math
from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field, replace
from typing import Any, Literal, Protocol, TypeAlias, get_args, runtime_checkable

from headwater.errors import InputError, did_you_mean
from headwater.show.html import fragment
from headwater.show.text import written
from headwater.show.values import Branch, Tree
from headwater.show.widgets import Displayed, Drawing

Way: TypeAlias = Literal["component", "source", "head", "layer", "order", "neuron", "token", "path"]
"""How a number is taken apart."""
Kind: TypeAlias = Literal[
    "embedding",
    "position",
    "head",
    "feed-forward",
    "neuron",
    "source",
    "token",
    "bias",
    "layer",
    "order",
    "path",
    "group",
    "edit",
    "remainder",
]
MOST = 20
"""Parts of a list; the others are one remainder."""
ALL = 2**62
OF_A_WALK = ("resolved", "expanded")
"""Facts that belong to a walk and to no other way of taking a number apart."""
SEEN = 0.02
"""Of the largest part: what is smaller has no bar to speak of."""
ROUNDING = 1e-6
"""Of all parts' sizes: in an edited run, what is missing beyond that was put there by an edit."""
DEEP, FEW = 3, 6
"""Levels of a tree that can be opened in a notebook, and parts in each list below the first."""
IN_ORDER: frozenset[Way] = frozenset({"layer", "order", "token", "source"})
"""Parts that are told in the order of the model or the text and not by size."""


@runtime_checkable
class Node(Protocol):
    """What a part is made of, found out when somebody asks."""

    @property
    def ways(self) -> tuple[Way, ...]:
        """How it can be taken apart; the first is how it is unless told otherwise."""
        ...

    @property
    def edited(self) -> bool:
        """Whether it is of a run in which something intervened."""
        ...

    def parts(self, by: Way) -> "list[Part]":
        """All parts, none cut away."""
        ...


@dataclass(frozen=True, eq=False, kw_only=True, repr=False)
class Part:
    """One addend of an answer, with what it came from."""

    label: str
    value: float
    kind: Kind
    note: str = ""
    """Said beside the number."""
    facts: Mapping[str, Any] = field(default_factory=dict[str, Any])
    """For programs: head, position, token and id, attention …"""
    node: Node | None = None

    def __repr__(self) -> str:
        return f"Part({self.label}, {self.value:+.4g})"

    @property
    def ways(self) -> tuple[Way, ...]:
        """How it can be taken apart; none where nothing is upstream."""
        return self.node.ways if self.node else ()

    def split(self, by: Way | None = None, *, most: int | None = MOST) -> "Split":
        """What it is made of, one step further upstream.

        ``most`` parts are listed, the others are one remainder; None lists all.
        """
        return take_apart(self.label, self.value, self.node, by, most=most)

    def plain(self) -> dict[str, Any]:
        """For programs."""
        return {"label": self.label, "value": self.value, "kind": self.kind, **self.facts}


@dataclass(frozen=True, eq=False, kw_only=True, repr=False)
class Split(Displayed):
    """A number and its parts, which add up to it."""

    label: str
    value: float
    """The model's own number; of a part that was split again, the part's."""
    by: Way
    parts: tuple[Part, ...]
    node: Node
    ending: str = ""
    """What paths to it end in: ``logit``; its label unless there is a shorter word."""
    remarks: tuple[str, ...] = ()
    """About the number."""
    aside: tuple[str, ...] = ()
    """About this way to take it apart."""
    facts: Mapping[str, Any] = field(default_factory=dict[str, Any])

    @property
    def certificate(self) -> float:
        """How far the sum of the parts is from the number."""
        return abs(math.fsum(part.value for part in self.parts) - self.value)

    def __repr__(self) -> str:
        return (
            f"Split({self.label}, {self.value:+.4g}, {len(self.parts)} parts by {self.by}, certificate {self.certificate:.1e})"
        )

    def __getitem__(self, label: str) -> Part:
        """The part of a label, such as ``"L0H3"``; a source or a token also by its position, ``"@3"``, or by its bare text."""
        if not isinstance(label, str):  # pyright: ignore[reportUnnecessaryIsInstance]
            raise InputError(f"{label!r:.40} as a part", "a label, such as L0H3", "write .parts to take them by number")
        for part in self.parts:
            at = f"@{part.facts['position']}" if part.kind in ("source", "token") and "position" in part.facts else None
            if label in (part.label, part.facts.get("name"), at):
                return part
        spoken = [part for part in self.parts if part.facts.get("token") == label]
        if len(spoken) == 1:
            return spoken[0]
        if spoken:
            places = " or ".join(f"@{part.facts['position']}" for part in spoken[:8])
            raise InputError(f"{label!r:.40}, which is there {len(spoken)} times", "one of them", f"write {places}")
        labels = [part.facts.get("name", part.label) for part in self.parts]
        raise InputError(f"no part is called {label!r:.80}", "a part that is listed", did_you_mean(label, labels))

    def __iter__(self) -> Iterator[Part]:
        return iter(self.parts)

    @property
    def whole(self) -> Part:
        """The number, not taken apart."""
        return Part(label=self.label, value=self.value, kind="group", facts=self.facts, node=self.node)

    def split(self, by: Way | None = None, *, most: int | None = MOST) -> "Split":
        """The same number, taken apart another way."""
        return self._again(take_apart(self.label, self.value, self.node, by, most=most, ending=self.ending))

    def walk(self, *, share: float | None = None, budget: int | None = None, most: int = MOST) -> "Split":
        """The strongest single paths, found best-first; ``headwater.trace.walk`` says how far."""
        from headwater.trace.walk import walk

        walked = walk(self.node, self.label, self.value, share=share, budget=budget, most=most, ending=self.ending)
        return self._again(walked)

    def _again(self, other: "Split") -> "Split":
        """The same number taken apart another way, with what is known of it."""
        own = {name: value for name, value in self.facts.items() if name not in OF_A_WALK}
        return replace(other, remarks=self.remarks, facts={**own, **other.facts})

    def __str__(self) -> str:
        return written(self.tree())

    def _repr_html_(self) -> str:
        return fragment(self.tree(DEEP, most=FEW))

    def drawing(self) -> Drawing | None:
        """For notebooks: a logit as a river, which is split further where somebody clicks; nothing of other numbers."""
        from headwater.trace import river

        return river.drawn(self)

    def tree(self, depth: int = 1, *, most: int = MOST) -> Tree:
        """To be drawn: parts, and below each its own parts, ``depth`` levels in all.

        Below the first level only what can be seen beside the largest part is listed, and at most ``most`` in each list; the rest is a remainder.
        """
        least = SEEN * max((abs(part.value) for part in self.parts), default=0.0)
        branches = tuple(_branch(part, depth - 1, most, least) for part in self.parts)
        root = Branch(label=self.label, value=self.value, branches=branches)
        certificate = f"certificate {self.certificate:.1e}: so far is the sum of the parts from the number"
        if any(part.kind == "edit" for part in self.parts):
            certificate += ", edits being all that nobody else wrote"
        return Tree(title="", root=root, remarks=(*self.remarks, *self.aside, certificate))

    def plain(self) -> dict[str, Any]:
        """For programs."""
        parts = [part.plain() for part in self.parts]
        return {
            "label": self.label,
            "value": self.value,
            "certificate": self.certificate,
            "by": self.by,
            **self.facts,
            "parts": parts,
        }


def _branch(part: Part, depth: int, most: int, least: float) -> Branch:
    below: tuple[Branch, ...] = ()
    if depth > 0 and part.node is not None and part.kind not in ("remainder", "path"):
        split = part.split(most=None)
        seen = sum(abs(each.value) >= least for each in split.parts)
        shown = cut(list(split.parts), split.by, min(most, max(1, seen)))
        below = tuple(_branch(each, depth - 1, most, least) for each in shown)
    return Branch(label=part.label, value=part.value, note=part.note, kind=part.kind, branches=below)


@dataclass(frozen=True, eq=False)
class Group:
    """Parts that are told together."""

    members: Callable[[], list[Part]]
    ways: tuple[Way, ...] = ("component",)
    edited: bool = False

    def parts(self, by: Way) -> list[Part]:
        """The members."""
        del by
        return self.members()


def group(label: str, members: Sequence[Part], *, kind: Kind = "group", facts: Mapping[str, Any] | None = None) -> Part:
    """Some parts as one, which splits into them."""
    total = math.fsum(part.value for part in members)
    return Part(label=label, value=total, kind=kind, facts=facts or {}, node=Group(lambda: list(members)))


def take_apart(label: str, value: float, node: Node | None, by: Way | None, *, most: int | None, ending: str = "") -> Split:
    """A number by its node's parts, the smaller ones in one remainder."""
    if node is None:
        raise InputError(
            f"a split of {label}", "a part that something is upstream of", "it is a bias, an embedding or a position: the end"
        )
    if most is not None and most < 0:
        raise InputError(f"a list of {most} parts", "a number from 0 on", "or None for all of them")
    chosen = node.ways[0] if by is None else by
    if chosen not in node.ways:
        known = ", ".join(node.ways)
        advice = did_you_mean(chosen, node.ways) if chosen not in get_args(Way) else f"use one of: {known}"
        if chosen == "neuron":
            advice = "split a feed-forward layer, such as the part L0.feed_forward"
        raise InputError(f"{label} by {chosen!r:.40}", f"one of {known}", advice)
    if chosen == "path":
        from headwater.trace.walk import walk

        return walk(node, label, value, most=ALL if most is None else most, ending=ending)
    parts = tuple(cut(with_edits(node.parts(chosen), value, node), chosen, most))
    return Split(label=label, value=value, by=chosen, parts=parts, node=node, ending=ending)


def with_edits(parts: list[Part], value: float, node: Node) -> list[Part]:
    """In a run that was edited, what an edit put there is a part like any other: all that nobody else wrote."""
    rest = value - math.fsum(part.value for part in parts)
    if not node.edited or abs(rest) <= ROUNDING * (abs(value) + math.fsum(abs(part.value) for part in parts)):
        return parts
    return [*parts, Part(label="edits", value=rest, kind="edit", facts={"name": "edits"})]


def cut(parts: list[Part], by: Way, most: int | None) -> list[Part]:
    """The largest parts, and one that is all the others."""
    ranked = sorted(range(len(parts)), key=lambda number: (-abs(parts[number].value), number))
    # One that is left over is no shorter than itself.
    kept = ranked if most is None or len(parts) <= most + 1 else ranked[:most]
    rest = [parts[number] for number in ranked[len(kept) :]]
    shown = [parts[number] for number in (sorted(kept) if by in IN_ORDER else kept)]
    return [
        *shown,
        *([group(f"{len(rest):,} smaller parts", rest, kind="remainder", facts={"count": len(rest)})] if rest else []),
    ]
