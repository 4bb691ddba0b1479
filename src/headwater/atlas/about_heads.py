"""What an atlas' summary says of heads, made ready for whoever draws it: what each does by position, and who composes with whom."""

from collections.abc import Mapping
from typing import Any, Literal, TypeAlias

from headwater.circuits.composition import Link

Behaviour: TypeAlias = Literal["previous", "own", "first", "induction", "positional", "self-matching", "self-avoiding"]
MOSTLY = 0.5
"""A place that gets more of a head's attention than this is where it looks."""
POSITIONAL = 0.5
"""Of a head whose scores positions explain more than this, skip-trigrams are not the story."""
INDUCTION = 0.5
"""A score of induction (attention to what follows a repeat, times copying) above this is an induction head's."""


def behaviours(one: Mapping[str, Any]) -> tuple[Behaviour, ...]:
    """What a head of a summary does, most particular first; what a summary does not tell is not said.

    >>> behaviours({"head": "L1H0", "attending": {"previous": 0.9, "own": 0.0, "first": 0.1}, "placement": {"positions": 0.7}})
    ('previous', 'positional')
    """
    looks, verdict = _inner(one, "attending"), _inner(one, "self_match_panel").get("verdict")
    tests: dict[Behaviour, bool] = {
        "induction": _number(_inner(one, "induction"), "score") > INDUCTION,
        "previous": _number(looks, "previous") > MOSTLY,
        "own": _number(looks, "own") > MOSTLY,
        "first": _number(looks, "first") > MOSTLY,
        "positional": _number(_inner(one, "placement"), "positions") > POSITIONAL,
        "self-matching": verdict == "self-matching",
        "self-avoiding": verdict == "self-avoiding",
    }
    return tuple(name for name, holds in tests.items() if holds)


def _inner(one: Mapping[str, Any], name: str) -> dict[str, Any]:
    return one.get(name) or dict[str, Any]()


def _number(some: dict[str, Any], name: str) -> float:
    return some.get(name) or 0.0


def links(summary: Mapping[str, Any], kind: Literal["Q", "K", "V"] | None = None) -> list[Link]:
    """Who reads whom more than by chance, of one kind or of all, the strongest first."""
    told = summary.get("composition")
    if not told:
        return []
    ending = "" if kind is None else f".{kind}"
    found = [Link(**link) for link in told["strongest"]] if "strongest" in told else _all(told)
    kept = [link for link in found if link.excess > 0 and link.reader.endswith(ending)]
    return sorted(kept, key=lambda link: -link.score)


def pairs_above_chance(summary: Mapping[str, Any], kind: Literal["Q", "K", "V"]) -> int:
    """How many pairs of a kind are above chance, whether a summary lists them all or only the strongest."""
    counted = _inner(_inner(_inner(summary, "composition"), "pairs"), kind)
    return counted["above_chance"] if counted else len(links(summary, kind))


def _all(told: Mapping[str, Any]) -> list[Link]:
    chance: float = told["chance"]
    return [
        Link(writer, reader, score, score - chance)
        for writer, row in zip(told["writers"], told["scores"], strict=True)
        for reader, score in zip(told["readers"], row, strict=True)
        if score is not None
    ]
