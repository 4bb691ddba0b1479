"""What share of a head's scores is about positions and what share about tokens, told from weights alone.

A softmax sees differences within a row of scores, so what counts is variance over sources. For a destination, token ``B`` drawn as
tokens occur at a position ``i`` drawn evenly, let its sources be tokens ``A`` drawn as they occur at positions ``j`` drawn evenly among those it
may see. With ``s`` the score and ``E`` the mean over destinations::

    variance  = E Var_{A, j}(s)
    positions = E Var_j(E_A s) / variance          what is known of a score where only the source's position is
    tokens    = E Var_A(E_j s) / variance          what is known of it where only the source's token is
    together  = 1 − positions − tokens             what tokens mean at some positions and not at others

A previous-token head has ``positions`` near 1: its table of tokens says little about where it looks. Positions that are added make
scores a sum of both, ``(x_B + p_i) W_Q · (x_A + p_j) W_K``, and ``together`` is 0. Rotary ones multiply, and it is not.

Nothing is sampled. Tokens come in by their mean and covariance, which are calculated once in the stream; a head makes d_head × d_head
matrices of them. A rotation by ``o`` positions is linear in ``v_o = (cos oθ, sin oθ, 1)``, so that rotary positions come in by two moments of ``v``
that all heads share.

As everywhere in circuits, later layers are told by what the skip route brings, at the scales that norms are given.
"""

from collections.abc import Sequence
from dataclasses import asdict, dataclass
from typing import Any

import torch
from jaxtyping import Float
from torch import Tensor

from headwater.circuits.bases import Basis, Reader, widened
from headwater.circuits.families import CHUNK
from headwater.circuits.head import Head, HeadName, every_head, find_head, key_head
from headwater.circuits.norms import Scaling
from headwater.circuits.spectrum import distribution
from headwater.model.config import NoPositions
from headwater.model.positions import Turn, place
from headwater.model.weights import Weights

LONGEST = 1024
"""Positions looked at: all of their pairs are."""


@dataclass(frozen=True, kw_only=True)
class Placement:
    """Shares of the variance of one head's scores."""

    head: Head
    positions: float
    tokens: float
    together: float
    variance: float
    """Over the sources of a destination, in nats²; where it is 0, so are all shares."""
    given: tuple[str, ...]
    """What the numbers take for granted beyond the weights."""

    def plain(self) -> dict[str, Any]:
        """For programs."""
        return {**asdict(self), "head": str(self.head), "given": list(self.given)}


def placements(
    weights: Weights,
    heads: Sequence[HeadName] | None = None,
    *,
    frequencies: Float[Tensor, " vocab"] | None = None,
    scales: Scaling = "one",
) -> tuple[Placement, ...]:
    """The shares of some heads, unless said otherwise of all; ``frequencies`` are counts or shares, by default all alike.

    >>> from headwater.model.config import Attention, ModelConfig
    >>> config = ModelConfig(vocab=50, context=4, d_model=16, layers=1, attention=Attention(heads=1, d_head=4))
    >>> [head] = placements(Weights.draw(config, seed=0))
    >>> f"without positions {head.positions}, {head.tokens}"
    'without positions 0.0, 1.0'
    """
    weights = widened(weights)
    chosen = every_head(weights.config) if heads is None else [find_head(head, weights.config) for head in heads]
    even = torch.ones(weights.config.vocab, dtype=torch.float64)
    shares = distribution(even if frequencies is None else frequencies, weights.config.vocab).to(weights.device)
    known: dict[bool, Moments] = {}
    found: dict[Head, Placement] = {}
    with torch.no_grad():
        for layer in sorted({head.layer for head in chosen}):
            reader = Reader(weights, f"L{layer}.attention", scales, reads_marks=True)
            tokens = reader.basis("tokens")
            # All layers read the same embedding, but for the one that reads each token at its own scale.
            alike = tokens.own_scales is None
            known[alike] = known.get(alike) or Moments.of(tokens, shares)
            here = _Layer(reader, tokens, known[alike])
            found |= {head: here.placement(head) for head in chosen if head.layer == layer}
    return tuple(found[head] for head in chosen)


