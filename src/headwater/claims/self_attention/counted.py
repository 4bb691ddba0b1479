"""What a calculation takes: its multiplications with an addition each, the largest tensor that it makes, its calls."""

from collections.abc import Callable, Mapping
from dataclasses import dataclass
from typing import Any

import torch
from torch import Tensor
from torch.utils._python_dispatch import TorchDispatchMode
from torch.utils._pytree import tree_leaves

from headwater.claims.self_attention.pieces import drawn
from headwater.model.attention import Rule, blockwise, matrix
from headwater.model.config import Attention, ModelConfig
from headwater.model.forward import final_stream
from headwater.model.taps import Recorder
from headwater.model.weights import Weights

RULE = Rule("full", scale=1.0)
PRODUCTS = ("aten::mm", "aten::bmm", "aten::addmm")
"""What every matrix product ends in; the matrix on the right comes last."""


@dataclass(frozen=True, kw_only=True)
class Cost:
    """Counts, which no clock can disturb."""

    multiply_adds: int
    """Of matrix products."""
    largest: int
    """Numbers in the largest tensor that was made on the way."""
    calls: int
    """Tensor operations, one after the other."""


class _Made(TorchDispatchMode):
    """Watches what every tensor operation hands back."""

    def __init__(self) -> None:
        super().__init__()
        self.multiply_adds = self.largest = self.calls = 0

    def __torch_dispatch__(
        self, func: Any, types: object, args: tuple[Any, ...] = (), kwargs: Mapping[str, Any] | None = None
    ) -> Any:
        del types
        out = func(*args, **(kwargs or {}))
        self.calls += 1
        if func.name() in PRODUCTS:
            self.multiply_adds += out.numel() * args[-1].shape[-2]
        self.largest = max([self.largest, *(leaf.numel() for leaf in tree_leaves(out) if isinstance(leaf, Tensor))])
        return out


def cost(work: Callable[[], object]) -> Cost:
    """Do the work and count.

    >>> import torch
    >>> cost(lambda: torch.ones(3, 4) @ torch.ones(4, 5)).multiply_adds
    60
    """
    with _Made() as made:
        work()
    return Cost(multiply_adds=made.multiply_adds, largest=made.largest, calls=made.calls)


def attention_cost(n: int, d: int, *, blocks: int | None = None) -> Cost:
    """Of queries, keys and values that are there: the whole pattern, or so many keys at a time."""
    q, k, v = drawn(3, 1, 1, n, d)
    return cost(lambda: matrix(q, k, v, RULE) if blocks is None else blockwise(q, k, v, RULE, size=blocks))


def layer_cost(n: int, d: int) -> Cost:
    """Of a whole layer of attention, with its projections to queries, keys and values and back."""
    config = ModelConfig(vocab=2, context=n, d_model=d, layers=1, attention=Attention(heads=1, d_head=d, mask="full"))
    weights, ids = Weights.draw(config, seed=0), torch.zeros(1, n, dtype=torch.long)
    return cost(lambda: final_stream(weights, ids, Recorder(["L0.pattern"])))
