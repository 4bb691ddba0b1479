"""``headwater ablate``: what becomes of a prediction when parts of the model say nothing."""

from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any, Literal

from cyclopts import Parameter

from headwater.cli.terminal import Flag, Whole, note, say, show_json, show_table, use_cores, watched
from headwater.cli.texts import find_token, read_run
from headwater.errors import InputError

if TYPE_CHECKING:
    from headwater.model.record import Record
    from headwater.model.taps import Tap
    from headwater.show.values import Grid, Table
    from headwater.trace.effects import Effect, LossEffect
    from headwater.trace.run import Run

BESIDE = "feed-forward"
"""The column of feed-forward layers, beside those of heads."""


def ablate(  # noqa: PLR0913  (each is one choice a person makes on the command line)
    model: Path,
    text: Annotated[str | None, Parameter(allow_leading_hyphen=True)] = None,
    /,
    *places: str,
    ids: Annotated[str | None, Parameter(help="Token ids instead of a text: 12,7,33.")] = None,
    how: Literal["zero", "mean", "resample"] = "zero",
    reference: str | None = None,
    seed: Whole = 0,
    at: Annotated[str | None, Parameter(allow_leading_hyphen=True)] = None,
    position: Whole = -1,
    token: str | None = None,
    against: str | None = None,
    loss: Flag = False,
    top: Whole = 5,
    json: Flag = False,
    html: Path | None = None,
    svg: Path | None = None,
) -> None:
    """Take parts of a model away and see what becomes of a prediction, with all else frozen and in the model as it is.

    Without places, every head and feed-forward layer is taken away by itself. "part" is what it comes to in the logit, by a sweep upstream, without any
    ablation; "frozen" is the change of the logit while patterns, scales of norms and gates stay as they were measured, which is minus the part;
    "unfrozen" is the change in the model itself, where everything downstream answers.

    Parameters
    ----------
    model
        A model's file or folder, in any format that Headwater reads; a run's folder; the name of one of ours; or, without a text, a file that explain --save wrote.
    text
        What the model reads; - reads it from standard input.
    places
        What to take away, all of it together: L1H4 (a head), L0.feed_forward, L0N17 (a neuron), L1H4.pattern, embed, or any other site.
    how
        What to put there: zero, the mean over positions, or what stood at another position, drawn by the seed.
    reference
        Another text that means and other values are taken from; without it they are the text's own.
    seed
        Of the positions that are drawn.
    at
        The positions to take it away at, such as 3 or 0,4-6,-1; everywhere unless told otherwise.
    position
        The position after which the prediction is made, counted from 0, or from the end with -1, -2 …
    token
        The token whose logit to tell, as text or as #id; the likeliest unless told otherwise.
    against
        Another token: tell how far the first one's logit is above its.
    loss
        Also what it does to the mean loss over the whole text.
    top
        How many predictions to show before and after, where places are given.
    json
        Print one JSON document instead of tables.
    html
        Write the tables and pictures to one page.
    svg
        Draw the effects of all heads and layers to a file: .svg, .png or .pdf.
    """
    from headwater.api import Model
    from headwater.cli.pictures import check_pictures, write_pictures

    check_pictures(html, svg)
    if top < 0:
        raise InputError(f"--top {top}", "a number from 0 on", "ask for none or for some")
    if ids is not None and text is not None:
        text, places = None, (text, *places)
    if svg is not None and places:
        raise InputError("--svg with places", "a picture of all heads and layers", "leave the places out, or write --html")
    if reference is not None and how == "zero":
        raise InputError("--reference without --how", "something to take from it", "add --how mean or --how resample")
    use_cores()
    run = read_run(model, text, ids)
    asked = Asked.of(str(model), run, position, token, against)
    how_ = How(how, None if reference is None else Model(run.weights, run.tokenizer).record(reference), seed, at)
    told = _told(asked, how_, places, loss=loss, top=top)
    if json:
        show_json(told.plain())
    else:
        told.show()
    if html is not None or svg is not None:
        sections = [*told.tables(), *([] if places else told.grids())]
        write_pictures(sections, f"{asked.name}, ablated", html=html, svg=svg, remarks=told.remarks())


