"""One token's attention in full: its three projections, and the four steps with their numbers."""

import math
from typing import Any

import numpy as np

from headwater.claims.evidence import Finding, drawn, found
from headwater.claims.figures.attended import Attended, attended, short_text
from headwater.claims.figures.drawings import drawing_of, draws
from headwater.claims.figures.paper import Place, Point, Sheet, sheet, strongest, thumbnail, visible
from headwater.claims.figures.shown import legible, shown
from headwater.claims.given import Given
from headwater.claims.registry import checks
from headwater.show.looks import Look

STEP = 0.4
"""Inches from one token to the next."""
TOP = 1.75
STRIP = 0.2
KEYS, SCORES, BARS, VALUES = 5.95, 7.65, 8.35, 9.9
"""Where the columns of the table are."""


def read(data: Attended) -> str:
    """What one token's query and key are made of."""
    return "(x_i + p_i)" if data.is_marked else "x_i"


def middle(row: int) -> float:
    """Where a token's row of the tables is."""
    return TOP + STEP * (row + 0.5)


def strip(left: float, row: int) -> Place:
    """Where one vector lies in the row of its token."""
    return left, middle(row) - STRIP / 2, 1.1, STRIP


@draws("003-FIG9", attended)
def draw_roles(data: Attended, look: Look) -> Any:
    """x_i becomes query, key and value; its query meets all keys, and the weights mix all values."""
    page = sheet(look, 11.6, max(5.85, TOP + STEP * len(data.words) + 1.5))
    word = visible(data.words[-1])
    page.title(
        look.say("One vector, three roles", "Um vetor, três papéis"),
        look.say(
            f"Token “{word}” ($i = {len(data.words)}$) in head {data.head} of a trained one-layer model.",
            f"Token “{word}” ($i = {len(data.words)}$) na cabeça {data.head} de um modelo treinado de uma camada.",
        ),
    )
    _three(page, data)
    _meet(page, data)
    return page.figure


def _three(page: Sheet, data: Attended) -> None:
    look, i = page.look, data.last
    page.token((0.95, 2.7), data.words[i], size=9)
    page.matrix((0.3, 3.2, 1.3, STRIP), thumbnail(data.x[[i]], 1, 64), "$x_i$", f"1 × {data.x.shape[1]}")
    rows = (
        ("Q", "q", data.W_Q, data.q, "query", 1.4),
        ("K", "k", data.W_K, data.k, "key", 2.85),
        ("V", "v", data.W_V, data.v, "value", 4.3),
    )
    for number, (name, small, W, made, role, top) in enumerate(rows):
        colour = look.colours[number]
        page.arrow((1.68, 3.3), (2.32, top + 0.45), color=colour)
        page.matrix((2.4, top, 0.5, 0.9), thumbnail(W, 64, 32), f"$W^{name}$", f"{W.shape[0]} × {W.shape[1]}", edge=colour)
        page.arrow((2.98, top + 0.45), (3.45, top + 0.45), color=colour)
        formula = f"${small}_i = {read(data) if name != 'V' else 'x_i'} W^{name}$"
        page.matrix((3.53, top + 0.35, 1.1, STRIP), made[[i]], formula, role, edge=colour)


def _meet(page: Sheet, data: Attended) -> None:
    """The query meets every key; what comes of it mixes the values."""
    look, i, head = page.look, data.last, TOP - 0.22
    names = "keys $k_j$", r"$q_i k_j^T/\sqrt{d_k}$", r"softmax $\alpha_{ij}$", "values $v_j$"
    for across, name in zip((KEYS + 0.55, SCORES, BARS + 0.4, VALUES + 0.55), names, strict=True):
        page.write((across, head), name)
    for row in range(len(data.words)):
        _row(page, data, row)
    bottom = middle(i) + 0.2
    above, around = KEYS + 0.55, VALUES + 1.4
    page.way((4.7, 1.85), (5.0, 1.85), (5.0, 1.12), (above, 1.12), (above, head - 0.13), color=look.colours[0])
    page.way((4.7, 3.3), (5.0, 3.3), (5.0, middle(i)), (KEYS - 0.78, middle(i)), color=look.colours[1])
    under = (4.7, 4.75), (4.85, 4.75), (4.85, bottom + 0.22), (around, bottom + 0.22)
    page.way(*under, (around, middle(i)), (VALUES + 1.14, middle(i)), color=look.colours[2])
    page.arrow((VALUES + 0.55, bottom + 0.02), (VALUES + 0.55, bottom + 0.5))
    page.heat((VALUES, bottom + 0.58, 1.1, STRIP), data.mixed[[i]], reach=strongest(data.v), edge=look.ink)
    page.write((VALUES - 0.1, bottom + 0.68), look.say("output", "saída") + r" $a_i = \Sigma_j\, \alpha_{ij} v_j$", ha="right")


