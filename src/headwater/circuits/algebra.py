"""Linear algebra of small matrices with types, since ``torch.linalg`` has none. Everything in float64, whatever it is given."""

from typing import Any

import torch
from jaxtyping import Complex, Float
from torch import Tensor

_linalg: Any = torch.linalg


def qr(
    matrix: Float[Tensor, "*many row column"],
) -> tuple[Float[Tensor, "*many row small"], Float[Tensor, "*many small column"]]:
    """``matrix = Q R``: columns that are orthonormal, and a triangle."""
    q, r = _linalg.qr(matrix.double())
    return q, r


def triangle(matrix: Float[Tensor, "*many row column"]) -> Float[Tensor, "*many small column"]:
    """``R`` alone: ``RᵀR = matrixᵀ matrix``."""
    return _linalg.qr(matrix.double(), mode="r")[1]


def svd(
    matrix: Float[Tensor, "row column"],
) -> tuple[Float[Tensor, "row small"], Float[Tensor, " small"], Float[Tensor, "column small"]]:
    """``matrix = U diag(S) Vᵀ``, the singular values falling."""
    u, s, v = _linalg.svd(matrix.double(), full_matrices=False)
    return u, s, v.T


def singular_values(matrix: Float[Tensor, "*many row column"]) -> Float[Tensor, "*many small"]:
    """Falling."""
    return _linalg.svdvals(matrix.double())


def symmetric(matrix: Float[Tensor, "size size"]) -> tuple[Float[Tensor, " size"], Float[Tensor, "size size"]]:
    """``matrix = V diag(λ) Vᵀ`` of a symmetric matrix, the eigenvalues rising."""
    values, vectors = _linalg.eigh(matrix.double())
    return values, vectors


def eigenvalues(matrix: Float[Tensor, "*many size size"]) -> Complex[Tensor, "*many size"]:
    """By falling modulus."""
    values: Tensor = _linalg.eigvals(matrix.double())
    return values.gather(-1, values.abs().argsort(dim=-1, descending=True, stable=True))


def lengths(lines: Float[Tensor, "line inner"]) -> Float[Tensor, " line"]:
    """The Euclidean norm of each row."""
    return _linalg.vector_norm(lines.double(), dim=1)


def frobenius(matrix: Float[Tensor, "row column"]) -> float:
    """The root of the sum of all squared entries."""
    return float(_linalg.matrix_norm(matrix.double()))


def scaled(numbers: Tensor, power: int) -> Tensor:
    """Numbers times a power of two, in two steps: the power itself may have no room."""
    return numbers * 2.0 ** (power // 2) * 2.0 ** (power - power // 2) if power else numbers


_LOOSE = {"highest": 0.0, "high": 2.0**-9, "medium": 2.0**-6}


def product_error(inner: int, dtype: torch.dtype) -> float:
    """How far torch's product of two lines may be from the true one, as a share of ``‖left‖ ‖right‖``, in whatever order it is added.

    Where float32 products may be calculated in fewer digits (``torch.set_float32_matmul_precision``), that is allowed for.
    """
    loose = _LOOSE[torch.get_float32_matmul_precision()] if dtype == torch.float32 else 0.0
    return (inner + 4) * torch.finfo(dtype).eps + loose
