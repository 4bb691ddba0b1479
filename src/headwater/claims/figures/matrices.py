"""Attention as products of matrices: the projections with their sizes, and what can be computed at the same time."""

import time
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np
import torch

from headwater.claims.evidence import Finding, beside, drawn, found
from headwater.claims.figures.attended import Attended, attended, short_text
from headwater.claims.figures.drawings import drawing_of, draws
from headwater.claims.figures.paper import Array, Sheet, sheet, thumbnail
from headwater.claims.figures.planes import cloud, plane
from headwater.claims.figures.shown import legible, shown
from headwater.claims.given import Given
from headwater.claims.registry import checks
from headwater.show.looks import Look

WIDE = 2.5
"""Inches of d; everything else is drawn to the same scale."""
LONG = 64
"""Tokens of the text on which loops and products are timed."""
MIDDLE = 2.8
"""Inches from the top to the middle of the matrices that are multiplied."""


@draws("003-FIG10", attended)
def draw_spaces(data: Attended, look: Look) -> Any:
    """The three products to scale, and the tokens in the four spaces that they lead from and to."""
    page = sheet(look, 11.2, 7.6)
    d, d_k, d_v = data.x.shape[1], data.q.shape[1], data.v.shape[1]
    page.title(
        look.say("Three projections into smaller spaces", "Três projeções para espaços menores"),
        look.say(
            f"Head {data.head} of a trained one-layer model: $d = {d}$, $d_k = {d_k}$, $d_v = {d_v}$; matrices are drawn to scale.",
            f"Cabeça {data.head} de um modelo treinado de uma camada: $d = {d}$, $d_k = {d_k}$, $d_v = {d_v}$; matrizes desenhadas em escala.",
        ),
    )
    _products(page, data)
    _planes(page, data)
    return page.figure


def _products(page: Sheet, data: Attended) -> None:
    look, (count, d) = page.look, data.x.shape
    tall = 0.22 * count
    x = (0.95, 2.45 - tall / 2, WIDE, tall)
    page.tokens(0.5, x, data.words)
    page.matrix(
        x,
        thumbnail(data.x, count, 96),
        look.say("input space: $x_i \\in \\mathbb{R}^d$", "espaço de entrada: $x_i \\in \\mathbb{R}^d$"),
        f"$N \\times d = {count} \\times {d}$",
    )
    parts = (("Q", "d_k", data.W_Q, data.q, "q"), ("K", "d_k", data.W_K, data.k, "k"), ("V", "d_v", data.W_V, data.v, "v"))
    for number, (name, size, W, made, small) in enumerate(parts):
        left, width, colour = 4.35 + 2.35 * number, WIDE * W.shape[1] / d, look.colours[number]
        page.matrix(
            (left, 2.45 - WIDE / 2, width, WIDE),
            thumbnail(W, 96, 24),
            f"$W^{name} \\in \\mathbb{{R}}^{{d \\times {size}}}$",
            f"{W.shape[0]} × {W.shape[1]}",
            edge=colour,
        )
        start = 3.5 if not number else left - 0.6
        page.arrow((start, 2.45), (left - 0.08, 2.45), color=colour)
        page.arrow((left + width + 0.07, 2.45), (left + width + 0.5, 2.45), color=colour)
        made_at = (left + width + 0.58, 2.45 - tall / 2, width, tall)
        page.matrix(made_at, made, f"${small}_i \\in \\mathbb{{R}}^{{{size}}}$", f"{count} × {made.shape[1]}", edge=colour)
        read = "$x_i$" if name == "V" or not data.is_marked else "$x_i + p_i$"
        page.write((left - 0.35, 2.28), read, size=8.5)


def _planes(page: Sheet, data: Attended) -> None:
    look = page.look
    spaces = (
        (look.say("input", "entrada"), data.x, look.ink),
        ("queries", data.q, look.colours[0]),
        ("keys", data.k, look.colours[1]),
        ("values", data.v, look.colours[2]),
    )
    for number, (name, vectors, colour) in enumerate(spaces):
        axes = page.graph((0.55 + 2.7 * number, 4.85, 2.1, 1.95))
        directions, centre = plane(vectors)
        cloud(axes, (vectors - centre) @ directions, data.words, color=colour)
        dimensions = look.say(f"{vectors.shape[1]} dimensions", f"{vectors.shape[1]} dimensões")
        axes.set_title(f"{name}: {dimensions}", size=9)
    page.write(
        (page.width / 2, 7.25),
        look.say(
            "The same tokens in each space, seen along the two directions in which they differ most.",
            "Os mesmos tokens em cada espaço, vistos ao longo das duas direções em que mais diferem.",
        ),
    )


