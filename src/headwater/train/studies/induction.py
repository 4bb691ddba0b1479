"""Random tokens, twice: which heads find what followed last time, and what the model gains by it.

On ``s₁ … s_L s₁ … s_L`` nothing but the first half tells what comes in the second. The *induction score* of a head is its mean
attention, over the destinations of the second half, to the token after the earlier occurrence of the destination's token:
``mean_p A[p, p − L + 1]``. 1 is a perfect induction head; ``1/p`` is what a head gives that looks everywhere alike.
"""

from dataclasses import dataclass
from typing import Any

import torch

from headwater.errors import InputError
from headwater.model.forward import forward
from headwater.model.taps import Recorder
from headwater.model.weights import Weights
from headwater.show.values import Line, Panel, Progress, Table, silent


@dataclass(frozen=True, kw_only=True)
class Induction:
    """Scores of all heads, and the loss at each position of a text that repeats itself."""

    scores: dict[str, float]
    even: float
    """What a head scores that attends to all positions alike."""
    nats: tuple[float, ...]
    """Of the token after each position, on the average over all sequences."""
    segment: int
    sequences: int

    @property
    def best(self) -> tuple[str, float]:
        """The head with the highest score."""
        return max(self.scores.items(), key=lambda item: item[1])

    @property
    def before(self) -> float:
        """Mean nats of the first segment's tokens, which nobody can know."""
        return sum(self.nats[: self.segment - 1]) / (self.segment - 1)

    @property
    def after(self) -> float:
        """Mean nats of the second segment's tokens but the first, all of which have been seen."""
        return sum(self.nats[self.segment :]) / len(self.nats[self.segment :])

    def tables(self) -> tuple[Table, ...]:
        """Heads by score, then the loss."""
        ranked = sorted(self.scores.items(), key=lambda item: -item[1])
        heads = (*((head, f"{score:.3f}") for head, score in ranked), ("even attention", f"{self.even:.3f}"))
        losses = (
            ("first time", f"{self.before:.3f}"),
            ("second time", f"{self.after:.3f}"),
        )
        return (
            Table(title="induction score", columns=("head", "score#"), rows=heads),
            Table(title="loss on random tokens", columns=("", "nats#"), rows=losses),
        )

    def plain(self) -> dict[str, Any]:
        """For programs."""
        return {
            "heads": [{"head": head, "score": score} for head, score in self.scores.items()],
            "even": self.even,
            "nats_first": self.before,
            "nats_second": self.after,
            "nats": list(self.nats),
            "segment": self.segment,
            "sequences": self.sequences,
        }

    def curves(self) -> tuple[Panel, ...]:
        """Loss against position."""
        line = Line(label="model", x=tuple(range(1, len(self.nats) + 1)), y=self.nats)
        return (Panel(title="random tokens, twice", x="position", y="nats", lines=(line,)),)


def run(weights: Weights, *, sequences: int = 16, seed: int = 0, progress: Progress = silent) -> Induction:
    """The induction scores of a model's heads."""
    config = weights.config
    segment = config.context // 2
    if config.layers == 0 or segment < 2:
        raise InputError(f"a model of {config.layers} layers and context {config.context}", "heads, and room for two segments", "choose another model")  # fmt: skip
    if config.attention is not None and config.attention.mask != "causal":
        raise InputError("a model that attends to later tokens", "causal attention", "such a model need not look back")
    tokens = torch.randint(config.vocab, (sequences, segment), generator=torch.Generator().manual_seed(seed))
    tokens = tokens.repeat(1, 2).to(weights.device)
    watch = Recorder(["*.pattern"])
    with torch.no_grad():
        logits = forward(weights, tokens, watch)
    progress("looking", 1.0)
    nats = -logits[:, :-1].log_softmax(-1).gather(-1, tokens[:, 1:, None])[..., 0]
    dest = torch.arange(segment, 2 * segment, device=weights.device)
    scores = {
        f"L{layer}H{head}": float(watch.kept[f"L{layer}.pattern"][:, head, dest, dest - segment + 1].mean())
        for layer in range(config.layers)
        for head in range(config.heads)
    }
    return Induction(
        scores=scores,
        even=float((1 / (dest + 1)).mean()),
        nats=tuple(map(float, nats.mean(dim=0))),
        segment=segment,
        sequences=sequences,
    )
