"""``AllHeads``: what a model's weights say about its heads, as one value that prints and draws itself."""

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from typing import Any, Protocol, runtime_checkable

from headwater.circuits.composition import Composition
from headwater.circuits.copying import Panel, tally
from headwater.circuits.head import find_head
from headwater.circuits.overview import PLAIN, Choices, Overview, examples
from headwater.circuits.streamed.lines import Entries
from headwater.circuits.tables import ov, qk
from headwater.errors import InputError
from headwater.model.weights import Weights
from headwater.show.html import fragment
from headwater.show.text import written
from headwater.show.values import Table
from headwater.show.widgets import Displayed, Drawing

MOST_ENTRIES = 200


@runtime_checkable
class Names(Protocol):
    """What tokens are called."""

    def __call__(self, token: int, /) -> str:
        """For people."""
        ...

    def text(self, token: int) -> str | None:
        """For programs: exactly; None where it has none."""
        ...


@dataclass(frozen=True, eq=False, kw_only=True, repr=False)
class AllHeads(Displayed):
    """Some heads, or all: copying, norms, position, composition, and their largest entries."""

    weights: Weights
    heads: tuple[Overview, ...]
    composition: Composition
    names: Names
    choices: Choices = PLAIN

    def __len__(self) -> int:
        return len(self.heads)

    def __iter__(self) -> Iterator[Overview]:
        return iter(self.heads)

    def __repr__(self) -> str:
        return f"AllHeads({len(self)} of {self.weights.config.layers} × {self.weights.config.heads} heads)"

    def __getitem__(self, head: str) -> Overview:
        """One head, such as ``"L0H3"``."""
        found = find_head(head, self.weights.config)
        for one in self.heads:
            if one.head == found:
                return one
        raise InputError(f"{found}, which was not looked at", "a head of this overview", "ask for it too")

    def tables(self) -> list[Table]:
        """For people: as ``headwater heads`` prints them."""
        return tables(self.heads, self.composition, self.names)

    def remarks(self) -> list[str]:
        """What belongs to the numbers."""
        return remarks(self.heads)

    def __str__(self) -> str:
        return "\n".join([written(*self.tables()), "", *self.remarks()]).rstrip()

    def _repr_html_(self) -> str:
        return fragment(*self.tables(), remarks=self.remarks())

    def plain(self) -> dict[str, Any]:
        """For programs."""
        return {"heads": [one.plain() for one in self.heads], "composition": self.composition.plain()}

    def drawing(self) -> Drawing:
        """For notebooks."""
        config = self.weights.config
        data = {
            "layers": config.layers,
            "heads": config.heads,
            "chance": self.composition.chance,
            "given": sorted({label for one in self.heads for label in (*one.copying.given, *one.self_match.given)}),
            "told": [self._told(one) for one in self.heads],
        }
        return Drawing(kind="heads", data=data, answer=self.answer)

    def answer(self, request: Mapping[str, Any]) -> dict[str, Any]:
        """For notebooks: ``{"ask": "entries", "head": "L0H3", "count": 20}``, the largest entries of its circuits, each token once."""
        head, count = request.get("head"), request.get("count")
        if request.get("ask") != "entries" or not isinstance(head, str) or not isinstance(count, int) or count < 0:
            raise InputError(f"the question {dict(request)!r:.80}", "entries of a head", "ask in Python")
        found, choices = find_head(head, self.weights.config), self.choices
        says = ov(self.weights, found, scales=choices.scales).centred_rows()
        seeks = qk(self.weights, found, offset=choices.rotary_offset(self.weights.config), scales=choices.scales)
        count = min(count, MOST_ENTRIES)
        return {"says": self._entries(examples(says, count)), "seeks": self._entries(examples(seeks, count))}

    def _told(self, one: Overview) -> dict[str, Any]:
        ranks = one.copying.ranks
        return {
            "head": str(one.head),
            "layer": one.head.layer,
            "number": one.head.head,
            "copying": one.copying.raw.score,
            "copying_centred": one.copying.centred.score,
            "verdict": one.copying.verdict,
            "own_first": ranks and ranks.top_1,
            "own_top_10": ranks and ranks.top_10,
            "self_match": one.self_match.raw.score,
            "ov": one.ov.plain(),
            "qk": one.qk.plain(),
            "attending": one.attending and one.attending.plain(),
            "induction": one.induction and one.induction.plain(),
            "partners": [link.plain() for link in self.composition.strongest(str(one.head), 8)],
            "says": self._entries(one.says),
            "seeks": self._entries(one.seeks),
        }

    def _entries(self, entries: Entries) -> list[list[Any]]:
        """Rows of two tokens, each its text and its id, and a number."""
        return [[[self.names.text(row), row], [self.names.text(column), column], value] for row, column, value in entries]