@checks("003-FIG10")
def spaces(given: Given) -> Finding:
    """The printed sizes are the model's d, d_k and d_v; the drawn vectors are the tokens' vectors times the drawn matrices."""
    data, model = drawing_of("003-FIG10").data(given), given.model("one-layer")
    run = model.record(short_text(model))
    d, d_k, count = model.config.d_model, model.config.d_head, len(data.words)
    words = shown(given, "003-FIG10")
    return found(
        drawn("queries", np.abs(data.q - run["L0.queries"][0, data.number].numpy()).max(), within=1e-10),
        drawn("keys", np.abs(data.k - run["L0.keys"][0, data.shared].numpy()).max(), within=1e-10),
        drawn("values", np.abs(data.v - run["L0.values"][0, data.shared].numpy()).max(), within=1e-10),
        drawn(
            "sizes",
            words.has(f"$N \\times d = {count} \\times {d}$", f"{d} × {d_k}", f"{count} × {d_k}", f"$d = {d}$"),
            equal=4,
        ),
        drawn("matrices", words.pictures, equal=7),
        legible(given, "003-FIG10", given.name("one-layer")),
        on=given.name("one-layer"),
    )


@dataclass(frozen=True, kw_only=True)
class Parallel:
    """One head's matrices, and how long the same work takes one token after the other and all at once."""

    one: Attended
    heads: int
    tokens: int
    seconds_one_by_one: float
    seconds_at_once: float
    apart: float
    """The largest difference between the two results."""


def gather_parallel(given: Given) -> Parallel:
    """The head of the other figures; and both ways of working timed on random vectors of its size."""
    data = attended(given)
    generator = torch.Generator().manual_seed(0)
    q, k, v = (
        torch.randn(LONG, width, generator=generator, dtype=torch.float64)
        for width in (data.q.shape[1], data.k.shape[1], data.v.shape[1])
    )

    def one_by_one() -> torch.Tensor:
        return torch.stack(
            [torch.softmax(torch.stack([q[i] @ k[j] * data.scale for j in range(LONG)]), 0) @ v for i in range(LONG)]
        )

    def at_once() -> torch.Tensor:
        return torch.softmax(q @ k.T * data.scale, dim=-1) @ v

    (slow, slowly), (fast, quickly) = _timed(one_by_one), _timed(at_once)
    return Parallel(
        one=data,
        heads=given.model("one-layer").config.heads,
        tokens=LONG,
        seconds_one_by_one=slow,
        seconds_at_once=fast,
        apart=float((slowly - quickly).abs().max()),
    )


def _timed(work: Callable[[], torch.Tensor]) -> tuple[float, torch.Tensor]:
    start = time.process_time()
    done = work()
    return time.process_time() - start, done


@draws("003-FIG13", gather_parallel)
def draw_parallel(data: Parallel, look: Look) -> Any:
    """Four stages from left to right; within a stage nothing waits for anything else."""
    page = sheet(look, 11.4, 5.45)
    one, count = data.one, len(data.one.words)
    page.title(
        look.say("Four steps in a row, however long the text", "Quatro passos seguidos, por mais longo que seja o texto"),
        look.say(
            f"Head {one.head} on $N = {count}$ tokens; all {data.heads} heads do this at the same time. Inside a frame nothing waits for anything else.",
            f"Cabeça {one.head} em $N = {count}$ tokens; as {data.heads} cabeças fazem isto ao mesmo tempo. Dentro de um quadro, nada espera por nada.",
        ),
    )
    _stages(page, data)
    _matrices(page, one)
    said = (
        look.say("one pair of tokens after the other", "um par de tokens depois do outro"),
        look.say("as products of matrices", "como produtos de matrizes"),
    )
    slow, fast = (look.number(1000 * seconds) for seconds in (data.seconds_one_by_one, data.seconds_at_once))
    page.write(
        (page.width / 2, 5.1),
        look.say(
            f"Measured at N = {data.tokens}, same result: {slow} ms {said[0]}, {fast} ms {said[1]}.",
            f"Medido com N = {data.tokens}, mesmo resultado: {slow} ms {said[0]}, {fast} ms {said[1]}.",
        ),
    )
    return page.figure


