"""What the parts of the screen ``atlas`` share: an atlas that is read, its tokens, and the lines that ask for the same."""

import shlex
from collections.abc import Callable, Mapping
from typing import Annotated, Any, TypeVar

from fastapi import Query, Request

from headwater.atlas.atlas import Atlas
from headwater.atlas.patterns import Pattern, read_pattern, written_pattern
from headwater.errors import InputError
from headwater.studio.asked import Answer, Lines, TokenTold, shelf, worked
from headwater.studio.limits import ROWS
from headwater.studio.work import Stop

Result = TypeVar("Result")
PatternAsked = Annotated[
    str | None,
    Query(
        max_length=1_100,
        description="A token's text, #id, prefix:…, contains:…, regex:… (RE2, at most 200 letters) or exact:…; none is any.",
    ),
]
Limit = Annotated[int, Query(ge=0, le=ROWS)]
Offset = Annotated[int, Query(ge=0, lt=2**40)]


async def read(request: Request, name: str, compute: Callable[[Atlas, Stop], Result]) -> Result:
    """What ``compute`` finds in an atlas."""

    def watched(stop: Stop) -> Result:
        opened = shelf(request).atlas(name)
        with opened.watched(stop.calling):
            return compute(opened, stop)

    return await worked(request, "search", watched)


def typed(request: Request, name: str) -> str:
    """An atlas' folder as whoever started the studio would type it."""
    return shelf(request).atlases[name].typed


def token(atlas: Atlas, number: int) -> TokenTold:
    """A token of an atlas."""
    return TokenTold.of(atlas.words, number)


def pattern(given: str | None) -> Pattern | None:
    """Which tokens are meant; an empty field means any."""
    return read_pattern(given) if given else None


class Missing(Answer):
    """A text that means no token of an atlas, and what may have been meant."""

    slot: str
    given: str
    do: str


def unknown(atlas: Atlas, slot: str, some: Pattern) -> Missing | None:
    """Why a pattern means no token; None where it means some. Whoever is still typing has made no mistake."""
    try:
        with atlas.cursor() as cursor:
            atlas.words.find(some, cursor)
    except InputError as error:
        return Missing(slot=slot, given=error.given, do=error.do)
    return None


def lines(python: str, command: str | None = None) -> Lines:
    """A line of Python, after ``import headwater as hw;``, and a command; where there is none of its own, Python's.

    There is none, either, where somebody's pattern stands in it with what cannot be printed: a terminal would take that for something that it is to do.
    """
    command = command if command and command.isprintable() else None
    return Lines.of(f"import headwater as hw; {python}", command)


def inner(some: Mapping[str, Any] | None, *way: str) -> dict[str, Any]:
    """What stands deep in a document; nothing where some step is missing."""
    found: Any = some
    for step in way:
        found = found.get(step) if isinstance(found, Mapping) else None  # pyright: ignore[reportUnknownMemberType, reportUnknownVariableType]
    return dict(found) if isinstance(found, Mapping) else {}  # pyright: ignore[reportUnknownArgumentType]


def opening(path: str) -> str:
    """The Python that opens an atlas."""
    return f"hw.open_atlas({path!r})"


def in_python(some: Pattern) -> str:
    """A pattern as Python has it: ``Prefix`` and its like are names of ``hw``."""
    return repr(some) if isinstance(some, str | int) else f"hw.{some!r}"


def in_shell(some: Pattern) -> str:
    """A pattern as a shell has it, as one word.

    >>> print(in_shell("it's"), in_shell(17), in_shell("#17"))
    'it'"'"'s' '#17' 'exact:#17'
    """
    return shlex.quote(written_pattern(some))
