"""What a norm changed: ``s · (x − mean) ∘ gain + bias``, step by step.

A norm may do three things to a direction, beside setting the length: take its mean out, stretch its entries by the gain, and add the bias.
Each of them turns the vector, and so do they all together.
"""

import math
from dataclasses import dataclass
from typing import Any

import torch
from jaxtyping import Float
from torch import Tensor

from headwater.model.config import LayerNorm, NoNorm, PostNorm, RMSNorm
from headwater.model.weights import NormWeights
from headwater.shapes import floats
from headwater.trace.view.stages import Seen

Measured = Float[Tensor, " pos"]


@dataclass(frozen=True, eq=False)
class Normed:
    """What one norm did at each position. Angles are in degrees."""

    name: str
    """``L0.norm_1``, ``final``."""
    reads: str
    makes: str
    """The stages before and after."""
    mean: Measured
    """The mean entry, which is taken out; RMSNorm leaves it in."""
    lost: Measured
    """The share of the squared length that went with the mean: ``d · mean² / ‖x‖²``; 0 for RMSNorm."""
    scale: Measured
    """What the rest was multiplied by."""
    length_before: Measured
    length_after: Measured
    angle: Measured
    """Between what went in and what came out."""
    angle_mean: Measured
    """How far taking the mean out turned it."""
    angle_gain: Measured
    """How far the gain turned what was left."""
    angle_bias: Measured
    """How far the bias turned that."""
    bias_share: Measured
    """``<bias, y>/<y, y>``: how much of what came out is the norm's bias."""

    def plain(self) -> dict[str, Any]:
        """For programs: numbers by position."""
        measured = {name: value for name, value in vars(self).items() if isinstance(value, Tensor)}
        return {"name": self.name, "reads": self.reads, "makes": self.makes} | {
            name: numbers(value) for name, value in measured.items()
        }


def norms(seen: Seen) -> tuple[Normed, ...]:
    """Every norm that a pass went through, in order."""
    config, weights = seen.record.config, seen.record.weights
    if isinstance(config.norm, NoNorm):
        return ()
    found: list[Normed] = []
    is_post = isinstance(config.norm, PostNorm)
    is_beside = config.feed_forward is not None and config.feed_forward.reads == "beside-attention"
    for layer, block in enumerate(weights.blocks):
        at = f"L{layer}."
        first, second = (("t2", "t3"), ("t5", "h")) if is_post else (("t0", "t1"), ("t0" if is_beside else "t3", "t4"))
        pairs = [("norm_1", first, block.norm_1)] + [("norm_2", second, block.norm_2)] * (config.feed_forward is not None)
        found += [_measure(seen, at + name, (at + reads, at + makes), own) for name, (reads, makes), own in pairs]
    if not is_post:
        last = seen.stage("final").of
        assert last is not None, "the last norm reads the stream"
        found.append(_measure(seen, "final", (last, "final"), weights.norm_final))
    return tuple(found)


@torch.no_grad()
def _measure(seen: Seen, name: str, stages: tuple[str, str], weights: NormWeights) -> Normed:
    norm = seen.record.config.norm
    assert not isinstance(norm, NoNorm), "asked only where there are norms"
    # In double precision: an angle of a thousandth of a degree is lost in single.
    x, y = (seen[stage].double() for stage in stages)
    centred, gained = _steps(norm.norm, weights, x)
    mean = x.mean(dim=-1) if isinstance(norm.norm, LayerNorm) else torch.zeros_like(x[:, 0])
    bias = torch.zeros_like(x[0]) if weights.bias is None else weights.bias.double()
    return Normed(
        name=name,
        reads=seen.stage(stages[0]).name,
        makes=seen.stage(stages[1]).name,
        mean=mean,
        lost=mean.square() * x.shape[-1] / x.square().sum(dim=-1),
        scale=seen.sites[f"{name}.scale"].double(),
        length_before=length(x),
        length_after=length(y),
        angle=angle(x, y),
        angle_mean=angle(x, centred),
        angle_gain=angle(centred, gained),
        angle_bias=angle(gained, y),
        bias_share=(y @ bias) / y.square().sum(dim=-1),
    )


def _steps(norm: LayerNorm | RMSNorm, weights: NormWeights, x: Tensor) -> tuple[Tensor, Tensor]:
    """Without the mean; with the gain, too. Lengths do not matter here."""
    centred = x - x.mean(dim=-1, keepdim=True) if isinstance(norm, LayerNorm) else x
    return centred, centred if weights.gain is None else centred * weights.gain.double()


def length(x: Float[Tensor, "pos d_model"]) -> Measured:
    """``‖x‖`` at each position, in double precision."""
    return x.double().square().sum(dim=-1).sqrt()


def angle(x: Float[Tensor, "pos d_model"], y: Float[Tensor, "pos d_model"]) -> Measured:
    """The angle between vectors in degrees, small ones too; not a number where one of them is zero.

    >>> round(float(angle(torch.tensor([[1.0, 0.0]]), torch.tensor([[1.0, 1.0]]))), 4)
    45.0
    """
    u, v = x / length(x)[:, None], y / length(y)[:, None]
    return torch.rad2deg(2 * torch.atan2(length(u - v), length(u + v)))


def cosine(x: Float[Tensor, "pos d_model"], y: Float[Tensor, "pos d_model"]) -> Measured:
    """``<x, y> / (‖x‖ ‖y‖)``; not a number where one of them is zero."""
    u, v = x / length(x)[:, None], y / length(y)[:, None]
    return (u * v).sum(dim=-1).clamp(-1, 1)


def numbers(values: Tensor) -> list[float | None]:
    """For programs: what is no number is None."""
    return [value if math.isfinite(value) else None for value in floats(values)]