def _stages(page: Sheet, data: Parallel) -> None:
    look, count, (d_k, d_v) = page.look, len(data.one.words), (data.one.q.shape[1], data.one.v.shape[1])
    each = look.say("at the same time:", "ao mesmo tempo:")
    stages = (
        (
            0.25,
            2.45,
            look.say("1  Project", "1  Projeção"),
            look.say(f"{count * (2 * d_k + d_v)} numbers", f"{count * (2 * d_k + d_v)} números"),
            "$N(2d_k + d_v)$",
        ),
        (2.95, 2.9, look.say("2  Score", "2  Escores"), look.say(f"{count**2} pairs", f"{count**2} pares"), "$N^2$"),
        (6.1, 1.95, "3  Softmax", look.say(f"{count} rows", f"{count} linhas"), "$N$"),
        (8.3, 2.9, look.say("4  Mix", "4  Mistura"), look.say(f"{count * d_v} numbers", f"{count * d_v} números"), "$N d_v$"),
    )
    for number, (left, width, name, amount, formula) in enumerate(stages):
        page.box((left, 0.9, width, 3.85), edgecolor=look.colours[0], facecolor="none", linewidth=1.2)
        page.write((left + 0.12, 1.15), name, ha="left", weight="bold", size=10)
        page.write((left + width / 2, 4.44), f"{each}\n{formula} = {amount}", size=8, linespacing=1.4)
        if number:
            page.arrow((left - 0.23, MIDDLE), (left - 0.02, MIDDLE), linewidth=2, mutation_scale=13)


def _matrices(page: Sheet, one: Attended) -> None:
    look, seen = page.look, np.where(np.isfinite(one.scores), one.weights, np.nan)
    N, wide, tall = len(one.words), 0.8, 0.75
    for number, (name, values) in enumerate((("Q", one.q), ("K", one.k), ("V", one.v))):
        size = f"$N \\times {'d_v' if name == 'V' else 'd_k'} = {N} \\times {values.shape[1]}$"
        top = 1.45 + 0.95 * number
        page.matrix((0.98, top, 1.0, 0.55), values, "", size, edge=look.colours[number])
        page.write((0.8, top + 0.27), f"${name}$")
    colours: tuple[dict[str, Any], ...] = {"edge": look.colours[0]}, {"edge": look.colours[1]}, {}
    scored = (one.q, "$Q$", wide, 0.62), (one.k.T, "$K^T$", 0.58, wide), (one.scores, "$QK^T/\\sqrt{d_k}$", tall, tall)
    _product(page, 3.1, [(*part, style) for part, style in zip(scored, colours, strict=True)])
    amounts = {"kind": "amounts", "reach": 1.0}
    page.matrix((6.75, MIDDLE - tall / 2, tall, tall), seen, look.say("weights", "pesos"), f"${N} \\times {N}$", **amounts)
    for row in range(N):
        y = MIDDLE + tall * ((row + 0.5) / N - 0.5)
        page.arrow((6.3, y), (6.7, y), linewidth=0.9, mutation_scale=6)
        page.arrow((7.55, y), (7.9, y), linewidth=0.9, mutation_scale=6)
    mixed = (
        (seen, look.say("weights", "pesos"), tall, tall, amounts),
        (one.v, "$V$", 0.72, 0.62, {"edge": look.colours[2]}),
        (one.mixed, "$A$", 0.72, 0.62, {"edge": look.ink}),
    )
    _product(page, 8.42, mixed)


def _product(page: Sheet, left: float, parts: Sequence[tuple[Array, str, float, float, dict[str, Any]]]) -> None:
    """Two matrices, and what they make: each with its name, its width and height on paper, and how it is drawn."""
    for (values, name, width, height, style), sign in zip(parts, ("×", "=", ""), strict=True):
        size = f"${values.shape[0]} \\times {values.shape[1]}$"
        page.matrix((left, MIDDLE - height / 2, width, height), values, name, size, **style)
        page.write((left + width + 0.12, MIDDLE), sign, size=11)
        left += width + 0.24


@checks("003-FIG13")
def parallel(given: Given) -> Finding:
    """All at once is the same as one token after the other; the printed sizes are N × d_k, N × N and N × d_v of the model."""
    data, model, words = drawing_of("003-FIG13").data(given), given.model("one-layer"), shown(given, "003-FIG13")
    one = data.one
    N, d_k = len(one.words), model.config.d_head
    sizes = (
        f"$N \\times d_k = {N} \\times {d_k}$",
        f"$N \\times d_v = {N} \\times {d_k}$",
        f"${N} \\times {N}$",
        f"${d_k} \\times {N}$",
    )
    scores = np.where(np.isfinite(one.scores), one.q @ one.k.T / np.sqrt(d_k), -np.inf)
    weights = np.exp(scores) / np.exp(scores).sum(axis=1, keepdims=True)
    mixed = model.record(short_text(model))["L0.mixed"][0, one.number].numpy()
    return found(
        drawn("same", data.apart, within=1e-10),
        drawn("product", np.abs(weights @ one.v - mixed).max(), within=1e-10),
        drawn("sizes", words.has(*sizes), equal=len(sizes)),
        drawn("matrices", words.pictures, equal=3 + 3 + 1 + 3),
        legible(given, "003-FIG13", given.name("one-layer")),
        beside("faster", data.seconds_one_by_one / data.seconds_at_once),
        on=given.name("one-layer"),
    )
