"""Training of a one-layer attention-only model beside nanoGPT's loop: the same weights, batches and settings on both sides."""

import math
from collections.abc import Callable
from dataclasses import dataclass
from itertools import count

import torch
from torch import Tensor

from headwater.bench.contest import Result, absent, contest
from headwater.bench.goals import Goal, Table, at_least, at_most, beside, shown
from headwater.bench.phases import operations
from headwater.model.config import Attention, LayerNorm, LearnedPositions, ModelConfig, PreNorm, Unembedding
from headwater.model.weights import Weights
from headwater.train.loop import train_steps
from headwater.train.module import TransformerModule
from headwater.train.plan import Plan

CONTEXT, BATCH = 256, 12
TITLE = f"Training: one layer of attention, tied, {BATCH} × {CONTEXT} tokens an update, AdamW, float32"
ROUNDS = 6
SAME = 1e-5
"""Nats: what another order of adding up may come to after some updates in float32."""


@dataclass(frozen=True)
class Shape:
    """A width and a vocabulary; so many updates in a turn, and the goal."""

    d_model: int
    vocab: int
    updates: int
    goal: float | None

    def __str__(self) -> str:
        return f"d {self.d_model}, V {self.vocab:,}"


# 50,304 is the vocabulary of GPT-2 as nanoGPT pads it, for speed.
SHAPES = {"small": Shape(256, 5_000, 4, 1.4), "middle": Shape(512, 16_000, 1, None), "large": Shape(768, 50_304, 1, 1.2)}
OURS, PEER, FLOOR = "headwater", "nanoGPT's loop", "the weights' matrix products alone"
JOBS = {
    OURS: "headwater",
    f"{OURS}, compiled": "headwater_compiled",
    PEER: "nanogpt",
    f"{PEER}, compiled": "nanogpt_compiled",
    FLOOR: "products_alone",
}

PRODUCTS = (
    "Four fifths of an update are the products of matrices, which both sides do. The ratio moves by a tenth or two from run to run on a"
    " machine that others share, and this goal lies close to the limit."
)


def table(rounds: int) -> Table:
    rows = [["", "", "tokens/s", "MB in all", "loss at the end", "difference"]]
    goals: list[Goal] = []
    everything: dict[str, Result] = {}
    for word, shape in SHAPES.items():
        # A turn of the larger ones takes seconds and is less noisy for it.
        turns = rounds if word == "small" else max(1, rounds // 3)
        results = contest({name: f"training:{job}:{word}" for name, job in JOBS.items()}, turns, equal=True)
        rows += [_row(shape, name, result, results[PEER]) for name, result in results.items()]
        goals += _goals(word, shape, results)
        everything |= results
    return Table(rows, goals, absent(everything))


def _row(shape: Shape, name: str, result: Result, peer: Result) -> list[str]:
    speed = shown(shape.updates * BATCH * CONTEXT / result.seconds, 0)
    if math.isnan(result.answer):
        return [str(shape), name, speed, "", "", ""]
    return [
        str(shape), name, speed, shown(result.megabytes, 0), f"{result.answer:.6f}", f"{result.answer - peer.answer:+.1e}",
    ]  # fmt: skip


def _goals(word: str, shape: Shape, results: dict[str, Result]) -> list[Goal]:
    ours, peer, compiled, floor = (results[name] for name in (OURS, PEER, f"{PEER}, compiled", FLOOR))
    faster, limit = peer.seconds / ours.seconds, peer.seconds / floor.seconds
    others = beside(f"{shape}: times faster than nanoGPT compiled", compiled.seconds / ours.seconds)
    if shape.goal is None:
        return [beside(f"{shape}: times faster than nanoGPT", faster), others]
    return [
        at_least(
            f"{shape}: times faster than nanoGPT", faster, shape.goal, limit=limit, why=f"training:why:{word}", because=PRODUCTS
        ),
        at_least(f"{shape}: times smaller than nanoGPT", peer.megabytes / ours.megabytes, 2.0),
        at_most(f"{shape}: difference of losses", abs(ours.answer - peer.answer), SAME, unit="nats"),
        others,
    ]


def why(word: str) -> Callable[[], dict[str, float]]:
    return operations(headwater(word))


PLAN = Plan(steps=1000, batch=BATCH, learning_rate=6e-4, warmup=10, weight_decay=0.1, beta_2=0.95, clip=1.0)


def _weights(shape: Shape) -> Weights:
    config = ModelConfig(
        vocab=shape.vocab,
        context=CONTEXT,
        d_model=shape.d_model,
        layers=1,
        attention=Attention(heads=shape.d_model // 64, d_head=64),
        norm=PreNorm(norm=LayerNorm(bias=False)),
        positions=LearnedPositions(),
        unembedding=Unembedding(tied=True),
    )
    return Weights.draw(config, seed=0)


def _windows(shape: Shape, step: int) -> Tensor:
    """Words that are the rarer, the larger their id."""
    draws = torch.rand(BATCH, CONTEXT + 1, generator=torch.Generator().manual_seed(step))
    return (draws**3 * shape.vocab).long()


def _turns(shape: Shape, begin: Callable[[], Callable[[], float]]) -> Callable[[], float]:
    """So many updates a turn. The model is made in the first turn, so that its weights count as memory."""
    updates: list[Callable[[], float]] = []

    def run() -> float:
        if not updates:
            updates.append(begin())
        return [updates[0]() for _ in range(shape.updates)][-1]

    return run


def headwater(word: str, *, compiled: bool = False) -> Callable[[], float]:
    shape = SHAPES[word]

    def begin() -> Callable[[], float]:
        steps = train_steps(TransformerModule(_weights(shape), compiled=compiled), lambda step: _windows(shape, step), PLAN)
        return lambda: next(steps).loss

    return _turns(shape, begin)


def headwater_compiled(word: str) -> Callable[[], float]:
    return headwater(word, compiled=True)


def nanogpt(word: str, *, compiled: bool = False) -> Callable[[], float]:
    from headwater.bench.nanogpt import Loop

    shape = SHAPES[word]

    def begin() -> Callable[[], float]:
        loop, steps = Loop(_weights(shape), PLAN, compiled=compiled), count()

        def update() -> float:
            step = next(steps)
            return loop.update(step, _windows(shape, step))

        return update

    return _turns(shape, begin)


def nanogpt_compiled(word: str) -> Callable[[], float]:
    return nanogpt(word, compiled=True)


def products_alone(word: str) -> Callable[[], None]:
    """The products with weights, forward and backward, that every implementation must do: nothing of attention's own."""
    shape = SHAPES[word]
    tokens, d_model = BATCH * CONTEXT, shape.d_model
    x, square, W_U = torch.randn(tokens, d_model), torch.randn(d_model, d_model), torch.randn(shape.vocab, d_model)
    some, gradient = min(tokens, 512), torch.zeros_like(W_U)
    logits = torch.randn(some, -(-shape.vocab // 16) * 16)[:, : shape.vocab]

    @torch.inference_mode()
    def run() -> None:
        for _ in range(4 * shape.updates):
            _ = x @ square, x @ square.T, x.T @ x
        for _ in range(tokens // some * shape.updates):
            torch.mm(x[:some], W_U.T, out=logits)
            _ = logits @ W_U
            gradient.addmm_(logits.T, x[:some])

    return run
