"""Which tokens are meant: one, or all that a text fits."""

import re
from dataclasses import dataclass
from typing import Any, TypeAlias

from headwater.errors import InputError

MOST_LETTERS = 1_000
MOST_OF_REGEX = 200
"""Letters of a regular expression: few of them can stand for very many states, which take long to build and to go through."""
NOTATION = "a token's text, #id, prefix:…, contains:…, regex:… or exact:…"


@dataclass(frozen=True)
class Prefix:
    """Tokens that begin with a text."""

    text: str

    def __str__(self) -> str:
        return f"prefix:{self.text}"


@dataclass(frozen=True)
class Contains:
    """Tokens that hold a text."""

    text: str

    def __str__(self) -> str:
        return f"contains:{self.text}"


@dataclass(frozen=True)
class Matches:
    """Tokens in which a regular expression is found, in RE2's syntax and of at most 200 letters: its time grows with the text and not faster."""

    pattern: str

    def __str__(self) -> str:
        return f"regex:{self.pattern}"


Pattern: TypeAlias = str | int | Prefix | Contains | Matches
"""A token's exact text, its id, or a kind of text."""


def read_pattern(text: str) -> Pattern:
    """A pattern as it is written on a command line or in an address.

    >>> read_pattern(" keep"), read_pattern("#17"), read_pattern("prefix: de"), read_pattern("exact:#17")
    (' keep', 17, Prefix(text=' de'), '#17')
    """
    number = re.fullmatch(r"#(\d{1,9})", text, re.ASCII)
    if number:
        return int(number[1])
    kind, mark, rest = text.partition(":")
    kinds = {"exact": str, "prefix": Prefix, "contains": Contains, "regex": Matches}
    return checked(kinds[kind](rest) if mark and kind in kinds else text)


def written_pattern(pattern: Pattern) -> str:
    """A pattern as ``read_pattern`` reads it; a text that would be read as another pattern is told to be one.

    >>> written_pattern(" keep"), written_pattern(17), written_pattern(Prefix(" de")), written_pattern("#17")
    (' keep', '#17', 'prefix: de', 'exact:#17')
    """
    written = f"#{pattern}" if isinstance(pattern, int) else str(pattern)
    return written if read_pattern(written) == pattern else f"exact:{written}"


def checked(pattern: Pattern) -> Pattern:
    """Refuse what cannot mean a token."""
    given: Any = pattern
    if isinstance(given, bool) or not isinstance(given, str | int | Prefix | Contains | Matches):
        raise InputError(f"{given!r:.60} as a token", NOTATION, "give a text, an id, or Prefix, Contains or Matches")
    text = (
        pattern.pattern if isinstance(pattern, Matches) else pattern.text if isinstance(pattern, Prefix | Contains) else pattern
    )
    most = MOST_OF_REGEX if isinstance(pattern, Matches) else MOST_LETTERS
    if isinstance(text, str) and not 0 < len(text) <= most:
        given = f"a pattern of {len(text):,} letters"
        raise InputError(given, f"1 to {most:,}: {NOTATION}", "give a shorter one, or leave it out" if text else "leave it out")
    return pattern
