"""The screen ``training``: the loss against what it is held against, bigrams and heads along the snapshots, and news while it trains."""

import shlex
from typing import TYPE_CHECKING, Annotated

from fastapi import APIRouter, Query, Request
from fastapi.responses import Response

from headwater.studio import training_work as work
from headwater.studio.asked import HeadAsked, Lines, Named, memory, shelf, worked
from headwater.studio.lines import path_in_shell
from headwater.studio.shelf import Item, Shelf
from headwater.studio.training_live import LIVE, followed
from headwater.studio.training_told import (
    BaselineTold,
    BigramsTold,
    ComparedTold,
    Curve,
    HeadsTold,
    RecipeTold,
    SaidTold,
    StateTold,
    TrainingTold,
)
from headwater.studio.work import Stop

if TYPE_CHECKING:
    from headwater.train.folder import RunFolder
    from headwater.train.recipe import Recipe

router = APIRouter(tags=["training"])
DRAWN = 2_000
"""Points of a curve that is drawn: more than a screen has columns."""
POINTS = 200_000
"""Points of a curve in full."""
TIMELINE = "from pathlib import Path; from headwater.atlas.timeline import timeline"
"""In Python, before a timeline is asked for."""
Full = Annotated[bool, Query(description="Every line of the log, and not only as many as a drawing needs.")]
Fresh = Annotated[
    int | None,
    Query(
        ge=0, le=1_000, description="How many snapshots to look at that nobody has asked for yet; all unless told otherwise."
    ),
]


@router.get("/training")
async def training(request: Request, training: Named, full: Full = False) -> TrainingTold:  # noqa: FBT002  (a parameter of the address)
    """A training: its recipe, where it stands, its curve, what its loss is held against, and its snapshots."""
    return await worked(request, "files", lambda stop: _told(request, training, full=full))


def _told(request: Request, name: str, *, full: bool) -> TrainingTold:
    there = shelf(request)
    folder, item = there.training(name), there.trainings[name]
    found = work.history(folder)
    known = work.known_entropies(folder, found.recipe, memory(request).known)
    drawn = work.thin(found.points, POINTS if full else DRAWN, full=full)
    last = found.held_out
    return TrainingTold(
        training=item.id,
        name=item.name,
        model=_model_of(there, item),
        recipe=RecipeTold.of(found.recipe),
        state=StateTold.of(found.state),
        curve=Curve.of(drawn),
        points=len(found.points),
        baselines=[BaselineTold(kind=kind, nats=nats, held_out=False) for kind, nats in known.items()],
        gap=last.held_out - known["bigram"] if last and last.held_out is not None and "bigram" in known else None,
        snapshots=list(found.snapshots),
        lines=_lines(item, has_text="bigram" in known),
    )


def _asked(request: Request, training: str) -> "tuple[RunFolder, Item, Recipe]":
    """A training's folder, what it is called, and what it follows from."""
    there = shelf(request)
    folder = there.training(training)
    return folder, there.trainings[training], work.history(folder).recipe


def _lines(item: Item, *, has_text: bool) -> Lines:
    entropies = f"entropies(corpus_of(Path({item.name!r}), h.recipe))" if has_text else "None"
    log = path_in_shell(f"{item.name}/log.jsonl")
    return Lines.of(
        "from pathlib import Path; from headwater.train.history import corpus_of, entropies, read_history; "
        f"h = read_history({item.name!r}); print(h.points[-1:], {entropies})",
        f"tail -n 1 {log}\nheadwater eval {path_in_shell(item.name)} --against uniform --most 1000 --json",
    )


def _model_of(there: Shelf, item: Item) -> str | None:
    """The id of the model that a training made, where it was there when the studio was started."""
    return next((model.id for model in there.models.values() if model.path == item.path), None)


@router.get("/training/heads")
async def heads(request: Request, training: Named, fresh: Fresh = None) -> HeadsTold:
    """Every head at the snapshots: what it copies, where it looks, what it composes with, and since when it is what it is.

    The latest snapshots come first; ``left`` says how many have not been looked at.
    """

    def compute(stop: Stop) -> HeadsTold:
        folder, item, recipe = _asked(request, training)
        found = work.heads(folder, recipe, work.Looking(memory(request).known, fresh, stop))
        lines = Lines.of(
            f"{TIMELINE}; print(timeline(Path({item.name!r}), top=0).plain())",
            f"headwater atlas timeline {path_in_shell(item.name)} --top 0 --json",
        )
        return HeadsTold.of(item.id, found, lines)

    return await worked(request, "model", compute)


