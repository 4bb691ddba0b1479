"""Where everything in a diagram stands, in inches from the left and the top; and whether anything stands on something else."""

import functools
import math
from collections.abc import Iterable, Sequence
from dataclasses import dataclass, replace
from typing import Any

from headwater.show.diagram_routes import NORMALS, Point, Rectangle, curve, rounded
from headwater.show.diagram_values import Diagram, Edge, Group, Node, Place, Side, Thumbnail, Words, plain, said
from headwater.show.looks import DPI, Look

WORDS, SMALL, NAMES = 10.5, 8.5, 7.5
"""Of letters, in points: in boxes and titles, below and beside, and of tokens around a heat-map."""
INSET, STACK = 0.11, 0.07
"""Between a box's border and what is in it, and between the things in it."""
EDGE, FRAME, TITLE = 0.15, 0.13, 0.27
"""Around the diagram; between a group's frame and its boxes; and above them, where the title stands."""
ARROW, LANE = 0.3, 0.16
"""What an arrow needs besides its label; and how far apart lanes are."""
MOST_CELL, MOST_SIDE = 0.135, 1.35
"""Of a heat-map: a cell, and all of it."""
LEAST_WIDTH = 6.0


@dataclass(frozen=True)
class Route:
    """An arrow as points from border to border, and where its label stands."""

    edge: Edge
    points: tuple[Point, ...]
    label: Rectangle | None


@dataclass(frozen=True)
class Layout:
    """Everything in its place."""

    boxes: dict[str, Rectangle]
    routes: tuple[Route, ...]
    frames: tuple[tuple[Group, Rectangle, Rectangle], ...]
    """Each group with its frame and the place of its title."""
    caption: tuple[str, ...]
    below: float
    """Where the caption begins."""
    width: float
    height: float

    @property
    def collisions(self) -> tuple[str, ...]:
        """What stands on something else: boxes on boxes, arrows or labels on boxes, words on words or on others' arrows."""
        boxes = list(self.boxes.items())
        found = [f"{a} on {b}" for i, (a, one) in enumerate(boxes) for b, other in boxes[:i] if one.meets(other)]
        for route in self.routes:
            name = f"{route.edge.source} → {route.edge.target}"
            # Both ends touch their borders: a hair's breadth inside of a border is outside of the box.
            found += [f"{name} through {key}" for key, box in boxes if any(map(box.grown(-0.02).has, route.points))]
        words = [(f"label {r.edge.source} → {r.edge.target}", r.label, r) for r in self.routes if r.label]
        words += [(f"title {number}", title, None) for number, (_, _, title) in enumerate(self.frames)]
        for number, (name, place, own) in enumerate(words):
            found += [f"{name} on {key}" for key, box in boxes if place.meets(box)]
            found += [f"{name} on {other}" for other, there, _ in words[:number] if place.meets(there)]
            others = [route for route in self.routes if route is not own]
            found += [f"{name} on {r.edge.source} → {r.edge.target}" for r in others if any(map(place.has, r.points))]
        return tuple(found)


def arrange(diagram: Diagram, look: Look) -> Layout:
    """Columns as wide as their widest box, rows as high as their highest, gaps as wide as labels and frames need."""
    sizes = {node.key: box_size(node, look) for node in diagram.nodes}
    across = _track(diagram, look, sizes, axis=0)
    down = _track(diagram, look, sizes, axis=1)
    boxes = {
        node.key: Rectangle.around((across.at(node.at[0]), down.at(node.at[1])), *sizes[node.key]) for node in diagram.nodes
    }
    routes = _routes(diagram, boxes, (across, down), look)
    frames = tuple(_frame(group, boxes, routes, look) for group in diagram.groups)
    layout = Layout(boxes, routes, frames, (), 0.0, 0.0, 0.0)
    return _bounded(layout, diagram, look)


def _bounded(layout: Layout, diagram: Diagram, look: Look) -> Layout:
    """Moved to the middle of a page that has room for all, with the caption below."""
    there = [*layout.boxes.values(), *(frame for _, frame, _ in layout.frames)]
    there += [route.label for route in layout.routes if route.label]
    points = [point for route in layout.routes for point in route.points]
    xs = [edge for box in there for edge in (box.left, box.right)] + [x for x, _ in points]
    ys = [edge for box in there for edge in (box.top, box.bottom)] + [y for _, y in points]
    width = max(max(xs) - min(xs) + 2 * EDGE, LEAST_WIDTH if diagram.caption else 0.0)
    shift = (width - max(xs) - min(xs)) / 2, EDGE - min(ys)
    below = max(ys) + shift[1] + EDGE
    caption = tuple(fold(said(diagram.caption, look), width - 2 * EDGE)) if diagram.caption else ()
    height = below + (line_height(SMALL) * len(caption) + EDGE if caption else 0.0)
    return Layout(
        {key: _moved(box, shift) for key, box in layout.boxes.items()},
        tuple(_moved_route(route, shift) for route in layout.routes),
        tuple((group, _moved(frame, shift), _moved(title, shift)) for group, frame, title in layout.frames),
        caption, below, width, height,
    )  # fmt: skip


