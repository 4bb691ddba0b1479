"""Two atlases side by side: which skip-trigrams appeared, which vanished, which changed most; what became of each head.

An atlas lists the strongest skip-trigrams of a head and of many others whole joined rows, but not all of them. What is listed in one atlas and not in
the other has not therefore been zero there. How much is known of a lift:

=======  ===================================================================================================================
listed   among the strongest: exactly
joined   among the joined rows: to float32
bounded  in neither: then it is beyond neither the last of the strongest, nor what the atlas says that joined rows leave out of
         this source's (``bound`` and ``bound_lowering``)
=======  ===================================================================================================================

Rows are sorted by how much the lift has changed *at least*.
"""

from collections.abc import Callable, Iterator, Sequence
from dataclasses import asdict, dataclass
from typing import Any, Literal, TypeAlias

import numpy as np
from numpy.typing import NDArray

from headwater.atlas.atlas import Atlas
from headwater.atlas.words import Words
from headwater.errors import InputError, did_you_mean
from headwater.files.tables import arrays, damaged_if_refused, parquet
from headwater.show.values import Panel, Table

Key: TypeAlias = tuple[str, int, int, int]
"""A head, and the ids of source, dest and out."""
IDS = ("head", "source", "dest", "out")
NO_MATTER = ("rows",)
"""Settings that change no number."""
NUMBERS = {
    "copying": ("copying",),
    "centred": ("copying_centred",),
    "self_match": ("self_match",),
    "positions": ("placement", "positions"),
    "previous": ("attending", "previous"),
    "induction": ("induction", "score"),
}
"""What is compared of a head's summary, and where it stands there."""


@dataclass(frozen=True)
class Standing:
    """What one atlas knows of a lift: it is between ``low`` and ``high``."""

    how: Literal["listed", "joined", "bounded"]
    low: float
    high: float

    def words(self, *, raises: bool) -> str:
        """For people: the number, or the bound on the side that is asked about."""
        if self.how != "bounded":
            return f"{self.low:+z.3f}"
        return f"≤ {self.high:z.3f}" if raises else f"≥ {self.low:z.3f}"

    def plain(self) -> dict[str, Any]:
        """For programs; ``lift`` is None where only bounds are known."""
        return {**asdict(self), "lift": None if self.how == "bounded" else self.low}


@dataclass(frozen=True)
class Change:
    """One skip-trigram in both atlases."""

    key: Key
    before: Standing
    after: Standing

    @property
    def least(self) -> float:
        """By how much the lift has changed at least."""
        return max(0.0, self.after.low - self.before.high, self.before.low - self.after.high)

    @property
    def rank(self) -> tuple[Any, ...]:
        """The most changed first; equal ones by the larger lift."""
        known = [abs(one.low) for one in (self.before, self.after) if one.how != "bounded"]
        return (-self.least, -max(known), self.key)

    def row(self, words: Words) -> tuple[str, ...]:
        """For people."""
        head, *ids = self.key
        source, dest, out = map(words, ids)
        raises = (self.before if self.before.how == "listed" else self.after).low > 0
        numbers = (self.before.words(raises=raises), self.after.words(raises=raises), f"{self.least:.3f}")
        return (head, f"{source} … {dest} → {out}", *numbers)

    def plain(self, words: Words) -> dict[str, Any]:
        """For programs: exact texts, ids beside them."""
        head, *ids = self.key
        named = {name: words.texts[token] for name, token in zip(IDS[1:], ids, strict=True)}
        numbered = {f"{name}_id": token for name, token in zip(IDS[1:], ids, strict=True)}
        both = {"before": self.before.plain(), "after": self.after.plain()}
        return {"head": head, **named, **numbered, **both, "least_change": self.least}


@dataclass(frozen=True, kw_only=True)
class HeadChange:
    """One head in both atlases; of the direct path there is only ``same_output``. None where an atlas does not tell."""

    head: str
    verdict: tuple[str | None, str | None]
    numbers: dict[str, tuple[float | None, float | None]]
    same_output: float
    """Share of tokens whose strongest output is the same."""
    same_source: float | None
    """Share of destinations whose highest score is of the same source."""
    in_both: int
    """Skip-trigrams that both list among the strongest."""


@dataclass(frozen=True, kw_only=True)
class Besides:
    """How two atlases differ besides their numbers."""

    same_weights: bool
    settings: tuple[str, ...]
    """Names of those that are others."""
    other_frequencies: bool
    """Whether tokens were taken to occur otherwise, which attention is reckoned by."""
    only_before: tuple[str, ...]
    """Heads."""
    only_after: tuple[str, ...]

    def words(self) -> tuple[str, ...]:
        """For people."""
        told = ["both are of the same weights"] if self.same_weights else []
        told += [f"made with other {', '.join(self.settings)}: numbers are not quite about the same"] if self.settings else []
        told += ["made with other frequencies of tokens, which attention is reckoned by"] if self.other_frequencies else []
        for word, only in (("before", self.only_before), ("after", self.only_after)):
            told += [f"only {word}: {', '.join(only)}"] if only else []
        return tuple(told)


