"""The tables, grids and curves of a view of the stream."""

import math
from typing import TYPE_CHECKING

import torch
from torch import Tensor

from headwater.show.values import Grid, Line, Panel, Table
from headwater.trace.view.normed import Normed

if TYPE_CHECKING:
    from headwater.trace.view.stream import StreamView

MOST_STAGES = 8
"""Stages that have room beside each other."""
MOST_WRITES = 16
"""Components that are told by name; the rest is one row."""


def tables(view: "StreamView", column: int) -> tuple[Table, ...]:
    """One position: its stages, shares and norms."""
    return (_stages(view, column), _shares(view, column), *_norms(view, column))


def _stages(view: "StreamView", column: int) -> Table:
    position = view.positions[column]
    rows: list[tuple[str, ...]] = []
    for row, stage in enumerate(view.stages):
        said = view.lenses[row]
        rows.append(
            (
                stage.names,
                stage.what,
                f"{float(view.norm[row, column]):.3g}",
                *(_cosine(cosines[row, column]) for cosines in (view.cosine_before, view.cosine_final)),
                f"{int(said.rank[column]):,}",
                chance(float(said.chance[column])),
                f"{float(said.entropy[column]):.2f}",
                "  ".join(f"{view.words(token)} {chance(p)}" for token, p in said.likeliest(column)),
            )
        )
    title = f"the stream at position {position}, {view.words(int(view.tokens[position]))}; rank and p are those of {_asked(view, column)}"
    columns = ("stage", "what it is", "norm#", "cosine\nto before#", "to\nfinal#", "rank#", "p#", "entropy#", "would say")
    return Table(title=title, columns=columns, rows=tuple(rows))


def _asked(view: "StreamView", column: int) -> str:
    """The token whose probability is told, and why that one."""
    is_within = view.positions[column] + 1 < len(view.tokens)
    why = "as asked" if view.was_asked else "the next token" if is_within else "the likeliest next token"
    return f"{view.words(int(view.chosen[column]))}, {why}"


def chance(p: float) -> str:
    """A probability in little room.

    >>> chance(0.2542), chance(0.00004)
    ('25.4%', '4e-05')
    """
    return f"{p:.1%}" if p >= 0.0005 or p == 0 else f"{p:.0e}"


def _cosine(value: Tensor) -> str:
    return "" if math.isnan(float(value)) else f"{float(value):+z.2f}"


def _some(count: int, most: int) -> list[int]:
    """At most so many numbers below ``count``, evenly spread, with the first and the last."""
    if count <= most:
        return list(range(count))
    return [round(number * (count - 1) / (most - 1)) for number in range(most)]


def _summed(view: "StreamView") -> list[int]:
    """Rows of the stream's stages, and of what the unembedding reads; that the token's embedding is all its own need not be said."""
    return [row for row, stage in enumerate(view.stages) if row and (stage.role == "stream" or stage.name == "final")]


def _shares(view: "StreamView", column: int) -> Table:
    """Components in rows, stages beside each other; the smallest together in one row, so that columns still add up."""
    there = _summed(view) or [0]
    shown = [there[number] for number in _some(len(there), MOST_STAGES)]
    cells = {name: [float(share[row, column]) for row in shown] for name, share in view.shares.items()}
    cells = {name: values for name, values in cells.items() if any(value != 0 for value in values)}
    large = sorted(cells, key=lambda name: -max(map(abs, cells[name])))[:MOST_WRITES]
    rest = [name for name in cells if name not in large]
    rows = [(name, *map(_share, cells[name])) for name in cells if name in large]
    if rest:
        rows.append((f"{len(rest)} others", *(_share(sum(cells[name][at] for name in rest)) for at in range(len(shown)))))
    rows.append(("all", *(_share(sum(values[at] for values in cells.values())) for at in range(len(shown)))))
    title = f"who wrote it: shares <write, x>/<x, x>; they add up to 1 within {view.certificate:.1e}"
    names = tuple(f"{view.stages[row].name}#" for row in shown)
    return Table(title=title, columns=("write", *names), rows=tuple(rows))


def _share(value: float) -> str:
    return "" if value == 0 or math.isnan(value) else f"{value:+z.3f}"


def _norms(view: "StreamView", column: int) -> tuple[Table, ...]:
    if not view.norms:
        return ()
    rows = tuple(_norm(norm, column) for norm in view.norms)
    title = "what norms changed: lengths; the mean and the share of the squared length that went with it; angles in degrees"
    columns = ("norm", "from → to", "length#", "becomes#", "scale#", "mean#", "lost#", "turned#", "by mean#", "gain#", "bias#")
    return (Table(title=title, columns=columns, rows=rows),)


def _norm(norm: Normed, column: int) -> tuple[str, ...]:
    angles = (norm.angle, norm.angle_mean, norm.angle_gain, norm.angle_bias)
    return (
        norm.name,
        f"{norm.reads} → {norm.makes}",
        *(f"{float(value[column]):.3g}" for value in (norm.length_before, norm.length_after, norm.scale)),
        f"{float(norm.mean[column]):+z.2g}",
        f"{float(norm.lost[column]):.1%}",
        *(f"{float(value[column]):.1f}°" for value in angles),
    )


def grids(view: "StreamView") -> tuple[Grid, ...]:
    """All positions beside each other, stages below each other."""
    cosines = [("cosine with the stage before", view.cosine_before), ("cosine with the final stream", view.cosine_final)]
    chances, entropies = (torch.stack([getattr(one, name) for one in view.lenses]) for name in ("chance", "entropy"))
    title = "probability of the token that was asked about, or of the next"
    return (
        _grid(view, "length of the vector", view.norm, float(view.norm.max()) or 1.0),
        *(_grid(view, name, values, 1.0) for name, values in cosines),
        _grid(view, title, chances, 1.0),
        _grid(view, "entropy of what it would say, in nats", entropies, float(entropies.max()) or 1.0),
    )


def _grid(view: "StreamView", title: str, values: Tensor, reach: float) -> Grid:
    return Grid(
        title=title,
        rows=tuple(stage.names for stage in view.stages),
        columns=tuple(f"{position} {view.words(int(view.tokens[position]))}" for position in view.positions),
        values=tuple(tuple(map(_number, row)) for row in values),
        x="position",
        y="stage",
        middle=0.0,
        reach=reach,
    )


def curves(view: "StreamView", column: int) -> tuple[Panel, ...]:
    """One position along the stages of the stream: what it would say, and who wrote it."""
    there = _summed(view) or [0]
    x = tuple(map(float, range(len(there))))
    chosen = view.words(int(view.chosen[column]))
    said = Line(label=f"p of {chosen}", x=x, y=tuple(float(view.lenses[row].chance[column]) for row in there))
    lines = [
        Line(label=name, x=x, y=tuple(_number(share[row, column]) for row in there)) for name, share in view.shares.items()
    ]
    largest = sorted(lines, key=lambda line: -max(map(abs, line.y)))[:MOST_STAGES]
    names = [f"{number} {view.stages[row].name}" for number, row in enumerate(there)]
    where = ", ".join(names if len(names) <= MOST_STAGES else [names[0], names[1], "…", names[-1]])
    return (
        Panel(title=f"what the stream would say at position {view.positions[column]}", x=where, y="probability", lines=(said,)),
        Panel(title="shares of the largest writes", x=where, y="share", lines=tuple(largest)),
    )


def _number(value: Tensor) -> float:
    return 0.0 if math.isnan(float(value)) else float(value)
