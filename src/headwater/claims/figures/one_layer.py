"""The one-layer transformer in one picture: its matrices, its paths, and skip-trigrams at work on a text."""

import math
from dataclasses import dataclass
from typing import Any

import numpy as np

from headwater.api import Model
from headwater.circuits.head import Head, key_head
from headwater.claims.evidence import Finding, drawn, found
from headwater.claims.figures.attended import short_text, words_of
from headwater.claims.figures.drawings import drawing_of, draws
from headwater.claims.figures.paper import Array, Place, Sheet, sheet, thumbnail, visible
from headwater.claims.figures.shown import legible, shown
from headwater.claims.given import Given
from headwater.claims.registry import checks
from headwater.errors import InputError
from headwater.model.record import Record
from headwater.shapes import whole
from headwater.show.looks import Look

TEXT = "def __init__(self, name):\n    self.name ="
MOST = 14
TOLD = 5
"""Skip-trigrams that are told, and likeliest next tokens."""


@dataclass(frozen=True, kw_only=True)
class Trigram:
    """``A … B → C``: at B a head looks back at A, and C gets more likely."""

    head: int
    source: int
    dest: int
    words: tuple[str, str, str]
    ids: tuple[int, int, int]
    score: float
    """Of A for B, as the softmax gets it."""
    weight: float
    ov: float
    """The logit that C gets where A has all the weight."""

    @property
    def logit(self) -> float:
        """What C gets here."""
        return self.weight * self.ov


@dataclass(frozen=True, kw_only=True)
class OneLayer:
    """The model's matrices, made small, and what they do with a text."""

    vocab: int
    d: int
    heads: int
    words: tuple[str, ...]
    W_E: Array
    W_U: Array
    W_QK: Array
    """By head, as W_OV."""
    W_OV: Array
    told: int
    """The head whose pattern is shown: that of the strongest skip-trigram."""
    pattern: Array
    trigrams: tuple[Trigram, ...]
    following: tuple[tuple[str, float, float, float], ...]
    """Likeliest next tokens: the logit by the direct path, by the heads, and the probability by both."""


def gather(given: Given) -> OneLayer:
    """The one-layer model on a line of Python that names a thing twice."""
    model = given.model("one-layer")
    ids = short_text(model, TEXT, MOST)
    run, config, attention = model.record(ids), model.config, model.weights.blocks[0].attention
    shared = [key_head(config, Head(0, head)) for head in range(config.heads)]
    trigrams = strongest_trigrams(model, run)
    told = next((each.head for each in trigrams if each.dest - each.source > 1), trigrams[0].head)
    return OneLayer(
        vocab=config.vocab,
        d=config.d_model,
        heads=config.heads,
        words=words_of(model, ids),
        W_E=thumbnail(model.weights.W_E.numpy(), 96, 48),
        W_U=thumbnail(model.weights.W_U.numpy(), 48, 96),
        W_QK=np.stack([thumbnail((attention.W_Q[h] @ attention.W_K[k].T).numpy(), 40, 40) for h, k in enumerate(shared)]),
        W_OV=np.stack([thumbnail((attention.W_V[k] @ attention.W_O[h]).numpy(), 40, 40) for h, k in enumerate(shared)]),
        told=told,
        pattern=run["L0.pattern"][0, told].numpy(),
        trigrams=trigrams,
        following=_following(model, run),
    )


def strongest_trigrams(model: Model, run: Record) -> tuple[Trigram, ...]:
    """For each position the skip-trigram that does most for the token that comes next; of these the strongest."""
    ids = [*whole(run.tokens[0]), int(run.logits[0, -1].argmax())]
    words, scores, pattern = words_of(model, run.tokens.new_tensor(ids)), run["L0.scores"][0], run["L0.pattern"][0]
    best: list[Trigram] = []
    for dest in range(1, len(ids) - 1):
        at = [
            Trigram(
                head=head,
                source=source,
                dest=dest,
                words=(words[source], words[dest], words[dest + 1]),
                ids=(ids[source], ids[dest], ids[dest + 1]),
                score=float(scores[head, dest, source]),
                weight=float(pattern[head, dest, source]),
                ov=ov_logit(model, head, ids[source], ids[dest + 1]),
            )
            for head in range(model.config.heads)
            for source in range(dest)
        ]
        best.append(max(at, key=lambda each: each.logit))
    return tuple(sorted(best, key=lambda each: -each.logit)[:TOLD])


