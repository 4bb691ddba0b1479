"""From a kernel's candidates to exact answers: what is listed is what float64 says, whatever kernel, tiles and threads found it.

The value of an entry is ``Σ_j left[row, j] · right[column, j]`` in float64, added in the order of ``j``, each product rounded by itself.
So it has the same bits wherever it is calculated, and equal columns have equal values; those stand in the order of their ids. A
line whose candidates cannot be told from what was left out is looked at again, whole.
"""

import math

import torch
from jaxtyping import Float, Int
from torch import Tensor

from headwater.circuits.algebra import lengths, scaled
from headwater.circuits.streamed.lines import Lines
from headwater.circuits.streamed.machine import available, sweep
from headwater.circuits.streamed.scan import Kept

ROUNDING = 2.0**-53
"""Half the distance between neighbouring float64 numbers of size one."""
AT_ONCE = 2**20
"""Numbers of a candidate's products held at once."""
MANY = 2**14
"""Entries for which compiled code is worth loading."""
TILE = 2**22
"""Entries of whole lines held at once."""
SWAPPED = 4
"""Errors by which two entries may lie apart in a product and still stand the other way round: each is one away from the truth there, and
one here."""
COMFORT = 100
"""Powers of two within which no square, sum or bound of float64 numbers leaves their range."""


