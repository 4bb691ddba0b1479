"""Attention as a table that is looked up: hard, where the best key alone counts, and soft, at any temperature."""

from dataclasses import dataclass
from typing import Any

import numpy as np

from headwater.circuits.head import find_head, key_head
from headwater.claims.evidence import Finding, drawn, found
from headwater.claims.figures.attended import Attended, attended, short_text
from headwater.claims.figures.drawings import drawing_of, draws
from headwater.claims.figures.paper import Array, Place, Point, Sheet, sheet, visible
from headwater.claims.figures.planes import cloud, hull, inside, plane
from headwater.claims.figures.shown import legible, shown
from headwater.claims.given import Given
from headwater.claims.registry import checks
from headwater.show.looks import Look

SHOWN = (16.0, 4.0, 1.0, 0.25)
"""Temperatures with a panel of their own, between ∞ and 0."""
ROW = 0.36
"""Inches from one row of a table to the next."""


@dataclass(frozen=True, kw_only=True)
class LookedUp:
    """One query looked up at every temperature: weights ``softmax(scores / T)``, and the values that they mix."""

    head: str
    words: tuple[str, ...]
    query: Array
    keys: Array
    values: Array
    scores: Array
    best: int
    """The key with the largest score, whose value the hard lookup gives."""
    gap: float
    """From the largest score to the next."""
    temperatures: tuple[float, ...]
    """Falling: the first is so hot that all weights are nearly equal, the last so cold that one is nearly 1."""
    weights: Array
    outputs: Array

    def at(self, temperature: float) -> int:
        """Which of the temperatures is nearest."""
        return int(np.abs(np.log(np.array(self.temperatures) / temperature)).argmin())

    @property
    def hard(self) -> Array:
        """What the hard lookup gives."""
        return self.values[self.best]

    @property
    def spread(self) -> float:
        """The largest distance of two values."""
        return float(np.linalg.norm(self.values[:, None] - self.values[None], axis=-1).max())


def gather(given: Given) -> LookedUp:
    """The last token's query of the head that the other figures show, from hot to cold."""
    return _look_up(attended(given))


def _look_up(found: Attended) -> LookedUp:
    scores, last = found.scores[found.last], found.last
    ordered = np.sort(scores)
    gap = float(ordered[-1] - ordered[-2])
    # Cold enough for e^(−gap/T) to be lost in rounding.
    temperatures = tuple(sorted({*np.geomspace(1e4, gap / 40, 161).tolist(), *SHOWN}, reverse=True))
    weights = np.exp((scores - scores.max()) / np.array(temperatures)[:, None])
    weights /= weights.sum(axis=1, keepdims=True)
    return LookedUp(
        head=found.head,
        words=found.words,
        query=found.q[last],
        keys=found.k,
        values=found.v,
        scores=scores,
        best=int(scores.argmax()),
        gap=gap,
        temperatures=temperatures,
        weights=weights,
        outputs=weights @ found.v,
    )


@draws("003-FIG6", gather)
def draw_lookups(data: LookedUp, look: Look) -> Any:
    """The same keys and values twice: one row chosen, and all rows weighted."""
    count = len(data.words)
    page = sheet(look, 10.7, 3.1 + ROW * count)
    page.title(
        look.say("One row chosen, or all rows weighted", "Uma linha escolhida, ou todas as linhas ponderadas"),
        look.say(
            f"The query of “{visible(data.words[-1])}” in head {data.head}; the same keys and values on both sides.",
            f"A query de “{visible(data.words[-1])}” na cabeça {data.head}; as mesmas keys e os mesmos values dos dois lados.",
        ),
    )
    chosen = np.zeros(count)
    chosen[data.best] = 1.0
    hard = look.say("Hard lookup: temperature 0", "Consulta rígida: temperatura 0")
    _table(page, data, 0.3, hard, chosen)
    soft = look.say("Soft lookup: temperature 1", "Consulta suave: temperatura 1")
    _table(page, data, 5.6, soft, data.weights[data.at(1.0)])
    return page.figure


