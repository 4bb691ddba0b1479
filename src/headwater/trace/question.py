"""What can be asked of a run: a number that is linear in the stream that the last block leaves."""

from dataclasses import dataclass

import torch

from headwater.errors import InputError
from headwater.model.config import PreNorm
from headwater.model.record import Record
from headwater.shapes import Stream
from headwater.trace.pull import Constants, through_norm


@dataclass(frozen=True, eq=False)
class Question:
    """``Σ_pos <x_pos, about_pos>`` and constants, ``x`` being the stream after the last block."""

    about: Stream
    constants: Constants


def about_logit(record: Record, position: int, token: int, against: int | None = None) -> Question:
    """The logit of a token after a position, or how far it is above that of another."""
    texts, length = record.tokens.shape
    if texts != 1:
        raise InputError(f"a run of {texts} texts", "a run of one", "record them one by one")
    position = _within(position, length, "position")
    token = _within(token, record.config.vocab, "token")
    W_U, b_U = record.weights.W_U, record.weights.b_U
    wanted, bias = W_U[:, token], None if b_U is None else b_U[token]
    if against is not None:
        against = _within(against, record.config.vocab, "token")
        wanted, bias = wanted - W_U[:, against], None if b_U is None or bias is None else bias - b_U[against]
    q = torch.zeros_like(record["final"])
    q[0, position] = wanted
    constants: Constants = {}
    if bias is not None:
        constants["b_U"] = torch.zeros_like(q[..., 0])
        constants["b_U"][0, position] = bias
    norm = record.config.norm
    if isinstance(norm, PreNorm):
        pulled = through_norm(norm.norm, record.weights.norm_final, record["final.scale"], q)
        q, constants = pulled.question, constants | {f"final.{name}": value for name, value in pulled.constants.items()}
    return Question(q, constants)


def _within(number: int, size: int, what: str) -> int:
    """A number counted from the front, or from the back where it is negative."""
    if not -size <= number < size:
        raise InputError(f"{what} {number}", f"a {what} from 0 to {size - 1}", f"choose another {what}")
    return number % size
