"""Attention in three equal forms, and PyTorch's fused one.

``softmax(q kᵀ · scale) v`` for queries, keys and values that are already made: as the documents' four steps in loops, as
matrices, and in blocks that never hold a whole pattern. The forward pass uses the matrix form when somebody looks at scores or
patterns and the fused form, whose memory is linear in the context, when nobody does; all four agree.
"""

import math
from dataclasses import dataclass
from typing import Literal

import torch
from einops import einsum
from jaxtyping import Bool, Float, Int
from torch import Tensor
from torch.nn.functional import scaled_dot_product_attention

from headwater.shapes import Pattern, Queries

Mixed = Float[Tensor, "batch head dest d_head"]
Sources = Float[Tensor, "batch head source d_head"]


@dataclass(frozen=True)
class Rule:
    """Which sources a destination may see, and what scores are multiplied by.

    The last destination is the last source: with fewer destinations than sources, the earlier ones lie in the past.
    """

    mask: Literal["causal", "full"]
    scale: float

    def allowed(self, dest: int, source: int, some: slice = slice(None)) -> Bool[Tensor, "dest source"]:
        """True where a destination may look; ``some`` sources only, if given.

        >>> Rule("causal", 1.0).allowed(2, 3).int()
        tensor([[1, 1, 0],
                [1, 1, 1]], dtype=torch.int32)
        """
        last_seen = source - dest + torch.arange(dest) if self.mask == "causal" else torch.full((dest,), source)
        return torch.arange(source)[some] <= last_seen[:, None]


def scores(q: Queries, k: Sources, rule: Rule, at: Int[Tensor, " dest"] | None = None) -> Pattern:
    """``q kᵀ · scale``, −∞ where a destination may not look; ``at`` are the destinations' positions where they are only some."""
    raw = einsum(q, k, "batch head dest d_head, batch head source d_head -> batch head dest source") * rule.scale
    source = k.shape[2]
    allowed = rule.allowed(q.shape[2], source) if at is None else rule.allowed(source, source)[at.cpu()]
    return raw.masked_fill(~allowed.to(raw.device), -math.inf)


def mix(pattern: Pattern, v: Sources) -> Mixed:
    """Values mixed by the pattern: each destination's row is a convex combination of values."""
    return einsum(pattern, v, "batch head dest source, batch head source d_head -> batch head dest d_head")


def matrix(q: Queries, k: Sources, v: Sources, rule: Rule) -> Mixed:
    """The three matrix products of the textbook."""
    return mix(scores(q, k, rule).softmax(dim=-1), v)


def fused(q: Queries, k: Sources, v: Sources, rule: Rule) -> Mixed:
    """PyTorch's own attention; no pattern is ever held."""
    dest, source = q.shape[2], k.shape[2]
    if rule.mask == "full" or dest == 1:
        return scaled_dot_product_attention(q, k, v, scale=rule.scale)
    if dest == source:
        return scaled_dot_product_attention(q, k, v, is_causal=True, scale=rule.scale)
    # A piece of a text whose beginning is in a cache: PyTorch would want the whole mask.
    return blockwise(q, k, v, rule)


def four_steps(q: Queries, k: Sources, v: Sources, rule: Rule) -> Mixed:
    """Document 003's steps one by one: score, exponential, normalisation, weighted sum. Slow, to be read."""
    batch, head, dest, d_head = q.shape
    allowed = rule.allowed(dest, k.shape[2])
    out = torch.zeros_like(q)
    for b in range(batch):
        for h in range(head):
            for i in range(dest):
                seen = [j for j in range(k.shape[2]) if allowed[i, j]]
                s = [float(sum(q[b, h, i, e] * k[b, h, j, e] for e in range(d_head))) * rule.scale for j in seen]
                weight = [math.exp(score - max(s)) for score in s]
                for share, j in zip(weight, seen, strict=True):
                    out[b, h, i] += share / sum(weight) * v[b, h, j]
    return out


def blockwise(q: Queries, k: Sources, v: Sources, rule: Rule, *, size: int = 128) -> Mixed:
    """Sources in blocks of ``size``, with a running maximum and sum: exact, and no pattern is ever whole."""
    highest = torch.full_like(q[..., :1], -math.inf)
    total, out = torch.zeros_like(highest), torch.zeros_like(q)
    for start in range(0, k.shape[2], size):
        some = slice(start, start + size)
        raw = (
            einsum(q, k[:, :, some], "batch head dest d_head, batch head source d_head -> batch head dest source") * rule.scale
        )
        raw = raw.masked_fill(~rule.allowed(q.shape[2], k.shape[2], some).to(q.device), -math.inf)
        higher = torch.maximum(highest, raw.amax(dim=-1, keepdim=True))
        # A destination that may look at nothing yet has no maximum; 0 stands in for −∞ − (−∞).
        safe = higher.masked_fill(higher == -math.inf, 0.0)
        weight, shrink = (raw - safe).exp(), (highest - safe).exp()
        total = total * shrink + weight.sum(dim=-1, keepdim=True)
        out = out * shrink + mix(weight, v[:, :, some])
        highest = higher
    return out / total
