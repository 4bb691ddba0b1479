"""A training, snapshot by snapshot: what each head copies, where it looks, what it says most, and when it became what it is.

What a head *is* at a snapshot, from its weights alone; the first of these that holds:

==============  ====================================================================================================
induction       its induction score (``headwater.circuits.behaviour``) is above one half
previous-token  by position alone it pays more than half of its attention to the position before
copying         the verdict of the copying panel (``headwater.circuits.copying``), and so for anti-copying
neither         none of these
==============  ====================================================================================================

A head *became* this at the first snapshot from which on that stays the same until the end.
"""

from collections.abc import Callable, Iterator, Sequence
from concurrent.futures import ThreadPoolExecutor
from dataclasses import asdict, dataclass, replace
from functools import cached_property
from itertools import groupby
from pathlib import Path
from typing import Any

import torch

from headwater.atlas.against_text import windows
from headwater.atlas.leading import leading
from headwater.atlas.settings import NormScale, Settings
from headwater.atlas.subject import Subject
from headwater.circuits.bases import widened
from headwater.circuits.behaviour import attending, induction
from headwater.circuits.chance import DRAWS
from headwater.circuits.composition import Link, composition
from headwater.circuits.copying import Known, Panel, copying
from headwater.circuits.cores import ov_cores
from headwater.circuits.head import Head
from headwater.circuits.norms import mean_scales
from headwater.circuits.placement import placements
from headwater.circuits.tables import ov
from headwater.errors import InputError
from headwater.model.config import NoNorm, PostNorm
from headwater.model.sources import load_weights, look
from headwater.model.weights import Weights
from headwater.show import values
from headwater.show.values import Line, Progress, Table, silent
from headwater.text.corpus import Corpus, open_corpus
from headwater.text.spoken import Spoken
from headwater.text.tokenizer import read_tokenizer
from headwater.train.folder import RunFolder

WINDOWS, LONGEST = 8, 256
"""Windows of text, and their tokens at most, that norms' mean scales are from."""
MOST = 0.5
"""What an induction score or attention to the position before must be above."""


@dataclass(frozen=True)
class Said:
    """A skip-trigram by its ids, and its lift."""

    source: int
    dest: int
    out: int
    lift: float

    def words(self, spoken: Spoken) -> str:
        """For people."""
        return f"{spoken(self.source)} … {spoken(self.dest)} → {spoken(self.out)} {self.lift:+z.3f}"

    def plain(self, spoken: Spoken) -> dict[str, Any]:
        """For programs: exact texts, ids beside them."""
        ids = {name: token for name, token in asdict(self).items() if name != "lift"}
        return {
            **{name: spoken.text(token) for name, token in ids.items()},
            **{f"{name}_id": token for name, token in ids.items()},
            "lift": self.lift,
        }


@dataclass(frozen=True, kw_only=True)
class Moment:
    """One head after some updates. None: nothing there to be told."""

    step: int
    head: Head
    copying: float
    """``Σλ / Σ|λ|`` of its OV circuit as it is, the paper's number."""
    centred: float
    """The same with each row's mean taken out."""
    verdict: str
    previous: float | None
    """Attention to the position before, by position alone."""
    positions: float
    """Share of the variance of its scores that positions explain."""
    induction: float | None
    partner: Link | None
    """Its strongest composition with another head."""
    says: tuple[Said, ...]
    """Its strongest skip-trigrams, of each source only the first."""

    @property
    def role(self) -> str:
        """What it is."""
        if (self.induction or 0.0) > MOST:
            return "induction"
        return "previous-token" if (self.previous or 0.0) > MOST else self.verdict

    def plain(self, spoken: Spoken) -> dict[str, Any]:
        """For programs."""
        named = {"head": str(self.head), "role": self.role, "partner": self.partner and self.partner.plain()}
        return {**asdict(self), **named, "says": [one.plain(spoken) for one in self.says]}


