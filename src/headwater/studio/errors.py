"""How an error becomes an answer: one JSON body, what was given, what is needed, what to do."""

from typing import Any

from fastapi import FastAPI, Request
from fastapi.exceptions import RequestValidationError
from fastapi.responses import JSONResponse
from pydantic import BaseModel
from starlette.exceptions import HTTPException

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
        409: "the files have changed",
        413: "too long",
        422: "something is wrong with what was asked",
        429: "too many questions wait",
        499: "whoever asked has left",
        500: "a bug of ours",
        503: "not now",
        504: "it took too long",
    }.items()
}
"""What any route may answer instead of an answer, for the description."""


def told(status: int, given: str, needed: str, do: str) -> JSONResponse:
    """The one body that all errors have."""
    return JSONResponse({"given": given, "needed": needed, "do": do}, status_code=status)


def answer_errors(app: FastAPI) -> None:
    """Let an application tell its errors this way."""

    async def ours(_: Request, error: Exception) -> JSONResponse:
        assert isinstance(error, HeadwaterError), "it is registered for these"
        status = error.status if isinstance(error, Refused) else 409 if isinstance(error, ModelFileError) else 422
        return told(status, error.given, error.needed, error.do)

    async def wrong(_: Request, error: Exception) -> JSONResponse:
        assert isinstance(error, RequestValidationError), "it is registered for these"
        first = error.errors()[0]
        place = ".".join(str(each) for each in first["loc"][1:]) or "the question"
        return told(422, f"{place}: {first.get('input')!r:.80}", str(first["msg"]), "see the reference of the studio's answers")

    async def missing(_: Request, error: Exception) -> JSONResponse:
        assert isinstance(error, HTTPException), "it is registered for these"
        return told(error.status_code, str(error.detail), "an address of the studio", "begin at /")

    async def left(_: Request, __: Exception) -> JSONResponse:
        return told(499, "whoever asked has left", "somebody to answer", "ask again")

    app.add_exception_handler(HeadwaterError, ours)
    app.add_exception_handler(RequestValidationError, wrong)
    app.add_exception_handler(HTTPException, missing)
    app.add_exception_handler(Gone, left)