@dataclass(frozen=True)
class Asked:
    """A prediction that is asked about."""

    name: str
    run: "Run"
    position: int
    token: int
    against: int | None

    @staticmethod
    def of(name: str, run: "Run", position: int, token: str | None, against: str | None) -> "Asked":
        """What a person wrote; without a token, the likeliest is meant."""
        from headwater.trace.question import within

        position = within(position, run.tokens.shape[1], "position")
        chosen = find_token(run, token)
        likeliest = int(run.logits_at(position)[0].argmax())
        return Asked(name, run, position, likeliest if chosen is None else chosen, find_token(run, against))

    def __str__(self) -> str:
        words = self.run.words
        above = "" if self.against is None else f" above {words(self.against)}"
        return f"logit of {words(self.token)}{above} after {words(int(self.run.tokens[0, self.position]))}@{self.position}"

    def plain(self) -> dict[str, Any]:
        """For programs."""
        ids, words = [int(token) for token in self.run.tokens[0]], self.run.words
        return {
            "model": self.name,
            "ids": ids,
            "tokens": [words.text(token) for token in ids],
            "position": self.position,
            "token": words.text(self.token),
            "id": self.token,
            "against": None if self.against is None else words.text(self.against),
            "against_id": self.against,
        }


@dataclass(frozen=True)
class How:
    """What to put in the places, and where."""

    how: Literal["zero", "mean", "resample"]
    reference: "Record | None"
    seed: int
    at: str | None

    def __str__(self) -> str:
        where = "" if self.at is None else f" at {self.at}"
        whose = "at other positions" if self.reference is None else "in another text"
        what = {"zero": "0", "mean": f"the mean over {'the' if self.reference is None else 'another'} text"}
        return f"set to {what.get(self.how, f'what was there {whose}')}{where}"

    def edits(self, run: "Record", places: Sequence[str]) -> "list[Tap]":
        """All places together; where none is given, each head and feed-forward layer by itself."""
        from headwater.model.taps import Chain
        from headwater.trace.edits import ablate as edit
        from headwater.trace.edits import every_ablation
        from headwater.trace.places import find_place, read_positions

        at = None if self.at is None else read_positions(self.at)
        if not places:
            return list(every_ablation(run, self.how, at=at, reference=self.reference, seed=self.seed))
        found = [find_place(name, run.config) for name in places]
        if at is not None and any(place.positions is not None for place in found):
            raise InputError(f"--at {self.at} with {' '.join(places)}", "positions in one way", "leave --at or @ out")
        here = [place if at is None else place.at(at) for place in found]
        edits = [edit(place, run, self.how, reference=self.reference, seed=self.seed) for place in here]
        return [edits[0] if len(edits) == 1 else Chain(*edits)]


def _told(asked: Asked, how: How, places: Sequence[str], *, loss: bool, top: int) -> "Told":
    from headwater.trace.effects import effects, loss_effects

    edits = how.edits(asked.run, places)
    if not edits:
        raise InputError(f"{asked.name}, which has no layers", "a head or a layer to take away", "name a place, such as embed")
    name = " ".join(places)
    with watched("ablating") as tell:
        found = effects(asked.run, asked.position, asked.token, asked.against, edits=edits, progress=tell)
        losses = loss_effects(asked.run, edits, progress=tell) if loss else []
    return Told(asked, how, name, found, losses, _predictions(asked, edits[0], top) if places else {})


def _predictions(asked: Asked, edit: "Tap", count: int) -> dict[str, list[tuple[int, float]]]:
    """The likeliest tokens before, after it in the frozen model, and after it in the model itself."""
    from headwater.trace.effects import edited
    from headwater.trace.run import Run

    run = asked.run
    runs = {"before": run, "frozen": edited(run, edit, frozen=True), "unfrozen": edited(run, edit)}
    return {name: Run.of(one).top(asked.position, count) for name, one in runs.items()}