def _row(page: Sheet, data: Attended, row: int) -> None:
    look, y, weight, is_own = page.look, middle(row), float(data.weights[data.last, row]), row == data.last
    page.token((KEYS - 0.45, y), data.words[row], look.colours[1] if is_own else None, size=8)
    page.heat(strip(KEYS, row), data.k[[row]], reach=strongest(data.k), edge=look.colours[1] if is_own else "")
    page.write((SCORES, y), look.number(float(data.scores[data.last, row]), ".2f"))
    page.bar((BARS, y - 0.1, 0.5 * weight, 0.2), facecolor=look.colours[4])
    page.write((BARS + 0.5 * weight + 0.05, y), look.number(weight, ".2f"), ha="left", size=8)
    page.heat(strip(VALUES, row), data.v[[row]], reach=strongest(data.v), edge=look.colours[2] if is_own else "")
    _by_weight(page, (BARS + 1.0, y), (VALUES - 0.08, y), weight)


def _by_weight(page: Sheet, start: Point, end: Point, weight: float) -> None:
    """An arrow as thick as a weight is large."""
    page.arrow(start, end, linewidth=0.4 + 4 * weight, color=page.look.colours[4], mutation_scale=5 + 6 * weight)


@checks("003-FIG9")
def roles(given: Given) -> Finding:
    """The three vectors are x_i times the three matrices of the model; scores, weights and output follow from them."""
    data, model = drawing_of("003-FIG9").data(given), given.model("one-layer")
    run, head = model.record(short_text(model)), data.number
    score = [
        sum(data.q[-1, e] * data.k[j, e] for e in range(data.q.shape[1])) / math.sqrt(data.q.shape[1])
        for j in range(len(data.k))
    ]
    weight = np.exp(score) / np.exp(score).sum()
    words = shown(given, "003-FIG9")
    return found(
        drawn("value", np.abs(data.v - run["L0.values"][0, data.shared].numpy()).max(), within=1e-10),
        drawn("scores", np.abs(np.array(score) - run["L0.scores"][0, head, -1].numpy()).max(), within=1e-10),
        drawn("weights", np.abs(weight - data.weights[-1]).max(), within=1e-10),
        drawn("output", np.abs(weight @ data.v - run["L0.mixed"][0, head, -1].numpy()).max(), within=1e-10),
        drawn(
            "labels", words.has("W^Q", "W^K", "W^V", r"\sqrt{d_k}", "softmax", r"\Sigma_j", "query", "key", "value"), equal=9
        ),
        drawn("matrices", words.pictures, equal=3 + 4 + 2 * len(data.words) + 1),
        legible(given, "003-FIG9", given.name("one-layer")),
        on=given.name("one-layer"),
    )


@draws("003-FIG11", attended)
def draw_steps(data: Attended, look: Look) -> Any:
    """The four steps as four columns, with the numbers of every token; the division by √d_k stands out."""
    page = sheet(look, 11.6, TOP + STEP * len(data.words) + 1.25)
    word = visible(data.words[-1])
    page.title(
        look.say("Self-attention in four steps", "Self-attention em quatro passos"),
        look.say(
            f"For “{word}” ($i = {len(data.words)}$) in head {data.head} of a trained one-layer model, which has $d_k = {data.q.shape[1]}$.",
            f"Para “{word}” ($i = {len(data.words)}$) na cabeça {data.head} de um modelo treinado de uma camada, que tem $d_k = {data.q.shape[1]}$.",
        ),
    )
    bottom = middle(len(data.words) - 1) + 0.3
    names = (
        (0.2, 3.05, look.say("1  Projection", "1  Projeção")),
        (3.4, 3.35, look.say("2  Scores", "2  Escores")),
        (6.9, 1.7, "3  Softmax"),
        (8.75, 2.65, look.say("4  Aggregation", "4  Agregação")),
    )
    for left, width, name in names:
        page.box((left, 0.85, width, bottom - 0.85 + 0.75), facecolor="none")
        page.write((left + 0.12, 1.07), name, ha="left", weight="bold", size=10)
        if left > 1:
            page.arrow((left - 0.4, 1.07), (left + 0.05, 1.07), linewidth=2, mutation_scale=13)
    _projection(page, data)
    _scores(page, data, bottom)
    _aggregation(page, data, bottom)
    return page.figure


