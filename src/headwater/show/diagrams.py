"""Diagrams whose boxes hold numbers of a real run, drawn to be read from the last row.

A ``Diagram`` of ``Node``, ``Edge`` and ``Group`` says what there is and where on a grid; how wide boxes are, how arrows go and where
labels stand follows from the words of the language. ``arrange(diagram, look).collisions`` is empty where nothing stands on anything else.
"""

import math
from typing import TYPE_CHECKING, Any

from headwater.show.diagram_layout import (
    EDGE,
    NAMES,
    SMALL,
    STACK,
    WORDS,
    Layout,
    arrange,
    line_height,
    margins,
    named_cell,
    printed,
    stack,
)
from headwater.show.diagram_routes import Point, Rectangle
from headwater.show.diagram_values import Diagram, Edge, Group, Label, Node, Place, Thumbnail, Words, chain, plain, said
from headwater.show.looks import Look

if TYPE_CHECKING:
    from matplotlib.figure import Figure

__all__ = [
    "Diagram", "Edge", "Group", "Label", "Node", "Place", "Thumbnail", "Words", "arrange", "chain", "draw_diagram", "plain", "said",
]  # fmt: skip
HEAD, HALF = 0.1, 0.042
"""Of an arrow's head, in inches: its length, and half of its width."""
LINE = 1.5
"""Of an arrow, in points."""


def draw_diagram(diagram: Diagram, look: Look) -> "Figure":
    """The diagram on a page of its own size."""
    import matplotlib as mpl
    from matplotlib.figure import Figure

    layout = arrange(diagram, look)
    with mpl.rc_context(look.settings):
        figure: Any = Figure(figsize=(layout.width, layout.height), facecolor=look.paper)
        axes: Any = figure.add_axes((0, 0, 1, 1))
        draw_on(axes, diagram, layout, look)
    return figure


def draw_on(axes: Any, diagram: Diagram, layout: Layout, look: Look) -> None:
    """The diagram on axes of its layout's size: one unit is an inch."""
    axes.set(xlim=(0, layout.width), ylim=(layout.height, 0))
    axes.set_axis_off()
    for group, frame, title in layout.frames:
        _draw_frame(axes, frame, look)
        axes.text(title.left, title.middle[1], said(group.title, look), size=SMALL, va="center", color=softer(look), zorder=6)
    for route in layout.routes:
        _draw_arrow(axes, route.edge, route.points, look)
    for route in layout.routes:
        if route.label:
            _draw_label(axes, route.edge, route.label, look)
    for node in diagram.nodes:
        _draw_node(axes, node, layout.boxes[node.key], look)
    for number, line in enumerate(layout.caption):
        y = layout.below + line_height(SMALL) * (number + 0.5)
        axes.text(EDGE, y, line, size=SMALL, va="center", color=softer(look))


def mixed(colour: str, ground: str, share: float) -> str:
    """So much of a colour on a ground."""
    from matplotlib.colors import to_hex, to_rgb

    red, green, blue = (share * a + (1 - share) * b for a, b in zip(to_rgb(colour), to_rgb(ground), strict=True))
    return to_hex((red, green, blue))


def softer(look: Look) -> str:
    """Ink for what is said beside: paler than words in boxes, and easily read."""
    return mixed(look.ink, look.paper, 0.74)


def _colour(look: Look, tint: int | None) -> str:
    return mixed(look.ink, look.paper, 0.55) if tint is None else look.colours[tint]


def _draw_frame(axes: Any, frame: Rectangle, look: Look) -> None:
    from matplotlib.patches import FancyBboxPatch

    shape = FancyBboxPatch(
        (frame.left, frame.top), frame.right - frame.left, frame.bottom - frame.top, boxstyle="round,pad=0,rounding_size=0.12",
        facecolor="none", edgecolor=mixed(look.faint, look.paper, 0.6), linewidth=0.9, linestyle=(0, (4, 3)),
        zorder=0,
    )  # fmt: skip
    axes.add_patch(shape)