@dataclass(frozen=True)
class Told:
    """What was found."""

    asked: Asked
    how: How
    places: str
    """As they were given; empty where everything was taken away one by one."""
    effects: "list[Effect]"
    losses: "list[LossEffect]"
    predictions: dict[str, list[tuple[int, float]]]

    def show(self) -> None:
        """On stdout."""
        for number, table in enumerate(self.tables()):
            show_table(table.columns, table.rows, title="\n" * bool(number) + table.title)
        for number, line in enumerate(self.remarks()):
            say("\n" * (not number) + line)
        if not self.places:
            largest = max(self.effects, key=lambda one: abs(one.change))
            note(f"one of them, with predictions: headwater ablate {self.asked.name} … {largest.name}")

    def tables(self) -> "list[Table]":
        """For people."""
        from headwater.show.values import Table

        first = self.effects[0].before
        title = f"{self.asked}: {first.answer:+.4f}, p {first.probability:.4f}; {self.how}"
        columns = ("place", "part#", "frozen#", "unfrozen#", "Δp#", "Δ log p#", "KL frozen#", "KL#")
        ordered = sorted(self.effects, key=lambda one: -abs(one.change))
        found = [Table(title=title, columns=columns, rows=tuple(self._row(one) for one in ordered))]
        if self.losses:
            title = f"mean loss over the text: {self.losses[0].before:.4f} nats a token"
            worst = sorted(self.losses, key=lambda one: -one.change)
            rows = tuple((self.places or one.name, f"{one.after:.4f}", f"{one.change:+z.4f}") for one in worst)
            found.append(Table(title=title, columns=("place", "loss#", "change#"), rows=rows))
        if any(self.predictions.values()):
            words = self.asked.run.words
            sides = [[f"{words(token)} {share:.1%}" for token, share in side] for side in self.predictions.values()]
            rows = tuple(zip(*sides, strict=True))
            found.append(Table(title="what comes next", columns=tuple(self.predictions), rows=rows))
        return found

    def _row(self, one: "Effect") -> tuple[str, ...]:
        after = one.unfrozen
        part = "" if one.part is None else f"{one.part:+z.4f}"
        return (
            *(self.places or one.name, part, f"{one.frozen_change:+z.4f}", f"{one.change:+z.4f}"),
            f"{after.probability - one.before.probability:+z.4f}",
            f"{after.log_probability - one.before.log_probability:+z.4f}",
            *(f"{one.frozen.divergence:.4f}", f"{after.divergence:.4f}"),
        )

    def remarks(self) -> list[str]:
        """What is to be said about all of it."""
        from headwater.trace.effects import certificate

        lines = ["part, frozen, unfrozen: of the logit; Δp, Δ log p, KL (from before to after, in nats): of the model itself"]
        worst = certificate(self.effects)
        if worst is not None:
            lines.append(f"certificate: with all else frozen, each took its part away to within {worst:.1e}")
        return lines

    def grids(self) -> "list[Grid]":
        """The changes of the frozen and the real model, for layers and heads, in the same colours."""
        changes = {
            "frozen: change of the logit": {one.name: one.frozen_change for one in self.effects},
            "unfrozen: change of the logit": {one.name: one.change for one in self.effects},
        }
        reach = max((abs(value) for some in changes.values() for value in some.values()), default=0.0) or 1.0
        return [self._grid(title, some, reach) for title, some in changes.items()]

    def _grid(self, title: str, changes: dict[str, float], reach: float) -> "Grid":
        from headwater.show.values import Grid

        config, at = self.asked.run.config, "" if self.how.at is None else "@" + self.effects[0].name.partition("@")[2]
        columns = [f"H{head}" for head in range(config.heads)] + [BESIDE] * (config.feed_forward is not None)
        layers = [f"L{layer}" for layer in range(config.layers)]
        names = [[layer + (".feed_forward" if column == BESIDE else column) for column in columns] for layer in layers]
        return Grid(
            title=title,
            rows=tuple(layers),
            columns=tuple(columns),
            values=tuple(tuple(changes[name + at] for name in row) for row in names),
            x="head",
            y="layer",
            middle=0.0,
            reach=reach,
        )

    def plain(self) -> dict[str, Any]:
        """For programs."""
        from headwater.trace.effects import certificate

        words = self.asked.run.words
        predictions = {
            side: [{"token": words.text(token), "id": token, "probability": share} for token, share in some]
            for side, some in self.predictions.items()
        }
        return {
            **self.asked.plain(),
            "how": self.how.how,
            "at": self.how.at,
            "seed": self.how.seed if self.how.how == "resample" else None,
            "value": self.effects[0].before.answer,
            "certificate": certificate(self.effects),
            "effects": [{**one.plain(), "place": self.places or one.name} for one in self.effects],
            "losses": [{**one.plain(), "place": self.places or one.name} for one in self.losses],
            "predictions": predictions,
        }
