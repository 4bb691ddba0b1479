"""A stack of blocks from above, and one block from inside: the trained block model on a short text."""

from dataclasses import dataclass
from itertools import pairwise
from typing import Any

import numpy as np
import torch

from headwater.api import Model
from headwater.claims.evidence import Finding, drawn, found
from headwater.claims.figures.attended import short_text, words_of
from headwater.claims.figures.drawings import drawing_of, draws
from headwater.claims.figures.paper import Array, Point, Sheet, sheet, thumbnail, visible
from headwater.claims.figures.shown import legible, shown
from headwater.claims.given import Given
from headwater.claims.registry import checks
from headwater.model.config import LayerNorm, PreNorm
from headwater.show.looks import Look
from headwater.trace.view.stages import Stage, see

MOST = 3
"""Blocks that have room on a figure: of a deeper stack, the first two and the last."""


@dataclass(frozen=True, kw_only=True)
class Stack:
    """The streams between the blocks, and where attention looked; rows are tokens."""

    words: tuple[str, ...]
    layers: int
    shown: tuple[int, ...]
    """The blocks that are drawn."""
    entering: Array
    leaving: tuple[Array, ...]
    """The stream after each block that is drawn."""
    patterns: tuple[Array, ...]
    """The mean over heads of each."""
    following: tuple[str, ...]
    """The likeliest token after each position."""


def gather_stack(given: Given) -> Stack:
    """The block model on a short text."""
    model = given.model("block")
    ids, layers = short_text(model), model.config.layers
    run, shown_layers = model.record(ids), tuple(range(layers)) if layers <= MOST else (0, 1, layers - 1)
    return Stack(
        words=words_of(model, ids),
        layers=layers,
        shown=shown_layers,
        entering=run["L0.in"][0].numpy(),
        leaving=tuple(run[f"L{layer}.out"][0].numpy() for layer in shown_layers),
        patterns=tuple(run[f"L{layer}.pattern"][0].mean(dim=0).numpy() for layer in shown_layers),
        following=words_of(model, run.logits[0].argmax(dim=-1)),
    )


@draws("003-FIG1", gather_stack)
def draw_stack(stack: Stack, look: Look) -> Any:
    """From the bottom up: tokens, their vectors, blocks whose lines are what attention did, vectors, next tokens."""
    tall = 2.0
    page = sheet(look, 10.2, 2.8 + tall * len(stack.shown) + 0.1 * (len(stack.shown) - 1))
    count, d = stack.entering.shape
    page.title(
        look.say("A stack of blocks: N vectors in, N vectors out", "Uma pilha de blocos: N vetores entram, N vetores saem"),
        look.say(
            f"A trained model of {stack.layers} blocks on $N = {count}$ tokens; vectors of $d = {d}$ entries. Blue: who looks at whom; grey: the stream.",
            f"Um modelo treinado de {stack.layers} blocos em $N = {count}$ tokens; vetores de $d = {d}$ entradas. Azul: quem olha para quem; cinza: o fluxo residual.",
        ),
    )
    across = [1.9 + 7.6 / max(1, count) * (column + 0.5) for column in range(count)]
    bottom = page.height - 0.45
    for x, word in zip(across, stack.words, strict=True):
        page.token((x, bottom), word)
        page.arrow((x, bottom - 0.17), (x, bottom - 0.36))
    y = bottom - 0.5
    _vectors(page, stack.entering, across, y, "$x_1, \\ldots, x_n$")
    for number, (layer, pattern, leaving) in enumerate(zip(stack.shown, stack.patterns, stack.leaving, strict=True)):
        _block(page, pattern, across, y - 0.22 - tall + 0.3, look.say(f"block {layer + 1}", f"bloco {layer + 1}"))
        y -= tall + 0.4 - 0.3
        is_last = number == len(stack.shown) - 1
        _vectors(page, leaving, across, y, "$z_1, \\ldots, z_n$" if is_last else look.say("stream", "fluxo residual"))
    page.write((0.95, y - 0.5), look.say("likeliest next", "próximo mais provável"), size=8.5)
    for x, word in zip(across, stack.following, strict=True):
        page.arrow((x, y - 0.13), (x, y - 0.33))
        page.token((x, y - 0.5), word, look.colours[2])
    return page.figure


