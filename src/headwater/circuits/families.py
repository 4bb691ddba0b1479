"""Circuits that begin and end alike, all at once: what their small cores say, without work of the vocabulary's size for each of them.

The circuits of a model's heads are ``rows · left · right · columns`` with the same ``rows`` and ``columns`` (embedding and unembedding) for
all. What depends on the vocabulary is therefore computed once, as d_model × d_model matrices; each head adds products with its own
thin matrices. Everything here is float64, whatever the weights' format: products of float32 numbers are exact in it.
"""

from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from functools import cached_property
from typing import Any

import torch
from jaxtyping import Complex, Float
from torch import Tensor

from headwater.circuits import algebra
from headwater.circuits.factored import Factored

_linalg: Any = torch.linalg

CHUNK = 4096
"""Rows that are widened to float64 at a time."""

WORST_CONDITION = 1e4
"""Up to here a Cholesky factor of the Gram matrix is as good as a QR factor: its relative error is about ε·condition², 1e-8."""


@dataclass(frozen=True, eq=False)
class Core:
    """A circuit's eigenvalues and singular values, by falling modulus; all further ones are zero."""

    eigenvalues: Complex[Tensor, " inner"]
    singular_values: Float[Tensor, " rank"]
    size: int
    """Rows (and columns) of the circuit."""
    loop: Float[Tensor, " loop"] | None = None
    """Singular values of the way round, from the stream through columns, rows, ``left`` and ``right`` to the stream again; see
    ``headwater.circuits.chance``."""
    width: int = 0
    """Dimensions of the stream, where the loop is known."""

    @property
    def norm(self) -> float:
        """The circuit's Frobenius norm."""
        return float(self.singular_values.square().sum().sqrt())

    @property
    def trace(self) -> float:
        """The sum of the eigenvalues, which is real."""
        return float(self.eigenvalues.real.sum())


@dataclass(frozen=True, eq=False)
class Cores:
    """Those of a table as it is, and with each row's mean taken out."""

    raw: Core
    centred: Core


def cores(circuit: Factored) -> Cores:
    """Both cores of one circuit by itself."""
    return Cores(core(circuit), core(circuit.centred_rows()))


def core(circuit: Factored) -> Core:
    """The core of one circuit by itself.

    >>> quarter_turn = Factored(torch.eye(3)[:, :2], torch.tensor([[0.0, -2.0, 0.0], [2.0, 0.0, 0.0]]))
    >>> core(quarter_turn).eigenvalues.imag.round()
    tensor([ 2., -2.], dtype=torch.float64)
    """
    return Core(circuit.eigenvalues(), circuit.singular_values(), circuit.shape[0])


