"""The one family of errors that Headwater raises on purpose.

A new class is made only where a caller would act differently. Every message has three parts: what was *given*, what is
*needed*, and what to *do*. Anything else that escapes is a bug and keeps its traceback.
"""

import difflib
from collections.abc import Iterable


class HeadwaterError(Exception):
    """Something a person can put right.

    >>> print(HeadwaterError("d_head=7 is odd", "rotary positions turn pairs", "use an even d_head"))
    d_head=7 is odd
    rotary positions turn pairs; use an even d_head
    """

    def __init__(self, given: str, needed: str, do: str) -> None:
        super().__init__(given, needed, do)
        self.given, self.needed, self.do = given, needed, do

    def __str__(self) -> str:
        return f"{self.given}\n{self.needed}; {self.do}"

    def within(self, context: str) -> "HeadwaterError":
        """The same error, told from one level further out: the inner code gives the reason, the entry point the place."""
        return type(self)(f"{context}: {self.given}", self.needed, self.do)


class ConfigError(HeadwaterError, ValueError):
    """A configuration or recipe that describes no model."""


class ModelFileError(HeadwaterError, ValueError):
    """A file that is damaged, hostile, incomplete or of a kind that Headwater does not read."""


class InputError(HeadwaterError, ValueError):
    """Tokens, text, names or options that do not fit the model at hand."""


def did_you_mean(name: str, known: Iterable[str]) -> str:
    """A piece of advice: the nearest known names, or some of them.

    >>> did_you_mean("layer", ["layers", "heads"])
    'did you mean layers?'
    """
    known = list(known)
    close = difflib.get_close_matches(name, known, n=3, cutoff=0.6)
    if close:
        return f"did you mean {' or '.join(close)}?"
    more = f" … ({len(known)} in all)" if len(known) > 20 else ""
    return f"use one of: {', '.join(known[:20])}{more}"