def _moved(box: Rectangle, by: Point) -> Rectangle:
    return Rectangle(box.left + by[0], box.top + by[1], box.right + by[0], box.bottom + by[1])


def _moved_route(route: Route, by: Point) -> Route:
    points = tuple((x + by[0], y + by[1]) for x, y in route.points)
    return replace(route, points=points, label=route.label and _moved(route.label, by))


def box_size(node: Node, look: Look) -> Point:
    """How wide and high a box is for what stands in it."""
    parts = [part for part in stack(node, look) if part[1] > 0]
    inset = INSET if node.kind == "value" else 1.6 * INSET
    height = sum(height for _, height in parts) + STACK * (len(parts) - 1) + 2 * INSET
    return max(max(width for width, _ in parts) + 2 * inset, 0.5), height


def stack(node: Node, look: Look) -> list[Point]:
    """Width and height of words, heat-map, its size, numbers, and note; nothing where there is none."""
    return [
        measure(said(node.words, look), WORDS),
        thumbnail_size(node.thumbnail) if node.thumbnail else (0.0, 0.0),
        measure(node.thumbnail.size, SMALL) if node.thumbnail and node.thumbnail.size else (0.0, 0.0),
        measure(printed(node, look), SMALL) if node.numbers else (0.0, 0.0),
        measure(said(node.note, look), SMALL) if node.note else (0.0, 0.0),
    ]


def printed(node: Node, look: Look) -> str:
    """A node's numbers in a row."""
    return "   ".join(look.number(number, node.form) for number in node.numbers)


def cell(thumbnail: Thumbnail) -> float:
    """The side of a heat-map's cell."""
    return min(MOST_CELL, MOST_SIDE / max(len(thumbnail.values), len(thumbnail.values[0])))


def margins(thumbnail: Thumbnail) -> Point:
    """What the names of rows and columns need, at the left and below."""
    left = max((measure(plain(name), NAMES)[0] for name in thumbnail.rows), default=-0.05) + 0.05
    return left, max((measure(plain(name), NAMES)[0] for name in thumbnail.columns), default=-0.05) + 0.05


def named_cell(thumbnail: Thumbnail) -> float:
    """Names need cells as high as a letter."""
    return max(cell(thumbnail), 0.15) if thumbnail.rows or thumbnail.columns else cell(thumbnail)


def thumbnail_size(thumbnail: Thumbnail) -> Point:
    """Width and height of a heat-map with its names."""
    side, (left, below) = named_cell(thumbnail), margins(thumbnail)
    return side * len(thumbnail.values[0]) + left, side * len(thumbnail.values) + below


@dataclass(frozen=True)
class _Track:
    """Columns, or rows: where each begins and ends."""

    starts: tuple[float, ...]
    ends: tuple[float, ...]
    outside: float

    def at(self, place: float) -> float:
        """A whole number is a column's middle, a half that of a gap; in between, in proportion."""
        low = math.floor(2 * place) / 2
        share = 2 * (place - low)
        return (1 - share) * self._knot(low) + share * self._knot(low + 0.5)

    def _knot(self, place: float) -> float:
        first, last = 0, len(self.starts) - 1
        if place < first:
            return self.starts[0] + 2 * place * self.outside
        if place > last:
            return self.ends[-1] + 2 * (place - last) * self.outside
        column = int(place)
        if place == column:
            return (self.starts[column] + self.ends[column]) / 2
        return (self.ends[column] + self.starts[column + 1]) / 2


def _track(diagram: Diagram, look: Look, sizes: dict[str, Point], *, axis: int) -> _Track:
    count = 1 + math.floor(max(node.at[axis] for node in diagram.nodes))
    spans = [max((sizes[n.key][axis] for n in diagram.nodes if n.at[axis] == place), default=0.0) for place in range(count)]
    gaps = [max(diagram.gap[axis], *_label_needs(diagram, look, place, axis=axis), 0.0) for place in range(count)]
    for group in diagram.groups:
        places = [diagram.node(key).at[axis] for key in group.nodes]
        first, last = math.floor(min(places)), math.ceil(max(places))
        if first > 0:
            gaps[first - 1] += FRAME + (TITLE if axis else 0.0)
        gaps[min(last, count - 1)] += FRAME
    starts = [sum(spans[:place]) + sum(gaps[:place]) for place in range(count)]
    return _Track(tuple(starts), tuple(s + span for s, span in zip(starts, spans, strict=True)), diagram.gap[axis] / 2)


def _label_needs(diagram: Diagram, look: Look, place: int, *, axis: int) -> Iterable[float]:
    """What labels need of the gap after a column, or row: those of arrows from one side of it to the next column."""
    for edge in diagram.edges:
        low, high = sorted((diagram.node(edge.source).at[axis], diagram.node(edge.target).at[axis]))
        along = (diagram.direction == "down") == bool(axis)
        if edge.label and not edge.via and math.floor(low) == place < high <= place + 1 and (along or axis == 1):
            # A label that is not in the middle leaves the same room on its other side.
            yield label_size(edge.label, look)[axis] * (1 + 2 * abs(edge.slide)) + ARROW


