"""Document 001, the direct path in deep models: the decomposition, what it is not, and what trained models use it for."""

from dataclasses import replace
from typing import cast

import torch
from jaxtyping import Float
from torch import Tensor
from torch.nn.functional import layer_norm

import headwater as hw
from headwater.circuits.algebra import frobenius
from headwater.claims.evidence import Finding, beside, corrected, found, outside, reported, stated
from headwater.claims.given import SMALL, Given
from headwater.claims.one_layer.as_printed import apart, eye
from headwater.claims.one_layer.small_runs import small_one_layer
from headwater.claims.registry import checks
from headwater.claims.zero_layer.direct_path import places, said, said_of_text
from headwater.claims.zero_layer.language import composite, language
from headwater.trace.run import Run

BLOCKS = replace(SMALL, layers=2, feed_forward=hw.FeedForward(d_mlp=20))
BARE = hw.LayerNorm(gain=False, bias=False)
"""A norm with nothing of its own, so that what it does to a sum is all that is seen."""
SPLIT = replace(SMALL, feed_forward=hw.FeedForward(d_mlp=2 * SMALL.d_model, bias=False, reads="beside-attention"))
MOST = 0.25
"""The quarter of all places whose pair says most."""


@checks("001-L5", "001-E11")
def sum_over_layers(given: Given) -> Finding:
    """``W_U W_E t`` and ``W_U`` times what each layer writes are the logits; a norm breaks the sum, unless it is a last one held fixed."""
    ids = given.ids()

    def off(config: hw.ModelConfig) -> float:
        run = given.drawn(config).record(ids)
        return apart(composite(run.weights)[:, ids[0]].T + layer_terms(run).sum(dim=0), run.logits[0])

    model = given.drawn(BLOCKS)
    deep, silenced = model.record(ids), model.record(ids, tap=hw.Zero(model.place("L0.attention")))
    last = given.drawn(replace(BLOCKS, norm=hw.PreNorm(norm=BARE))).record(ids)
    return found(
        stated("attention", off(replace(SMALL, layers=4)), within=1e-10),
        stated("blocks", off(BLOCKS), within=1e-10),
        stated("frozen", apart(through_the_last_norm(last, frozen=True), last.logits[0]), within=1e-10),
        outside("last", apart(through_the_last_norm(last, frozen=False), last.logits[0]), within=1e-10),
        outside("post", off(replace(BLOCKS, norm=hw.PostNorm(norm=BARE))), within=1e-10),
        beside("depends", apart(layer_terms(silenced)[1], layer_terms(deep)[1])),
    )


@checks("001-L5U")
def not_unique(given: Given) -> Finding:
    """Another ``W_E``, undone by the layer that reads it: every logit is the same, and the direct path is not."""
    weights, size, ids = given.drawn(SPLIT).weights, SPLIT.d_model, given.ids()[0]
    # The layer subtracts D as x W_in and −x W_in, one of which passes the ReLU; in the first model it subtracts nothing.
    D = torch.randn(size, size, generator=torch.Generator().manual_seed(1), dtype=torch.float64) / size**0.5
    back = cast(Tensor, torch.linalg.inv(eye(size) + D))
    block = weights.blocks[0].attention
    linear = {"blocks.0.mlp.W_in": torch.cat([back, -back], dim=1), "blocks.0.mlp.W_out": torch.cat([-D, D])}
    one = weights.changed(linear | {"blocks.0.mlp.W_out": torch.zeros(2 * size, size, dtype=torch.float64)})
    reads = {f"blocks.0.attn.W_{read}": back @ W for read, W in (("Q", block.W_Q), ("K", block.W_K), ("V", block.W_V))}
    other = weights.changed(linear | reads | {"embed.W_E": weights.W_E @ (eye(size) + D)})
    runs = [hw.Model(each).record(ids) for each in (one, other)]
    sums = [composite(run.weights)[:, ids].T + layer_terms(run).sum(dim=0) for run in runs]
    return found(
        stated("unique", frobenius(composite(other) - composite(one)) / frobenius(composite(one)), within=1e-10),
        corrected("function", apart(runs[0].logits, runs[1].logits), within=1e-10),
        corrected("given", max(apart(total, run.logits[0]) for total, run in zip(sums, runs, strict=True)), within=1e-10),
    )


@checks("001-N11")
def each_without_the_other(given: Given) -> Finding:
    """On held-out text the two-layer model loses less than its direct path alone, and less than its layers without that path."""
    held = places(given, "two-layer")
    return found(
        reported("direct", held.whole.mean(), below=held.direct.mean()),
        reported("layers", held.whole.mean(), below=held.layers.mean()),
        on=given.name("two-layer"),
    )


