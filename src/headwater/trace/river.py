"""A logit's river as a document for drawings: the studio's answer ``/api/river`` has the same shape, and so do notebooks.

What is open is told as in an address: ``L1H3@4,-L0H2@4,+logit,L0.feed_forward@4:neuron`` opens one place, closes another, tells more of the logit's own parts
apart and takes a feed-forward layer apart by its neurons.
"""

import math
from collections.abc import Callable, Mapping
from dataclasses import replace
from typing import Any, get_args

from headwater.errors import InputError
from headwater.show.widgets import Drawing
from headwater.trace.confluence import BUDGET, MOST, ROOT, Asked, Flow, Joint, confluence
from headwater.trace.nodes import StreamNode
from headwater.trace.parts import Split, Way
from headwater.trace.patterns import token_told
from headwater.trace.run import Run
from headwater.trace.sizes import logit_size, rounding

WAYS: tuple[Way, ...] = get_args(Way)
FACTS = ("position", "dest_id", "id", "probability")
"""What a split of a logit knows; splits of other numbers do not."""
PLACES, MORE = 300, 40
"""Places that are opened or closed at once, and how often more of one place is told apart."""


def drawn(why: Split) -> Drawing | None:
    """The river of a logit for notebooks; nothing of other numbers, nor of single paths."""
    if _run(why) is None or why.by == "path":
        return None
    return Drawing(kind="river", data=river_told(why, asked_of(why, "")), answer=lambda request: _answer(why, request))


def _answer(why: Split, request: Mapping[str, Any]) -> dict[str, Any]:
    opened = request.get("open", "")
    if request.get("ask") != "river" or not isinstance(opened, str):
        raise InputError(f"the question {dict(request)!r:.80}", "a river, and what is open", "ask in Python")
    return river_told(why, asked_of(why, opened))


def asked_of(why: Split, opened: str) -> Asked:
    """As a split is taken apart, unless somebody asks otherwise."""
    asked = asked_for(opened)
    return asked if ROOT in asked.opened else replace(asked, opened={ROOT: why.by, **asked.opened})


def _run(why: Split) -> Run | None:
    """The run whose logit a split is of."""
    record = why.node.frozen.record if isinstance(why.node, StreamNode) else None
    return record if isinstance(record, Run) and all(name in why.facts for name in FACTS) else None


def river_told(why: Split, asked: Asked, stop: Callable[[], None] = lambda: None) -> dict[str, Any]:
    """A logit that was explained, upstream to the tokens; ``stop`` may end the work between two steps."""
    run, facts = _run(why), why.facts
    if run is None:
        raise InputError(f"a river of {why.label}", "a logit", "explain one: run.explain()")
    found = confluence(why, asked, stop)
    return {
        "position": facts["position"],
        "dest": token_told(run.words, facts["dest_id"]),
        "token": token_told(run.words, facts["id"]),
        "against": token_told(run.words, facts["against_id"]) if "against_id" in facts else None,
        "centred": bool(facts.get("centred")),
        "value": why.value,
        "probability": facts["probability"],
        "against_probability": facts.get("against_probability"),
        "main": found.main,
        "certificate": found.certificate,
        "bound": logit_bound(run, why, found.size),
        "nodes": [_node(joint) for joint in found.joints],
        "links": [_link(flow) for flow in found.flows],
    }


def logit_bound(run: Run, why: Split, size: float) -> float:
    """What rounding may come to in an explained logit that numbers of some size were added up to."""
    own = logit_size(run.frozen, why.facts["position"], logits_of(why), centred=bool(why.facts.get("centred")))
    return rounding(run, math.hypot(own, size))


def logits_of(why: Split) -> list[int]:
    """The tokens whose logits are explained."""
    return [why.facts[name] for name in ("id", "against_id") if name in why.facts]


def _node(joint: Joint) -> dict[str, Any]:
    """Everything that flows through one place."""
    kept = {name: joint.facts.get(name) for name in ("name", "layer", "position", "token", "id", "count", "of")}
    return {"key": joint.key, "kind": joint.kind, "value": joint.value, "ways": list(joint.ways), "by": joint.by, **kept}


def _link(flow: Flow) -> dict[str, Any]:
    """What one place has in another one downstream."""
    numbers = {name: getattr(flow, name) for name in ("source", "target", "value", "share", "attention")}
    return {**numbers, "names": list(flow.names)}


def asked_for(opened: str, most: int = MOST, budget: int = BUDGET) -> Asked:
    """How far to follow a river.

    >>> asked_for("L1H3@4,-L0H2@4,+logit").closed
    frozenset({'L0H2@4'})
    """
    places: dict[str, Way | None] = {}
    closed: set[str] = set()
    more: dict[str, int] = {}
    for item in opened.split(",")[:PLACES]:
        if item.startswith("-"):
            closed.add(item[1:])
        elif item.startswith("+"):
            more[item[1:]] = min(more.get(item[1:], 0) + 1, MORE)
        elif item:
            key, _, way = item.rpartition(":")
            places |= {key: next(each for each in WAYS if each == way)} if way in WAYS and key else {item: None}
    return Asked(most=most, budget=budget, opened=places, closed=frozenset(closed), more=more)