@dataclass(frozen=True)
class Became:
    """What a head is in the end, and since when; before that it was ``before``, where it was anything else."""

    head: Head
    role: str
    since: int
    before: str | None

    @staticmethod
    def of(moments: Sequence[Moment]) -> "Became":
        """From all moments of one head, in their order."""
        roles = [(role, list(some)) for role, some in groupby(moments, key=lambda moment: moment.role)]
        role, last = roles[-1]
        return Became(last[0].head, role, last[0].step, roles[-2][0] if len(roles) > 1 else None)


@dataclass(frozen=True, kw_only=True)
class Timeline:
    """Every head at every snapshot that was looked at."""

    run: str
    spoken: Spoken
    given: tuple[str, ...]
    """What numbers take for granted beyond the weights."""
    chance: float
    """Composition of heads that have nothing to do with each other."""
    moments: tuple[Moment, ...]
    """By steps, then by heads."""

    @cached_property
    def by_head(self) -> dict[Head, list[Moment]]:
        """The moments of each head."""
        found: dict[Head, list[Moment]] = {}
        for moment in self.moments:
            found.setdefault(moment.head, []).append(moment)
        return found

    @property
    def became(self) -> tuple[Became, ...]:
        """When each head became what it is."""
        return tuple(map(Became.of, self.by_head.values()))

    def tables(self) -> tuple[Table, ...]:
        """What each head became, its numbers along the training, and how its strongest skip-trigram changed."""
        numbers = [self._along(word, title, number) for word, (title, number) in CURVES.items()]
        return (self._ends(), *(table for table in numbers if table.rows), *self._said())

    def _ends(self) -> Table:
        """Without the columns that nothing stands in."""
        columns = (
            "head",
            "is",
            "since step#",
            "was",
            "copying#",
            "centred#",
            "previous#",
            "positions#",
            "induction#",
            "composes with",
        )
        rows: list[tuple[str, ...]] = []
        for one in self.became:
            last = self.by_head[one.head][-1]
            partner = f"{last.partner.writer}→{last.partner.reader} {last.partner.score:.3f}" if last.partner else ""
            scores = (last.copying, last.centred, last.previous, last.positions, last.induction)
            rows.append((str(one.head), one.role, f"{one.since:,}", one.before or "", *map(_share, scores), partner))
        there = [number for number in range(len(columns)) if any(row[number] for row in rows)]
        return Table(
            title=f"what each head became (composition by chance: {self.chance:.3f})",
            columns=tuple(columns[number] for number in there),
            rows=tuple(tuple(row[number] for number in there) for row in rows),
        )

    def _along(self, word: str, title: str, number: Callable[[Moment], float | None]) -> Table:
        """One row for each head that has this number, one column for each snapshot."""
        rows = [
            (str(head), *(_share(number(moment)) for moment in moments))
            for head, moments in self.by_head.items()
            if any(number(moment) is not None for moment in moments)
        ]
        steps = dict.fromkeys(moment.step for moment in self.moments)
        return Table(title=f"\n{word}: {title}", columns=("head", *(f"{step:,}#" for step in steps)), rows=tuple(rows))

    def _said(self) -> tuple[Table, ...]:
        """Each head's strongest skip-trigrams wherever the first of them is new."""
        rows: list[tuple[str, ...]] = []
        for head, moments in self.by_head.items():
            told = [moment for moment in moments if moment.says]
            for _, some in groupby(told, key=lambda moment: replace(moment.says[0], lift=0.0)):
                first = next(some)
                words = "   ".join(said.words(self.spoken) for said in first.says)
                rows.append((str(head), f"{first.step:,}", words))
        title = "\nstrongest skip-trigrams by lift, of each source only the first, where the first of them is new"
        return (Table(title=title, columns=("head", "step#", "skip-trigrams"), rows=tuple(rows)),) if rows else ()

    def plain(self) -> dict[str, Any]:
        """For programs."""
        became = [{**asdict(one), "head": str(one.head)} for one in self.became]
        facts = {"run": self.run, "given": list(self.given), "draws": DRAWS.count, "composition_by_chance": self.chance}
        return {**facts, "became": became, "moments": [moment.plain(self.spoken) for moment in self.moments]}

    def curves(self) -> tuple[values.Panel, ...]:
        """One panel for each number, one line for each head."""
        panels = [self._panel(title, word, number) for word, (title, number) in CURVES.items()]
        return tuple(panel for panel in panels if any(line.x for line in panel.lines))

    def _panel(self, title: str, word: str, number: Callable[[Moment], float | None]) -> values.Panel:
        """Heads without this number have a line without points: so a head has the same colour in every panel."""
        lines: list[Line] = []
        for head, moments in self.by_head.items():
            points = [(float(max(1, moment.step)), value) for moment in moments if (value := number(moment)) is not None]
            lines.append(Line(label=str(head), x=tuple(x for x, _ in points), y=tuple(y for _, y in points)))
        return values.Panel(title=title, x="step", y=word, lines=tuple(lines), x_scale="log")


