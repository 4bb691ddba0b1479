"""A logit as a river: its parts followed upstream to the tokens, and what meets at one place drawn together.

A tree of splits has the same head at the same position once for each path that leads through it. Here it is there once: a ``Joint`` has all that flows
through one component at one position, or through the stream of one position before one layer, and what flows in adds up to what flows out, because each
path's split does. Lists are cut to the largest inflows; the others are one exact remainder.

Joints are named, and these names lead back to them: ``L1H3@4`` is what a head wrote at a position, ``L1@4`` the stream at a position as layer 1 reads it,
``token@0`` a token's embedding, ``positions`` and ``biases`` all of them, ``logit`` the end.
"""

import heapq
import math
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field, replace
from typing import Any

from headwater.shapes import whole
from headwater.trace.nodes import HeadNode, SourceNode
from headwater.trace.parts import Part, Split, Way
from headwater.trace.sized import Sized, together
from headwater.trace.sizes import furthest

ROOT = "logit"
LEAVES = ("embedding", "position", "bias", "token")
TOGETHER = ("positions", "biases")
"""Joints of what comes from many places: no one attention was paid to it."""
MOST, BUDGET = 6, 40
"""Inflows of a joint that are told apart, and joints after which nothing more opens by itself, unless somebody asks otherwise."""
SPLITS = 400
"""Parts that are taken apart before nothing more opens by itself: some joints are reached along many paths."""
LEAST = 0.005
"""Of the sizes of the logit's own parts: what is smaller does not open by itself."""


@dataclass(frozen=True, kw_only=True)
class Asked:
    """How far a river is followed."""

    most: int = MOST
    """Inflows of a joint that are told apart; of the logit itself twice as many."""
    budget: int = BUDGET
    """Joints after which nothing more opens by itself; 0 opens only what is asked for."""
    opened: Mapping[str, Way | None] = field(default_factory=dict[str, Way | None])
    """Joints that are to be open, and by which way."""
    closed: frozenset[str] = frozenset()
    """Joints that are not to open by themselves."""
    more: Mapping[str, int] = field(default_factory=dict[str, int])
    """Joints of which more inflows are told apart: how many times ``most``."""


@dataclass(frozen=True, kw_only=True)
class Joint:
    """Everything that flows through one place."""

    key: str
    kind: str
    value: float
    facts: Mapping[str, Any]
    ways: tuple[Way, ...]
    """How it can be taken apart."""
    by: Way | None
    """How it is; None where it is closed."""


@dataclass(frozen=True, kw_only=True)
class Flow:
    """What one joint has in another one downstream of it."""

    source: str
    target: str
    value: float
    share: float
    """Of the sizes of all that flows into the target."""
    attention: float | None
    names: tuple[str, ...]
    """Of biases and positions, which are one joint: which ones."""


@dataclass(frozen=True, kw_only=True)
class Confluence:
    """Joints, the logit first, and what flows between them."""

    joints: tuple[Joint, ...]
    flows: tuple[Flow, ...]
    main: float
    """How far the sum of the logit's own parts is from the model's number."""
    certificate: float
    """The largest such difference of all splits, and of all joints."""
    size: float
    """Of what size the numbers are that were added up: ``headwater.trace.sizes`` tells what rounding may come to in them."""


def confluence(split: Split, asked: Asked, pause: Callable[[], object] = lambda: None) -> Confluence:
    """The river of a logit that was explained; ``pause`` is called between two steps, to end it there.

    >>> import torch
    >>> from headwater.model.presets import named
    >>> from headwater.model.record import record
    >>> from headwater.model.weights import Weights
    >>> from headwater.trace.run import Run
    >>> run = Run.of(record(Weights.draw(named("one-layer"), seed=0), torch.tensor([[1, 2]])))
    >>> river = confluence(run.explain(token=7), Asked())
    >>> sorted(joint.key for joint in river.joints)[-3:], river.certificate < 1e-5
    (['logit', 'token@0', 'token@1'], True)
    """
    growing = _Growing(split, asked, pause)
    growing.grow(None)
    if asked.closed:
        # What opens by itself is found without regard to what is closed: closing one part opens no other.
        by_itself = [place.key for place in growing.places.values() if place.by]
        growing = _Growing(split, asked, pause)
        growing.grow([key for key in by_itself if key not in asked.closed])
    return growing.told()


@dataclass
class _Place:
    """A joint while it is being found."""

    key: str
    kind: str
    facts: Mapping[str, Any]
    parts: list[Part] = field(default_factory=list[Part])
    by: Way | None = None
    told: frozenset[str] = frozenset()
    """The inflows that are told apart."""
    rest: dict[str, list[float]] = field(default_factory=dict[str, list[float]])

    @property
    def value(self) -> float:
        return math.fsum(part.value for part in self.parts)

    @property
    def ways(self) -> tuple[Way, ...]:
        return tuple(way for way in self.parts[0].ways if way != "path") if self.kind not in LEAVES else ()


