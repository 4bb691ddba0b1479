"""Document 003, three roles and dimensions: queries, keys and values, the asymmetry of scores, and how much scores vary."""

import itertools
import math

import torch
from jaxtyping import Float
from torch import Tensor

import headwater as hw
from headwater.circuits.algebra import singular_values
from headwater.circuits.head import every_head
from headwater.claims.evidence import Finding, beside, defined, found, outside, reported, stated
from headwater.claims.given import SMALL, Given
from headwater.claims.registry import checks
from headwater.claims.self_attention.descent import descents, multiplied, one_head_model
from headwater.claims.self_attention.one_head import asymmetry, drawn_steps, keys_of_queries
from headwater.claims.self_attention.pieces import HEADS, apart, drawn, every_form
from headwater.claims.self_attention.samples import off, off_trained, products
from headwater.claims.self_attention.softmax import study
from headwater.claims.self_attention.tied import MARKS, on_circle, on_text
from headwater.model.attention import Rule, matrix

Vectors = Float[Tensor, "outcome d_k"]


@checks("003-T3", "003-E21")
def three_maps(given: Given) -> Finding:
    """What the pass calls queries, keys and values is the head's input times three matrices."""
    at = drawn_steps(given)
    return found(
        defined("query", apart(at.q, at.x @ at.W_Q), within=1e-10),
        defined("key", apart(at.k, at.x @ at.W_K), within=1e-10),
        defined("value", apart(at.v, at.x @ at.W_V), within=1e-10),
    )


@checks("003-L4")
def asymmetric_scores(given: Given) -> Finding:
    """‖S − Sᵀ‖ / ‖S‖ of scores and of weights: with two matrices, with W^K = 2 W^Q, and in trained heads."""
    two, multiple = drawn_steps(given), keys_of_queries(given, 2.0)
    model = given.model("one-layer")
    trained = [asymmetry(model.qk(head, dest="stream", source="stream").dense()) for head in every_head(model.config)]
    return found(
        stated("scores", asymmetry(two.scores), above=1e-6),
        stated("weights", asymmetry(two.alpha), above=1e-6),
        outside("multiple", asymmetry(multiple.scores), above=1e-6),
        beside("multiple_weights", asymmetry(multiple.alpha)),
        beside("trained", min(trained)),
        on=given.name("one-layer"),
    )


@checks("003-N17")
def one_matrix_or_two(given: Given) -> Finding:
    """Held-out nats of models trained with W^K = W^Q beside those with two matrices and as many parameters."""
    circle, text = on_circle(given), on_text(given)
    nats = {name: nats for name, (nats, _) in text.items()}
    return found(
        stated("parameters", text["tied"][1] - text["apart"][1], equal=0),
        reported("circle", circle["tied"], above=circle["apart"]),
        reported("text", nats["tied"], above=nats["apart"]),
        beside("guessing", math.log(MARKS)),
        beside("four_heads", circle["four heads"]),
        beside("share", (nats["tied"] - nats["apart"]) / (nats["none"] - nats["apart"])),
    )


@checks("003-E22")
def query_and_key(given: Given) -> Finding:
    """A query and a key, number by number, and the scalar that they make with rows: q_i k_jᵀ."""
    at, i, j = drawn_steps(given), 2, 5
    d, d_k = at.W_Q.shape
    q_i = [float(sum(at.x[i, c] * at.W_Q[c, e] for c in range(d))) for e in range(d_k)]
    k_j = [float(sum(at.x[j, c] * at.W_K[c, e] for c in range(d))) for e in range(d_k)]
    scalar = sum(a * b for a, b in zip(q_i, k_j, strict=True)) / d_k**0.5
    return found(
        defined("query", apart(at.q[i], torch.tensor(q_i, dtype=torch.float64)), within=1e-10),
        defined("key", apart(at.k[j], torch.tensor(k_j, dtype=torch.float64)), within=1e-10),
        defined("score", at.scores[i, j] - scalar, within=1e-10),
        beside("entries", (at.q[[i]].T @ at.k[[j]]).numel()),
    )


@checks("003-E23", "003-E24")
def weights_both_ways(given: Given) -> Finding:
    """α_ij and α_ji of every pair, written out: with a scalar product, as printed for rows, and under a causal mask."""
    full, causal = drawn_steps(given), drawn_steps(given, SMALL)
    pairs = list(itertools.combinations(range(len(full.x)), 2))
    return found(
        stated("there", max(abs(full.alpha[i, j] - weight(full.q[i], full.k, j)) for i, j in pairs), within=1e-10),
        stated("back", max(abs(full.alpha[j, i] - weight(full.q[j], full.k, i)) for i, j in pairs), within=1e-10),
        outside("printed", (full.q[[0]].T @ full.k[[1]]).numel(), equal=1),
        outside("causal", max(abs(causal.alpha[j, i] - weight(causal.q[j], causal.k, i)) for i, j in pairs), within=1e-10),
    )


def weight(query: Float[Tensor, " d_k"], keys: Float[Tensor, "pos d_k"], of: int) -> Tensor:
    """``exp(q · k_of / √d_k) / Σ_m exp(q · k_m / √d_k)`` over all positions."""
    raised = [torch.exp(query.dot(key) / len(query) ** 0.5) for key in keys]
    return raised[of] / sum(raised)


