"""The answers of the screen ``training``."""

import re
from collections.abc import Iterable, Sequence
from dataclasses import asdict
from typing import TYPE_CHECKING, Literal

from headwater.studio.asked import Answer, Lines, TokenTold

if TYPE_CHECKING:
    from headwater.atlas.timeline import Said, Timeline
    from headwater.studio.training_work import Along, Compared
    from headwater.text.spoken import Spoken
    from headwater.train.history import Point, State
    from headwater.train.recipe import Recipe
    from headwater.train.studies.bigram import BigramStudy

Values = list[float | None]


class Curve(Answer):
    """Lines of a log, column by column; None where a line does not tell."""

    step: list[int]
    loss: Values
    held_out: Values
    bits_per_byte: Values
    gradient_norm: Values
    learning_rate: Values
    seconds: Values
    tokens_per_second: Values

    @staticmethod
    def of(points: "Iterable[Point]") -> "Curve":
        """From a library's points."""
        rows = list(points)
        return Curve.model_validate({name: [getattr(row, name) for row in rows] for name in Curve.model_fields})


class StateTold(Answer):
    """Where a training stands."""

    phase: Literal["begun", "running", "finished", "stopped"]
    running: bool
    """Whether a process trains now."""
    step: int
    steps: int
    tokens: int
    seconds: float | None
    tokens_per_second: float | None
    """Lately."""
    remaining: float | None
    """Seconds, while it runs."""

    @staticmethod
    def of(state: "State") -> "StateTold":
        """From the library's."""
        return StateTold.model_validate(asdict(state))


class RecipeTold(Answer):
    """What a training follows from."""

    name: str
    about: str
    architecture: Literal["transformer", "recurrent"]
    layers: int
    heads: int
    d_model: int
    vocab: int
    context: int
    batch: int
    steps: int
    learning_rate: float
    toml: str
    """Every setting."""

    @staticmethod
    def of(recipe: "Recipe") -> "RecipeTold":
        """From the library's."""
        from headwater.train.recipe import write_recipe

        model, plan = recipe.model, recipe.training
        return RecipeTold(
            name=recipe.name,
            about=recipe.about,
            architecture=recipe.architecture,
            layers=model.layers,
            heads=model.heads if model.layers else 0,
            d_model=model.d_model,
            vocab=model.vocab,
            context=model.context,
            batch=plan.batch,
            steps=plan.steps,
            learning_rate=plan.learning_rate,
            # Texts by their names: where on this machine they lie is nobody's business.
            toml=re.sub(r'"/(?:[^"\n]*/)?([^"/\n]+)"', r'"\1"', write_recipe(recipe).decode()),
        )


class BaselineTold(Answer):
    """Something that knows less, and what it loses, in nats for each token."""

    kind: str
    """``uniform``, ``unigram``, ``bigram`` … ``9-gram``, ``recurrent``; ``model_uniform``: over the model's vocabulary, not the text's."""
    nats: float | None
    """None: infinite."""
    held_out: bool
    """Whether on held-out text; else it is an entropy of the training part."""
    standard_error: float | None = None
    bits_per_byte: float | None = None


class TrainingTold(Answer):
    """A training."""

    training: str
    name: str
    model: str | None
    """The id of the model that it made, where the studio serves it."""
    recipe: RecipeTold
    state: StateTold
    curve: Curve
    points: int
    """Lines of the log; where there are more than in the curve, it is thinned for drawing, lowest and highest kept."""
    baselines: list[BaselineTold]
    gap: float | None
    """The last held-out loss above the bigram entropy."""
    snapshots: list[int]
    lines: Lines


class HeadCourse(Answer):
    """A head along the snapshots: one number for each of the answer's steps."""

    head: str
    role: str
    since: int
    before: str | None
    copying: Values
    centred: Values
    previous: Values
    positions: Values
    induction: Values
    composition: Values
    partners: list[str | None]
    """With which head it composes most: writer and reader."""
    roles: list[str]