def ov_logit(model: Model, head: int, source: int, out: int) -> float:
    """``W_E W_V W_O W_U``: the logit of ``out`` where ``source`` has all the attention."""
    attention, shared = model.weights.blocks[0].attention, key_head(model.config, Head(0, head))
    return float(model.weights.W_E[source] @ attention.W_V[shared] @ attention.W_O[head] @ model.weights.W_U[:, out])


def _following(model: Model, run: Record) -> tuple[tuple[str, float, float, float], ...]:
    logits, direct = run.logits[0, -1], run["L0.in"][0, -1] @ model.weights.W_U
    p, best = logits.softmax(dim=-1), whole(logits.topk(TOLD).indices)
    words = words_of(model, run.tokens.new_tensor(best))
    return tuple(
        (word, float(direct[token]), float(logits[token] - direct[token]), float(p[token]))
        for word, token in zip(words, best, strict=True)
    )


@draws("000-FIG1", gather)
def draw(data: OneLayer, look: Look) -> Any:
    """Above, the model from tokens to logits; below, one pattern and the strongest skip-trigrams."""
    page = sheet(look, 12.6, 9.9)
    page.title(
        look.say(
            "The one-layer transformer: a direct path and skip-trigrams",
            "O transformer de uma camada: um caminho direto e skip-trigramas",
        ),
        r"$T = \mathrm{Id} \otimes W_U W_E\; +\; \Sigma_h\, A^h \otimes (W_U W_{OV}^h W_E)$",
    )
    _embedding(page, data)
    _heads(page, data, (3.55, 2.85, 5.2, 2.45))
    _unembedding(page, data)
    _pattern(page, data, (1.25, 6.45, 2.75, 2.75))
    _text(page, data)
    _table(page, data)
    return page.figure


def _embedding(page: Sheet, data: OneLayer) -> None:
    look = page.look
    page.write((0.75, 1.15), "tokens")
    for row, word in enumerate(data.words):
        page.token((0.75, 1.42 + 0.285 * row), word, size=8)
    page.arrow((1.3, 2.1), (1.85, 2.1))
    page.matrix((1.95, 1.35, 0.9, 1.5), data.W_E, "$W_E$", f"{data.vocab} × {data.d}")
    page.line((2.92, 2.1), (9.45, 2.1), color=look.colours[0], linewidth=7, alpha=0.85)
    page.arrow((9.3, 2.1), (9.72, 2.1), color=look.colours[0], linewidth=4, mutation_scale=16)
    page.write(
        (5.9, 1.83),
        look.say(
            "residual stream; straight on: the direct path $W_U W_E$, bigrams",
            "fluxo residual; em linha reta: o caminho direto $W_U W_E$, bigramas",
        ),
        size=9.5,
        color=look.colours[0],
    )
    page.plus((9.1, 2.1), 0.14)


