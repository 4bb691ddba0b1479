"""One head of several: what it reads, its matrices, and what Headwater's pass made of them."""

from dataclasses import dataclass

from jaxtyping import Float
from torch import Tensor

from headwater.api import Model
from headwater.circuits.algebra import frobenius
from headwater.claims.given import Given
from headwater.claims.self_attention.pieces import HEADS
from headwater.model.config import ModelConfig
from headwater.shapes import Tokens


@dataclass(frozen=True, kw_only=True, eq=False)
class Steps:
    """Rows are positions, so that ``x W^Q`` is ``x @ W_Q``; ``alpha`` are the weights and ``a`` what comes out, as document 003 has them."""

    x: Float[Tensor, "pos d_model"]
    W_Q: Float[Tensor, "d_model d_k"]
    W_K: Float[Tensor, "d_model d_k"]
    W_V: Float[Tensor, "d_model d_v"]
    q: Float[Tensor, "pos d_k"]
    k: Float[Tensor, "pos d_k"]
    v: Float[Tensor, "pos d_v"]
    scores: Float[Tensor, "pos pos"]
    alpha: Float[Tensor, "pos pos"]
    a: Float[Tensor, "pos d_v"]


def steps_of(model: Model, ids: Tokens, head: int = 1) -> Steps:
    """Of a head of the first layer, on the first text."""
    run, matrices = model.record(ids), model.weights.blocks[0].attention
    sites = {"q": "queries", "k": "keys", "v": "values", "scores": "scores", "alpha": "pattern", "a": "mixed"}
    return Steps(
        x=run["L0.attention_input"][0],
        W_Q=matrices.W_Q[head],
        W_K=matrices.W_K[head],
        W_V=matrices.W_V[head],
        **{name: run[f"L0.{site}"][0, head] for name, site in sites.items()},
    )


def drawn_steps(given: Given, config: ModelConfig = HEADS) -> Steps:
    """Of drawn weights, on drawn tokens; unless told otherwise every token looks at every token."""
    return steps_of(given.drawn(config), given.ids(config))


def keys_of_queries(given: Given, factor: float, *, repeated: bool = False) -> Steps:
    """The drawn head with ``W^K = factor · W^Q``, on drawn tokens or on the first of them repeated."""
    model, ids = given.drawn(HEADS), given.ids(HEADS)
    W_K = factor * model.weights.blocks[0].attention.W_Q
    return steps_of(Model(model.weights.changed({"blocks.0.attn.W_K": W_K})), ids[:, :1].expand_as(ids) if repeated else ids)


def asymmetry(table: Float[Tensor, "side side"]) -> float:
    """``‖M − Mᵀ‖ / ‖M‖``: 0 where a table is symmetric."""
    return frobenius(table - table.T) / frobenius(table)
