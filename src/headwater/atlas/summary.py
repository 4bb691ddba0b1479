"""``heads.json``: what is said about each head as a whole, beside the tables of what it says about tokens."""

import json
from collections.abc import Generator, Mapping, Sequence
from contextlib import contextmanager
from typing import Any, TypeAlias

import torch
from jaxtyping import Int
from torch import Tensor

from headwater.atlas.subject import Subject
from headwater.circuits.composition import MODES, Composition, Link
from headwater.circuits.copying import tally
from headwater.circuits.head import Head
from headwater.circuits.overview import Choices, overview
from headwater.circuits.placement import placements
from headwater.circuits.ports import Mode
from headwater.circuits.streamed.scan import Progress, silent
from headwater.model.weights import Weights

Plain: TypeAlias = dict[str, Any]

DIGITS = 10
"""Significant digits that are kept: the last ones of eigenvalues mean nothing."""
MOST_LINKS = 250_000
"""Pairs of heads whose composition is listed in full; of more, only the strongest are."""
STRONGEST = 1_000


def choices_for(subject: Subject, own_ranks: Mapping[Head, Int[Tensor, " vocab"]]) -> Choices:
    """A model's heads looked at as its atlas looks at it; ``own_ranks`` are those that the pass over all outputs has found."""
    return Choices(
        frequencies=subject.shares,
        scales=subject.settings.scaling,
        offset=subject.settings.offset,
        ranks=False,
        own_ranks=own_ranks,
    )


def summaries(weights: Weights, choices: Choices, progress: Progress = silent) -> Plain:
    """Everything as JSON has it: tokens by their ids, an eigenvalue as ``[real, imaginary]``, None where there is no number.

    =====================  ===============================================================================================
    heads                  one for each: the overview (``headwater.circuits.overview``), and ``placement``, what share of the variance
                           of its scores is due to positions (``headwater.circuits.placement``)
    copying_tally          how many heads each definition calls copying
    self_match_tally       how many it calls self-matching
    composition            who reads whom, and how much by chance; of very many pairs the strongest, and how many there are
    draws                  random heads that each was held against
    given                  what the numbers take for granted beyond the weights
    =====================  ===============================================================================================

    All of it is about tokens as ``W_E`` has them, whatever basis the tables have.
    """
    if not weights.config.layers:
        return {"heads": [], "copying_tally": {}, "self_match_tally": {}, "composition": None, "draws": 0, "given": []}
    with _alone():
        told, pairs = overview(weights, None, choices, lambda share: progress(0.9 * share))
        placed = placements(weights, frequencies=choices.frequencies, scales=choices.scales)
    labels = {label for one in told for label in (*one.copying.given, *one.self_match.given)}
    found = {
        "heads": [{**one.plain(), "placement": of.plain()} for one, of in zip(told, placed, strict=True)],
        "copying_tally": tally([one.copying for one in told]),
        "self_match_tally": tally([one.self_match for one in told]),
        "composition": _composition(pairs),
        "draws": choices.draws.count,
        "given": sorted(labels | {label for one in placed for label in one.given}),
    }
    progress(1.0)
    return _rounded(found)


def document(found: Plain) -> bytes:
    """A summary as a file has it: the same bytes for the same numbers."""
    return json.dumps(found, ensure_ascii=False, indent=1, sort_keys=True, allow_nan=False).encode() + b"\n"


@contextmanager
def _alone() -> Generator[None]:
    """One thread: the order in which several add numbers up depends on how many they are, and small matrices gain nothing by it."""
    threads = torch.get_num_threads()
    torch.set_num_threads(1)
    try:
        yield
    finally:
        torch.set_num_threads(threads)


def _composition(pairs: Composition) -> Plain:
    if pairs.scores.numel() <= MOST_LINKS:
        return pairs.plain()
    strongest = pairs.top(STRONGEST)
    return {
        "chance": pairs.chance,
        "strongest": [link.plain() for link in strongest],
        "pairs": {mode: _counted(pairs.of(mode), pairs.chance, mode, strongest) for mode in MODES},
    }


def _counted(scores: Tensor, chance: float, mode: Mode, kept: Sequence[Link]) -> Plain:
    """How many pairs of a kind there are, and how many of them are listed."""
    return {
        "scored": int((~scores.isnan()).sum()),
        "above_chance": int((scores > chance).sum()),
        "kept": sum(link.reader.endswith(f".{mode}") for link in kept),
    }


def _rounded(value: Any) -> Any:
    match value:
        case float():
            return float(f"{value:.{DIGITS}g}")
        case dict():
            return {key: _rounded(inner) for key, inner in value.items()}  # pyright: ignore[reportUnknownVariableType]
        case list() | tuple():
            return [_rounded(inner) for inner in value]  # pyright: ignore[reportUnknownVariableType]
        case _:
            return value
