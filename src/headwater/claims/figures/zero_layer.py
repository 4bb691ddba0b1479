"""The zero-layer transformer, and what of it is found again in deeper ones."""

from dataclasses import dataclass
from typing import Any

import numpy as np
import torch

from headwater.claims.claim import Language
from headwater.claims.evidence import Finding, drawn, found
from headwater.claims.figures.attended import words_of
from headwater.claims.figures.drawings import drawing_of, draws
from headwater.claims.figures.paper import Array, Place, Point, Sheet, sheet, thumbnail, visible
from headwater.claims.figures.shown import legible, shown
from headwater.claims.given import Given
from headwater.claims.registry import checks
from headwater.show.looks import Look
from headwater.train.loss import cross_entropy

TEXT = "import os"
TOLD = 6
NAMED: dict[Language, tuple[str, ...]] = {
    "en": ("bigram", "rank", "SVD", "gradient", "direct path", "one layer", "N layers"),
    "pt": ("bigrama", "posto", "SVD", "gradiente", "caminho direto", "uma camada", "N camadas"),
}
"""What a mind map of the zero-layer model must name."""


@dataclass(frozen=True, kw_only=True)
class ZeroLayer:
    """The model's two matrices, made small, and what they say of one token."""

    vocab: int
    d: int
    word: str
    token: int
    W_E: Array
    """As the document writes it: a column for each token; W_U has a row for each."""
    W_U: Array
    x: Array
    logits: Array
    following: tuple[tuple[str, float], ...]
    """The likeliest next tokens, with their probabilities."""
    singular: Array
    """Singular values of W_U W_E, falling."""

    @property
    def rank(self) -> int:
        """How many of them are not lost in rounding."""
        return int((self.singular > self.singular[0] * self.vocab * np.finfo(float).eps).sum())


def gather(given: Given) -> ZeroLayer:
    """The zero-layer model after the first token of a short text."""
    model = given.model("zero-layer")
    token = int(model.tokens(TEXT)[0, 0])
    run, weights = model.record([token]), model.weights
    following = tuple((words_of(model, torch.tensor([each]))[0], p) for each, p in run.top(0, TOLD))
    return ZeroLayer(
        vocab=model.config.vocab,
        d=model.config.d_model,
        word=words_of(model, torch.tensor([token]))[0],
        token=token,
        W_E=thumbnail(weights.W_E.T.numpy(), 48, 96),
        W_U=thumbnail(weights.W_U.T.numpy(), 96, 48),
        x=weights.W_E[token].numpy(),
        logits=run.logits[0, 0].numpy(),
        following=following,
        singular=model.direct.singular_values().numpy(),
    )


@draws("001-FIG1", gather)
def draw(data: ZeroLayer, look: Look) -> Any:
    """Above, the architecture with its numbers; below, the mind map."""
    page = sheet(look, 11.6, 8.7)
    page.title(
        look.say(
            "The zero-layer transformer, and where it lives on", "O transformer de zero camadas, e onde ele continua vivo"
        ),
        look.say(
            "$T = W_U W_E$: each token votes for the next by itself.", "$T = W_U W_E$: cada token vota sozinho no seguinte."
        ),
    )
    _architecture(page, data)
    page.line((0.3, 4.25), (11.3, 4.25), color=look.faint, linewidth=0.6)
    _mind_map(page, data)
    return page.figure


