"""Document 000, section 2 and the opening of section 3: the QK and OV circuits, and what a skip-trigram is."""

from dataclasses import replace
from math import prod
from typing import cast

import torch
from torch import Tensor

import headwater as hw
from headwater.api import Model
from headwater.circuits.algebra import frobenius
from headwater.claims.evidence import Finding, beside, corrected, defined, found, outside, stated
from headwater.claims.given import SMALL, Given
from headwater.claims.one_layer.as_printed import Printed, apart, every_printed, printed, rounding
from headwater.claims.one_layer.held_out import reading
from headwater.claims.registry import checks
from headwater.model.presets import named
from headwater.shapes import Tokens
from headwater.trace.experts import experts

UNSCALED = replace(SMALL, attention=hw.Attention(heads=3, d_head=4, scaled=False))
PLACED = replace(UNSCALED, positions=hw.LearnedPositions())
SQUARE = replace(SMALL, attention=hw.Attention(heads=1, d_head=SMALL.d_model))
MANY_WORDS = replace(SMALL, vocab=named("gpt2-small").vocab)
BILLION = 1e9


@checks("000-N4")
def two_circuits(given: Given) -> Finding:
    """A head is told by W_Qᵀ W_K and W_O W_V alone: no change of its four matrices that leaves these two as they are can be seen."""
    model, ids = given.drawn(), given.ids()
    block, H, d_head = model.weights.blocks[0].attention, model.config.heads, model.config.d_head
    R, S = torch.randn(2, H, d_head, d_head, generator=torch.Generator().manual_seed(0), dtype=torch.float64)
    turned = {"W_Q": block.W_Q @ R, "W_K": block.W_K @ R.inverse().mT, "W_V": block.W_V @ S, "W_O": S.inverse() @ block.W_O}
    other = Model(model.weights.changed({f"blocks.0.attn.{name}": matrix for name, matrix in turned.items()}))
    run = model.record(ids)
    alone = torch.stack([from_circuits(m, run["embed"][0].T) for m in every_printed(model)])
    return found(
        stated("turned", apart(other.record(ids)["L0.head_writes"], run["L0.head_writes"]), within=1e-10),
        stated("alone", apart(alone, run["L0.head_writes"][0]), within=1e-10),
        beside("moved", apart(turned["W_Q"], block.W_Q)),
    )


@checks("000-E3")
def qk_circuit(given: Given) -> Finding:
    """The table's entries at the text's tokens, against the scores that the softmax gets: as printed, and where a condition is not met."""
    ids, unscaled = given.ids(), given.drawn(UNSCALED)
    table, m = unscaled.qk("L0H0"), printed(unscaled)
    return found(
        stated("scores", score_error(unscaled, ids), within=1e-10),
        stated("table", apart(table.dense(), m.W_E.T @ m.W_Q.T @ m.W_K @ m.W_E), within=1e-10),
        stated("rank", table.rank(), within=UNSCALED.d_head),
        outside("scaled", score_error(given.drawn(), ids), within=1e-10),
        outside("positions", score_error(given.drawn(PLACED), ids), within=1e-10),
        outside("norm", score_error(given.drawn(replace(UNSCALED, norm=hw.PreNorm())), ids), within=1e-10),
    )


@checks("000-E4")
def ov_circuit(given: Given) -> Finding:
    """What a head adds to the logits, measured by taking it out, against its pattern times the table: as printed, and corrected."""
    few, ids = printed(given.drawn()), given.ids()
    square = given.drawn(SQUARE)
    m = printed(square)
    return found(
        stated("fits", few.W_O.T.shape[1] - few.W_V.shape[0], equal=0),
        stated("square", effect_error(square, ids, m.W_U @ m.W_O.T @ m.W_V @ m.W_E), within=1e-10),
        corrected("effect", effect_error(given.drawn(), ids, few.W_U @ few.W_O @ few.W_V @ few.W_E), within=1e-10),
        corrected("same square", effect_error(square, ids, m.W_U @ m.W_O @ m.W_V @ m.W_E), within=1e-10),
        corrected("table", apart(given.drawn().ov("L0H0").dense().T, few.W_U @ few.W_OV @ few.W_E), within=1e-10),
    )


@checks("000-C1")
def source_and_destination(given: Given) -> Finding:
    """One token in the middle is exchanged: scores and ratios of weights stay, weights do not. What a source does to logits is its own."""
    model, ids, source = given.drawn(), torch.tensor([[3, 5, 7, 2]]), 0
    run, other = model.record(ids), model.record(torch.tensor([[3, 11, 7, 2]]))
    A, B = run["L0.pattern"][0, 0], other["L0.pattern"][0, 0]
    unseen = run["L0.pattern"].clone()
    unseen[0, 0, :, source] = 0
    without = model.record(ids, tap=hw.Patch(model.place("L0.pattern"), unseen, "one source unseen"))
    effect, changed = (run.logits - without.logits)[0], (run.logits.softmax(-1) - without.logits.softmax(-1))[0]
    each, moved = effect / A[:, source, None], changed / A[:, source, None]
    return found(
        stated("score", apart(run["L0.scores"][0, :, 3, source], other["L0.scores"][0, :, 3, source]), within=1e-10),
        stated("ratio", A[3, source] / A[3, 2] - B[3, source] / B[3, 2], within=1e-10),
        stated("effect", apart(each, model.ov("L0H0").rows(ids[0, :1])), within=1e-10),
        outside("weight", A[3, source] - B[3, source], within=1e-10),
        outside("probabilities", apart(moved[2], moved[3]), within=1e-10),
    )


