"""Cross-entropy that never holds all logits.

At GPT-2's vocabulary the logits of 4,096 tokens take 800 MB, and their gradient as much again. Here a few hundred tokens at a time
are unembedded, turned into probabilities and at once into gradients; what is kept has the shape of the stream and of ``W_U``.
Nothing is computed twice, so it is also faster than the plain way.

With ``p = softmax(x W_U + b_U)``, one row for each token, and ``y`` the one-hot targets::

    loss = −mean log p[target]      ∂loss/∂x = (p − y) W_Uᵀ / tokens
                                    ∂loss/∂W_U = xᵀ (p − y) / tokens,  ∂loss/∂b_U = Σ (p − y) / tokens
"""

from collections.abc import Iterator
from typing import Any

import torch
from jaxtyping import Float, Int
from torch import Tensor
from torch.autograd.function import once_differentiable

ENTRIES_AT_ONCE = 4_000_000
"""Logits held at a time: few enough to stay in a processor's cache, enough for its matrix products to run at full speed."""


def cross_entropy(
    stream: Float[Tensor, "tokens d_model"],
    W_U: Float[Tensor, "d_model vocab"],
    b_U: Float[Tensor, " vocab"] | None,
    targets: Int[Tensor, " tokens"],
) -> Float[Tensor, ""]:
    """The mean cross-entropy in nats of ``targets`` under ``softmax(stream W_U + b_U)``, differentiable once.

    The gradients are made in the forward pass, for those inputs that need one, and handed out by the first ``backward``.

    >>> cross_entropy(torch.zeros(3, 2), torch.zeros(2, 5), None, torch.tensor([0, 4, 1])).exp()
    tensor(5.)
    """
    if torch.is_grad_enabled() and any(x is not None and x.requires_grad for x in (stream, W_U, b_U)):
        return _CrossEntropy.apply(stream, W_U, b_U, targets)
    return nats(stream, W_U, b_U, targets).mean()


@torch.no_grad()
def nats(
    stream: Float[Tensor, "tokens d_model"],
    W_U: Float[Tensor, "d_model vocab"],
    b_U: Float[Tensor, " vocab"] | None,
    targets: Int[Tensor, " tokens"],
) -> Float[Tensor, " tokens"]:
    """The cross-entropy of each target, without gradients."""
    parts = [
        _to_probabilities(_unembed(stream[some], W_U, b_U), targets[some]) for some in _chunks(len(targets), W_U.shape[1])
    ]
    return torch.cat(parts)


class _CrossEntropy(torch.autograd.Function):
    @staticmethod
    def forward(ctx: Any, stream: Tensor, W_U: Tensor, b_U: Tensor | None, targets: Tensor) -> Tensor:
        of_stream, of_W_U, of_b_U, _ = ctx.needs_input_grad
        share = 1 / len(targets)
        d_stream = torch.empty_like(stream) if of_stream else None
        # Laid out as W_U is, so that a tied embedding takes its gradient as it comes.
        d_W_U = torch.zeros_like(W_U) if of_W_U else None
        d_b_U = torch.zeros_like(b_U) if of_b_U and b_U is not None else None
        losses = torch.empty(len(targets), dtype=stream.dtype, device=stream.device)
        for some in _chunks(len(targets), W_U.shape[1]):
            x, target = stream[some], targets[some]
            p = _unembed(x, W_U, b_U)
            losses[some] = _to_probabilities(p, target)
            p.scatter_add_(1, target[:, None], p.new_full((len(target), 1), -1.0))
            if d_stream is not None:
                torch.mm(p, W_U.T, out=d_stream[some])
                d_stream[some] *= share
            if d_W_U is not None:
                d_W_U.addmm_(x.T, p, alpha=share)
            if d_b_U is not None:
                d_b_U.add_(p.sum(dim=0), alpha=share)
        ctx.gradients = d_stream, d_W_U, d_b_U
        return losses.mean()

    @staticmethod
    @once_differentiable
    def backward(ctx: Any, d_loss: Tensor) -> tuple[Tensor | None, ...]:
        if ctx.gradients is None:
            raise RuntimeError("the gradients of this loss were handed out by the first backward; compute the loss again")
        gradients, ctx.gradients = ctx.gradients, None
        return *(None if gradient is None else gradient.mul_(d_loss) for gradient in gradients), None


def _unembed(x: Tensor, W_U: Tensor, b_U: Tensor | None) -> Tensor:
    return x @ W_U if b_U is None else torch.addmm(b_U, x, W_U)


def _to_probabilities(logits: Tensor, targets: Tensor) -> Tensor:
    """Logits become probabilities in place; what comes back is each target's cross-entropy, exact for any size of logit."""
    target = logits.gather(1, targets[:, None])[:, 0]
    largest = logits.amax(dim=1)
    torch.softmax(logits, dim=1, out=logits)
    # The largest logit's probability is 1/Σ exp(logit − largest), and never underflows.
    return largest - target - logits.amax(dim=1).log()


def _chunks(tokens: int, vocab: int) -> Iterator[slice]:
    size = min(1024, max(256, ENTRIES_AT_ONCE // vocab))
    return (slice(start, start + size) for start in range(0, tokens, size))
