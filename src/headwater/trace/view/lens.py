"""The logit lens: what a model would say if a stage of the stream were its last.

The last norm is calculated anew from the stage itself, as the model does at the end. (An account of a logit must not do that: it holds
the scale of the run fixed.) A post-norm model has no last norm, so there the lens is the unembedding itself, as it is where the
unembedding's own input is looked at.
"""

from dataclasses import dataclass

import torch
from jaxtyping import Float, Int
from torch import Tensor

from headwater.model.forward import affine, last_norm
from headwater.model.weights import Weights
from headwater.shapes import floats, whole
from headwater.show.values import Progress, silent
from headwater.trace.view.stages import Seen, Stage

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


def lenses(seen: Seen, chosen: Int[Tensor, " pos"], *, top: int, tell: Progress = silent) -> tuple[Lens, ...]:
    """What every stage would say, and its probability and rank of the ``chosen`` tokens."""
    weights, found = seen.record.weights, list[Lens]()
    # Few positions of many stages in one product, many positions stage by stage.
    together = max(1, ENTRIES // weights.config.vocab // len(chosen))
    for first in range(0, len(seen.stages), together):
        some = seen.stages[first : first + together]
        tell(f"what {some[0].name} would say", first / len(seen.stages))
        read = torch.cat([_read(seen, stage) for stage in some])
        found += _each(lens(weights, read, chosen.repeat(len(some)), top=top), len(some))
    return tuple(found)


def _read(seen: Seen, stage: Stage) -> Float[Tensor, "pos d_model"]:
    """What the unembedding would read."""
    is_final = "final" in (stage.name, *stage.also)
    return seen[stage.name] if is_final else last_norm(seen.record.weights, seen[stage.name][None])[0]


@torch.no_grad()
def lens(weights: Weights, read: Float[Tensor, "pos d_model"], chosen: Int[Tensor, " pos"], *, top: int) -> Lens:
    """What the unembedding says to what it reads; of its logits only some are there at a time."""
    step, count = max(1, ENTRIES // weights.config.vocab), min(top, weights.config.vocab)
    pieces = [
        _said(affine(read[first : first + step], weights.W_U, weights.b_U), chosen[first : first + step], count)
        for first in range(0, len(read), step)
    ]
    return Lens(*(torch.cat(parts) for parts in zip(*pieces, strict=True)))


def _each(joined: Lens, count: int) -> list[Lens]:
    """The lenses of so many stages, one after the other in ``joined``."""
    parts = (joined.ids, joined.chances, joined.chance, joined.rank, joined.entropy)
    return [Lens(*each) for each in zip(*(part.chunk(count) for part in parts), strict=True)]


def _said(logits: Tensor, chosen: Tensor, top: int) -> tuple[Tensor, ...]:
    logs = logits.double().log_softmax(dim=-1)
    best, own = logs.topk(top, dim=-1), logs.gather(-1, chosen[:, None])
    entropy = (logs.exp() * -logs).sum(dim=-1)
    return best.indices, best.values.exp(), own[:, 0].exp(), 1 + (logs > own).sum(dim=-1), entropy