@dataclass(frozen=True, eq=False)
class Moments:
    """Mean and covariance of vectors."""

    mean: Float[Tensor, " d"]
    spread: Float[Tensor, "d d"]

    @staticmethod
    def of(basis: Basis, shares: Float[Tensor, " line"]) -> "Moments":
        """Those of a basis, line by line as often as they occur."""
        size = basis.vectors.shape[1]
        mean, spread = shares.new_zeros(size), shares.new_zeros(size, size)
        for centre in (False, True):
            for start in range(0, len(shares), CHUNK):
                some = slice(start, start + CHUNK)
                lines = basis.vectors[some].double()
                lines = lines if basis.own_scales is None else lines * basis.own_scales[some, None]
                if centre:
                    # Around the mean, which is therefore found first: squares would drown small differences.
                    spread.addmm_((lines - mean).T * shares[some], lines - mean)
                else:
                    mean += shares[some] @ lines
        return Moments(mean, spread)

    def through(self, W: Float[Tensor, "d any"], shift: Float[Tensor, " any"]) -> "Moments":
        """Those of ``x W + shift``."""
        return Moments(self.mean @ W + shift, W.T @ self.spread @ W)


@dataclass(frozen=True, eq=False)
class Parts:
    """Mean variances over sources."""

    positions: float
    tokens: float
    together: float = 0.0


class _Layer:
    """One attention layer: what its heads share."""

    def __init__(self, reader: Reader, tokens: Basis, moments: Moments) -> None:
        self.weights, self.tokens, self.moments = reader.weights, tokens, moments
        config = self.weights.config
        assert config.attention is not None, "whoever has heads has attention"
        self.attention, self.scale = self.weights.blocks[reader.depth].attention, config.attention.scale
        self.causal = config.attention.mask == "causal"
        self.length = 1 if isinstance(config.positions, NoPositions) else min(config.context, LONGEST)
        placed = place(self.weights, 0, self.length)
        self.turn = placed.turn
        is_added = placed.in_stream is not None or placed.in_queries_and_keys is not None
        self.positions = reader.basis("positions") if is_added else None
        self.biases = reader.basis("biases")
        sides = (tokens, self.biases, *([self.positions] if self.positions else []))
        some = (f"the first {self.length:,} positions",) if 1 < self.length < config.context else ()
        self.given = tuple(dict.fromkeys(label for side in sides for label in side.given)) + some

    def placement(self, head: Head) -> Placement:
        shared = key_head(self.weights.config, head)
        W_Q, b_Q = _of(self.attention.W_Q, self.attention.b_Q, head.head, self.scale)
        W_K, b_K = _of(self.attention.W_K, self.attention.b_K, shared)
        queries, keys = self._read(W_Q, b_Q), self._read(W_K, b_K)
        if self.turn is not None:
            parts = turned(queries, keys, self.turn, causal=self.causal)
        else:
            sees = visible(self.length, causal=self.causal).to(self.weights.device)
            parts = added(queries, keys, (self._placed(W_Q), self._placed(W_K)), sees)
        variance = parts.positions + parts.tokens + parts.together
        shares = {name: value / variance if variance else 0.0 for name, value in asdict(parts).items()}
        return Placement(head=head, variance=variance, given=self.given, **shares)

    def _read(self, W: Float[Tensor, "d_model d_head"], b: Float[Tensor, " d_head"]) -> Moments:
        """Queries or keys of tokens, with all that is constant."""
        constant = (self.biases.vectors.double() @ self.biases.passage.pull(W)).sum(dim=0) + b
        return self.moments.through(self.tokens.passage.pull(W), constant)

    def _placed(self, W: Float[Tensor, "d_model d_head"]) -> Float[Tensor, "pos d_head"]:
        """What positions add to queries or keys."""
        if self.positions is None:
            return W.new_zeros(self.length, W.shape[1])
        return self.positions.vectors[: self.length].double() @ self.positions.passage.pull(W)


def added(
    queries: Moments,
    keys: Moments,
    placed: tuple[Float[Tensor, "pos d_head"], Float[Tensor, "pos d_head"]],
    sees: Float[Tensor, "pos pos"],
) -> Parts:
    """Positions that are added to queries and keys: scores are a sum, and so are their variances.

    For a query ``x`` at position ``i`` they are ``xᵀ Cov_A(k) x`` and ``xᵀ Cov_{j seen from i}(k) x``; the mean over tokens takes ``x xᵀ`` to its moment.
    """
    centres, offered = queries.mean + placed[0], placed[1] - placed[1].mean(dim=0)
    scores, seen = centres @ offered.T, sees @ offered
    along = (sees * scores.square()).sum(dim=1) - (sees * scores).sum(dim=1).square()
    spread = (offered.T * sees.mean(dim=0)) @ offered - seen.T @ seen / len(sees)
    asked = queries.spread + centres.T @ centres / len(sees)
    positions = float(along.mean() + (spread * queries.spread).sum())
    return Parts(max(positions, 0.0), float((asked * keys.spread).sum()))


