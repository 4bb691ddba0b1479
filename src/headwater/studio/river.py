"""The screen ``river``: a logit followed upstream to the tokens that it came from, and what each token comes to in all."""

import math
from typing import Annotated, Literal

from fastapi import APIRouter, Query, Request

from headwater.shapes import floats
from headwater.studio.asked import Answer, Lines, Named, Position, Text, TokenName, TokenTold, number_in, shelf, worked
from headwater.studio.river_asked import Asking, begins_like
from headwater.studio.shared import Said, said
from headwater.studio.work import Stop
from headwater.text.spoken import Spoken
from headwater.trace.confluence import BUDGET, MOST
from headwater.trace.parts import Split
from headwater.trace.question import about_logit
from headwater.trace.river import asked_for, logit_bound, river_told
from headwater.trace.run import Run
from headwater.trace.sweep import sweep

router = APIRouter(tags=["river"])
LIKE = 12
"""Tokens that are suggested."""
PIECES = 24
"""Tokens of a text that is not one, as they are told."""

Kind = Literal[
    "logit",
    "embedding",
    "position",
    "head",
    "feed-forward",
    "neuron",
    "stream",
    "source",
    "bias",
    "layer",
    "order",
    "group",
    "remainder",
]


class RiverNode(Answer):
    """Everything that flows through one place: what flows in adds up to what flows out."""

    key: str
    """Its name, by which it is opened: ``L1H3@4``, ``L1@4`` (the stream as layer 1 reads it), ``token@0``, ``logit``."""
    kind: Kind
    value: float
    name: str | None
    layer: int | None
    position: int | None
    token: str | None
    id: int | None
    count: int | None
    """Of a remainder: how many parts it is."""
    of: str | None
    """Of a remainder: whose."""
    ways: list[str]
    """How it can be taken apart; none where nothing is upstream."""
    by: str | None
    """How it is; none where it is closed."""


class RiverLink(Answer):
    """What one place has in another one downstream."""

    source: str
    target: str
    value: float
    share: float
    """Of the sizes of all that flows into the target."""
    attention: float | None
    names: list[str]
    """Of biases and positions: which ones."""


class River(Answer):
    """A logit, or a difference of two, as what flows into it."""

    model: str
    position: int
    dest: TokenTold
    token: TokenTold
    against: TokenTold | None
    centred: bool
    value: float
    probability: float
    against_probability: float | None
    main: float
    """How far the sum of the logit's own parts is from the model's number."""
    certificate: float
    """The largest such difference of everything that is drawn."""
    bound: float
    """What rounding may come to."""
    nodes: list[RiverNode]
    links: list[RiverLink]
    lines: Lines


class Total(Answer):
    """What something comes to in a logit, through everything downstream of it."""

    name: str
    value: float


class RiverTotals(Answer):
    """Tokens, positions and biases add up to the logit; heads and layers do not, since one reads what another wrote."""

    value: float
    """The logit, or the difference, that they add up to: the model's own number."""
    tokens: list[float]
    positions: float | None
    biases: float | None
    writes: list[Total] | None
    """Heads and feed-forward layers; none of a centred logit."""
    layers: list[Total] | None
    certificate: float
    bound: float


class Next(Answer):
    """What the model expects after a position."""

    next: list[Said]


class Words(Answer):
    """A token that somebody types: the one that it is, or the pieces that it would be, and some that begin like it."""

    exact: TokenTold | None
    pieces: list[TokenTold]
    like: list[TokenTold]


Opened = Annotated[
    str,
    Query(
        max_length=6_000,
        description="Places to open or close, with commas between: KEY, KEY:way, -KEY (close), +KEY (tell more of its inflows).",
    ),
]
Most = Annotated[int, Query(ge=1, le=40, description="Inflows of a place that are told apart.")]
Budget = Annotated[int, Query(ge=0, le=120, description="Places after which nothing more opens by itself; 0: nothing does.")]


