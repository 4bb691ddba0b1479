"""What all screens ask: what there is, and a text as tokens with what the model would say next."""

from collections.abc import Iterable
from typing import Annotated, Any, Literal

from fastapi import APIRouter, Query, Request

from headwater.model.config import ModelConfig, NoNorm, PostNorm
from headwater.shapes import whole
from headwater.studio.asked import Answer, Named, Text, TokenTold, shelf, worked
from headwater.studio.work import Stop
from headwater.trace.run import Run
from headwater.version import __version__

router = APIRouter(tags=["shared"])
TEXTS = ("for line in open(", "def main(argv=None):\n    parser =", "import os\nimport sys\n\nclass")
"""To begin with, in the tokens of our own models."""
PREDICTED = 64
"""Positions of a text whose next tokens are told in one answer."""


Norms = Literal["no-norm", "pre-norm", "post-norm"]
"""Where norms stand."""


class ModelTold(Answer):
    """A model of the shelf."""

    id: str
    name: str
    layers: int
    heads: int
    d_model: int
    vocab: int
    context: int
    norms: Norms
    has_words: bool
    has_feed_forward: bool
    atlas: str | None
    """The id of its atlas, where there is one."""
    texts: list[str]
    """To begin with."""


class Thing(Answer):
    """Something else of the shelf."""

    id: str
    name: str


class ShelfTold(Answer):
    """All that the studio was started with."""

    version: str
    models: list[ModelTold]
    atlases: list[Thing]
    trainings: list[Thing]


class Said(Answer):
    """A token that may come next."""

    token: TokenTold
    probability: float


class Spoken(Answer):
    """A token of a text, and what the model expects after it: none where that was not asked for."""

    token: TokenTold
    next: list[Said]


class Tokens(Answer):
    """A text as the model reads it."""

    model: str
    tokens: list[Spoken]


class Reopened(Answer):
    """What has been forgotten, to be read anew."""

    kind: Literal["model", "atlas"]
    id: str


@router.get("/shelf")
async def what_there_is(request: Request) -> ShelfTold:
    """Models, atlases and trainings."""
    return await worked(request, "files", lambda stop: _shelf(request))


def _shelf(request: Request) -> ShelfTold:
    there = shelf(request)
    models: list[ModelTold] = []
    for item in list(there.models.values()):
        card = there.card(item.id)
        models.append(
            ModelTold(
                id=item.id,
                name=item.name,
                **_sizes(card.config),
                has_words=card.has_words,
                atlas=there.atlas_of.get(item.id),
                texts=_texts(card.config, has_words=card.has_words),
            )
        )
    things = (
        [Thing(id=each.id, name=each.name) for each in list(items.values())] for items in (there.atlases, there.trainings)
    )
    atlases, trainings = things
    return ShelfTold(version=__version__, models=models, atlases=atlases, trainings=trainings)


def _texts(config: ModelConfig, *, has_words: bool) -> list[str]:
    """To begin with, short enough for this model."""
    if has_words:
        return [text[: config.context] for text in TEXTS]
    return ["ids:" + ",".join(map(str, range(min(3, config.context, config.vocab))))]


def norms_of(config: ModelConfig) -> Norms:
    """Where a model's norms stand."""
    return "no-norm" if isinstance(config.norm, NoNorm) else "post-norm" if isinstance(config.norm, PostNorm) else "pre-norm"


def _sizes(config: ModelConfig) -> dict[str, Any]:
    return {
        "layers": config.layers,
        "heads": config.heads,
        "d_model": config.d_model,
        "vocab": config.vocab,
        "context": config.context,
        "norms": norms_of(config),
        "has_feed_forward": config.feed_forward is not None,
    }


@router.get("/tokens")
async def tokens(
    request: Request,
    model: Named,
    text: Text,
    count: Annotated[int, Query(ge=0, le=50)] = 5,
    first: Annotated[
        int, Query(alias="from", ge=0, le=2**31, description="The first position whose next tokens are told.")
    ] = 0,
    last: Annotated[int, Query(alias="to", ge=0, le=2**31, description="The position before which that ends.")] = 2**31,
) -> Tokens:
    """The tokens of a text; from one position up to another, at most ``PREDICTED`` of them, also the likeliest next ones."""

    def compute(stop: Stop) -> Tokens:
        run = shelf(request).run(model, text, stop)
        # A row of the whole vocabulary for each: of a long text only what somebody looks at.
        wanted = range(first, min(last, first + PREDICTED)) if count else range(0)
        spoken: list[Spoken] = []
        for at, token in enumerate(whole(run.tokens[0])):
            if at in wanted:
                stop()
            spoken.append(Spoken(token=told_token(run, token), next=said(run, at, count) if at in wanted else []))
        return Tokens(model=model, tokens=spoken)

    return await worked(request, "model", compute)


def told_token(run: Run, token: int) -> TokenTold:
    """A token of a run's model."""
    return TokenTold.of(run.words, token)


def said(run: Run, position: int, count: int) -> list[Said]:
    """The likeliest tokens after a position."""
    return told_said(run, run.top(position, count))


def told_said(run: Run, likeliest: Iterable[tuple[int, float]]) -> list[Said]:
    """Tokens with their probabilities."""
    return [Said(token=told_token(run, token), probability=p) for token, p in likeliest]


@router.post("/{kind}/{name}/reopen")
async def reopen(request: Request, kind: Literal["model", "atlas"], name: str) -> Reopened:
    """Read the files of a model or an atlas anew: they have been replaced, and somebody knows."""
    await worked(request, "files", lambda stop: shelf(request).reopen(kind, name))
    return Reopened(kind=kind, id=name)
