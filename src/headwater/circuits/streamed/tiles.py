"""The kernel in plain torch: any device, any processor, and the reference for every other kernel.

Rows go by in tiles that share one piece of memory. In each row the largest of every 64 neighbours is found first; only the
few groups that can hold one of the best are looked into. Columns keep their best so far, and a tile touches those alone in which
it beats the last of them.
"""

import math

import torch
from jaxtyping import Float
from torch import Tensor

from headwater.circuits.algebra import lengths, product_error
from headwater.circuits.streamed.scan import Kept, Progress, Scan, Wants, silent

GROUP = 64
CACHE = 2**24
"""Entries of a tile on a processor: 64 MB of float32, so that products of thin factors run near their best."""
ON_DEVICE = 2**27
"""Entries of a tile on any other device."""
SLACK = 6
"""Candidates kept beyond those that are asked for: they set the ceiling."""
NEAR = 64
"""Entries of a row kept that cannot be told from the diagonal's."""


def scan(
    left: Float[Tensor, "row inner"],
    right: Float[Tensor, "column inner"],
    wants: Wants,
    progress: Progress = silent,
    *,
    entries: int | None = None,
) -> Scan:
    """Look at every entry of ``left @ rightᵀ``, ``entries`` at a time."""
    entries = entries or (CACHE if left.device.type == "cpu" else ON_DEVICE)
    step = max(1, entries // max(1, len(right)))
    found = _Found(wants, left, right)
    own = (left.double() * right.double()).sum(dim=1) if wants.own_ranks else None
    # One piece of memory for all tiles, whose rows end in a whole group: asking for new memory costs as much as a product.
    room = left.new_empty(min(step, len(left)), math.ceil(len(right) / GROUP) * GROUP)
    for start in range(0, len(left), step):
        some = slice(start, min(start + step, len(left)))
        tile = room[: some.stop - start, : len(right)]
        torch.mm(left[some], right.T, out=tile)
        found.take(tile, some, None if own is None else own[some])
        progress(some.stop / len(left))
    return found.scan()


def _error(left: Tensor, right: Tensor) -> Float[Tensor, " row"]:
    """How far an entry of each row may be from the true one: rounding, and what is lost below the smallest number."""
    about = torch.finfo(left.dtype)
    longest = float(lengths(right).max()) if len(right) else 0.0
    return lengths(left) * (longest * product_error(left.shape[1], left.dtype)) + (left.shape[1] + 4) * about.tiny


class _Found:
    """What has been found in the tiles so far."""

    def __init__(self, wants: Wants, left: Tensor, right: Tensor) -> None:
        self.wants, self.error = wants, _error(left, right)
        self.rows: dict[int, list[Kept]] = {1: [], -1: []}
        counts = {1: wants.top_columns, -1: wants.bottom_columns}
        error_of_columns = _error(right, left) if any(counts.values()) else self.error
        self.columns = {sign: _Columns(count + SLACK, right, error_of_columns) for sign, count in counts.items() if count}
        self.ranks: list[tuple[Tensor, Kept]] = []
        self.sums: list[Tensor] = []

    def take(self, tile: Tensor, some: slice, own: Tensor | None) -> None:
        """Look at the next rows."""
        error, wants = self.error[some], self.wants
        for sign, count in ((1, wants.top_rows), (-1, wants.bottom_rows)):
            if count:
                self.rows[sign].append(_furthest(tile, count + SLACK, error, sign))
        for sign, columns in self.columns.items():
            columns.take(tile, some.start, sign)
        if own is not None:
            self.ranks.append(_compare(tile, own, error, some.start))
        if wants.logsumexp is not None:
            self.sums.append(_sums(tile, wants.logsumexp))

    def scan(self) -> Scan:
        """All of it, joined."""
        columns = {sign: columns.kept() for sign, columns in self.columns.items()}
        return Scan(
            top_rows=_joined(self.rows[1]),
            bottom_rows=_joined(self.rows[-1]),
            top_columns=columns.get(1),
            bottom_columns=columns.get(-1),
            above=torch.cat([above for above, _ in self.ranks]) if self.ranks else None,
            near=_joined([near for _, near in self.ranks]),
            logsumexp=torch.cat(self.sums) if self.sums else None,
        )


def _joined(parts: list[Kept]) -> Kept | None:
    return Kept(torch.cat([part.ids for part in parts]), torch.cat([part.ceiling for part in parts])) if parts else None


def _furthest(tile: Tensor, count: int, error: Tensor, sign: int) -> Kept:
    """Candidates of each row, the largest or (sign −1) the smallest: those of the groups that reach furthest."""
    width, up = tile.shape[1], sign > 0
    groups = math.ceil(width / GROUP)
    if groups <= 2 * count:
        values, ids = tile.topk(min(count, width), dim=1, largest=up)
    else:
        grouped = _whole_groups(tile, -sign * math.inf).view(-1, groups, GROUP)
        reach = grouped.amax(dim=2) if up else grouped.amin(dim=2)
        chosen = reach.topk(count, dim=1, largest=up).indices
        inside = grouped.gather(1, chosen[:, :, None].expand(-1, -1, GROUP)).flatten(1)
        values, places = inside.topk(count, dim=1, largest=up)
        ids = chosen.gather(1, places // GROUP) * GROUP + places % GROUP
    left_out = values.shape[1] < width
    ceiling = sign * values[:, -1].double() + error if left_out else torch.full_like(error, -math.inf)
    return Kept(ids, ceiling)


def _whole_groups(tile: Tensor, fill: float) -> Tensor:
    """The tile with its last group filled up, in the room that the tile lies in."""
    whole = tile.as_strided((len(tile), tile.stride(0)), tile.stride())
    whole[:, tile.shape[1] :] = fill
    return whole


class _Columns:
    """The best rows of each column so far."""

    def __init__(self, count: int, right: Tensor, error: Tensor) -> None:
        self.values = right.new_full((len(right), count), -math.inf)
        self.ids = torch.full((len(right), count), -1, device=right.device)
        self.error, self.seen = error, 0

    def take(self, tile: Tensor, start: int, sign: int) -> None:
        """Only columns in which this tile beats the last that is kept; with sign −1 negated entries are compared."""
        self.seen += len(tile)
        reach = tile.amax(dim=0) if sign > 0 else -tile.amin(dim=0)
        better = (reach > self.values[:, -1]).nonzero()[:, 0]
        if not len(better):
            return
        new = torch.arange(start, start + len(tile), device=tile.device).expand(len(better), -1)
        values = torch.cat([self.values[better], sign * tile[:, better].T], dim=1)
        best, places = values.topk(self.values.shape[1], dim=1)
        self.values[better], self.ids[better] = best, torch.cat([self.ids[better], new], dim=1).gather(1, places)

    def kept(self) -> Kept:
        """Candidates of each column."""
        everything = self.seen <= self.values.shape[1]
        ceiling = torch.full_like(self.error, -math.inf) if everything else self.values[:, -1].double() + self.error
        return Kept(self.ids, ceiling)


def _sums(tile: Tensor, log_weights: Tensor) -> Float[Tensor, " row"]:
    """``log Σ exp(entry + log weight)`` of each row. The tile is used up: nobody may look at it afterwards."""
    tile[:, log_weights == -math.inf] = -math.inf
    highest = tile.amax(dim=1)
    # A row whose every weight is zero has no highest entry; 0 stands in for −∞ − (−∞).
    shift = highest.masked_fill(highest == -math.inf, 0.0)
    return (tile.sub_(shift[:, None]).exp_() @ log_weights.exp()).double().log() + shift


def _compare(tile: Tensor, own: Tensor, error: Tensor, start: int) -> tuple[Tensor, Kept]:
    """Entries surely above the diagonal's, and those that cannot be told from it."""
    high, low = (_outward(own + sign * 2 * error, sign, tile.dtype)[:, None] for sign in (1, -1))
    above, near = tile > high, (tile <= high) & (tile >= low)
    lines = torch.arange(len(tile), device=tile.device)
    near[lines, start + lines] = False
    counts = near.sum(dim=1)
    rows, columns = near.nonzero().unbind(dim=1)
    nth = torch.arange(len(rows), device=tile.device) - (counts.cumsum(0) - counts)[rows]
    ids = torch.full((len(tile), NEAR), -1, device=tile.device)
    ids[rows[nth < NEAR], nth[nth < NEAR]] = columns[nth < NEAR]
    return above.sum(dim=1), Kept(ids, torch.where(counts > NEAR, math.inf, -math.inf).double())


def _outward(bound: Tensor, sign: int, dtype: torch.dtype) -> Tensor:
    """A bound in the tile's format, rounded away from the middle."""
    cast = bound.to(dtype)
    return torch.nextafter(cast, torch.full_like(cast, sign * math.inf))
