"""Document 004, residual connections and the whole block: what is added where, what survives, and what each part is worth."""

from dataclasses import replace

import torch
from torch import Tensor

import headwater as hw
from headwater.claims.evidence import Finding, beside, corrected, found, outside, reported, stated
from headwater.claims.given import Given
from headwater.claims.integration.influence import bend, moved, replaced
from headwater.claims.integration.on_text import Unnormalised, last_stream, loss, one_text, probe, run_of, unexplained, without
from headwater.claims.integration.preservation import cancelling, every_token
from headwater.claims.integration.trainings import Linear, WithoutResidual, deep, deep_without_residual, gain
from headwater.claims.integration.written import BARE, POST, PRE, apart, attend, feed_forward, layer_norm, normed
from headwater.claims.perspectives.norms import PLAIN_POST, normalised, off_one
from headwater.claims.registry import checks
from headwater.model.forward import run_block
from headwater.model.positions import place
from headwater.model.taps import NOBODY, Tap
from headwater.shapes import Tokens
from headwater.train.evaluate import conditional_entropy


def told_apart() -> Tensor:
    """The least distance between two tokens' streams after the block that cancels its input."""
    return torch.pdist(every_token(cancelling())["L0.middle"][:, 0]).min()


@checks("004-N1")
def views(given: Given) -> Finding:
    """Linear probes on the trained model's last stream, for the token and for the one before it; what every layer adds; a block that erases."""
    run, end = run_of(given), last_stream(given)
    writes = [run[f"L{layer}.{part}"] for layer in range(run.config.layers) for part in ("attention", "feed_forward")]
    return found(
        stated("moves", moved(given.model("block"), one_text(given), 0, "L0.attention")[1:].median(), above=1e-6),
        stated("views", min(float(write.square().mean()) for write in writes), above=1e-6),
        stated("own", probe(given, end), above=probe(given, end, by_chance=True)),
        stated("neighbour", probe(given, end, back=1), above=probe(given, "L0.in", back=1)),
        outside("cancelled", told_apart(), above=1e-10),
        on=given.name("block"),
    )


def additions(model: hw.Model, ids: Tokens) -> list[bool]:
    """Whether the block's input is added back after attention, before the feed-forward network, and after it."""
    run, end = model.record(ids), "L0.sum" if isinstance(model.config.norm, hw.PostNorm) else "L0.out"
    skipped = "L0.feed_forward_input" if end == "L0.sum" else "L0.middle"
    silent = {part: model.record(ids, tap=hw.Zero(model.place(f"L0.{part}"))) for part in ("attention", "feed_forward")}
    held = model.record(replaced(model, ids, 0), tap=hw.Patch.of(model.place("L0.middle"), run))
    return [
        torch.equal(silent["attention"]["L0.middle"], run["L0.in"]),
        not torch.equal(held["L0.feed_forward_input"], run["L0.feed_forward_input"]),
        torch.equal(silent["feed_forward"][end], run[skipped]),
    ]


@checks("004-N12")
def where_added(given: Given) -> Finding:
    """Residual additions counted in both architectures; and what is left of a block when both of its components write nothing."""
    post, pre, ids = given.drawn(PLAIN_POST), given.drawn(PRE), given.ids(POST)
    in_post, in_pre = additions(post, ids), additions(pre, ids)
    empty_post, empty_pre = (
        model.record(ids, tap=hw.Chain(*without(model, "attention"), *without(model, "feed_forward"))) for model in (post, pre)
    )
    return found(
        stated("differ", sum(in_pre) - sum(in_post), above=0),
        stated("before", sum(in_pre[1:2]), equal=1),
        corrected("pre-norm", sum(in_pre), equal=2),
        corrected("post-norm", sum(in_post), equal=2),
        corrected("empty-pre-norm", apart(empty_pre["L0.h"], empty_pre["L0.in"]), equal=0),
        corrected("empty-post-norm", apart(empty_post["L0.h"], normed(normed(empty_post["L0.in"]))), within=1e-10),
    )


@checks("004-N13")
def deeper(given: Given) -> Finding:
    """The embedding on the stream, untouched; gradients through 32 layers and a short training of six, with the connections and without."""
    run = given.drawn(replace(PRE, layers=3)).record(given.ids(PRE))
    writes = torch.stack([run[f"L{layer}.{part}"] for layer in range(3) for part in ("attention", "feed_forward")])
    return found(
        stated("direct", apart(run["L2.out"] - writes.sum(dim=0), run["embed"]), within=1e-10),
        reported("vanishing", gain(given, "residual", 0.5), above=gain(given, "plain", 0.5)),
        reported("training", deep(given), below=deep_without_residual(given)),
        beside("exploding", gain(given, "residual", 1.4)),
    )


