"""The screen ``stream``: the residual stream of a position through the documents' stages, and one measure of it at all positions."""

from typing import Annotated, Literal

from fastapi import APIRouter, Query, Request, Response
from pydantic import BaseModel, Field

from headwater.errors import InputError
from headwater.model.config import ModelConfig
from headwater.model.reorder import Order
from headwater.studio.asked import (
    BINARY,
    Answer,
    Lines,
    Named,
    Position,
    Text,
    TokenName,
    TokenTold,
    numbers,
    shelf,
    token_of,
    worked,
)
from headwater.studio.errors import Refused
from headwater.studio.lines import command, text_in_python
from headwater.studio.shared import told_token
from headwater.studio.stream_runs import Asked, beside, orders, run_of
from headwater.studio.stream_told import OneStream, lens_positions, one_stream
from headwater.studio.work import Stop
from headwater.trace.run import Run
from headwater.trace.view.measures import VECTORS, LensMeasure, VectorMeasure
from headwater.trace.view.measures import overview as look_over
from headwater.trace.view.stream import StreamView
from headwater.trace.view.stream import stream as look

router = APIRouter(tags=["stream"])


class StreamAsked(BaseModel):
    """What is asked of one position."""

    model: Named
    text: Text
    position: Position = -1
    token: TokenName | None = None
    other: Annotated[
        str | None,
        Query(
            min_length=1,
            max_length=120,
            description="Another model of the shelf to stand beside it; ~pre or ~post: the same weights with norms elsewhere.",
        ),
    ] = None
    top: Annotated[int, Query(ge=1, le=20, description="Predictions at each stage.")] = 5


class StreamTold(Answer):
    """A position's stream, and where it was asked for another beside it."""

    one: OneStream
    other: OneStream | None
    tokens: list[TokenTold]
    """The whole text."""
    orders: list[Order]
    """Where else this model's norms could stand."""
    lines: Lines


@router.get("/stream")
async def stream(request: Request, asked: Annotated[StreamAsked, Query()]) -> StreamTold:
    """One position, stage by stage: how long the stream is, where it points, what it would say, who wrote it, what norms changed."""

    def compute(stop: Stop) -> StreamTold:
        there = shelf(request)
        run = there.run(asked.model, asked.text, stop)
        item = there.models[asked.model]
        token = token_of(run, asked.token)
        view = _view(run, asked.position, token, asked.top, stop)
        one = one_stream(run, view, asked.model, item.name, "own")
        streams, second = [(one, run)], None
        if asked.other is not None:
            other = beside(request, Asked(asked.model, asked.text, run), asked.other, one, stop)
            seen = _view(other.run, other.position, other.token, asked.top, stop)
            second = one_stream(other.run, seen, other.model, other.name, other.order, is_same=other.token is not None)
            streams.append((second, other.run))
        return StreamTold(
            one=one,
            other=second,
            tokens=[told_token(run, int(each)) for each in run.tokens[0]],
            orders=orders(run.config),
            lines=_lines(asked, streams),
        )

    return await worked(request, "model", compute)


def _view(run: Run, position: int, token: int | None, top: int, stop: Stop) -> StreamView:
    return look(run, positions=[position], token=token, top=top, words=run.words, tell=stop)


Measure = Literal["length", "cosine_before", "cosine_embed", "cosine_final", "probability", "rank", "entropy"]
OF_LIBRARY: dict[Measure, VectorMeasure | LensMeasure] = {
    "length": "norm", "cosine_before": "cosine_before", "cosine_embed": "cosine_embed", "cosine_final": "cosine_final",
    "probability": "p", "rank": "rank", "entropy": "entropy",
}  # fmt: skip
"""What answers name as everywhere, the library by a letter or by its symbol."""


class OverviewAsked(BaseModel):
    """What is asked of many positions."""

    model: Named
    text: Text
    measure: Measure = "length"
    order: Literal["own", "pre", "post"] = Field("own", description="The same weights with norms elsewhere.")
    token: TokenName | None = None
    first: Annotated[int, Query(ge=0, le=2**31, description="The first position.")] = 0
    count: Annotated[int | None, Query(ge=1, le=2**31, description="How many; all unless told.")] = None


@router.get("/stream/overview", response_class=Response, responses=BINARY)
async def overview(request: Request, asked: Annotated[OverviewAsked, Query()]) -> Response:
    """One measure: a row for each stage, a column for each position; not a number where there is none. x-first is the first position."""

    def compute(stop: Stop) -> Response:
        run = run_of(request, asked.model, asked.text, asked.order, stop)
        positions = _positions(run, asked.first, asked.count)
        measure = OF_LIBRARY[asked.measure]
        if measure not in VECTORS:
            _check_work(run.config, len(positions))
        found = look_over(run, measure, positions=positions, token=token_of(run, asked.token), tell=stop)
        return numbers(found.values, first=asked.first)

    return await worked(request, "model", compute)


def _positions(run: Run, first: int, count: int | None) -> range:
    length = run.tokens.shape[1]
    if first >= length:
        raise InputError(f"positions from {first} on", f"one of the {length} of this text", "begin earlier")
    return range(first, length if count is None else min(length, first + count))


def _check_work(config: ModelConfig, positions: int) -> None:
    most = lens_positions(config)
    if positions > most:
        given = f"what {positions:,} positions would say at every stage of this model"
        raise Refused(
            413,
            given,
            f"at most {most:,} at once",
            "ask for fewer by first and count, or for a length or a cosine, at all of them",
        )


def _lines(asked: StreamAsked, streams: list[tuple[OneStream, Run]]) -> Lines:
    """The same numbers by Python and by shell, a line for each stream; each in the tokens of its own model."""
    python, shell = list[str](), list[str]()
    for each, run in streams:
        is_chosen, is_own = each.why not in ("next", "likeliest"), each.order == "own"
        model = f"hw.load({each.name!r})" + ("" if is_own else f".reordered({each.order!r})")
        token = f", token={each.chosen.id}" if is_chosen else ""
        given = text_in_python(asked.text, run)
        python.append(f"print({model}.record({given}).stream([{each.position}]{token}, top={asked.top}).plain())")
        norms = "" if is_own else f"--norms {each.order} "
        named = f" --token '#{each.chosen.id}'" if is_chosen else ""
        options = f"{norms}--position {each.position}{named} --top {asked.top} --json"
        shell.append(command("stream", each.name, asked.text, run, options))
    return Lines.of("\n".join(["import headwater as hw", *python]), "\n".join(shell))
