"""How verbs read the text that they are given."""

import re
import sys
from pathlib import Path
from typing import TYPE_CHECKING

from headwater.cli.terminal import working
from headwater.errors import InputError

if TYPE_CHECKING:
    from headwater.api import Model
    from headwater.model.reorder import Order
    from headwater.trace.run import Run


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
    return [int(token) for token in loaded.tokens(_piped() if text == "-" else text)[0]]


def _piped() -> str:
    """All of standard input, as it is: in UTF-8 whatever the terminal speaks, with the ends of lines that it has."""
    try:
        return sys.stdin.buffer.read().decode()
    except UnicodeDecodeError as wrong:
        given = f"standard input whose byte {wrong.start:,} begins no letter"
        raise InputError(given, "a text in UTF-8", "convert it first, or give --ids") from None


def read_run(model: Path, text: str | None, ids: str | None, norms: "Order | None" = None) -> "Run":
    """What a model, or its weights with ``norms`` elsewhere, did with TEXT or ``--ids``; with neither, the run that the file MODEL holds."""
    from headwater.api import load
    from headwater.model.record import check_finite
    from headwater.trace.kept import is_run
    from headwater.trace.run import load_run

    if text is None and ids is None and is_run(model):
        if norms is not None:
            raise InputError("--norms for a run that was saved", "a model and a text to run anew", "give both, or leave it out")
        run = load_run(model)
    else:
        with working(f"reading {model}"):
            loaded = load(model) if norms is None else load(model).reordered(norms)
        prompt = read_prompt(loaded, text, ids)
        with working(f"running {len(prompt):,} tokens"):
            run = loaded.record(prompt)
    check_finite(run)
    return run


def find_token(run: "Run", text: str | None) -> int | None:
    """The token that a text is, or that ``#id`` names; where there are no words, a number is one too. None stays none."""
    if text is None:
        return None
    number = re.fullmatch(r"#(\d{1,9})" if run.tokenizer else r"#?(\d{1,9})", text, re.ASCII)
    return run.find(int(number[1]) if number else text)
