"""Document 003, fundamentals: the four steps of attention one by one, and as products of matrices."""

import math

import torch
from torch import Tensor

from headwater.claims.evidence import Finding, defined, found
from headwater.claims.given import SMALL, Given
from headwater.claims.registry import checks
from headwater.claims.self_attention.pieces import HEADS, apart, drawn, every_form
from headwater.model.attention import Rule
from headwater.model.forward import project
from headwater.trace.run import Run

FULL = Rule("full", scale=4**-0.5)
"""For queries and keys of width 4."""


def run_of(given: Given) -> Run:
    """A drawn layer of three heads on drawn tokens."""
    return given.drawn(HEADS).record(given.ids(HEADS))


@checks("003-E2")
def projections(given: Given) -> Finding:
    """Rows of the input times each head's matrix, entry by entry, are the model's queries, keys and values."""
    run = run_of(given)
    x, heads = run["L0.in"][0], run.weights.blocks[0].attention

    def multiplied(W: Tensor) -> Tensor:
        return torch.stack([(x[:, :, None] * W_h).sum(dim=1) for W_h in W])

    return found(
        defined("queries", apart(run["L0.queries"][0], multiplied(heads.W_Q)), within=1e-10),
        defined("keys", apart(run["L0.keys"][0], multiplied(heads.W_K)), within=1e-10),
        defined("values", apart(run["L0.values"][0], multiplied(heads.W_V)), within=1e-10),
    )


@checks("003-E3")
def scores(given: Given) -> Finding:
    """Each score is one dot product over √d_k."""
    run = run_of(given)
    by_hand = torch.zeros_like(run["L0.scores"][0])
    for h, (q, k) in enumerate(zip(run["L0.queries"][0], run["L0.keys"][0], strict=True)):
        for n, q_n in enumerate(q):
            for m, k_m in enumerate(k):
                by_hand[h, n, m] = (q_n * k_m).sum() / math.sqrt(HEADS.d_head)
    return found(defined("scores", apart(run["L0.scores"][0], by_hand), within=1e-10))


@checks("003-E4")
def weights(given: Given) -> Finding:
    """Exponentials over their sum (up to n where attention is causal); a constant added to all scores changes nothing."""
    run, causal = run_of(given), given.drawn(SMALL).record(given.ids())
    s, masked = run["L0.scores"].exp(), causal["L0.scores"].exp().tril()
    q, k, v = drawn(3, 1, 2, 9, 4)
    same = zip(every_form(q, k, v, FULL), every_form(q, k + 10, v, FULL), strict=True)
    large = torch.stack(list(every_form(1e4 * q, k, v, FULL)))
    return found(
        defined("weights", apart(run["L0.pattern"], s / s.sum(dim=-1, keepdim=True)), within=1e-10),
        defined("causal", apart(causal["L0.pattern"], masked / masked.sum(dim=-1, keepdim=True)), within=1e-10),
        defined("shifted", max(apart(one, other) for one, other in same), within=1e-10),
        defined("overflow", (~large.isfinite()).sum(), equal=0),
    )


@checks("003-E5")
def outputs(given: Given) -> Finding:
    """The weighted sum of values, term by term, is what the heads hand on."""
    run = run_of(given)
    by_hand = torch.zeros_like(run["L0.mixed"][0])
    for h, (a, v) in enumerate(zip(run["L0.pattern"][0], run["L0.values"][0], strict=True)):
        for n, row in enumerate(a):
            for a_nm, v_m in zip(row, v, strict=True):
                by_hand[h, n] += a_nm * v_m
    return found(defined("outputs", apart(run["L0.mixed"][0], by_hand), within=1e-10))


@checks("003-N5")
def linear_maps(given: Given) -> Finding:
    """Queries, keys and values of a sum are sums of queries, keys and values; and a fourth matrix, W_O, takes the result back."""
    run = run_of(given)
    heads, (one, other) = run.weights.blocks[0].attention, drawn(2, 1, 5, HEADS.d_model)
    linear = [
        apart(project(2 * one - 3 * other, W, None), 2 * project(one, W, None) - 3 * project(other, W, None))
        for W in (heads.W_Q, heads.W_K, heads.W_V)
    ]
    written = torch.stack([mixed @ W_O for mixed, W_O in zip(run["L0.mixed"][0], heads.W_O, strict=True)]).sum(dim=0)
    return found(
        defined("linear", max(linear), within=1e-10),
        defined("written", apart(run["L0.attention"][0], written), within=1e-10),
    )


@checks("003-E7")
def scaled_attention(given: Given) -> Finding:
    """The formula is what all four forms of attention compute, and what a model's heads do."""
    run = run_of(given)
    q, k, v = run["L0.queries"], run["L0.keys"], run["L0.values"]
    formula = (q @ k.mT / math.sqrt(HEADS.d_head)).softmax(dim=-1) @ v
    steps, matrices, blocks, fused = (apart(form, formula) for form in every_form(q, k, v, FULL))
    return found(
        defined("steps", steps, within=1e-10),
        defined("matrices", matrices, within=1e-10),
        defined("blocks", blocks, within=1e-10),
        defined("fused", fused, within=1e-10),
        defined("model", apart(run["L0.mixed"], formula), within=1e-10),
    )