def turned(queries: Moments, keys: Moments, turn: Turn, *, causal: bool) -> Parts:
    """Rotary positions, which turn a query by how far its source lies behind: ``s = (x R_o) · k``, ``R_o = Σ v_o[part] E[part]``.

    With ``G(M)[a, b] = tr(E_aᵀ E[x xᵀ] E_b M)`` each variance is the scalar product of ``G`` with a moment of ``v``: of the keys' mean with the
    covariance of ``v`` over the sources that a destination sees, of their covariance with ``v̄ v̄ᵀ``, and of that with the covariance of ``v``.
    """
    generators = _generators(turn, len(queries.mean))
    spread, middle = _offsets(turn, causal=causal)
    asked = generators.mT @ (queries.spread + queries.mean.outer(queries.mean))

    def answered(M: Float[Tensor, "d_head d_head"]) -> Float[Tensor, "part part"]:
        return asked.flatten(1) @ (generators @ M).mT.flatten(1).T

    by_mean, by_spread = answered(keys.mean.outer(keys.mean)), answered(keys.spread)
    found = ((spread * by_mean).sum(), (middle * by_spread).sum(), (spread * by_spread).sum())
    return Parts(*(max(float(part), 0.0) for part in found))


def visible(length: int, *, causal: bool) -> Float[Tensor, "pos pos"]:
    """For each destination its sources, each with the same share.

    >>> visible(2, causal=True)
    tensor([[1.0000, 0.0000],
            [0.5000, 0.5000]], dtype=torch.float64)
    """
    allowed = torch.ones(length, length, dtype=torch.float64)
    allowed = allowed.tril() if causal else allowed
    return allowed / allowed.sum(dim=1, keepdim=True)


def _of(
    W: Float[Tensor, "any d_model d_head"], b: Float[Tensor, "any d_head"] | None, number: int, scale: float = 1.0
) -> tuple[Float[Tensor, "d_model d_head"], Float[Tensor, " d_head"]]:
    """The matrix and the bias of one head, in float64."""
    bias = W.new_zeros(W.shape[2]) if b is None else b[number]
    return W[number].double() * scale, bias.double() * scale


def _generators(turn: Turn, d_head: int) -> Float[Tensor, "part d_head d_head"]:
    """The matrices that a rotation is a sum of: one for each cosine, one for each sine, one for the entries that stay."""
    pairs = turn.cos.shape[1]
    eye = torch.eye(pairs).to(turn.cos.device, torch.float64)
    nothing, stay = torch.zeros_like(eye), torch.zeros_like(eye[:1])
    units = Turn(torch.cat([eye, nothing, stay]), torch.cat([nothing, eye, stay]), turn.halves)
    entries = torch.eye(d_head).to(eye)[None, :, None].expand(1, d_head, 2 * pairs + 1, d_head)
    parts = units(entries)[0].transpose(0, 1)
    return torch.cat([parts[:-1] - parts[-1], parts[-1:]])


def _offsets(turn: Turn, *, causal: bool) -> tuple[Float[Tensor, "part part"], Float[Tensor, "part part"]]:
    """Over all destinations the mean covariance of ``v`` over their sources, and the mean ``v̄ v̄ᵀ``."""
    cos, sin = turn.cos.double(), turn.sin.double()
    back = torch.cat([cos, sin, torch.ones_like(cos[:, :1])], dim=1)
    ahead = torch.cat([cos, -sin, torch.ones_like(cos[:, :1])], dim=1)
    length = len(cos)
    v = torch.cat([ahead[1:].flip(0), back])
    behind = torch.arange(1 - length, length)
    source = torch.arange(length)[:, None] - behind
    allowed = ((source >= 0) & (source < length) & ((behind >= 0) | (not causal))).to(v)
    sees = allowed / allowed.sum(dim=1, keepdim=True)
    middles, around = sees @ v, v - v.mean(dim=0)
    seen = sees @ around
    spread = (around.T * sees.mean(dim=0)) @ around - seen.T @ seen / length
    return spread, middles.T @ middles / length
