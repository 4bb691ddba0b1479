"""Why does it attend there? An attention score as an exact sum over what made the query and what made the key.

A score is bilinear: with the scales of norms held fixed, the query is a sum of what each component put into it, and so is the key::

    score = scale · <query, key> = Σ_ab scale · <query_a, key_b>

One number for each pair, such as embedding × embedding, position × position, head × head. With the whole key held fixed the score is a question about
the stream at the destination, with the whole query (or one part of it) held fixed one about the stream at the source; and these are taken
apart as any logit is, down to the tokens.
"""

import math
from dataclasses import dataclass, replace
from functools import cached_property
from typing import Any, Literal, TypeAlias

import torch
from jaxtyping import Float
from torch import Tensor

from headwater.circuits.head import Head, HeadName, find_head
from headwater.errors import InputError
from headwater.model.attention import Rule, scores
from headwater.model.config import NoNorm
from headwater.model.positions import for_each_head, place
from headwater.shapes import floats, whole
from headwater.show.html import fragment
from headwater.show.text import written
from headwater.show.values import Grid, Section, Table, Tree
from headwater.show.widgets import Displayed, Drawing
from headwater.trace.competition import Competition
from headwater.trace.frozen import Frozen
from headwater.trace.nodes import token_facts
from headwater.trace.parts import MOST, Group, Node, Part, Split, group, take_apart
from headwater.trace.question import check_one_text, within
from headwater.trace.rounding import score_bound
from headwater.trace.sides import Side, SideName
from headwater.trace.sizes import score_tie

Held: TypeAlias = Literal["norms", "patterns", "gates"]
"""What is held as a run measured it."""
HELD: dict[Held, str] = {
    "norms": "the scales of norms",
    "patterns": "where earlier heads look",
    "gates": "the gates of earlier feed-forward layers",
}
SHOWN = 6
"""Rows and columns of a table for people; the others are one row and one column."""


@dataclass(frozen=True, eq=False)
class Cells:
    """A table of parts of the query by parts of the key, cut to the largest of both; the others are one row and one column."""

    rows: tuple[Part, ...]
    columns: tuple[Part, ...]
    values: Float[Tensor, "row column"]


