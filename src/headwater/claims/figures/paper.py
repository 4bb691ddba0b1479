"""A sheet of paper measured in inches from its top left corner, on which figures put words, matrices and arrows."""

from dataclasses import dataclass
from typing import Any, Literal, TypeAlias

import numpy as np
from numpy.typing import NDArray

from headwater.show.diagram_values import plain
from headwater.show.looks import Look

Array: TypeAlias = NDArray[np.float64]
Point: TypeAlias = tuple[float, float]
Place: TypeAlias = tuple[float, float, float, float]
"""Left, top, width, height."""
Kind: TypeAlias = Literal["signed", "amounts"]
MARGIN = 0.3


@dataclass(frozen=True)
class Sheet:
    """A figure that is being drawn; ``page`` is an axes over all of it whose units are inches, y downwards."""

    look: Look
    figure: Any
    page: Any
    width: float
    height: float

    def title(self, text: str, below: str = "") -> None:
        """What the figure is, and one line that says more."""
        self.write((MARGIN, 0.28), text, size=13, weight="bold", ha="left")
        if below:
            self.write((MARGIN, 0.58), below, size=9, ha="left")

    def write(self, at: Point, text: str, **style: Any) -> Any:
        """Words, centred unless told otherwise; formulas stand between dollar signs."""
        style = {"ha": "center", "va": "center", "size": 9, "color": self.look.ink} | style
        return self.page.text(*at, text, **style)

    def token(self, at: Point, word: str, colour: str | None = None, **style: Any) -> Any:
        """A token on its own little card, with all its spaces."""
        edge = colour or self.look.faint
        card = {
            "boxstyle": "round,pad=0.25",
            "facecolor": self.look.box,
            "edgecolor": edge,
            "linewidth": 1.4 if colour else 0.8,
        }
        return self.write(at, visible(word), **({"family": "monospace", "size": 8.5, "bbox": card} | style))

    def box(self, place: Place, **style: Any) -> None:
        """A frame with round corners."""
        from matplotlib.patches import FancyBboxPatch

        left, top, width, height = place
        style = {"facecolor": self.look.box, "edgecolor": self.look.faint, "linewidth": 0.8, "zorder": 0.5} | style
        corners = "round,pad=0,rounding_size=0.08"
        self.page.add_patch(FancyBboxPatch((left, top), width, height, boxstyle=corners, **style))

    def bar(self, place: Place, **style: Any) -> None:
        """A filled rectangle."""
        from matplotlib.patches import Rectangle

        left, top, width, height = place
        style = {"linewidth": 0, "zorder": 1} | style
        self.page.add_patch(Rectangle((left, top), width, height, **style))

    def arrow(self, start: Point, end: Point, *, bend: float = 0.0, **style: Any) -> None:
        """From one point to another; bent to one side where ``bend`` is not 0."""
        style = {"arrowstyle": "-|>", "mutation_scale": 9, "color": self.look.ink, "linewidth": 1.1} | style
        style |= {"shrinkA": 0, "shrinkB": 0, "connectionstyle": f"arc3,rad={bend}"}
        self.page.annotate("", end, start, arrowprops=style)

    def way(self, *points: Point, **style: Any) -> None:
        """An arrow through several points, straight from one to the next."""
        self.line(*points[:-1], **{"color": self.look.ink, "linewidth": 1.1} | style)
        self.arrow(points[-2], points[-1], **style)

    def line(self, *points: Point, **style: Any) -> None:
        """A line through several points, without a head."""
        across, down = zip(*points, strict=True)
        self.page.plot(across, down, **{"color": self.look.ink, "linewidth": 1.1, "solid_capstyle": "round"} | style)

    def plus(self, at: Point, size: float = 0.11) -> None:
        """Where things are added."""
        from matplotlib.patches import Circle

        style = {"facecolor": self.look.paper, "edgecolor": self.look.ink, "linewidth": 1.1, "zorder": 4}
        self.page.add_patch(Circle(at, size, **style))
        self.write(at, "+", size=12, zorder=5, va="center_baseline")

    def heat(self, place: Place, values: Array, *, kind: Kind = "signed", reach: float | None = None, edge: str = "") -> None:
        """A matrix as colours; what is no finite number stays grey. ``reach`` has the full colour."""
        left, top, width, height = place
        reach = reach or strongest(values)
        colours = self._colours(kind)
        span = {"vmin": -reach if kind == "signed" else 0.0, "vmax": reach, "extent": (left, left + width, top + height, top)}
        shown = np.where(np.isfinite(values), values, np.nan)
        self.page.imshow(shown, cmap=colours, aspect="auto", interpolation="nearest", zorder=2, **span)
        frame = {"edgecolor": edge or self.look.faint, "linewidth": 1.6 if edge else 0.7, "zorder": 2.5}
        self.bar(place, facecolor="none", **frame)

    def matrix(self, place: Place, values: Array, name: str, below: str = "", **style: Any) -> None:
        """A heat-map with its name above and its size below."""
        left, top, width, height = place
        self.heat(place, values, **style)
        self.write((left + width / 2, top - 0.15), name)
        self.write((left + width / 2, top + height + 0.14), below, size=7.5)

    def tokens(self, left: float, place: Place, words: tuple[str, ...], **style: Any) -> None:
        """Tokens beside the rows of a heat-map."""
        _, top, _, height = place
        for row, word in enumerate(words):
            self.token((left, top + (row + 0.5) * height / len(words)), word, size=7.5, **style)

    def numbers(
        self, place: Place, values: Array, *, kind: Kind = "signed", reach: float | None = None, form: str = ".2f", **style: Any
    ) -> None:
        """The numbers of a heat-map in its cells."""
        left, top, width, height = place
        reach, (rows, columns), colours = reach or strongest(values), values.shape, self._colours(kind)
        for row, column in zip(*np.nonzero(np.isfinite(values)), strict=True):
            value = float(values[row, column])
            at = left + (column + 0.5) * width / columns, top + (row + 0.5) * height / rows
            share = value / reach if kind == "amounts" else (value / reach + 1) / 2
            style = {"size": 7.5, "zorder": 3} | style | {"color": self._on(colours(share))}
            self.write(at, self.look.number(value, form), **style)

    def _colours(self, kind: Kind) -> Any:
        colours = self.look.signed if kind == "signed" else self.look.amounts
        return colours.with_extremes(bad=self.look.box)

    def _on(self, colour: Any) -> str:
        """Ink or paper, whichever is easier to read on a colour."""
        from matplotlib.colors import to_rgb

        there, *inks = (_luminance(to_rgb(each)) for each in (colour, self.look.ink, self.look.paper))
        contrasts = [(max(there, ink) + 0.05) / (min(there, ink) + 0.05) for ink in inks]
        return self.look.ink if contrasts[0] >= contrasts[1] else self.look.paper

    def graph(self, place: Place) -> Any:
        """Axes for curves and points."""
        axes = self._inset(place)
        axes.grid(visible=True, linewidth=0.5, alpha=0.45)
        axes.set_axisbelow(True)
        axes.spines[["top", "right"]].set_visible(False)
        axes.tick_params(labelsize=8)
        for axis in (axes.xaxis, axes.yaxis):
            axis.set_major_formatter(self._tick)
        return axes

    def _tick(self, value: Any, _: Any) -> str:
        return self.look.number(float(value), "g")

    def _inset(self, place: Place) -> Any:
        left, top, width, height = place
        bottom = self.height - top - height
        return self.figure.add_axes(
            (left / self.width, bottom / self.height, width / self.width, height / self.height), zorder=2
        )


