"""The screen ``attention``: where every head looks, what it carries from there, and why it looks there."""

from typing import Annotated, Literal
from weakref import ref

from fastapi import APIRouter, Query, Request, Response

from headwater.studio.asked import (
    BINARY,
    Answer,
    HeadAsked,
    Lines,
    Named,
    Position,
    Text,
    TokenTold,
    memory,
    numbers,
    shelf,
    worked,
)
from headwater.studio.errors import Refused
from headwater.studio.limits import CELLS, ROWS
from headwater.studio.lines import command, path_in_shell, recorded
from headwater.studio.shared import told_token
from headwater.studio.work import Stop
from headwater.trace.attend import Attending
from headwater.trace.looks import SIDE, Survey, View, cells, survey
from headwater.trace.patterns import looks_told, why_told
from headwater.trace.run import Run

router = APIRouter(tags=["attention"])
ViewAsked = Annotated[
    View, Query(description="Attention; that times the length of what the head would write from there; scores.")
]


class HeadLooks(Answer):
    """A head in a few numbers: mean attention over the tokens after the first; none of them where there is one token only."""

    head: str
    layer: int
    number: int
    previous: float | None
    own: float | None
    first: float | None
    entropy: float | None
    """In nats."""
    even: float | None
    """What a head pays to the previous token that looks everywhere alike."""
    longest: float
    """The largest cell of the value-weighted pattern: what its thumbnail's darkest cell stands for."""


class AttentionTold(Answer):
    """A text, and the heads that look at it."""

    model: str
    layers: int
    heads: int
    """In each layer."""
    mask: Literal["causal", "full"] | None
    tokens: list[TokenTold]
    facts: list[HeadLooks] | None
    """Layer by layer; None where nobody asked for them."""
    lines: Lines


class Place(Answer):
    """A position and the token that stands there."""

    position: int
    token: TokenTold


class AttentionSource(Answer):
    """A source, and what it gets in the competition; several together have no place."""

    place: Place | None
    count: int
    score: float
    attention: float
    log_odds: float
    """The log of how many times more attention the source that is asked about gets."""


class Competing(Answer):
    """Who else is looked at."""

    sources: list[AttentionSource]
    """By falling score; the last may be all others together."""
    count: int
    entropy: float
    """In nats."""
    effective: float
    """As if this many sources shared attention evenly."""
    rank: int


class AttentionPart(Answer):
    """One part of a query or key, by its kind and facts; the page has the words."""

    kind: str
    name: str
    """As the library calls it: ``L0H3``, ``embed``, ``L0.feed_forward``, ``L0.norm_1.bias``."""
    value: float
    place: Place | None
    count: int
    """Of parts that are told as one; 1 for a part by itself."""
    attention: float | None
    """Where it is a source of an earlier head."""
    parts: "list[AttentionPart]"
    """What it is made of, one step upstream."""


class Why(Answer):
    """Why a head looks there."""

    model: str
    head: str
    dest: Place
    source: Place
    against: Place | None
    score: float
    attention: float
    value: float
    """What the table adds up to: the score, or how far it is above the other's."""
    certificate: float
    bound: float
    competition: Competing
    rows: list[AttentionPart]
    """Parts of the query; the table's rows add up to them."""
    columns: list[AttentionPart]
    """Parts of the key."""
    table: list[list[float]]
    row_sums: list[float]
    column_sums: list[float]
    total: float
    """Of the whole table: the value, but for the certificate."""
    held: list[Literal["norms", "patterns", "gates"]]
    """What is held as the run measured it."""
    lines: Lines


@router.get("/attention")
async def attention(
    request: Request,
    *,
    model: Named,
    text: Text,
    facts: Annotated[bool, Query(description="Whether all heads are looked at; long texts take a while.")] = True,
) -> AttentionTold:
    """Layers, heads, tokens, and every head in a few numbers."""

    def compute(stop: Stop) -> AttentionTold:
        run = shelf(request).run(model, text, stop)
        config = run.config
        return AttentionTold(
            model=model,
            layers=config.layers,
            heads=config.heads if config.layers else 0,
            mask=config.attention.mask if config.attention else None,
            tokens=[told_token(run, int(token)) for token in run.tokens[0]],
            facts=_facts(_survey(request, run, SIDE, stop)) if facts else None,
            lines=_lines(shelf(request).models[model].name, text, run),
        )

    return await worked(request, "model", compute)