@dataclass(frozen=True)
class _Looked:
    """What a head paid to a source; from some of several destinations there is no one attention."""

    at: tuple[int, int, tuple[int, ...], int]
    """Layer and head, destinations, source."""
    attention: float | None


@dataclass
class _Flowing:
    values: list[float] = field(default_factory=list[float])
    looked: set[_Looked] = field(default_factory=set[_Looked])
    names: list[str] = field(default_factory=list[str])

    @property
    def attention(self) -> float | None:
        """Where all of it was read by one head at one destination from one source."""
        return next(iter(self.looked)).attention if len(self.looked) == 1 else None


class _Growing:
    def __init__(self, split: Split, asked: Asked, pause: Callable[[], object]) -> None:
        self._asked, self._pause = asked, pause
        self.places = {ROOT: _Place(ROOT, "logit", split.facts, [split.whole])}
        self.flows: dict[tuple[str, str], _Flowing] = {}
        self._apart: list[float] = []
        self._splits = 0
        self._heap: list[tuple[float, str]] = []
        self._split = split
        self._least = LEAST * math.fsum(abs(part.value) for part in split.parts)
        self._main = math.nan
        self._sized = Sized()

    def grow(self, given: Sequence[str] | None) -> None:
        """Open the logit; then what is given, or the largest joints for as long as there is room; then what was asked for."""
        self._open(ROOT, self._asked.opened.get(ROOT) or self._split.by)
        if given is None:
            self._by_itself()
        waiting = [*(given or ()), *self._asked.opened]
        # One may be found only once another is open.
        while ready := [key for key in waiting if key in self.places and self._can_open(key)]:
            for key in ready:
                if self._can_open(key):
                    self._open(key, self._asked.opened.get(key))

    def _by_itself(self) -> None:
        self._heap = [(-abs(place.value), key) for key, place in self.places.items() if self._can_open(key)]
        heapq.heapify(self._heap)
        while self._heap and len(self.places) < self._asked.budget and self._splits < SPLITS:
            size, key = heapq.heappop(self._heap)
            # What meets there may have become more, or have cancelled, since it was put there: then it waits its new turn.
            now = abs(self.places[key].value)
            if not self._can_open(key) or not self._is_worth(self.places[key]):
                continue
            if not math.isclose(now, -size, rel_tol=1e-9):
                heapq.heappush(self._heap, (-now, key))
                continue
            self._open(key, self._asked.opened.get(key))

    def _is_worth(self, place: _Place) -> bool:
        """Whether a place opens by itself. Neurons are many and small; heads of the first layer lead to tokens, which are there anyway."""
        return place.kind != "neuron" and (place.key.startswith("L0H") or abs(place.value) >= self._least)

    def _can_open(self, key: str) -> bool:
        place = self.places[key]
        return place.by is None and bool(place.ways)

    def _open(self, key: str, by: Way | None) -> None:
        place = self.places[key]
        place.by = by if by in place.ways else place.ways[0]
        found = [self._parts(place, part) for part in together(place.parts)]
        sums: dict[str, list[float]] = {}
        for part in (each for some in found for each in some):
            sums.setdefault(_key(part, place), []).append(part.value)
        ranked = sorted(sums, key=lambda each: -abs(math.fsum(sums[each])))
        most = self._asked.most * (2 if key == ROOT else 1) * (1 + self._asked.more.get(key, 0))
        if key not in self._asked.more and key != ROOT:
            # A place of its own for what nobody could see would only be in the way of the others.
            seen = [
                each for each in ranked if abs(math.fsum(sums[each])) >= self._least or each in self.places or _is_end(each)
            ]
            most = min(most, len(seen))
            ranked = [*seen, *(each for each in ranked if each not in set(seen))]
        # One that is left over is no shorter than itself.
        place.told = frozenset(ranked if len(ranked) <= most + 1 else ranked[:most])
        for some in found:
            self._flow(place, some)

    def _parts(self, place: _Place, part: Part) -> Sequence[Part]:
        self._pause()
        self._splits += 1
        assert place.by is not None, "it is being opened"
        is_there = place.key == ROOT and place.by == self._split.by
        if is_there:
            self._sized.meet(self._split.node)
        split = self._split if is_there else self._sized.split(part, place.by)
        self._apart.append(split.certificate)
        self._main = split.certificate if place.key == ROOT else self._main
        return _all_parts(split) if is_there else split.parts

    def _flow(self, place: _Place, parts: Sequence[Part]) -> None:
        for part in parts:
            key = _key(part, place)
            if key not in place.told:
                place.rest.setdefault(key, []).append(part.value)
            elif _is_of_tokens(part):
                # Nothing but embeddings, positions and biases is upstream of what the first layer reads.
                for each in self._of_tokens(part):
                    self._enter(_key(each, place), each, place, _looked(part))
            else:
                self._enter(key, part, place, _looked(part))

    def _of_tokens(self, part: Part) -> Sequence[Part]:
        node = part.node
        assert isinstance(node, SourceNode), "what a head of the first layer read"
        if node.head.step.reads == 1 and node.head.step.norm is None:
            # The embedding itself, and nothing else.
            return [replace(part, kind="embedding", node=None)]
        split = self._sized.split(part, "component")
        self._apart.append(split.certificate)
        return split.parts

    def _enter(self, key: str, part: Part, into: _Place, looked: _Looked | None) -> None:
        flowing = self.flows.setdefault((key, into.key), _Flowing())
        flowing.values.append(part.value)
        if looked is not None and key not in TOGETHER:
            flowing.looked.add(looked)
        name = (
            part.facts.get("name", "")
            if part.kind == "bias"
            else f"@{part.facts.get('position')}"
            if part.kind == "position"
            else ""
        )
        if name and name not in flowing.names:
            flowing.names.append(name)
        if key not in self.places:
            self.places[key] = _Place(key, _kind(part), _facts(key, part))
        place = self.places[key]
        place.parts.append(part)
        if place.by is not None:
            self._flow(place, self._parts(place, part))
        elif place.ways:
            heapq.heappush(self._heap, (-abs(place.value), key))

    def told(self) -> Confluence:
        joints = [
            Joint(
                key=each.key,
                kind=each.kind,
                value=each.value,
                facts=each.facts,
                ways=each.ways,
                by=each.by,
            )
            for each in self.places.values()
        ]
        flows: list[tuple[str, str, float, _Flowing]] = [
            (source, target, math.fsum(each.values), each) for (source, target), each in self.flows.items()
        ]
        for place in self.places.values():
            if place.rest:
                key, value = f"{place.key}…", math.fsum(value for some in place.rest.values() for value in some)
                facts = {"count": len(place.rest), "of": place.key}
                joints.append(Joint(key=key, kind="remainder", value=value, facts=facts, ways=(), by=None))
                flows.append((key, place.key, value, _Flowing()))
        return self._summed(joints, flows)

    def _summed(self, joints: list[Joint], flows: list[tuple[str, str, float, _Flowing]]) -> Confluence:
        into: dict[str, list[float]] = {}
        for _, target, value, _ in flows:
            into.setdefault(target, []).append(value)
        sizes = {key: math.fsum(map(abs, values)) for key, values in into.items()}
        apart = [abs(math.fsum(into[joint.key]) - joint.value) for joint in joints if joint.key in into]
        return Confluence(
            joints=tuple(joints),
            flows=tuple(
                Flow(
                    source=source,
                    target=target,
                    value=value,
                    share=abs(value) / sizes[target] if sizes[target] else 0.0,
                    attention=each.attention,
                    names=tuple(each.names),
                )
                for source, target, value, each in sorted(flows, key=lambda flow: -abs(flow[2]))
            ),
            main=self._main,
            certificate=furthest([*apart, *self._apart]),
            size=self._sized.size,
        )