def _vectors(page: Sheet, rows: Array, across: list[float], y: float, name: str) -> None:
    page.write((0.95, y), name)
    wide = min(1.15, 0.8 * (across[1] - across[0]) if len(across) > 1 else 1.15)
    for x, row in zip(across, rows, strict=True):
        page.heat((x - wide / 2, y - 0.09, wide, 0.18), thumbnail(row[None], 1, 48))


def _block(page: Sheet, pattern: Array, across: list[float], top: float, name: str) -> None:
    """Attention below, which goes from column to column; the feed-forward layer above, which stays in each."""
    look, tall = page.look, 1.68
    page.box((0.3, top, page.width - 0.6, tall), facecolor=look.box)
    page.write((0.95, top + 0.3), name, weight="bold", size=10)
    page.write((0.95, top + 0.62), "feed-forward", size=8.5)
    page.write((0.95, top + 1.25), "self-attention", size=8.5)
    for dest, x in enumerate(across):
        page.line((x + 0.45, top + tall + 0.12), (x + 0.45, top - 0.06), color=look.faint, linewidth=4, alpha=0.45)
        for source, start in enumerate(across):
            weight = float(pattern[dest, source])
            if weight > 0.005:
                page.line(
                    (start, top + tall - 0.03),
                    (x, top + 0.85),
                    color=look.colours[0],
                    linewidth=6 * weight,
                    alpha=0.3 + 0.6 * weight,
                )
        page.box((x - 0.32, top + 0.32, 0.64, 0.36), facecolor=look.paper, edgecolor=look.colours[1], linewidth=1.2, zorder=2)
        page.write((x, top + 0.5), "FFN", size=8, zorder=3)
        page.arrow((x, top + 0.85), (x, top + 0.7), color=look.colours[1])
        page.arrow((x, top + 0.3), (x, top + 0.04), color=look.colours[1])


@checks("003-FIG1")
def stack_of_blocks(given: Given) -> Finding:
    """As many vectors leave as enter, of the same size; the lines are the mean of the heads' patterns; z_i leads to the next tokens."""
    stack, model = drawing_of("003-FIG1").data(given), given.model("block")
    ids = short_text(model)
    run, words, z = model.record(ids), shown(given, "003-FIG1"), stack.leaving[-1]
    looked = sum(run[f"L{stack.shown[-1]}.pattern"][0, head].numpy() for head in range(model.config.heads)) / model.config.heads
    read = normalised(model, "final", z) if isinstance(model.config.norm, PreNorm) else z
    next_ids = torch.from_numpy((read @ model.weights.W_U.numpy()).argmax(axis=1))
    return found(
        drawn("length", len(z) - len(stack.entering), equal=0),
        drawn("width", z.shape[1] - stack.entering.shape[1], equal=0),
        drawn("strips", words.pictures, equal=(1 + len(stack.shown)) * ids.shape[1]),
        drawn("lines", np.abs(stack.patterns[-1] - looked).max(), within=1e-10),
        drawn("next", sum(a == b for a, b in zip(words_of(model, next_ids), stack.following, strict=True)), equal=len(z)),
        drawn("words", words.has(*map(visible, stack.words)), equal=len(stack.words)),
        legible(given, "003-FIG1", given.name("block")),
        on=given.name("block"),
    )