@checks("004-N14")
def composition(given: Given) -> Finding:
    """The trained model's loss on held-out text without each of its four ingredients."""
    model, whole = given.model("block"), loss(given)
    taps: dict[str, Tap] = {
        "attention": hw.Chain(*without(model, "attention")),
        "feed-forward": hw.Chain(*without(model, "feed_forward")),
        "norms": Unnormalised(),
        "residual": WithoutResidual(),
    }
    return found(*(reported(name, loss(given, tap), above=whole) for name, tap in taps.items()), on=given.name("block"))


@checks("004-N15")
def enriched(given: Given) -> Finding:
    """The post-norm block: context arrives, the network bends, LayerNorm sets the scale; then with gain and bias, and a block that erases."""
    model, ids = given.drawn(PLAIN_POST), given.ids(POST)
    return found(
        stated("context", moved(model, ids, 0, "L0.h")[-1], above=1e-6),
        stated("non-linear", bend(model, ids, "L0.t3", "L0.t4"), above=1e-6),
        stated("scale", off_one(normalised(model.record(ids))), within=1e-3),
        stated("own", moved(model, ids, -1, "L0.h")[-1], above=1e-6),
        outside("gain-and-bias", off_one(given.drawn(POST).record(ids)["L0.h"]), within=1e-3),
        outside("cancelled", told_apart(), above=1e-10),
    )


@checks("004-T3.2")
def contextual(given: Given) -> Finding:
    """The block's output changes with the token, with its context, and with each component; in a block that erases, not with the token."""
    model, ids = given.drawn(POST), given.ids(POST)
    taps: tuple[Tap, ...] = (*without(model, "attention"), *without(model, "feed_forward"), Unnormalised(), WithoutResidual())
    h = model.record(ids)["L0.h"]
    return found(
        stated("own", moved(model, ids, -1, "L0.h")[-1], above=1e-6),
        stated("context", moved(model, ids, 0, "L0.h")[-1], above=1e-6),
        stated("components", min(apart(model.record(ids, tap=tap)["L0.h"], h) for tap in taps), above=1e-6),
        outside("cancelled", told_apart(), above=1e-10),
        beside("step-ii", moved(model, ids, 0, "L0.t4")[-1]),
    )


def jacobian(of: Tensor, by: Tensor) -> Tensor:
    """Every entry of ``of`` by every entry of ``by``."""
    return torch.stack([torch.autograd.grad(entry, by, retain_graph=True)[0].flatten() for entry in of.flatten()])


@checks("004-C3.1")
def flow(given: Given) -> Finding:
    """Two guarantees that fail; and what there is: the Jacobian of a pre-norm block is ``(I + J_FFN)(I + J_attention)``."""
    model = given.drawn(PRE)
    x = model.weights.W_E[:4].clone().requires_grad_()
    out = run_block(model.weights, 0, x[None], place(model.weights, 0, 4), NOBODY)[0]
    t2 = attend(model, layer_norm(model, "ln1", x))
    t3 = (x + t2).detach().requires_grad_()
    t5, eye = feed_forward(model, layer_norm(model, "ln2", t3)), torch.eye(x.numel(), dtype=x.dtype)
    return found(
        stated("preserved", told_apart(), above=1e-10),
        stated("effective", gain(given, "residual", 1.4), within=1),
        corrected("jacobian", apart(jacobian(out, x), (eye + jacobian(t5, t3)) @ (eye + jacobian(t2, x))), within=1e-10),
    )


@checks("004-O1")
def perspectives(given: Given) -> Finding:
    """On the trained model: what context adds to the stream, what opened gates and missing norms cost, and what a probe reads at the end."""
    whole, end = loss(given), last_stream(given)
    return found(
        reported("contextual", unexplained(given, "L0.middle"), above=unexplained(given, "L0.in")),
        reported("non-linear", loss(given, Linear()), above=whole),
        reported("stabilises", loss(given, Unnormalised()), above=whole),
        reported("own", probe(given, end), above=probe(given, end, by_chance=True)),
        reported("neighbour", probe(given, end, back=1), above=probe(given, "L0.in", back=1)),
        on=given.name("block"),
    )


@checks("004-L3.1")
def sums(given: Given) -> Finding:
    """``t + Layer(t)`` with attention and the feed-forward network written out: without norms; then the same said of pre-norm and post-norm."""
    off: dict[str, float] = {}
    for name, config in (("bare", BARE), ("pre-norm", PRE), ("post-norm", POST)):
        model, run = given.drawn(config), given.drawn(config).record(given.ids(POST))
        x = run["L0.in"][0]
        between = x + attend(model, x)
        off[name] = apart(run["L0.h"][0], between + feed_forward(model, between))
    return found(
        stated("bare", off["bare"], within=1e-10),
        outside("pre-norm", off["pre-norm"], within=1e-10),
        outside("post-norm", off["post-norm"], within=1e-10),
    )


@checks("004-N16")
def conclusion(given: Given) -> Finding:
    """The trained model against the least that anyone loses who sees one token; and six blocks, with residual connections and without."""
    return found(
        reported("whole", loss(given), below=conditional_entropy(given.corpus("block").held_out)),
        reported("deep", deep(given), below=deep_without_residual(given)),
        on=given.name("block"),
    )
