"""How large the derivative of attention's softmax is, with and without the division of scores by √d_k.

For weights ``p = softmax(s)`` the derivative is ``J = diag(p) − p pᵀ``. Its entries are at most ¼ and its spectral norm at most ½, whatever
the scores: it cannot explode. Without scaling, scores of random queries and keys grow with √d_k, the softmax saturates and J goes to
zero; scaling keeps it where it is.
"""

from collections.abc import Sequence
from dataclasses import asdict, dataclass
from typing import Any, cast

import torch
from jaxtyping import Float
from torch import Tensor

from headwater.show.values import Line, Panel, Progress, Table, silent

KEYS = 32
DRAWS = 1000


@dataclass(frozen=True, kw_only=True)
class Size:
    """Of J in one setting: its Frobenius norm over draws, and the largest that was met of an entry and of the spectral norm."""

    mean: float
    median: float
    largest_entry: float
    largest_spectral: float


@dataclass(frozen=True, kw_only=True)
class Dimension:
    """One d_k: scores as they are, and divided by √d_k."""

    d_k: int
    score_length: float
    """The mean length of the unscaled scores of one query: the gradient is sometimes said to grow as its exponential."""
    unscaled: Size
    scaled: Size


@dataclass(frozen=True, kw_only=True)
class SoftmaxStudy:
    """The derivative of the softmax against d_k."""

    keys: int
    draws: int
    dimensions: tuple[Dimension, ...]

    def tables(self) -> tuple[Table, ...]:
        """One row for each d_k."""
        rows = tuple(
            (
                f"{at.d_k}",
                f"{at.unscaled.mean:.3f}",
                f"{at.unscaled.median:.1e}",
                f"{at.scaled.mean:.3f}",
                f"{at.scaled.median:.1e}",
                f"{max(at.unscaled.largest_entry, at.scaled.largest_entry):.4f}",
                f"{max(at.unscaled.largest_spectral, at.scaled.largest_spectral):.4f}",
                f"e^{at.score_length:.0f}",
            )
            for at in self.dimensions
        )
        columns = ("d_k#", "unscaled#", "median#", "scaled#", "median#", "entry ≤ ¼#", "spectral ≤ ½#", "not e^‖s‖#")
        title = f"‖∂softmax/∂scores‖ over {self.draws:,} random queries with {self.keys} keys"
        return (Table(title=title, columns=columns, rows=rows),)

    def plain(self) -> dict[str, Any]:
        """All numbers."""
        return asdict(self)

    def curves(self) -> tuple[Panel, ...]:
        """Norms against d_k."""
        x = tuple(float(at.d_k) for at in self.dimensions)
        lines = (
            Line(label="scaled, mean", x=x, y=tuple(at.scaled.mean for at in self.dimensions)),
            Line(label="scaled, median", x=x, y=tuple(at.scaled.median for at in self.dimensions)),
            Line(label="unscaled, mean", x=x, y=tuple(at.unscaled.mean for at in self.dimensions)),
            Line(label="unscaled, median", x=x, y=tuple(at.unscaled.median for at in self.dimensions)),
            Line(label="bound of the spectral norm", x=x, y=(0.5,) * len(x), kind="bound"),
        )
        title = "Unscaled scores make the softmax' gradient vanish"
        return (Panel(title=title, x="d_k", y="‖∂softmax/∂scores‖", lines=lines, x_scale="log", y_scale="log"),)


def run(dimensions: Sequence[int] = (1, 4, 16, 64, 256, 1024), *, seed: int = 0, progress: Progress = silent) -> SoftmaxStudy:
    """Draw queries and keys with independent standard normal entries and measure J.

    >>> study = run([4, 256])
    >>> [at.unscaled.median < at.scaled.median for at in study.dimensions]
    [False, True]
    """
    generator = torch.Generator().manual_seed(seed)
    found: list[Dimension] = []
    for number, d_k in enumerate(dimensions):
        progress(f"softmax, d_k = {d_k}", number / len(dimensions))
        scores = torch.stack([_scores(d_k, generator) for _ in range(DRAWS)])
        length = float(scores.square().sum(dim=1).sqrt().mean())
        found.append(Dimension(d_k=d_k, score_length=length, unscaled=_size(scores), scaled=_size(scores / d_k**0.5)))
    return SoftmaxStudy(keys=KEYS, draws=DRAWS, dimensions=tuple(found))


def _scores(d_k: int, generator: torch.Generator) -> Float[Tensor, " source"]:
    q = torch.randn(d_k, generator=generator, dtype=torch.float64)
    return torch.randn(KEYS, d_k, generator=generator, dtype=torch.float64) @ q


def _size(scores: Float[Tensor, "draw source"]) -> Size:
    p = scores.softmax(dim=-1)
    J = torch.diag_embed(p) - p[:, :, None] * p[:, None, :]
    norms = J.square().sum(dim=(1, 2)).sqrt()
    spectral = cast(Tensor, torch.linalg.eigvalsh(J))[:, -1]
    return Size(
        mean=float(norms.mean()),
        median=float(norms.median()),
        largest_entry=float(J.abs().amax()),
        largest_spectral=float(spectral.max()),
    )
