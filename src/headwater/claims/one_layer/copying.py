"""Document 000, section 5: the copying mechanism step by step, from score to value to output."""

import torch
from torch import Tensor

import headwater as hw
from headwater.api import Model
from headwater.circuits.algebra import qr
from headwater.circuits.head import Head, key_head
from headwater.claims.evidence import Finding, beside, corrected, defined, found, reported, stated
from headwater.claims.given import Given
from headwater.claims.one_layer.as_printed import apart, every_printed, printed, rank
from headwater.claims.one_layer.held_out import copies_most, in_every_head, own_ranks, reading, untrained
from headwater.claims.registry import checks
from headwater.trace.run import Run

SOURCE, DEST = 2, -1
"""Of drawn texts: where A and B stand."""
SMALL_STEP = 1e-5
TURNED = 1e-3
"""A direction has turned when its cosine with before is further than this from 1."""


@checks("000-E6")
def score(given: Given) -> Finding:
    """q_B = W_Q x_B, k_A = W_K x_A: their product over √d_k is what the softmax gets, and the entry of the QK table."""
    model, m, ids = given.drawn(), printed(given.drawn()), given.ids()
    run = model.record(ids)
    q_B, k_A = m.W_Q @ run["embed"][0, DEST], m.W_K @ run["embed"][0, SOURCE]
    printed_score = q_B @ k_A / model.config.d_head**0.5
    table = model.qk("L0H0")[int(ids[0, DEST]), int(ids[0, SOURCE])]
    return found(
        defined("score", run["L0.scores"][0, 0, DEST, SOURCE] - printed_score, within=1e-10),
        defined("table", table - float(printed_score), within=1e-10),
    )


@checks("000-E7")
def copied_value(given: Given) -> Finding:
    """What a head mixes loses α W_V x_A when A is not heard; over all sources that is everything it mixes."""
    model, m = given.drawn(), printed(given.drawn())
    run, silent = heard(given, model, 1.0), heard(given, model, 0.0)
    a, x = run["L0.pattern"][0, 0, DEST], run["embed"][0].T
    v_copied = a[SOURCE] * m.W_V @ x[:, SOURCE]
    return found(
        defined("value", apart(run["L0.mixed"][0, 0, DEST] - silent["L0.mixed"][0, 0, DEST], v_copied), within=1e-10),
        defined("all", apart(m.W_V @ x @ a, run["L0.mixed"][0, 0, DEST]), within=1e-10),
        defined("size", len(v_copied), equal=model.config.d_head),
    )


@checks("000-E8")
def adjusts_logits(given: Given) -> Finding:
    """A is heard, and not heard: how logits change, and how probabilities do, against W_U W_O v_copied."""
    model, m = given.drawn(), printed(given.drawn())
    run, silent, more, less = (heard(given, model, share) for share in (1.0, 0.0, SMALL_STEP, -SMALL_STEP))
    v_copied = run["L0.pattern"][0, 0, DEST, SOURCE] * m.W_V @ run["embed"][0, SOURCE]
    c = m.W_U @ m.W_O @ v_copied
    p = silent.logits[0, DEST].softmax(-1)
    changed = run.logits[0, DEST].softmax(-1) - p
    slope = (more.logits[0, DEST].softmax(-1) - less.logits[0, DEST].softmax(-1)) / (2 * SMALL_STEP)
    return found(
        stated("change", apart(c, changed), within=1e-10),
        stated("sum", c.sum(), within=1e-10),
        corrected("logits", apart(c, (run.logits - silent.logits)[0, DEST]), within=1e-10),
        corrected("slope", apart(slope, p * (c - p @ c)), within=1e-8),
        beside("signs", torch.stack([opposed(given, seed) for seed in range(20)]).double().mean()),
    )


@checks("000-IN1")
def what_copying_depends_on(given: Given) -> Finding:
    """The head that copies most, and the same head turned at random: as strong, but no longer fitted to embedding and unembedding."""
    model, text, head = given.model("one-layer"), reading(given), copies_most(given)
    own, drawn = own_ranks(model, head, text.kinds).double().mean(), untrained(given)
    chance = in_every_head(drawn, lambda each: float(own_ranks(drawn, each, text.kinds).double().mean()))
    nats, turned = (text.nats(each)[text.repeats].mean() for each in (model, with_head_turned(model, head)))
    silent = text.nats(model, hw.Zero(model.place(head)))[text.repeats].mean()
    return found(
        stated("rank", max(rank(m.W_OV) for m in every_printed(model)), within=model.config.d_head),
        reported("own", own, below=min(chance)),
        reported("turned", turned, above=nats),
        beside("silent", silent),
        on=given.name("one-layer"),
    )


@checks("000-N10")
def attention_gives_no_direction(given: Given) -> Finding:
    """What a source's value adds to the stream, under other queries and under other values: only the second turns it."""
    model, other = given.drawn(), given.drawn(seed=1).weights.blocks[0].attention
    asked, valued = (Model(model.weights.changed({f"blocks.0.attn.{name}": getattr(other, name)})) for name in ("W_Q", "W_V"))
    m, run = printed(model), heard(given, model, 1.0)
    before, asked_otherwise, valued_otherwise = (added(given, each) for each in (model, asked, valued))
    return found(
        stated("turns", 1 - cosine(before, asked_otherwise), above=TURNED),
        corrected(
            "scalar",
            apart(before, run["L0.pattern"][0, 0, DEST, SOURCE] * m.W_OV @ run["embed"][0, SOURCE]),
            within=1e-10,
        ),
        corrected("same", 1 - cosine(before, asked_otherwise), within=1e-10),
        corrected("values", 1 - cosine(before, valued_otherwise), above=TURNED),
    )


def heard(given: Given, model: Model, share: float) -> Run:
    """A drawn text, run with the first head's weight from B to A multiplied by a number and all else as it is."""
    pattern = model.record(given.ids())["L0.pattern"].clone()
    pattern[0, 0, DEST, SOURCE] *= share
    return model.record(given.ids(), tap=hw.Patch(model.place("L0.pattern"), pattern, "one weight changed"))


def added(given: Given, model: Model) -> Tensor:
    """What the first head writes at B because of A: with it and without it."""
    run, silent = heard(given, model, 1.0), heard(given, model, 0.0)
    return (run["L0.head_writes"] - silent["L0.head_writes"])[0, 0, DEST]


def opposed(given: Given, seed: int) -> Tensor:
    """Where A raises the logit of an output and lowers its probability, or the other way round, in a model drawn by this seed."""
    run, silent = (heard(given, given.drawn(seed=seed), share).logits[0, DEST] for share in (1.0, 0.0))
    return (run - silent) * (run.softmax(-1) - silent.softmax(-1)) < 0


def cosine(ours: Tensor, theirs: Tensor) -> float:
    """Of the angle between two vectors."""
    return float(torch.cosine_similarity(ours, theirs, dim=0))


def with_head_turned(model: Model, head: Head) -> Model:
    """The model with what one head reads turned by a random rotation of the stream."""
    size, W_V = model.config.d_model, model.weights.blocks[0].attention.W_V.clone()
    turn, _ = qr(torch.randn(size, size, generator=torch.Generator().manual_seed(0), dtype=torch.float64))
    shared = key_head(model.config, head)
    W_V[shared] = turn @ W_V[shared]
    return Model(model.weights.changed({"blocks.0.attn.W_V": W_V}), model.tokenizer)
