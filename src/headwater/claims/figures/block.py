"""A block of equations 10.32 to 10.37 walked through with the numbers of one token."""

from dataclasses import dataclass
from typing import Any

import numpy as np
import torch
from torch import Tensor

from headwater.api import Model
from headwater.claims.evidence import Finding, drawn, found
from headwater.claims.figures.attended import short_text, words_of
from headwater.claims.figures.drawings import drawing_of, draws
from headwater.claims.figures.paper import Array, Sheet, sheet, visible
from headwater.claims.figures.shown import legible, shown
from headwater.claims.given import Given
from headwater.claims.registry import checks
from headwater.model.config import Attention, FeedForward, LayerNorm, ModelConfig, PostNorm, SinusoidalPositions
from headwater.model.weights import Weights
from headwater.show.looks import Look
from headwater.text.sources import StandardLibrary, documents
from headwater.train.loop import train_steps
from headwater.train.module import TransformerModule
from headwater.train.plan import Plan

STAGES = ("x", "t1", "t2", "t3", "t4", "t5", "h")
FIRST = 8
"""Entries of each vector that are printed."""
PLAN = Plan(steps=150, batch=8, learning_rate=2e-2, warmup=15)
WINDOW, BYTES = 32, 150_000
"""Tokens that are read together, and how much of the text is read at all."""


@dataclass(frozen=True, kw_only=True)
class Walk:
    """The stages of one block; rows are tokens."""

    words: tuple[str, ...]
    stages: dict[str, Array]
    """``x``, ``t1`` … ``t5``, ``h``."""
    following: tuple[tuple[str, float], ...]
    """The likeliest tokens after the text, with their probabilities."""
    loss: tuple[float, float]
    """Before and after the training, in nats."""

    def told(self, name: str) -> Array:
        """A stage of the last token."""
        return self.stages[name][-1]


def post_norm(given: Given) -> tuple[Model, tuple[float, float]]:
    """A small post-norm block, as the documents have it, trained for a few seconds with the words of the block model."""
    return given.once("figures: post-norm block", lambda: _train(given))


def _train(given: Given) -> tuple[Model, tuple[float, float]]:
    model = given.model("block")
    ids = model.tokens(_text())[0]
    config = ModelConfig(
        vocab=model.config.vocab,
        context=WINDOW,
        d_model=32,
        layers=1,
        attention=Attention(heads=2, d_head=16),
        feed_forward=FeedForward(d_mlp=64),
        # Without gain and bias, as the documents calculate: every normalised vector has mean 0 and deviation 1.
        norm=PostNorm(norm=LayerNorm(gain=False, bias=False)),
        positions=SinusoidalPositions(),
    )
    generator, module = torch.Generator().manual_seed(0), TransformerModule(Weights.draw(config, seed=0))

    def windows(step: int) -> Tensor:
        del step
        starts = torch.randint(len(ids) - WINDOW, (PLAN.batch, 1), generator=generator)
        return ids[starts + torch.arange(WINDOW + 1)]

    losses = [step.loss for step in train_steps(module, windows, PLAN)]
    return Model(module.weights().to(dtype=torch.float64), model.tokenizer), (losses[0], losses[-1])


def _text() -> str:
    """The beginning of the text that the reference models were trained on."""
    data = bytearray()
    for document in documents(StandardLibrary()):
        for chunk in document.chunks():
            data += chunk
        if len(data) >= BYTES:
            break
    return data[:BYTES].decode(errors="ignore")


def gather(given: Given) -> Walk:
    """The block at work on a short text."""
    model, loss = post_norm(given)
    ids = short_text(model)
    run = model.record(ids)
    stages = {name: run[f"L0.{'in' if name == 'x' else name}"][0].numpy() for name in STAGES}
    following = tuple((words_of(model, torch.tensor([token]))[0], p) for token, p in run.top(-1, 3))
    return Walk(words=words_of(model, ids), stages=stages, following=following, loss=loss)


@draws("003-FIG5", gather)
def draw(walk: Walk, look: Look) -> Any:
    """One line for each stage: what it is, its first numbers, the rest as colours, its mean and deviation."""
    page = sheet(look, 11.6, 7.1)
    word = visible(walk.words[-1])
    before, after = (look.number(loss, ".2f") for loss in walk.loss)
    page.title(
        look.say("One block, step by step", "Um bloco, passo a passo"),
        look.say(
            f"Token “{word}” after “{visible(''.join(walk.words[:-1]))}” in a small post-norm block (trained here, loss {before} → {after} nats).",
            f"Token “{word}” depois de “{visible(''.join(walk.words[:-1]))}” em um pequeno bloco post-norm (treinado aqui, perda {before} → {after} nats).",
        ),
    )
    for row, (name, formula, note, colour) in enumerate(_told(look)):
        _line(page, walk.told(name), 1.3 + 0.73 * row, (formula, note), look.colours[colour])
    _skip(page, 0, 2)
    _skip(page, 3, 5)
    heads = (
        (5.35, look.say(f"entries 1 to {FIRST}", f"entradas 1 a {FIRST}")),
        (8.67, look.say("all the others", "todas as outras")),
        (10.1, look.say("mean", "média")),
        (10.95, look.say("deviation", "desvio")),
    )
    for across, name in heads:
        page.write((across, 1.08), name, size=8.5)
    said = "   ".join(f"{visible(token)}  {look.number(p, '.2f')}" for token, p in walk.following)
    page.write(
        (page.width / 2, 6.78),
        look.say(f"$h\\, W_U$ → likeliest next tokens:   {said}", f"$h\\, W_U$ → próximos tokens mais prováveis:   {said}"),
        size=9,
    )
    return page.figure