def normalised(model: Model, name: str, x: Array) -> Array:
    """A norm of the model by its formula: by the deviation around the mean, or by the root of the mean square."""
    norm: Any = model.config.norm
    gain, bias = (
        (each.numpy() if each is not None else None) for each in (model.weights.norm(name).gain, model.weights.norm(name).bias)
    )
    centred = x - x.mean(axis=-1, keepdims=True) if isinstance(norm.norm, LayerNorm) else x
    scaled = centred / np.sqrt((centred**2).mean(axis=-1, keepdims=True) + norm.norm.eps)
    return scaled * (1.0 if gain is None else gain) + (0.0 if bias is None else bias)


@dataclass(frozen=True, kw_only=True)
class Inside:
    """Every stage of one block; rows are tokens."""

    words: tuple[str, ...]
    stages: tuple[Stage, ...]
    """In the order of the pass, each the stream, a normalised copy of it, or what is added to it."""
    values: tuple[Array, ...]
    patterns: Array
    """By head."""
    neurons: Array

    @property
    def trunk(self) -> tuple[int, ...]:
        """Which stages are the stream itself."""
        return tuple(number for number, stage in enumerate(self.stages) if stage.role == "stream")


def gather_inside(given: Given) -> Inside:
    """The first block of the block model on a short text."""
    model = given.model("block")
    ids = short_text(model)
    run = model.record(ids)
    seen = see(run)
    names = dict.fromkeys(seen.stage(f"L0.{step}").name for step in ("t0", "t1", "t2", "t3", "t4", "t5", "h"))
    return Inside(
        words=words_of(model, ids),
        stages=tuple(seen.stage(name) for name in names),
        values=tuple(seen[name].numpy() for name in names),
        patterns=run["L0.pattern"][0].numpy(),
        neurons=run["L0.neurons"][0].numpy(),
    )


@draws("003-FIG2", gather_inside)
def draw_inside(block: Inside, look: Look) -> Any:
    """The stream as a trunk from top to bottom; what each component reads, does and adds, as a loop beside it."""
    rows = _rows(block)
    page = sheet(look, 11.4, rows[-1] + 1.35)
    count, d = block.values[0].shape
    page.title(
        look.say("Inside a block: two loops beside the stream", "Dentro de um bloco: dois laços ao lado do fluxo residual"),
        look.say(
            f"The first block of a trained model, {count} tokens × {d} entries at every stage; blue above zero, orange below.",
            f"O primeiro bloco de um modelo treinado, {count} tokens × {d} entradas em cada estágio; azul acima de zero, laranja abaixo.",
        ),
    )
    for row, number in zip(rows, block.trunk, strict=True):
        place = (1.25, row, 1.9, 0.8)
        if number == 0:
            page.tokens(0.75, place, block.words, bbox=None)
        page.heat(place, thumbnail(block.values[number], count, 64), edge=look.ink)
        page.write((3.28, row + 0.4), _name(block.stages[number]), ha="left", size=11)
    for (start, end), (first, last) in zip(pairwise(rows), pairwise(block.trunk), strict=True):
        between = range(first + 1, last)
        page.arrow((2.2, start + 0.84), (2.2, end - 0.04), linewidth=2.2)
        if between:
            _loop(page, block, (start, end), between)
        else:
            page.write((2.32, (start + end + 0.8) / 2), "LayerNorm", ha="left", size=9)
    return page.figure


def _rows(block: Inside) -> list[float]:
    """Where each stage of the trunk is: what has a loop beside it needs more room after it."""
    tops = [1.05]
    for first, last in pairwise(block.trunk):
        tops.append(tops[-1] + (2.15 if last - first > 1 else 1.25))
    return tops


def _name(stage: Stage) -> str:
    step = stage.name.partition(".")[2] if stage.name.startswith("L0.") else "t0"
    return f"$t^{step[1]}$" if step != "h" else "$h$"