@router.get("/training/said")
async def said(
    request: Request,
    training: Named,
    head: HeadAsked,
    top: Annotated[int, Query(ge=1, le=20, description="Skip-trigrams at each snapshot, of each source only the first.")] = 3,
    fresh: Fresh = None,
) -> SaidTold:
    """The strongest skip-trigrams of one head at the snapshots."""

    def compute(stop: Stop) -> SaidTold:
        (folder, item, recipe), called = _asked(request, training), head.upper()
        found = work.said(folder, recipe, (head, top), work.Looking(memory(request).known, fresh, stop))
        shown = f"[(m.step, m.says) for m in timeline(Path({item.name!r}), top={top}).moments if str(m.head) == {called!r}]"
        lines = Lines.of(
            f"{TIMELINE}; print({shown})",
            f"headwater atlas timeline {path_in_shell(item.name)} --top {top} --json",
        )
        return SaidTold.of(item.id, called, found, lines)

    return await worked(request, "model", compute)


@router.get("/training/bigrams")
async def bigrams(
    request: Request,
    training: Named,
    often: Annotated[int, Query(ge=1, le=10**9, description="How often a token must be seen for its row to count.")] = 1_000,
    fresh: Fresh = None,
) -> BigramsTold:
    """How near the direct path is to the bigrams of the text at the snapshots, beside the entropy that it cannot get below."""

    def compute(stop: Stop) -> BigramsTold:
        folder, item, recipe = _asked(request, training)
        found = work.bigrams(folder, recipe, often, work.Looking(memory(request).known, fresh, stop))
        lines = Lines.of(
            "from pathlib import Path; from headwater.train.studies import bigram; "
            f"print(bigram.of_training(Path({item.name!r}), often={often}).plain())",
            f"headwater study bigram {path_in_shell(item.name)} --often {often} --json",
        )
        return BigramsTold.of(item.id, found, lines)

    return await worked(request, "model", compute)


@router.get("/training/baselines")
async def baselines(
    request: Request,
    training: Named,
    against: Annotated[
        str, Query(max_length=200, description="Names of baselines, with commas.")
    ] = "unigram,bigram,trigram,5-gram",
    recurrent: Annotated[str | None, Query(max_length=120, description="The id of a training of a recurrent network.")] = None,
) -> ComparedTold:
    """What n-grams that are counted on the training part, and a recurrent network, lose on the held-out part.

    It takes a while: the main answer has what is had at once.
    """

    def compute(stop: Stop) -> ComparedTold:
        there, (folder, item, recipe) = shelf(request), _asked(request, training)
        network = there.training(recurrent) if recurrent else None
        names = work.names_of(against)
        found = work.compared(folder, recipe, names, network, work.Looking(memory(request).known, None, stop))
        also = f" --recurrent {path_in_shell(there.trainings[recurrent].name)}" if recurrent else ""
        lines = Lines.of(
            _compared_line(item, names, recipe.model.context),
            f"headwater eval {path_in_shell(item.name)} --against {shlex.join(names)}{also} --json",
        )
        return ComparedTold.of(item.id, found, lines)

    return await worked(request, "model", compute)


def _compared_line(item: Item, names: list[str], context: int) -> str:
    return (
        "from pathlib import Path; from headwater.train.baselines import compare, count_baselines; "
        "from headwater.train.history import corpus_of, read_history; "
        f"c = corpus_of(Path({item.name!r}), read_history({item.name!r}).recipe); "
        f"print(compare(count_baselines(c.train, vocab=c.vocab, names={names}), c, context={context}, most={work.MOST_TOKENS}).plain())"
    )


@router.get("/training/live", responses=LIVE)
async def live(
    request: Request,
    training: Named,
    after: Annotated[int, Query(ge=-1, le=2**53, description="The last step that is known already.")] = -1,
) -> Response:
    """What a training writes down as it does: points of the curve, snapshots, where it stands; until it has come to its end."""
    return followed(request, shelf(request).training(training), after)