def _draw_arrow(axes: Any, edge: Edge, points: tuple[Point, ...], look: Look) -> None:
    """A line, and its head."""
    tip = points[-1]
    shaft = [point for point in points if math.dist(point, tip) > HEAD]
    length = math.dist(shaft[-1], tip)
    ahead = (tip[0] - shaft[-1][0]) / length, (tip[1] - shaft[-1][1]) / length
    base = tip[0] - HEAD * ahead[0], tip[1] - HEAD * ahead[1]
    xs, ys = zip(*shaft, base, strict=True)
    look_of_line = {"color": _colour(look, edge.tint), "linewidth": LINE, "linestyle": (0, (0.6, 2.2)) if edge.dotted else "-"}
    axes.plot(
        xs, ys, dash_capstyle="round", solid_capstyle="butt", zorder=2, gid=f"edge {edge.source} {edge.target}", **look_of_line
    )
    wings = [(base[0] - sign * HALF * ahead[1], base[1] + sign * HALF * ahead[0]) for sign in (1, -1)]
    axes.fill(*zip(tip, *wings, strict=True), color=_colour(look, edge.tint), linewidth=0, zorder=3)


def _draw_label(axes: Any, edge: Edge, place: Rectangle, look: Look) -> None:
    axes.fill(
        [place.left, place.right, place.right, place.left], [place.top, place.top, place.bottom, place.bottom],
        color=look.paper, linewidth=0, zorder=3,
    )  # fmt: skip
    colour = softer(look) if edge.tint is None else mixed(look.colours[edge.tint], look.ink, 0.7)
    x, y = place.middle
    axes.text(x, y, said(edge.label, look), size=SMALL, ha="center", va="center", color=colour, linespacing=1.25, zorder=4)


def _draw_node(axes: Any, node: Node, box: Rectangle, look: Look) -> None:
    from matplotlib.patches import FancyBboxPatch

    width, height = box.right - box.left, box.bottom - box.top
    rounding = 0.09 if node.kind == "value" else min(width, height, 0.7) / 2
    ground = look.box if node.tint is None else mixed(_colour(look, node.tint), look.box, 0.13)
    shape = FancyBboxPatch(
        (box.left, box.top), width, height, boxstyle=f"round,pad=0,rounding_size={rounding}",
        facecolor=ground, edgecolor=_colour(look, node.tint), linewidth=1.3, zorder=5, gid=f"node {node.key}",
    )  # fmt: skip
    axes.add_patch(shape)
    parts = stack(node, look)
    free = height - sum(part for _, part in parts) - STACK * (sum(part > 0 for _, part in parts) - 1)
    top, x = box.top + free / 2, box.middle[0]
    shown = node.thumbnail
    texts = [said(node.words, look), None, shown.size if shown else "", printed(node, look), said(node.note, look)]
    for (part_width, part), text in zip(parts, texts, strict=True):
        if text is None and shown:
            _draw_thumbnail(axes, shown, (x - part_width / 2, top), look)
        elif text:
            is_first = text is texts[0]
            ink = {"size": WORDS, "color": look.ink} if is_first else {"size": SMALL, "color": softer(look)}
            axes.text(x, top + part / 2, text, ha="center", va="center", linespacing=1.25, zorder=7, **ink)
        top += part + STACK * (part > 0)


def _draw_thumbnail(axes: Any, shown: Thumbnail, corner: Point, look: Look) -> None:
    """Cells with a hair of the paper between them; names at the left and, upright, below."""
    import numpy as np

    side, (left, _) = named_cell(shown), margins(shown)
    x, y = corner[0] + left, corner[1]
    rows, columns = len(shown.values), len(shown.values[0])
    low = -shown.strongest if shown.kind == "signed" else 0.0
    axes.pcolormesh(
        [x + side * n for n in range(columns + 1)], [y + side * n for n in range(rows + 1)], np.ma.masked_invalid(shown.values),
        cmap=look.signed if shown.kind == "signed" else look.amounts, vmin=low, vmax=shown.strongest,
        edgecolors=mixed(look.faint, look.paper, 0.35), linewidth=0.35, zorder=6,
    )  # fmt: skip
    for number, name in enumerate(shown.rows):
        axes.text(
            x - 0.05,
            y + side * (number + 0.5),
            plain(name),
            size=NAMES,
            ha="right",
            va="center_baseline",
            color=look.ink,
            zorder=7,
        )
    for number, name in enumerate(shown.columns):
        place = x + side * (number + 0.5), y + side * rows + 0.05
        axes.text(*place, plain(name), size=NAMES, rotation=90, ha="center", va="top", color=look.ink, zorder=7)