def label_size(label: Words, look: Look) -> Point:
    """With a little paper around it."""
    width, height = measure(said(label, look), SMALL)
    return width + 0.06, height + 0.04


def _routes(diagram: Diagram, boxes: dict[str, Rectangle], tracks: tuple[_Track, _Track], look: Look) -> tuple[Route, ...]:
    made: list[Route] = []
    for edge in diagram.edges:
        points = _points(diagram, edge, boxes, tracks)
        label = None
        if edge.label:
            at = points[round((0.5 + edge.slide) * (len(points) - 1))]
            label = Rectangle.around(at, *label_size(edge.label, look))
        made.append(Route(edge, tuple(points), label))
    return tuple(made)


def _points(diagram: Diagram, edge: Edge, boxes: dict[str, Rectangle], tracks: tuple[_Track, _Track]) -> list[Point]:
    leaves, arrives = _sides(diagram, edge)
    start, end = _port(boxes[edge.source], leaves, edge.lane), _port(boxes[edge.target], arrives, edge.lane)
    if edge.via:
        through = [_place(place, tracks) for place in edge.via]
        return rounded([start, *through, end])
    return curve(start, end, leaves, arrives)


def _port(box: Rectangle, side: Side, lane: float) -> Point:
    """The middle of a side, or beside it."""
    (x, y), (across, _) = box.side(side), NORMALS[side]
    return (x, y + LANE * lane) if across else (x + LANE * lane, y)


def _place(place: Place, tracks: tuple[_Track, _Track]) -> Point:
    return tracks[0].at(place[0]), tracks[1].at(place[1])


def _sides(diagram: Diagram, edge: Edge) -> tuple[Side, Side]:
    """Those that face each other: along the direction first, across it where the boxes are side by side."""
    (x0, y0), (x1, y1) = diagram.node(edge.source).at, diagram.node(edge.target).at
    sideways: tuple[Side, Side] = ("right", "left") if x1 > x0 else ("left", "right")
    upright: tuple[Side, Side] = ("bottom", "top") if y1 > y0 else ("top", "bottom")
    flows = x1 != x0 if diagram.direction == "right" else y1 == y0
    leaves, arrives = sideways if flows else upright
    return edge.leaves or leaves, edge.arrives or arrives


def _frame(
    group: Group, boxes: dict[str, Rectangle], routes: Sequence[Route], look: Look
) -> tuple[Group, Rectangle, Rectangle]:
    """Around its boxes and the arrows between them; the title stands inside, above all."""
    inside = [boxes[key] for key in group.nodes]
    own = [route for route in routes if {route.edge.source, route.edge.target} <= set(group.nodes)]
    inside += [Rectangle.around(point, 0.0, 0.0) for route in own for point in route.points]
    inside += [route.label for route in own if route.label]
    width, height = measure(said(group.title, look), SMALL)
    left, top = min(box.left for box in inside) - FRAME, min(box.top for box in inside) - TITLE
    right = max(*(box.right for box in inside), left + width + FRAME) + FRAME
    title = Rectangle(left + FRAME, top + 0.05, left + FRAME + width, top + 0.05 + height)
    return group, Rectangle(left, top, right, max(box.bottom for box in inside) + FRAME), title


def fold(text: str, width: float) -> list[str]:
    """A text in lines that fit; a formula is never broken."""
    lines: list[str] = []
    for word in _pieces(text):
        longer = f"{lines[-1]} {word}" if lines else word
        if lines and measure(longer, SMALL)[0] <= width:
            lines[-1] = longer
        else:
            lines.append(word)
    return lines


def _pieces(text: str) -> list[str]:
    """Words; formulas, which stand between dollar signs, are one each."""
    pieces: list[str] = []
    for word in text.split(" "):
        is_inside = bool(pieces) and pieces[-1].replace(r"\$", "").count("$") % 2 == 1
        if is_inside:
            pieces[-1] += f" {word}"
        else:
            pieces.append(word)
    return pieces


def line_height(size: float) -> float:
    """Of one line among several."""
    return 1.45 * size / 72


@functools.lru_cache(maxsize=4096)
def measure(text: str, size: float) -> Point:
    """The room that a text takes, in inches."""
    figure, renderer = _scratch()
    shown: Any = figure.text(0, 0, text, size=size, linespacing=1.25)
    extent: Any = shown.get_window_extent(renderer)
    shown.remove()
    lines = text.count("\n") + 1
    return float(extent.width) / DPI, max(float(extent.height) / DPI, 1.2 * size * lines / 72)


@functools.cache
def _scratch() -> tuple[Any, Any]:
    """A figure that nobody sees, to try words on."""
    from matplotlib.backends.backend_agg import FigureCanvasAgg
    from matplotlib.figure import Figure

    figure: Any = Figure(dpi=DPI)
    canvas: Any = FigureCanvasAgg(figure)
    return figure, canvas.get_renderer()
