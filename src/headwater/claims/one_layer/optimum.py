"""The direct logits of one present token that training would end in, where heads add something else in each of its contexts.

Cross-entropy sees the sum of the two. What is best for the direct part therefore depends on what heads say, and this finds it for
heads that are given: small enough to be solved exactly.
"""

from collections.abc import Callable
from dataclasses import dataclass
from typing import cast

import torch
from jaxtyping import Float
from torch import Tensor
from torch.autograd import functional

NEXT, CONTEXTS = 10, 40
ROUNDS = 12


@dataclass(frozen=True, eq=False)
class Contexts:
    """What comes next in each context of one present token, all contexts equally likely."""

    p: Float[Tensor, "context next"]

    @staticmethod
    def drawn(seed: int = 0) -> "Contexts":
        """Probabilities at random, none of them nothing, with something in common."""
        return Contexts((logits_at_random(seed) + logits_at_random(seed + 1)[0]).softmax(dim=-1))

    @property
    def bigram(self) -> Float[Tensor, " next"]:
        """``ln p(next | present)``: the mean over contexts."""
        return self.p.mean(dim=0).log()

    def best_direct(self, heads: Float[Tensor, "context next"]) -> Float[Tensor, " next"]:
        """The direct logits of the least cross-entropy beside these heads, by Newton's method; their mean is nothing."""

        def loss(direct: Tensor) -> Tensor:
            return -(self.p * (direct + heads).log_softmax(dim=-1)).sum(dim=-1).mean()

        direct = self.bigram - heads.mean(dim=0)
        for _ in range(ROUNDS):
            inverse = cast(Tensor, torch.linalg.pinv(bend(loss, direct)))
            direct = direct - inverse @ slope(loss, direct)
        return centred(direct)


def logits_at_random(seed: int) -> Float[Tensor, "context next"]:
    """Of spread one."""
    return torch.randn(CONTEXTS, NEXT, generator=torch.Generator().manual_seed(seed), dtype=torch.float64)


def centred(logits: Float[Tensor, "*rows next"]) -> Float[Tensor, "*rows next"]:
    """Without the constant that a softmax does not see."""
    return logits - logits.mean(dim=-1, keepdim=True)


def slope(loss: Callable[[Tensor], Tensor], at: Tensor) -> Tensor:
    """All first derivatives, by automatic differentiation."""
    return cast(Tensor, functional.jacobian(loss, at))


def bend(loss: Callable[[Tensor], Tensor], at: Tensor) -> Tensor:
    """All second derivatives."""
    return cast(Tensor, functional.hessian(loss, at))
