"""Trees, curves, clouds of points and grids to a file: svg, png or pdf by its suffix."""

import io
import math
import warnings
from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any, TypeAlias

from headwater.errors import InputError
from headwater.files.atomic import write_file
from headwater.show.rows import legible
from headwater.show.tree_plots import FAINT, MINUS, PLUS, draw_tree, layout
from headwater.show.values import Cloud, Grid, Line, Panel, Tree

FORMATS = ("svg", "png", "pdf")
# Okabe and Ito's colours, which most people with a colour vision deficiency can tell apart; their yellow is too faint on white.
COLOURS = ("#0072B2", "#D55E00", "#009E73", "#CC79A7", "#56B4E9", "#E69F00", "#000000")
MARKERS = "os^DvPX"
DASHES = ("-", ":")
CIRCLES = ("--", ":")
# A fixed salt, and no date in the file: the same numbers give the same bytes.
LOOK: Any = {"svg.hashsalt": "headwater", "svg.fonttype": "none", "font.size": 9, "axes.titlesize": 10, "hatch.linewidth": 0.6}
DPI, MOST_PIXELS = 150, 60_000
"""Of a png, which has at most so many along each side."""
PANELS_IN_A_ROW = 3
MOST_BELOW = 5
"""Lines whose names have room below a panel."""
MOST_LETTERS = 28
"""Those of names two of which have room side by side."""
MOST_TICKS = 5
"""Numbers along each side of a cloud, which is small."""
MOST_NAMES = 24
"""Rows or columns of a grid whose names have room beside it."""
MOST_NUMBERS = 72
"""Cells of a grid that have room for their numbers."""


Plot: TypeAlias = Panel | Cloud | Grid
Picture: TypeAlias = Plot | Tree


def check_plot(path: Path, option: str = "--plot") -> None:
    """Refuse a place that no plot can be written to, before the work is done."""
    check_place(path, FORMATS, option)


def check_place(path: Path, endings: Sequence[str], option: str) -> None:
    """Refuse a file of another kind, one in a folder that is not there, and a folder itself."""
    if path.suffix.removeprefix(".").lower() not in endings:
        raise InputError(
            f"{option} {path.name}", f"a file that ends in .{', .'.join(endings)}", f"write {option} {path.stem}.{endings[0]}"
        )
    if not path.parent.is_dir():
        raise InputError(f"{option} {path}", "a folder that is there", f"make {path.parent} first")
    if path.is_dir():
        raise InputError(f"{option} {path}", "a file", "this is a folder: choose another name")


def draw(pictures: Sequence[Picture], path: Path) -> None:
    """Write the pictures to one file: afterwards the old one is there or the new one."""
    check_plot(path)
    write_file(path, drawing(pictures, path.suffix.removeprefix(".").lower()))


def drawing(pictures: Sequence[Picture], kind: str = "svg", *, is_clear: bool = False) -> bytes:
    """The pictures as the bytes of a file, on white or on nothing: trees below each other, then everything else side by side.

    Words stay words in an svg, so that they can be found and copied and are shown in any script that the reader has fonts for;
    in a png or pdf, letters that our font lacks are boxes.
    """
    import matplotlib as mpl
    from matplotlib.backends.backend_agg import FigureCanvasAgg
    from matplotlib.figure import Figure

    with mpl.rc_context(LOOK), warnings.catch_warnings():
        warnings.filterwarnings("ignore", r"Glyph \d+ .* missing from")
        bands = _bands(pictures)
        width, height = max(band.width for band in bands), sum(band.height for band in bands)
        figure: Any = Figure(figsize=(width, height), layout="constrained")
        FigureCanvasAgg(figure)
        parts = figure.subfigures(len(bands), 1, height_ratios=[band.height for band in bands], squeeze=False)
        for part, band in zip(parts[:, 0], bands, strict=True):
            _fill(part, band, width)
        data = io.BytesIO()
        dated = {"svg": {"Date": None}, "pdf": {"CreationDate": None}}
        dpi = min(DPI, MOST_PIXELS / max(width, height))
        figure.savefig(data, format=kind, dpi=dpi, metadata=dated.get(kind), transparent=is_clear)
    return data.getvalue()


@dataclass(frozen=True)
class _Band:
    """Pictures side by side, over the whole width."""

    pictures: Sequence[Picture]
    columns: int
    rows: int
    width: float
    height: float


def _bands(pictures: Sequence[Picture]) -> list[_Band]:
    plans = [([tree], layout(tree)) for tree in pictures if isinstance(tree, Tree)]
    bands = [_Band(tree, 1, 1, plan.width, plan.height) for tree, plan in plans]
    others = [picture for picture in pictures if not isinstance(picture, Tree)]
    if others:
        columns = min(len(others), PANELS_IN_A_ROW)
        rows = math.ceil(len(others) / columns)
        width = 6.4 if any(_is_crowded(panel) for panel in others) else 4.8
        bands.append(_Band(others, columns, rows, width * columns, 3.6 * rows))
    return bands


def _fill(part: Any, band: _Band, width: float) -> None:
    for number, picture in enumerate(band.pictures):
        if isinstance(picture, Tree):
            draw_tree(part.add_axes((0, 0, band.width / width, 1)), picture)
        else:
            _draw(part.add_subplot(band.rows, band.columns, number + 1), picture)


def _words(text: str) -> str:
    """A text as it is, in as many lines: dollar signs in it begin no formula."""
    return "\n".join(map(legible, text.split("\n"))).replace("$", r"\$")


def _is_crowded(panel: Plot) -> bool:
    """Whether the names of its lines have no room below."""
    return isinstance(panel, Panel) and len(panel.lines) > MOST_BELOW


