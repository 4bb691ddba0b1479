"""What a diagram is: boxes on a grid, arrows between them, frames around some; inside a box, numbers of a real run."""

import math
from dataclasses import dataclass
from itertools import pairwise
from typing import Literal, TypeAlias

from headwater.show.looks import Look
from headwater.show.rows import legible

Side: TypeAlias = Literal["left", "right", "top", "bottom"]
Place: TypeAlias = tuple[float, float]
"""Column and row: 0, 1, 2 … are the middles of columns and rows, 0.5 is the middle of the gap after the first."""


@dataclass(frozen=True)
class Label:
    """Words in both languages. Each ``{}`` stands for one of ``values``: a number in the language's digits, or a token's text as it is.

    >>> Label("p = {} of {}", "p = {} de {}", values=(0.25, "$x")).said(Look("pt"))
    'p = 0,25 de \\\\$x'
    """

    en: str
    pt: str
    values: tuple[float | str, ...] = ()
    form: str = ".3g"

    def said(self, look: Look) -> str:
        """The words of the figure's language; formulas stand between dollar signs."""
        first, *others = look.say(self.en, self.pt).split("{}")
        values = [self._shown(value, look) for value in self.values]
        return first + "".join(value + part for value, part in zip(values, others, strict=True))

    def _shown(self, value: float | str, look: Look) -> str:
        if isinstance(value, str):
            return plain(value)
        return str(value) if isinstance(value, int) else look.number(value, self.form)


Words: TypeAlias = str | Label
"""A text alone says the same in both languages: a formula, a name."""


def said(words: Words, look: Look) -> str:
    """Words in the figure's language."""
    return words if isinstance(words, str) else words.said(look)


def plain(text: str) -> str:
    r"""A token's text, in which nothing begins a formula, and ends of lines are arrows: figures' fonts have no pictures for them.

    >>> plain("a\n$b")
    'a↵\\$b'
    """
    return legible(text.replace("\n", "↵").replace("\t", "⇥")).replace("$", r"\$")


@dataclass(frozen=True, kw_only=True)
class Thumbnail:
    """A small matrix of numbers as a heat-map, empty where there is none (NaN, −∞); ``size`` is that of the matrix it is taken from, ``4096 × 256``.

    Numbers of both signs are ``signed`` around nothing, others are ``amounts``; ``reach`` is the number of the full colour,
    the largest shown unless it is given so that several can be compared.
    """

    values: tuple[tuple[float, ...], ...]
    size: str = ""
    kind: Literal["signed", "amounts"] = "signed"
    reach: float | None = None
    rows: tuple[str, ...] = ()
    """Names beside them, and below ``columns``: tokens, as they are."""
    columns: tuple[str, ...] = ()

    @property
    def strongest(self) -> float:
        """What has the full colour."""
        return (
            self.reach or max((abs(value) for row in self.values for value in row if math.isfinite(value)), default=0.0) or 1.0
        )


@dataclass(frozen=True, kw_only=True)
class Node:
    """A box: words, then a heat-map, then a line of small print, each where there is one."""

    key: str
    words: Words
    at: Place
    kind: Literal["value", "step"] = "value"
    """Numbers have corners a little round; what is done to numbers has round ends."""
    thumbnail: Thumbnail | None = None
    numbers: tuple[float, ...] = ()
    """Printed in a row below, as in a vector."""
    form: str = ".2f"
    note: Words = ""
    tint: int | None = None
    """Which of the look's colours it has, as all that is on the same path; none is grey."""


@dataclass(frozen=True, kw_only=True)
class Edge:
    """An arrow from one box to another, curved; or through the ``via`` places, with round corners."""

    source: str
    target: str
    label: Words = ""
    dotted: bool = False
    leaves: Side | None = None
    """The side of the box; by default the one that faces the other box along the diagram's direction."""
    arrives: Side | None = None
    via: tuple[Place, ...] = ()
    tint: int | None = None
    lane: float = 0.0
    """How far beside the middle of the boxes' sides it leaves and arrives: −1 and 1 keep two arrows apart."""
    slide: float = 0.0
    """Of the label along the arrow, from its middle: −0.5 is the beginning, 0.5 the end."""


def chain(*keys: str, tint: int | None = None) -> tuple[Edge, ...]:
    """Plain arrows from each box to the next.

    >>> [(edge.source, edge.target) for edge in chain("a", "b", "c")]
    [('a', 'b'), ('b', 'c')]
    """
    return tuple(Edge(source=source, target=target, tint=tint) for source, target in pairwise(keys))


@dataclass(frozen=True, kw_only=True)
class Group:
    """A frame around boxes, with a title."""

    title: Words
    nodes: tuple[str, ...]


@dataclass(frozen=True, kw_only=True)
class Diagram:
    """Boxes, arrows and frames, read from left to right or from the top down."""

    nodes: tuple[Node, ...]
    edges: tuple[Edge, ...]
    groups: tuple[Group, ...] = ()
    caption: Words = ""
    direction: Literal["right", "down"] = "right"
    gap: tuple[float, float] = (0.5, 0.5)
    """Between columns, and between rows, in inches, where nothing needs more."""

    def __post_init__(self) -> None:
        keys = [node.key for node in self.nodes]
        assert len(set(keys)) == len(keys), "two nodes of one key"
        named = {key for edge in self.edges for key in (edge.source, edge.target)} | {
            key for group in self.groups for key in group.nodes
        }
        assert named <= set(keys), f"nodes that are not there: {named - set(keys)}"

    def node(self, key: str) -> Node:
        """The node of this key."""
        return next(node for node in self.nodes if node.key == key)

    @property
    def arrows(self) -> tuple[tuple[str, str], ...]:
        """Every edge as the pair of keys that it joins."""
        return tuple((edge.source, edge.target) for edge in self.edges)
