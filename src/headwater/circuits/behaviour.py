"""What heads do, told from weights alone: where they look by position, and which pairs of heads continue repeats.

**By position** (``attending``). The pattern of a head on a text whose every token is the *mean token*, the mean row of ``W_E``, as if
earlier layers had written nothing: what is left is what positions, biases and the mean say. It is defined for every kind of
positions; it comes from the model's own attention.

**Induction** (``induction``). After ``… A B … A`` an induction head ``b`` looks at ``B`` and says ``B``. It finds ``B`` by the token before it,
which a previous-token head ``a`` of an earlier layer has written there. On tokens this is K-composition, one table for each pair::

    M_ab[dest, before] = (x_dest W_Q^b) · (x_before W_OV^a W_K^b)       times scale

where ``x`` is a token's embedding as a layer reads it. With ``M`` centred over tokens,

- ``lead = previous_a · mean_t M[t, t]``: by how many nats the score of the source that follows the same token is above that of an
  average source;
- ``match = Σλ / Σ|λ|`` of ``M``: 1 where every token is matched with itself, −1 where it is avoided;
- ``attention = exp(lead) / (exp(lead) + n − 1)``: what such a source gets among ``n`` sources, ``n`` the model's context;
- ``copying = Σλ / Σ|λ|`` of ``b``'s OV table, centred over tokens and logits: whether it says what it looks at;
- ``score = attention · copying``.

It takes for granted that the stream has the scale of a token's embedding (pre-norm models), that rotary positions do not turn and
that feed-forward layers write nothing.
"""

import math
from dataclasses import dataclass
from functools import cached_property
from typing import Any

import torch
from einops import einsum
from jaxtyping import Float
from torch import Tensor

from headwater.circuits.algebra import eigenvalues
from headwater.circuits.head import Head, every_head
from headwater.circuits.ports import Heads, as_read
from headwater.errors import ConfigError, InputError
from headwater.model.components import norm_scale
from headwater.model.config import PostNorm, PreNorm
from headwater.model.forward import Block
from headwater.model.positions import place
from headwater.model.taps import Look, Recorder
from headwater.model.weights import Weights
from headwater.shapes import Stream

LONGEST = 512
"""Positions looked at: patterns take their square."""


@dataclass(frozen=True, kw_only=True)
class Attending:
    """Where a head looks by position: its mean attention, over the destinations after the first, to three places."""

    head: Head
    previous: float
    own: float
    first: float
    even: float
    """What a head pays to the previous position that looks everywhere alike."""

    def plain(self) -> dict[str, Any]:
        """For programs."""
        return {"head": str(self.head), "previous": self.previous, "own": self.own, "first": self.first, "even": self.even}


@dataclass(frozen=True, kw_only=True)
class Induction:
    """How far a head continues repeats, with the previous-token head that serves it best."""

    head: Head
    fed_by: Head
    previous: float
    lead: float
    match: float
    attention: float
    copying: float

    @property
    def score(self) -> float:
        """``attention · copying``: near 1 for an induction head, near −1 for one that finds repeats and speaks against them."""
        return self.attention * self.copying

    def plain(self) -> dict[str, Any]:
        """For programs."""
        numbers = {name: getattr(self, name) for name in ("score", "previous", "lead", "match", "attention", "copying")}
        return {"head": str(self.head), "fed_by": str(self.fed_by), **numbers}


def attending(weights: Weights) -> tuple[Attending, ...]:
    """Where each head looks by position alone.

    >>> from headwater.model.config import Attention, ModelConfig
    >>> config = ModelConfig(vocab=50, context=4, d_model=16, layers=1, attention=Attention(heads=1, d_head=4))
    >>> [head] = attending(Weights.draw(config, seed=0))
    >>> f"without positions {head.previous:.3f} = (1/2 + 1/3 + 1/4)/3"
    'without positions 0.361 = (1/2 + 1/3 + 1/4)/3'
    """
    if weights.config.context < 2:
        raise InputError("a context of one position", "a position before another", "choose another model")
    patterns, causal = _patterns(weights), weights.config.attention is not None and weights.config.attention.mask == "causal"
    dests = torch.arange(1, min(weights.config.context, LONGEST), device=weights.device)
    sources = dests + 1 if causal else torch.full_like(dests, len(dests) + 1)
    even = float((1 / sources.double()).mean())
    places = {"previous": dests - 1, "own": dests, "first": torch.zeros_like(dests)}
    return tuple(
        Attending(
            head=head,
            even=even,
            **{word: float(patterns[head.layer][head.head, dests, at].double().mean()) for word, at in places.items()},
        )
        for head in every_head(weights.config)
    )