def _heads(page: Sheet, data: OneLayer, place: Place) -> None:
    look, (left, top, width, height) = page.look, place
    page.box(place, edgecolor=look.colours[1], linewidth=1.4)
    page.way((3.2, 2.15), (3.2, top + height / 2), (left - 0.04, top + height / 2), color=look.colours[1], linewidth=1.8)
    page.way(
        (left + width + 0.04, top + height / 2), (9.1, top + height / 2), (9.1, 2.26), color=look.colours[1], linewidth=1.8
    )
    page.write(
        (left + 0.12, top + 0.17),
        look.say(
            "heads: $W_{QK}$ says where to look, $W_{OV}$ what that says",
            "cabeças: $W_{QK}$ diz para onde olhar, $W_{OV}$ o que isso diz",
        ),
        ha="left",
        size=9,
    )
    columns = math.ceil(data.heads / 2)
    wide, tall = width / columns, (height - 0.35) / 2
    side = min(0.42 * wide, tall - 0.42)
    for head in range(data.heads):
        x, y = left + wide * (head % columns), top + 0.35 + tall * (head // columns)
        is_told = head == data.told
        page.write(
            (x + wide / 2, y + 0.08),
            look.say(f"head {head}", f"cabeça {head}"),
            size=7.5,
            weight="bold" if is_told else "normal",
        )
        for number, (name, values) in enumerate((("$W_{QK}$", data.W_QK[head]), ("$W_{OV}$", data.W_OV[head]))):
            corner = x + wide / 2 + (-side - 0.04 if number == 0 else 0.04)
            page.heat((corner, y + 0.18, side, side), values, edge=look.colours[1] if is_told else "")
            page.write((corner + side / 2, y + 0.18 + side + 0.1), name, size=6.5)


def _unembedding(page: Sheet, data: OneLayer) -> None:
    look = page.look
    page.matrix((9.8, 1.35, 2.5, 0.95), data.W_U, "$W_U$", f"{data.d} × {data.vocab}")
    page.arrow((11.05, 2.6), (11.05, 2.9))
    page.write((11.0, 3.05), look.say("logit of the next token", "logit do próximo token"))
    axes = page.graph((10.3, 3.25, 1.75, 1.75))
    for row, (_, direct, heads, p) in enumerate(data.following):
        start = 0.0
        for value, colour in ((direct, look.colours[0]), (heads, look.colours[1])):
            from_zero = start if start * value >= 0 else 0.0
            axes.barh(row, value, left=from_zero, color=colour, height=0.62)
            start = from_zero + value if start * value >= 0 else value
        axes.text(1.03, row, look.number(100 * p, ".0f") + " %", transform=axes.get_yaxis_transform(), va="center", size=8)
    axes.set_yticks(range(len(data.following)), [visible(word) for word, *_ in data.following], family="monospace", size=8.5)
    axes.invert_yaxis()
    axes.grid(visible=False, axis="y")
    axes.axvline(0, color=look.ink, linewidth=0.8)
    axes.tick_params(axis="x", labelsize=7.5)
    page.write(
        (11.05, 5.38),
        look.say("blue: direct path · orange: heads · %: probability", "azul: direto · laranja: cabeças · %: probabilidade"),
        size=7.2,
    )


def _pattern(page: Sheet, data: OneLayer, place: Place) -> None:
    look, (left, top, width, height), count = page.look, place, len(data.words)
    page.write(
        (0.3, 5.85),
        look.say(f"Pattern $A^h$ of head {data.told}", f"Padrão $A^h$ da cabeça {data.told}"),
        ha="left",
        weight="bold",
        size=10.5,
    )
    page.write(
        (0.3, 6.1),
        look.say(
            "row: who looks; column: at whom; each row sums to 1", "linha: quem olha; coluna: para quem; cada linha soma 1"
        ),
        ha="left",
        size=8,
    )
    page.heat(place, np.where(np.triu(np.ones_like(data.pattern), 1), np.nan, data.pattern), kind="amounts", reach=1.0)
    for number, word in enumerate(data.words):
        at = (number + 0.5) / count
        page.write((left - 0.08, top + height * at), visible(word), ha="right", size=7.5, family="monospace")
        page.write((left + width * at, top + height + 0.08), visible(word), rotation=90, va="top", size=7.5, family="monospace")


def _text(page: Sheet, data: OneLayer) -> None:
    """The text in one line; an arc from each B back to its A, and below what it does for C."""
    look, y, count = page.look, 7.25, len(data.words) + 1
    page.write(
        (4.6, 5.85),
        look.say("Skip-trigrams at work: A … B → C", "Skip-trigramas em ação: A … B → C"),
        ha="left",
        weight="bold",
        size=10.5,
    )
    page.write(
        (4.6, 6.1),
        look.say(
            "B looks back at A (arc); C then gets more likely (arrow below)",
            "B olha para A (arco); C fica então mais provável (seta abaixo)",
        ),
        ha="left",
        size=8,
    )
    across = [4.75 + 7.5 * (number + 0.5) / count for number in range(count)]
    for x, word in zip(across, data.words, strict=False):
        page.token((x, y), word, size=7.5)
    page.token((across[-1], y), data.following[0][0], look.colours[2], size=7.5)
    page.write((across[-1], y - 0.3), look.say("likeliest", "mais provável"), size=7)
    for number, each in enumerate(data.trigrams):
        a, b, c, colour = across[each.source], across[each.dest], across[each.dest + 1], look.colours[number]
        # Long arcs are flatter, so that all have room.
        bend = min(0.9, 0.8 / (b - a)) if b - a > 1 else 0.6
        page.arrow((b, y - 0.17), (a, y - 0.17), bend=bend, color=colour, linewidth=1 + 2.5 * each.weight)
        page.arrow((b, y + 0.18), (c, y + 0.18), bend=0.45, color=colour, linewidth=2)


def _table(page: Sheet, data: OneLayer) -> None:
    look, top = page.look, 7.95
    columns = (
        (4.95, look.say("head", "cabeça")),
        (6.7, "A … B → C"),
        (8.75, look.say("QK score", "escore QK")),
        (9.75, look.say("weight α", "peso α")),
        (10.8, look.say("OV logit", "logit OV")),
        (11.85, "α × OV"),
    )
    for across, name in columns:
        page.write((across, top), name, size=8.5, weight="bold")
    page.line((4.6, top + 0.15), (12.3, top + 0.15), color=look.faint, linewidth=0.8)
    for row, each in enumerate(data.trigrams):
        y, colour = top + 0.33 + 0.27 * row, look.colours[row]
        page.bar((4.6, y - 0.06, 0.12, 0.12), facecolor=colour)
        a, b, c = map(visible, each.words)
        cells = (
            f"{each.head}",
            f"{a} … {b} → {c}",
            look.number(each.score, ".2f"),
            look.number(each.weight, ".2f"),
            look.number(each.ov, "+.2f"),
            look.number(each.logit, "+.2f"),
        )
        for (across, _), text in zip(columns, cells, strict=True):
            page.write((across, y), text, size=8.5, family="monospace" if "→" in text else None)


@checks("000-FIG1")
def signature(given: Given) -> Finding:
    """The figure has every matrix, a causal pattern whose rows sum to 1, and skip-trigrams with scores and logits of the model's circuits."""
    data, model = drawing_of("000-FIG1").data(given), given.model("one-layer")
    attention = model.config.attention
    if attention is None or attention.mask == "full" or attention.input_bias or attention.output_bias:
        raise InputError(
            "heads with biases, or that see the whole text", "matrices alone, and a causal mask", "use another model"
        )
    run, words = model.record(short_text(model, TEXT, MOST)), shown(given, "000-FIG1")
    look, best = Look(), data.trigrams
    scores = [float(run.attend((0, each.head), each.dest, each.source).value) for each in best]
    ov = [model.ov((0, each.head))[each.ids[0], each.ids[2]] for each in best]
    printed = [look.number(number, form) for each in best for number, form in ((each.score, ".2f"), (each.ov, "+.2f"))]
    out, ids, pattern = int(run.logits[0, -1].argmax()), whole(run.tokens[0]), run["L0.pattern"][0, :, -1]
    paths = [model.ov((0, head)).entries(ids, [out] * len(ids)) @ pattern[head] for head in range(data.heads)]
    return found(
        drawn("maps", words.pictures, equal=2 + 2 * data.heads + 1),
        drawn("future", np.abs(np.triu(data.pattern, 1)).max(), equal=0),
        drawn("rows", np.abs(data.pattern.sum(axis=1) - 1).max(), within=1e-6),
        drawn("trigrams", len(best), above=2),
        drawn("scores", max(abs(each.score - score) for each, score in zip(best, scores, strict=True)), within=1e-10),
        drawn("logits", max(abs(each.ov - value) for each, value in zip(best, ov, strict=True)), within=1e-10),
        drawn("direct", data.following[0][1] - model.direct[ids[-1], out], within=1e-10),
        drawn("heads", data.following[0][2] - float(sum(paths)), within=1e-10),
        drawn("printed", words.has(*printed), equal=len(printed)),
        legible(given, "000-FIG1", given.name("one-layer")),
        on=given.name("one-layer"),
    )
