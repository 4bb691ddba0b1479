# pyright: basic
# A job may return anything.
"""How costs grow: the same work at several sizes, and the exponents of time and memory beside those that arithmetic gives."""

import math
import tempfile
from collections.abc import Callable, Sequence
from dataclasses import dataclass, replace
from typing import Any

import torch

from headwater.bench.contest import absent, contest
from headwater.bench.goals import Table, shown

TITLE = "How costs grow: exponents by least squares of logarithms over all sizes, beside those of a count of operations and of numbers kept"
ROUNDS = 3
D_MODEL, HEADS, LAYERS, CONTEXT, VOCAB = 256, 4, 4, 512, 4096
BATCH = 8

Count = Callable[[int], float]


@dataclass(frozen=True)
class Series:
    """One kind of work against one size."""

    name: str
    against: str
    job: str
    sizes: tuple[int, ...]
    operations: Count
    kept: Count
    """Numbers that are there at the same time, beyond the model."""


def _blocks(context: int, layers: int) -> float:
    """Operations of all blocks: products with weights, and what attention does for every pair of positions that see each other."""
    return layers * (24 * context * D_MODEL**2 + 2 * context**2 * D_MODEL)


def _logits(context: int) -> float:
    return 2 * context * D_MODEL * VOCAB


CONTEXTS, DEPTHS = (256, 512, 1024, 2048), (2, 4, 8, 16)
SERIES = (
    Series(
        "largest entries of a circuit's rows", "V", "growth:top_rows", (10_000, 16_000, 25_000, 40_000), lambda V: V**2, lambda V: V
    ),
    Series(
        "largest entries of a circuit's rows", "d_head", "growth:top_rows_of_inner", (32, 64, 128, 256), lambda d: d, lambda d: d
    ),
    Series("all lists of a head of an atlas", "V", "growth:lists", (6_000, 9_000, 13_500, 20_000), lambda V: V**2, lambda V: V),
    Series(
        "forward pass, all logits", "context", "growth:forward_of_context", CONTEXTS,
        lambda n: _blocks(n, LAYERS) + _logits(n), lambda n: n,
    ),
    Series(
        "forward pass, all logits", "layers", "growth:forward_of_layers", DEPTHS,
        lambda layers: _blocks(CONTEXT, layers) + _logits(CONTEXT), lambda layers: 1,
    ),
    Series(
        "a logit's components", "context", "growth:components_of_context", CONTEXTS,
        lambda n: _blocks(n, LAYERS), lambda n: n,
    ),
    Series(
        "a logit's components", "layers", "growth:components_of_layers", DEPTHS,
        lambda layers: _blocks(CONTEXT, layers), lambda layers: layers,
    ),
    Series(
        "totals of all tokens, by one sweep", "context", "growth:totals_of_context", (128, 256, 512, 1024),
        # Once through the model, and once back with whole patterns, which are not fused: two products of all pairs, forward and back.
        lambda n: 2 * _blocks(n, LAYERS) + LAYERS * 4 * n**2 * D_MODEL, lambda n: HEADS * n**2 + 4 * LAYERS * D_MODEL * n,
    ),
    Series(
        "an update of training", "V", "growth:update", (4_000, 8_000, 16_000, 32_000),
        lambda V: 6 * BATCH * CONTEXT * D_MODEL * (V + 4 * D_MODEL) + 20 * V * D_MODEL,
        # Weights, gradients and two moments; some hundred tokens' logits; what attention keeps of every token for its gradient.
        lambda V: V * (4 * D_MODEL + 512) + 12 * BATCH * CONTEXT * D_MODEL,
    ),
)  # fmt: skip


def table(rounds: int) -> Table:
    rows = [["", "against", "sizes", "seconds", "exponent", "by arithmetic", "MB", "exponent", "by arithmetic"]]
    notes: list[str] = []
    with tempfile.TemporaryDirectory() as folder:
        for series in SERIES:
            # Another folder for each process: some write files.
            jobs = {f"{size}": f"{series.job}:{size}:{folder}" for size in series.sizes}
            results = contest(jobs, rounds)
            rows.append(
                _row(series, [each.seconds for each in results.values()], [each.megabytes for each in results.values()])
            )
            notes += absent(results)
    return Table(rows, [], notes)


def _row(series: Series, seconds: Sequence[float], megabytes: Sequence[float]) -> list[str]:
    sizes = series.sizes
    return [
        series.name,
        series.against,
        ", ".join(f"{size:,}" for size in sizes),
        ", ".join(shown(each, 3) for each in seconds),
        shown(exponent(sizes, seconds)),
        shown(exponent(sizes, [series.operations(size) for size in sizes])),
        ", ".join(shown(each, 0) for each in megabytes),
        shown(exponent(sizes, megabytes)),
        shown(exponent(sizes, [series.kept(size) for size in sizes])),
    ]