@router.get("/river")
async def river(
    request: Request,
    logit: Asking,
    open: Opened = "",  # noqa: A002  (its name in the address)
    most: Most = MOST,
    auto: Budget = BUDGET,
) -> River:
    """Why a token has its logit after a position, upstream to the tokens."""

    def compute(stop: Stop) -> River:
        run = shelf(request).run(logit.model, logit.text, stop)
        why = logit.explain(run)
        lines = logit.lines(shelf(request).models[logit.model].name, run, why)
        return River(model=logit.model, lines=lines, **river_told(why, asked_for(open, most, auto), stop))

    return await worked(request, "model", compute)


@router.get("/river/totals")
async def river_totals(request: Request, logit: Asking) -> RiverTotals:
    """What every token, head and layer comes to in a logit, through everything downstream."""

    def compute(stop: Stop) -> RiverTotals:
        run = shelf(request).run(logit.model, logit.text, stop)
        why = logit.explain(run)
        stop()
        return _centred_totals(run, why, stop) if logit.centred else _totals(run, why, stop)

    return await worked(request, "model", compute)


def _totals(run: Run, why: Split, stop: Stop) -> RiverTotals:
    told = run.totals(why.facts["position"], why.facts["id"], why.facts.get("against_id"), listen=stop)
    found = told.plain()
    biases = [value[0] for value in found["biases"].values()]
    writes, layers = (
        [Total(name=name, value=value[0]) for name, value in found[some].items()] for some in ("writes", "layers")
    )
    return RiverTotals(
        value=why.value,
        tokens=found["tokens"][0],
        positions=None if found["positions"] is None else sum(found["positions"][0]),
        biases=sum(biases) if biases else None,
        writes=writes,
        layers=layers,
        certificate=found["certificate"],
        bound=logit_bound(run, why, float(told.size[0])),
    )


def _centred_totals(run: Run, why: Split, stop: Stop) -> RiverTotals:
    """What tells heads apart is of a logit or a difference; tokens, positions and biases are told of anything."""
    swept = sweep(run, about_logit(run, why.facts["position"], why.facts["id"], centred=True), listen=stop)
    placed, tokens = swept.positions(), floats(swept.tokens())
    positions = None if placed is None else math.fsum(floats(placed))
    biases = [float(value) for value in swept.biases().values()]
    return RiverTotals(
        value=why.value,
        tokens=tokens,
        positions=positions,
        biases=math.fsum(biases) if biases else None,
        writes=None,
        layers=None,
        certificate=abs(math.fsum([*tokens, positions or 0.0, *biases]) - why.value),
        bound=logit_bound(run, why, float(swept.size)),
    )


@router.get("/river/next")
async def river_next(
    request: Request, model: Named, text: Text, position: Position = -1, count: Annotated[int, Query(ge=1, le=50)] = 8
) -> Next:
    """The likeliest tokens after a position."""

    def compute(stop: Stop) -> Next:
        run = shelf(request).run(model, text, stop)
        return Next(next=said(run, position, count))

    return await worked(request, "model", compute)


@router.get("/river/words")
async def river_words(request: Request, model: Named, like: TokenName = "") -> Words:
    """What a model makes of what somebody types where a token is wanted."""
    return await worked(request, "model", lambda stop: _words(request, model, like, stop))


def _words(request: Request, model: str, like: str, stop: Stop) -> Words:
    loaded = shelf(request).model(model)
    spoken = Spoken(loaded.tokenizer)

    def told(token: int) -> TokenTold:
        return TokenTold.of(spoken, token)

    number = number_in(like, has_words=loaded.tokenizer is not None)
    if number is not None:
        return Words(exact=told(number) if number < loaded.config.vocab else None, pieces=[], like=[])
    if loaded.tokenizer is None or not like:
        return Words(exact=None, pieces=[], like=[])
    pieces = loaded.tokenizer.encode(like)
    found = begins_like(loaded.tokenizer, like, LIKE, stop)
    exact = told(pieces[0]) if len(pieces) == 1 else None
    return Words(exact=exact, pieces=[told(each) for each in pieces[:PIECES]], like=[told(each) for each in found])
