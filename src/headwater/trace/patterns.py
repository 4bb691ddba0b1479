"""``Patterns``: where all heads look in a text, as a value that prints and draws itself; and what notebooks ask of it.

The documents here have the shapes of the studio's answers ``/api/attention`` and ``/api/attention/why``, so that the same drawings draw them.
"""

import math
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from functools import cached_property
from typing import Any, get_args

import torch
from jaxtyping import Float
from torch import Tensor

from headwater.circuits.head import Head, every_head
from headwater.errors import InputError
from headwater.shapes import floats, whole
from headwater.show.html import fragment
from headwater.show.text import written
from headwater.show.values import Grid, Table
from headwater.show.widgets import Displayed, Drawing
from headwater.text.spoken import Spoken
from headwater.trace.attend import Attending, attend
from headwater.trace.competition import Competition
from headwater.trace.frozen import Frozen
from headwater.trace.looks import Looks, Survey, View, cells, looks, survey
from headwater.trace.parts import Part
from headwater.trace.question import check_one_text

AT_ONCE = 256
"""Tokens of a text whose first pattern a notebook gets at once."""
MOST_TOKENS = 2_048
"""Of a pattern that a notebook is given at all."""
MOST, DEEPER = 8, 5
"""Rows, columns and sources of an explanation, and parts of what each of its parts is made of."""
COLUMNS, ROWS = 24, 64
"""Sources and heads of the picture that needs no scripts."""


@dataclass(frozen=True, eq=False, repr=False)
class Patterns(Displayed):
    """The attention of every head of a model on one text."""

    frozen: Frozen

    def __repr__(self) -> str:
        config = self.frozen.record.config
        return f"Patterns({config.layers} × {config.heads if config.layers else 0} heads, {len(self.frozen.ids):,} tokens)"

    @cached_property
    def survey(self) -> Survey:
        """All heads in a few numbers each, and as small pictures."""
        return survey(self.frozen)

    def __getitem__(self, head: str) -> Float[Tensor, "dest source"]:
        """One head's pattern."""
        return looks(self.frozen, head)

    def table(self) -> Table:
        """For people: mean attention over the tokens after the first, and how spread out it is."""

        def share(value: float | None) -> str:
            return "" if value is None else f"{value:.1%}"

        rows = tuple(
            (
                str(one.head),
                *map(share, (one.previous, one.own, one.first)),
                "" if one.entropy is None else f"{one.entropy:.2f}",
                f"{one.longest:.3g}",
            )
            for one in self.survey.heads
        )
        columns = ("head", "before#", "itself#", "first#", "entropy#", "largest write#")
        return Table(title="where heads look: mean attention over the tokens after the first", columns=columns, rows=rows)

    def grid(self) -> Grid:
        """For a picture without scripts: where each head looks from the last token."""
        length, heads = len(self.frozen.ids), every_head(self.frozen.record.config)[:ROWS]
        at, sources = (
            torch.tensor([length - 1], device=self.frozen.record.tokens.device),
            range(max(0, length - COLUMNS), length),
        )
        layers = {head.layer: self.frozen.pattern(head.layer, at) for head in heads}
        values = tuple(tuple(floats(layers[head.layer][head.head, 0, sources.start :])) for head in heads)
        return Grid(
            title=f"where heads look from {self.frozen.place(length - 1)}",
            rows=tuple(map(str, heads)),
            columns=tuple(self.frozen.place(source) for source in sources),
            values=values,
            x="source",
            y="head",
            middle=0.0,
            reach=1.0,
        )

    def __str__(self) -> str:
        return written(self.table())

    def _repr_html_(self) -> str:
        return fragment(*([self.grid()] if self.frozen.record.config.layers else []), self.table())

    def plain(self) -> dict[str, Any]:
        """For programs."""
        return {"heads": [one.plain() for one in self.survey.heads]}

    def drawing(self) -> Drawing | None:
        """For notebooks; nothing of a model without heads."""
        if not self.frozen.record.config.layers:
            return None
        first = {"head": str(Head(0, 0)), "dest": None, "source": None, "against": None}
        return Drawing(kind="attention", data=_data(self, first, None) | self._surveyed(), answer=self.answer)

    def answer(self, request: Mapping[str, Any]) -> dict[str, Any]:
        """For notebooks: ``{"ask": "survey"}``, ``{"ask": "pattern", "head", "view"}``, ``{"ask": "why", "head", "dest", "source", "against"}``."""
        match request.get("ask"):
            case "survey":
                return self._surveyed()
            case "pattern":
                return self._pattern(_named(request), request.get("view", "pattern"))
            case "why":
                places = [request.get(name) for name in ("dest", "source", "against")]
                if not all(place is None or isinstance(place, int) for place in places):
                    raise InputError(f"the places {places!r:.80}", "positions", "give whole numbers")
                dest, source, against = places
                return why_told(attend(self.frozen, _named(request), -1 if dest is None else dest, source, against))
            case _:
                raise InputError(f"the question {dict(request)!r:.80}", "survey, pattern or why", "ask in Python")

    def _surveyed(self) -> dict[str, Any]:
        found = self.survey
        return {
            "facts": [looks_told(one) for one in found.heads],
            "side": found.pattern.shape[-1],
            "small_pattern": _bytes(found.picture("pattern")),
            "small_weighted": _bytes(found.picture("weighted")),
        }

    def _pattern(self, head: str, view: object) -> dict[str, Any]:
        length = len(self.frozen.ids)
        if view not in get_args(View):
            raise InputError(f"the view {view!r:.40}", f"one of {', '.join(get_args(View))}", "choose one of them")
        if length > MOST_TOKENS:
            raise InputError(
                f"a pattern of {length:,} tokens", f"at most {MOST_TOKENS:,}", f"ask in Python: run.looks({head!r})"
            )
        chosen: View = next(each for each in get_args(View) if each == view)
        return {"head": head, "view": chosen, "values": _bytes(cells(looks(self.frozen, head, chosen)))}