def exponent(sizes: Sequence[float], values: Sequence[float]) -> float:
    """The slope of a straight line through the logarithms; nan where there is none.

    >>> exponent([1, 2, 4, 8], [3, 12, 48, 192])
    2.0
    >>> exponent([1, 2], [0, 1])
    nan
    """
    if not all(value > 0 for value in values):
        return math.nan
    x, y = ([math.log(each) for each in one] for one in (sizes, values))
    middle = sum(x) / len(x)
    found = sum((a - middle) * b for a, b in zip(x, y, strict=True)) / sum((a - middle) ** 2 for a in x)
    # Rounding must not show as −0.00.
    return round(found, 12) + 0.0


def _warm(run: Callable[[], object]) -> Callable[[], object]:
    """Done once, so that libraries and what is compiled are there before memory is looked at."""
    run()
    return run


def top_rows(size: str, _: str, inner: int = 64):
    from headwater.circuits.streamed.scan import Wants
    from headwater.circuits.streamed.survey import survey

    draw = torch.Generator().manual_seed(0)
    left, right = (torch.randn(int(size), inner, generator=draw) for _ in range(2))

    @torch.inference_mode()
    def run():
        return survey(left, right, Wants(top_rows=10))

    return _warm(run)


def top_rows_of_inner(size: str, folder: str):
    return top_rows("20000", folder, inner=int(size))


def lists(size: str, folder: str):
    from headwater.bench.atlas import lists

    return _warm(lists(folder, size))


def _weights(*, context: int = CONTEXT, layers: int = LAYERS):
    """GPT-2's kind, smaller."""
    from headwater.model.config import Attention, FeedForward
    from headwater.model.presets import named
    from headwater.model.weights import Weights

    shape = replace(named("gpt2-small"), d_model=D_MODEL, layers=layers, vocab=VOCAB, context=context)
    attention = Attention(heads=HEADS, d_head=D_MODEL // HEADS, input_bias=True, output_bias=True)
    feed_forward = FeedForward(d_mlp=4 * D_MODEL, activation="gelu-tanh")
    return Weights.draw(replace(shape, attention=attention, feed_forward=feed_forward), seed=0)


def _text(context: int):
    return torch.randint(0, VOCAB, (1, context), generator=torch.Generator().manual_seed(0))


def _forward(weights):
    from headwater.model.forward import forward

    text = _text(weights.config.context)

    @torch.inference_mode()
    def run():
        return forward(weights, text)

    return _warm(run)


def forward_of_context(size: str, _: str):
    return _forward(_weights(context=int(size)))


def forward_of_layers(size: str, _: str):
    return _forward(_weights(layers=int(size)))


def _explained(weights, by: Any = None):
    from headwater.api import Model

    model, text = Model(weights), _text(weights.config.context)
    return _warm(lambda: model.record(text).explain().split(by, most=None))


def components_of_context(size: str, _: str):
    return _explained(_weights(context=int(size)))


def components_of_layers(size: str, _: str):
    return _explained(_weights(layers=int(size)))


def totals_of_context(size: str, _: str):
    return _explained(_weights(context=int(size)), "token")


def update(size: str, _: str):
    """One layer of attention, tied. The model is made in the first turn, so that weights, gradients and moments count as memory, and libraries do not."""
    next(_updates(64))
    begun = []

    def run() -> float:
        if not begun:
            begun.append(_updates(int(size)))
        return next(begun[0]).loss

    return run


def _updates(vocab: int):
    from headwater.bench.training import PLAN
    from headwater.model.config import Attention, LearnedPositions, ModelConfig, PreNorm, Unembedding
    from headwater.model.weights import Weights
    from headwater.train.loop import train_steps
    from headwater.train.module import TransformerModule

    config = ModelConfig(
        vocab=vocab,
        context=CONTEXT,
        d_model=D_MODEL,
        layers=1,
        attention=Attention(heads=HEADS, d_head=D_MODEL // HEADS),
        norm=PreNorm(),
        positions=LearnedPositions(),
        unembedding=Unembedding(tied=True),
    )

    def windows(step: int):
        return torch.randint(0, vocab, (BATCH, CONTEXT + 1), generator=torch.Generator().manual_seed(step))

    return train_steps(TransformerModule(Weights.draw(config, seed=0)), windows, PLAN)
