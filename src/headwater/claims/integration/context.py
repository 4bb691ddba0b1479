"""Document 002, context: what brings information from other tokens, and what becomes of a token's own."""

import torch
from torch import Tensor

import headwater as hw
from headwater.circuits.algebra import qr
from headwater.claims.evidence import Finding, beside, corrected, defined, found, outside, stated
from headwater.claims.given import Given
from headwater.claims.integration.influence import NoDiagonal, OverPositions, bend, moved, over_positions, replaced
from headwater.claims.integration.on_text import one_text, without
from headwater.claims.integration.preservation import cancelling
from headwater.claims.integration.written import FULL, POST, PRE, apart, attend, layer_norm, multi_head, normed, tensors_of
from headwater.claims.registry import checks
from headwater.trace.view.locality import alone, locality


@checks("002-N1")
def what_arrives(given: Given) -> Finding:
    """What the last position knows of the first token: with attention, without, and without it but with a norm over positions."""
    model, ids = given.model("block"), one_text(given)
    silent = hw.Chain(*without(model, "attention"))
    return found(
        stated("with", moved(model, ids, 0, "final")[-1], above=1e-6),
        stated("without", moved(model, ids, 0, "final", silent)[1:].max(), equal=0),
        outside("over-positions", moved(model, ids, 0, "final", hw.Chain(silent, OverPositions()))[1:].max(), equal=0),
        on=given.name("block"),
    )


@checks("002-N4")
def who_mixes(given: Given) -> Finding:
    """Each component of the trained model by itself, its input changed at one position: does its output change at another?"""
    model, ids = given.model("block"), one_text(given)
    mixing = locality(model.weights, ids, 4).mixing
    changed = replaced(model, ids, 4)
    batch_norm = alone(over_positions, model.record(ids)["embed"], model.record(changed)["embed"], 4)
    return found(
        stated("attention", sum(name.endswith(".attention") for name in mixing), equal=model.config.layers),
        stated("others", sum(not name.endswith(".attention") for name in mixing), equal=0),
        outside("over-positions", batch_norm.later or 0.0, equal=0),
        on=given.name("block"),
    )


@checks("002-N5")
def inputs(given: Given) -> Finding:
    """Attention from ``x_i`` and the list of all tokens; of those up to ``i`` where the mask is a language model's."""
    full, model, ids = given.drawn(FULL), given.drawn(POST), given.ids(POST)
    x, i = model.record(ids)["L0.in"][0], 4
    seen = model.record(ids)["L0.t1"][0, i]
    return found(
        defined("all", apart(full.record(ids)["L0.t1"][0, i], multi_head(full, x[i], x)), within=1e-10),
        defined("causal", apart(seen, multi_head(model, x[i], x[: i + 1])), within=1e-10),
        defined("future", moved(model, ids, i + 1, "L0.t1")[: i + 1].max(), equal=0),
        beside("itself", apart(seen, multi_head(model, x[i], x[:i]))),
    )


@checks("002-N6")
def sensitive(given: Given) -> Finding:
    """How far attention's output changes when the first token is another: at every later position, and in the middle of a trained model's text."""
    model, trained = given.drawn(POST), given.model("block")
    return found(
        stated("drawn", moved(model, given.ids(POST), 0, "L0.t1")[1:].min(), above=1e-6),
        stated("trained", moved(trained, one_text(given), 0, "L0.attention")[1:].median(), above=1e-6),
        on=given.name("block"),
    )


@checks("002-N8")
def modulation(given: Given) -> Finding:
    """``t2`` holds the token and its context, the feed-forward network is not linear; then a block that cancels its input, and pre-norm."""
    model, ids = given.drawn(POST), given.ids(POST)
    pre = given.drawn(PRE).record(ids)
    return found(
        stated("context", moved(model, ids, 0, "L0.t2")[-1], above=1e-6),
        stated("own", moved(model, ids, -1, "L0.t2")[-1], above=1e-6),
        stated("non-linear", bend(model, ids, "L0.t3", "L0.t4"), above=1e-6),
        outside("cancelled", moved(cancelling(), torch.tensor([[3]]), 0, "L0.middle").max(), above=1e-6),
        outside("pre-norm", apart(pre["L0.attention"][0], attend(given.drawn(PRE), pre["L0.in"][0])), within=1e-10),
    )


