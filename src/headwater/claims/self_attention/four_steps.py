"""Document 003, complete formulation: self-attention in four steps, and what the scale does for the exponentials."""

import math
from collections.abc import Callable

import torch
from jaxtyping import Float
from torch import Tensor

from headwater.claims.evidence import Finding, beside, defined, found, outside, stated
from headwater.claims.given import SMALL, Given
from headwater.claims.registry import checks
from headwater.claims.self_attention.one_head import Steps, drawn_steps
from headwater.claims.self_attention.pieces import HEADS, apart, drawn, every_form
from headwater.claims.self_attention.samples import off, off_trained, products
from headwater.claims.self_attention.softmax import derivative
from headwater.model.attention import Rule, matrix

FORMATS = (torch.float16, torch.float32, torch.float64)


@checks("003-T7")
def all_four_steps(given: Given) -> Finding:
    """From x to a in loops over positions, against the pass of a model without a mask, of one with it, and four forms of attention."""
    full, causal = drawn_steps(given), drawn_steps(given, SMALL)
    q, k, v = (part[None, None] for part in (full.q, full.k, full.v))
    forms = every_form(q, k, v, Rule("full", scale=HEADS.d_head**-0.5))
    return found(
        defined("steps", apart(full.a, in_four_steps(full, sees=lambda i: len(full.x))), within=1e-10),
        defined("causal", apart(causal.a, in_four_steps(causal, sees=lambda i: i + 1)), within=1e-10),
        defined("forms", max(apart(full.a, form[0, 0]) for form in forms), within=1e-10),
    )


def in_four_steps(at: Steps, sees: Callable[[int], int]) -> Float[Tensor, "pos d_v"]:
    """Projection, scores, softmax and aggregation, where position i sees the first ``sees(i)``."""
    out: list[Tensor] = []
    for i, x_i in enumerate(at.x):
        seen = at.x[: sees(i)]
        q_i, k, v = x_i @ at.W_Q, [x_j @ at.W_K for x_j in seen], [x_j @ at.W_V for x_j in seen]
        score = [q_i.dot(k_j) / len(q_i) ** 0.5 for k_j in k]
        alpha = [torch.exp(s) / sum(torch.exp(s_m) for s_m in score) for s in score]
        out.append(torch.stack([a * v_j for a, v_j in zip(alpha, v, strict=True)]).sum(dim=0))
    return torch.stack(out)


@checks("003-E29")
def projection(given: Given) -> Finding:
    """Step 1, entry by entry: q_i[e] is the sum over c of x_i[c] W^Q[c, e], and so for keys and values."""
    at = drawn_steps(given)

    def projected(W: Tensor) -> Tensor:
        return sum((at.x[:, [c]] * W[c] for c in range(len(W))), torch.zeros(len(at.x), W.shape[1]))

    return found(
        defined("query", apart(at.q, projected(at.W_Q)), within=1e-10),
        defined("key", apart(at.k, projected(at.W_K)), within=1e-10),
        defined("value", apart(at.v, projected(at.W_V)), within=1e-10),
    )


@checks("003-E30")
def score(given: Given) -> Finding:
    """Step 2: the scalar product of every query with every key over √d_k; the table of all pairs of tokens holds the same."""
    at, ids = drawn_steps(given), given.ids(HEADS)[0]
    products_ = torch.stack([torch.stack([q_i.dot(k_j) for k_j in at.k]) for q_i in at.q])
    table = given.drawn(HEADS).qk("L0H1").dense()
    return found(
        defined("pass", apart(at.scores, products_ / HEADS.d_head**0.5), within=1e-10),
        defined("table", apart(at.scores, table[ids][:, ids]), within=1e-10),
    )


@checks("003-E31")
def normalisation(given: Given) -> Finding:
    """Step 3: every exponential over the sum of its row's."""
    at = drawn_steps(given)
    raised = torch.exp(at.scores)
    rows = torch.stack([row / row.sum() for row in raised])
    return found(
        defined("weights", apart(at.alpha, rows), within=1e-10),
        defined("sums", (at.alpha.sum(dim=1) - 1).abs().max(), within=1e-10),
    )


