"""Norms and activations, whole or taken apart into what a run freezes and what stays linear."""

import math

import torch
import torch.nn.functional as F  # noqa: N812
from torch import Tensor

from headwater.model.config import Activation, LayerNorm, RMSNorm
from headwater.model.taps import Look
from headwater.model.weights import NormWeights
from headwater.shapes import Stream


def norm_scale(norm: LayerNorm | RMSNorm, x: Tensor) -> Tensor:
    """What a norm multiplies each position by: ``1/√(variance + eps)`` or ``1/√(mean square + eps)``."""
    power = x.var(dim=-1, correction=0) if isinstance(norm, LayerNorm) else x.square().mean(dim=-1)
    return (power + norm.eps).rsqrt()


def normalise(norm: LayerNorm | RMSNorm, weights: NormWeights, x: Stream, look: Look, name: str) -> Stream:
    """``(x − mean) · scale ∘ gain + bias`` (RMSNorm: no mean, no bias); the scale is a site."""
    if not look.wants(name):
        if isinstance(norm, LayerNorm):
            return F.layer_norm(x, x.shape[-1:], weights.gain, weights.bias, norm.eps)
        return F.rms_norm(x, x.shape[-1:], weights.gain, norm.eps)
    # In float32 at least, as the fused norms calculate: squares of half-precision numbers overflow.
    wide = x.to(torch.promote_types(x.dtype, torch.float32))
    scale = look(name, norm_scale(norm, wide))[..., None]
    scaled = (wide - wide.mean(dim=-1, keepdim=True) if isinstance(norm, LayerNorm) else wide) * scale
    scaled = scaled if weights.gain is None else scaled * weights.gain
    return (scaled if weights.bias is None else scaled + weights.bias).to(x.dtype)


def activate(activation: Activation, z: Tensor) -> Tensor:
    """The activation function."""
    match activation:
        case "relu":
            return F.relu(z)
        case "gelu":
            return F.gelu(z)
        case "gelu-tanh":
            return F.gelu(z, approximate="tanh")
        case "silu":
            return F.silu(z)


def gate(activation: Activation, z: Tensor) -> Tensor:
    """``g`` with ``act(z) = g(z)·z``, computed directly and never by division: 1[z>0], Φ(z), its tanh form, or σ(z)."""
    match activation:
        case "relu":
            return (z > 0).to(z)
        case "gelu":
            return 0.5 * (1 + torch.erf(z * math.sqrt(0.5)))
        case "gelu-tanh":
            return 0.5 * (1 + torch.tanh(math.sqrt(2 / math.pi) * (z + 0.044715 * z**3)))
        case "silu":
            return torch.sigmoid(z)
