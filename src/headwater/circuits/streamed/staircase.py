"""The largest of all entries, without looking at most of them.

No entry is above ``‖row‖ ‖column‖``. With rows and columns in the order of their norms, the entries that can still be among the best
lie under a staircase that shrinks as better ones are found. Turning the factors so that both sides carry the root of each singular value
(which changes no product) makes these bounds tight where a few directions dominate, as they do in trained models.
"""

import math
from typing import Any

import torch
from jaxtyping import Float, Int
from torch import Tensor

from headwater.circuits.algebra import lengths, product_error
from headwater.circuits.streamed.balance import balanced
from headwater.circuits.streamed.exact import SWAPPED, TILE, comfortable, dots, error
from headwater.circuits.streamed.lines import Entries
from headwater.circuits.streamed.scan import Progress, silent
from headwater.errors import InputError

ROWS = 256
"""Rows looked at together."""
FLOOD = 2**21
"""Candidates beyond which equal rows and equal columns are taken together."""


def top(left: Float[Tensor, "row inner"], right: Float[Tensor, "column inner"], k: int, progress: Progress = silent) -> Entries:
    """The ``k`` largest entries of ``left @ rightᵀ``; equal ones by row, then by column."""
    if type(k) is not int or k < 1:
        raise InputError(f"the top {k!r:.40} entries", "a whole number from 1 on", "ask for at least one entry")
    if not (bool(left.isfinite().all()) and bool(right.isfinite().all())):
        raise InputError("factors with infinite numbers or none (NaN)", "finite numbers", "look at the model's weights")
    k = min(k, len(left) * len(right))
    if not k:
        return _nothing(left)
    left, right, power = comfortable(left, right)
    stairs = _Stairs(left, right, k)
    if stairs.climb(progress):
        return _first(left, right, *stairs.candidates(), k).scaled(power)
    rows, columns = _Groups.of(left), _Groups.of(right)
    if rows.count * columns.count < len(left) * len(right):
        return _expanded(left, right, rows, columns, k).scaled(power)
    return _row_by_row(left, right, k, progress).scaled(power)


def _nothing(left: Tensor) -> Entries:
    none = torch.zeros(0, dtype=torch.long, device=left.device)
    return Entries(none, none, none.double())


def _first(left: Tensor, right: Tensor, rows: Tensor, columns: Tensor, k: int) -> Entries:
    """The best ``k`` of these entries."""
    values = dots(left, right, rows, columns)
    order = columns.argsort(stable=True)
    order = order[rows[order].argsort(stable=True)]
    order = order[values[order].argsort(descending=True, stable=True)][:k]
    return Entries(rows[order], columns[order], values[order])


class _Stairs:
    """The candidates found so far, and the height below which nothing matters any more."""

    def __init__(self, left: Tensor, right: Tensor, k: int) -> None:
        self.k, turned = k, balanced(left, right)
        self.left, self.left_norms, self.left_ids, longest = _by_norm(turned.left)
        self.right, self.right_norms, self.right_ids, widest = _by_norm(turned.right)
        self.error = turned.error / (longest * widest) + 2 * product_error(left.shape[1], torch.float32)
        self.found: list[tuple[Tensor, Tensor, Tensor]] = []
        self.floor = -math.inf

    def climb(self, progress: Progress) -> bool:
        """Look at every tile that may hold one of the best; false where more than ``FLOOD`` entries cannot be told apart."""
        corner = self.left[: 2 * ROWS] @ self.right[: 2 * ROWS].T
        if corner.numel() >= self.k:
            self.floor = float(corner.flatten().topk(self.k).values[-1])
        for start in range(0, len(self.left), ROWS):
            reach = self.left_norms[start] * self.right_norms
            width = int((reach >= self.floor - 3 * self.error).sum())
            if not width:
                break
            self._look(start, width)
            if sum(len(scores) for _, _, scores in self.found) > 4 * max(self.k, ROWS):
                self._prune()
            if self.found and len(self.found[0][2]) > FLOOD:
                return False
            progress(min(1.0, (start + ROWS) / len(self.left)))
        self._prune()
        progress(1.0)
        return True

    def _look(self, start: int, width: int) -> None:
        tile = self.left[start : start + ROWS] @ self.right[:width].T
        cut = self.floor - 2 * self.error
        lines = (tile.amax(dim=1) >= cut).nonzero()[:, 0]
        if len(lines):
            rows, columns = (tile[lines] >= cut).nonzero().unbind(dim=1)
            self.found.append((start + lines[rows], columns, tile[lines[rows], columns]))

    def _prune(self) -> None:
        """Raise the floor to the last of the best so far, and forget what is clearly below it."""
        rows, columns, scores = (torch.cat(part) for part in zip(*self.found, strict=True))
        if len(scores) >= self.k:
            self.floor = max(self.floor, float(scores.topk(self.k).values[-1]))
        kept = scores >= self.floor - 2 * self.error
        self.found = [(rows[kept], columns[kept], scores[kept])]

    def candidates(self) -> tuple[Int[Tensor, " entry"], Int[Tensor, " entry"]]:
        """Rows and columns of all entries that may be among the best."""
        rows, columns, _ = self.found[0]
        return self.left_ids[rows], self.right_ids[columns]