@dataclass(frozen=True, eq=False, kw_only=True, repr=False)
class Attending(Displayed):
    """A score of a head, or how far it is above another, taken apart from both sides."""

    frozen: Frozen
    head: Head
    dest: int
    source: int
    against: int | None
    competition: Competition
    """The sources among which the softmax shares attention."""
    value: float
    """What is taken apart: the model's own score, or the difference of two."""
    scale: float
    """What products of queries and keys are multiplied by."""
    queries: Side
    keys: Side

    def __repr__(self) -> str:
        return f"Attending({self.label}, {self.value:+.4g}, certificate {self.certificate:.1e})"

    @property
    def score(self) -> float:
        """The model's own score of the source, scaled, before the softmax."""
        return self.competition.score

    @property
    def attention(self) -> float:
        """The attention that the source gets."""
        return self.competition.share

    @property
    def label(self) -> str:
        """What is taken apart, in words."""
        above = "" if self.against is None else f" above {self.frozen.place(self.against)}"
        return f"score of {self.head} at {self.frozen.place(self.dest)} for {self.frozen.place(self.source)}{above}"

    @cached_property
    def query(self) -> Split:
        """What made the query, each part by what the whole key makes of it; every part splits further."""
        return self._told("query", self.queries.label, self.queries.node(self.scale * self.keys.vector()))

    @cached_property
    def key(self) -> Split:
        """What made the key, each part by what the whole query makes of it; every part splits further."""
        return self._told("key", self.keys.label, self.keys.node(self.scale * self.queries.vector()))

    @cached_property
    def table(self) -> Float[Tensor, "query_part key_part"]:
        """``scale · <query_a, key_b>`` for all parts, none cut away: in the order of ``query_parts`` and ``key_parts``; in float64."""
        queries, keys = self._vectors
        return self.scale * queries @ keys.T

    @cached_property
    def query_parts(self) -> list[Part]:
        """All parts of the query; the table's rows add up to them."""
        return self.query.node.parts("component")

    @cached_property
    def key_parts(self) -> list[Part]:
        """All parts of the key; the table's columns add up to them."""
        return self.key.node.parts("component")

    @property
    def certificate(self) -> float:
        """How far the sum of the table is from the model's own number."""
        return abs(math.fsum(floats(self.table.flatten())) - self.value)

    @cached_property
    def bound(self) -> float:
        """What rounding may come to in the certificate: in this format, at this width and depth, and with numbers of this size."""
        return score_bound(self.queries, self.keys, self.scale)

    @cached_property
    def by_query(self) -> Split:
        """The parts of the query, each of which splits into what it met in the key."""
        return self._crossed(self.query, self.query_parts, self._vectors[0], self.keys)

    @cached_property
    def by_key(self) -> Split:
        """The parts of the key, each of which splits into what it met in the query."""
        return self._crossed(self.key, self.key_parts, self._vectors[1], self.queries)

    def given_query(self, part: str) -> Split:
        """What made the key, as one part of the query sees it: ``given_query("L0H2")``."""
        found = self.by_query[part]
        return self._told("key", f"{found.label} in the query meets the key", found.node, found.value)

    def given_key(self, part: str) -> Split:
        """What made the query, as one part of the key sees it."""
        found = self.by_key[part]
        return self._told("query", f"{found.label} in the key meets the query", found.node, found.value)

    def cells(self, most: int = MOST) -> Cells:
        """The table's largest rows and columns by the sum of their sizes, the others as one row and one column."""
        rows, columns = _groups(self.table.abs().sum(dim=1), most), _groups(self.table.abs().sum(dim=0), most)
        parts = (_grouped(rows, self.query_parts), _grouped(columns, self.key_parts))
        return Cells(*parts, rows @ self.table @ columns.T)

    def grid(self, most: int = MOST) -> Grid:
        """The same, to be drawn."""
        cells = self.cells(most)
        return Grid(
            title=f"{self.label}: parts of the query by parts of the key",
            rows=tuple(map(_short, cells.rows)),
            columns=tuple(map(_short, cells.columns)),
            values=tuple(tuple(floats(row)) for row in cells.values),
            x="part of the key",
            y="part of the query",
            middle=0.0,
            reach=float(cells.values.abs().max()) or 1.0,
        )

    def tree(self, depth: int = 2, *, most: int = SHOWN) -> Tree:
        """Parts of the query, below each what it met in the key, below that where this came from."""
        return self.by_query.split(most=most).tree(depth, most=most)

    def tables(self, most: int = SHOWN) -> tuple[Table, ...]:
        """For people: the competition, and the parts of the query by those of the key."""
        grid = self.grid(most)
        rows = [(name, *map(_number, row), _number(math.fsum(row))) for name, row in zip(grid.rows, grid.values, strict=True)]
        sums = [math.fsum(column) for column in zip(*grid.values, strict=True)]
        columns = tuple(f"{name.replace(' ', chr(10))}#" for name in (*grid.columns, "sum"))
        last = ("sum", *map(_number, sums), _number(math.fsum(sums)))
        return (
            self.competition.table(most),
            Table(title=grid.title, columns=("query ↓  key →", *columns), rows=(*rows, last)),
        )

    def trees(self, depth: int = 2, *, most: int = SHOWN) -> tuple[Tree, Tree]:
        """For people: what made the query and what made the key, down to ``depth`` levels."""
        query, key = (replace(each.split(most=most).tree(depth, most=most), remarks=()) for each in (self.query, self.key))
        return (
            replace(query, title="what made the query, by what the key makes of it"),
            replace(key, title="what made the key, by what the query makes of it"),
        )

    def sections(self, depth: int = 2, *, most: int = SHOWN) -> tuple[Section, ...]:
        """For a page: the competition, the grid, and both sides."""
        return (self.competition.table(most), self.grid(most), *self.trees(depth, most=most))

    @property
    def words(self) -> str:
        """What the head does, in one line."""
        there = f"{self.head} at {self.frozen.place(self.dest)} looks at {self.frozen.place(self.source)}"
        return f"{there} with {self.attention:.1%} of its attention, score {self.score:+.3f}"

    @property
    def held(self) -> tuple[Held, ...]:
        """What is held as the run measured it."""
        config, below = self.frozen.record.config, self.head.layer > 0
        measured: dict[Held, bool] = {
            "norms": not isinstance(config.norm, NoNorm),
            "patterns": below,
            "gates": below and config.feed_forward is not None,
        }
        return tuple(what for what, is_there in measured.items() if is_there)

    @property
    def remarks(self) -> tuple[str, ...]:
        """What is to be said below the numbers."""
        held = ", ".join(HELD[each] for each in self.held)
        sides = f"query {self.query.certificate:.1e}, key {self.key.certificate:.1e}"
        return (
            "softmax sees differences of scores only: what makes one source win is told against another"
            if self.against is None
            else "a difference of scores is the log of how many times more attention the one source gets than the other",
            *([f"held as the run measured them: {held}"] if held else []),
            f"certificate {self.certificate:.1e}, {sides}: so far are the sums from the model's own {self.value:+.6f}",
        )

    def plain(self, most: int = MOST) -> dict[str, Any]:
        """For programs; ``parts`` are the cells of the table that is cut to ``most`` rows and columns and adds up."""
        grid = self.grid(most)
        parts = [
            {"label": f"{query} × {key}", "query": query, "key": key, "value": value}
            for query, row in zip(grid.rows, grid.values, strict=True)
            for key, value in zip(grid.columns, row, strict=True)
        ]
        places = {"dest": self.dest, "source": self.source, "against": self.against}
        tokens = {
            f"{name}_{fact}": value
            for name, position in places.items()
            for fact, value in ({} if position is None else token_facts(self.frozen, position)).items()
        }
        return {
            "label": self.label,
            "head": str(self.head),
            **places,
            **tokens,
            "score": self.score,
            "attention": self.attention,
            "value": self.value,
            "certificate": self.certificate,
            "bound": self.bound,
            "parts": parts,
            "query": self.query.plain(),
            "key": self.key.plain(),
            "competition": self.competition.plain(),
        }

    def __str__(self) -> str:
        return "\n".join([self.words, "", written(*self.tables(), *self.trees(1)), "", *self.remarks])

    def _repr_html_(self) -> str:
        return fragment(*self.sections(), remarks=(self.words, *self.remarks))

    def drawing(self) -> Drawing | None:
        """For notebooks: the head's pattern, and why it looks there; other cells are asked about by clicking them."""
        from headwater.trace import patterns

        return patterns.drawn(self)

    @cached_property
    def _vectors(self) -> tuple[Float[Tensor, "query_part d_head"], Float[Tensor, "key_part d_head"]]:
        return self.queries.vectors().double(), self.keys.vectors().double()

    def _told(self, name: SideName, label: str, node: Node | None, value: float | None = None) -> Split:
        ending = f"{name} of {self.head}"
        return take_apart(label, self.value if value is None else value, node, None, most=MOST, ending=ending)

    def _crossed(self, split: Split, parts: list[Part], fixed: Float[Tensor, "part d_head"], other: Side) -> Split:
        """One side, each of whose parts is taken apart by what made the other."""
        held = self.scale * fixed.to(other.signs.dtype)
        crossed = [replace(part, node=other.node(vector)) for part, vector in zip(parts, held, strict=True)]
        return take_apart(split.label, self.value, Group(lambda: crossed), None, most=None)


