"""One pass over all entries of ``left @ rightᵀ``, and exact answers from it.

Which kernel goes over them is decided here: the fused ones where the processor has what they need and the matrix is large enough for
them to pay, plain torch otherwise. The answers are the same; log-sum-exps are so to the precision of the factors' format.
"""

from dataclasses import dataclass, replace

from jaxtyping import Float, Int
from torch import Tensor

from headwater.circuits.streamed import fused, sums, tiles
from headwater.circuits.streamed.exact import comfortable, settle, settle_ranks
from headwater.circuits.streamed.lines import Lines
from headwater.circuits.streamed.scan import Kernel, Progress, Scan, Wants, silent
from headwater.errors import InputError


@dataclass(frozen=True, kw_only=True, eq=False)
class Survey:
    """The answers of one pass; None where it was not asked."""

    top_rows: Lines | None = None
    bottom_rows: Lines | None = None
    top_columns: Lines | None = None
    bottom_columns: Lines | None = None
    own_ranks: Int[Tensor, " row"] | None = None
    logsumexp: Float[Tensor, " row"] | None = None
    """To the precision of the factors' format; everything else is exact."""

    def scaled(self, power: int) -> "Survey":
        """All entries times a power of two."""
        lines = {name: getattr(self, name) for name in ("top_rows", "bottom_rows", "top_columns", "bottom_columns")}
        return replace(self, **{name: each and each.scaled(power) for name, each in lines.items()})


def survey(
    left: Float[Tensor, "row inner"],
    right: Float[Tensor, "column inner"],
    wants: Wants,
    progress: Progress = silent,
    *,
    kernel: Kernel | None = None,
) -> Survey:
    """Everything that is asked, from one pass over all entries."""
    _check(left, right, wants)
    given, (left, right, power) = (left, right), comfortable(left, right)
    if power:
        # Sums of exponentials know sizes, everything else only what is larger than what.
        entries = survey(left, right, replace(wants, logsumexp=None), progress, kernel=kernel).scaled(power)
        summed = tiles.scan(given[0].double(), given[1].double(), Wants(logsumexp=wants.logsumexp))
        return replace(entries, logsumexp=summed.logsumexp)
    found = (kernel or choose(left, right, wants))(left, right, wants, progress)
    top_rows = found.top_rows and settle(left, right, found.top_rows, wants.top_rows)
    bottom_rows = found.bottom_rows and settle(-left, right, found.bottom_rows, wants.bottom_rows).negated()
    top_columns = found.top_columns and settle(right, left, found.top_columns, wants.top_columns)
    bottom_columns = found.bottom_columns and settle(right, -left, found.bottom_columns, wants.bottom_columns).negated()
    ranks = None
    if found.above is not None and found.near is not None:
        ranks = settle_ranks(left, right, found.above, found.near)
    return Survey(
        top_rows=top_rows,
        bottom_rows=bottom_rows,
        top_columns=top_columns,
        bottom_columns=bottom_columns,
        own_ranks=ranks,
        logsumexp=found.logsumexp,
    )


def choose(left: Tensor, right: Tensor, wants: Wants) -> Kernel:
    """The fastest kernel for this matrix on this machine."""
    if sums.pays(left, right, wants):
        return sums.scan
    rest = replace(wants, logsumexp=None)
    if left.device.type != "cpu" or wants.only_sums or not fused.pays(len(left), len(right), left.shape[1], rest):
        return tiles.scan
    return fused.scan if wants.logsumexp is None else apart


def apart(left: Tensor, right: Tensor, wants: Wants, progress: Progress = silent) -> Scan:
    """The fused kernel for all it can do, and log-sum-exps in a pass of their own: together faster than torch alone."""
    found = fused.scan(left, right, replace(wants, logsumexp=None), lambda share: progress(share / 2))
    only = Wants(logsumexp=wants.logsumexp)
    summed = choose(left, right, only)(left, right, only, lambda share: progress(0.5 + share / 2))
    return replace(found, logsumexp=summed.logsumexp)


def _check(left: Tensor, right: Tensor, wants: Wants) -> None:
    if not (len(left) and len(right)):
        raise InputError(f"a matrix of {len(left)} × {len(right)} entries", "some rows and columns", "check the circuit")
    if wants.own_ranks and len(left) != len(right):
        raise InputError(
            f"own ranks in {len(left):,} × {len(right):,} entries", "as many rows as columns", "ask a square circuit"
        )
    if not (bool(left.isfinite().all()) and bool(right.isfinite().all())):
        raise InputError("factors with infinite numbers or none (NaN)", "finite numbers", "look at the model's weights")
    for name in ("top_rows", "bottom_rows", "top_columns", "bottom_columns"):
        if getattr(wants, name) < 0:
            raise InputError(f"{name} = {getattr(wants, name)}", "a number from 1 on", "ask for at least one entry")