def _draw(axes: Any, panel: Plot) -> None:
    if isinstance(panel, Cloud):
        _draw_cloud(axes, panel)
    elif isinstance(panel, Grid):
        _draw_grid(axes, panel)
    else:
        _draw_panel(axes, panel)


def _draw_cloud(axes: Any, cloud: Cloud) -> None:
    from matplotlib.patches import Circle
    from matplotlib.ticker import MaxNLocator

    axes.axhline(0, color=FAINT, linewidth=0.8, zorder=0)
    axes.axvline(0, color=FAINT, linewidth=0.8, zorder=0)
    for disc, dash in zip(cloud.discs, CIRCLES, strict=False):
        look = {"facecolor": "#00000010", "edgecolor": "#777777", "linestyle": dash, "label": _words(disc.label)}
        axes.add_patch(Circle((0, 0), disc.radius, zorder=1, **look))
    for sign, colour, marker in ((True, COLOURS[0], "o"), (False, COLOURS[1], "v")):
        some = [point for point in cloud.points if (point.real >= 0) == sign]
        label = "real part ≥ 0" if sign else "real part < 0"
        axes.scatter([p.real for p in some], [p.imag for p in some], s=14, color=colour, marker=marker, zorder=2, label=label)
    reach = 1.1 * max([*(disc.radius for disc in cloud.discs), *map(abs, cloud.points)]) or 1.0
    axes.set(
        title=_words(cloud.title), xlabel="real", ylabel="imaginary", aspect="equal", xlim=(-reach, reach), ylim=(-reach, reach)
    )
    for axis in (axes.xaxis, axes.yaxis):
        axis.set_major_locator(MaxNLocator(MOST_TICKS - 1, symmetric=True))
    axes.spines[["top", "right"]].set_visible(False)
    _name_below(axes)


def _draw_grid(axes: Any, grid: Grid) -> None:
    from matplotlib.colors import LinearSegmentedColormap, TwoSlopeNorm

    norm = TwoSlopeNorm(grid.middle, grid.middle - grid.reach, grid.middle + grid.reach)
    colours = LinearSegmentedColormap.from_list("signs", [MINUS, "#f4f4f4", PLUS])
    image = axes.imshow(grid.values, cmap=colours, norm=norm, aspect="auto")
    axes.figure.colorbar(image, ax=axes, shrink=0.85)
    axes.set(title=_words(grid.title), xlabel=_words(grid.x), ylabel=_words(grid.y))
    for set_ticks, names in ((axes.set_xticks, grid.columns), (axes.set_yticks, grid.rows)):
        step = max(1, math.ceil(len(names) / MOST_NAMES))
        set_ticks(range(0, len(names), step), [_words(name) for name in names[::step]], fontsize=7)
    axes.tick_params(axis="x", rotation=90 if len(grid.columns) > MOST_BELOW else 0)
    if len(grid.rows) * len(grid.columns) <= MOST_NUMBERS:
        for row, values in enumerate(grid.values):
            for column, value in enumerate(values):
                colour = "white" if abs(value - grid.middle) > 0.8 * grid.reach else "black"
                shown = f"{value:z.2f}".replace("-", "−") if math.isfinite(value) else ""
                axes.text(column, row, shown, ha="center", va="center", fontsize=7, color=colour)


def _draw_panel(axes: Any, panel: Panel) -> None:
    from matplotlib.ticker import MaxNLocator

    axes.set_xscale(panel.x_scale)
    axes.set_yscale(panel.y_scale)
    measured = 0
    for line in panel.lines:
        x, y = _shown(line, panel)
        if line.kind == "bound":
            axes.plot(x, y, color="#777777", linestyle="--", linewidth=1.2, label=_words(line.label))
            continue
        axes.plot(x, y, **_look(measured), markevery=max(1, len(x) // 24), label=_words(line.label))
        measured += 1
    axes.set(title=_words(panel.title), xlabel=_words(panel.x), ylabel=_words(panel.y))
    axes.grid(visible=True, color=FAINT, linewidth=0.6)
    axes.set_axisbelow(True)
    axes.spines[["top", "right"]].set_visible(False)
    if panel.x_scale == "linear" and all(float(x).is_integer() for line in panel.lines for x in line.x):
        axes.xaxis.set_major_locator(MaxNLocator(integer=True))
    if _is_crowded(panel):
        axes.legend(frameon=False, fontsize=8, loc="upper left", bbox_to_anchor=(1.0, 1.0))
    else:
        _name_below(axes)


def _name_below(axes: Any) -> None:
    """What is what, where no point can be."""
    labels = axes.get_legend_handles_labels()[1]
    columns = 2 if max(map(len, labels), default=0) <= MOST_LETTERS else 1
    axes.legend(frameon=False, fontsize=8, loc="upper center", bbox_to_anchor=(0.5, -0.16), ncols=columns)


def _look(number: int) -> dict[str, Any]:
    """Colour, marker and stroke, which together tell lines apart when they are printed in grey too."""
    colour, marker = COLOURS[number % len(COLOURS)], MARKERS[number % len(MARKERS)]
    dash = DASHES[number // len(COLOURS) % len(DASHES)]
    return {"color": colour, "marker": marker, "markersize": 3.5, "linestyle": dash, "linewidth": 1.4}


def _shown(line: Line, panel: Panel) -> tuple[list[float], list[float]]:
    """The points that there is a place for: finite, and above zero on a logarithmic axis."""
    there = [
        (x, y)
        for x, y in zip(line.x, line.y, strict=True)
        if math.isfinite(y) and (y > 0 or panel.y_scale == "linear") and (x > 0 or panel.x_scale == "linear")
    ]
    return [x for x, _ in there], [y for _, y in there]
