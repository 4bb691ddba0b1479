"""A large matrix as a product of two thin ones, never multiplied out unless somebody asks for it.

``W_E W_V W_O W_U`` has vocab² entries and rank d_head. All of linear algebra on it needs only the thin factors and a core of the
size of the inner dimension; the largest entries need one pass over tiles that are never kept (``headwater.circuits.streamed.survey``).
"""

from collections.abc import Sequence
from dataclasses import dataclass
from functools import cached_property
from typing import Any, TypeAlias, TypeVar

import torch
from jaxtyping import Complex, Float, Int
from torch import Tensor

from headwater.circuits import algebra
from headwater.circuits.streamed import staircase
from headwater.circuits.streamed.lines import Entries, Lines
from headwater.circuits.streamed.scan import Progress, Wants, silent
from headwater.circuits.streamed.survey import Survey, survey
from headwater.errors import InputError

Ids: TypeAlias = Int[Tensor, " chosen"] | Sequence[int]
Answer = TypeVar("Answer")


@dataclass(frozen=True, eq=False)
class SVD:
    """``U diag(S) Vᵀ``, the singular values falling."""

    U: Float[Tensor, "row rank"]
    S: Float[Tensor, " rank"]
    V: Float[Tensor, "column rank"]


@dataclass(frozen=True, eq=False)
class Factored:
    """``left @ right``. Rows and columns read *from → to*, as everywhere.

    >>> a = Factored(torch.tensor([[1.0], [2.0], [3.0]]), torch.tensor([[1.0, 0.0, -1.0]]))
    >>> a
    Factored(3 × 3, inner 1)
    >>> a.dense()
    tensor([[ 1.,  0., -1.],
            [ 2.,  0., -2.],
            [ 3.,  0., -3.]])
    >>> a.top(2)
    row   column   value
      2        0   3
      1        0   2
    """

    left: Float[Tensor, "row inner"]
    right: Float[Tensor, "inner column"]

    def __post_init__(self) -> None:
        ours, theirs = self.left, self.right
        if ours.ndim != 2 or theirs.ndim != 2 or ours.shape[1] != theirs.shape[0]:
            raise InputError(
                f"factors {list(ours.shape)} and {list(theirs.shape)}", "[row, inner] and [inner, column]", "check their order"
            )
        if ours.dtype != theirs.dtype or ours.dtype not in (torch.float32, torch.float64):
            raise InputError(
                f"factors of {str(ours.dtype)[6:]} and {str(theirs.dtype)[6:]}", "float32 or float64 for both", "cast them"
            )

    def __repr__(self) -> str:
        return f"{type(self).__name__}({self.shape[0]:,} × {self.shape[1]:,}, inner {self.inner:,})"

    @property
    def shape(self) -> tuple[int, int]:
        """Rows and columns of the product."""
        return self.left.shape[0], self.right.shape[1]

    @property
    def inner(self) -> int:
        """The dimension in between: no rank can be above it."""
        return self.left.shape[1]

    @property
    def dtype(self) -> torch.dtype:
        """The factors' number format. Sums over the vocabulary and small cores are always calculated in float64."""
        return self.left.dtype

    @property
    def device(self) -> torch.device:
        """Where the factors are."""
        return self.left.device

    def _with(self, left: Tensor, right: Tensor, how: str) -> "Factored":
        """Other factors for the same rows and columns; ``how`` they were changed, for those who have a name."""
        del how
        return Factored(left, right)

    @property
    def T(self) -> "Factored":  # noqa: N802
        """Rows and columns exchanged."""
        return Factored(self.right.T, self.left.T)

    def to(self, *, dtype: torch.dtype | None = None, device: torch.device | str | None = None) -> "Factored":
        """The same factors cast or moved."""
        return self._with(self.left.to(device=device, dtype=dtype), self.right.to(device=device, dtype=dtype), "")

    def __matmul__(self, other: Any) -> "Factored | Tensor":
        """The product with another matrix stays factored; the product with a vector is a vector."""
        if isinstance(other, Tensor):
            _fits(self.left, other, self.shape[1], other.shape[0] if other.ndim else 0)
            return self.left @ (self.right @ other) if other.ndim == 1 else Factored(self.left, self.right @ other)
        if not isinstance(other, Factored):
            return NotImplemented
        _fits(self.left, other.left, self.shape[1], other.shape[0])
        core = self.right @ other.left
        if self.inner <= other.inner:
            return Factored(self.left, core @ other.right)
        return Factored(self.left @ core, other.right)

    def __rmatmul__(self, other: Any) -> "Factored | Tensor":
        if not isinstance(other, Tensor):
            return NotImplemented
        _fits(self.left, other, other.shape[-1] if other.ndim else 0, self.shape[0])
        return (other @ self.left) @ self.right if other.ndim == 1 else Factored(other @ self.left, self.right)

    def __mul__(self, number: Any) -> "Factored":
        if not isinstance(number, int | float):
            return NotImplemented
        return self._with(self.left * number, self.right, f" · {number:g}")

    __rmul__ = __mul__

    def __truediv__(self, number: Any) -> "Factored":
        return self * (1 / number) if isinstance(number, int | float) else NotImplemented

    def __neg__(self) -> "Factored":
        return self._with(-self.left, self.right, " · −1")

    def __add__(self, other: Any) -> "Factored":
        return Factored.sum([self, other]) if isinstance(other, Factored) else NotImplemented

    def __radd__(self, other: Any) -> "Factored":
        # Python's own sum() begins with 0.
        return self if other == 0 else NotImplemented

    def __sub__(self, other: Any) -> "Factored":
        return Factored.sum([self, -other]) if isinstance(other, Factored) else NotImplemented

    def __getitem__(self, place: tuple[int, int]) -> float:
        """One entry, by its row and its column."""
        if not isinstance(place, tuple) or len(place) != 2:  # pyright: ignore[reportUnnecessaryIsInstance,reportUnnecessaryComparison]
            raise InputError(f"{place!r:.40} as an entry", "its row and its column", "write [3, 5]; for whole rows, .rows([3])")
        return float(self.entries([place[0]], [place[1]]))

    @staticmethod
    def sum(terms: "Sequence[Factored]") -> "Factored":
        """All of them added up, by putting their factors side by side; the inner dimensions add up too."""
        shapes = {term.shape for term in terms}
        if len(shapes) != 1:
            raise InputError(
                f"a sum of shapes {sorted(shapes)}", "terms of one shape", "add what has the same rows and columns"
            )
        return Factored(torch.cat([term.left for term in terms], dim=1), torch.cat([term.right for term in terms], dim=0))

    def dense(self) -> Float[Tensor, "row column"]:
        """Multiplied out: all ``row · column`` entries."""
        return self.left @ self.right

    def rows(self, ids: Ids) -> Float[Tensor, "chosen column"]:
        """Some rows, whole."""
        return self.left[_index(ids, self.shape[0], "row", self.device)] @ self.right

    def columns(self, ids: Ids) -> Float[Tensor, "row chosen"]:
        """Some columns, whole."""
        return self.left @ self.right[:, _index(ids, self.shape[1], "column", self.device)]

    def entries(self, rows: Ids, columns: Ids) -> Float[Tensor, " chosen"]:
        """Single entries, each by its row and its column."""
        down, across = _index(rows, self.shape[0], "row", self.device), _index(columns, self.shape[1], "column", self.device)
        if len(down) != len(across):
            raise InputError(
                f"{len(down)} rows and {len(across)} columns", "one column for each row", "name each entry by both"
            )
        return (self.left[down] * self.right.T[across]).sum(dim=1)

    def diagonal(self) -> Float[Tensor, " row"]:
        """The entries whose row and column have the same id."""
        size = min(self.shape)
        return (self.left[:size] * self.right.T[:size]).sum(dim=1)

    def trace(self) -> float:
        """The sum of the diagonal."""
        self._square("trace")
        return float((self.left.double() * self.right.T.double()).sum())

    def weighted(
        self, *, rows: Float[Tensor, " row"] | None = None, columns: Float[Tensor, " column"] | None = None
    ) -> "Factored":
        """Each row and each column multiplied by its weight."""
        for weights, size in ((rows, self.shape[0]), (columns, self.shape[1])):
            if weights is not None and weights.shape != (size,):
                raise InputError(
                    f"weights {list(weights.shape)} for {size:,} lines", "one for each", "check which side they are of"
                )
        left = self.left if rows is None else self.left * rows.to(self.left)[:, None]
        return self._with(left, self.right if columns is None else self.right * columns.to(self.right), ", weighted")

    def centred_rows(self) -> "Factored":
        """Each row with its mean taken out: where columns are outputs, a softmax cannot see that mean."""
        return self._with(self.left, _centred(self.right, dim=1), ", rows centred")

    def centred_columns(self) -> "Factored":
        """Each column with its mean taken out."""
        return self._with(_centred(self.left, dim=0), self.right, ", columns centred")

    def row_means(self) -> Float[Tensor, " row"]:
        """The mean of each row, in float64."""
        return self.left.double() @ self.right.double().mean(dim=1)

    def row_spreads(self) -> Float[Tensor, " row"]:
        """The standard deviation of each row's entries (over all columns), in float64."""
        r = algebra.triangle(_centred(self.right.double(), dim=1).T)
        return algebra.lengths(self.left.double() @ r.T) / self.shape[1] ** 0.5

    @cached_property
    def _core(self) -> Float[Tensor, "small_row small_column"]:
        """A matrix of the inner dimension's size with the same singular values: with ``left = Q_L R_L`` and ``rightᵀ = Q_R R_R``
        the product is ``Q_L (R_L R_Rᵀ) Q_Rᵀ``."""
        return algebra.triangle(self.left) @ algebra.triangle(self.right.T).T

    def norm(self) -> float:
        """The Frobenius norm: the root of the sum of all squared entries."""
        return algebra.frobenius(self._core)

    def singular_values(self) -> Float[Tensor, " rank"]:
        """As many as the inner dimension allows, falling; all further ones are zero."""
        return algebra.singular_values(self._core)

    def svd(self) -> SVD:
        """Singular values with their vectors, in float64."""
        (ours, r_left), (theirs, r_right) = algebra.qr(self.left), algebra.qr(self.right.T)
        u, s, v = algebra.svd(r_left @ r_right.T)
        return SVD(ours @ u, s, theirs @ v)

    def eigenvalues(self) -> Complex[Tensor, " rank"]:
        """Those of the core ``right @ left``, by falling modulus; all further ones are zero.

        ``left (right left) = (left right) left``, so a matrix and its core have the same eigenvalues but for zeros.
        """
        self._square("eigenvalues")
        left, right = self.left.double(), self.right.double()
        return algebra.eigenvalues(right @ left if self.inner <= self.shape[0] else left @ right)

    def rank(self, tolerance: float | None = None) -> int:
        """How many singular values are above ``tolerance`` times the largest; by default above what the factors' rounding may make.

        That is ``inner · ε · ‖left‖ · ‖right‖``, the factors' largest singular values, ε of their own format; each inner dimension with its
        size shared out between both, since rounding is relative to each number.
        """
        s = self.singular_values()
        if not len(s):
            return 0
        if tolerance is not None:
            if not tolerance >= 0:
                raise InputError(
                    f"a tolerance of {tolerance}", "a number from 0 on", "leave it out for the factors' own rounding"
                )
            return int((s > tolerance * s[0]).sum()) if s[0] > 0 else 0
        ours, theirs = algebra.lengths(self.left.T), algebra.lengths(self.right)
        share = torch.where((ours > 0) & (theirs > 0), (theirs / ours).sqrt(), 1.0)
        factors = (self.left.double() * share, self.right.T.double() / share)
        sizes = [float(algebra.singular_values(algebra.triangle(factor)).max()) for factor in factors]
        return int((s > self.inner * torch.finfo(self.dtype).eps * sizes[0] * sizes[1]).sum())

    def survey(self, wants: Wants, progress: Progress = silent) -> Survey:
        """Several of the answers below, from one pass."""
        return survey(self.left, self.right.T, wants, progress)

    def top_rows(self, k: int, progress: Progress = silent) -> Lines:
        """The ``k`` largest entries of every row, exactly."""
        return _asked(self.survey(Wants(top_rows=_at_least_one(k)), progress).top_rows)

    def bottom_rows(self, k: int, progress: Progress = silent) -> Lines:
        """The ``k`` smallest entries of every row, exactly."""
        return _asked(self.survey(Wants(bottom_rows=_at_least_one(k)), progress).bottom_rows)

    def own_ranks(self, progress: Progress = silent) -> Int[Tensor, " row"]:
        """How many entries of its row stand before the diagonal's: 0 where a token's own entry is the largest."""
        self._square("own ranks")
        return _asked(self.survey(Wants(own_ranks=True), progress).own_ranks)

    def logsumexp(self, weights: Float[Tensor, " column"] | None = None, progress: Progress = silent) -> Float[Tensor, " row"]:
        """``log Σ_column p(column) exp(entry)`` for every row; without weights every ``p`` is one."""
        weights = self.left.new_ones(self.shape[1]) if weights is None else weights
        if weights.shape != self.shape[1:] or not bool(((weights >= 0) & weights.isfinite()).all()):
            raise InputError(
                f"weights {list(weights.shape)} for {self.shape[1]} columns", "one weight ≥ 0 for each", "give a distribution"
            )
        return _asked(self.survey(Wants(logsumexp=weights.to(self.left).log()), progress).logsumexp)

    def top(self, k: int, progress: Progress = silent) -> Entries:
        """The ``k`` largest of all entries, exactly; equal ones by row, then by column."""
        return staircase.top(self.left, self.right.T, k, progress)

    def bottom(self, k: int, progress: Progress = silent) -> Entries:
        """The ``k`` smallest of all entries, exactly; equal ones by row, then by column."""
        return staircase.top(-self.left, self.right.T, k, progress).negated()

    def _square(self, what: str) -> None:
        if self.shape[0] != self.shape[1]:
            raise InputError(f"{what} of {self!r}", "as many rows as columns", "ask a circuit from tokens to tokens")


