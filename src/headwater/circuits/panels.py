"""Copying of several heads, joined."""

from collections.abc import Sequence
from dataclasses import replace

from jaxtyping import Float
from torch import Tensor

from headwater.circuits.chance import DRAWS, Draws
from headwater.circuits.copying import Known, Panel, copying
from headwater.circuits.cores import joined_ov_cores
from headwater.circuits.factored import Factored
from headwater.circuits.head import HeadName, find_head
from headwater.circuits.norms import Scaling
from headwater.circuits.tables import ov
from headwater.errors import InputError
from headwater.model.weights import Weights


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