def drawn(why: Attending) -> Drawing:
    """An explained score for notebooks: its head's pattern, and why it looks there."""
    patterns = Patterns(why.frozen)
    chosen = {"head": str(why.head), "dest": why.dest, "source": why.source, "against": why.against}
    return Drawing(kind="attention", data=_data(patterns, chosen, why_told(why)), answer=patterns.answer)


def _data(patterns: Patterns, chosen: Mapping[str, Any], why: Mapping[str, Any] | None) -> dict[str, Any]:
    frozen, config = patterns.frozen, patterns.frozen.record.config
    check_one_text(frozen.record)
    assert config.attention is not None, "whoever has heads has attention"
    is_short = len(frozen.ids) <= AT_ONCE
    return {
        "layers": config.layers,
        "heads": config.heads,
        "mask": config.attention.mask,
        "tokens": [token_told(frozen.words, token) for token in frozen.ids],
        "chosen": dict(chosen),
        "why": why,
        "pattern": patterns.answer({"ask": "pattern", "head": chosen["head"]}) if is_short else None,
        "facts": None,
        "side": 0,
    }


def _bytes(values: Tensor) -> bytes:
    return values.contiguous().numpy().tobytes()


def _named(request: Mapping[str, Any]) -> str:
    head = request.get("head")
    if not isinstance(head, str):
        raise InputError(f"the head {head!r:.40}", "its name", "such as L0H3")
    return head


def looks_told(one: Looks) -> dict[str, Any]:
    """A head in a few numbers, and where in the model it is."""
    return one.plain() | {"layer": one.head.layer, "number": one.head.head}


def token_told(words: Spoken, token: int) -> dict[str, Any]:
    """A token: its exact text, as people read it, and its id."""
    return {"text": words.text(token), "shown": words(token), "id": token}


def why_told(found: Attending, most: int = MOST, listen: Callable[[], None] = lambda: None) -> dict[str, Any]:
    """Why a head looks there, by kinds and facts; whoever draws it has the words.

    ``listen`` is called between two steps, and may end it by an error.
    """
    shown, frozen = found.cells(most), found.frozen

    def told(parts: Sequence[Part]) -> list[dict[str, Any]]:
        rows: list[dict[str, Any]] = []
        for part in parts:
            listen()
            rows.append(_part(frozen, part, is_deeper=True))
        return rows

    table = [floats(row) for row in shown.values]
    return {
        "head": str(found.head),
        "dest": _place(frozen, found.dest),
        "source": _place(frozen, found.source),
        "against": None if found.against is None else _place(frozen, found.against),
        "score": found.score,
        "attention": found.attention,
        "value": found.value,
        "certificate": found.certificate,
        "bound": found.bound,
        "competition": _competing(frozen, found.competition, most),
        "rows": told(shown.rows),
        "columns": told(shown.columns),
        "table": table,
        "row_sums": [math.fsum(row) for row in table],
        "column_sums": [math.fsum(column) for column in zip(*table, strict=True)],
        "total": math.fsum(value for row in table for value in row),
        "held": list(found.held),
    }


def _place(frozen: Frozen, position: int) -> dict[str, Any]:
    return {"position": position, "token": token_told(frozen.words, frozen.ids[position])}


def _competing(frozen: Frozen, found: Competition, most: int) -> dict[str, Any]:
    first, rest = found.cut(most)
    positions, numbers = whole(found.positions), (floats(found.scores), floats(found.attention), floats(found.log_odds))
    sources: list[dict[str, Any]] = [
        {
            "place": _place(frozen, positions[number]),
            "count": 1,
            **{name: some[number] for name, some in zip(("score", "attention", "log_odds"), numbers, strict=True)},
        }
        for number in first
    ]
    if rest:
        score, share = found.together(rest)
        odds = found.score - score
        sources.append({"place": None, "count": len(rest), "score": score, "attention": share, "log_odds": odds})
    return {
        "sources": sources,
        "count": len(positions),
        "entropy": found.entropy,
        "effective": found.effective,
        "rank": found.rank,
    }


def _part(frozen: Frozen, part: Part, *, is_deeper: bool) -> dict[str, Any]:
    facts = part.facts
    inner = part.split(most=DEEPER).parts if is_deeper and part.ways else ()
    return {
        "kind": part.kind,
        "name": str(facts.get("name", part.label)),
        "value": part.value,
        "place": _place(frozen, int(facts["position"])) if "position" in facts else None,
        "count": int(facts.get("count", 1)),
        "attention": facts.get("attention"),
        "parts": [_part(frozen, each, is_deeper=False) for each in inner],
    }
