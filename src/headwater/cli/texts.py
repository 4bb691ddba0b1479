"""How verbs read the text that they are given."""

import sys
from typing import TYPE_CHECKING

from headwater.errors import InputError

if TYPE_CHECKING:
    from headwater.api import Model


def read_prompt(loaded: "Model", text: str | None, ids: str | None) -> list[int]:
    """The ids of TEXT (``-``: standard input) or of ``--ids``, of which one must be given."""
    if (text is None) == (ids is None):
        raise InputError(
            "both a text and ids" if text is not None else "neither a text nor ids", "one of them", "give TEXT or --ids 1,2,3"
        )
    if ids is not None:
        try:
            return [int(part) for part in ids.replace(",", " ").split()]
        except ValueError:
            raise InputError(f"--ids {ids!r:.80}", "whole numbers", "write --ids 12,7,33") from None
    assert text is not None, "one of the two is there"
    if text.startswith("-") and text != "-":
        raise InputError(
            f"{text!r:.80}", "an option that exists, or a text", "see --help; a text that begins with a dash goes in by '-'"
        )
    return [int(token) for token in loaded.tokens(sys.stdin.read() if text == "-" else text)[0]]
