"""Where the documents disagree, within themselves and with each other."""

import functools
import tomllib
from dataclasses import dataclass
from pathlib import Path

from headwater.claims.claim import Language

FILE = Path(__file__).with_suffix(".toml")


@dataclass(frozen=True, kw_only=True)
class Contradiction:
    """Claims that cannot stand together, and which of them do."""

    ids: tuple[str, ...]
    right: tuple[str, ...]
    en: str
    pt: str

    def text(self, language: Language) -> str:
        """What the matter is."""
        return self.en if language == "en" else self.pt


@functools.cache
def contradictions() -> tuple[Contradiction, ...]:
    """All of them."""
    entries = tomllib.loads(FILE.read_text("utf-8"))["contradiction"]
    return tuple(
        Contradiction(ids=tuple(entry["ids"]), right=tuple(entry["right"]), en=entry["en"], pt=entry["pt"]) for entry in entries
    )