def _patterns(weights: Weights) -> list[Float[Tensor, "head dest source"]]:
    """Each layer's patterns on a text of mean tokens; only norms change its stream."""
    config, length = weights.config, min(weights.config.context, LONGEST)
    placed, recorder = place(weights, 0, length), Recorder(["*.pattern"])
    x: Stream = weights.W_E.mean(dim=0).expand(1, length, -1)
    x = x if placed.in_stream is None else x + placed.in_stream
    with torch.no_grad():
        for layer, block_weights in enumerate(weights.blocks):
            block = Block(config, block_weights, placed, Look(recorder, f"L{layer}."))
            if isinstance(config.norm, PostNorm):
                block.attend(x)
                x = block.norm_1(x) if block.is_attention_only else block.norm_2(block.norm_1(x))
            else:
                block.attend(block.norm_1(x))
    return [recorder.kept[f"L{layer}.pattern"][0] for layer in range(config.layers)]


def induction(weights: Weights) -> tuple[Induction, ...]:
    """Every head but those of layer 0, by falling score."""
    if isinstance(weights.config.norm, PostNorm):
        raise ConfigError(
            "induction heads of a post-norm model from its weights",
            "a stream that later layers read as it was written",
            "measure them on text: headwater study induction",
        )
    previous = {one.head: one.previous for one in attending(weights)}
    with torch.no_grad():
        tokens = _Tokens.of(weights)
        found = [one for layer in range(1, weights.config.layers) for one in _of_layer(weights, layer, tokens, previous)]
    return tuple(sorted(found, key=lambda one: (-one.score, one.head)))


@dataclass(frozen=True, eq=False)
class _Tokens:
    """All tokens of a model as a layer reads them, by what they have in common: d_model × d_model."""

    spread: Float[Tensor, "d_model d_model"]
    """Their covariance."""
    said: Float[Tensor, "d_model d_model"]
    """From the stream to the logits of all tokens, and back to their embeddings: ``W_U x``, both centred."""
    scale: float
    """The mean scale of the norm that reads them."""

    @staticmethod
    def of(weights: Weights) -> "_Tokens":
        norm, x = weights.config.norm, weights.W_E.to(torch.promote_types(weights.dtype, torch.float32))
        positions = place(weights, 0, weights.config.context).in_stream
        x = x if positions is None else x + positions.mean(dim=0).to(x)
        scales = norm_scale(norm.norm, x) if isinstance(norm, PreNorm) else x.new_ones(len(x))
        x = x * scales[:, None]
        x = x - x.mean(dim=0)
        return _Tokens(x.T @ x / len(x), as_read(weights, "unembed", weights.W_U) @ x, float(scales.mean()))


@dataclass(frozen=True, eq=False)
class _Feeding:
    """A head of an earlier layer, and the core of ``M``: its trace is the mean of M's diagonal, its eigenvalues are M's."""

    head: Head
    previous: float
    core: Float[Tensor, "d_head d_head"]

    @cached_property
    def diagonal(self) -> float:
        """``previous · mean_t M[t, t]``."""
        return self.previous * float(self.core.trace())


def _of_layer(weights: Weights, layer: int, tokens: _Tokens, previous: dict[Head, float]) -> list[Induction]:
    """Every head of a layer with the earlier head that leads it most."""
    attention = weights.config.attention
    assert attention is not None, "whoever has layers has attention"
    readers = Heads(weights, layer)
    best: list[_Feeding | None] = [None] * attention.heads
    for earlier in range(layer):
        cores = attention.scale * tokens.scale * _cores(Heads(weights, earlier), readers, tokens)
        for reader in range(attention.heads):
            those = [_Feeding(h, previous[h], cores[h.head, reader]) for h in previous if h.layer == earlier]
            best[reader] = max([one for one in (best[reader], *those) if one], key=lambda one: one.diagonal)
    said = einsum(readers.W_O, tokens.said, readers.W_V, "head row out, out back, head back column -> head row column")
    copying = [_positivity(core) for core in said]
    return [_judged(Head(layer, head), fed, copying[head], weights.config.context) for head, fed in enumerate(best) if fed]


def _judged(head: Head, fed: _Feeding, copying: float, sources: int) -> Induction:
    attention = 1 / (1 + (sources - 1) * math.exp(-min(max(fed.diagonal, -700.0), 700.0)))
    return Induction(
        head=head, fed_by=fed.head, previous=fed.previous, lead=fed.diagonal, match=_positivity(fed.core),
        attention=attention, copying=copying,
    )  # fmt: skip


def _cores(writers: Heads, readers: Heads, tokens: _Tokens) -> Float[Tensor, "writer reader d_head d_head"]:
    """For each pair ``W_Q^bᵀ · spread · W_V^a W_O^a W_K^b``."""
    asked = einsum(
        readers.W_Q, tokens.spread @ writers.W_V, "reader d_model row, writer d_model inner -> writer reader row inner"
    )
    offered = einsum(writers.W_O, readers.W_K, "writer inner d_model, reader d_model column -> writer reader inner column")
    return asked @ offered


def _positivity(core: Float[Tensor, "d_head d_head"]) -> float:
    """``Σλ / Σ|λ|``; 0 where all are zero."""
    values = eigenvalues(core)
    size = float(values.abs().sum())
    return float(values.real.sum()) / size if size else 0.0