def tables(told: Sequence[Overview], pairs: Composition, names: Names) -> list[Table]:
    """One row for each head: what it copies, how large it is and with whom it works, its largest entries."""
    copies: list[tuple[str, ...]] = []
    sizes: list[tuple[str, ...]] = []
    for one in told:
        ranks, panel, match = one.copying.ranks, one.copying, one.self_match
        shares = (f"{ranks.top_1:.1%}", f"{ranks.top_10:.1%}") if ranks else ("", "")
        scores = (f"{panel.raw.score:+z.2f}", f"{panel.centred.score:+z.2f}")
        copies.append((str(one.head), *scores, panel.verdict, *shares, f"{match.raw.score:+z.2f}"))
        norms, spread = f"{one.ov.norm:,.0f}/{one.qk.norm:,.0f}", f"{one.ov.effective_rank:.1f}/{one.qk.effective_rank:.1f}"
        induction = f"{one.induction.score:+z.2f}" if one.induction else ""
        sizes.append((str(one.head), norms, spread, _looks(one), induction, _partner(one)))
    columns = ("head", "copying#", "centred#", "verdict", "own 1st#", "top 10#", "self-match#")
    about = ("head", "norm OV/QK#", "rank OV/QK#", "looks", "induction#", "composes with")
    title = f"\nnorms, effective ranks, position, partners (composition by chance: {pairs.chance:.3f})"
    return [filled("", columns, copies), filled(title, about, sizes), *_largest(told, names), *_tallies(told)]


def filled(title: str, columns: Sequence[str], rows: Sequence[Sequence[str]]) -> Table:
    """A table without the columns that nothing stands in."""
    there = [number for number in range(len(columns)) if any(row[number] for row in rows)]
    chosen = tuple(tuple(row[number] for number in there) for row in rows)
    return Table(title=title, columns=tuple(columns[number] for number in there), rows=chosen)


def _largest(told: Sequence[Overview], names: Names) -> list[Table]:
    """What each head says and looks for most; nothing where no examples were wanted."""
    says = [(str(one.head), in_a_line(one.says, names)) for one in told if len(one.says)]
    seeks = [(str(one.head), in_a_line(one.seeks, names, "←")) for one in told if len(one.seeks)]
    tables = [
        Table(title=title, columns=("head", header), rows=tuple(rows))
        for title, header, rows in (
            ("\nlargest entries", "says (source→out, row means taken out, each token once)", says),
            ("\nlargest scores", "looks for (destination←source, each token once)", seeks),
        )
    ]
    return [table for table in tables if table.rows]


def _partner(one: Overview) -> str:
    """Whom a head reads, or who reads it, more than any other: where that is more than chance."""
    link = one.partners[0] if one.partners else None
    return f"{link.writer}→{link.reader} {link.score:.3f}" if link and link.excess > 0 else ""


def _looks(one: Overview) -> str:
    """Where a head looks by position, if that is more than half of its attention."""
    found = one.attending
    if found is None:
        return ""
    places = {"before": found.previous, "itself": found.own, "first": found.first}
    place, share = max(places.items(), key=lambda item: item[1])
    return f"{place} {share:.0%}" if share > 0.5 else ""


def _tallies(told: Sequence[Overview]) -> list[Table]:
    """How many heads copy, by each definition, and how many would by chance."""
    if len(told) < 2:
        return []
    # Those that are held against the quantiles at 5 % and 95 %; the verdict takes two of them to agree.
    about = f"{0.05 * len(told):.1f}"
    chance = {"verdict": f"≤ {about}", **dict.fromkeys(("score", "raw score", "signs", "trace"), f"≈ {about}")}
    rows: list[tuple[str, ...]] = []
    for definition, counts in tally([one.copying for one in told]).items():
        found = (str(counts.get(word, 0)) for word in ("copying", "neither", "anti-copying"))
        rows.append((definition, *found, chance.get(definition, "")))
    columns = ("by", "copying#", "neither#", "anti-copying#", "chance, each way#")
    return [Table(title=f"\nhow many of {len(told)} heads copy", columns=columns, rows=tuple(rows))]


def in_a_line(entries: Entries, names: Names, arrow: str = "→") -> str:
    """Some entries, one beside the other."""
    return "  ".join(f"{names(row)}{arrow}{names(column)} {value:+z.3g}" for row, column, value in entries)


def remarks(told: Sequence[Overview], joined: Panel | None = None) -> list[str]:
    """What belongs to the numbers: what they take for granted, and where definitions of copying disagree."""
    panels = [panel for each in told for panel in (each.copying, each.self_match)] + ([joined] if joined else [])
    given = sorted({label for panel in panels for label in panel.given})
    lines = [f"given {'; '.join(given)}"] if given else []
    if len(told) == 1:
        return lines
    return lines + [line for each in told if (line := _disagreement(each))]


def _disagreement(one: Overview) -> str:
    """Which definitions say something else than the verdict; score and trace make it, and may differ themselves."""
    votes, verdict = one.copying.votes, one.copying.verdict
    if votes["score"] != votes["trace"]:
        return f"{one.head}: score and trace disagree; {', '.join(f'{name} says {word}' for name, word in votes.items())}"
    differing = one.copying.disagreements
    return f"{one.head} is {verdict} by score and trace; {', '.join(differing)}" if differing else ""
