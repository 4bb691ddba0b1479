"""The tables of ``headwater heads``: what heads do, in words and numbers for people."""

from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

from headwater.circuits.copying import Eigen, Panel, tally
from headwater.circuits.overview import Choices, Overview, Strength
from headwater.circuits.spectrum import Spectrum, Weighted, spectrum
from headwater.circuits.tables import Circuit, ov, qk
from headwater.train.studies.result import Table

if TYPE_CHECKING:
    from headwater.circuits.composition import Composition
    from headwater.circuits.lines import Entries
    from headwater.cli.heads import Asked
    from headwater.text.tokenizer import Tokenizer

DIRECTIONS, TOKENS, LINKS, EIGENVALUES = 5, 5, 8, 8


@dataclass(frozen=True)
class Words:
    """Ids as people read them: in quotes, since many tokens begin with a space."""

    tokenizer: "Tokenizer | None"

    def __call__(self, token: int) -> str:
        """One token."""
        return f"#{token}" if self.tokenizer is None else f"‘{self.tokenizer.display(token)}’"

    def pairs(self, entries: "Entries", arrow: str = "→") -> str:
        """Some entries in one line."""
        return "  ".join(f"{self(row)}{arrow}{self(column)} {value:+.1f}" for row, column, value in entries)

    def weighted(self, some: Weighted) -> str:
        """Some tokens with their signs."""
        return " ".join(("" if weight > 0 else "−") + self(token) for token, weight in zip(some.ids, some.weights, strict=True))

    def exact(self, rows: Iterable[dict[str, Any]]) -> list[dict[str, Any]]:
        """For programs: each token's exact text, its id beside it."""
        return [
            {name: self._text(value) if name != "value" else value for name, value in row.items()}
            | {f"{name}_id": value for name, value in row.items() if name != "value"}
            for row in rows
        ]

    def _text(self, token: int) -> str | None:
        if self.tokenizer is None:
            return None
        data = self.tokenizer.token_bytes(token)
        try:
            return data.decode()
        except UnicodeDecodeError:
            return self.tokenizer.display(token)


def all_heads(told: Sequence[Overview], words: Words) -> list[Table]:
    """One row for each head."""
    repeats = any(one.induction for one in told)
    columns = [
        "head",
        "copying#",
        "centred#",
        "verdict",
        "own 1st#",
        "top 10#",
        "self-match#",
        "norm OV#",
        "QK#",
        "rank OV#",
        "QK#",
        "looks",
    ]
    columns += ["induction#"] * repeats + ["composes with"]
    rows: list[tuple[str, ...]] = []
    for one in told:
        ranks = one.copying.ranks
        shares = (f"{ranks.top_1:.1%}", f"{ranks.top_10:.1%}") if ranks else ("", "")
        sizes = (f"{one.ov.norm:,.0f}", f"{one.qk.norm:,.0f}", f"{one.ov.effective_rank:.1f}", f"{one.qk.effective_rank:.1f}")
        induction = [f"{one.induction.score:+.2f}" if one.induction else ""] * repeats
        link = one.partners[0] if one.partners else None
        partner = f"{link.writer}→{link.reader} {link.score:.2f}" if link else ""
        rows.append(
            (
                str(one.head), f"{one.copying.raw.score:+.2f}", f"{one.copying.centred.score:+.2f}", one.copying.verdict, *shares,
                f"{one.self_match.raw.score:+.2f}", *sizes, _looks(one), *induction, partner,
            )
        )  # fmt: skip
    entries = tuple((str(one.head), words.pairs(one.says), words.pairs(one.seeks, "←")) for one in told)
    largest = Table(
        title="\nlargest entries", columns=("head", "says (source→out)", "looks for (destination←source)"), rows=entries
    )
    return [Table(title="", columns=tuple(columns), rows=tuple(rows)), largest, *_tallies(told)]