def _architecture(page: Sheet, data: ZeroLayer) -> None:
    look, middle = page.look, 2.45
    page.token((0.75, middle), data.word, look.colours[0], size=10)
    page.write(
        (0.75, middle + 0.42), look.say("token $t$,\none of", "token $t$,\num de") + f" {data.vocab}", size=8, linespacing=1.4
    )
    page.matrix(
        (1.75, middle - 0.55, 2.3, 1.1),
        data.W_E,
        look.say("embedding $W_E$", "embedding $W_E$"),
        f"$d \\times V = {data.d} \\times {data.vocab}$",
        edge=look.colours[0],
    )
    page.matrix((4.75, middle - 0.55, 0.28, 1.1), thumbnail(data.x[:, None], 48, 1), "$x = W_E t$", f"$d = {data.d}$")
    page.matrix(
        (5.85, middle - 1.15, 1.1, 2.3),
        data.W_U,
        look.say("unembedding $W_U$", "unembedding $W_U$"),
        f"$V \\times d = {data.vocab} \\times {data.d}$",
        edge=look.colours[1],
    )
    centred = data.logits - data.logits.mean()
    page.matrix(
        (7.75, middle - 1.15, 0.28, 2.3),
        thumbnail(centred[:, None], 96, 1),
        look.say("logits, centred", "logits, centrados"),
        f"$V = {data.vocab}$",
    )
    for start, end in ((1.2, 1.67), (4.13, 4.67), (5.11, 5.77), (7.03, 7.67), (8.1, 8.75)):
        page.arrow((start, middle), (end, middle), linewidth=1.6)
    page.write((8.42, middle - 0.15), "softmax", size=8)
    axes = page.graph((9.65, middle - 1.0, 1.4, 2.0))
    axes.barh(range(len(data.following)), [p for _, p in data.following], color=look.colours[2], height=0.65)
    axes.set_yticks(range(len(data.following)), [visible(word) for word, _ in data.following], family="monospace", size=8.5)
    axes.invert_yaxis()
    axes.grid(visible=False, axis="y")
    page.write((10.35, middle - 1.17), look.say("p of the next token", "p do próximo token"))


def _mind_map(page: Sheet, data: ZeroLayer) -> None:
    look = page.look
    centre = (4.7, 6.05, 2.2, 0.95)
    page.box(centre, facecolor=look.paper, edgecolor=look.colours[0], linewidth=2.2)
    page.write((5.8, 6.33), look.say("zero layers", "zero camadas"), weight="bold", size=11)
    page.write((5.8, 6.68), "$T = W_U W_E$", size=11)
    _known(page, data)
    _again(page)


def _known(page: Sheet, data: ZeroLayer) -> None:
    """On the left: what is known of it."""
    look = page.look
    tops, second = (4.55, 5.55, 6.55, 7.55), data.following[0]
    said = look.number(second[1], ".2f")
    left = (
        (look.say("bigram", "bigrama"), f"{visible(data.word)} → {visible(second[0])}:  p = {said}"),
        (
            look.say("rank at most d", "posto no máximo d"),
            look.say(f"{data.rank} of {data.vocab}, measured", f"{data.rank} de {data.vocab}, medido"),
        ),
        ("SVD", look.say("singular values", "valores singulares")),
        (
            look.say("gradient", "gradiente"),
            look.say("$p - y$ at the logits, at any depth", "$p - y$ nos logits, em qualquer profundidade"),
        ),
    )
    for top, (name, note) in zip(tops, left, strict=True):
        _node(page, (0.4, top, 3.1, 0.78), name, note, look.colours[2])
        _branch(page, (4.7, 6.52), (3.5, top + 0.39), look.colours[2])
    _spectrum(page, data, (2.15, 6.62, 1.2, 0.64))


def _again(page: Sheet) -> None:
    """On the right: where it is found again."""
    look = page.look
    right = (
        (
            look.say("direct path", "caminho direto"),
            look.say("$W_U W_E$ again, beside all layers", "$W_U W_E$ de novo, ao lado das camadas"),
            4.8,
        ),
        (look.say("one layer", "uma camada"), r"$\mathrm{Id}\otimes W_UW_E + \Sigma_h A^h \otimes W_UW_{OV}^hW_E$", 6.1),
        (look.say("N layers", "N camadas"), r"$W_U W_E + \Sigma_i\, T_i$", 7.4),
    )
    for name, note, top in right:
        _node(page, (7.95, top, 3.3, 0.85), name, note, look.colours[1])
    _branch(page, (6.9, 6.52), (7.95, 5.22), look.colours[1])
    for start, end in ((5.65, 6.1), (6.95, 7.4)):
        page.arrow((9.6, start + 0.04), (9.6, end - 0.04), color=look.colours[1], linewidth=1.8)
    page.write((9.72, 5.87), look.say("+ heads", "+ cabeças"), ha="left", size=8)
    page.write((9.72, 7.17), look.say("+ more layers", "+ mais camadas"), ha="left", size=8)