def _fits(ours: Tensor, theirs: Tensor, columns: int, rows: int) -> None:
    if columns != rows or theirs.ndim not in (1, 2):
        given = f"a product over {columns:,} columns and {rows:,} rows, of {list(theirs.shape)}"
        raise InputError(given, "as many rows as columns, in a vector or a matrix", "check the order")
    if ours.dtype != theirs.dtype:
        given = f"a product of {str(ours.dtype)[6:]} and {str(theirs.dtype)[6:]}"
        raise InputError(given, "one number format", "cast one of them with .to(…)")


def _centred(matrix: Tensor, dim: int) -> Tensor:
    return matrix - matrix.double().mean(dim=dim, keepdim=True).to(matrix.dtype)


def _index(ids: Any, size: int, axis: str, device: torch.device) -> Tensor:
    try:
        index = torch.as_tensor(ids, device=device)
    except (TypeError, ValueError, RuntimeError):
        raise InputError(f"{ids!r:.60} as {axis}s", "a list of ids", "a token's id is tokenizer.encode(text)[0]") from None
    if index.ndim != 1 or (index.numel() and index.dtype not in (torch.int64, torch.int32)):
        raise InputError(f"{ids!r:.60} as {axis}s", "a list of whole numbers", f"for one {axis}, write [3]")
    index = index.long()
    if index.numel() and not 0 <= int(index.min()) <= int(index.max()) < size:
        wrong = int(index.max() if index.max() >= size else index.min())
        raise InputError(f"{axis} {wrong}", f"{axis}s from 0 to {size - 1:,}", "check the id")
    return index


def _at_least_one(k: int) -> int:
    if type(k) is not int or k < 1:
        raise InputError(f"the first {k!r:.40} entries of every row", "a whole number from 1 on", "ask for at least one")
    return k


def _asked(answer: Answer | None) -> Answer:
    assert answer is not None, "what was asked is answered"
    return answer
