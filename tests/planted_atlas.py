"""A model with known skip-trigrams, written by hand, and a text in which they occur."""

import numpy as np
import torch

from headwater.atlas.places import Listed
from headwater.circuits.tables import ov, qk
from headwater.model.config import Attention, ModelConfig
from headwater.model.layout import tensor_shapes
from headwater.model.weights import Weights

WORDS = ("keep", "in", "at", "mind", "bay", *(f"word{number}" for number in range(15)))
KEEP, IN, AT, MIND, BAY = range(5)


def keeper() -> Weights:
    """One head: from “in” and “at” it looks for “keep”, which then says “mind” and “bay”."""
    size = len(WORDS)
    config = ModelConfig(vocab=size, context=24, d_model=size, layers=1, attention=Attention(heads=1, d_head=1, scaled=False))
    tensors = {name: torch.zeros(shape, dtype=torch.float64) for name, shape in tensor_shapes(config).items()}
    tensors["embed.W_E"], tensors["unembed.W_U"] = (torch.eye(size, dtype=torch.float64) for _ in range(2))
    tensors["blocks.0.attn.W_Q"][0, [IN, AT], 0] = 5.0
    tensors["blocks.0.attn.W_K"][0, KEEP, 0] = 1.0
    tensors["blocks.0.attn.W_V"][0, KEEP, 0] = 1.0
    tensors["blocks.0.attn.W_O"][0, 0, [MIND, BAY]] = 3.0
    return Weights.assemble(config, tensors)


def sayings(windows: int, seed: int = 0) -> np.ndarray:
    """Random words; after “keep” there is an “in mind” or an “at bay” a little later, and never the one with the other."""
    draw = np.random.default_rng(seed)
    text = draw.integers(5, len(WORDS), (windows, 24))
    for window in text:
        window[draw.integers(0, 4)] = KEEP
        for start in (6, 14):
            at = start + draw.integers(0, 6)
            window[at : at + 2] = (IN, MIND) if draw.random() < 0.5 else (AT, BAY)
    return text


def all_rows(weights: Weights, shares: np.ndarray, others: int) -> Listed:
    """Every skip-trigram of every head of a one-layer model whose lift is not zero, by brute force."""
    found = []
    for head in range(weights.config.heads):
        scores, outputs = qk(weights, (0, head)), ov(weights, (0, head)).centred_rows()
        score, output = (each.left @ each.right for each in (scores, outputs))
        mass = (score.exp() @ torch.from_numpy(shares)).log()
        attention = torch.sigmoid(score - mass[:, None] - np.log(others))
        lift = attention.T[:, :, None] * output[:, None, :]
        source, dest, out = (axis.numpy() for axis in (lift.abs() > 1e-12).nonzero().unbind(dim=1))
        number = np.full(len(source), head)
        found.append((number, source, dest, out, attention[dest, source], output[source, out], lift[source, dest, out]))
    names = ("head", "source", "dest", "out", "attention", "output", "lift")
    return Listed.of({name: np.concatenate([part[at] for part in found]) for at, name in enumerate(names)})