@dataclass(frozen=True, kw_only=True)
class Difference:
    """What is different in ``after``."""

    before: str
    after: str
    words: Words
    besides: "Besides"
    """What differs besides the weights, and which heads are in one atlas only."""
    counts: dict[str, int]
    """How many there are of each kind, of which these are the first."""
    appeared: tuple[Change, ...]
    """Among the strongest in ``after`` and not in ``before``."""
    vanished: tuple[Change, ...]
    """Among the strongest in ``before`` and not in ``after``."""
    changed: tuple[Change, ...]
    """Among the strongest in both."""
    heads: tuple[HeadChange, ...]

    @property
    def remarks(self) -> tuple[str, ...]:
        """The same in words."""
        return self.besides.words()

    @property
    def _kinds(self) -> dict[str, tuple[Change, ...]]:
        return {"appeared": self.appeared, "vanished": self.vanished, "changed": self.changed}

    def tables(self) -> tuple[Table, ...]:
        """Heads first, then skip-trigrams by how much they changed at least."""
        facts = (("before", self.before), ("after", self.after), *(("note", remark) for remark in self.remarks))
        columns = ("head", "skip-trigram", "before#", "after#", "changed by#")
        found = [
            Table(
                title=f"\n{word}: {len(rows):,} of {self.counts[word]:,}",
                columns=columns,
                rows=tuple(row.row(self.words) for row in rows),
            )
            for word, rows in self._kinds.items()
            if rows
        ]
        return (Table(title="", columns=("", ""), rows=facts), self._about_heads(), *found)

    def _about_heads(self) -> Table:
        kept = [name for name in NUMBERS if any(value is not None for head in self.heads for value in head.numbers[name])]
        columns = ("head", "verdict", *(f"{name}#" for name in kept), "same first out#", "same first source#", "in both#")
        rows = tuple(
            (
                one.head,
                _arrow(*(word or "" for word in one.verdict)),
                *(_arrow(*("" if value is None else f"{value:+z.2f}" for value in one.numbers[name])) for name in kept),
                f"{one.same_output:.0%}",
                "" if one.same_source is None else f"{one.same_source:.0%}",
                "" if one.same_source is None else f"{one.in_both:,}",
            )
            for one in self.heads
        )
        return Table(title="\nheads, before → after", columns=columns, rows=rows)

    def plain(self) -> dict[str, Any]:
        """For programs."""
        rows = {word: [row.plain(self.words) for row in rows] for word, rows in self._kinds.items()}
        return {
            "before": self.before,
            "after": self.after,
            "remarks": list(self.remarks),
            "heads": [asdict(one) for one in self.heads],
            "counts": self.counts,
            **rows,
        }

    def curves(self) -> tuple[Panel, ...]:
        """Nothing to draw: two moments are no curve."""
        return ()


def diff(
    before: Atlas, after: Atlas, head: str | None = None, *, limit: int = 20, listen: Callable[[], None] = lambda: None
) -> Difference:
    """Compare two atlases over one vocabulary, of one head or of all that both have; ``limit`` rows of each kind.

    ``listen`` is called between two steps, and may end it by an error.
    """
    head = None if head is None else head.strip().upper()
    _check(before, after, head)
    common = [name for name in before.heads if name in after.heads and head in (None, name)]
    sides = _Side(before, common), _Side(after, common)
    ours, theirs = sides[0].listed.keys(), sides[1].listed.keys()
    keys = {"appeared": theirs - ours, "vanished": ours - theirs, "changed": ours & theirs}
    kinds: dict[str, list[Change]] = {}
    for word, some in keys.items():
        listen()
        kinds[word] = _changes(sorted(some), *sides)
    return Difference(
        before=str(before.folder),
        after=str(after.folder),
        words=before.words,
        besides=_besides(before, after),
        counts={word: len(rows) for word, rows in kinds.items()},
        heads=(*_head_changes(before, after, common, keys["changed"], listen), *_direct(before, after, head)),
        **{word: tuple(rows[:limit]) for word, rows in kinds.items()},
    )


def _check(before: Atlas, after: Atlas, head: str | None) -> None:
    if before.words.texts != after.words.texts:
        given = f"{before.folder} of {len(before.words):,} tokens and {after.folder} of {len(after.words):,}"
        different = [n for n, pair in enumerate(zip(before.words.texts, after.words.texts, strict=False)) if pair[0] != pair[1]]
        told = f"{given}: #{different[0]} is not the same in both" if different else given
        raise InputError(told, "atlases over one vocabulary", "compare models that share a tokenizer")
    for atlas in (before, after):
        if head is not None and head not in atlas.heads:
            raise InputError(f"{head!r:.40} in {atlas.folder}", "a head that both have", did_you_mean(head, atlas.heads))


def _besides(before: Atlas, after: Atlas) -> Besides:
    ours, theirs = before.manifest, after.manifest
    names = sorted({*ours.settings, *theirs.settings} - {*NO_MATTER})
    return Besides(
        same_weights=ours.model.get("sha256") == theirs.model.get("sha256"),
        settings=tuple(name for name in names if ours.settings.get(name) != theirs.settings.get(name)),
        other_frequencies=not np.array_equal(before.words.share, after.words.share),
        only_before=tuple(name for name in before.heads if name not in after.heads),
        only_after=tuple(name for name in after.heads if name not in before.heads),
    )


