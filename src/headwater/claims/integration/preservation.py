"""Document 002, what a residual connection keeps: of the embedding's information, and of the gradient."""

from dataclasses import replace

import torch

import headwater as hw
from headwater.circuits.algebra import singular_values
from headwater.claims.evidence import Finding, beside, corrected, found, reported, stated
from headwater.claims.given import Given
from headwater.claims.integration.influence import bend
from headwater.claims.integration.on_text import decoded, last_stream, probe
from headwater.claims.integration.trainings import deep, deep_without_residual, gain
from headwater.claims.integration.written import BARE, POST, PRE, apart, feed_forward, tensors_of
from headwater.claims.registry import checks
from headwater.model.layout import tensor_shapes
from headwater.model.weights import Weights


def cancelling() -> hw.Model:
    """One head with ``W_V W_O = −I`` on texts of one token: attention takes away just what the residual connection keeps."""
    config = hw.ModelConfig(vocab=64, context=1, d_model=6, layers=1, attention=hw.Attention(heads=1, d_head=6))
    drawn = torch.Generator().manual_seed(0)
    tensors = {name: torch.randn(shape, generator=drawn, dtype=torch.float64) for name, shape in tensor_shapes(config).items()}
    eye = torch.eye(6, dtype=torch.float64)[None]
    return hw.Model(Weights.assemble(config, tensors | {"blocks.0.attn.W_V": eye, "blocks.0.attn.W_O": -eye}))


def every_token(model: hw.Model) -> hw.Run:
    """Each token as a text by itself."""
    return model.record(torch.arange(model.config.vocab)[:, None])


def recovered(given: Given) -> float:
    """A branch with Lipschitz constant 1/2, undone by ``z ← y − f(z)``: how far from the block's input that comes to rest."""
    drawn, ids = given.drawn(BARE), given.ids(BARE)
    parts = tensors_of(drawn, "mlp")
    halved = {f"blocks.0.mlp.{name}": parts[name] / singular_values(parts[name])[0] * 0.5**0.5 for name in ("W_in", "W_out")}
    model = hw.Model(drawn.weights.changed(halved))
    run = model.record(ids, tap=hw.Zero(model.place("L0.attention")))
    y = z = run["L0.out"][0]
    for _ in range(60):
        z = y - feed_forward(model, z)
    return apart(z, run["L0.in"][0])


@checks("002-N3")
def guarantee(given: Given) -> Finding:
    """Two blocks that lose what they got; then what residual connections do give: an identity path, and an inverse where a branch contracts."""
    erased = every_token(cancelling())["L0.middle"][:, 0]
    model, ids = given.drawn(replace(POST, norm=hw.PostNorm(norm=hw.LayerNorm(eps=1e-14)))), given.ids(POST)
    run = model.record(ids)
    stretched = model.record(ids, tap=hw.Patch(model.place("L0.t2"), 3 * run["L0.t2"] + 5, "3 t2 + 5"))
    pre = given.drawn(replace(PRE, layers=3)).record(ids)
    writes = [pre[f"L{layer}.{part}"] for layer in range(3) for part in ("attention", "feed_forward")]
    return found(
        stated("cancelled", torch.pdist(erased).min(), above=1e-10),
        stated("normed", apart(run["L0.t3"], stretched["L0.t3"]), above=1e-10),
        corrected("identity-path", apart(pre["L2.out"], pre["embed"] + torch.stack(writes).sum(dim=0)), within=1e-10),
        corrected("contraction", recovered(given), within=1e-10),
    )


@checks("002-N7")
def addition(given: Given) -> Finding:
    """A probe for the embedding after an addition that cancels it, then on a trained model; and gradients and losses without the connection."""
    erased = every_token(cancelling())
    return found(
        stated("cancelled", decoded(erased["L0.middle"][:, 0], erased["embed"][:, 0]), above=0.99),
        corrected("trained", probe(given, "L0.middle"), above=probe(given, "L0.middle", by_chance=True)),
        beside("at-the-end", probe(given, last_stream(given))),
        corrected("gradient", abs(gain(given, "residual", 0.5)), below=abs(gain(given, "plain", 0.5))),
        corrected("training", deep(given), below=deep_without_residual(given)),
        on=given.name("block"),
    )


@checks("002-N9")
def stabilises(given: Given) -> Finding:
    """How far 32 layers lengthen or shorten a gradient, with norms against without; and that the feed-forward network bends."""
    model, ids = given.drawn(POST), given.ids(POST)
    return found(
        stated("non-linear", bend(model, ids, "L0.t3", "L0.t4"), above=1e-6),
        reported("small-weights", abs(gain(given, "plain-norm", 0.5)), below=abs(gain(given, "plain", 0.5))),
        reported("large-weights", abs(gain(given, "plain-norm", 1.4)), below=abs(gain(given, "plain", 1.4))),
        reported("post-norm", abs(gain(given, "post-norm", 1.4)), below=abs(gain(given, "residual", 1.4))),
        reported("pre-norm", abs(gain(given, "pre-norm", 1.4)), below=abs(gain(given, "residual", 1.4))),
    )
