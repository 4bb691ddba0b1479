"""Peers in double precision."""

from contextlib import contextmanager

import pytest
import torch


@contextmanager
def doubled():
    """Inside, single precision is double: the peers compute angles, norms and softmax in float32 whatever the model's format,
    which would hide a wrong formula behind their rounding."""
    torch.set_default_dtype(torch.float64)
    try:
        with pytest.MonkeyPatch.context() as patch:
            patch.setattr(torch, "float", torch.float64)
            patch.setattr(torch, "float32", torch.float64)
            patch.setattr(torch.Tensor, "float", torch.Tensor.double)
            yield
    finally:
        torch.set_default_dtype(torch.float32)


def randomise(model, *, spread=0.4, seed=0):
    """Every parameter drawn, gains and biases too: ones and zeros hide mistakes."""
    generator = torch.Generator().manual_seed(seed)
    with torch.no_grad():
        for parameter in model.parameters():
            parameter.copy_(spread * torch.randn(parameter.shape, generator=generator, dtype=torch.float64))
    return model.eval()


def furthest(one, other):
    """The largest difference."""
    return (one.double() - other.double()).abs().max().item()
