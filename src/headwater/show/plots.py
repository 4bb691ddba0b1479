"""Curves, clouds of points and grids to a file: svg, png or pdf by its suffix."""

import io
import math
from collections.abc import Sequence
from pathlib import Path
from typing import Any, TypeAlias

from headwater.errors import InputError
from headwater.files.atomic import write_file
from headwater.show.values import Cloud, Grid, Line, Panel

FORMATS = ("svg", "png", "pdf")
# Okabe and Ito's colours, which most people with a colour vision deficiency can tell apart; their yellow is too faint on white.
COLOURS = ("#0072B2", "#D55E00", "#009E73", "#CC79A7", "#56B4E9", "#E69F00", "#000000")
MARKERS = "os^DvPX"
DASHES = ("-", ":")
CIRCLES = ("--", ":")
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


Picture: TypeAlias = Panel | Cloud | Grid


def check_plot(path: Path) -> None:
    """Refuse a place that no plot can be written to, before the work is done."""
    if path.suffix.removeprefix(".").lower() not in FORMATS:
        raise InputError(f"--plot {path.name}", f"a file that ends in .{', .'.join(FORMATS)}", f"write --plot {path.stem}.svg")
    if not path.parent.is_dir():
        raise InputError(f"--plot {path}", "a folder that is there", f"make {path.parent} first")


def draw(panels: Sequence[Picture], path: Path) -> None:
    """Write the panels, side by side, to one file: afterwards the old picture is there or the new one."""
    import matplotlib as mpl
    from matplotlib.backends.backend_agg import FigureCanvasAgg
    from matplotlib.figure import Figure

    check_plot(path)
    columns = min(len(panels), PANELS_IN_A_ROW)
    rows = math.ceil(len(panels) / columns)
    # A fixed salt and no date: the same numbers give the same file.
    with mpl.rc_context({"svg.hashsalt": "headwater", "font.size": 9, "axes.titlesize": 10}):
        width = 6.4 if any(_is_crowded(panel) for panel in panels) else 4.8
        figure: Any = Figure(figsize=(width * columns, 3.6 * rows), layout="constrained")
        FigureCanvasAgg(figure)
        for number, panel in enumerate(panels):
            _draw(figure.add_subplot(rows, columns, number + 1), panel)
        data = io.BytesIO()
        kind = path.suffix.removeprefix(".").lower()
        dated = {"svg": {"Date": None}, "pdf": {"CreationDate": None}}
        figure.savefig(data, format=kind, dpi=150, metadata=dated.get(kind))
    write_file(path, data.getvalue())


def _is_crowded(panel: Picture) -> bool:
    """Whether the names of its lines have no room below."""
    return isinstance(panel, Panel) and len(panel.lines) > MOST_BELOW


def _draw(axes: Any, panel: Picture) -> None:
    if isinstance(panel, Cloud):
        _draw_cloud(axes, panel)
    elif isinstance(panel, Grid):
        _draw_grid(axes, panel)
    else:
        _draw_panel(axes, panel)


def _draw_cloud(axes: Any, cloud: Cloud) -> None:
    from matplotlib.patches import Circle
    from matplotlib.ticker import MaxNLocator

    axes.axhline(0, color="#dddddd", linewidth=0.8, zorder=0)
    axes.axvline(0, color="#dddddd", linewidth=0.8, zorder=0)
    for disc, dash in zip(cloud.discs, CIRCLES, strict=False):
        look = {"facecolor": "#00000010", "edgecolor": "#777777", "linestyle": dash, "label": disc.label}
        axes.add_patch(Circle((0, 0), disc.radius, zorder=1, **look))
    for sign, colour, marker in ((True, COLOURS[0], "o"), (False, COLOURS[1], "v")):
        some = [point for point in cloud.points if (point.real >= 0) == sign]
        label = "real part ≥ 0" if sign else "real part < 0"
        axes.scatter([p.real for p in some], [p.imag for p in some], s=14, color=colour, marker=marker, zorder=2, label=label)
    reach = 1.1 * max([*(disc.radius for disc in cloud.discs), *map(abs, cloud.points)]) or 1.0
    axes.set(title=cloud.title, xlabel="real", ylabel="imaginary", aspect="equal", xlim=(-reach, reach), ylim=(-reach, reach))
    for axis in (axes.xaxis, axes.yaxis):
        axis.set_major_locator(MaxNLocator(MOST_TICKS - 1, symmetric=True))
    axes.spines[["top", "right"]].set_visible(False)
    _name_below(axes)


def _draw_grid(axes: Any, grid: Grid) -> None:
    from matplotlib.colors import TwoSlopeNorm

    norm = TwoSlopeNorm(grid.middle, grid.middle - grid.reach, grid.middle + grid.reach)
    image = axes.imshow(grid.values, cmap="PuOr_r", norm=norm, aspect="auto")
    axes.figure.colorbar(image, ax=axes, shrink=0.85)
    axes.set(title=grid.title, xlabel=grid.x, ylabel=grid.y)
    for set_ticks, names in ((axes.set_xticks, grid.columns), (axes.set_yticks, grid.rows)):
        step = max(1, math.ceil(len(names) / MOST_NAMES))
        set_ticks(range(0, len(names), step), names[::step], fontsize=7)
    axes.tick_params(axis="x", rotation=90 if len(grid.columns) > MOST_BELOW else 0)
    if len(grid.rows) * len(grid.columns) <= MOST_NUMBERS:
        for row, values in enumerate(grid.values):
            for column, value in enumerate(values):
                colour = "white" if abs(value - grid.middle) > 0.6 * grid.reach else "black"
                shown = f"{value:.2f}" if math.isfinite(value) else ""
                axes.text(column, row, shown, ha="center", va="center", fontsize=7, color=colour)


def _draw_panel(axes: Any, panel: Panel) -> None:
    from matplotlib.ticker import MaxNLocator

    axes.set_xscale(panel.x_scale)
    axes.set_yscale(panel.y_scale)
    measured = 0
    for line in panel.lines:
        x, y = _shown(line, panel)
        if line.kind == "bound":
            axes.plot(x, y, color="#777777", linestyle="--", linewidth=1.2, label=line.label)
            continue
        axes.plot(x, y, **_look(measured), markevery=max(1, len(x) // 24), label=line.label)
        measured += 1
    axes.set(title=panel.title, xlabel=panel.x, ylabel=panel.y)
    axes.grid(visible=True, color="#dddddd", linewidth=0.6)
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
