"""``Words``: an atlas' vocabulary, and the ids that a pattern means."""

import difflib
import heapq
import re
from dataclasses import dataclass
from functools import cached_property
from typing import TYPE_CHECKING, Any

import numpy as np
from jaxtyping import Float64, Int64
from numpy import ndarray
from numpy.typing import NDArray

from headwater.atlas.patterns import NOTATION, Contains, Matches, Pattern, Prefix, checked
from headwater.errors import InputError
from headwater.files.tables import arrays

if TYPE_CHECKING:
    from duckdb import DuckDBPyConnection

TESTS = {Prefix: "starts_with(text, ?)", Contains: "contains(text, ?)", Matches: "regexp_matches(text, ?)"}


@dataclass(frozen=True, eq=False)
class Words:
    """The tokens of a vocabulary, by their ids."""

    texts: tuple[str | None, ...]
    """Exactly; None where the model has no words. A piece of a letter is told by its bytes."""
    shown: tuple[str, ...]
    """As people read them."""
    count: Int64[ndarray, " vocab"]
    """How often each occurs in the corpus; zeros without one."""
    share: Float64[ndarray, " vocab"]
    """p: what share of all tokens each was taken to be."""

    def __len__(self) -> int:
        return len(self.texts)

    def __call__(self, token: int) -> str:
        """One token, for people."""
        return self.shown[token]

    def text(self, token: int) -> str | None:
        """For programs: the token's exact text; None where it has none."""
        return self.texts[token]

    def is_text(self, token: int) -> bool:
        """Whether a token's text is what it stands for: a piece of a letter, told as ``<E2><96>``, stands for no text by itself."""
        text = self.texts[token]
        return text is not None and not re.fullmatch(r"(<[0-9A-F]{2}>)+", text)

    @cached_property
    def _by_text(self) -> dict[str, list[int]]:
        found: dict[str, list[int]] = {}
        for token, text in enumerate(self.texts):
            if text is not None:
                found.setdefault(text, []).append(token)
        return found

    def beginning(self, start: str, most: int) -> list[int]:
        """Tokens that begin with a text, also after a space: the text itself first, then the commonest; for whoever is still typing."""
        spaced = f" {start}"
        fits = [
            (text not in (start, spaced), -count, token)
            for token, (text, count) in enumerate(zip(self.texts, self._counts, strict=True))
            if text is not None and text.startswith((start, spaced))
        ]
        return [token for *_, token in heapq.nsmallest(most, fits)]

    @cached_property
    def _counts(self) -> list[int]:
        return self.count.tolist()

    def find(self, pattern: Pattern, database: "DuckDBPyConnection") -> NDArray[np.uint32]:
        """The ids that a pattern means, rising; none at all is refused. The database has a table ``vocabulary`` of id and text."""
        checked(pattern)
        if isinstance(pattern, int):
            return np.array([self._known(pattern)], np.uint32)
        if isinstance(pattern, str):
            return np.array(self._exact(pattern), np.uint32)
        found = _matching(pattern, database)
        if not len(found):
            raise InputError(
                f"{str(pattern)!r:.80}, which fits no token", f"some of the {len(self):,} tokens", "try a shorter text"
            )
        return found

    def _known(self, token: int) -> int:
        if not 0 <= token < len(self):
            raise InputError(f"the token #{token}", f"ids from 0 to {len(self) - 1:,}", "choose one of them")
        return token

    def _exact(self, text: str) -> list[int]:
        found = self._by_text.get(text)
        if found:
            return found
        near = [each for each in (" " + text, text.strip(), text.lower()) if each in self._by_text]
        near += difflib.get_close_matches(text, self._by_text, n=3)
        advice = f"did you mean {' or '.join(map(repr, dict.fromkeys(near[:3])))}?" if near else "try contains:… or prefix:…"
        raise InputError(
            f"{text!r:.60}, which is no token of this atlas", f"{NOTATION}; many tokens begin with a space", advice
        )


def _matching(pattern: Prefix | Contains | Matches, database: "DuckDBPyConnection") -> NDArray[Any]:
    import duckdb

    text = pattern.pattern if isinstance(pattern, Matches) else pattern.text
    try:
        query = f"FROM vocabulary SELECT id WHERE {TESTS[type(pattern)]} ORDER BY id"
        return arrays(database.execute(query, [text]))["id"]
    except duckdb.InvalidInputException as reason:
        words = str(reason).removeprefix("Invalid Input Error: ").split("\n")[0]
        raise InputError(
            f"the regular expression {text!r:.60} ({words:.100})",
            "one in RE2's syntax: no look-around, no references back",
            "write a simpler one",
        ) from None
