"""The strongest single paths, found best-first: the largest part is followed upstream next, until enough is resolved."""

import heapq
import itertools
from dataclasses import dataclass, field

from headwater.errors import InputError
from headwater.trace.frozen import Frozen
from headwater.trace.nodes import FeedForwardNode, HeadNode, NeuronNode, SourceNode, StreamNode
from headwater.trace.parts import MOST, Group, Node, Part, Split, group, with_edits

SHARE, BUDGET = 0.9, 300


@dataclass(frozen=True, eq=False)
class _End:
    """A part on the way, and the names of all that lies between it and the answer."""

    part: Part
    trail: tuple[str, ...]


@dataclass(eq=False)
class _Walk:
    frozen: Frozen
    home: int | None
    """The position that the answer is about, which goes without saying."""
    number: "itertools.count[int]" = field(default_factory=itertools.count)
    waiting: list[tuple[float, int, _End]] = field(default_factory=list[tuple[float, int, _End]])
    ended: list[_End] = field(default_factory=list[_End])
    open: float = 0.0
    closed: float = 0.0

    def meet(self, parts: list[Part], trail: tuple[str, ...]) -> None:
        """New parts, to be followed or at their end."""
        for part in parts:
            size = abs(part.value)
            if part.node is None:
                self.ended.append(_End(part, trail))
                self.closed += size
            else:
                # Even one that comes to nothing: paths inside it may cancel.
                heapq.heappush(self.waiting, (-size, next(self.number), _End(part, trail)))
                self.open += size

    def follow(self) -> None:
        """The largest part, one step upstream."""
        _, _, end = heapq.heappop(self.waiting)
        self.open -= abs(end.part.value)
        assert end.part.node is not None, "only what has something upstream waits"
        self.meet(with_edits(_along(end.part.node), end.part.value, end.part.node), (*self._named(end.part), *end.trail))

    def _named(self, part: Part) -> tuple[str, ...]:
        """What a path says of this part; a source is told by what it leads to."""
        if part.kind in ("source", "position", "embedding"):
            return ()
        position, name = part.facts.get("position"), part.facts.get("head", part.label)
        return (f"{name}@{position}" if position not in (None, self.home) else name,)

    def path(self, end: _End) -> Part:
        """The whole way, as people read it."""
        steps = (self._beginning(end.part), *end.trail)
        facts = {**end.part.facts, "steps": list(steps)}
        return Part(label=" → ".join(steps), value=end.part.value, kind="path", facts=facts, node=end.part.node)

    def _beginning(self, part: Part) -> str:
        """Where a path begins: ``‘one’@0``; a bias where it was added."""
        position = part.facts.get("position")
        if position is None or part.kind == "position":
            return part.label
        return self.frozen.place(position) if part.kind in ("embedding", "source") else f"{part.label}@{position}"

    @property
    def resolved(self) -> float:
        """The share that has been followed to its end."""
        # Running sums are rounded: neither may tell more than there is.
        return (
            min(1.0, self.closed / (self.closed + max(self.open, 0.0)))
            if self.waiting and self.closed
            else float(not self.waiting)
        )


def walk(  # noqa: PLR0913  (how far to go, and how to say it)
    node: Node,
    label: str,
    value: float,
    *,
    share: float | None = None,
    budget: int | None = None,
    most: int = MOST,
    ending: str = "",
) -> Split:
    """Paths from tokens, positions and biases to what a node is about, the largest first; all others are one exact remainder.

    Parts are followed until ``share`` of the total absolute effect lies in paths that have reached their end, or ``budget`` parts have been
    taken apart. The facts say which share that is, and how many were. A part inside which paths cancel looks small, and is followed late.
    """
    share, budget = SHARE if share is None else share, BUDGET if budget is None else budget
    if not 0 < share <= 1 or budget < 1 or most < 0:
        given, needed = f"share {share}, budget {budget}, most {most}", "a share above 0 and up to 1, a budget from 1 on"
        raise InputError(given, needed, "change them")
    if isinstance(node, Group):
        raise InputError(f"paths to {label}", "a number that the stream led to", "split it first, and walk to one of its parts")
    found, expanded = _Walk(*_home(node)), 1
    found.meet(with_edits(_along(node), value, node), (ending or label,))
    while found.waiting and (share == 1 or found.resolved < share) and expanded < budget:
        found.follow()
        expanded += 1
    said = f"{found.resolved:.0%} of the absolute effect lies in paths followed to their end ({expanded:,} parts taken apart)"
    if expanded == budget and found.waiting:
        said += f": the budget of {budget:,} ran out before {share:.0%}"
    facts = {"resolved": found.resolved, "expanded": expanded}
    parts = tuple(_told(found, most))
    return Split(label=label, value=value, by="path", parts=parts, node=node, ending=ending, aside=(said,), facts=facts)


def _told(found: _Walk, most: int) -> list[Part]:
    ended = sorted(found.ended, key=lambda end: -abs(end.part.value))
    rest, open_ = ended[most:], [end for _, _, end in found.waiting]
    told = [found.path(end) for end in ended[:most]]
    left = [
        group(f"{len(some):,} {what}", [found.path(end) for end in some])
        for some, what in ((rest, "smaller paths"), (open_, "parts not followed"))
        if some
    ]
    facts = {"paths": len(rest), "unfollowed": len(open_)}
    return [*told, *([group(" and ".join(part.label for part in left), left, kind="remainder", facts=facts)] if left else [])]


def _home(node: Node) -> tuple[Frozen, int | None]:
    """The run that a node is of, and the position that it is about, where it is one."""
    match node:
        case StreamNode():
            return node.frozen, node.position
        case SourceNode():
            return node.head.frozen, node.position
        case NeuronNode():
            return node.layer.frozen, None
        case HeadNode() | FeedForwardNode():
            return node.frozen, None
        case _:
            raise AssertionError("a group was refused before")


def _along(node: Node) -> list[Part]:
    """What lies one step upstream."""
    match node:
        case StreamNode():
            return node.components()
        case HeadNode():
            return node.sources()
        case SourceNode() | FeedForwardNode() | NeuronNode():
            return node.read().components()
        case _:
            # Embeddings or positions of several sources, told together.
            return node.parts(node.ways[0])
