"""Document 003, attention as a soft lookup table: what it gives back, and when that is what a table would."""

import math

import torch
from torch import Tensor

from headwater.claims.evidence import Finding, beside, corrected, defined, found, outside, stated
from headwater.claims.given import Given
from headwater.claims.registry import checks
from headwater.claims.self_attention.pieces import apart, drawn, every_form, length
from headwater.model.attention import Rule, matrix, scores
from headwater.trace.view.lookup import lookup

ENTRIES, WIDTH = 7, 4
BETAS = (1.0, 4.0, 16.0, 64.0)
SCALE = WIDTH**-0.5
SHARP = 1e3
"""A scale at which hardly anything is left for the second best."""


def table(seed: int = 0) -> tuple[Tensor, Tensor, Tensor]:
    """A query, and keys and values of a table."""
    return drawn(WIDTH, seed=seed), drawn(ENTRIES, WIDTH, seed=seed + 1), drawn(ENTRIES, WIDTH, seed=seed + 2)


def unit(vectors: Tensor) -> Tensor:
    """The same directions, all of length 1."""
    return vectors / length(vectors)[..., None]


def attention(q: Tensor, k: Tensor, v: Tensor, scale: float = SCALE) -> Tensor:
    """What the library's attention gives back to one query."""
    return matrix(q[None, None, None], k[None, None], v[None, None], Rule("full", scale))[0, 0, 0]


def alpha(q: Tensor, k: Tensor, scale: float = SCALE) -> Tensor:
    """The library's weights for one query."""
    return scores(q[None, None, None], k[None, None], Rule("full", scale)).softmax(dim=-1)[0, 0, 0]


def best(q: Tensor, k: Tensor) -> int:
    """``argmax_i q · k_i``, by the library's scores."""
    return int(scores(q[None, None, None], k[None, None], Rule("full", 1.0)).argmax())


@checks("003-N11")
def like_a_table(given: Given) -> Finding:
    """Asked for a key, sharp attention gives its value; asked for none of them it still answers, and softly it answers with a mixture."""
    del given
    _, k, v = table()
    k, absent = unit(k), torch.zeros(WIDTH, dtype=torch.float64)

    def errors(scale: float) -> float:
        return max(apart(attention(k_i, k, v, scale), v_i) for k_i, v_i in zip(k, v, strict=True))

    return found(
        stated("found", errors(SHARP), within=1e-10),
        outside("soft", errors(SCALE), within=1e-10),
        outside("absent", length(attention(absent, k, v)), within=1e-10),
        corrected("mean", apart(attention(absent, k, v), v.mean(dim=0)), within=1e-10),
    )


@checks("003-L2")
def soft_becomes_hard(given: Given) -> Finding:
    """Weights, mean, and the limit of large β with its bound; where two keys tie, the limit is the mean of their values."""
    del given
    q, k, v = table()
    j, two = best(q, k), (k @ q).topk(2).values
    gap = float(two[0] - two[1])
    left = [float(1 - alpha(q, k, beta)[j]) - (ENTRIES - 1) * math.exp(-beta * gap) for beta in BETAS]
    twins = torch.cat([k, k[j : j + 1]]), torch.cat([v, v[:1] + 1])
    tied = attention(q, *twins, SHARP)
    return found(
        stated("sums", alpha(q, k).sum() - 1, within=1e-10),
        stated("least", alpha(q, k).min(), above=0),
        stated("mean", apart(attention(q, k, v), (alpha(q, k)[:, None] * v).sum(dim=0)), within=1e-10),
        stated("bound", max(left), below=1e-10),
        stated("limit", apart(attention(q, k, v, SHARP), v[j]), within=1e-10),
        outside("tie", apart(tied, v[j]), within=1e-10),
        corrected("tied_mean", apart(tied, (v[j] + v[0] + 1) / 2), within=1e-10),
        corrected("library", apart(lookup(twins[0] @ q, twins[1], [SHARP]).hard, (v[j] + v[0] + 1) / 2), within=1e-10),
    )


