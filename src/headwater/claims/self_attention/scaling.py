"""Document 003, gradient and parallel processing: the derivative of the softmax, what scaling does to it, and attention as matrices."""

import math

import torch
from torch import Tensor

import headwater as hw
from headwater.circuits.algebra import lengths, singular_values
from headwater.claims.evidence import Finding, answered, beside, corrected, defined, found, stated
from headwater.claims.given import Given
from headwater.claims.registry import checks
from headwater.claims.self_attention.counted import RULE, attention_cost, layer_cost
from headwater.claims.self_attention.one_head import drawn_steps
from headwater.claims.self_attention.pieces import HEADS, apart, drawn
from headwater.claims.self_attention.softmax import derivative, study
from headwater.model.attention import Rule, four_steps, matrix, mix, scores

KEYS = 32


@checks("003-QT2")
def scaling_and_gradients(given: Given) -> Finding:
    """The median derivative of the softmax, then of attention's output by its query, at a large d_k over that at a small one."""
    first, last = study(given).dimensions[0], study(given).dimensions[-1]
    largest = max(max(at.scaled.largest_entry, at.unscaled.largest_entry) for at in study(given).dimensions)
    few, many = 4, 1024
    unscaled = query_gradient(many, scale=1.0) / query_gradient(few, scale=1.0)
    scaled = query_gradient(many, scale=many**-0.5) / query_gradient(few, scale=few**-0.5)
    return found(
        answered("entry", largest, within=0.25 + 1e-12),
        answered("unscaled", last.unscaled.median / first.unscaled.median, below=0.01),
        answered("scaled", last.scaled.median / first.scaled.median, above=0.5),
        answered("query_unscaled", unscaled, below=0.1),
        answered("query_scaled", scaled, above=0.5),
    )


def query_gradient(d_k: int, scale: float, draws: int = 200) -> float:
    """The median length of the gradient of attention's output, one number wide, by its query."""
    q = drawn(draws, 1, 1, d_k, seed=1).requires_grad_()
    k, v = drawn(draws, 1, KEYS, d_k, seed=2), drawn(draws, 1, KEYS, 1, seed=3)
    mix(scores(q, k, Rule("full", scale)).softmax(dim=-1), v).sum().backward()
    assert q.grad is not None, "the output depends on it"
    return float(lengths(q.grad.flatten(1)).median())


@checks("003-T8", "003-E34")
def derivative_of_softmax(given: Given) -> Finding:
    """p_i (δ_ij − p_j) of one row of a head's pattern, against what the model's pass does when a score is nudged."""
    model, ids, head, row = given.drawn(HEADS), given.ids(HEADS), 1, 3
    place, before = model.place("L0.scores"), model.record(ids)["L0.scores"]

    def nudged(j: int, amount: float) -> Tensor:
        after = before.clone()
        after[0, head, row, j] += amount
        return model.record(ids, tap=hw.Patch(place, after, "a nudge"))["L0.pattern"][0, head, row]

    p = drawn_steps(given).alpha[row]
    slopes = torch.stack([(nudged(j, 1e-5) - nudged(j, -1e-5)) / 2e-5 for j in range(len(p))], dim=1)
    formula = p[:, None] * (torch.eye(len(p)) - p[None, :])
    return found(
        stated("formula", apart(formula, slopes), within=1e-9),
        stated("rows", formula.sum(dim=1).abs().max(), within=1e-10),
    )


@checks("003-C4")
def no_explosion(given: Given) -> Finding:
    """ln of the derivative against ‖s‖ from d_k = 1 to 1024, its bounds over scores of every size, and where it goes."""
    first, last = study(given).dimensions[0], study(given).dimensions[-1]
    grown = math.log(last.unscaled.mean / first.unscaled.mean) / (last.score_length - first.score_length)
    s = drawn(4000, 8) * 10 ** torch.linspace(-2, 2, 4000, dtype=torch.float64)[:, None]
    J = derivative(s)
    spectral, top = singular_values(J)[:, 0], s.sort(dim=1, descending=True).values
    bound = 2 * (s.shape[1] - 1) * torch.exp(top[:, 1] - top[:, 0])
    return found(
        stated("exponent", grown - 1, within=0.1),
        corrected("entry", J.abs().max(), within=0.25 + 1e-12),
        corrected("spectral", spectral.max(), within=0.5 + 1e-12),
        corrected("gap", (spectral - bound).max(), below=1e-12),
        corrected("unscaled", last.unscaled.median / first.unscaled.median, below=0.01),
        corrected("scaled", last.scaled.median / first.scaled.median, above=0.5),
        beside("length", last.score_length),
    )


@checks("003-N16")
def all_at_once(given: Given) -> Finding:
    """Matrices against a loop over positions; a position alone against all together; operations in a row for N and for 4N."""
    del given
    N, d = 16, 8
    q, k, v = drawn(3, 1, 1, N, d)
    whole = matrix(q, k, v, RULE)
    alone = torch.cat([matrix(q[:, :, [i]], k, v, RULE) for i in range(N)], dim=2)
    return found(
        stated("loop", apart(whole, four_steps(q, k, v, RULE)), within=1e-10),
        stated("alone", apart(whole, alone), within=1e-10),
        stated("calls", attention_cost(4 * N, d).calls - attention_cost(N, d).calls, equal=0),
        stated("layer", layer_cost(4 * N, d).calls - layer_cost(N, d).calls, equal=0),
    )


@checks("003-E35")
def matrix_form(given: Given) -> Finding:
    """Attention of N rows with d_k ≠ d_v, and what comes out row by row."""
    del given
    N, d_k, d_v = 6, 4, 5
    Q, K, V = drawn(N, d_k, seed=1), drawn(N, d_k, seed=2), drawn(N, d_v, seed=3)
    A = mix(scores(Q[None, None], K[None, None], Rule("full", d_k**-0.5)).softmax(dim=-1), V[None, None])[0, 0]
    raised = torch.exp(Q @ K.T / d_k**0.5)
    return found(
        defined("formula", apart(A, torch.stack([row / row.sum() for row in raised]) @ V), within=1e-10),
        defined("rows", A.shape[0], equal=N),
        defined("columns", A.shape[1], equal=d_v),
    )