def _by_norm(lines: Tensor) -> tuple[Tensor, Tensor, Tensor, float]:
    """The longest lines first, in float32 and with the longest as one; their norms, rounded up; their ids; and the longest norm."""
    norms, ids = lengths(lines).sort(descending=True, stable=True)
    longest = float(norms[0]) or 1.0
    return (lines[ids] / longest).float(), (norms / longest * (1 + 2.0**-20)).float(), ids, longest


class _Groups:
    """Equal lines taken together, in the order of their first ids."""

    def __init__(self, first: Tensor, members: list[Tensor]) -> None:
        self.first, self.members, self.count = first, members, len(members)

    @staticmethod
    def of(lines: Tensor) -> "_Groups":
        """The groups of equal lines."""
        unique: Any = getattr(torch, "unique")  # noqa: B009  (its own types are unknown)
        group: Tensor = unique(lines, dim=0, return_inverse=True)[1]
        # Stable: the members of a group stand in the order of their ids.
        parts = torch.tensor_split(group.argsort(stable=True), group.bincount().cumsum(0)[:-1].cpu())
        members = sorted(parts, key=lambda ids: int(ids[0]))
        return _Groups(torch.stack([ids[0] for ids in members]), members)


def _expanded(left: Tensor, right: Tensor, rows: _Groups, columns: _Groups, k: int) -> Entries:
    """The best entries between groups, written out for their members.

    The first entry of a group of entries comes before all its others, so the best ``k`` entries lie in the best ``k`` groups.
    """
    best = top(left[rows.first], right[columns.first], k)
    some: list[Tensor] = []
    for row, column, _ in best:
        across = columns.members[column][:k]
        down = rows.members[row][: math.ceil(k / len(across))]
        some.append(torch.cartesian_prod(down, across))
    found = torch.cat(some)
    return _first(left, right, found[:, 0], found[:, 1], k)


def _row_by_row(left: Tensor, right: Tensor, k: int, progress: Progress) -> Entries:
    """The best of all entries in float64, some rows at a time: slow, and never more in memory than these rows."""
    wide = right.double()
    best = _nothing(left)
    step = max(1, TILE // len(right))
    for start in range(0, len(left), step):
        block = left[start : start + step].double()
        scores, slack = block @ wide.T, SWAPPED * error(block, wide)[:, None]
        floor = best.values[-1] if len(best) == k else scores.flatten().topk(min(k, scores.numel())).values[-1] - slack.max()
        rows, columns = (scores >= floor - slack).nonzero().unbind(dim=1)
        best = _first(left, right, torch.cat([best.rows, start + rows]), torch.cat([best.columns, columns]), k)
        progress(min(1.0, (start + step) / len(left)))
    return best