@router.get("/attention/thumbnails", response_class=Response, responses=BINARY)
async def thumbnails(
    request: Request,
    model: Named,
    text: Text,
    view: Annotated[Literal["pattern", "weighted"], Query()] = "pattern",
    size: Annotated[int, Query(ge=1, le=128, description="Cells on each side, at most.")] = SIDE,
) -> Response:
    """Small patterns of all heads, bytes: 255 is attention 1, or the longest write of the same head; long texts by the largest of each field."""

    def compute(stop: Stop) -> Response:
        run = shelf(request).run(model, text, stop)
        side, heads = min(size, run.tokens.shape[1]), run.config.layers * run.config.heads
        if heads * side * side > CELLS:
            raise Refused(413, f"{heads:,} heads by {side} × {side} cells", f"at most {CELLS:,}", "ask for a smaller size")
        return numbers(_survey(request, run, size, stop).picture(view).numpy())

    return await worked(request, "model", compute)


@router.get("/attention/pattern", response_class=Response, responses=BINARY)
async def pattern(request: Request, model: Named, text: Text, head: HeadAsked, view: ViewAsked = "pattern") -> Response:
    """The whole pattern of one head, ``[dest, source]``; NaN where there is no score because the mask forbids to look."""

    def compute(stop: Stop) -> Response:
        run = shelf(request).run(model, text, stop)
        length = run.tokens.shape[1]
        if length**2 > CELLS:
            raise Refused(413, f"a pattern of {length:,} tokens", f"at most {int(CELLS**0.5):,}", "give a shorter text")
        return numbers(cells(run.looks(head, view)).numpy())

    return await worked(request, "model", compute)


@router.get("/attention/why")
async def why(  # noqa: PLR0913  (each is one choice a person makes)
    request: Request,
    *,
    model: Named,
    text: Text,
    head: HeadAsked,
    dest: Position = -1,
    source: Annotated[int | None, Query(ge=-(2**31), le=2**31, description="The one it looks at most, unless said.")] = None,
    against: Annotated[int | None, Query(ge=-(2**31), le=2**31)] = None,
    most: Annotated[int, Query(ge=1, le=ROWS, description="Rows, columns and sources; the others are one.")] = 8,
) -> Why:
    """Why a head looks there: who competes for its attention, and its score as parts of the query by parts of the key."""

    def compute(stop: Stop) -> Why:
        run = shelf(request).run(model, text, stop)
        stop()
        found = run.attend(head.upper(), dest, source, against)
        stop()
        lines = _why_lines(shelf(request).models[model].name, text, run, found, most)
        return Why(model=model, lines=lines, **why_told(found, most, stop))

    return await worked(request, "model", compute)


def _survey(request: Request, run: Run, side: int, stop: Stop) -> Survey:
    """All heads on a text: looked at once for numbers and pictures alike. It is known by its run, which it does not hold."""
    return memory(request).surveys.get((ref(run), side), lambda: survey(run.frozen, side, stop))


def _facts(found: Survey) -> list[HeadLooks]:
    return [HeadLooks.model_validate(looks_told(each)) for each in found.heads]


def _lines(name: str, text: str, run: Run) -> Lines:
    opened = f"import headwater as hw; run = {recorded(name, text, run)}"
    if not run.config.layers:
        return Lines.of(f"{opened}; print(run.survey().heads)", f"headwater inspect {path_in_shell(name)} --json")
    return Lines.of(
        f"{opened}; print(*run.survey().heads, run['L0.pattern'][0, 0], sep='\\n')",
        command("attend", name, text, run, "--head L0H0 --json"),
    )


def _why_lines(name: str, text: str, run: Run, found: Attending, most: int) -> Lines:
    places = [found.dest, found.source, *([] if found.against is None else [found.against])]
    against = "" if found.against is None else f" --against {found.against}"
    options = f"--head {found.head} --dest {found.dest} --source {found.source}{against} --most {most} --json"
    return Lines.of(
        f"import headwater as hw; run = {recorded(name, text, run)}; "
        f"print(run.attend({str(found.head)!r}, {', '.join(map(str, places))}).plain({most}))",
        command("attend", name, text, run, options),
    )
