"""How an error becomes an answer: one JSON body, what was given, what is needed, what to do."""

import json
import sys
import tempfile
from collections.abc import Iterable
from contextlib import suppress
from functools import cache
from pathlib import Path
from typing import Any

from fastapi import FastAPI, Request
from fastapi.exceptions import RequestValidationError
from fastapi.responses import Response
from pydantic import BaseModel
from starlette.exceptions import HTTPException

import headwater
from headwater.errors import HeadwaterError, ModelFileError


class Told(BaseModel):
    """An error, as every route tells it."""

    given: str
    needed: str
    do: str


class Refused(HeadwaterError):  # noqa: N818  (an answer, with a status)
    """A question that is not answered, with the status that says why."""

    def __init__(self, status: int, given: str, needed: str, do: str) -> None:
        super().__init__(given, needed, do)
        self.status = status


class Gone(Exception):  # noqa: N818  (nobody is left whom it could be told to)
    """Whoever asked has left."""


def changed(what: str) -> Refused:
    """The files of something have been replaced since it was opened."""
    return Refused(409, f"the files of {what} have changed since they were opened", "the files as they were", "open it again")


RESPONSES: dict[int | str, dict[str, Any]] = {
    status: {"model": Told, "description": said}
    for status, said in {
        400: "something is wrong with what was asked",
        401: "not signed in",
        403: "from another place",
        404: "nothing of that name",
        405: "no such method",
        408: "half a question",
        409: "the files have changed",
        413: "too long",
        414: "too long",
        422: "something is wrong with what was asked",
        429: "too many questions wait",
        499: "whoever asked has left",
        500: "a bug of ours",
        503: "not now",
        504: "it took too long",
    }.items()
}
"""What any route may answer instead of an answer, for the description."""


def told(status: int, given: str, needed: str, do: str) -> Response:
    """The one body that all errors have; in ASCII, since what somebody gave may be text that has no bytes."""
    body = json.dumps({"given": given, "needed": needed, "do": do})
    return Response(body, status_code=status, media_type="application/json")


def nowhere(text: str, places: Iterable[tuple[Path, str]]) -> str:
    """A text without the places of this machine that stand in it: each by the name that it goes by, or none."""
    known = [(str(path), name) for path, name in places] + [(place, "") for place in _around()]
    for place, name in sorted(known, key=lambda each: -len(each[0])):
        text = text.replace(place, name)
    return text


@cache
def _around() -> tuple[str, ...]:
    """Folders below which whatever is read lies, or may."""
    found = {Path(headwater.__file__).parents[1], Path(sys.prefix), Path(tempfile.gettempdir())}
    for look in (Path.home, Path.cwd):
        # Somebody may have no home, and the folder that this was started in may have gone: the others are hidden all the same.
        with suppress(OSError, RuntimeError):
            found.add(look())
    whole = {path for place in found for path in (place.absolute(), place.resolve())}
    return tuple(f"{place}/" for place in whole if len(place.parts) > 1)


def places_of(request: Request) -> list[tuple[Path, str]]:
    """Of what this studio serves."""
    shelf: Any = getattr(request.app.state, "shelf", None)
    return [] if shelf is None else shelf.places


def answer_errors(app: FastAPI) -> None:
    """Let an application tell its errors this way."""

    async def ours(request: Request, error: Exception) -> Response:
        assert isinstance(error, HeadwaterError), "it is registered for these"
        status = error.status if isinstance(error, Refused) else 409 if isinstance(error, ModelFileError) else 422
        places = places_of(request)
        return told(status, *(nowhere(part, places) for part in (error.given, error.needed, error.do)))

    async def wrong(_: Request, error: Exception) -> Response:
        assert isinstance(error, RequestValidationError), "it is registered for these"
        first = error.errors()[0]
        place = ".".join(str(each) for each in first["loc"][1:]) or "the question"
        return told(
            422, f"{place:.80}: {first.get('input')!r:.80}", f"{first['msg']:.200}", "see the reference of the studio's answers"
        )

    async def missing(_: Request, error: Exception) -> Response:
        assert isinstance(error, HTTPException), "it is registered for these"
        return told(error.status_code, f"{error.detail:.200}", "an address of the studio", "begin at /")

    async def left(_: Request, __: Exception) -> Response:
        return told(499, "whoever asked has left", "somebody to answer", "ask again")

    async def unread(_: Request, error: Exception) -> Response:
        assert isinstance(error, OSError), "it is registered for these"
        return told(503, f"a file that cannot be read ({error.strerror})", "files that can", "check them, and open them again")

    async def ours_to_mend(_: Request, error: Exception) -> Response:
        return told(500, f"a bug of ours ({type(error).__name__})", "a repair", "tell us; the studio's terminal says where")

    app.add_exception_handler(HeadwaterError, ours)
    app.add_exception_handler(RequestValidationError, wrong)
    app.add_exception_handler(HTTPException, missing)
    app.add_exception_handler(Gone, left)
    app.add_exception_handler(OSError, unread)
    app.add_exception_handler(Exception, ours_to_mend)