def _looks(one: Overview) -> str:
    """Where a head looks by position, if that is more than half of its attention."""
    found = one.attending
    if found is None:
        return ""
    places = {"before": found.previous, "at itself": found.own, "first": found.first}
    place, share = max(places.items(), key=lambda item: item[1])
    return f"{place} {share:.0%}" if share > 0.5 else ""


def _tallies(told: Sequence[Overview]) -> list[Table]:
    """How many heads copy, by each definition."""
    if len(told) < 2:
        return []
    rows: list[tuple[str, ...]] = []
    for definition, counts in tally([one.copying for one in told]).items():
        rows.append((definition, *(str(counts.get(word, 0)) for word in ("copying", "neither", "anti-copying"))))
    columns = ("by", "copying#", "neither#", "anti-copying#")
    return [Table(title=f"\nhow many of {len(told)} heads copy", columns=columns, rows=tuple(rows))]


def one(told: Overview, pairs: "Composition", asked: "Asked", words: Words) -> list[Table]:
    """One head in full."""
    weights, choices = asked.model.weights, asked.choices
    says = ov(weights, told.head, scales=choices.scales)
    seeks = qk(weights, told.head, offset=choices.rotary_offset(weights.config), scales=choices.scales)
    return [
        _facts(told),
        panel(told.copying, f"\nOV: does {told.head} say what it looks at?"),
        panel(told.self_match, f"\nQK: does {told.head} look for what it looks from?"),
        _directions(
            spectrum(says, "centred", directions=DIRECTIONS, tokens=TOKENS), words, "\nOV, centred: directions", ("from", "to")
        ),
        _directions(spectrum(seeks, directions=DIRECTIONS, tokens=TOKENS), words, "\nQK: directions", ("looking from", "at")),
        _entries(told.says, words, "\nOV: the largest entries, each row's mean taken out", ("source", "out", "logit#")),
        _entries(told.seeks, words, "\nQK: the largest scores", ("destination", "source", "score#")),
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
        says = f"score {found.score:+.2f}: fed by {found.fed_by}, match {found.match:+.2f}, attention {found.attention:.2f}, copying {found.copying:+.2f}"
        rows.append(("induction", says))
    rows.append(("eigenvalues of OV", "  ".join(_complex(value) for value in told.copying.raw.eigenvalues[:EIGENVALUES])))
    rows.append(("eigenvalues of QK", "  ".join(_complex(value) for value in told.self_match.raw.eigenvalues[:EIGENVALUES])))
    return Table(title="", columns=("", ""), rows=tuple(rows))


def _size(strength: Strength) -> str:
    return f"norm {strength.norm:,.1f}, effective rank {strength.effective_rank:.1f} of {len(strength.singular_values)}"


def _complex(value: complex) -> str:
    return f"{value.real:,.1f}" if abs(value.imag) <= 1e-9 * abs(value) else f"{value.real:,.1f}{value.imag:+,.1f}i"


def panel(found: Panel, title: str) -> Table:
    """All definitions side by side, with what chance gives and what each says."""
    raw, centred, votes = found.raw, found.centred, found.votes

    def by_chance(side: Eigen, name: str) -> str:
        chances = [side.tokens] + ([side.stream] if side.stream else [])
        ranges = [getattr(each, name) for each in chances]
        return "  ".join(f"{each.low:+.2f} … {each.high:+.2f}" for each in ranges)

    rows = [
        ("Σλ/Σ|λ|, centred", f"{centred.score:+.3f}", by_chance(centred, "score"), votes["score"]),
        ("Σλ/Σ|λ|, raw", f"{raw.score:+.3f}", by_chance(raw, "score"), votes["raw score"]),
        ("positive eigenvalues, centred", f"{centred.positive:.1%}", by_chance(centred, "positive"), votes["signs"]),
        ("trace, centred", f"{centred.trace:+,.1f}", f"0 ± {centred.tokens.radius:,.1f}", votes["trace"]),
        ("own entry above its row's mean", f"{found.diagonal_centred:.1%}", "50 %", votes["diagonal"]),
        ("own entry above zero", f"{found.diagonal:.1%}", "", ""),
    ]
    if found.ranks:
        ranks, middle = found.ranks, (found.tokens - 1) / 2
        rows += [
            ("own entry first", f"{ranks.top_1:.1%}", f"{1 / found.tokens:.2%}", ""),
            ("own entry among the first 5", f"{ranks.top_5:.1%}", f"{5 / found.tokens:.2%}", ""),
            ("own entry among the first 10", f"{ranks.top_10:.1%}", f"{10 / found.tokens:.2%}", votes["most in top 10"]),
            ("mean rank of the own entry", f"{ranks.mean:,.1f}", f"{middle:,.1f}", votes["mean rank"]),
        ]
    if by := found.ranks_by_frequency:
        shares = f"{by.top_1:.1%} / {by.top_5:.1%} / {by.top_10:.1%}"
        rows.append(("first / 5 / 10, by frequency", shares, "", votes["most in top 10, by frequency"]))
    return Table(title=title, columns=("", "measured#", "by chance#", "says"), rows=tuple(rows))


def joined(found: Panel) -> Table:
    """Several heads added up."""
    return panel(found, f"\n{found.name}, added up: do they say what they look at?")


def _directions(found: Spectrum, words: Words, title: str, sides: tuple[str, str]) -> Table:
    rows = tuple((f"{one.strength:,.1f}", words.weighted(one.reads), words.weighted(one.writes)) for one in found.directions)
    return Table(title=title, columns=("strength#", *sides), rows=rows)


def _entries(entries: "Entries", words: Words, title: str, columns: tuple[str, str, str]) -> Table:
    rows = tuple((words(row), words(column), f"{value:+.2f}") for row, column, value in entries)
    return Table(title=title, columns=columns, rows=rows)


def _links(told: Overview, pairs: "Composition", asked: "Asked") -> Table:
    """Other heads, embedding, unembedding and feed-forward layers."""
    from headwater.circuits.composition import connections

    links = connections(asked.model.weights).strongest(str(told.head), LINKS)
    rows = tuple((link.writer, link.reader, f"{link.score:.3f}", f"{link.excess:+.3f}") for link in links)
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

    def plain(self) -> dict[str, Any]:
        """For programs."""
        largest = [{"token": row, "out": column, "value": value} for row, column, value in self.largest]
        return {"spectra": [each.plain() for each in self.spectra], "copying_panel": self.panel.plain(), "largest": largest}


def direct(told: Direct, words: Words) -> list[Table]:
    """The direct path in full."""
    rows = tuple(
        (each.kind, f"{each.norm:,.1f}", f"{each.effective_rank:.1f}", "  ".join(f"{s:,.1f}" for s in each.singular_values[:8]))
        for each in told.spectra
    )
    spectra = Table(title="direct path: spectra", columns=("", "norm#", "effective rank#", "singular values"), rows=rows)
    directions = [_directions(each, words, f"\ndirections, {each.kind}", ("from", "to")) for each in told.spectra]
    largest = _entries(told.largest, words, "\nthe largest entries, each row's mean taken out", ("token", "out", "logit#"))
    return [spectra, *directions, largest, panel(told.panel, "\ndoes a token raise itself?")]


def remarks(told: Sequence[Overview], asked: "Asked") -> list[str]:
    """What a reader should know about the numbers."""
    given = sorted({label for each in told for label in (*each.copying.given, *each.self_match.given)})
    lines = [f"given {'; '.join(given)}"] if given else []
    if len(told) == 1:
        return lines
    for each in told:
        if differing := each.copying.disagreements:
            lines.append(f"{each.head} is {each.copying.verdict} by score and trace; {', '.join(differing)}")
    return [*lines, f"one head in full: headwater heads {asked.name} --head {told[-1].head}"]
