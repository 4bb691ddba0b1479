"""Document 004, attention: who reads other tokens, how each query meets the keys, and what a head moves."""

from dataclasses import replace

import torch

import headwater as hw
from headwater.circuits.algebra import qr
from headwater.claims.evidence import Finding, defined, found, outside, reported, stated
from headwater.claims.given import Given
from headwater.claims.integration.influence import moved, over_positions, replaced
from headwater.claims.integration.recalling import ASKED, FAR, TASK, accuracy, one_layer
from headwater.claims.integration.written import FULL, POST, PRE, apart, multi_head, tensors_of
from headwater.claims.registry import checks
from headwater.trace.view.locality import alone, locality
from headwater.train.predictors import Transformer
from headwater.train.studies.recall import ask

KINDS = (
    POST,
    PRE,
    replace(PRE, norm=hw.PreNorm(norm=hw.RMSNorm())),
    replace(PRE, feed_forward=hw.FeedForward(d_mlp=20, reads="beside-attention")),
    replace(PRE, feed_forward=hw.GatedFeedForward(d_mlp=20)),
)
"""Blocks of five kinds: norms after and before, RMSNorm, the feed-forward network beside attention, a gated one."""


@checks("004-N5")
def only_attention(given: Given) -> Finding:
    """Blocks of five kinds, component by component: which change other positions when their input changes at one?"""
    ids = given.ids(POST)
    mixing = [name for kind in KINDS for name in locality(given.drawn(kind).weights, ids, 3).mixing]
    embeddings = given.drawn(POST).record(ids)["embed"]
    batch_norm = alone(over_positions, embeddings, embeddings.flip(1), 3)
    return found(
        stated("attention", mixing.count("L0.attention"), equal=len(KINDS)),
        stated("others", len(mixing) - mixing.count("L0.attention"), equal=0),
        outside("over-positions", batch_norm.later or 0.0, equal=0),
    )


@checks("004-E10.32")
def equation(given: Given) -> Finding:
    """``MultiHeadAttention(x_i, [x_1 … x_N])`` where every token sees all, and where a token sees those up to itself."""
    full, causal, ids = given.drawn(FULL), given.drawn(POST), given.ids(POST)
    x, length = full.record(ids)["L0.in"][0], ids.shape[1]
    all_of_them = torch.stack([multi_head(full, x[i], x) for i in range(length)])
    up_to_itself = torch.stack([multi_head(causal, x[i], x[: i + 1]) for i in range(length)])
    return found(
        defined("full", apart(full.record(ids)["L0.t1"][0], all_of_them), within=1e-10),
        defined("causal", apart(causal.record(ids)["L0.t1"][0], up_to_itself), within=1e-10),
    )


@checks("004-N6")
def fundamental(given: Given) -> Finding:
    """The recall task: one trained layer over the longest gap, and the same model with its attention silenced; then over all gaps."""
    weights = one_layer(given)
    W_O = "blocks.0.attn.W_O"
    silenced = Transformer(weights.changed({W_O: torch.zeros_like(weights.tensors()[W_O])}))
    worst = min(accuracy(given, "1 layer", gap) for gap in TASK.gaps)
    return found(
        reported("far", accuracy(given, "1 layer", FAR), above=ask(silenced, TASK, FAR, ASKED).accuracy),
        reported("any-gap", worst, above=max(accuracy(given, "0 layers", gap) for gap in TASK.gaps)),
    )


@checks("004-N7")
def all_keys(given: Given) -> Finding:
    """Every query against every key, ``exp(q · k / √d_k)`` in shares, and the values mixed by them; then under a causal mask."""
    run, causal = (given.drawn(config).record(given.ids(POST), ["L0.pattern"]) for config in (FULL, POST))
    q, k, v = (run[f"L0.{name}"][0] for name in ("queries", "keys", "values"))
    raised = torch.exp(torch.einsum("hid,hjd->hij", q, k) / POST.d_head**0.5)
    shares = raised / raised.sum(dim=-1, keepdim=True)
    return found(
        stated("shares", apart(run["L0.pattern"][0], shares), within=1e-10),
        stated("mixed", apart(run["L0.mixed"][0], torch.einsum("hij,hjd->hid", shares, v)), within=1e-10),
        stated("least", run["L0.pattern"].min(), above=0),
        outside("causal", causal["L0.pattern"].min(), above=0),
    )


@checks("004-T3.1")
def movement(given: Given) -> Finding:
    """What source ``j`` brings to ``i``, ``α_ij (x_j W_V + b_V) W_O``, summed; that a change arrives, inside the range of ``W_O``; not from later tokens."""
    model, ids, head = given.drawn(POST), given.ids(POST), 1
    run, its, last = model.record(ids, ["L0.pattern"]), tensors_of(model, "attn"), ids.shape[1] - 1
    brought = (run["L0.in"][0] @ its["W_V"][head] + its["b_V"][head]) @ its["W_O"][head]
    arrived = (model.record(replaced(model, ids, 0))["L0.head_writes"] - run["L0.head_writes"])[0, head]
    basis = qr(its["W_O"][head].T)[0]
    return found(
        stated("sum", apart(run["L0.head_writes"][0, head], run["L0.pattern"][0, head] @ brought), within=1e-10),
        stated("moves", min(float(moved(model, ids, j, "L0.t1")[last]) for j in range(last)), above=1e-6),
        stated("range", apart(arrived, arrived @ basis @ basis.T), within=1e-10),
        outside("later", moved(model, ids, last, "L0.t1")[:last].max(), above=1e-6),
    )