def _loop(page: Sheet, block: Inside, rows: Point, between: range) -> None:
    """Read, work, write: from the trunk to the right and back to the sum."""
    look, count = page.look, len(block.words)
    top, at = rows[0] + 1.0, rows[1] - 0.33
    is_attention = between[0] == 1
    page.plus((2.2, at))
    left = 4.1
    if len(between) == 2:
        page.way((2.2, top + 0.2), (left - 0.06, top + 0.2), color=look.colours[0])
        page.write((3.2, top + 0.08), "LayerNorm", size=8.5)
        page.heat((left, top - 0.2, 1.9, 0.8), thumbnail(block.values[between[0]], count, 64))
        page.write((left + 0.95, top - 0.33), _name(block.stages[between[0]]), size=11)
        page.arrow((left + 1.95, top + 0.2), (left + 2.3, top + 0.2), color=look.colours[0])
    else:
        page.way((2.2, top + 0.2), (left + 2.3, top + 0.2), color=look.colours[0])
    _work(page, block, (left + 2.35, top - 0.2), is_attention=is_attention)
    page.arrow((left + 4.75, top + 0.2), (left + 5.1, top + 0.2), color=look.colours[1])
    page.heat((left + 5.15, top - 0.2, 1.9, 0.8), thumbnail(block.values[between[-1]], count, 64), edge=look.colours[1])
    page.write((left + 6.1, top - 0.33), _name(block.stages[between[-1]]), size=11)
    page.way((left + 6.1, top + 0.62), (left + 6.1, at), (2.32, at), color=look.colours[1], linewidth=1.6)


def _work(page: Sheet, block: Inside, at: Point, *, is_attention: bool) -> None:
    """What a component does on the way: where each head looks, or which neurons are on."""
    look, (left, top) = page.look, at
    page.box((left, top - 0.02, 2.35, 0.84), edgecolor=look.colours[2] if is_attention else look.colours[4], linewidth=1.4)
    if is_attention:
        page.write(
            (left + 1.17, top - 0.14),
            look.say("self-attention: a pattern for each head", "self-attention: um padrão por cabeça"),
            size=8,
        )
        step = 2.25 / len(block.patterns)
        size = min(0.9 * step, 0.6)
        for number, pattern in enumerate(block.patterns):
            masked = np.where(np.triu(pattern == 0, 1), np.nan, pattern)
            at = left + 0.05 + step * (number + 0.5) - size / 2, top + 0.4 - size / 2
            page.heat((*at, size, size), masked, kind="amounts", reach=1.0)
    else:
        active = look.number(100 * float((block.neurons > 0).mean()), ".0f")
        page.write(
            (left + 1.17, top - 0.14),
            look.say(
                f"feed-forward: {active} % of {block.neurons.shape[1]} neurons on",
                f"feed-forward: {active} % de {block.neurons.shape[1]} neurônios ativos",
            ),
            size=8,
        )
        page.heat((left + 0.1, top + 0.1, 2.15, 0.6), thumbnail(block.neurons, len(block.words), 96), kind="amounts")


@checks("003-FIG2")
def inside_a_block(given: Given) -> Finding:
    """The drawn stages are those of the pass: each next stage of the stream is the one before plus what is added, or its norm."""
    block, model = drawing_of("003-FIG2").data(given), given.model("block")
    first = next(number for number, stage in enumerate(block.stages) if "normalised" in stage.what)
    before = next(number for number, stage in enumerate(block.stages) if stage.name == block.stages[first].of)
    added = [
        np.abs(block.values[first] + block.values[last - 1] - block.values[last]).max()
        for first, last in pairwise(block.trunk)
        if last - first > 1
    ]
    return found(
        drawn("sums", max(added), within=1e-10),
        drawn("loops", len(added), equal=2),
        drawn("norm", np.abs(block.values[first] - normalised(model, "L0.norm_1", block.values[before])).max(), within=1e-10),
        drawn("rows", np.abs(block.patterns.sum(axis=-1) - 1).max(), within=1e-10),
        drawn("maps", shown(given, "003-FIG2").pictures, equal=len(block.stages) + len(block.patterns) + 1),
        legible(given, "003-FIG2", given.name("block")),
        on=given.name("block"),
    )
