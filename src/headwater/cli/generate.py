"""``headwater generate``: text from a model, as it is drawn."""

import sys
from collections.abc import Iterator
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any

from cyclopts import Parameter

from headwater.cli.terminal import WHOLE, Flag, Whole, note, show_json, use_cores, working
from headwater.cli.texts import read_prompt

if TYPE_CHECKING:
    from headwater.api import Model


def generate(  # noqa: PLR0913  (each is one choice a person makes on the command line)
    model: Path,
    text: Annotated[str | None, Parameter(allow_leading_hyphen=True)] = None,
    /,
    *,
    ids: Annotated[str | None, Parameter(help="Token ids instead of a text: 12,7,33.")] = None,
    most: Annotated[int, Parameter(name=["--most", "-n"]), WHOLE] = 50,
    temperature: float = 1.0,
    top_k: Whole | None = None,
    top_p: float | None = None,
    seed: Whole = 0,
    stop: str | None = None,
    past_end: Flag = False,
    json: Flag = False,
) -> None:
    """Continue a text.

    The same seed gives the same text.

    Parameters
    ----------
    model
        A model's file or folder, in any format that Headwater reads.
    text
        What to continue; - reads it from standard input.
    most
        How many tokens at the most.
    temperature
        0 takes the likeliest token every time; above 1 is more varied.
    top_k
        Draw among the k likeliest tokens only.
    top_p
        Draw among the fewest tokens whose probabilities reach this share.
    seed
        Of the random numbers.
    stop
        End before this text would appear.
    past_end
        Go on when the model says that the text has ended (with a special token).
    json
        Print one JSON document when all is done.
    """
    from headwater.api import load
    from headwater.model.generate import Sampling

    use_cores()
    sampling = Sampling(temperature=temperature, top_k=top_k, top_p=top_p, seed=seed)
    with working(f"reading {model}"):
        loaded = load(model)
    prompt = read_prompt(loaded, text, ids)
    drawn: list[int] = []
    pieces = _pieces(loaded, prompt, _collect(loaded.generate(prompt, sampling, most=most, past_end=past_end), drawn), stop)
    if json:
        written = "".join(pieces)
        show_json(_document(loaded, prompt, drawn, written, seed))
        return
    for piece in pieces:
        sys.stdout.write(piece)
        sys.stdout.flush()
    sys.stdout.write("\n")
    if len(prompt) + len(drawn) > loaded.config.context:
        note(f"the context of {loaded.config.context:,} positions is full")


def _collect(tokens: Iterator[int], into: list[int]) -> Iterator[int]:
    for token in tokens:
        into.append(token)
        yield token


def _pieces(loaded: "Model", prompt: list[int], tokens: Iterator[int], stop: str | None) -> Iterator[str]:
    """Text as it becomes certain: characters whose bytes are not complete yet, and what may become ``stop``, wait."""
    if loaded.tokenizer is None:
        yield " ".join(map(str, prompt))
        yield from (f" {token}" for token in tokens)
        return
    ids, text = list(prompt), loaded.tokenizer.decode(prompt)
    shown = text.rstrip("\ufffd")
    begin = len(shown)
    yield shown
    for token in tokens:
        ids.append(token)
        text = loaded.tokenizer.decode(ids)
        if stop and stop in text[begin:]:
            yield text[len(shown) : begin + text[begin:].index(stop)]
            return
        certain = text.rstrip("\ufffd")
        certain = certain[: len(certain) - _overlap(certain, stop)] if stop else certain
        if len(certain) > len(shown) and certain.startswith(shown):
            yield certain[len(shown) :]
            shown = certain
    yield text[len(shown) :]


def _overlap(text: str, stop: str) -> int:
    """How many characters at the end of ``text`` begin ``stop``."""
    return next((size for size in range(min(len(text), len(stop) - 1), 0, -1) if text.endswith(stop[:size])), 0)


def _document(loaded: "Model", prompt: list[int], drawn: list[int], written: str, seed: int) -> dict[str, Any]:
    full = len(prompt) + len(drawn) > loaded.config.context
    return {"text": written, "prompt_ids": prompt, "ids": drawn, "seed": seed, "context_full": full}
