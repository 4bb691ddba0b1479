"""Cross-entropy that never holds all logits.

At GPT-2's vocabulary the logits of 4,096 tokens take 800 MB, and their gradient as much again. Here some hundred tokens at a time are
unembedded, turned into probabilities and at once into gradients; what is kept has the shapes of the stream and of ``W_U``. Nothing is
computed twice.

With ``p = softmax(x W_U + b_U)``, a row for each token, and ``y`` the one-hot targets::

    loss = −mean log p[target]      ∂loss/∂x   = (p − y) W_Uᵀ / tokens
                                    ∂loss/∂W_U = xᵀ (p − y) / tokens
                                    ∂loss/∂b_U = Σ (p − y) / tokens
"""

import math
from collections.abc import Iterator
from typing import Any, cast

import torch
from jaxtyping import Float, Int
from torch import Tensor
from torch.nn import functional


def cross_entropy(
    stream: Float[Tensor, "tokens d_model"],
    W_U: Float[Tensor, "d_model vocab"],
    b_U: Float[Tensor, " vocab"] | None,
    targets: Int[Tensor, " tokens"],
) -> Float[Tensor, ""]:
    """The mean cross-entropy in nats of ``targets`` under ``softmax(stream W_U + b_U)``, differentiable once.

    The gradients are made in the forward pass, for those inputs that need one, and handed out by ``backward``. Under autocast
    products are in half precision, probabilities and sums in float32.

    >>> cross_entropy(torch.zeros(3, 2), torch.zeros(2, 5), None, torch.tensor([0, 4, 1])).exp()
    tensor(5.)
    """
    if torch.is_grad_enabled() and any(x is not None and x.requires_grad for x in (stream, W_U, b_U)):
        return cast(Tensor, _CrossEntropy.apply(stream, W_U, b_U, targets))
    return nats(stream, W_U, b_U, targets).mean()


@torch.no_grad()
def nats(
    stream: Float[Tensor, "tokens d_model"],
    W_U: Float[Tensor, "d_model vocab"],
    b_U: Float[Tensor, " vocab"] | None,
    targets: Int[Tensor, " tokens"],
) -> Float[Tensor, " tokens"]:
    """The cross-entropy of each target, without gradients.

    >>> nats(torch.tensor([[2.0], [0.0]]), torch.tensor([[1e4, 0.0]]), None, torch.tensor([1, 1])).tolist()
    [20000.0, 0.6931471824645996]
    """
    x, W = _for_products(stream, W_U)
    return torch.cat([loss for *_, loss in _in_chunks(x, W, b_U, targets)])


class _CrossEntropy(torch.autograd.Function):
    @staticmethod
    def forward(ctx: Any, stream: Tensor, W_U: Tensor, b_U: Tensor | None, targets: Tensor) -> Tensor:
        x, W = _for_products(stream, W_U)
        # Laid out as the inputs are, so that a parameter takes its gradient as it comes.
        d_stream, d_W_U, d_b_U = (
            torch.zeros_like(tensor, dtype=_sum_format(x)) if tensor is not None and needed else None
            for tensor, needed in zip((stream, W_U, b_U), ctx.needs_input_grad[:3], strict=True)
        )
        losses: list[Tensor] = []
        for some, p, loss in _in_chunks(x, W, b_U, targets):
            losses.append(loss)
            p.scatter_add_(1, targets[some, None], p.new_full((len(p), 1), -1.0))
            if d_stream is not None:
                _add_product(d_stream[some], p, W.T, 1 / len(targets))
            if d_W_U is not None:
                _add_product(d_W_U, x[some].T, p, 1 / len(targets))
            if d_b_U is not None:
                d_b_U.add_(p.sum(dim=0), alpha=1 / len(targets))
        ctx.save_for_backward(d_stream, d_W_U, d_b_U)
        return torch.cat(losses).mean()

    @staticmethod
    def backward(ctx: Any, d_loss: Tensor) -> tuple[Tensor | None, ...]:  # pyright: ignore[reportIncompatibleMethodOverride]
        if torch.is_grad_enabled():
            raise RuntimeError("this loss can be differentiated once, not twice: call backward without create_graph")
        gradients: tuple[Tensor | None, ...] = ctx.saved_tensors
        if d_loss != 1:
            gradients = tuple(None if gradient is None else gradient * d_loss for gradient in gradients)
        return *gradients, None


def _in_chunks(x: Tensor, W: Tensor, b: Tensor | None, targets: Tensor) -> Iterator[tuple[slice, Tensor, Tensor]]:
    """Which tokens, their probabilities, in memory that the next chunk overwrites, and the cross-entropy of their targets."""
    vocab = W.shape[1]
    chunks = math.ceil(len(x) / tokens_at_once(vocab))
    size = math.ceil(len(x) / chunks)
    # Rows that begin at multiples of 64 bytes make products faster by a fifth where the vocabulary is odd.
    room = torch.empty(size, 16 * math.ceil(vocab / 16), dtype=_sum_format(x), device=x.device)
    for start in range(0, len(x), size):
        some = slice(start, start + size)
        padded = room[: len(x[some])]
        padded[:, vocab:] = -torch.inf
        p = _unembed(x[some], W, b, out=padded[:, :vocab])
        torch.softmax(padded, dim=1, out=padded)
        chosen = p.gather(1, targets[some, None])[:, 0]
        loss = -chosen.log()
        # A probability can be too small for its number format, though its logarithm is not.
        small = chosen < torch.finfo(p.dtype).tiny
        if small.any():
            logits = _unembed(x[some][small], W, b, out=p.new_empty(int(small.sum()), vocab))
            loss[small] = functional.cross_entropy(logits, targets[some][small], reduction="none")
        yield some, p, loss


def tokens_at_once(vocab: int) -> int:
    """Tokens in a chunk, at most: enough for matrix products to run at full speed, and their logits in a processor's cache if they fit.

    >>> tokens_at_once(4096), tokens_at_once(50_257)
    (976, 512)
    """
    return min(1024, max(512, 4_000_000 // vocab))


def _unembed(x: Tensor, W: Tensor, b: Tensor | None, out: Tensor) -> Tensor:
    if x.dtype == out.dtype:
        torch.mm(x, W, out=out)
    else:
        out.copy_(x @ W)
    if b is not None:
        out += b
    return out


def _add_product(total: Tensor, left: Tensor, right: Tensor, share: float) -> None:
    if left.dtype == right.dtype:
        total.addmm_(left, right, alpha=share)
    else:
        half = left.dtype if right.dtype == total.dtype else right.dtype
        total.add_(left.to(half) @ right.to(half), alpha=share)


def _for_products(stream: Tensor, W_U: Tensor) -> tuple[Tensor, Tensor]:
    """Both in the number format of products: what autocast asks for, or the stream's own."""
    device = stream.device.type
    quick = torch.get_autocast_dtype(device) if torch.is_autocast_enabled(device) else stream.dtype
    return stream.to(quick), W_U.to(quick)


def _sum_format(x: Tensor) -> torch.dtype:
    return torch.promote_types(x.dtype, torch.float32)