@checks("001-T2")
def specific_pairs(given: Given) -> Finding:
    """What the loss gains from the direct path on specific pairs and on others; and whether that path is what the layers leave over."""
    held, pairs = places(given, "two-layer"), said_of_text(given, "two-layer")
    gained = held.layers - held.whole
    return found(
        reported("specific", gained[held.most(MOST)].mean(), above=max(float(gained[lot].mean()) for lot in held.by_lot(MOST))),
        reported("residual", pairs.to_the_rest(), above=pairs.to_the_bigrams()),
        reported("chance", pairs.to_the_rest(), above=max(each.to_the_rest() for each in pairs.shuffled())),
        on=given.name("two-layer"),
    )


@checks("001-E12")
def probabilities_do_not_split(given: Given) -> Finding:
    """Take any distribution from P and what is left is none. What a model adds up are logits, not probabilities."""
    P = language().P
    classes = torch.arange(len(P)) // 3
    same = (classes[:, None] == classes).double()
    # A grammar of classes: each word of a class follows, and is followed, as its class is on average.
    grammar = (same / same.sum(dim=1, keepdim=True)) @ P @ (same / same.sum(dim=0))
    left = P - grammar
    run = given.drawn().record(given.ids())
    direct, layers, p = composite(run.weights)[:, run.tokens[0]].T, layer_terms(run).sum(dim=0), run.logits[0].softmax(dim=1)
    return found(
        stated("total", (left.sum(dim=0) - 1).abs().max(), within=1e-10),
        stated("negative", left.min(), above=-1e-10),
        stated("model", apart(direct.softmax(dim=1) + layers.softmax(dim=1), p), within=1e-10),
        corrected("grammar", (grammar.sum(dim=0) - 1).abs().max(), within=1e-10),
        corrected("logits", apart((direct + layers).softmax(dim=1), p), within=1e-10),
        corrected("constant", apart(direct + layers - run.logits[0].logsumexp(dim=1, keepdim=True), p.log()), within=1e-10),
    )


@checks("001-N12")
def less_where_layers_say_more(given: Given) -> Finding:
    """Among pairs that are equally likely: does the direct path say less of those that the layers say more of?"""
    pairs = said_of_text(given, "two-layer")
    return found(
        reported("partial", pairs.partial(), below=min(each.partial() for each in pairs.shuffled())),
        beside("plain", pairs.correlation(pairs.direct, pairs.layers)),
        on=given.name("two-layer"),
    )


@checks("001-L6")
def along_training(given: Given) -> Finding:
    """A small model of bytes on its way: the direct path leaves ``ln p`` and comes to what the layers leave over; both are needed."""
    small = small_one_layer(given)
    windows = small.windows(256)
    early, late = (said(weights, windows, small.pairs) for step, weights in small.series if step in (16, small.series[-1][0]))
    whole, direct, layers = losses(small.trained, windows)
    return found(
        reported("residual", late.to_the_rest(), above=late.to_the_bigrams()),
        reported("grown", late.correlation(late.direct, late.layers), below=early.correlation(early.direct, early.layers)),
        reported("together", whole, below=min(direct, layers)),
        beside("early", early.to_the_bigrams()),
        beside("early-residual", early.to_the_rest()),
        beside("direct", direct),
        beside("layers", layers),
    )


def layer_terms(run: Run) -> Float[Tensor, "layer pos vocab"]:
    """``T_i``: what each layer writes, unembedded."""
    fed = run.config.feed_forward is not None
    writes = [
        run[f"L{layer}.attention"][0] + (run[f"L{layer}.feed_forward"][0] if fed else 0.0) for layer in range(run.config.layers)
    ]
    return torch.stack(writes) @ run.weights.W_U


def through_the_last_norm(run: Run, *, frozen: bool) -> Tensor:
    """Embedding and writes through the last norm one by one, at the whole stream's scale or each at its own, unembedded and added."""
    writes = [run[f"L{layer}.{site}"][0] for layer in range(run.config.layers) for site in ("attention", "feed_forward")]
    total = torch.zeros_like(run.logits[0])
    for part in (run["embed"][0], *writes):
        scaled = (part - part.mean(dim=1, keepdim=True)) * run["final.scale"][0, :, None]
        total = total + (scaled if frozen else layer_norm(part, part.shape[-1:])) @ run.weights.W_U
    return total


def losses(model: hw.Model, windows: Tensor) -> tuple[float, float, float]:
    """Mean nats of a model, of its direct path alone, and of all else."""
    ids, second = windows[:, :-1], windows[:, 1:, None]
    logits, direct = model.logits(ids), model.weights.W_E[ids] @ model.weights.W_U
    whole, alone, without = (-float(x.log_softmax(dim=2).gather(2, second).mean()) for x in (logits, direct, logits - direct))
    return whole, alone, without
