"""What routes share: the studio that they belong to, and how their parameters and answers are described."""

import math
import re
import shlex
from collections.abc import Callable
from typing import TYPE_CHECKING, Annotated, Any, SupportsFloat, TypeVar

import numpy as np
from fastapi import Query, Request, Response
from pydantic import BaseModel, ConfigDict

from headwater.studio.errors import Refused
from headwater.studio.limits import CELLS, TEXT
from headwater.studio.memory import Memory
from headwater.studio.shelf import Shelf
from headwater.studio.work import Desk, Stop

if TYPE_CHECKING:
    from headwater.atlas.words import Words
    from headwater.text.spoken import Spoken
    from headwater.trace.run import Run

Result = TypeVar("Result")


class Answer(BaseModel):
    """An answer in JSON. Those that hold numbers of a screen say in ``lines`` how the same are had without the studio."""

    model_config = ConfigDict(extra="forbid", ser_json_inf_nan="null")


class Lines(Answer):
    """How to have the same numbers without the studio."""

    python: str
    shell: str

    @staticmethod
    def of(python: str, shell: str | None = None) -> "Lines":
        """Some Python, and a command; where there is none of its own, Python's."""
        return Lines(python=python, shell=shell or f"python -c {shlex.quote(python)}")


class TokenTold(Answer):
    """A token: its exact text, or its bytes where it is a piece of a letter (none where the model has no words); how people read it; its id."""

    text: str | None
    shown: str
    id: int

    @staticmethod
    def of(words: "Spoken | Words", token: int) -> "TokenTold":
        """A token of a vocabulary."""
        return TokenTold(text=words.text(token), shown=words(token), id=token)


Named = Annotated[str, Query(min_length=1, max_length=120, description="An id from the studio's shelf.")]
Text = Annotated[str, Query(min_length=1, max_length=TEXT, description="The text, or ids:1,2,3.")]
Position = Annotated[int, Query(ge=-(2**31), le=2**31, description="Of a token; from the end where it is negative.")]
TokenName = Annotated[str, Query(max_length=200, description="A token's exact text, or #id.")]
HeadAsked = Annotated[str, Query(max_length=20, pattern=r"^[Ll]\d{1,5}[Hh]\d{1,5}$", description="Such as L0H3.")]


def shelf(request: Request) -> Shelf:
    """What the studio serves."""
    return request.app.state.shelf


def memory(request: Request) -> Memory:
    """What the studio keeps between questions."""
    return request.app.state.memory


async def worked(request: Request, lane: str, compute: Callable[[Stop], Result]) -> Result:
    """What ``compute`` finds, in a lane (``model``, ``search`` or ``files``), for as long as somebody waits for it.

    Whatever it takes from the shelf must have the same files afterwards; else the answer is refused.
    """
    desk: Desk = request.app.state.desk
    there = shelf(request)

    def checked(stop: Stop) -> Result:
        with there.unchanged():
            return compute(stop)

    return await desk.answer(request, lane, checked)


def numbers(values: Any, **facts: object) -> Response:
    """An array as its bytes: float32, or uint8 where it is that, row by row; its shape stands in a header."""
    array = np.ascontiguousarray(values)
    if array.dtype != np.uint8:
        array = array.astype("<f4")
    if array.size > CELLS:
        raise Refused(413, f"{array.size:,} numbers", f"at most {CELLS:,}", "ask for fewer positions")
    told = {f"x-{name.replace('_', '-')}": str(value) for name, value in facts.items()}
    shape = ",".join(map(str, array.shape))
    return Response(
        array.tobytes(), media_type="application/octet-stream", headers={"x-shape": shape, "x-dtype": str(array.dtype), **told}
    )


BINARY: dict[int | str, dict[str, Any]] = {
    200: {
        "description": "Little-endian numbers, row by row; x-shape and x-dtype (float32 or uint8) say how to read them.",
        "content": {"application/octet-stream": {"schema": {"type": "string", "format": "binary"}}},
    }
}
"""How a route that answers with ``numbers`` is described."""


def finite(value: Any) -> float | None:
    """A number as JSON has it: None for what is none, and for what is not finite.

    >>> finite(1), finite(float("nan")), finite("1")
    (1.0, None, None)
    """
    number = float(value) if isinstance(value, SupportsFloat) else math.nan
    return number if math.isfinite(number) else None


def number_in(text: str, *, has_words: bool) -> int | None:
    """The id that ``#id`` names; where there are no words, a bare number is one too."""
    number = re.fullmatch(r"#(\d{1,9})" if has_words else r"#?(\d{1,9})", text, re.ASCII)
    return int(number[1]) if number else None


def token_of(run: "Run", text: str | None) -> int | None:
    """The token that a text is, or that ``#id`` names; none where nothing is said."""
    if text is None:
        return None
    number = number_in(text, has_words=run.tokenizer is not None)
    return run.find(text if number is None else number)