CURVES: dict[str, tuple[str, Callable[[Moment], float | None]]] = {
    "copying": ("Σλ / Σ|λ| of the OV circuit", lambda moment: moment.copying),
    "centred copying": ("Σλ / Σ|λ|, each row's mean taken out", lambda moment: moment.centred),
    "previous": ("attention to the position before", lambda moment: moment.previous),
    "positions": ("share of the scores' variance by position", lambda moment: moment.positions),
    "induction": ("induction score from weights", lambda moment: moment.induction),
    "composition": ("strongest composition", lambda moment: moment.partner and moment.partner.score),
    "lift": ("lift of the strongest skip-trigram", lambda moment: moment.says[0].lift if moment.says else None),
}
"""Numbers that are followed: what they are called, what they are, and how to get them."""


def timeline(run: Path, *, every: int = 1, top: int = 3, progress: Progress = silent) -> Timeline:
    """A training run's snapshots: each ``every``-th, counted from the last; ``top`` skip-trigrams of each head, 0 for none."""
    folder = RunFolder(run)
    places = folder.snapshots()[::-1][::every][::-1]
    if not places:
        raise InputError(
            f"{run} has no snapshots", "the folder of a training run", "headwater train RECIPE --out DIR makes one"
        )
    if not look(places[-1][1]).config.layers:
        raise InputError(f"the heads of {run}, a model without layers", "a model with heads", "see headwater study bigram")
    corpus = open_corpus(folder.corpus) if folder.corpus.is_dir() else None
    snapshots: list[Snapshot] = []
    for step, snapshot in _each_by_one_thread(places, lambda step, place: snapshot_at(step, place, corpus, top)):
        snapshots.append(snapshot)
        progress(f"step {step:,}", len(snapshots) / len(places))
    return timeline_of(str(run), spoken_at(places[-1][1]), snapshots)


def timeline_of(run: str, spoken: Spoken, snapshots: "Sequence[Snapshot]") -> Timeline:
    """Snapshots that have been looked at, in the order of their steps and at least one, as a timeline."""
    return Timeline(
        run=run,
        spoken=spoken,
        given=tuple(dict.fromkeys(label for snapshot in snapshots for label in snapshot.given)),
        chance=snapshots[-1].chance,
        moments=tuple(moment for snapshot in snapshots for moment in snapshot.moments),
    )


def spoken_at(place: Path) -> Spoken:
    """The words of the model in a folder."""
    words = look(place).words
    return Spoken(read_tokenizer(words) if words else None)


def snapshot_at(step: int, place: Path, corpus: Corpus | None, top: int) -> "Snapshot":
    """Every head of the model in a folder, which was left there after some updates; ``top`` skip-trigrams of each."""
    return Snapshot.of(step, _subject(place, corpus), top)


def said_at(place: Path, corpus: Corpus | None, head: Head, top: int) -> tuple[Said, ...]:
    """The strongest skip-trigrams of one head of the model in a folder, as a timeline tells them."""
    return _said(_subject(place, corpus), head, top)