@checks("003-T5", "003-E25")
def sizes(given: Given) -> Finding:
    """Row by column: the sizes of the three matrices, and of what they make of a row of width d."""
    at, d, d_k = drawn_steps(given), HEADS.d_model, HEADS.d_head
    made = [at.x[0] @ W for W in (at.W_Q, at.W_K, at.W_V)]
    every = drawn(100, d) @ at.W_Q
    return found(
        defined("rows", sum(len(W) != d for W in (at.W_Q, at.W_K, at.W_V)), equal=0),
        defined("columns", sum(W.shape[1] != d_k for W in (at.W_Q, at.W_K, at.W_V)), equal=0),
        defined("vectors", apart(torch.stack(made), torch.stack([at.q[0], at.k[0], at.v[0]])), within=1e-10),
        defined("space", (singular_values(every) > 1e-10).sum(), equal=d_k),
    )


@checks("003-T6", "003-E26")
def variance_of_products(given: Given) -> Finding:
    """Var(q · k) / d_k − 1 at its largest over d_k from 4 to 256, where the conditions are met and where one is not."""
    drawn_products = products(given)
    return found(
        stated("normal", off(drawn_products["normal"]), within=0.03),
        stated("signs", off(drawn_products["signs"]), within=0.03),
        outside("same", off(drawn_products["same"]), within=0.03),
        outside("correlated", off(drawn_products["correlated"]), within=0.03),
        outside("shifted", off(drawn_products["shifted"]), within=0.03),
        outside("trained", off_trained(given), within=0.03),
        on=given.name("one-layer"),
    )


@checks("003-E27")
def variance_step_by_step(given: Given) -> Finding:
    """The three equalities on every outcome of three-valued numbers, all alike likely; then with one condition broken at a time."""
    del given
    values = every_vector((-(1.5**0.5), 0.0, 1.5**0.5), 3)
    q, k = values.repeat_interleave(len(values), dim=0), values.repeat(len(values), 1)
    total, terms, factors = variances(q, k)
    equal = every_vector((-1.0, 1.0), 2)[:, [0, 0, 0, 1, 1, 1]]
    coordinates, means, same = variances(equal[:, :3], equal[:, 3:]), variances(q + 1, k + 1), variances(values, values)
    return found(
        stated("sum", total - terms, within=1e-10),
        stated("product", terms - factors, within=1e-10),
        stated("d_k", factors - 3, within=1e-10),
        outside("coordinates", coordinates[0] - coordinates[1], within=1e-10),
        outside("means", means[1] - means[2], within=1e-10),
        outside("same", same[1] - same[2], within=1e-10),
    )


def every_vector(values: tuple[float, ...], d_k: int) -> Vectors:
    """Every vector of these numbers."""
    return torch.tensor(list(itertools.product(values, repeat=d_k)), dtype=torch.float64)


def variances(q: Vectors, k: Vectors) -> tuple[float, float, float]:
    """``Var(q · k)``, ``Σ_l Var(q_l k_l)`` and ``Σ_l Var(q_l) Var(k_l)``, each row of both being as likely as any other."""

    def var(numbers: Tensor) -> Tensor:
        return numbers.var(dim=0, correction=0)

    return float(var((q * k).sum(dim=1))), float(var(q * k).sum()), float((var(q) * var(k)).sum())


@checks("003-C3")
def scale_is_needed(given: Given) -> Finding:
    """With 1/√d_k scores vary by 1 and the softmax stays soft; without it, it saturates, unless something else keeps scores small."""
    first, last = study(given).dimensions[0], study(given).dimensions[-1]
    scaled, unscaled = (given.drawn(one_head_model(scaled=scaled)).weights for scaled in (True, False))
    smaller, ids = multiplied(unscaled, unscaled.config.d_head**-0.25), given.ids(scaled.config)
    patterns = [hw.Model(weights).record(ids)["L0.pattern"] for weights in (scaled, smaller)]
    q, k = torch.nn.functional.normalize(drawn(2, 30_000, 64), dim=-1) * 64**0.25
    return found(
        stated("variance", off(products(given)["normal"], scaled=True), within=0.03),
        stated("kept", last.scaled.median / first.scaled.median, above=0.5),
        stated("lost", last.unscaled.median / first.unscaled.median, below=0.01),
        outside("smaller", apart(*patterns), above=1e-6),
        outside("normalised", (q * k).sum(dim=1).var() - 1, above=0.03),
    )


@checks("003-E28")
def attention_function(given: Given) -> Finding:
    """softmax(QKᵀ/√d_k) V, written out with exponentials, against four forms of attention and the pass of a model."""
    at = drawn_steps(given)
    Q, K, V = at.q, at.k, at.v
    raised = torch.exp(Q @ K.T / Q.shape[1] ** 0.5)
    attention = raised / raised.sum(dim=1, keepdim=True) @ V
    rule = Rule("full", scale=Q.shape[1] ** -0.5)
    forms = [form[0, 0] for form in every_form(Q[None, None], K[None, None], V[None, None], rule)]
    return found(
        defined("pass", apart(at.a, attention), within=1e-10),
        defined("forms", max(apart(form, attention) for form in forms), within=1e-10),
    )


@checks("003-N15")
def scaling_is_crucial(given: Given) -> Finding:
    """Nats of the answer to the recall task after gradient descent: with the scale, without it, and from smaller weights without it."""
    nats, (q, k, v) = descents(given), drawn(3, 1, 1, 9, 1024).float()
    mixed = matrix(q, k, v, Rule("full", scale=1.0))
    return found(
        stated("learning", nats["unscaled"], above=2 * nats["scaled"]),
        outside("smaller", nats["smaller"], above=2 * nats["scaled"]),
        outside("finite", (~mixed.isfinite()).sum(), above=0),
        beside("scaled", nats["scaled"]),
    )