def dots(
    left: Float[Tensor, "row inner"],
    right: Float[Tensor, "column inner"],
    rows: Int[Tensor, " entry"],
    columns: Int[Tensor, " entry"],
) -> Float[Tensor, " entry"]:
    """The values of single entries: the definition."""
    if len(rows) >= MANY and left.device.type == "cpu" and available():
        return _compiled(left, right, rows, columns)
    values = torch.zeros(len(rows), dtype=torch.float64, device=left.device)
    inner = left.shape[1]
    step = max(1, AT_ONCE // max(1, inner))
    for start in range(0, len(rows) if inner else 0, step):
        some = slice(start, start + step)
        products = left[rows[some]].double() * right[columns[some]].double()
        # A running sum adds one after the other; a sum may add in any order.
        values[some] = products.cumsum(dim=1)[:, -1]
    return values


def _compiled(left: Tensor, right: Tensor, rows: Tensor, columns: Tensor) -> Tensor:
    """The same in compiled code: the same operations in the same order."""
    values = torch.empty(len(rows), dtype=torch.float64)
    sweep().entries(*(each.detach().contiguous().numpy() for each in (left, right, rows, columns)), values.numpy())
    return values


def error(left: Float[Tensor, "row inner"], right: Float[Tensor, "column inner"]) -> Float[Tensor, " row"]:
    """How far a float64 product of a row may be from the true one, in whatever order it is added: ``γ ‖left‖ max ‖right‖``."""
    longest = float(lengths(right).max()) if len(right) else 0.0
    return lengths(left) * (longest * (left.shape[1] + 4) * ROUNDING) + (left.shape[1] + 4) * torch.finfo(torch.float64).tiny


def comfortable(left: Float[Tensor, "row inner"], right: Float[Tensor, "column inner"]) -> tuple[Tensor, Tensor, int]:
    """Factors whose products have room in their format, and the power of two by which entries have become smaller.

    Float32 factors whose products have none are widened to float64; there, powers of two are taken out, which changes no digit.
    """
    sizes = [math.frexp(float(factor.abs().max()))[1] if factor.numel() else 0 for factor in (left, right)]
    if left.dtype == torch.float32 and -COMFORT < sum(sizes) < COMFORT:
        return left, right, 0
    left, right = left.double(), right.double()
    if all(-COMFORT < size < COMFORT for size in sizes):
        return left, right, 0
    return scaled(left, -sizes[0]), scaled(right, -sizes[1]), sum(sizes)


def settle(left: Float[Tensor, "row inner"], right: Float[Tensor, "column inner"], kept: Kept, k: int) -> Lines:
    """The ``k`` largest entries of every row, from a kernel's candidates."""
    k = min(k, len(right))
    ids, values, margin = _best(left, right, kept, k)
    unsure = (margin <= 0).nonzero()[:, 0]
    if len(unsure):
        ids[unsure], values[unsure] = whole(left[unsure], right, k)
        margin[unsure] = math.inf
    return Lines(ids, values, float(margin.min()) if len(margin) else math.inf)


def _best(left: Tensor, right: Tensor, kept: Kept, k: int) -> tuple[Tensor, Tensor, Tensor]:
    """The best of the candidates, and how far above everything else the last of them is."""
    candidates, order = kept.ids.sort(dim=1)
    if kept.values is None:
        there = candidates >= 0
        lines = torch.arange(len(left), device=left.device)[:, None].expand_as(candidates)
        values = torch.full(candidates.shape, -math.inf, dtype=torch.float64, device=left.device)
        values[there] = dots(left, right, lines[there], candidates[there])
    else:
        values = kept.values.gather(1, order)
    order = values.argsort(dim=1, descending=True, stable=True)[:, :k]
    best = values.gather(1, order)
    if best.shape[1] < k:
        # Fewer candidates than were asked for: every line is looked at again.
        missing = k - best.shape[1]
        best, order = (torch.nn.functional.pad(x, (0, missing), value=fill) for x, fill in ((best, -math.inf), (order, 0)))
    margin = best[:, -1] - (kept.ceiling + error(left, right)) if k else torch.full((len(left),), math.inf)
    # −∞ − (−∞): too few candidates and nothing left out cannot both be.
    return candidates.gather(1, order), best, margin.nan_to_num(nan=-math.inf, posinf=math.inf)


def whole(left: Float[Tensor, "row inner"], right: Float[Tensor, "column inner"], k: int) -> tuple[Tensor, Tensor]:
    """The ids and values of the ``k`` largest entries of every row, from all of them."""
    ids = torch.arange(k, device=left.device).repeat(len(left), 1)
    values = torch.zeros(len(left), k, dtype=torch.float64, device=left.device)
    # Rows of zeros are told apart by ids alone; as candidates all their entries would be equal.
    some = (left != 0).any(dim=1).nonzero()[:, 0]
    wide, step = right.double(), max(1, TILE // max(1, len(right)))
    for lines in torch.split(some, step):
        block = left[lines].double()
        scores, slack = block @ wide.T, SWAPPED * error(block, wide)[:, None]
        cut = scores.topk(k, dim=1).values[:, -1:] - slack
        rows, columns = (scores >= cut).nonzero().unbind(dim=1)
        found = dots(block, wide, rows, columns)
        order = found.argsort(descending=True, stable=True)
        order = order[rows[order].argsort(stable=True)]
        first = torch.searchsorted(rows, torch.arange(len(lines), device=left.device))
        chosen = order[first[:, None] + torch.arange(k, device=left.device)]
        ids[lines], values[lines] = columns[chosen], found[chosen]
    return ids, values


def settle_ranks(
    left: Float[Tensor, "row inner"], right: Float[Tensor, "row inner"], above: Int[Tensor, " row"], near: Kept
) -> Int[Tensor, " row"]:
    """How many entries of each row stand before the diagonal's."""
    lines = torch.arange(len(left), device=left.device)
    there = (near.ids >= 0) & (near.ceiling != math.inf)[:, None]
    rows, columns = lines[:, None].expand_as(near.ids)[there], near.ids[there]
    ranks = above + _before(left, right, rows, columns)
    full = (near.ceiling == math.inf).nonzero()[:, 0]
    if len(full):
        ranks[full] = _whole_ranks(left, right, full)
    return ranks


def _before(left: Tensor, right: Tensor, rows: Tensor, columns: Tensor) -> Tensor:
    """Of these entries, how many of each row stand before the diagonal's."""
    lines = torch.arange(len(left), device=left.device)
    own, values = dots(left, right, lines, lines)[rows], dots(left, right, rows, columns)
    before = (values > own) | ((values == own) & (columns < rows))
    return torch.zeros_like(lines).index_add_(0, rows[before], torch.ones_like(rows[before]))


def _whole_ranks(left: Tensor, right: Tensor, lines: Tensor) -> Tensor:
    """The ranks of some rows' diagonals, from all entries."""
    ranks = lines.clone()
    some = (left[lines] != 0).any(dim=1).nonzero()[:, 0]
    wide = right.double()
    for places in torch.split(some, max(1, TILE // max(1, len(right)))):
        chosen = lines[places]
        block = left[chosen].double()
        scores, slack = block @ wide.T, SWAPPED * error(block, wide)[:, None]
        own = scores.gather(1, chosen[:, None])
        rows, columns = ((scores - own).abs() <= slack).nonzero().unbind(dim=1)
        ties = _before(left, right, chosen[rows], columns)
        ranks[places] = (scores > own + slack).sum(dim=1) + ties[chosen]
    return ranks