@dataclass(frozen=True, eq=False)
class Family:
    """Circuits ``rows @ left[i] @ right[i] @ columns``.

    >>> eye = torch.eye(5)
    >>> Family(eye[:, :3], eye[None, :3, :2], eye[None, :2, :3], eye[:3]).singular_values()
    tensor([[1., 1.]], dtype=torch.float64)
    """

    rows: Float[Tensor, "row d_rows"]
    left: Float[Tensor, "circuit d_rows inner"]
    right: Float[Tensor, "circuit inner d_columns"]
    columns: Float[Tensor, "d_columns column"]

    def __len__(self) -> int:
        return len(self.left)

    def __getitem__(self, number: int) -> Factored:
        """One of the circuits."""
        return Factored(self.rows @ self.left[number], self.right[number] @ self.columns)

    def joined(self, numbers: Sequence[int]) -> "Family":
        """A family of one: the sum of some of these circuits."""
        chosen = list(numbers)
        left = torch.cat(list(self.left[chosen]), dim=1)[None]
        family = Family(self.rows, left, torch.cat(list(self.right[chosen]), dim=0)[None], self.columns)
        return self._sharing(family, "_row_gram", "_round", "_row_side", "_column_side")

    @cached_property
    def _row_gram(self) -> Float[Tensor, "d_rows d_rows"]:
        return _gram(self.rows)

    @cached_property
    def _round(self) -> Float[Tensor, "d_columns d_rows"]:
        """``columns @ rows``: how what is written would be read again."""
        return self._row_gram if self._is_tied else _product(self.columns.T, self.rows)

    @cached_property
    def _row_side(self) -> Float[Tensor, "small d_rows"]:
        return r_factor(self.rows, self._row_gram)

    @cached_property
    def _column_side(self) -> Float[Tensor, "small d_columns"]:
        return self._row_side if self._is_tied else r_factor(self.columns.T, _gram(self.columns.T))

    @property
    def _is_tied(self) -> bool:
        """Whether rows and columns are one tensor."""
        ours, theirs = self.rows, self.columns.T
        return ours.data_ptr() == theirs.data_ptr() and ours.shape == theirs.shape and ours.stride() == theirs.stride()

    def eigenvalues(self) -> Complex[Tensor, "circuit inner"]:
        """Those of each circuit, by falling modulus: the eigenvalues of ``right (columns rows) left``."""
        return algebra.eigenvalues(_each(self.right.double(), self._round) @ self.left.double())

    def singular_values(self) -> Float[Tensor, "circuit rank"]:
        """Those of each circuit, falling; the R factors of rows and columns stand for both."""
        return algebra.singular_values(_small(*self._sides()))

    def norms(self) -> Float[Tensor, " circuit"]:
        """The Frobenius norm of each circuit."""
        ours, theirs = self._sides()
        squares: Tensor = ((ours @ ours.mT) * (theirs @ theirs.mT)).sum(dim=(1, 2))
        return squares.clamp(min=0).sqrt()

    def loops(self) -> Float[Tensor, "circuit loop"]:
        """Singular values of each ``columns rows left right``: from the stream once round to the stream."""
        return algebra.singular_values(_small(_each(self.left.double().mT, self._round.T), self.right.double()))

    def _sides(self) -> tuple[Float[Tensor, "circuit inner small_row"], Float[Tensor, "circuit inner small_column"]]:
        """Both factors of every circuit as long as they are over the vocabulary, in a few dimensions."""
        return _each(self.left.double().mT, self._row_side.T), _each(self.right.double(), self._column_side.T)

    def centred(self) -> "Family":
        """The same circuits with each row's mean taken out."""
        columns = self.columns - self.columns.double().mean(dim=1, keepdim=True).to(self.columns)
        return self._sharing(Family(self.rows, self.left, self.right, columns), "_row_gram", "_row_side")

    def cores(self) -> list[Cores]:
        """All that the small cores say, circuit by circuit."""
        return [Cores(*pair) for pair in zip(self._cores(), self.centred()._cores(), strict=True)]

    def _cores(self) -> Iterator[Core]:
        answers = zip(self.eigenvalues(), self.singular_values(), self.loops(), strict=True)
        size, width = self.columns.shape[1], self.columns.shape[0]
        return (Core(values, singular, size, loop, width) for values, singular, loop in answers)

    def _sharing(self, other: "Family", *names: str) -> "Family":
        """``other``, with what this one has computed from the vocabulary and both have in common."""
        other.__dict__.update({name: getattr(self, name) for name in names})
        return other


def r_factor(tall: Float[Tensor, "row d"], gram: Float[Tensor, "d d"]) -> Float[Tensor, "small d"]:
    """``R`` with ``Rᵀ R = tallᵀ tall``: it has the lengths and angles of ``tall``'s columns, in a few rows.

    From the Gram matrix, which is several times faster than QR, where the condition is good enough to square it.
    """
    factor, failed = _linalg.cholesky_ex(gram, upper=True)
    if int(failed) == 0:
        inverse = _linalg.solve_triangular(factor, torch.eye(len(gram)).to(gram), upper=True)
        # The product of Frobenius norms is an upper bound, hence no estimate to be unlucky with.
        if algebra.frobenius(factor) * algebra.frobenius(inverse) <= WORST_CONDITION:
            return factor
    return algebra.triangle(tall)


def _product(ours: Float[Tensor, "row a"], theirs: Float[Tensor, "row b"]) -> Float[Tensor, "a b"]:
    """``oursᵀ theirs``, some rows at a time."""
    total = torch.zeros(ours.shape[1], theirs.shape[1], dtype=torch.float64, device=ours.device)
    for start in range(0, len(ours), CHUNK):
        total.addmm_(ours[start : start + CHUNK].T.double(), theirs[start : start + CHUNK].double())
    return total


def _gram(tall: Float[Tensor, "row d"]) -> Float[Tensor, "d d"]:
    """``tallᵀ tall``, of which only blocks on and above the diagonal are computed."""
    size = tall.shape[1]
    total = torch.zeros(size, size, dtype=torch.float64, device=tall.device)
    step = -(-size // 3)
    for start in range(0, len(tall), CHUNK):
        wide = tall[start : start + CHUNK].double()
        for first in range(0, size, step):
            total[first : first + step, first:].addmm_(wide[:, first : first + step].T, wide[:, first:])
    return total.triu() + total.triu(1).T


def _each(stack: Float[Tensor, "circuit a b"], matrix: Float[Tensor, "b c"]) -> Float[Tensor, "circuit a c"]:
    """One product for all, not one for each."""
    return (stack.reshape(-1, stack.shape[-1]) @ matrix).reshape(*stack.shape[:-1], -1)


def _small(
    ours: Float[Tensor, "circuit inner a"], theirs: Float[Tensor, "circuit inner b"]
) -> Float[Tensor, "circuit small_a small_b"]:
    """Matrices with the singular values of ``oursᵀ theirs``, by QR of both."""
    return algebra.triangle(ours.mT) @ algebra.triangle(theirs.mT).mT