def _table(page: Sheet, data: LookedUp, left: float, title: str, weights: Array) -> None:
    look, top = page.look, 2.2
    page.write((left, 0.98), title, ha="left", weight="bold", size=10.5)
    page.write((left + 0.42, 1.45), "query $q$")
    page.heat((left + 0.95, 1.35, 1.3, 0.2), data.query[None], reach=float(np.abs(data.keys).max()), edge=look.colours[0])
    page.arrow((left + 1.6, 1.6), (left + 1.6, top - 0.38), color=look.colours[0])
    names = (
        "token",
        "keys $k_j$",
        "score $s_j$",
        look.say("weight", "peso"),
        look.say("weight × value $v_j$", "peso × value $v_j$"),
    )
    for across, name in zip((0.42, 1.6, 2.6, 3.2, 4.2), names, strict=True):
        page.write((left + across, top - 0.2), name, size=8.5)
    for row in range(len(data.words)):
        _row(page, data, (left, top + ROW * (row + 0.5)), row, weights)
    bottom, strongest = top + ROW * len(data.words), float(np.abs(data.values).max())
    page.arrow((left + 4.2, bottom + 0.05), (left + 4.2, bottom + 0.33), color=look.colours[1])
    page.heat((left + 3.6, bottom + 0.4, 1.2, 0.24), (weights @ data.values)[None], reach=strongest, edge=look.colours[1])
    told = f"$v_{{{data.best + 1}}}$" if weights.max() == 1 else r"$\Sigma_j\, \alpha_j v_j$"
    page.write((left + 3.5, bottom + 0.52), look.say(f"output = {told}", f"saída = {told}"), ha="right")


def _row(page: Sheet, data: LookedUp, at: Point, row: int, weights: Array) -> None:
    look, (left, middle), weight = page.look, at, float(weights[row])
    page.token((left + 0.42, middle), data.words[row], look.colours[1] if row == data.best else None)
    page.heat((left + 0.95, middle - 0.11, 1.3, 0.22), data.keys[row][None], reach=float(np.abs(data.keys).max()))
    page.write((left + 2.6, middle), look.number(float(data.scores[row]), ".2f"), size=8)
    page.bar((left + 2.95, middle - 0.11, 0.5 * weight, 0.22), facecolor=look.colours[1])
    page.line((left + 2.95, middle - 0.15), (left + 2.95, middle + 0.15), linewidth=0.8)
    # On a long bar the number has no room beside it.
    beside, colour = (0.04, look.ink) if weight < 0.8 else (-0.3, look.paper)
    page.write((left + 2.95 + 0.5 * weight + beside, middle), look.number(weight, ".2f"), size=7.5, ha="left", color=colour)
    page.heat((left + 3.6, middle - 0.11, 1.2, 0.22), (weight * data.values[row])[None], reach=float(np.abs(data.values).max()))


@checks("003-FIG6")
def hard_beside_soft(given: Given) -> Finding:
    """Both tables show the keys and values of one query: at temperature 0 the best row alone, at temperature 1 what the model mixes."""
    data, model = drawing_of("003-FIG6").data(given), given.model("one-layer")
    run, head = model.record(short_text(model)), find_head(data.head, model.config)
    soft, best = data.outputs[data.at(1.0)], int(run["L0.scores"][0, head.head, -1].argmax())
    return found(
        drawn("hard", np.abs(data.hard - run["L0.values"][0, key_head(model.config, head), best].numpy()).max(), within=1e-10),
        drawn("soft", np.abs(soft - run["L0.mixed"][0, head.head, -1].numpy()).max(), within=1e-10),
        drawn("apart", np.abs(soft - data.hard).max(), above=1e-3),
        drawn("strips", shown(given, "003-FIG6").pictures, equal=2 * (2 * len(data.words) + 2)),
        legible(given, "003-FIG6", given.name("one-layer")),
        on=given.name("one-layer"),
    )


@draws("003-FIG7", gather)
def draw_temperatures(data: LookedUp, look: Look) -> Any:
    """Weights at several temperatures, the way of the output between the values, and its distance from the hard lookup."""
    page = sheet(look, 10.6, 7.3)
    page.title(
        look.say("From soft to hard: the temperature of a lookup", "Do suave ao rígido: a temperatura de uma consulta"),
        look.say(
            f"Weights $\\alpha = $ softmax$(s/T)$ of “{visible(data.words[-1])}” in head {data.head}; the model itself has T = 1.",
            f"Pesos $\\alpha = $ softmax$(s/T)$ de “{visible(data.words[-1])}” na cabeça {data.head}; o próprio modelo tem T = 1.",
        ),
    )
    panels = [
        (r"$T \to \infty$", 0),
        *((f"$T = {look.number(each).replace(',', '{,}')}$", data.at(each)) for each in SHOWN),
        (r"$T \to 0$", -1),
    ]
    for number, (name, index) in enumerate(panels):
        _weights(page, data, (0.95 + number * 1.6, 1.35, 1.35, 1.75), name, index)
    page.write((0.3, 2.2), look.say("weight", "peso"), rotation=90)
    _way(page, data, (0.95, 4.05, 4.3, 2.6), [index for _, index in panels])
    _distance(page, data, (6.55, 4.05, 3.7, 2.6))
    return page.figure


