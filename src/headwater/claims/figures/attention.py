"""Self-attention on a short text: from vectors to vectors, and why every output lies between the values."""

from typing import Any

import numpy as np

from headwater.claims.evidence import Finding, drawn, found
from headwater.claims.figures.attended import Attended, attended, short_text
from headwater.claims.figures.drawings import drawing_of, draws
from headwater.claims.figures.paper import Place, Sheet, sheet, thumbnail, visible
from headwater.claims.figures.planes import cloud, hull, inside, plane
from headwater.claims.figures.shown import legible, shown
from headwater.claims.given import Given
from headwater.claims.registry import checks
from headwater.show.looks import Look

TALL = 1.15
"""Inches of a heat-map whose rows are the tokens."""


def read(data: Attended) -> str:
    """What queries and keys are made of."""
    return "(X + P)" if data.is_marked else "X"


@draws("003-FIG3", attended)
def draw_flow(data: Attended, look: Look) -> Any:
    """From left to right: vectors, their three projections, scores, weights, outputs."""
    page = sheet(look, 11.0, 6.7)
    page.title(
        look.say("Self-attention, from vectors to vectors", "Self-attention, de vetores a vetores"),
        look.say(
            f"Head {data.head} of a trained one-layer model on {len(data.words)} tokens. Grey: what the causal mask hides.",
            f"Cabeça {data.head} de um modelo treinado de uma camada em {len(data.words)} tokens. Cinza: o que a máscara causal esconde.",
        ),
    )
    count = len(data.words)
    x, y = (1.2, 2.95, 1.35, TALL), (9.45, 3.9, 1.1, TALL)
    page.tokens(0.7, x, data.words)
    page.matrix(x, thumbnail(data.x, count, 64), "$X$", f"{count} × {data.x.shape[1]}")
    _projected(page, data)
    _weighted(page, data)
    page.matrix(y, data.mixed, "$Y = A\\,V$", f"{count} × {data.v.shape[1]}")
    page.arrow((8.97, 2.95), (9.4, 4.1))
    page.arrow((4.8, 5.12), (9.38, 4.75))
    if data.is_marked:
        note = look.say(
            "$P$: positions, which this model gives to queries and keys alone.",
            "$P$: posições, que este modelo dá só a queries e keys.",
        )
        page.write((5.5, 6.35), note, size=8.5)
    return page.figure


def _projected(page: Sheet, data: Attended) -> None:
    for number, (name, values) in enumerate((("Q", data.q), ("K", data.k), ("V", data.v))):
        top, colour, made = 1.35 + 1.6 * number, page.look.colours[number], "X" if name == "V" else read(data)
        size = f"{values.shape[0]} × {values.shape[1]}"
        page.matrix((3.55, top, 1.2, TALL), values, f"${name} = {made}\\,W^{name}$", size, edge=colour)
        page.arrow((2.65, 3.52), (3.45, top + TALL / 2), color=colour)


def _weighted(page: Sheet, data: Attended) -> None:
    look, count = page.look, len(data.words)
    scores, weights = (5.7, 2.15, 1.3, TALL), (7.6, 2.15, 1.3, TALL)
    page.matrix(scores, data.scores, "$S = QK^T/\\sqrt{d_k}$", f"{count} × {count}")
    page.numbers(scores, data.scores, form=".1f", size=min(7.0, 36 / count))
    seen = np.where(np.isfinite(data.scores), data.weights, np.nan)
    name = look.say("$A = $ softmax of rows", "$A = $ softmax das linhas")
    page.matrix(weights, seen, name, look.say("rows sum to 1", "as linhas somam 1"), kind="amounts", reach=1.0)
    page.numbers(weights, seen, kind="amounts", reach=1.0, size=min(6.5, 36 / count))
    for start, end in (((4.8, 1.93), (5.6, 2.5)), ((4.8, 3.4), (5.6, 2.95)), ((7.07, 2.72), (7.53, 2.72))):
        page.arrow(start, end)


@checks("003-FIG3")
def flow(given: Given) -> Finding:
    """Every matrix of the figure is made by the documents' formulas from the weights, and is what the model itself computes."""
    data, model = drawing_of("003-FIG3").data(given), given.model("one-layer")
    run, seen = model.record(short_text(model)), np.isfinite(data.scores)
    theirs = {name: run[f"L0.{name}"][0, data.number].numpy() for name in ("queries", "scores", "pattern", "mixed")}
    return found(
        drawn("queries", np.abs(data.q - theirs["queries"]).max(), within=1e-10),
        drawn("scores", np.abs(data.scores[seen] - theirs["scores"][seen]).max(), within=1e-10),
        drawn("weights", np.abs(data.weights - theirs["pattern"]).max(), within=1e-10),
        drawn("output", np.abs(data.mixed - theirs["mixed"]).max(), within=1e-10),
        drawn("matrices", shown(given, "003-FIG3").pictures, equal=7),
        legible(given, "003-FIG3", given.name("one-layer")),
        on=given.name("one-layer"),
    )


