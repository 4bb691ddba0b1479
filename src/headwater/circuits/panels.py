"""Copying and self-match of a model's heads, by themselves and joined."""

from collections.abc import Sequence
from dataclasses import replace

from jaxtyping import Float
from torch import Tensor

from headwater.circuits.chance import DRAWS, Draws
from headwater.circuits.copying import SELF_MATCH, Known, Panel, copying
from headwater.circuits.cores import joined_ov_cores, ov_cores, qk_cores
from headwater.circuits.factored import Factored
from headwater.circuits.head import Head, HeadName, find_head
from headwater.circuits.norms import Scaling
from headwater.circuits.streamed.scan import Progress, silent
from headwater.circuits.tables import ov, qk
from headwater.errors import InputError
from headwater.model.config import RotaryPositions
from headwater.model.weights import Weights


def copying_heads(
    weights: Weights,
    *,
    frequencies: Float[Tensor, " vocab"] | None = None,
    scales: Scaling = "one",
    draws: Draws = DRAWS,
    progress: Progress = silent,
) -> dict[Head, Panel]:
    """Whether each head raises the tokens that it looks at."""
    panels: dict[Head, Panel] = {}
    for head, cores in (found := ov_cores(weights, scales=scales)).items():
        circuit = ov(weights, head, scales=scales)
        panels[head] = copying(circuit, str(head), frequencies=frequencies, known=Known(cores), draws=draws)
        progress(len(panels) / len(found))
    return panels


def copying_joined(
    weights: Weights,
    heads: Sequence[HeadName],
    *,
    frequencies: Float[Tensor, " vocab"] | None = None,
    scales: Scaling = "one",
    draws: Draws = DRAWS,
    leaves_out_ranks: bool = False,
) -> Panel:
    """Whether some heads together raise the tokens that they look at: the panel of their OV circuits' sum.

    >>> from headwater.model.presets import named
    >>> copying_joined(Weights.draw(named("one-layer"), seed=0), ["L0H1", "L0H2"], draws=Draws(20)).name
    'L0H1 + L0H2'
    """
    chosen = [find_head(head, weights.config) for head in heads]
    if not chosen:
        raise InputError("no heads to join", "at least one", "name some, such as L0H1 and L0H2")
    circuits = [ov(weights, head, scales=scales) for head in chosen]
    known = Known(joined_ov_cores(weights, chosen, scales=scales), leaves_out_ranks=leaves_out_ranks)
    panel = copying(Factored.sum(circuits), " + ".join(map(str, chosen)), frequencies=frequencies, known=known, draws=draws)
    return replace(panel, given=tuple(dict.fromkeys(label for circuit in circuits for label in circuit.given)))


def self_match_heads(
    weights: Weights,
    *,
    frequencies: Float[Tensor, " vocab"] | None = None,
    offset: int = 0,
    scales: Scaling = "one",
    draws: Draws = DRAWS,
    progress: Progress = silent,
) -> dict[Head, Panel]:
    """Whether each head looks for the token that it looks from; under rotary positions, ``offset`` tokens back."""
    panels: dict[Head, Panel] = {}
    apart = offset if isinstance(weights.config.positions, RotaryPositions) else None
    for head, cores in (found := qk_cores(weights, offset=offset, scales=scales)).items():
        circuit = qk(weights, head, offset=apart, scales=scales)
        known = Known(cores)
        panels[head] = copying(circuit, str(head), frequencies=frequencies, known=known, draws=draws, words=SELF_MATCH)
        progress(len(panels) / len(found))
    return panels
