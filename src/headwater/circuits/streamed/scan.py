"""What a kernel is asked about ``left @ rightᵀ``, and what it hands back: candidates, and a ceiling over all that it left out.

A kernel goes over all entries once, fast and inexactly, and says how wrong it may be. ``headwater.circuits.streamed.exact`` makes an exact
answer of that. So there may be any number of kernels; no answer depends on which one ran.
"""

from collections.abc import Callable
from dataclasses import dataclass
from typing import Protocol, TypeAlias, runtime_checkable

from jaxtyping import Float, Int
from torch import Tensor

Progress: TypeAlias = Callable[[float], None]
"""Told the share of the work that is done."""


def silent(share: float) -> None:
    """Nobody is told."""


@dataclass(frozen=True, kw_only=True, eq=False)
class Wants:
    """What is asked of one pass: how many entries to keep of each line, and more; 0 or None is not asked."""

    top_rows: int = 0
    bottom_rows: int = 0
    top_columns: int = 0
    bottom_columns: int = 0
    own_ranks: bool = False
    """Where the diagonal's entry stands in its row."""
    logsumexp: Float[Tensor, " column"] | None = None
    """Logarithms of the columns' weights: ``log Σ_column exp(entry + weight)`` is asked for each row."""

    @property
    def only_sums(self) -> bool:
        """Whether no single entries are asked for."""
        return not (self.top_rows or self.bottom_rows or self.top_columns or self.bottom_columns or self.own_ranks)


@dataclass(frozen=True, eq=False)
class Kept:
    """Candidates of each line, a row or a column."""

    ids: Int[Tensor, "line kept"]
    """Of the other axis; −1 where there is none."""
    ceiling: Float[Tensor, " line"]
    """Float64. Every entry of the line that was left out is at most this, the kernel's own errors included; −∞ where nothing was.

    Where the smallest were asked for, this holds for the negated entries.
    """
    values: Float[Tensor, "line kept"] | None = None
    """The candidates' values where the kernel has calculated them as ``headwater.circuits.streamed.exact`` does; −∞ where there is none.

    Where the smallest were asked for, with the other sign.
    """


@dataclass(frozen=True, kw_only=True, eq=False)
class Scan:
    """What one pass found; None where it was not asked."""

    top_rows: Kept | None = None
    bottom_rows: Kept | None = None
    top_columns: Kept | None = None
    bottom_columns: Kept | None = None
    above: Int[Tensor, " row"] | None = None
    """How many entries of the row are surely above the diagonal's."""
    near: Kept | None = None
    """Those that may or may not be, the diagonal's own left out; ceiling +∞ where there are more than are kept, else −∞."""
    logsumexp: Float[Tensor, " row"] | None = None
    """Float64."""


@runtime_checkable
class Kernel(Protocol):
    """One way to go over all entries."""

    def __call__(
        self,
        left: Float[Tensor, "row inner"],
        right: Float[Tensor, "column inner"],
        wants: Wants,
        progress: Progress = silent,
    ) -> Scan:
        """Look at every entry of ``left @ rightᵀ``."""
        ...
