"""What can be asked of a run: any number that is linear in its stream."""

import operator
from collections.abc import Mapping
from dataclasses import dataclass
from typing import SupportsIndex

import torch
from jaxtyping import Float, Int
from torch import Tensor

from headwater.errors import InputError
from headwater.model.config import PreNorm
from headwater.model.record import Record
from headwater.trace.course import course
from headwater.trace.pull import Covectors, through_norm


@dataclass(frozen=True, eq=False)
class Question:
    """``Σ_row <x_row, q_row>`` and constants, ``x`` being the stream at a stage of its course.

    Several questions may be asked at once, along the axes before the last two of ``q``.
    """

    stage: int
    at: Int[Tensor, " row"]
    """The positions that it is about."""
    q: Covectors
    constants: Mapping[str, Float[Tensor, "*many"]]
    """What biases have added since, by their names."""


@torch.no_grad()
def about_logit(record: Record, position: int, token: int, against: int | None = None, *, centred: bool = False) -> Question:
    """The logit of a token after a position; how far it is above another's; or above the mean of all (``centred``).

    A difference of logits is the same difference of log-probabilities: what the softmax divides by falls out.
    """
    check_one_text(record)
    position = within(position, record.tokens.shape[1], "position")
    chosen = [known(each, record.config.vocab) for each in (token, against) if each is not None]
    W_U, b_U = record.weights.W_U, record.weights.b_U
    direction = _above(W_U, chosen, centred=centred)
    bias = None if b_U is None else _above(b_U[None], chosen, centred=centred)
    at = torch.tensor([position], device=W_U.device)
    return about_final(record, at, direction[None], {} if bias is None else {"b_U": bias[0]})


@torch.no_grad()
def about_final(
    record: Record, at: Int[Tensor, " row"], q: Covectors, constants: Mapping[str, Float[Tensor, "*many"]]
) -> Question:
    """A question about what the unembedding reads, as one about the stream that the last block leaves."""
    norm, weights = record.config.norm, record.weights.norm_final
    stage = len(course(record.config))
    if not isinstance(norm, PreNorm):
        return Question(stage, at, q, constants)
    pulled = through_norm(norm.norm, weights, record["final.scale"][0, at], q)
    biases = {f"final.{name}": value.sum(dim=-1) for name, value in pulled.constants.items()}
    return Question(stage, at, pulled.q, {**constants, **biases})


def _above(columns: Float[Tensor, "d_model vocab"], chosen: list[int], *, centred: bool) -> Float[Tensor, " d_model"]:
    first, *others = chosen
    if centred:
        return columns[:, first] - columns.mean(dim=-1)
    return columns[:, first] - columns[:, others[0]] if others else columns[:, first]


def check_one_text(record: Record) -> None:
    """Refuse a record of several texts: a question is about one."""
    if len(record.tokens) != 1:
        raise InputError(f"a run of {len(record.tokens)} texts", "a run of one", "record them one by one")


def within(number: SupportsIndex, size: int, what: str) -> int:
    """A number counted from the front, or from the back where it is negative."""
    number = _whole(number, what)
    if not -size <= number < size:
        raise InputError(
            f"{what} {number}", f"a {what} from 0 to {size - 1}, or from -{size} counted from the end", f"choose another {what}"
        )
    return number % size


def known(token: SupportsIndex, vocab: int) -> int:
    """The id of a token; ids are not counted from the end."""
    token = _whole(token, "token")
    if not 0 <= token < vocab:
        raise InputError(f"token {token}", f"a token from 0 to {vocab - 1}", "choose another token")
    return token


def _whole(number: SupportsIndex, what: str) -> int:
    """Numpy's and torch's whole numbers are some too; truth values are none."""
    try:
        if not isinstance(number, bool):
            return operator.index(number)
    except TypeError:
        pass
    raise InputError(f"{number!r:.40} as a {what}", "a whole number", f"give the {what} as a number, such as 3")
