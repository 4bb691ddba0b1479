"""What the diagrams share: tensors as small heat-maps, and what a drawn diagram must be."""

import re
from collections.abc import Sequence
from typing import Any, Literal

import torch
from torch import Tensor

from headwater.claims.evidence import Fact, drawn
from headwater.shapes import floats
from headwater.show.diagrams import Diagram, Label, Thumbnail, arrange, draw_diagram
from headwater.show.looks import Look

MOST_ROWS, MOST_COLUMNS = 8, 12
LONGEST = 9
"""Letters of a token beside a heat-map."""
SAMPLED = (
    " Of a long side, entries at even distances are shown.",
    " De um lado longo mostram-se entradas a distâncias iguais.",
)
"""What a caption says where matrices are too long to be shown in full."""


def caption(en: str, pt: str, values: tuple[float | str, ...] = ()) -> Label:
    """What is seen, and that matrices are sampled."""
    return Label(en + SAMPLED[0], pt + SAMPLED[1], values)


def spread(count: int, most: int) -> list[int]:
    """Up to ``most`` of so many numbers, at even distances from the first to the last.

    >>> spread(4096, 4), spread(3, 12)
    ([0, 1365, 2730, 4095], [0, 1, 2])
    """
    return list(range(count)) if count <= most else [round(n * (count - 1) / (most - 1)) for n in range(most)]


def thumbnail(
    tensor: Tensor,
    *,
    kind: Literal["signed", "amounts"] = "signed",
    rows: Sequence[str] = (),
    columns: Sequence[str] = (),
    size: str | None = None,
    reach: float | None = None,
) -> Thumbnail:
    """A matrix, or a vector as a row, as a heat-map: a fixed sample where it is long, under its true size."""
    matrix = tensor[None] if tensor.ndim == 1 else tensor
    across = torch.tensor(spread(matrix.shape[1], MOST_COLUMNS))
    some = matrix[torch.tensor(spread(matrix.shape[0], MOST_ROWS))][:, across]
    values = [floats(row) for row in some.double()]
    true = " × ".join(map(str, ((1,) if tensor.ndim == 1 else ()) + tuple(tensor.shape))) if size is None else size
    return Thumbnail(
        values=tuple(tuple(row) for row in values), size=true, kind=kind, reach=reach,
        rows=tuple(map(short, rows)), columns=tuple(map(short, columns)),
    )  # fmt: skip


def short(word: str) -> str:
    """A token that has room beside a heat-map; several spaces are one mark.

    >>> short("\\n        "), short("communication")
    ('\\n␣', 'communic…')
    """
    marked = re.sub(" {2,}", "␣", word)
    return marked if len(marked) <= LONGEST else f"{marked[: LONGEST - 1]}…"


def rendered(diagram: Diagram, *, nodes: int, edges: int) -> tuple[Fact, ...]:
    """That a diagram is drawn with so many boxes and arrows, and that in neither language anything stands on something else."""
    figure: Any = draw_diagram(diagram, Look())
    names = [str(artist.get_gid()) for artist in figure.findobj()]
    clashes = sum(len(arrange(diagram, look).collisions) for look in (Look("en"), Look("pt")))
    return (
        drawn("nodes", sum(name.startswith("node ") for name in names), equal=nodes),
        drawn("edges", sum(name.startswith("edge ") for name in names), equal=edges),
        drawn("clear", clashes, equal=0),
    )


def joined(diagram: Diagram, source: str, target: str) -> int:
    """How many arrows lead from one box to another."""
    return diagram.arrows.count((source, target))


def apart(one: Tensor, other: Tensor) -> Tensor:
    """The largest difference between two tensors."""
    return (one - other).abs().max()