@checks("003-E15")
def hard_lookup(given: Given) -> Finding:
    """Among keys of one length, the key itself has the largest product; a key twice as long as the one that is asked for has a larger one."""
    del given
    _, k, _ = table()
    equal, longer = unit(k), torch.cat([k, 2 * k])
    return found(
        stated("equal", sum(best(k_i, equal) != i for i, k_i in enumerate(equal)), equal=0),
        outside("longer", sum(best(k_i, longer) != i for i, k_i in enumerate(k)), equal=0),
        beside("asked", ENTRIES),
    )


@checks("003-E16")
def weighted_values(given: Given) -> Finding:
    """The sum over all values, term by term, is what every form of attention gives back."""
    del given
    q, k, v = table()
    by_hand = torch.zeros(WIDTH, dtype=torch.float64)
    for alpha_i, v_i in zip(alpha(q, k), v, strict=True):
        by_hand += alpha_i * v_i
    forms = every_form(q[None, None, None], k[None, None], v[None, None], Rule("full", SCALE))
    return found(defined("sum", max(apart(form[0, 0, 0], by_hand) for form in forms), within=1e-10))


@checks("003-E17")
def weights_of_keys(given: Given) -> Finding:
    """Exponentials of the scaled products over their sum, number by number; the library's own lookup has them too."""
    del given
    q, k, v = table()
    raised = [math.exp(sum(float(a * b) for a, b in zip(q, k_i, strict=True)) / math.sqrt(WIDTH)) for k_i in k]
    by_hand = torch.tensor([each / sum(raised) for each in raised], dtype=torch.float64)
    return found(
        defined("weights", apart(alpha(q, k), by_hand), within=1e-10),
        defined("lookup", apart(lookup(k @ q * SCALE, v, [1.0]).weights[0], by_hand), within=1e-10),
    )


@checks("003-N12")
def how_many_count(given: Given) -> Finding:
    """How the answer changes with each value: a table's with one of them, attention's with every one, by its weight."""
    del given
    q, k, v = table()
    moved = [v + one[:, None] for one in torch.eye(ENTRIES, dtype=torch.float64)]
    by_table = torch.stack([each[best(q, k)] - v[best(q, k)] for each in moved])[:, 0]
    by_softmax = torch.stack([attention(q, k, each) - attention(q, k, v) for each in moved])[:, 0]
    far = torch.tensor([[1.0], [0.0]], dtype=torch.float64)
    return found(
        stated("one", (by_table != 0).sum(), equal=1),
        stated("least", by_softmax.min(), above=0),
        stated("weights", apart(by_softmax, alpha(q, k)), within=1e-10),
        beside("underflow", alpha(torch.ones(1, dtype=torch.float64), 1000 * far, 1.0).min()),
    )


@checks("003-N13")
def interpolation(given: Given) -> Finding:
    """Answers lie among the values and move smoothly with the query; the nearest key weighs most only if all keys are equally long."""
    del given
    q, k, v = table()
    along, queries = drawn(1000, WIDTH, seed=5), drawn(1000, WIDTH, seed=6)
    beyond = along @ attention(q, k, v) - (along @ v.T).max(dim=-1).values
    a, step = alpha(q, k), 1e-5
    slope = SCALE * (a[:, None] * (k - a @ k)).T @ (v - a @ v)
    steps = step * torch.eye(WIDTH, dtype=torch.float64)
    measured = torch.stack([attention(q + e, k, v) - attention(q - e, k, v) for e in steps]) / (2 * step)

    def nearest_is_best(keys: Tensor) -> Tensor:
        return (torch.cdist(queries, keys).argmin(dim=-1) == (queries @ keys.T).argmax(dim=-1)).double().mean()

    return found(
        stated("among", beyond.max(), below=1e-10),
        stated("slope", apart(measured, slope), within=1e-8),
        stated("nearest", nearest_is_best(unit(k)), equal=1),
        outside("lengths", nearest_is_best(k), equal=1),
    )
