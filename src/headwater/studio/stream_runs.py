"""Runs that stand beside each other: another model's of the same text, or the same weights' with norms elsewhere."""

from dataclasses import dataclass
from typing import Literal

from fastapi import Request

from headwater.errors import ConfigError, InputError
from headwater.model.config import ModelConfig, PostNorm, PreNorm
from headwater.model.reorder import Order, reordered_config
from headwater.studio.asked import shelf
from headwater.studio.errors import Refused
from headwater.studio.stream_told import OneStream
from headwater.studio.work import Stop
from headwater.trace.run import Run

ELSEWHERE: dict[str, Order] = {"~pre": "pre", "~post": "post"}


@dataclass(frozen=True)
class Asked:
    """The stream that another one is to stand beside."""

    model: str
    text: str
    run: Run


@dataclass(frozen=True)
class Beside:
    """The other one: where to look, and at which token where it has the same one."""

    model: str
    name: str
    order: Literal["own", "pre", "post"]
    run: Run
    position: int
    token: int | None


def orders(config: ModelConfig) -> list[Order]:
    """Where else this model's norms could stand."""
    return [order for order in ("pre", "post") if order != _own(config) and _is_possible(config, order)]


def _own(config: ModelConfig) -> Order | None:
    return "pre" if isinstance(config.norm, PreNorm) else "post" if isinstance(config.norm, PostNorm) else None


def _is_possible(config: ModelConfig, order: Order) -> bool:
    try:
        reordered_config(config, order)
    except ConfigError:
        return False
    return True


def run_of(request: Request, model: str, text: str, order: Literal["own", "pre", "post"], stop: Stop) -> Run:
    """What a model did with a text, or would do with its norms elsewhere."""
    there = shelf(request)
    if order == "own":
        return there.run(model, text, stop)
    config = there.model(model).config
    if order not in orders(config):
        is_own = _own(config) == order
        needed = "another order than its own" if is_own else "blocks whose writes can be normalised one at a time"
        raise Refused(422, f"{model} with norms {order}", needed, "leave it out, or choose another model of the shelf")
    return there.run(model, text, stop, order)


def beside(request: Request, asked: Asked, other: str, one: OneStream, stop: Stop) -> Beside:
    """The other stream at the same place of the text, about the same token where there is one."""
    if other in ELSEWHERE:
        order = ELSEWHERE[other]
        run = run_of(request, asked.model, asked.text, order, stop)
        return Beside(asked.model, one.name, order, run, one.position, one.chosen.id)
    there = shelf(request)
    run = there.run(other, asked.text, stop)
    return Beside(
        other, there.models[other].name, "own", run, _aligned(asked.run, run, one.position), _same(asked.run, run, one)
    )


def _aligned(run: Run, other: Run, position: int) -> int:
    """The first token of the other that ends where this one does, or further on: vocabularies cut a text in different places."""
    ends, others = _ends(run), _ends(other)
    if ends is None or others is None:
        return min(position, other.tokens.shape[1] - 1)
    return next((at for at, end in enumerate(others) if end >= ends[position]), len(others) - 1)


def _ends(run: Run) -> list[int] | None:
    """Bytes up to the end of each token; None where there are no words."""
    if run.tokenizer is None:
        return None
    found, total = list[int](), 0
    for token in run.tokens[0]:
        total += len(run.tokenizer.token_bytes(int(token))) if int(token) < run.tokenizer.size else 0
        found.append(total)
    return found


def _same(run: Run, other: Run, one: OneStream) -> int | None:
    """The same token in the other's vocabulary."""
    if run.tokenizer is None or other.tokenizer is None:
        return one.chosen.id if one.chosen.id < other.config.vocab else None
    if run.tokenizer.sha256 == other.tokenizer.sha256:
        return one.chosen.id
    try:
        return None if one.chosen.text is None else other.find(one.chosen.text)
    except InputError:
        return None