def sheet(look: Look, width: float, height: float) -> Sheet:
    """An empty sheet."""
    from matplotlib.figure import Figure

    figure: Any = Figure(figsize=(width, height))
    page = figure.add_axes((0, 0, 1, 1), zorder=1)
    page.set(xlim=(0, width), ylim=(height, 0))
    page.axis("off")
    # Heat-maps would move the limits to their own.
    page.autoscale(enable=False)
    return Sheet(look, figure, page, width, height)


def visible(word: str) -> str:
    """A token's text with its spaces as dots, since many begin with one.

    >>> visible(" in")
    '·in'
    """
    return plain(word).replace(" ", "·")


def _luminance(colour: tuple[float, ...]) -> float:
    """As the web's guidelines for readable text define it."""
    red, green, blue = (each / 12.92 if each <= 0.04045 else ((each + 0.055) / 1.055) ** 2.4 for each in colour)
    return 0.2126 * red + 0.7152 * green + 0.0722 * blue


def strongest(values: Array) -> float:
    """What has the full colour: nearly the largest modulus, so that one outlier does not make all others pale."""
    there = np.abs(values[np.isfinite(values)])
    return float(np.quantile(there, 0.99)) or 1.0


def thumbnail(matrix: Array, rows: int, columns: int) -> Array:
    """A large matrix as a small one: in each cell the entry of largest modulus of those that it stands for.

    >>> thumbnail(np.array([[1.0, -3.0], [2.0, 0.0]]), 1, 1)
    array([[-3.]])
    """
    parts = [
        np.array_split(band, min(columns, matrix.shape[1]), axis=1) for band in np.array_split(matrix, min(rows, len(matrix)))
    ]
    return np.array([[part.flat[np.abs(part).argmax()] for part in band] for band in parts])