def _weights(page: Sheet, data: LookedUp, place: Place, name: str, index: int) -> None:
    look, axes = page.look, page.graph(place)
    colours = [look.colours[1] if row == data.best else look.colours[0] for row in range(len(data.words))]
    axes.bar(range(len(data.words)), data.weights[index], color=colours, width=0.75)
    axes.set_ylim(0, 1)
    axes.grid(visible=False, axis="x")
    axes.set_xticks(range(len(data.words)), [visible(word) for word in data.words], rotation=90, family="monospace")
    axes.set_yticks([0, 0.5, 1])
    axes.tick_params(labelleft=place[0] < 1)
    axes.set_title(name)


def _way(page: Sheet, data: LookedUp, place: Place, marked: list[int]) -> None:
    """The values in the plane where they differ most; the outputs lie between them, as every mean does."""
    look, axes = page.look, page.graph(place)
    directions, centre = plane(data.values)
    points, way = (data.values - centre) @ directions, (data.outputs - centre) @ directions
    axes.fill(*hull(points).T, color=look.colours[0], alpha=0.12)
    axes.plot(*way.T, color=look.colours[1], linewidth=2)
    axes.plot(*way[marked].T, "o", color=look.colours[1], markersize=5)
    cloud(axes, points, data.words, color=look.colours[0])
    axes.plot(*way[data.at(1.0)], "*", color=look.ink, markersize=11)
    axes.set(
        xlabel=look.say(
            "first direction of the values  (★: T = 1, the model)", "primeira direção dos values  (★: T = 1, o modelo)"
        ),
        ylabel=look.say("second direction", "segunda direção"),
    )
    axes.set_title(
        look.say("The output goes from the mean to one value", "A saída vai da média a um só value"), loc="left", weight="bold"
    )


def _distance(page: Sheet, data: LookedUp, place: Place) -> None:
    look, axes, T = page.look, page.graph(place), np.array(data.temperatures)
    off = np.linalg.norm(data.outputs - data.hard, axis=1)
    bound = (len(data.words) - 1) * np.exp(-data.gap / T) * data.spread
    axes.plot(T, bound, "--", color=look.faint, label=r"$(N-1)\,e^{-\mathrm{gap}/T}\,\max\|v_i-v_j\|$")
    axes.plot(T, off, color=look.colours[1], linewidth=2, label=look.say("soft − hard", "suave − rígida"))
    axes.set(xscale="log", yscale="log", ylim=(1e-9, bound.max() * 8), xlim=(T[off > 1e-9].min(), 100))
    axes.invert_xaxis()
    axes.set_xlabel(look.say("temperature T (colder to the right)", "temperatura T (mais fria à direita)"))
    axes.set_ylabel(look.say("distance", "distância"))
    axes.legend(frameon=False, fontsize=8.5, loc="lower left")
    axes.set_title(
        look.say("It gets there exponentially in 1/T", "Chega lá exponencialmente em 1/T"), loc="left", weight="bold"
    )


@checks("003-FIG7")
def temperatures(given: Given) -> Finding:
    """At every temperature the weights sum to 1; at T = 1 they are the model's; as T → 0 the output is the hard lookup, within its bound."""
    data, model = drawing_of("003-FIG7").data(given), given.model("one-layer")
    T = np.array(data.temperatures)
    pattern = model.record(short_text(model))["L0.pattern"][0, find_head(data.head, model.config).head, -1]
    directions, centre = plane(data.values)
    off = np.linalg.norm(data.outputs - data.hard, axis=1)
    bound = (len(data.words) - 1) * np.exp(-data.gap / T) * data.spread
    return found(
        drawn("limit", off[-1], within=1e-6),
        drawn("mean", np.abs(data.outputs[0] - data.values.mean(axis=0)).max() / np.abs(data.values).max(), within=1e-2),
        drawn("sums", np.abs(data.weights.sum(axis=1) - 1).max(), within=1e-10),
        drawn("model", np.abs(data.weights[data.at(1.0)] - pattern.numpy()).max(), within=1e-10),
        drawn("bound", (off - bound).max(), below=1e-10),
        drawn("between", inside((data.outputs - centre) @ directions, hull((data.values - centre) @ directions)), within=1e-10),
        drawn("words", shown(given, "003-FIG7").has(*map(visible, data.words)), equal=len(data.words)),
        legible(given, "003-FIG7", given.name("one-layer")),
        on=given.name("one-layer"),
    )