class _Side:
    """What one atlas knows about lifts of some heads."""

    def __init__(self, atlas: Atlas, heads: Sequence[str]) -> None:
        self._atlas = atlas
        self._numbers = {name: atlas.heads.index(name) for name in heads}
        self.listed = self._lifts("strongest") if heads else {}
        self._last = {(name, sign): self._weakest(name, sign) for name in heads for sign in (1, -1)}

    def standings(self, keys: Sequence[Key]) -> list[Standing]:
        """What is known of each."""
        missing = [key for key in keys if key not in self.listed]
        joined = self._lifts("trigrams/by_source", missing) if missing else {}
        bounds = {name: self._atlas.lines(name, ("bound", "bound_lowering")) for name in {key[0] for key in missing}}
        found: list[Standing] = []
        for key in keys:
            lift = self.listed.get(key, joined.get(key))
            if lift is not None:
                found.append(Standing("listed" if key in self.listed else "joined", lift, lift))
                continue
            high, low = (
                min(self._last[key[0], sign], float(bounds[key[0]][word][key[1]]))
                for sign, word in ((1, "bound"), (-1, "bound_lowering"))
            )
            found.append(Standing("bounded", -low, high))
        return found

    def _lifts(self, table: str, keys: Sequence[Key] = ()) -> dict[Key, float]:
        """The rows of a table, or those with one of these keys."""
        names = {number: name for name, number in self._numbers.items()}
        files = parquet(*(self._atlas.folder / part.path for part in self._atlas.manifest.parts(table)))
        query = f"FROM {files} SELECT {', '.join(IDS)}, lift WHERE head IN ({', '.join(map(str, names))})"
        with self._atlas.cursor() as cursor, damaged_if_refused(self._atlas.folder):
            if keys:
                columns = zip(*((self._numbers[key[0]], *key[1:]) for key in keys), strict=True)
                wanted = {name: np.array(column, np.uint32) for name, column in zip(IDS, columns, strict=True)}
                cursor.register("wanted", wanted)
                query = f"FROM {files} AS row SEMI JOIN wanted USING ({', '.join(IDS)}) SELECT {', '.join(IDS)}, lift"
            rows = arrays(cursor.execute(query))
        found = zip(*(rows[name].tolist() for name in (*IDS, "lift")), strict=True)
        return {(names[head], source, dest, out): lift for head, source, dest, out, lift in found}

    def _weakest(self, name: str, sign: int) -> float:
        """What no unlisted skip-trigram of this head and sign is beyond: the last that is listed, or 0 where all are."""
        sizes = [sign * lift for key, lift in self.listed.items() if key[0] == name and sign * lift > 0]
        return min(sizes) if len(sizes) >= self._atlas.manifest.settings["triples"] else 0.0


def _changes(keys: Sequence[Key], before: _Side, after: _Side) -> list[Change]:
    """By how much they changed at least, most first."""
    found = [Change(*row) for row in zip(keys, before.standings(keys), after.standings(keys), strict=True)]
    return sorted(found, key=lambda change: change.rank)


def _head_changes(
    before: Atlas, after: Atlas, heads: Sequence[str], both: set[Key], listen: Callable[[], None]
) -> Iterator[HeadChange]:
    told = [{one["head"]: one for one in atlas.summary["heads"]} for atlas in (before, after)]
    for name in heads:
        listen()
        yield HeadChange(
            head=name,
            verdict=(told[0][name].get("verdict"), told[1][name].get("verdict")),
            numbers={word: (_number(told[0][name], *way), _number(told[1][name], *way)) for word, way in NUMBERS.items()},
            same_output=_same(before, after, f"says/{name}", ("source", "out")),
            same_source=_same(before, after, f"seeks/{name}", ("dest", "source")),
            in_both=sum(key[0] == name for key in both),
        )


def _direct(before: Atlas, after: Atlas, head: str | None) -> tuple[HeadChange, ...]:
    if head is not None:
        return ()
    nothing: dict[str, tuple[float | None, float | None]] = dict.fromkeys(NUMBERS, (None, None))
    same = _same(before, after, "bigrams", ("token", "out"))
    return (HeadChange(head="direct", verdict=(None, None), numbers=nothing, same_output=same, same_source=None, in_both=0),)


def _number(summary: dict[str, Any], *way: str) -> float | None:
    value: Any = summary
    for step in way:
        value = None if value is None else value.get(step)
    return value


def _same(before: Atlas, after: Atlas, table: str, columns: tuple[str, str]) -> float:
    """The share of lines whose first entry is the same."""
    line, other = columns
    first: list[NDArray[Any]] = []
    for atlas in (before, after):
        with damaged_if_refused(atlas.folder):
            first.append(atlas.relation(table).filter("place = 1").order(line).project(other).fetchnumpy()[other])
    return float(np.equal(*first).mean())


def _arrow(before: str, after: str) -> str:
    return after if before == after else f"{before or '–'} → {after or '–'}"
