"""The tables of ``headwater heads``: what heads do, in words and numbers for people."""

from collections.abc import Iterable
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

from headwater.circuits.all_heads import filled
from headwater.circuits.chance import Range
from headwater.circuits.copying import SURE, Eigen, Panel
from headwater.circuits.overview import Choices, Overview, Strength
from headwater.circuits.spectrum import Spectrum, Weighted, spectrum
from headwater.circuits.tables import Circuit, ov, qk
from headwater.show.values import Table
from headwater.text.spoken import Spoken

if TYPE_CHECKING:
    from headwater.circuits.composition import Composition
    from headwater.circuits.streamed.lines import Entries
    from headwater.cli.heads import Asked

DIRECTIONS, TOKENS, LINKS, EIGENVALUES = 5, 5, 8, 8


class Words(Spoken):
    """Ids of tables as people read them, and as programs do."""

    def weighted(self, some: Weighted) -> str:
        """Some tokens with their signs."""
        return " ".join(("" if weight > 0 else "−") + self(token) for token, weight in zip(some.ids, some.weights, strict=True))

    def exact(self, rows: Iterable[dict[str, Any]]) -> list[dict[str, Any]]:
        """For programs: each token's exact text, its id beside it; None where it has no text."""
        return [
            {name: self.text(value) if name != "value" else value for name, value in row.items()}
            | {f"{name}_id": value for name, value in row.items() if name != "value"}
            for row in rows
        ]

    def directions(self, found: Spectrum) -> dict[str, Any]:
        """For programs: a spectrum whose directions have tokens' exact texts."""

        def side(some: Weighted) -> list[dict[str, Any]]:
            return self.exact({"token": id_, "value": weight} for id_, weight in zip(some.ids, some.weights, strict=True))

        directions = [
            {"strength": one.strength, "reads": side(one.reads), "writes": side(one.writes)} for one in found.directions
        ]
        return {**found.plain(), "directions": directions}


def one(told: Overview, pairs: "Composition", asked: "Asked", words: Words) -> list[Table]:
    """One head in full."""
    weights, choices = asked.model.weights, asked.choices
    says = ov(weights, told.head, scales=choices.scales)
    seeks = qk(weights, told.head, offset=choices.rotary_offset(weights.config), scales=choices.scales)
    examples = [
        _entries(told.says, words, "\nOV: the largest entries, each row's mean taken out", ("source", "out", "logit#")),
        _entries(told.seeks, words, "\nQK: the largest scores", ("destination", "source", "score#")),
    ]
    return [
        _facts(told),
        panel(told.copying, f"\nOV: does {told.head} say what it looks at?"),
        panel(told.self_match, f"\nQK: does {told.head} look for what it looks from?"),
        _directions(
            spectrum(says, "centred", directions=DIRECTIONS, tokens=TOKENS), words, "\nOV, centred: directions", ("from", "to")
        ),
        _directions(spectrum(seeks, directions=DIRECTIONS, tokens=TOKENS), words, "\nQK: directions", ("looking from", "at")),
        *(table for table in examples if table.rows),
        _links(told, pairs, asked),
    ]


def _facts(told: Overview) -> Table:
    rows = [
        ("head", str(told.head)),
        ("OV circuit", _size(told.ov)),
        ("QK circuit", _size(told.qk)),
    ]
    if at := told.attending:
        shares = f"{at.previous:.0%} before, {at.own:.0%} at itself, {at.first:.0%} at the first (even: {at.even:.0%})"
        rows.append(("by position", shares))
    if found := told.induction:
        says = f"score {found.score:+z.2f}: fed by {found.fed_by}, match {found.match:+z.2f}, attention {found.attention:.2f}, copying {found.copying:+z.2f}"
        rows.append(("induction", says))
    rows.append(("eigenvalues of OV", "  ".join(_complex(value) for value in told.copying.raw.eigenvalues[:EIGENVALUES])))
    rows.append(("eigenvalues of QK", "  ".join(_complex(value) for value in told.self_match.raw.eigenvalues[:EIGENVALUES])))
    return Table(title="", columns=("", ""), rows=tuple(rows))


def _size(strength: Strength) -> str:
    return f"norm {strength.norm:,.1f}, effective rank {strength.effective_rank:.1f} of {len(strength.singular_values)}"


def _complex(value: complex) -> str:
    return f"{value.real:z,.1f}" if abs(value.imag) <= 1e-9 * abs(value) else f"{value.real:z,.1f}{value.imag:+z,.1f}i"


def panel(found: Panel, title: str) -> Table:
    """All definitions side by side, with what chance gives and what each says."""
    raw, centred, votes = found.raw, found.centred, found.votes
    even = SURE / 2 / found.tokens**0.5
    rows = [
        ("Σλ/Σ|λ|, centred", f"{centred.score:+z.3f}", *_chances(centred, "score", "+z.2f"), votes["score"]),
        ("Σλ/Σ|λ|, raw", f"{raw.score:+z.3f}", *_chances(raw, "score", "+z.2f"), votes["raw score"]),
        ("positive λ, centred", f"{centred.positive:.1%}", *_chances(centred, "positive", ".1%"), votes["signs"]),
        ("trace, centred", f"{centred.trace:+z,.1f}", *_spreads(centred), votes["trace"]),
        (
            "own entry > row's mean", f"{found.diagonal_centred:.1%}",
            f"{max(0.5 - even, 0):.1%} … {min(0.5 + even, 1):.1%}", "", votes["diagonal"],
        ),
        ("own entry > 0", f"{found.diagonal:.1%}", "", "", ""),
    ]  # fmt: skip
    rows += [(*row[:3], "", row[3]) for row in _rank_rows(found)]
    columns = ("", "measured#", "chance\nover tokens#", "chance\nin the stream#", "says")
    return filled(title, columns, rows)


