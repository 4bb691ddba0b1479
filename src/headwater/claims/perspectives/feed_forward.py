"""Document 004, the feed-forward network: what it computes, what it depends on, and what its non-linearity is worth."""

from dataclasses import replace

import headwater as hw
from headwater.claims.evidence import Finding, corrected, defined, found, reported, stated
from headwater.claims.given import Given
from headwater.claims.integration.influence import bend, moved
from headwater.claims.integration.on_text import loss, one_text
from headwater.claims.integration.trainings import SMALL, SUMS, Linear, on_sums, on_text
from headwater.claims.integration.worked import B_1, B_2, T_3, W_1, W_2, example, numbers
from headwater.claims.integration.written import POST, PRE, apart, feed_forward, tensors_of
from headwater.claims.registry import checks
from headwater.shapes import Tokens
from headwater.trace.view.locality import locality
from headwater.train.plan import Plan

PLAN = Plan(steps=250, batch=16, learning_rate=5e-3, warmup=20)


def elsewhere(model: hw.Model, ids: Tokens) -> float:
    """How far any feed-forward layer by itself changes other positions when its input changes at one."""
    layers = [one.alone for one in locality(model.weights, ids, 3).components if one.name.endswith(".feed_forward")]
    return max(max(alone.earlier or 0.0, alone.later or 0.0) for alone in layers)


@checks("004-N2")
def independent(given: Given) -> Finding:
    """``t4`` when another token changes: in the drawn block and in a trained one; and the network by itself, on inputs that are held."""
    model, ids, trained = given.drawn(POST), given.ids(POST), given.model("block")
    return found(
        stated("in-block", moved(model, ids, 0, "L0.t4")[-1], within=1e-10),
        stated("trained", moved(trained, one_text(given), 0, "L0.feed_forward")[-1], within=1e-10),
        corrected("by-itself", elsewhere(model, ids), equal=0),
        corrected("trained-by-itself", elsewhere(trained, one_text(given)), equal=0),
        on=given.name("block"),
    )


@checks("004-E10.35")
def equation(given: Given) -> Finding:
    """``t4 = FFN(t3)`` of a post-norm block; a pre-norm block's network is the same function of what it reads."""
    post, pre, ids = given.drawn(POST), given.drawn(PRE), given.ids(POST)
    run, other = post.record(ids), pre.record(ids)
    read = other["L0.feed_forward_input"][0]
    return found(
        defined("post-norm", apart(run["L0.t4"][0], feed_forward(post, run["L0.t3"][0])), within=1e-10),
        defined("pre-norm", apart(other["L0.feed_forward"][0], feed_forward(pre, read)), within=1e-10),
    )


@checks("004-N3")
def crucial(given: Given) -> Finding:
    """Short trainings with the network, with it made linear, and without it; and the trained model with every gate opened."""
    none, linear = (replace(config, feed_forward=None) for config in (SMALL, SUMS)), Linear()
    text, sums = on_text(given, SMALL, PLAN), on_sums(given)
    no_text, no_sums = none
    return found(
        stated("non-linear", bend(given.drawn(POST), given.ids(POST), "L0.t3", "L0.t4"), above=1e-6),
        reported("linear-text", text, below=on_text(given, SMALL, PLAN, linear)),
        reported("none-text", text, below=on_text(given, no_text, PLAN)),
        reported("linear-sums", sums, below=on_sums(given, tap=linear)),
        reported("none-sums", sums, below=on_sums(given, no_sums)),
        reported("opened", loss(given, linear), above=loss(given)),
        on=given.name("block"),
    )


@checks("004-N4")
def same_width(given: Given) -> Finding:
    """The network of 004-EX1: its output's width, its bend at 0, and that it knows of no other token."""
    run, opposite, at_zero = example(t3=T_3), example(t3=[-t for t in T_3]), example(t3=[0.0] * 4)
    bent = apart(run["L0.t4"] + opposite["L0.t4"], 2 * at_zero["L0.t4"])
    return found(
        stated("width", run["L0.t4"].shape[-1], equal=4),
        stated("non-linear", bent, above=1e-6),
        stated("by-itself", elsewhere(given.drawn(POST), given.ids(POST)), equal=0),
    )


@checks("004-P1")
def dimension(given: Given) -> Finding:
    """Networks of several inner widths: how many do not lead from d to that width and back to d."""
    wrong = 0
    for d_ff in (1, 7, 64):
        model = given.drawn(replace(POST, feed_forward=hw.FeedForward(d_mlp=d_ff)))
        run = model.record(given.ids(POST))
        widths = [run[f"L0.{site}"].shape[-1] for site in ("t3", "hidden", "neurons", "t4")]
        wrong += widths != [POST.d_model, d_ff, d_ff, POST.d_model]
    return found(stated("widths", wrong, equal=0))


@checks("004-L1.1")
def formula(given: Given) -> Finding:
    """The shapes of the four tensors, as columns are multiplied; and the formula in plain arithmetic on the weights of 004-EX1."""
    its, d, d_ff = tensors_of(given.drawn(POST), "mlp"), POST.d_model, POST.d_mlp
    shapes = {"W_in": (d_ff, d), "W_out": (d, d_ff), "b_in": (d_ff,), "b_out": (d,)}
    z = [sum(w * t for w, t in zip(row, T_3, strict=True)) + b for row, b in zip(W_1, B_1, strict=True)]
    t4 = [sum(w * max(n, 0.0) for w, n in zip(row, z, strict=True)) + b for row, b in zip(W_2, B_2, strict=True)]
    run = numbers(example(t3=T_3)["L0.t4"])
    return found(
        defined("shapes", sum(its[name].shape[::-1] != shape for name, shape in shapes.items()), equal=0),
        defined("arithmetic", max(abs(a - b) for a, b in zip(t4, run, strict=True)), within=1e-10),
    )


@checks("004-E1")
def neuron_by_neuron(given: Given) -> Finding:
    """``t4`` as a sum over neurons: each reads ``t3``, is shut below zero, and writes one column of ``W_2``."""
    model, run = given.drawn(POST), given.drawn(POST).record(given.ids(POST))
    its, t3 = tensors_of(model, "mlp"), run["L0.t3"][0]
    written = its["b_out"].expand_as(t3)
    for neuron in range(POST.d_mlp):
        z = t3 @ its["W_in"][:, neuron] + its["b_in"][neuron]
        written = written + z.clamp(min=0)[:, None] * its["W_out"][neuron]
    return found(defined("sum", apart(run["L0.t4"][0], written), within=1e-10))
