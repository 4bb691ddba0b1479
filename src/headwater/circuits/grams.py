"""``‖A B‖²`` for every pair of a writer ``A`` and a reader ``B``, without any product ``A B``.

``‖A B‖² = <Aᵀ A, B Bᵀ>``: a scalar product of two symmetric d_model × d_model matrices, one for each component. All pairs are one matrix
product (writers × d_model²)·(d_model² × readers), at ``d_model²`` operations a pair where ``A B`` itself takes ``2 d_head² d_model``.
It is added up over tiles of the Gram matrices, on and above the diagonal only, so that no Gram matrix ever exists whole.
(The norm is not cyclic: ``‖A B‖`` is not ``‖B A‖``, and no factor may change its place.)
"""

from bisect import bisect_right
from collections.abc import Iterator, Sequence

import torch
from jaxtyping import Float
from torch import Tensor

from headwater.circuits.ports import Ports

TILE = 128
"""Edge of a tile: products of smaller ones run slower, larger ones only take more memory (writers · tile² numbers)."""
BLOCK = 160
"""Writers that are not halved any more."""
STRIP = 48
"""Writers that are multiplied together then, with all readers after the first of them: products of fewer lines run slower than what they save."""


def squares(
    writers: Ports, readers: Sequence[Ports], *, tile: int = TILE, block: int = BLOCK
) -> list[Float[Tensor, "writer reader"]]:
    """``‖A B‖²`` for each kind of readers: float64, zero where the writer does not come before the reader.

    Tiles are multiplied in the weights' format and added up in float64.
    """
    sums = [writers.left.new_zeros(len(writers.names), len(kind.names), dtype=torch.float64) for kind in readers]
    rectangles = [_rectangles(writers.stages, kind.stages, block) for kind in readers]
    room = [_room(writers, tile), _room(max(readers, key=lambda kind: len(kind.names)), tile)]
    for rows, columns, weight in _tiles(writers.left.shape[-1], tile):
        left = _gram_tile(writers, rows, columns, room[0])
        for kind, total, parts in zip(readers, sums, rectangles, strict=True):
            right = _gram_tile(kind, rows, columns, room[1])
            for some, after in parts:
                total[some, after].add_(left[some] @ right[after].T, alpha=weight)
    for kind, total in zip(readers, sums, strict=True):
        total.masked_fill_(~comes_before(writers, kind).to(total.device), 0).clamp_(min=0)
    return sums


def comes_before(writers: Ports, readers: Ports) -> Tensor:
    """Whether each writer has written when each reader reads."""
    return torch.tensor(writers.stages)[:, None] < torch.tensor(readers.stages)


def _tiles(d_model: int, tile: int) -> Iterator[tuple[slice, slice, int]]:
    """Tiles that cover a symmetric matrix: those on the diagonal once, those above it twice."""
    edges = [slice(start, min(start + tile, d_model)) for start in range(0, d_model, tile)]
    for number, rows in enumerate(edges):
        for columns in edges[number:]:
            yield rows, columns, 1 if rows is columns else 2


def _rectangles(writes: tuple[int, ...], reads: tuple[int, ...], block: int) -> list[tuple[slice, slice]]:
    """Writers and readers, by their rising stages, in rectangles that cover every pair in order, and few others."""
    found = _staircase(writes, reads, range(len(writes)), len(reads), block)
    return [(some, after) for some, after in found if after.start < after.stop]


def _staircase(
    writes: tuple[int, ...], reads: tuple[int, ...], writers: range, end: int, block: int
) -> Iterator[tuple[slice, slice]]:
    """All that lies above the steps, up to one reader: a rectangle, as large as can be, and two smaller staircases beside it."""
    if len(writers) <= block:
        for first in writers[::STRIP]:
            yield slice(first, min(first + STRIP, writers.stop)), slice(bisect_right(reads, writes[first]), end)
        return
    upper, lower = writers[: len(writers) // 2], writers[len(writers) // 2 :]
    after = bisect_right(reads, writes[lower.start])
    yield slice(upper.start, upper.stop), slice(after, end)
    yield from _staircase(writes, reads, upper, after, block)
    yield from _staircase(writes, reads, lower, end, block)


def _room(ports: Ports, tile: int) -> Float[Tensor, " numbers"]:
    """Memory for one tile of every component, used again for the next tile."""
    return ports.left.new_empty(len(ports.names) * min(tile, ports.left.shape[-1]) ** 2)


def _gram_tile(ports: Ports, rows: slice, columns: slice, room: Float[Tensor, " numbers"]) -> Float[Tensor, "component tile"]:
    """One tile of every component's ``leftᵀ right``, a component's entries in one row."""
    left, right = ports.left[:, :, rows].mT, ports.right[:, :, columns]
    shape = (len(ports.names), left.shape[1], right.shape[2])
    out = room[: shape[0] * shape[1] * shape[2]].view(shape)
    return torch.bmm(left, right, out=out).flatten(start_dim=1)
