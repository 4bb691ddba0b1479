"""How gradients change on their way down a deep stack, before any training.

Five kinds of stack out of the same blocks: without the residual connection (``plain``), without it but with a norm before each component
(``plain-norm``), with it and no norm (``residual``), ``pre-norm`` and ``post-norm``. All matrices are drawn with variance ``scale² / fan-in`` (those into
a ReLU with twice that), so that nothing but the kind, the depth and the scale decides. The gain of a stack is how much longer the gradient
of the loss is at its bottom than at its top, ``‖∂L/∂x_0‖ / ‖∂L/∂x_depth‖``.

Attention patterns are held fixed. Where a stream has exploded they are all ties or certainties, and the derivative of a tie is a rounding error
times the size of the stream, larger than any gradient; elsewhere the gradient through the patterns is a small part of the whole.
"""

import math
from collections.abc import Sequence
from dataclasses import asdict, dataclass, replace
from itertools import product
from typing import Any, Literal, TypeAlias, get_args

import torch
from torch import Tensor
from torch.autograd import grad
from torch.nn.functional import cross_entropy

from headwater.errors import InputError
from headwater.model.config import Attention, FeedForward, LayerNorm, ModelConfig, NoNorm, PostNorm, PreNorm
from headwater.model.forward import forward
from headwater.model.layout import tensor_shapes
from headwater.model.taps import NOBODY, Chain, Recorder, Tap
from headwater.model.weights import Weights
from headwater.shapes import Tokens
from headwater.show.values import Line, Panel, Progress, Table, silent

Kind: TypeAlias = Literal["plain", "plain-norm", "residual", "pre-norm", "post-norm"]

MODEL = ModelConfig(
    vocab=64,
    context=16,
    d_model=32,
    layers=1,
    attention=Attention(heads=4, d_head=8),
    feed_forward=FeedForward(d_mlp=64, bias=False),
)
TEXTS = 4


class WithoutResidual(Tap):
    """Takes the residual connection away: the stream after each component is what that component wrote, and nothing else."""

    def __init__(self) -> None:
        self._written: Tensor | None = None

    def wants(self, site: str) -> bool:
        """What is written, and the sums that it becomes part of."""
        return site.endswith((".attention", ".feed_forward", ".middle", ".out"))

    def __call__(self, site: str, value: Tensor) -> Tensor:
        """Instead of a sum, its last addend."""
        if site.endswith((".attention", ".feed_forward")):
            self._written = value
            return value
        assert self._written is not None, "a component writes before its write is added"
        return self._written


class FixedPatterns(Tap):
    """Lets no gradient through attention patterns."""

    def wants(self, site: str) -> bool:
        """Every pattern."""
        return site.endswith(".pattern")

    def __call__(self, site: str, value: Tensor) -> Tensor:
        """The same numbers, as constants."""
        return value.detach()


@dataclass(frozen=True, kw_only=True)
class Depth:
    """One kind of stack at one scale and depth; medians over draws."""

    kind: Kind
    scale: float
    layers: int
    gains: tuple[float, ...]
    """``‖∂L/∂x_l‖ / ‖∂L/∂x_depth‖`` for l = 0 … depth: the last is 1."""
    first: float
    """``‖∂L/∂W_out‖`` of the first block."""
    last: float
    """And of the last."""

    @property
    def factor(self) -> float:
        """What one layer multiplies the gradient by on its way down: the slope of ``ln gain`` along the stack, exponentiated."""
        return math.exp(-_slope([float(layer) for layer in range(len(self.gains))], [math.log(gain) for gain in self.gains]))


@dataclass(frozen=True, kw_only=True)
class DepthStudy:
    """Gradients at initialisation by kind, scale and depth."""

    seeds: int
    depths: tuple[Depth, ...]

    def power(self, kind: Kind, scale: float) -> float | None:
        """The exponent with which the gradient of the last block's ``W_out`` changes with depth; ``None`` for a single depth."""
        there = [at for at in self.depths if (at.kind, at.scale) == (kind, scale)]
        if len(there) < 2:
            return None
        return _slope([math.log(at.layers) for at in there], [math.log(at.last) for at in there])

    def tables(self) -> tuple[Table, ...]:
        """The deepest stack of each kind and scale."""
        deepest = max(at.layers for at in self.depths)
        rows: list[tuple[str, ...]] = []
        for at in self.depths:
            if at.layers == deepest:
                power = self.power(at.kind, at.scale)
                told = "–" if power is None else f"{power:+.2f}"
                rows.append(
                    (
                        f"{at.scale:g}",
                        at.kind,
                        f"{at.gains[0]:.2e}",
                        f"{at.factor:.3f}",
                        f"{at.first:.2e}",
                        f"{at.last:.2e}",
                        told,
                    )
                )
        title = f"gradients at initialisation through {deepest} layers, patterns fixed, median of {self.seeds} draws"
        columns = ("scale#", "stack", "gain#", "per layer#", "first ∂W_out#", "last ∂W_out#", "last ∝ depth^#")
        return (Table(title=title, columns=columns, rows=tuple(rows)),)

    def plain(self) -> dict[str, Any]:
        """All numbers."""
        depths = [asdict(at) | {"factor": at.factor, "power": self.power(at.kind, at.scale)} for at in self.depths]
        return {"seeds": self.seeds, "depths": depths}

    def curves(self) -> tuple[Panel, ...]:
        """The gain along the deepest stack, one panel for each scale."""
        deepest, panels = max(at.layers for at in self.depths), list[Panel]()
        for scale in sorted({at.scale for at in self.depths}):
            lines = tuple(
                Line(label=at.kind, x=tuple(map(float, range(deepest + 1))), y=at.gains)
                for at in self.depths
                if at.layers == deepest and at.scale == scale
            )
            panels.append(
                Panel(title=f"Weight scale {scale:g}", x="layer", y="gradient, relative to the top", lines=lines, y_scale="log")
            )
        return tuple(panels)