def _told(look: Look) -> tuple[tuple[str, str, str, int], ...]:
    """Each stage with its formula, what is to be said of it, and its colour."""
    return (
        ("x", "$x$", look.say("into the block", "entra no bloco"), 6),
        ("t1", "$t^1 = $ SelfAttention$(X)$", look.say("from all tokens", "de todos os tokens"), 1),
        ("t2", "$t^2 = x + t^1$", look.say("residual connection", "conexão residual"), 6),
        ("t3", "$t^3 = $ LayerNorm$(t^2)$", look.say("mean 0, deviation 1", "média 0, desvio 1"), 0),
        ("t4", "$t^4 = $ FFN$(t^3)$", look.say("of this token alone", "só deste token"), 2),
        ("t5", "$t^5 = t^3 + t^4$", look.say("residual connection", "conexão residual"), 6),
        ("h", "$h = $ LayerNorm$(t^5)$", look.say("out of the block", "sai do bloco"), 0),
    )


def _line(page: Sheet, vector: Array, top: float, words: tuple[str, str], colour: str) -> None:
    look = page.look
    page.write((0.75, top + 0.14), words[0], ha="left", size=10)
    page.write((0.75, top + 0.38), words[1], ha="left", size=8)
    reach, head, rest = 2.5, vector[None, :FIRST], vector[None, FIRST:]
    cells = (3.1, top, 4.5, 0.46)
    page.heat(cells, head, reach=reach, edge=colour)
    page.numbers(cells, head, reach=reach, size=8.5)
    page.heat((7.72, top, 1.9, 0.46), rest, reach=reach, edge=colour)
    for across, number in ((10.1, vector.mean()), (10.95, vector.std())):
        page.write((across, top + 0.23), look.number(float(number), "z.2f"), size=9)


def _skip(page: Sheet, start: int, end: int) -> None:
    """A residual connection, round the stage between."""
    top, bottom = (1.3 + 0.73 * row + 0.23 for row in (start, end))
    page.way((0.66, top), (0.4, top), (0.4, bottom), (0.66, bottom), color=page.look.colours[1], linewidth=1.6)
    page.plus((0.4, bottom))


@checks("003-FIG5")
def walk_through(given: Given) -> Finding:
    """The drawn stages satisfy the six equations, written out for the last token from the weights of the block."""
    walk, (model, loss) = drawing_of("003-FIG5").data(given), post_norm(given)
    x, t1, t2, t3, t4, t5, h = (walk.told(name) for name in STAGES)
    look, printed = Look(), [value for name in STAGES for value in walk.told(name)[:FIRST]]
    return found(
        drawn("t1", np.abs(t1 - _attention(model, walk.stages["x"])).max(), within=1e-10),
        drawn("t2", np.abs(t2 - (x + t1)).max(), within=1e-10),
        drawn("t3", np.abs(t3 - _normalised(t2)).max(), within=1e-10),
        drawn("t4", np.abs(t4 - _feed_forward(model, t3)).max(), within=1e-10),
        drawn("t5", np.abs(t5 - (t3 + t4)).max(), within=1e-10),
        drawn("h", np.abs(h - _normalised(t5)).max(), within=1e-10),
        drawn(
            "printed",
            shown(given, "003-FIG5").has(*(look.number(float(value), ".2f") for value in printed)),
            equal=len(printed),
        ),
        drawn("trained", loss[1], below=loss[0]),
        legible(given, "003-FIG5", given.name("block")),
    )


def _attention(model: Model, x: Array) -> Array:
    """What the heads write for the last token, which sees all."""
    weights: Any = model.weights.blocks[0].attention
    written = np.zeros(x.shape[1])
    for W_Q, W_K, W_V, W_O in zip(
        *(each.numpy() for each in (weights.W_Q, weights.W_K, weights.W_V, weights.W_O)), strict=True
    ):
        exponentials = np.exp((x @ W_K) @ (x[-1] @ W_Q) / np.sqrt(W_Q.shape[1]))
        written += exponentials / exponentials.sum() @ (x @ W_V) @ W_O
    return written


def _normalised(vector: Array) -> Array:
    return (vector - vector.mean()) / np.sqrt(vector.var() + LayerNorm().eps)


def _feed_forward(model: Model, vector: Array) -> Array:
    weights: Any = model.weights.blocks[0].feed_forward
    W_in, b_in, W_out, b_out = (each.numpy() for each in (weights.W_in, weights.b_in, weights.W_out, weights.b_out))
    return np.maximum(vector @ W_in + b_in, 0) @ W_out + b_out
