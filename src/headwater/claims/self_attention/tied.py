"""Queries and keys of one matrix, so that scores are symmetric, trained beside queries and keys of two; as many parameters in both."""

from dataclasses import replace

import torch
from jaxtyping import Float, Int
from torch import Tensor, nn
from torch.nn.functional import cross_entropy

from headwater.claims.given import Given
from headwater.model.config import Attention, ModelConfig, SinusoidalPositions
from headwater.model.forward import forward
from headwater.model.weights import Weights
from headwater.text.sources import StandardLibrary
from headwater.train.batches import Batches
from headwater.train.loop import train_steps
from headwater.train.module import TransformerModule
from headwater.train.plan import Plan
from headwater.train.studies.small_text import read_bytes

KINDS, MARKS = 3, 5
"""Of the words of the circle."""
CIRCLE = ModelConfig(
    vocab=KINDS * MARKS, context=KINDS, d_model=24, layers=1, attention=Attention(heads=1, d_head=6, mask="full")
)
TEXT = ModelConfig(
    vocab=1,
    context=64,
    d_model=48,
    layers=1,
    attention=Attention(heads=3, d_head=12),
    positions=SinusoidalPositions(into="queries-and-keys"),
)
"""The vocabulary is the text's."""


class TiedModule(TransformerModule):
    """A model whose keys are its queries."""

    def tensors(self) -> dict[str, Tensor]:
        """The parameters; the matrix of the keys is that of the queries."""
        own = super().tensors()
        return own | {"blocks.0.attn.W_K": own["blocks.0.attn.W_Q"]}


def equal_in_size(config: ModelConfig) -> ModelConfig:
    """Heads a third wider: three matrices then have as many numbers as four had."""
    assert config.attention is not None, "asked only where there are heads"
    return replace(config, attention=replace(config.attention, d_head=config.d_head * 4 // 3))


def parameters(module: TransformerModule) -> int:
    """How many numbers are learned; what stands in two places counts once."""
    return sum({id(tensor): tensor.numel() for tensor in module.tensors().values()}.values())


class CircleModule(nn.Module):
    """A model whose loss is that of the marks asked for, at every word."""

    def __init__(self, module: TransformerModule) -> None:
        super().__init__()
        self.module = module

    def forward(self, words: Int[Tensor, "batch six"]) -> Float[Tensor, ""]:
        """The mean nats of the marks, which stand after the words."""
        logits = forward(self.module.live(), words[:, :KINDS])
        return cross_entropy(logits.flatten(0, 1), words[:, KINDS:].flatten())


def circle_words(count: int, seed: int) -> Int[Tensor, "count six"]:
    """Three words of three kinds in any order, each with a mark; then, for each, the mark of the word whose kind comes next in the circle."""
    generator = torch.Generator().manual_seed(seed)
    marks = torch.randint(MARKS, (count, KINDS), generator=generator)
    kinds = torch.rand(count, KINDS, generator=generator).argsort(dim=1)
    of_kind = torch.zeros_like(marks).scatter(1, kinds, marks)
    return torch.cat([MARKS * kinds + marks, of_kind.gather(1, (kinds + 1) % KINDS)], dim=1)


def circle_nats(module: TransformerModule, steps: int = 200) -> float:
    """Train on the circle; nats of a mark in words that were not trained on."""
    asking = CircleModule(module)
    plan = Plan(steps=steps, batch=64, learning_rate=2e-2, warmup=20)
    for _ in train_steps(asking, lambda step: circle_words(plan.batch, seed=step + 1), plan):
        pass
    with torch.no_grad():
        return float(asking(circle_words(2000, seed=0)))


def text_nats(kind: type[TransformerModule], config: ModelConfig) -> tuple[float, int]:
    """Train on bytes of the standard library; nats of a byte of its held-out end, and the number of parameters."""
    ids, vocab = read_bytes(StandardLibrary(), 400_000)
    plan = Plan(steps=300, batch=16, learning_rate=1e-2, warmup=20)
    module = kind(Weights.draw(replace(config, vocab=vocab), seed=plan.seed))
    seen, held_out = ids[:360_000], ids[360_000:]
    batches = Batches(ids=seen, vocab=vocab, context=config.context, batch=plan.batch, seed=plan.seed)
    for _ in train_steps(module, batches, plan):
        pass
    with torch.no_grad():
        asked = replace(batches, ids=held_out, batch=256)
        return float(module(asked(0))), parameters(module)


def on_circle(given: Given) -> dict[str, float]:
    """Nats with two matrices, with one, and with four heads of one matrix each and twice the time."""
    return given.once("circle of three kinds", _train_on_circle)


def _train_on_circle() -> dict[str, float]:
    wider = equal_in_size(CIRCLE)
    heads = replace(wider, attention=Attention(heads=4, d_head=8, mask="full"))
    return {
        "apart": circle_nats(TransformerModule(Weights.draw(CIRCLE, seed=0))),
        "tied": circle_nats(TiedModule(Weights.draw(wider, seed=0))),
        "four heads": circle_nats(TiedModule(Weights.draw(heads, seed=0)), steps=400),
    }


def on_text(given: Given) -> dict[str, tuple[float, int]]:
    """Nats and parameters with two matrices, with one, and without any attention."""
    return given.once("bytes with tied keys", _train_on_text)


def _train_on_text() -> dict[str, tuple[float, int]]:
    none = ModelConfig(vocab=1, context=TEXT.context, d_model=TEXT.d_model, layers=0)
    return {
        "apart": text_nats(TransformerModule, TEXT),
        "tied": text_nats(TiedModule, equal_in_size(TEXT)),
        "none": text_nats(TransformerModule, none),
    }