@torch.no_grad()
def attend(frozen: Frozen, head: HeadName, dest: int = -1, source: int | None = None, against: int | None = None) -> Attending:
    """The score of a head for ``source`` at ``dest``; without a source, for the one that it looks at most, the first of those that tie.

    ``against`` another source, how far the score is above that one's. Positions count from the end where they are negative.

    >>> from headwater.model.presets import named
    >>> from headwater.model.record import record
    >>> from headwater.model.weights import Weights
    >>> run = record(Weights.draw(named("one-layer"), seed=0), torch.tensor([[1, 2, 3]]))
    >>> why = attend(Frozen(run), "L0H3", dest=2, source=0)
    >>> [part.label for part in why.query.parts], why.certificate < 1e-5
    (['position 2', 'embedding of #3@2'], True)
    """
    record = frozen.record
    check_one_text(record)
    found, length = find_head(head, record.config), record.tokens.shape[1]
    dest = within(dest, length, "position")
    all_scores = _scores(frozen, found, dest)
    tie = score_tie(frozen, found, dest)
    chosen = _highest(all_scores, tie) if source is None else within(source, length, "position")
    other = None if against is None else within(against, length, "position")
    _check(frozen, all_scores, dest, chosen, other)
    assert record.config.attention is not None, "whoever has heads has attention"
    at = torch.tensor([dest], device=all_scores.device)
    sources = at.new_tensor([chosen] if other is None else [chosen, other])
    signs, placed = all_scores.new_tensor([1.0, -1.0]), place(record.weights, 0, length)
    seen = all_scores.isfinite().nonzero().flatten()
    competition = Competition(
        frozen=frozen,
        source=chosen,
        against=other,
        positions=seen,
        scores=all_scores[seen],
        attention=frozen.pattern(found.layer, at)[found.head, 0, seen],
        tie=tie,
    )
    return Attending(
        frozen=frozen,
        head=found,
        dest=dest,
        source=chosen,
        against=other,
        competition=competition,
        value=float(all_scores[chosen]) - (0.0 if other is None else float(all_scores[other])),
        scale=record.config.attention.scale,
        queries=Side(frozen, found, "query", at, signs[:1], placed),
        keys=Side(frozen, found, "key", sources, signs[: len(sources)], placed),
    )


