"""The kernel for sums of exponentials alone: float32 products whose exponentials are added up without leaving the registers.

``log Σ_column weight · exp(entry)`` of a row is made of that row, the columns and their weights, in one order: it has the same bits
whatever rows stand beside it, however many go together, and on any number of threads.
"""

import math
from concurrent.futures import ThreadPoolExecutor
from typing import Any

import numpy as np
import torch
from jaxtyping import Float
from torch import Tensor

from headwater.circuits.streamed import fused
from headwater.circuits.streamed.machine import available
from headwater.circuits.streamed.scan import Progress, Scan, Wants, silent

BLOCK = 256
"""Rows that go over the columns together."""


def pays(left: Tensor, right: Tensor, wants: Wants) -> bool:
    """Whether this kernel is the faster one: nothing but sums, float32, a processor that has what it needs, and enough to do."""
    asked = wants.only_sums and wants.logsumexp is not None
    there = left.dtype == torch.float32 and left.device.type == "cpu" and available()
    return asked and there and 0 < left.shape[1] <= fused.MOST_INNER and len(left) * len(right) >= fused.LEAST


def scan(
    left: Float[Tensor, "row inner"],
    right: Float[Tensor, "column inner"],
    wants: Wants,
    progress: Progress = silent,
    *,
    block: int = BLOCK,
) -> Scan:
    """``log Σ exp(entry + log weight)`` of every row of ``left @ rightᵀ``, ``block`` rows at a time; nothing else that may be wanted."""
    assert wants.logsumexp is not None
    there = wants.logsumexp > -math.inf
    if not bool(there.any()):
        return Scan(logsumexp=torch.full((len(left),), -math.inf, dtype=torch.float64))
    panels, start = _panels(right[there], wants.logsumexp[there])
    rows, found, compiled = left.contiguous().numpy(), np.empty(len(left)), _compiled()

    def over(first: int) -> None:
        some = slice(first, first + block)
        compiled.sums(rows[some], panels, start, found[some])

    pool = ThreadPoolExecutor(torch.get_num_threads())
    try:
        for number, _ in enumerate(pool.map(over, range(0, len(left), block))):
            progress(min(1.0, (number + 1) * block / len(left)))
    finally:
        pool.shutdown(cancel_futures=True)
    return Scan(logsumexp=torch.from_numpy(found))


def _compiled() -> Any:
    """What numba compiles has no types, and is not there without numba."""
    from headwater.circuits.streamed import exponentials

    return exponentials


def _panels(columns: Float[Tensor, "column inner"], log_weights: Float[Tensor, " column"]) -> tuple[Any, Any]:
    """Columns in the order in which the innermost loop reads them, and what each starts from; −∞ where there is no column."""
    width: int = _compiled().WIDTH
    count, (size, inner) = math.ceil(len(columns) / width), columns.shape
    whole, start = columns.new_zeros(count * width, inner), columns.new_full((count * width,), -math.inf)
    whole[:size], start[:size] = columns, log_weights
    return whole.view(count, width, inner).transpose(1, 2).contiguous().numpy(), start.view(count, width).numpy()