def _projection(page: Sheet, data: Attended) -> None:
    look, i, marked = page.look, data.last, "(x_j + p_j)" if data.is_marked else "x_j"
    page.write((1.1, 1.42), f"$q_i = {read(data)} W^Q$", size=8.5)
    page.heat((2.1, 1.42 - STRIP / 2, 0.85, STRIP), data.q[[i]], edge=look.colours[0])
    page.write((1.3, TOP), f"$k_j = {marked} W^K$", size=8)
    page.write((2.52, TOP), "$v_j = x_j W^V$", size=8)
    for row, word in enumerate(data.words):
        y = middle(row) + 0.15
        page.token((0.5, y), word, size=7.5)
        for left, made, colour in ((0.88, data.k, 1), (2.1, data.v, 2)):
            edge = look.colours[colour] if row == i else ""
            page.heat((left, y - STRIP / 2, 0.85, STRIP), made[[row]], reach=strongest(made), edge=edge)


def _scores(page: Sheet, data: Attended, bottom: float) -> None:
    look, i, d_k = page.look, data.last, data.q.shape[1]
    page.write((4.0, TOP - 0.28), "$q_i \\cdot k_j$")
    page.write((6.25, TOP - 0.28), "$s_{ij}$")
    page.box(
        (4.55, TOP - 0.05, 1.2, bottom - TOP + 0.2),
        facecolor=look.colours[4],
        alpha=0.35,
        edgecolor=look.colours[4],
        linewidth=2,
    )
    page.write((5.15, TOP - 0.28), "$\\div \\sqrt{d_k}$", size=11, weight="bold")
    for row in range(len(data.words)):
        y, score = middle(row) + 0.15, float(data.scores[i, row])
        page.write((4.0, y), look.number(score * math.sqrt(d_k), ".2f"))
        page.write((5.15, y), f"÷ {look.number(math.sqrt(d_k), '.2f')}", weight="bold")
        page.write((6.25, y), look.number(score, ".2f"))


def _aggregation(page: Sheet, data: Attended, bottom: float) -> None:
    look, i, reach = page.look, data.last, strongest(data.v)
    page.write((7.75, TOP - 0.28), r"$\alpha_{ij} = e^{s_{ij}}/\Sigma_m e^{s_{im}}$", size=8.5)
    page.write((10.1, TOP - 0.28), r"$\alpha_{ij} v_j$")
    for row in range(len(data.words)):
        y, weight = middle(row) + 0.15, float(data.weights[i, row])
        page.bar((7.1, y - 0.1, 0.8 * weight, 0.2), facecolor=look.colours[4])
        page.write((7.1 + 0.8 * weight + 0.06, y), look.number(weight, ".3f"), ha="left", size=8)
        page.heat((9.45, y - STRIP / 2, 1.3, STRIP), weight * data.v[[row]], reach=reach)
        _by_weight(page, (8.65, y), (9.38, y), weight)
    page.write((7.75, bottom + 0.4), look.say("sum: 1", "soma: 1"), size=8.5)
    page.arrow((10.1, bottom + 0.13), (10.1, bottom + 0.3))
    page.heat((9.45, bottom + 0.35, 1.3, STRIP), data.mixed[[i]], reach=reach, edge=look.ink)
    page.write((9.38, bottom + 0.45), r"$a_i =$", ha="right")


@checks("003-FIG11")
def four_steps(given: Given) -> Finding:
    """The numbers that are printed satisfy the four steps, one after the other; the factor that stands out is √d_k."""
    data, words, model = drawing_of("003-FIG11").data(given), shown(given, "003-FIG11"), given.model("one-layer")
    mixed = model.record(short_text(model))["L0.mixed"][0, data.number, -1].numpy()
    root = math.sqrt(data.q.shape[1])
    dots, look = data.k @ data.q[-1], Look()
    exponentials = np.exp(data.scores[-1])
    printed = [look.number(float(number), ".2f") for number in (*dots, *data.scores[-1])]
    return found(
        drawn("scores", np.abs(dots / root - data.scores[-1]).max(), within=1e-10),
        drawn("weights", np.abs(exponentials / exponentials.sum() - data.weights[-1]).max(), within=1e-10),
        drawn("output", np.abs(data.weights[-1] @ data.v - data.mixed[-1]).max(), within=1e-10),
        drawn("model", np.abs(data.mixed[-1] - mixed).max(), within=1e-10),
        drawn("factor", words.words.count(f"÷ {look.number(root, '.2f')}"), equal=len(data.words)),
        drawn("printed", words.has(*printed), equal=len(printed)),
        legible(given, "003-FIG11", given.name("one-layer")),
        on=given.name("one-layer"),
    )
