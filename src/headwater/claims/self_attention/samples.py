"""Many random pairs of a query and a key, and how much their products vary: the conditions of document 003's Theorem 6, met and not met."""

from collections.abc import Callable

import torch
from torch import Tensor

from headwater.claims.given import Given
from headwater.claims.self_attention.pieces import drawn

SIZES = (4, 16, 64, 256)
"""Of d_k."""
PAIRS = 30_000

KINDS: dict[str, Callable[[Tensor, Tensor], tuple[Tensor, Tensor]]] = {
    "normal": lambda q, k: (q, k),
    "signs": lambda q, k: (q.sign(), k.sign()),
    "same": lambda q, k: (q, q),
    "correlated": lambda q, k: (q, (q + k) / 2**0.5),
    "shifted": lambda q, k: (q + 1, k + 1),
}
"""From independent standard normal numbers: as they are; ±1; a query that is its key; one that correlates with it; a mean of 1."""


def products(given: Given) -> dict[str, dict[int, Tensor]]:
    """``q · k`` of every kind and size, for many pairs."""
    return given.once("products of random queries and keys", _draw)


def _draw() -> dict[str, dict[int, Tensor]]:
    found: dict[str, dict[int, Tensor]] = {kind: {} for kind in KINDS}
    for d_k in SIZES:
        q, k = drawn(2, PAIRS, d_k, seed=d_k)
        for kind, made in KINDS.items():
            query, key = made(q, k)
            found[kind][d_k] = (query * key).sum(dim=1)
    return found


def off(products: dict[int, Tensor], *, scaled: bool = False) -> float:
    """How far ``Var(q · k) / d_k`` is from 1, at the most over all sizes; ``scaled``, ``Var(q · k / √d_k)``."""
    if scaled:
        return max(abs(float((dots / d_k**0.5).var()) - 1) for d_k, dots in products.items())
    return max(abs(float(dots.var()) / d_k - 1) for d_k, dots in products.items())


def trained_products(given: Given) -> tuple[Tensor, int]:
    """``q · k`` of the trained model's heads, ``[head, pair]``, on held-out text, and its d_k."""
    model = given.model("one-layer")
    run = model.record(given.windows("one-layer", 4)[:, :-1])
    dots = torch.einsum("bhie,bhje->hbij", run["L0.queries"], run["L0.keys"])
    return dots.flatten(1), model.config.d_head


def off_trained(given: Given) -> float:
    """How far ``Var(q · k) / d_k`` is from 1 in the trained head where it is nearest."""
    dots, d_k = given.once("products of trained queries and keys", lambda: trained_products(given))
    return float((dots.var(dim=1) / d_k - 1).abs().min())