def _node(page: Sheet, place: Place, name: str, note: str, colour: str) -> None:
    left, top, _, height = place
    page.box(place, edgecolor=colour, linewidth=1.4)
    page.write((left + 0.14, top + 0.24), name, ha="left", weight="bold", size=9.5)
    page.write((left + 0.14, top + height - 0.24), note, ha="left", size=8.5)


def _branch(page: Sheet, start: Point, end: Point, colour: str) -> None:
    """A curve that leaves and arrives level."""
    from matplotlib.patches import PathPatch
    from matplotlib.path import Path

    half = (start[0] + end[0]) / 2
    curve = Path([start, (half, start[1]), (half, end[1]), end], [Path.MOVETO, *[Path.CURVE4] * 3])
    page.page.add_patch(PathPatch(curve, facecolor="none", edgecolor=colour, linewidth=1.8, zorder=0.4))


def _spectrum(page: Sheet, data: ZeroLayer, place: Place) -> None:
    axes = page.graph(place)
    axes.fill_between(np.arange(1, len(data.singular) + 1), data.singular, color=page.look.colours[2], alpha=0.8)
    axes.set(yscale="log", xticks=[], xlim=(1, len(data.singular)), ylim=(data.singular[-1] / 2, None))
    axes.tick_params(which="both", left=False, labelleft=False)
    axes.patch.set_alpha(0)


@checks("001-FIG1")
def zero_layer(given: Given) -> Finding:
    """The printed sizes are the model's; the drawn logits, spectrum and gradient are those of W_U W_E; the map names what it must."""
    data: ZeroLayer = drawing_of("001-FIG1").data(given)
    model = given.model("zero-layer")
    E, U = model.weights.W_E.numpy(), model.weights.W_U.numpy()
    in_context = model.logits([*range(5), data.token])[0, -1].numpy()
    stream = torch.tensor(E[data.token], requires_grad=True)
    (gradient,) = torch.autograd.grad(cross_entropy(stream[None], model.weights.W_U, None, torch.tensor([7])), stream)
    p_minus_y: Array = np.exp(data.logits) / np.exp(data.logits).sum() - (np.arange(data.vocab) == 7)
    sizes = (
        f"$d \\times V = {data.d} \\times {data.vocab}$",
        f"$V \\times d = {data.vocab} \\times {data.d}$",
        f"$V = {data.vocab}$",
    )
    return found(
        drawn("logits", np.abs(data.logits - E[data.token] @ U).max(), within=1e-10),
        drawn("context", np.abs(data.logits - in_context).max(), within=1e-10),
        drawn("spectrum", (data.singular**2).sum() / np.sum((E.T @ E) * (U @ U.T)) - 1, within=1e-10),
        drawn("rank", data.rank - data.d, below=1),
        drawn("gradient", np.abs(gradient.numpy() - p_minus_y @ U.T).max(), within=1e-10),
        drawn("sizes", shown(given, "001-FIG1").has(*sizes), equal=3),
        *(
            drawn(f"named-{language}", shown(given, "001-FIG1", language).has(*words), equal=len(words))
            for language, words in NAMED.items()
        ),
        drawn("maps", shown(given, "001-FIG1").pictures, equal=4),
        legible(given, "001-FIG1", given.name("zero-layer")),
        on=given.name("zero-layer"),
    )
