"""Document 004, LayerNorm: what it guarantees, where it stands, and what it forgets."""

from dataclasses import replace

import torch

import headwater as hw
from headwater.circuits.algebra import lengths, singular_values
from headwater.claims.evidence import Finding, beside, defined, found, outside, stated
from headwater.claims.given import Given
from headwater.claims.integration.on_text import one_text
from headwater.claims.integration.trainings import gain
from headwater.claims.integration.worked import T_1, example, numbers
from headwater.claims.integration.written import POST, PRE, apart, layer_norm, normed, post_norm, pre_norm
from headwater.claims.registry import checks
from headwater.model.components import normalise
from headwater.model.taps import NOBODY, Look
from headwater.model.weights import NormWeights
from headwater.trace.run import Run
from headwater.train.studies.gradient_depth import Kind

ONLY_NORMS = hw.LayerNorm(gain=False, bias=False)
PLAIN_POST, PLAIN_PRE = replace(POST, norm=hw.PostNorm(norm=ONLY_NORMS)), replace(PRE, norm=hw.PreNorm(norm=ONLY_NORMS))
"""Both architectures with LayerNorms that have no gain and no bias."""


def normalised(run: Run) -> torch.Tensor:
    """Everything that a LayerNorm of a one-block model made."""
    sites = ("t3", "h") if isinstance(run.config.norm, hw.PostNorm) else ("t1", "t4", "final")
    return torch.cat([run[site if site == "final" else f"L0.{site}"].flatten(0, 1) for site in sites])


def off_one(rows: torch.Tensor) -> torch.Tensor:
    """How far the standard deviation of a row is from 1, at the most."""
    return (rows.std(dim=-1, correction=0) - 1).abs().max()


@checks("004-N8")
def mean_and_deviation(given: Given) -> Finding:
    """Means and standard deviations of all that LayerNorms make, in both architectures; then with drawn gain and bias, and in the trained model."""
    ids = given.ids(POST)
    made = torch.cat([normalised(given.drawn(config).record(ids)) for config in (PLAIN_POST, PLAIN_PRE)])
    flat = normalise(ONLY_NORMS, NormWeights(), 1e-6 * made[None], Look(NOBODY), "")
    trained = given.model("block").record(one_text(given))["L0.feed_forward_input"]
    kinds: tuple[Kind, ...] = ("plain", "plain-norm", "post-norm", "pre-norm")
    return found(
        stated("mean", made.mean(dim=-1).abs().max(), within=1e-10),
        stated("deviation", off_one(made), within=1e-3),
        outside("gain-and-bias", off_one(given.drawn(POST).record(ids)["L0.t3"]), within=1e-3),
        outside("trained", off_one(trained), within=1e-3),
        outside("flat", off_one(flat), within=1e-3),
        *(beside(f"gradient-{kind}", gain(given, kind, 1.4)) for kind in kinds),
        on=given.name("block"),
    )


@checks("004-N9")
def architectures(given: Given) -> Finding:
    """Both blocks against their definitions written out; only the pre-norm stream is the embedding plus all writes."""
    post, pre, ids = given.drawn(POST), given.drawn(PRE), given.ids(POST)
    run, other = post.record(ids), pre.record(ids)
    off = {name: max(apart(r[f"L0.{step}"][0], t) for step, t in steps.items()) for name, r, steps in (
        ("post-norm", run, post_norm(post, run["L0.in"][0])), ("pre-norm", other, pre_norm(pre, other["L0.in"][0])),
    )}  # fmt: skip
    sums = {name: r["embed"] + r["L0.attention"] + r["L0.feed_forward"] for name, r in (("post", run), ("pre", other))}
    last = pre.weights.norm_final
    assert last.gain is not None
    assert last.bias is not None
    return found(
        *(defined(name, distance, within=1e-10) for name, distance in off.items()),
        defined("final-norm", apart(other["final"][0], normed(other["L0.h"][0]) * last.gain + last.bias), within=1e-10),
        defined("pre-norm-sum", apart(other["L0.h"], sums["pre"]), within=1e-10),
        beside("post-norm-sum", apart(run["L0.h"], sums["post"])),
    )


def stretch(given: Given, config: hw.ModelConfig) -> float:
    """How far the length of the stream after some block of twelve is from √d, at the most and as a share."""
    run = given.drawn(replace(config, layers=12)).record(given.ids(config))
    streams = torch.cat([run[f"L{layer}.out"].flatten(0, 1) for layer in range(12)])
    return float((lengths(streams) / config.d_model**0.5 - 1).abs().max())


@checks("004-N10")
def regulator(given: Given) -> Finding:
    """Widths before and after every norm in both architectures; and the length of the stream along twelve blocks."""
    post, pre = (given.drawn(config).record(given.ids(POST)) for config in (POST, PRE))
    pairs = [(post, "t2", "t3"), (post, "t5", "h"), (pre, "in", "t1"), (pre, "t3", "t4")]
    changed = sum(run[f"L0.{before}"].shape != run[f"L0.{after}"].shape for run, before, after in pairs)
    return found(
        stated("dimension", changed, equal=0),
        stated("post-norm", stretch(given, PLAIN_POST), within=1e-3),
        outside("pre-norm", stretch(given, PLAIN_PRE), within=1e-3),
    )


@checks("004-N11")
def gain_and_bias(given: Given) -> Finding:
    """A LayerNorm with gain and bias against the formula; with gain 1 and bias 0 it gives the right numbers of 004-EX3; and trained gains."""
    model, run = given.drawn(POST), given.drawn(POST).record(given.ids(POST))
    t2, weights = example(t1=T_1)["L0.t2"], NormWeights(gain=torch.ones(4).double(), bias=torch.zeros(4).double())
    neutral = numbers(normalise(hw.LayerNorm(eps=1e-14), weights, t2, Look(NOBODY), ""))
    learned = [tensor for name, tensor in given.model("block").weights.tensors().items() if name.endswith(("ln1.w", "ln2.w"))]
    return found(
        defined("formula", apart(run["L0.t3"][0], layer_norm(model, "ln1", run["L0.t2"][0])), within=1e-10),
        defined(
            "neutral", max(abs(a - b) for a, b in zip(neutral, numbers(normed(t2[0], 1e-14)[None]), strict=True)), within=1e-10
        ),
        beside("learned", max((float((gains - 1).abs().max()) for gains in learned), default=0)),
        on=given.name("block"),
    )


@checks("004-T3.3")
def same_dimension(given: Given) -> Finding:
    """The width of a LayerNorm's output; and how many directions of its input it tells apart."""
    d = POST.d_model
    x = given.drawn(POST).weights.W_E[0].requires_grad_()
    out = normalise(hw.LayerNorm(eps=1e-14, gain=False, bias=False), NormWeights(), x[None, None], Look(NOBODY), "")[0, 0]
    jacobian = torch.stack([torch.autograd.grad(entry, x, retain_graph=True)[0] for entry in out])
    return found(
        stated("width", len(out), equal=d),
        beside("d", d),
        beside("rank", (singular_values(jacobian) > 1e-8).sum()),
    )
