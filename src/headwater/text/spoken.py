"""Token ids as people read them, and as programs do."""

import unicodedata
from dataclasses import dataclass

from headwater.text.tokenizer import Tokenizer

QUOTES = ("‘’", "“”", "«»")
"""The first that are not in a word stand around it."""
LEFTWARD = {"R", "AL", "AN"}
"""What Unicode calls letters and digits of scripts that are read from right to left."""


@dataclass(frozen=True)
class Spoken:
    """Ids as words in quotes, since many tokens begin with a space.

    >>> Spoken(None)(7)
    '#7'
    """

    tokenizer: Tokenizer | None

    def __call__(self, token: int) -> str:
        """One token; by its number where it has no word: a vocabulary may be larger than its tokenizer's."""
        word = self._shown(token)
        if word is None:
            return f"#{token}"
        marks = next((pair for pair in QUOTES if not set(pair) & set(word)), QUOTES[0])
        quoted = marks[0] + word + marks[1]
        # Isolated, or a word that is read from the right would turn the arrows and numbers beside it.
        return f"\u2068{quoted}\u2069" if any(unicodedata.bidirectional(letter) in LEFTWARD for letter in word) else quoted

    def text(self, token: int) -> str | None:
        """For programs: the token's exact text; None where it has none."""
        shown = self._shown(token)
        if self.tokenizer is None or shown is None:
            return None
        try:
            return self.tokenizer.token_bytes(token).decode()
        except UnicodeDecodeError:
            return shown

    def _shown(self, token: int) -> str | None:
        there = self.tokenizer is not None and token < self.tokenizer.size
        return self.tokenizer.display(token) if self.tokenizer and there else None