def _chances(side: Eigen, name: str, form: str) -> tuple[str, str]:
    """The quantiles at 5 % and 95 %, for both cuts."""
    ranges: list[Range | None] = [getattr(each, name) if each else None for each in (side.tokens, side.stream)]
    tokens, stream = (f"{each.low:{form}} … {each.high:{form}}" if each else "" for each in ranges)
    return tokens, stream


def _spreads(side: Eigen) -> tuple[str, str]:
    """The trace's standard deviation, for both cuts."""
    return f"0 ± {side.tokens.radius:,.1f}", f"0 ± {side.stream.radius:,.1f}" if side.stream else ""


def _rank_rows(found: Panel) -> list[tuple[str, str, str, str]]:
    """Where own entries stand in their rows, where that was looked at: with chance and vote."""
    rows: list[tuple[str, str, str, str]] = []
    if ranks := found.ranks:
        rows += [
            ("own entry first", f"{ranks.top_1:.1%}", f"{1 / found.tokens:.2%}", ""),
            ("own entry in first 5", f"{ranks.top_5:.1%}", f"{min(5 / found.tokens, 1):.2%}", ""),
            ("own entry in first 10", f"{ranks.top_10:.1%}", f"{min(10 / found.tokens, 1):.2%}", found.votes["most in top 10"]),
            ("mean rank of own entry", f"{ranks.mean:,.1f}", f"{(found.tokens - 1) / 2:,.1f}", found.votes["mean rank"]),
        ]
    if by := found.ranks_by_frequency:
        vote = found.votes["most in top 10, by frequency"]
        rows += [("first, by frequency", f"{by.top_1:.1%}", "", ""), ("first 5, by frequency", f"{by.top_5:.1%}", "", "")]
        rows.append(("first 10, by frequency", f"{by.top_10:.1%}", "", vote))
    return rows


def joined(found: Panel) -> Table:
    """Several heads added up."""
    return panel(found, f"\n{found.name}, added up: do they say what they look at?")


def _directions(found: Spectrum, words: Words, title: str, sides: tuple[str, str]) -> Table:
    rows = tuple((f"{one.strength:,.1f}", words.weighted(one.reads), words.weighted(one.writes)) for one in found.directions)
    return Table(title=title, columns=("strength#", *sides), rows=rows)


def _entries(entries: "Entries", words: Words, title: str, columns: tuple[str, str, str]) -> Table:
    rows = tuple((words(row), words(column), f"{value:+z.3g}") for row, column, value in entries)
    return Table(title=title, columns=columns, rows=rows)


def _links(told: Overview, pairs: "Composition", asked: "Asked") -> Table:
    """Other heads, embedding, unembedding and feed-forward layers."""
    from headwater.circuits.composition import connections

    links = connections(asked.model.weights).strongest(str(told.head), LINKS)
    rows = tuple((link.writer, link.reader, f"{link.score:.3f}", f"{link.excess:+z.3f}") for link in links)
    title = f"\ncomposition ({pairs.chance:.3f} by chance)"
    return Table(title=title, columns=("writes", "reads", "score#", "above chance#"), rows=rows)


@dataclass(frozen=True)
class Direct:
    """The direct path: its spectra, its largest entries, and whether it copies."""

    spectra: tuple[Spectrum, ...]
    panel: Panel
    largest: "Entries"

    @staticmethod
    def of(circuit: Circuit, choices: Choices) -> "Direct":
        """All that there is to say."""
        from headwater.circuits.overview import examples, judged

        kinds = ("raw", "centred") + (("weighted",) if choices.frequencies is not None else ())
        spectra = tuple(
            spectrum(circuit, kind, frequencies=choices.frequencies, directions=DIRECTIONS, tokens=TOKENS) for kind in kinds
        )
        return Direct(spectra, judged(circuit, choices), examples(circuit.centred_rows(), choices.examples))

    def plain(self, words: Words) -> dict[str, Any]:
        """For programs."""
        largest = words.exact({"token": row, "out": column, "value": value} for row, column, value in self.largest)
        spectra = [words.directions(each) for each in self.spectra]
        return {"spectra": spectra, "copying_panel": self.panel.plain(), "largest": largest}


def direct(told: Direct, words: Words) -> list[Table]:
    """The direct path in full."""
    rows = tuple(
        (each.kind, f"{each.norm:,.1f}", f"{each.effective_rank:.1f}", "  ".join(f"{s:,.1f}" for s in each.singular_values[:8]))
        for each in told.spectra
    )
    spectra = Table(title="direct path: spectra", columns=("", "norm#", "effective rank#", "singular values"), rows=rows)
    directions = [_directions(each, words, f"\ndirections, {each.kind}", ("from", "to")) for each in told.spectra]
    largest = _entries(told.largest, words, "\nthe largest entries, each row's mean taken out", ("token", "out", "logit#"))
    return [spectra, *directions, *([largest] if largest.rows else []), panel(told.panel, "\ndoes a token raise itself?")]