def run(
    depths: Sequence[int] = (4, 8, 16, 32),
    scales: Sequence[float] = (0.5, 1.0, 1.4),
    *,
    seeds: int = 5,
    seed: int = 0,
    progress: Progress = silent,
) -> DepthStudy:
    """Draw stacks and follow the gradient of the loss on random tokens down each of them."""
    cases = list(product(scales, get_args(Kind), depths))
    found: list[Depth] = []
    for number, (scale, kind, layers) in enumerate(cases):
        progress(f"{kind}, {layers} layers", number / len(cases))
        logs = torch.stack([_logs(kind, layers, scale, draw) for draw in range(seed, seed + seeds)]).median(dim=0).values
        if not logs.exp().isfinite().all() or not logs.exp().all():
            given = f"gradients of a {kind} stack of {layers} layers at scale {scale:g}"
            raise InputError(given, "numbers that float64 can hold", "lower the depth, or bring the scale nearer to 1")
        *gains, first, last = logs.exp().unbind()
        found.append(
            Depth(kind=kind, scale=scale, layers=layers, gains=tuple(map(float, gains)), first=float(first), last=float(last))
        )
    return DepthStudy(seeds=seeds, depths=tuple(found))


def stream_gradients(weights: Weights, tokens: Tokens, tap: Tap = NOBODY) -> list[Tensor]:
    """``∂L/∂x_l`` of the stream into each block and out of the last, then ``∂L/∂W_out`` of each block.

    L is the mean cross-entropy of each next token, with attention patterns held fixed.
    """
    layers, tensors = range(weights.config.layers), weights.tensors()
    names = ["embed.W_E", *(f"blocks.{layer}.mlp.W_out" for layer in layers)]
    leaves = {name: tensors[name].clone().requires_grad_() for name in names}
    watch = Recorder(["L0.in", "L*.out"])
    logits = forward(weights.changed(leaves), tokens[:, :-1], Chain(tap, FixedPatterns(), watch))
    loss = cross_entropy(logits.flatten(0, 1), tokens[:, 1:].flatten())
    stream = [watch.kept["L0.in"], *(watch.kept[f"L{layer}.out"] for layer in layers)]
    return list(grad(loss, [*stream, *(leaves[name] for name in names[1:])]))


def _logs(kind: Kind, layers: int, scale: float, seed: int) -> Tensor:
    """Logarithms of the gains, and of the lengths of the first and last gradient of ``W_out``, of one draw."""
    generator = torch.Generator().manual_seed(seed)
    norm = {
        "pre-norm": PreNorm(norm=LayerNorm()),
        "plain-norm": PreNorm(norm=LayerNorm()),
        "post-norm": PostNorm(norm=LayerNorm()),
    }
    config = replace(MODEL, layers=layers, norm=norm.get(kind, NoNorm()))
    weights = _draw(config, scale, generator)
    tokens = torch.randint(0, config.vocab, (TEXTS, config.context + 1), generator=generator)
    gradients = stream_gradients(weights, tokens, WithoutResidual() if kind.startswith("plain") else NOBODY)
    lengths = torch.stack([gradient.square().sum().sqrt().log() for gradient in gradients])
    along, of_weights = lengths[: layers + 1], lengths[layers + 1 :]
    return torch.cat([along - along[-1], of_weights[[0, -1]]])


def _draw(config: ModelConfig, scale: float, generator: torch.Generator) -> Weights:
    tensors: dict[str, Tensor] = {}
    for name, shape in tensor_shapes(config).items():
        symbol = name.rsplit(".", 1)[1]
        if symbol in ("w", "b"):
            tensors[name] = torch.full(shape, 1.0 if symbol == "w" else 0.0, dtype=torch.float64)
            continue
        fan_in = {"W_E": 1, "W_O": config.heads * config.d_head}.get(symbol, shape[-2])
        spread = (2.0 if symbol == "W_in" else 1.0) ** 0.5 * (scale if name.startswith("blocks") else 1.0) * fan_in**-0.5
        tensors[name] = spread * torch.randn(shape, generator=generator, dtype=torch.float64)
    return Weights.assemble(config, tensors)


def _slope(x: Sequence[float], y: Sequence[float]) -> float:
    """Of the straight line nearest to some points."""
    x_mean, y_mean = sum(x) / len(x), sum(y) / len(y)
    return sum((a - x_mean) * (b - y_mean) for a, b in zip(x, y, strict=True)) / sum((a - x_mean) ** 2 for a in x)