def _all_parts(split: Split) -> list[Part]:
    """The parts of a split, those in its remainder too: nothing is computed again for it."""
    return [each for part in split.parts for each in (part.split(most=None).parts if part.kind == "remainder" else [part])]


def _is_end(key: str) -> bool:
    # What the first layer reads is told by tokens at once.
    return key.startswith(("token@", "L0@")) or key in TOGETHER


def _looked(part: Part) -> _Looked | None:
    node = part.node
    if not isinstance(node, SourceNode):
        return None
    head = node.head
    return _Looked((head.step.layer, head.head, tuple(whole(head.at)), node.position), part.facts.get("attention"))


def _is_of_tokens(part: Part) -> bool:
    return isinstance(part.node, SourceNode) and part.node.head.step.layer == 0


def _kind(part: Part) -> str:
    return "embedding" if part.kind == "token" else "stream" if isinstance(part.node, SourceNode) else part.kind


def _facts(key: str, part: Part) -> dict[str, Any]:
    if key in TOGETHER:
        return {}
    own = {name: value for name, value in part.facts.items() if name != "attention"}
    return own | ({"layer": part.node.head.step.layer} if isinstance(part.node, SourceNode) else {})


def _key(part: Part, within: _Place) -> str:
    """Where a part is; parts of the same place have the same."""
    at = part.facts.get("position")
    match part.kind:
        case "embedding" | "token" if at is not None:
            return f"token@{at}"
        case "position":
            return "positions" if part.node is None else f"{within.key}/positions"
        case "bias":
            return "biases"
        case "head" | "feed-forward" if at is not None and isinstance(part.facts.get("name"), str):
            return f"{part.facts['name']}@{at}"
        case "source" if isinstance(part.node, SourceNode):
            node: HeadNode = part.node.head
            return f"L{node.step.layer}@{at}"
        case _:
            named = [part.facts[name] for name in ("name", "layer", "order", "position") if name in part.facts]
            return f"{within.key}/{part.kind} {named[0]}" if named else f"{within.key}/{part.label}"