@checks("000-N5")
def alignment(given: Given) -> Finding:
    """A score is how far a query and a key point the same way. As a form on tokens it is neither symmetric nor positive."""
    model = given.model("one-layer")
    run, scale = reading(given).run, model.config.attention and model.config.attention.scale
    assert scale is not None, "a one-layer model has heads"
    q, k = run["L0.queries"][0, 0], run["L0.keys"][0, 0]
    aligned = torch.cosine_similarity(q[:, None], k[None], dim=2) * lengths(q)[:, None] * lengths(k)[None] * scale
    scores = run["L0.scores"][0, 0]
    allowed = scores.isfinite()
    drawn = given.drawn().record(given.ids())
    A, x = drawn["L0.pattern"][0], drawn["embed"][0].T
    values = torch.stack([A[h] @ (m.W_OV @ x).T for h, m in enumerate(every_printed(given.drawn()))])
    forms = [m.W_Q.T @ m.W_K for m in every_printed(model)]
    return found(
        stated("alignment", apart(aligned[allowed], scores[allowed]), within=rounding(scores[allowed])),
        stated("values", apart(values, drawn["L0.head_writes"][0]), within=1e-10),
        outside("symmetric", min(frobenius(B - B.T) / frobenius(B) for B in forms), within=1e-10),
        outside("positive", max(least_eigenvalue(B + B.T) for B in forms), above=-1e-10),
        on=given.name("one-layer"),
    )


@checks("000-D1")
def skip_trigram(given: Given) -> Finding:
    """For a source and a destination: the score that decides the weight, and the weight times a row of the OV table; over all sources, the head."""
    model, ids = given.drawn(), given.ids()
    run = model.record(ids)
    scores, A, seen = run["L0.scores"][0, 1], run["L0.pattern"][0, 1], ids[0]
    table = model.qk("L0H1").dense()[seen][:, seen].masked_fill(scores.isinf(), -torch.inf)
    triples = A[:, :, None] * model.ov("L0H1").rows(seen)[None]
    told = experts(run, position=-1, token=4)
    return found(
        defined("weights", apart(table.softmax(dim=1), A), within=1e-10),
        defined("head", apart(triples.sum(dim=1), run["L0.head_writes"][0, 1] @ model.weights.W_U), within=1e-10),
        defined("logit", told.bigram + sum(each.value for each in told.sources) - float(run.logits[0, -1, 4]), within=1e-10),
    )


@checks("000-PC1")
def billions_of_entries(given: Given) -> Finding:
    """The OV table over GPT-2's vocabulary, and over a small one: entries, and the numbers that they are made from."""
    large, small = given.drawn(MANY_WORDS), given.drawn()
    table, m = large.ov("L0H0"), printed(large)
    return found(
        stated("entries", prod(table.shape), above=BILLION),
        stated("entry", table[40_000, 3] - float(m.W_U[3] @ m.W_OV @ m.W_E[:, 40_000]), within=1e-10),
        stated("rank", table.rank(), within=MANY_WORDS.d_head),
        outside("small", prod(small.ov("L0H0").shape), above=BILLION),
        beside("fewest", int(BILLION**0.5) + 1),
    )


def from_circuits(m: Printed, x: Tensor) -> Tensor:
    """A head's writes from W_QK = W_Qᵀ W_K and W_OV = W_O W_V alone, as rows; x has the tokens as columns."""
    scores = x.T @ (m.W_Q.T @ m.W_K) @ x / m.W_Q.shape[0] ** 0.5
    later = torch.ones_like(scores).triu(1).bool()
    return scores.masked_fill(later, -torch.inf).softmax(dim=1) @ (m.W_OV @ x).T


def score_error(model: Model, ids: Tokens) -> float:
    """W_Eᵀ W_Qᵀ W_K W_E at the text's tokens against the scores of the run, at the most over heads."""
    scores, seen = model.record(ids)["L0.scores"][0], ids[0]
    tables = torch.stack([m.W_E.T @ m.W_Q.T @ m.W_K @ m.W_E for m in every_printed(model)])
    allowed = scores.isfinite()
    return apart(tables[:, seen][:, :, seen][allowed], scores[allowed])


def effect_error(model: Model, ids: Tokens, table: Tensor) -> float:
    """What taking the first head out changes in the logits, against its pattern times a table [out, source]."""
    run = model.record(ids)
    without = model.record(ids, tap=hw.Zero(model.place("L0H0")))
    return apart((run.logits - without.logits)[0], run["L0.pattern"][0, 0] @ table.T[ids[0]])


def least_eigenvalue(symmetric: Tensor) -> float:
    """Below zero where some vector has a negative product with itself."""
    return float(cast(Tensor, torch.linalg.eigvalsh(symmetric)).min())


def lengths(vectors: Tensor) -> Tensor:
    """The length of each row."""
    return vectors.square().sum(dim=1).sqrt()
