"""One head at one position, for two figures: attention as a weighted combination of values, and as a soft lookup at any temperature."""

from typing import Annotated

import torch
from fastapi import APIRouter, Query, Request
from torch import Tensor

from headwater.circuits.head import Head, every_head, find_head, key_head
from headwater.claims.figures.attended import telling
from headwater.errors import InputError
from headwater.shapes import floats
from headwater.studio.asked import Answer, HeadAsked, Lines, Named, Position, Text, TokenTold, shelf, worked
from headwater.studio.documents_measured import item_of
from headwater.studio.errors import Refused
from headwater.studio.lines import command, recorded
from headwater.studio.shared import Said, said, told_token
from headwater.studio.work import Stop
from headwater.trace.question import within
from headwater.trace.rounding import mixture_apart
from headwater.trace.run import Run
from headwater.trace.view.lookup import BETAS, Lookup, head_lookup
from headwater.trace.view.normed import length

router = APIRouter()
LONGEST = 1_024
"""Tokens of a text whose scores are looked at whole."""
VECTORS = 65_536
"""Numbers of keys, or of values, in one answer; of more, only their lengths are told."""
Beta = Annotated[float, Query(ge=0, le=1e4, description="An inverse temperature to look up at, beside the usual ones.")]


class Source(Answer):
    """A token that is looked at."""

    position: int
    token: TokenTold


class HeadTold(Answer):
    """What a head reads at one position: its query against all keys, and the values."""

    model: str
    head: str
    heads: list[str]
    """All heads of the model."""
    position: int
    tokens: list[TokenTold]
    """Of the whole text."""
    sources: list[Source]
    """The tokens that may be looked at from there."""
    scores: list[float]
    """As the softmax gets them, one for each source."""
    scale: float
    """What products of queries and keys were multiplied by for it; 1 where they were not."""
    weights: list[float]
    """The model's own pattern."""
    query: list[float]
    keys: list[list[float]] | None
    values: list[list[float]] | None
    """None where there are too many numbers."""
    key_lengths: list[float]
    value_lengths: list[float]


class Looked(Answer):
    """A lookup at one temperature."""

    beta: float
    best: float
    """The weight of the best key."""
    missing: float
    distance: float
    """From the soft to the hard lookup."""
    bound: float
    """What that distance cannot be above."""


class LookupTold(HeadTold):
    """A soft lookup, and what it is at several temperatures."""

    best: list[int]
    """The sources with the largest score, by number."""
    gap: float | None
    """From the best score to the next lower one; none where all tie."""
    spread: float
    """The largest distance between two values."""
    series: list[Looked]
    hard: list[float]
    lines: Lines


class CombinationTold(HeadTold):
    """A weighted combination of values, and what becomes of it."""

    mixed: list[float]
    """The sum, as the model has it."""
    mixed_length: float
    write_length: float
    """Of what the head then adds to the stream: the sum times ``W_O``."""
    certificate: float
    """How far the sum of weights times values is from the model's own, at the most."""
    bound: float
    """What rounding may come to there."""
    next: list[Said]
    """What the model would say after that position."""
    lines: Lines


@router.get("/documents/lookup")
async def lookup(
    request: Request, model: Named, text: Text, head: HeadAsked | None = None, position: Position = -1, beta: Beta = 1.0
) -> LookupTold:
    """What a head looks up at a position, softly and hard."""

    def compute(stop: Stop) -> LookupTold:
        run, name, at = _asked(request, (model, text), head, position, stop)
        found = head_lookup(run, name, at, sorted({*BETAS, beta}))
        given = item_of(request, model).name
        python = (
            "import headwater as hw\nfrom headwater.trace.view.lookup import head_lookup\n"
            f'print(head_lookup({recorded(given, text, run)}, "{name}", {at}, [{beta!r}]))'
        )
        temperature = f" --temperature {1 / beta!r}" if beta else ""
        shell = command("stream", given, text, run, f"--position {at} --head {name}{temperature} --json")
        return LookupTold(
            **vars(_told(model, run, name, at)),
            best=list(found.best),
            gap=found.plain()["gap"],
            spread=found.spread,
            series=_series(found),
            hard=floats(found.hard),
            lines=Lines.of(python, shell),
        )

    return await worked(request, "model", compute)