@draws("003-FIG4", attended)
def draw_combination(data: Attended, look: Look) -> Any:
    """Each row of weights as one bar of length 1; and an output between the values that it is made of."""
    page = sheet(look, 10.8, 5.3)
    page.title(
        look.say("Every output is a weighted mean of the values", "Toda saída é uma média ponderada dos values"),
        look.say(
            f"Head {data.head} of a trained one-layer model: $y_n = \\Sigma_m\\, a_{{nm}} v_m$ with $a_{{nm}} \\geq 0$ and $\\Sigma_m\\, a_{{nm}} = 1$.",
            f"Cabeça {data.head} de um modelo treinado de uma camada: $y_n = \\Sigma_m\\, a_{{nm}} v_m$ com $a_{{nm}} \\geq 0$ e $\\Sigma_m\\, a_{{nm}} = 1$.",
        ),
    )
    _bars(page, data, (1.25, 1.35, 3.7, 3.2))
    _between(page, data, (6.0, 1.35, 4.4, 3.2))
    return page.figure


def _bars(page: Sheet, data: Attended, place: Place) -> None:
    look, axes, rows = page.look, page.graph(place), np.arange(len(data.words))
    start = np.zeros(len(data.words))
    for source, word in enumerate(data.words):
        weights = data.weights[:, source]
        axes.barh(
            rows, weights, left=start, color=look.colours[source % 7], edgecolor=look.paper, label=visible(word), height=0.7
        )
        start += weights
    axes.set_yticks(rows, [visible(word) for word in data.words], family="monospace", size=9)
    axes.invert_yaxis()
    axes.grid(visible=False, axis="y")
    axes.set_xlim(0, 1)
    axes.set_xticks([0, 0.25, 0.5, 0.75, 1])
    axes.set_xlabel(look.say("weights $a_{nm}$, by the token $m$ looked at", "pesos $a_{nm}$, pelo token $m$ olhado"))
    axes.set_ylabel(look.say("token $n$ that looks", "token $n$ que olha"))
    axes.legend(
        frameon=False,
        ncols=len(data.words),
        loc="lower left",
        bbox_to_anchor=(-0.04, 1.0),
        prop={"family": "monospace", "size": 8},
        handlelength=0.9,
        columnspacing=0.9,
        handletextpad=0.4,
    )


def _between(page: Sheet, data: Attended, place: Place) -> None:
    look, axes, weights = page.look, page.graph(place), data.weights[data.last]
    directions, centre = plane(data.v)
    points, output = (data.v - centre) @ directions, (data.mixed[data.last] - centre) @ directions
    axes.fill(*hull(points).T, color=look.colours[0], alpha=0.1)
    for source, (point, weight) in enumerate(zip(points, weights, strict=True)):
        axes.plot(*np.stack([point, output]).T, color=look.colours[source % 7], linewidth=0.4 + 7 * float(weight), alpha=0.75)
    for source, point in enumerate(points):
        axes.plot(*point, "s", color=look.colours[source % 7], markersize=8)
    cloud(axes, points, data.words, color="none")
    axes.plot(*output, "o", color=look.ink, markersize=9, zorder=5)
    axes.annotate(f"$y_{{{len(weights)}}}$", output, (9, 7), textcoords="offset points", size=11)
    axes.set(
        xlabel=look.say("first direction of the values", "primeira direção dos values"),
        ylabel=look.say("second direction", "segunda direção"),
    )
    axes.set_title(
        look.say(
            f"The output of “{visible(data.words[-1])}” in the hull of the values",
            f"A saída de “{visible(data.words[-1])}” no fecho convexo dos values",
        ),
        loc="left",
        size=9.5,
    )


@checks("003-FIG4")
def combination(given: Given) -> Finding:
    """The drawn weights are not negative and sum to 1 in every row; all outputs are those means, inside the drawn hull."""
    data, model = drawing_of("003-FIG4").data(given), given.model("one-layer")
    mixed = model.record(short_text(model))["L0.mixed"][0, data.number].numpy()
    directions, centre = plane(data.v)
    return found(
        drawn("sums", np.abs(data.weights.sum(axis=1) - 1).max(), within=1e-10),
        drawn("least", max(0.0, -data.weights.min()), within=0),
        drawn("means", np.abs(sum(data.weights[:, [m]] * data.v[[m]] for m in range(len(data.v))) - mixed).max(), within=1e-10),
        drawn("hull", inside((mixed - centre) @ directions, hull((data.v - centre) @ directions)), within=1e-10),
        drawn("words", shown(given, "003-FIG4").has(*map(visible, data.words)), equal=len(data.words)),
        legible(given, "003-FIG4", given.name("one-layer")),
        on=given.name("one-layer"),
    )