class HeadsTold(Answer):
    """All heads along the snapshots."""

    training: str
    steps: list[int]
    """Of the snapshots that have been looked at."""
    left: int
    """How many have not."""
    chance: float | None
    """Composition of heads that have nothing to do with each other."""
    norms_from_text: bool
    """Whether numbers take norms at the text's mean scale for granted."""
    heads: list[HeadCourse]
    lines: Lines

    @staticmethod
    def of(training: str, found: "Along[Timeline]", lines: Lines) -> "HeadsTold":
        """From the library's timeline; None where there are no heads."""
        timeline = found.value
        became = timeline.became if timeline else ()
        told: list[HeadCourse] = []
        for one in became:
            moments = timeline.by_head[one.head] if timeline else []
            partners = [moment.partner for moment in moments]
            told.append(
                HeadCourse(
                    head=str(one.head),
                    role=one.role,
                    since=one.since,
                    before=one.before,
                    copying=[moment.copying for moment in moments],
                    centred=[moment.centred for moment in moments],
                    previous=[moment.previous for moment in moments],
                    positions=[moment.positions for moment in moments],
                    induction=[moment.induction for moment in moments],
                    composition=[link.score if link else None for link in partners],
                    partners=[f"{link.writer}→{link.reader}" if link else None for link in partners],
                    roles=[moment.role for moment in moments],
                )
            )
        return HeadsTold(
            training=training,
            steps=found.steps,
            left=found.left,
            chance=timeline.chance if timeline else None,
            norms_from_text=bool(timeline and timeline.given),
            heads=told,
            lines=lines,
        )


class TrigramTold(Answer):
    """A skip-trigram and its lift."""

    source: TokenTold
    dest: TokenTold
    out: TokenTold
    lift: float


class SaidAt(Answer):
    """What a head says most after some updates."""

    step: int
    says: list[TrigramTold]


class SaidTold(Answer):
    """What a head says most along the snapshots."""

    training: str
    head: str
    said: list[SaidAt]
    left: int
    lines: Lines

    @staticmethod
    def of(training: str, head: str, found: "tuple[Spoken, Along[Sequence[tuple[Said, ...]]]]", lines: Lines) -> "SaidTold":
        """From the library's."""
        spoken, along = found

        def token(number: int) -> TokenTold:
            return TokenTold.of(spoken, number)

        def trigram(said: "Said") -> TrigramTold:
            return TrigramTold(source=token(said.source), dest=token(said.dest), out=token(said.out), lift=said.lift)

        told = [
            SaidAt(step=step, says=[trigram(each) for each in says])
            for step, says in zip(along.steps, along.value or (), strict=True)
        ]
        return SaidTold(training=training, head=head, said=told, left=along.left, lines=lines)


class FitTold(Answer):
    """A snapshot against the bigrams of the text, in nats."""

    step: int
    loss: float
    excess: float
    mean_kl: float | None
    weighted_kl: float | None
    largest_kl: float | None
    correlation: float | None
    unseen_mass: float
    unseen_probability: float | None
    gap: float | None
    largest_logit: float


class BigramsTold(Answer):
    """Snapshots against the bigrams of the text."""

    training: str
    entropy: float
    """H(X₂|X₁): the loss of the direct path cannot get below it."""
    pairs: int
    different: int
    often: int
    rows: int
    whole: bool
    """Whether the direct path is the whole model."""
    fits: list[FitTold]
    left: int
    lines: Lines

    @staticmethod
    def of(training: str, found: "Along[BigramStudy]", lines: Lines) -> "BigramsTold":
        """From the library's study."""
        study = found.value
        assert study is not None, "there is always something to hold against the text"
        names = ("entropy", "pairs", "different", "often", "rows", "whole")
        fits = [FitTold.model_validate(asdict(fit)) for fit in study.fits]
        facts = {name: getattr(study, name) for name in names}
        return BigramsTold(training=training, **facts, fits=fits, left=found.left, lines=lines)


class ComparedTold(Answer):
    """Baselines on held-out tokens, the best first."""

    training: str
    tokens: int
    context: int
    baselines: list[BaselineTold]
    lines: Lines

    @staticmethod
    def of(training: str, found: "Compared", lines: Lines) -> "ComparedTold":
        """From the library's comparison."""
        rows = found.comparison.plain()["rows"]
        told = [
            BaselineTold(
                kind=found.kinds[row["name"]],
                nats=row["nats"],
                held_out=True,
                standard_error=row["standard_error"],
                bits_per_byte=row["bits_per_byte"],
            )
            for row in rows
        ]
        comparison = found.comparison
        return ComparedTold(
            training=training, tokens=comparison.tokens, context=comparison.context, baselines=told, lines=lines
        )
