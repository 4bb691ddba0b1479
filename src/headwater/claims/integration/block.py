"""Document 002, the block: the stream, equations 10.32 to 10.37, and that nothing changes the number of coordinates."""

from dataclasses import replace

import torch

import headwater as hw
from headwater.circuits.algebra import lengths
from headwater.claims.evidence import Finding, beside, defined, found, outside, stated
from headwater.claims.given import Given
from headwater.claims.integration.written import (
    POST,
    PRE,
    apart,
    attend,
    feed_forward,
    layer_norm,
    multi_head,
    post_norm,
    tensors_of,
)
from headwater.claims.registry import checks
from headwater.trace.run import Run

STEPS = ("in", "t1", "t2", "t3", "t4", "t5", "h")
PLAIN = replace(POST, norm=hw.PostNorm(norm=hw.LayerNorm(gain=False, bias=False)))
"""The documents' block with LayerNorms that only normalise."""


def drawn(given: Given, config: hw.ModelConfig = POST) -> tuple[hw.Model, Run]:
    """A drawn block, and what it does with drawn tokens."""
    model = given.drawn(config)
    return model, model.record(given.ids(config))


@checks("002-N2")
def stream(given: Given) -> Finding:
    """One vector for each token at every step of two blocks; what one block leaves is what the next one gets."""
    model, run = drawn(given, replace(POST, layers=2))
    shape = (*run.tokens.shape, model.config.d_model)
    others = [step for layer in (0, 1) for step in STEPS if run[f"L{layer}.{step}"].shape != shape]
    return found(
        defined("shape", len(others), equal=0),
        defined("handed-on", apart(run["L1.in"][0], post_norm(model, run["L0.in"][0])["h"]), within=1e-10),
    )


@checks("002-E10.32")
def attention(given: Given) -> Finding:
    """``t1 = MultiHeadAttention(x_i, [x_1 … x_i])``, for every token by itself, in loops; once more with pattern and heads kept, which goes another way."""
    model, run = drawn(given)
    x, t1 = run["L0.in"][0], run["L0.t1"][0]
    by_hand = torch.stack([multi_head(model, x[i], x[: i + 1]) for i in range(len(x))])
    return found(
        defined("by-hand", apart(t1, by_hand), within=1e-10),
        defined(
            "watched", apart(model.record(run.tokens, ["L0.pattern", "L0.head_writes"])["L0.t1"][0], by_hand), within=1e-10
        ),
        defined("width", t1.shape[-1], equal=model.config.d_model),
    )


@checks("002-E10.33")
def first_addition(given: Given) -> Finding:
    """``t2 = t1 + x``."""
    model, run = drawn(given)
    x = run["L0.in"][0]
    return found(defined("sum", apart(run["L0.t2"][0], attend(model, x) + x), within=1e-10))


@checks("002-E10.34")
def first_norm(given: Given) -> Finding:
    """``t3 = LayerNorm(t2)``: the mean taken off, divided by the standard deviation over d, times the gain, plus the bias."""
    model, run = drawn(given)
    t3, its = run["L0.t3"][0], tensors_of(model, "ln1")
    return found(
        defined("by-hand", apart(t3, layer_norm(model, "ln1", run["L0.t2"][0])), within=1e-10),
        defined("mean", ((t3 - its["b"]) / its["w"]).mean(dim=-1).abs().max(), within=1e-10),
    )


@checks("002-E10.35")
def feeding(given: Given) -> Finding:
    """``t4 = FFN(t3)``, every token by itself."""
    model, run = drawn(given)
    return found(defined("by-hand", apart(run["L0.t4"][0], feed_forward(model, run["L0.t3"][0])), within=1e-10))


@checks("002-N10")
def second_skip(given: Given) -> Finding:
    """What the second connection adds to ``t4`` is the normalised vector; in a pre-norm block it is not."""
    model, run = drawn(given)
    other, pre = drawn(given, PRE)
    from_norm = layer_norm(other, "ln2", pre["L0.t3"][0]) + pre["L0.t5"][0]
    return found(
        stated("post-norm", apart(run["L0.t5"][0], run["L0.t4"][0] + layer_norm(model, "ln1", run["L0.t2"][0])), within=1e-10),
        beside("pre-norm", apart(pre["L0.h"][0], from_norm)),
    )


@checks("002-E10.36")
def second_addition(given: Given) -> Finding:
    """``t5 = t4 + t3``."""
    model, run = drawn(given)
    t3 = run["L0.t3"][0]
    return found(defined("sum", apart(run["L0.t5"][0], feed_forward(model, t3) + t3), within=1e-10))


@checks("002-E10.37")
def second_norm(given: Given) -> Finding:
    """``h = LayerNorm(t5)``, with a gain and a bias of its own."""
    model, run = drawn(given)
    t5 = run["L0.t5"][0]
    return found(
        defined("by-hand", apart(run["L0.h"][0], layer_norm(model, "ln2", t5)), within=1e-10),
        defined("own", apart(run["L0.h"][0], layer_norm(model, "ln1", t5)), above=1e-3),
    )


@checks("002-N11")
def well_behaved(given: Given) -> Finding:
    """Mean 0, standard deviation 1 and length √d, without gain and bias; then with them, and with a ``t5`` that hardly varies."""
    model, run = drawn(given, PLAIN)
    h, learned = run["L0.h"], drawn(given)[1]["L0.h"]
    flat = model.record(run.tokens, tap=hw.Scale(model.place("L0.t5"), 1e-6))["L0.h"]
    return found(
        stated("mean", h.mean(dim=-1).abs().max(), within=1e-10),
        stated("deviation", (h.std(dim=-1, correction=0) - 1).abs().max(), within=1e-3),
        stated("length", (lengths(h[0]) / model.config.d_model**0.5 - 1).abs().max(), within=1e-3),
        outside("gain-and-bias", (learned.std(dim=-1, correction=0) - 1).abs().max(), within=1e-3),
        outside("flat", (flat.std(dim=-1, correction=0) - 1).abs().max(), within=1e-3),
    )


@checks("002-N12")
def dimension(given: Given) -> Finding:
    """The steps whose shape is not that of the block's input, although its heads and its neurons have other widths."""
    runs = {"post-norm": drawn(given, POST)[1], "pre-norm": drawn(given, PRE)[1]}
    return found(*(
        stated(name, sum(run[f"L0.{step}"].shape != run["embed"].shape for step in STEPS), equal=0) for name, run in runs.items()
    ))  # fmt: skip


@checks("002-T2.1")
def attention_width(given: Given) -> Finding:
    """How wide attention's output is, and how wide its mixtures of values are before ``W_O``: of one head, and of all side by side."""
    model, run = drawn(given)
    mixed, d_model = run["L0.mixed"], model.config.d_model
    return found(
        stated("output", run["L0.t1"].shape[-1], equal=d_model),
        outside("one-head", mixed[:, 0].shape[-1], equal=d_model),
        outside("all-heads", mixed.transpose(1, 2).flatten(2).shape[-1], equal=d_model),
    )