@checks("002-T1")
def operator(given: Given) -> Finding:
    """Only attention mixes positions, and its output is added to the stream: in post-norm, in pre-norm; not so with a norm over positions."""
    post, pre, ids = given.drawn(POST), given.drawn(PRE), given.ids(POST)
    x, y = post.record(ids)["L0.in"][0], pre.record(ids)["L0.in"][0]
    mixing = {*locality(post.weights, ids, 3).mixing, *locality(pre.weights, ids, 3).mixing}
    t2, beyond = pre.record(ids)["L0.middle"][0], alone(over_positions, x[None], x.flip(0)[None], 3)
    return found(
        stated("others", len(mixing - {"L0.attention"}), equal=0),
        stated("attention", len(mixing & {"L0.attention"}), equal=1),
        stated("post-norm", apart(post.record(ids)["L0.middle"][0], x + attend(post, x)), within=1e-10),
        stated("pre-norm", apart(t2, y + attend(pre, layer_norm(pre, "ln1", y))), within=1e-10),
        outside("over-positions", beyond.later or 0.0, equal=0),
        beside("step-iv", apart(t2, normed(t2))),
    )


@checks("002-T2.2")
def own_value(given: Given) -> Finding:
    """A token's own value moved by ``v``: its output moves by ``α_ii v W_O``, and ``α_ii`` is above zero unless the mask forbids it."""
    model, ids, i, head = given.drawn(POST), given.ids(POST), 4, 1
    run, v = model.record(ids), torch.linspace(-1, 1, POST.d_head, dtype=torch.float64)
    steered = model.record(ids, tap=hw.Steer(model.place(f"L0H{head}.values@{i}"), v))
    own, forbidden = (r["L0.pattern"].diagonal(dim1=2, dim2=3) for r in (run, model.record(ids, tap=NoDiagonal())))
    share = own[0, head, i] * v @ tensors_of(model, "attn")["W_O"][head]
    return found(
        stated("share", apart(steered["L0.t1"][0, i] - run["L0.t1"][0, i], share), within=1e-10),
        stated("weight", own.min(), above=0),
        outside("no-diagonal", forbidden.min(), above=0),
    )


def overlap(one: Tensor, other: Tensor) -> float:
    """How much of what one matrix reads lies in what another reads: the mean squared cosine of the angles between the two subspaces."""
    first, second = qr(one)[0], qr(other)[0]
    return float((first.T @ second).square().sum() / one.shape[1])


@checks("002-O1")
def projections(given: Given) -> Finding:
    """Queries, keys and values of a mixture of two inputs, beside the same mixture of theirs; and ``x W + b`` written out."""
    model, ids = given.drawn(PRE), given.ids(PRE)
    run, its = model.record(ids), tensors_of(model, "attn")
    read = layer_norm(model, "ln1", run["L0.in"][0])
    made = {
        "queries": read @ its["W_Q"] + its["b_Q"][:, None],
        "keys": read @ its["W_K"] + its["b_K"][:, None],
        "values": read @ its["W_V"] + its["b_V"][:, None],
    }
    trained = given.model("block").weights.blocks[0].attention
    return found(
        stated("more", bend(model, ids, "L0.attention_input", "L0.queries", "L0.keys", "L0.values"), above=1e-10),
        corrected("projection", max(apart(run[f"L0.{name}"][0], value) for name, value in made.items()), within=1e-10),
        beside("query-key", overlap(trained.W_Q[0], trained.W_K[0])),
        beside("query-value", overlap(trained.W_Q[0], trained.W_V[0])),
        beside("chance", trained.W_Q.shape[2] / trained.W_Q.shape[1]),
        on=given.name("block"),
    )