def _scores(frozen: Frozen, head: Head, dest: int) -> Float[Tensor, " source"]:
    """A head's scores at one destination; those of the others are made only where somebody intervened."""
    record, attention, site = frozen.record, frozen.record.config.attention, f"L{head.layer}."
    assert attention is not None, "whoever has heads has attention"
    if f"{site}scores" in record.kept or record.tap.wants(f"{site}scores"):
        return record[f"{site}scores"][0, head.head, dest]
    made = record.together([f"{site}queries", f"{site}keys"])
    q = made[f"{site}queries"][:, head.head, None, dest, None]
    k = for_each_head(made[f"{site}keys"], attention.heads)[:, head.head, None]
    return scores(q, k, Rule(attention.mask, attention.scale), torch.tensor([dest]))[0, 0, 0]


def _highest(found: Float[Tensor, " source"], tie: float) -> int:
    """The first of the sources that tie for the highest score."""
    return int((found.max() - found <= tie).int().argmax())


def _check(frozen: Frozen, found: Float[Tensor, " source"], dest: int, source: int, against: int | None) -> None:
    for position in (source, against):
        if position is not None and not math.isfinite(float(found[position])):
            raise InputError(
                f"position {position} as a source of position {dest}",
                "a source that the mask lets it see",
                f"choose one from 0 to {dest}",
            )
    if source == against:
        raise InputError(f"{frozen.place(source)} against itself", "another source", "choose one that it competes with")


def _groups(sizes: Float[Tensor, " part"], most: int) -> Float[Tensor, "group part"]:
    """Which parts each row of a cut table is made of: the largest by themselves, all others together."""
    if most < 0:
        raise InputError(f"a table of {most} parts", "a number from 0 on", "ask for some")
    order = sizes.argsort(descending=True, stable=True)
    # One that is left over is no shorter than itself.
    kept = order if len(order) <= most + 1 else order[:most]
    rest = order[len(kept) :]
    groups = sizes.new_zeros(len(kept) + bool(len(rest)), len(sizes))
    groups[torch.arange(len(kept)), kept] = 1
    groups[-1, rest] = 1
    return groups


def _grouped(groups: Float[Tensor, "group part"], parts: list[Part]) -> tuple[Part, ...]:
    """A part by itself; several as one."""
    found: list[Part] = []
    for members in ([parts[number] for number in whole(each.nonzero().flatten())] for each in groups):
        rest = {"count": len(members)}
        alone = len(members) == 1
        found.append(members[0] if alone else group(f"{len(members)} others", members, kind="remainder", facts=rest))
    return tuple(found)


def _short(part: Part) -> str:
    return {"embed": "embedding", "positions": "position"}.get(part.facts.get("name", ""), part.label)


def _number(value: float) -> str:
    return f"{value:+z.3f}"
