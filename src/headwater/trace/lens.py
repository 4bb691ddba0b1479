"""The logit lens: what a model would say if a stage of the stream were its last.

The last norm is calculated anew from the stage itself, as the model does at the end. (An account of a logit must not do that: it holds
the scale of the run fixed.) A post-norm model has no last norm, so there the lens is the unembedding itself, as it is where the
unembedding's own input is looked at.
"""

from dataclasses import dataclass

import torch
from jaxtyping import Float, Int
from torch import Tensor

from headwater.model.forward import affine, unembed
from headwater.model.weights import Weights
from headwater.shapes import floats, whole

ENTRIES = 2**22
"""Logits made at a time: 32 MB of them, whatever the vocabulary and the number of positions."""


@dataclass(frozen=True, eq=False)
class Lens:
    """What is said at one stage: the likeliest tokens, one chosen token, and how sure all of it is."""

    ids: Int[Tensor, "pos top"]
    """The likeliest tokens, in order."""
    chances: Float[Tensor, "pos top"]
    """Their probabilities."""
    chance: Float[Tensor, " pos"]
    """The chosen token's probability."""
    rank: Int[Tensor, " pos"]
    """1 where no token is likelier than the chosen one."""
    entropy: Float[Tensor, " pos"]
    """``−Σ p log p`` over the vocabulary, in nats."""

    def likeliest(self, position: int) -> list[tuple[int, float]]:
        """The likeliest tokens at one position, with their probabilities."""
        return list(zip(whole(self.ids[position]), floats(self.chances[position]), strict=True))


@torch.no_grad()
def lens(
    weights: Weights, x: Float[Tensor, "pos d_model"], chosen: Int[Tensor, " pos"], *, top: int, is_final: bool = False
) -> Lens:
    """Read a stage; ``is_final`` where it is what the unembedding reads already."""
    step = max(1, ENTRIES // weights.config.vocab)
    count = min(top, weights.config.vocab)
    pieces: list[tuple[Tensor, ...]] = []
    for first in range(0, len(x), step):
        some = x[first : first + step]
        logits = affine(some, weights.W_U, weights.b_U) if is_final else unembed(weights, some[None])[0]
        pieces.append(_said(logits, chosen[first : first + step], count))
    return Lens(*(torch.cat(parts) for parts in zip(*pieces, strict=True)))


def _said(logits: Tensor, chosen: Tensor, top: int) -> tuple[Tensor, ...]:
    logs = logits.double().log_softmax(dim=-1)
    best, own = logs.topk(top, dim=-1), logs.gather(-1, chosen[:, None])
    entropy = (logs.exp() * -logs).sum(dim=-1)
    return best.indices, best.values.exp(), own[:, 0].exp(), 1 + (logs > own).sum(dim=-1), entropy