@router.get("/documents/combination")
async def combination(
    request: Request, model: Named, text: Text, head: HeadAsked | None = None, position: Position = -1
) -> CombinationTold:
    """Weights, values, and their sum: what a head puts together at a position."""

    def compute(stop: Stop) -> CombinationTold:
        run, name, at = _asked(request, (model, text), head, position, stop)
        found, site = head_lookup(run, name, at, [1.0]), f"L{name.layer}."
        mixed = run[f"{site}mixed"][0, name.head, at]
        told = _told(model, run, name, at)
        apart = mixture_apart(torch.tensor(told.weights, dtype=torch.float64), found.values, mixed)
        given = item_of(request, model).name
        python = (
            "import headwater as hw\n"
            f"run = {recorded(given, text, run)}\n"
            f'print(run["{site}pattern"][0, {name.head}, {at}], run["{site}mixed"][0, {name.head}, {at}])'
        )
        shell = command("attend", given, text, run, f"--head {name} --dest {at} --json")
        return CombinationTold(
            **vars(told),
            mixed=floats(mixed.double()),
            mixed_length=float(length(mixed[None].double())),
            write_length=float(length(run[f"{site}head_writes"][0, name.head, [at]].double())),
            certificate=apart.certificate,
            bound=apart.bound,
            next=said(run, at, 5),
            lines=Lines.of(python, shell),
        )

    return await worked(request, "model", compute)


def _asked(request: Request, what: tuple[str, str], head: str | None, position: int, stop: Stop) -> tuple[Run, Head, int]:
    """A run, a head of it, and a position; without a head one that looks neither at one token alone nor at all alike."""
    run = shelf(request).run(*what, stop)
    if not run.config.layers:
        raise InputError("a model without layers", "a model with heads", "choose another model")
    at = within(position, check_length(run), "position")
    name = find_head(head, run.config) if head else Head(0, telling(run["L0.pattern"][0, :, at, : _seen(run, at)].double()))
    return run, name, at


def _seen(run: Run, at: int) -> int:
    """How many tokens a position may look at."""
    attention = run.config.attention
    assert attention is not None, "asked only where there are heads"
    return at + 1 if attention.mask == "causal" else run.tokens.shape[1]


def check_length(run: Run) -> int:
    """The length of a text that is short enough to be looked at whole."""
    tokens = run.tokens.shape[1]
    if tokens > LONGEST:
        raise Refused(413, f"a text of {tokens:,} tokens", f"at most {LONGEST:,} here", "give a shorter one")
    return tokens


def _told(model: str, run: Run, head: Head, at: int) -> HeadTold:
    attention, site = run.config.attention, f"L{head.layer}."
    assert attention is not None, "a model with layers has attention"
    scores = run[f"{site}scores"][0, head.head, at]
    allowed = scores.isfinite().nonzero().flatten()
    shared = key_head(run.config, head)
    keys, values = (run[f"{site}{name}"][0, shared][allowed].double() for name in ("keys", "values"))
    tokens = [told_token(run, int(token)) for token in run.tokens[0]]
    return HeadTold(
        model=model,
        head=str(head),
        heads=[str(each) for each in every_head(run.config)],
        position=at,
        tokens=tokens,
        sources=[Source(position=int(each), token=tokens[int(each)]) for each in allowed],
        scores=floats(scores[allowed].double()),
        scale=attention.scale,
        weights=floats(run[f"{site}pattern"][0, head.head, at][allowed].double()),
        query=floats(run[f"{site}queries"][0, head.head, at].double()),
        keys=_vectors(keys),
        values=_vectors(values),
        key_lengths=floats(length(keys)),
        value_lengths=floats(length(values)),
    )


def _vectors(rows: Tensor) -> list[list[float]] | None:
    return [floats(row) for row in rows] if rows.numel() <= VECTORS else None


def _series(found: Lookup) -> list[Looked]:
    return [Looked(**{name: each[name] for name in Looked.model_fields}) for each in found.plain()["series"]]
