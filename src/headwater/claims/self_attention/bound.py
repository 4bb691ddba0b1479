"""Document 003, Corollary 1: how long an output of attention can be."""

import math
from collections.abc import Callable

import torch
from torch import Tensor

from headwater.circuits.algebra import singular_values
from headwater.claims.evidence import Finding, beside, corrected, found, outside, stated
from headwater.claims.given import Given
from headwater.claims.registry import checks
from headwater.claims.self_attention.pieces import HEADS, drawn, length
from headwater.model.positions import for_each_head
from headwater.trace.run import Run

DRAWS = 30
"""Layers that are drawn, with other weights and other tokens each time."""


def outputs(run: Run) -> Tensor:
    """``‖O_i‖`` of each head at each position."""
    return length(run["L0.mixed"])


def weighted(run: Run) -> Tensor:
    """``Σ_j α_ij ‖v_j‖``."""
    return (run["L0.pattern"] * values(run)[:, :, None]).sum(dim=-1)


def values(run: Run) -> Tensor:
    """``‖v_j‖``."""
    return length(for_each_head(run["L0.values"], run.config.heads))


def longest(run: Run) -> Tensor:
    """``max_j ‖v_j‖`` of each head."""
    return values(run).amax(dim=-1, keepdim=True)


def written(run: Run) -> Tensor:
    """What all heads write together, through W_O."""
    return length(run["L0.attention"])


def most(given: Given, excess: Callable[[Run], Tensor]) -> float:
    """The largest number that any drawn layer gives."""
    draws = range(DRAWS)
    runs = given.once("003: layers", lambda: [given.drawn(HEADS, seed).record(given.ids(HEADS, seed)) for seed in draws])
    return max(float(excess(run).max()) for run in runs)


@checks("003-C1")
def magnitude(given: Given) -> Finding:
    """Each head's output lies among its values, so it is no longer than the longest. What the layer writes can be longer."""
    along = drawn(HEADS.d_head, 200)

    def beyond(run: Run) -> Tensor:
        return run["L0.mixed"] @ along - (run["L0.values"] @ along).amax(dim=2, keepdim=True)

    def over_allowed(run: Run) -> Tensor:
        W_O = run.weights.blocks[0].attention.W_O.flatten(0, 1)
        return written(run) - math.sqrt(run.config.heads) * singular_values(W_O)[0] * longest(run).max()

    return found(
        stated("convex", most(given, beyond), below=1e-10),
        stated("longest", most(given, lambda run: outputs(run) - longest(run)), below=1e-10),
        outside("written", most(given, lambda run: written(run) - longest(run).max()), below=1e-10),
        corrected("allowed", most(given, over_allowed), below=1e-10),
    )


@checks("003-E18")
def both_inequalities(given: Given) -> Finding:
    """The two inequalities one after the other, for drawn layers and for the trained model; after W_O the second fails."""
    run = given.model("one-layer").record(given.windows("one-layer", 2)[:, :-1])
    return found(
        stated("triangle", most(given, lambda run: outputs(run) - weighted(run)), below=1e-10),
        stated("mean", most(given, lambda run: weighted(run) - longest(run)), below=1e-10),
        stated("trained", (outputs(run) - weighted(run)).max(), below=1e-10),
        stated("trained_mean", (weighted(run) - longest(run)).max(), below=1e-10),
        outside("written", most(given, lambda run: written(run) - longest(run).max()), below=1e-10),
        beside("share", (outputs(run) / longest(run)).mean()),
        on=given.name("one-layer"),
    )


@checks("003-E19")
def triangle_inequality(given: Given) -> Finding:
    """No output is longer than the weighted lengths of its values; it is as long where all values point the same way."""
    alpha, v = drawn(1, 9).softmax(dim=-1), drawn(9, 1).abs() * drawn(1, 4)
    return found(
        stated("triangle", most(given, lambda run: outputs(run) - weighted(run)), below=1e-10),
        stated("equality", (length(alpha @ v) - alpha @ length(v)).sum(), within=1e-10),
    )


@checks("003-E20")
def no_longer_than_the_longest(given: Given) -> Finding:
    """It needs weights that add up to 1, not only weights of at most 1; and it is about a head, not about what the layer writes."""
    weights, v = torch.tensor([0.9, 0.9]), torch.tensor([[1.0, 0.0], [1.0, 0.0]])
    return found(
        stated("longest", most(given, lambda run: outputs(run) - longest(run)), below=1e-10),
        outside("at_most_one", length(weights @ v) - length(v).max(), below=1e-10),
        outside("written", most(given, lambda run: written(run) - longest(run).max()), below=1e-10),
    )
