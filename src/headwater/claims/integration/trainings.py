"""Small trainings side by side: the same blocks on the same text, with one thing changed by a tap; and gradients before any training."""

import math
from collections.abc import Callable
from dataclasses import replace

import torch
from jaxtyping import Float, Int
from torch import Tensor, nn

import headwater as hw
from headwater.claims.given import Given
from headwater.model.forward import final_stream, last_norm
from headwater.model.taps import NOBODY, Tap
from headwater.model.weights import Weights
from headwater.text.sources import StandardLibrary
from headwater.train.batches import Batches
from headwater.train.loop import train_steps
from headwater.train.loss import cross_entropy
from headwater.train.module import TransformerModule
from headwater.train.plan import Plan
from headwater.train.studies import gradient_depth
from headwater.train.studies.gradient_depth import Kind, WithoutResidual
from headwater.train.studies.small_text import read_bytes

SMALL = hw.ModelConfig(
    vocab=256,
    context=32,
    d_model=32,
    layers=1,
    attention=hw.Attention(heads=4, d_head=8),
    feed_forward=hw.FeedForward(d_mlp=64),
    norm=hw.PreNorm(),
    positions=hw.LearnedPositions(),
)
DEEP = replace(SMALL, layers=6)
SUMS = replace(
    SMALL,
    vocab=8,
    context=2,
    d_model=16,
    attention=hw.Attention(heads=2, d_head=8),
    feed_forward=hw.FeedForward(d_mlp=32),
)
"""Reads two numbers below 8, and is asked for their sum, modulo 8."""
LAST = 20
"""Updates at the end of a training whose loss is averaged."""


class Linear(Tap):
    """Opens every gate of every feed-forward layer, which is linear then."""

    def wants(self, site: str) -> bool:
        """All gates."""
        return site.endswith(".gates")

    def __call__(self, site: str, value: Tensor) -> Tensor:
        """Ones."""
        del site
        return torch.ones_like(value)


class Tapped(nn.Module):
    """A model in training whose pass goes through a tap, and whose loss is that of the last ``asked`` tokens."""

    def __init__(self, config: hw.ModelConfig, tap: Tap, asked: int) -> None:
        super().__init__()
        self.module, self.tap, self.asked = TransformerModule(Weights.draw(config, seed=0)), tap, asked

    def forward(self, windows: Int[Tensor, "batch window"]) -> Float[Tensor, ""]:
        """Their mean nats."""
        weights, last = self.module.live(), slice(-self.asked, None)
        stream = last_norm(weights, final_stream(weights, windows[:, :-1], self.tap))[:, last]
        return cross_entropy(stream.flatten(0, 1), weights.W_U, weights.b_U, windows[:, last].flatten())


def on_text(given: Given, config: hw.ModelConfig, plan: Plan, tap: Tap = NOBODY) -> float:
    """Nats for each byte of Python's standard library at the end of a training."""
    ids, vocab = given.once("bytes of the standard library", lambda: read_bytes(StandardLibrary(), 300_000))
    sized = replace(config, vocab=vocab)
    batches = Batches(ids=ids, vocab=vocab, context=config.context, batch=plan.batch, seed=0)
    return _once(given, Tapped(sized, tap, config.context), batches, plan)


def on_sums(given: Given, config: hw.ModelConfig = SUMS, tap: Tap = NOBODY) -> float:
    """Nats of the sum of two numbers at the end of a short training."""

    def batch_of(step: int) -> Int[Tensor, "batch window"]:
        pairs = torch.randint(config.vocab, (64, 2), generator=torch.Generator().manual_seed(step))
        return torch.cat([pairs, pairs.sum(dim=1, keepdim=True) % config.vocab], dim=1)

    return _once(given, Tapped(config, tap, 1), batch_of, Plan(steps=200, batch=64, learning_rate=1e-2, warmup=20))


def _once(given: Given, module: Tapped, batch_of: Callable[[int], Tensor], plan: Plan) -> float:
    def train() -> float:
        losses: list[float] = []
        for step in train_steps(module, batch_of, plan):
            losses.append(step.loss)
            given.listen()
        return sum(losses[-LAST:]) / LAST

    return given.once(f"a small training {module.module.config} {plan} {type(module.tap).__name__}", train)


def deep(given: Given, tap: Tap = NOBODY) -> float:
    """Six blocks, trained for a short while: nats for each byte."""
    return on_text(given, DEEP, Plan(steps=100, batch=16, learning_rate=3e-3, warmup=15), tap)


def deep_without_residual(given: Given) -> float:
    """The same, where each block hands on only what it wrote."""
    return deep(given, WithoutResidual())


def gain(given: Given, kind: Kind, scale: float) -> float:
    """``log10 ‖∂L/∂x_0‖ / ‖∂L/∂x_32‖`` before training: by how many powers of ten 32 layers lengthen a gradient on its way down."""
    study = given.once("gradients through depth", lambda: gradient_depth.run((32,), (0.5, 1.4), seeds=3))
    return next(math.log10(at.gains[0]) for at in study.depths if (at.kind, at.scale) == (kind, scale))