@checks("003-E32")
def aggregation(given: Given) -> Finding:
    """Step 4: each output is the sum of all values, each times its weight."""
    at = drawn_steps(given)
    sums = [sum((at.alpha[i, j] * at.v[j] for j in range(len(at.v))), torch.zeros(HEADS.d_head)) for i in range(len(at.x))]
    return found(defined("outputs", apart(at.a, torch.stack(sums)), within=1e-10))


@checks("003-L6")
def variance_whatever_the_size(given: Given) -> Finding:
    """Var(q · k / √d_k) − 1 at its largest over d_k from 4 to 256, where the conditions of Theorem 6 are met and where not."""
    scores = products(given)
    return found(
        stated("normal", off(scores["normal"], scaled=True), within=0.03),
        stated("signs", off(scores["signs"], scaled=True), within=0.03),
        outside("same", off(scores["same"], scaled=True), within=0.03),
        outside("shifted", off(scores["shifted"], scaled=True), within=0.03),
        outside("trained", off_trained(given), within=0.03),
        on=given.name("one-layer"),
    )


@checks("003-N18")
def exponentials_in_reach(given: Given) -> Finding:
    """999 of 1000 scores at the start are below what float16 can raise, whatever d_k; variance 1 does not bound the thousandth."""
    scores, most = products(given)["normal"], math.log(torch.finfo(torch.float16).max)
    usual = {d_k: float(dots.abs().quantile(0.999)) for d_k, dots in scores.items()}
    rare = torch.zeros(10_000)
    rare[0] = 100.0
    return found(
        stated("scaled", max(score / d_k**0.5 for d_k, score in usual.items()), below=most),
        stated("unscaled", max(usual.values()), above=most),
        outside("rare", rare.exp().isinf().sum(), equal=0),
        beside("rare_variance", rare.var()),
    )


@checks("003-E33")
def variance_divided(given: Given) -> Finding:
    """Dividing by √d_k divides the variance by d_k, always; that it is 1 then needs the conditions of Theorem 6."""
    scores = products(given)
    every = [(dots, d_k) for of_size in scores.values() for d_k, dots in of_size.items()]
    return found(
        stated(
            "divided", max(abs(float((dots / d_k**0.5).var() / (dots.var() / d_k)) - 1) for dots, d_k in every), within=1e-10
        ),
        stated("one", off(scores["normal"], scaled=True), within=0.03),
        outside("same", off(scores["same"], scaled=True), within=0.03),
        outside("shifted", off(scores["shifted"], scaled=True), within=0.03),
    )


@checks("003-PC1")
def large_exponentials(given: Given) -> Finding:
    """e^z above and below the largest number of three formats, softmax as it is computed, and its derivative where it saturates."""
    del given
    above, below = ([finite_softmax(format_, share) for format_ in FORMATS] for share in (1.01, 0.99))
    q, k, v = drawn(3, 1, 1, 9, 4).float()
    J = derivative(torch.tensor([[100.0, 0.0, 0.0]], dtype=torch.float64))
    return found(
        stated("overflow", sum(above), equal=0),
        stated("below", sum(below), equal=len(FORMATS)),
        stated("subtracted", (~matrix(1000 * q, k, v, Rule("full", scale=1.0)).isfinite()).sum(), equal=0),
        stated("gradient", J.abs().max(), below=1e-40),
    )


def finite_softmax(format_: torch.dtype, share: float) -> bool:
    """Whether ``e^z / Σ e^z`` is a number where the largest ``z`` is this share of the logarithm of the largest number."""
    raised = torch.tensor([share * math.log(torch.finfo(format_).max), 0.0], dtype=format_).exp()
    return bool((raised / raised.sum()).isfinite().all())