def _each_by_one_thread(
    places: Sequence[tuple[int, Path]], work: "Callable[[int, Path], Snapshot]"
) -> "Iterator[tuple[int, Snapshot]]":
    """As many snapshots at a time as torch has threads, each with one of them: the matrices are too small to share."""
    threads = torch.get_num_threads()
    try:
        with ThreadPoolExecutor(threads, initializer=torch.set_num_threads, initargs=(1,)) as pool:
            tasks = [pool.submit(work, *place) for place in places]
            try:
                yield from ((step, task.result()) for (step, _), task in zip(places, tasks, strict=True))
            finally:
                pool.shutdown(cancel_futures=True)
    finally:
        torch.set_num_threads(threads)


def _subject(place: Path, corpus: Corpus | None) -> Subject:
    """A snapshot as its atlas would look at it, with its own text's frequencies and scales."""
    weights = widened(load_weights(look(place)))
    vocab, context = weights.config.vocab, weights.config.context
    counts = torch.zeros(vocab, dtype=torch.float64)
    settings = Settings(others=max(1, context - 1))
    if corpus is None:
        return Subject(weights, torch.full_like(counts, 1 / vocab), settings)
    counts[: len(corpus.unigrams)] = torch.tensor(corpus.unigrams, dtype=torch.float64)
    text = windows(corpus.train, min(context, LONGEST), WINDOWS)
    if len(text) and not isinstance(weights.config.norm, NoNorm):
        measured = mean_scales(weights, torch.from_numpy(text)).values
        scales = tuple(NormScale(site=site, value=value) for site, value in measured.items())
        settings = replace(settings, norms="the corpus' mean scale", scales=scales)
    return Subject(weights, counts / counts.sum(), settings)


@dataclass(frozen=True)
class Snapshot:
    """All heads after some updates."""

    moments: tuple[Moment, ...]
    chance: float
    given: tuple[str, ...]

    @staticmethod
    def of(step: int, subject: Subject, top: int) -> "Snapshot":
        """Every head of a model."""
        weights, scales = subject.weights, subject.settings.scaling
        looks = {one.head: one.previous for one in attending(weights)} if weights.config.context > 1 else {}
        repeats, pairs, cores = _induction(weights), composition(weights), ov_cores(weights, scales=scales)
        moments: list[Moment] = []
        for one in placements(weights, frequencies=subject.shares, scales=scales):
            panel = _panel(subject, one.head, Known(cores[one.head], leaves_out_ranks=True))
            moments.append(
                Moment(
                    step=step,
                    head=one.head,
                    copying=panel.raw.score,
                    centred=panel.centred.score,
                    verdict=panel.verdict,
                    previous=looks.get(one.head),
                    positions=one.positions,
                    induction=repeats.get(one.head),
                    partner=next(iter(pairs.strongest(str(one.head), 1)), None),
                    says=_said(subject, one.head, top) if top else (),
                )
            )
        # The scales themselves differ from snapshot to snapshot: only where they are from is said.
        given = (f"norms at {subject.settings.norms}",) if subject.settings.scales else ()
        return Snapshot(tuple(moments), pairs.chance, given)


def _induction(weights: Weights) -> dict[Head, float]:
    """The scores, of models whose weights tell."""
    if weights.config.layers < 2 or isinstance(weights.config.norm, PostNorm):
        return {}
    return {one.head: one.score for one in induction(weights)}


def _panel(subject: Subject, head: Head, known: Known) -> Panel:
    # As many random heads as everywhere: few would be faster, and a head near the edge would go by two names.
    return copying(ov(subject.weights, head, scales=subject.settings.scaling), known=known, draws=DRAWS)


def _said(subject: Subject, head: Head, top: int) -> tuple[Said, ...]:
    found = leading(subject, head, top)
    rows = zip(*(getattr(found, name).tolist() for name in ("source", "dest", "out", "lift")), strict=True)
    return tuple(Said(*row) for row in rows)


def _share(number: float | None) -> str:
    return "" if number is None else f"{number:z.2f}"
