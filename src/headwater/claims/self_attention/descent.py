"""Gradient descent on the recall task with scores divided by √d_k, not divided, and not divided but from smaller weights."""

import torch

from headwater.claims.given import Given
from headwater.model.config import Attention, ModelConfig
from headwater.model.weights import Weights
from headwater.text.recall import RecallTask
from headwater.train.module import TransformerModule
from headwater.train.studies.recall import AnswerModule

TASK = RecallTask(farthest=8)
D_K, STEPS, RATE = 64, 150, 0.1


def one_head_model(*, scaled: bool) -> ModelConfig:
    """One wide head; drawn weights give queries and keys of unit variance."""
    attention = Attention(heads=1, d_head=D_K, scaled=scaled)
    return ModelConfig(vocab=TASK.vocab, context=TASK.context, d_model=32, layers=1, attention=attention)


def multiplied(weights: Weights, factor: float) -> Weights:
    """The same weights with queries and keys multiplied."""
    attention = weights.blocks[0].attention
    return weights.changed({"blocks.0.attn.W_Q": factor * attention.W_Q, "blocks.0.attn.W_K": factor * attention.W_K})


def descend(weights: Weights, factor: float = 1.0) -> float:
    """Nats of the answer after plain gradient descent, where queries and keys begin, and move, ``factor`` times as far from 0."""
    module = TransformerModule(multiplied(weights, factor))
    asking = AnswerModule(module)
    for step in range(STEPS):
        asking.zero_grad()
        asking(torch.from_numpy(TASK.windows(64, seed=(0, step)))).backward()
        with torch.no_grad():
            for name, tensor in module.tensors().items():
                assert tensor.grad is not None, "every tensor is used"
                # A gradient with respect to factor · W is 1/factor as long: factor² makes both move alike.
                tensor.add_(tensor.grad, alpha=-RATE * (factor**2 if name.endswith(("W_Q", "W_K")) else 1.0))
    with torch.no_grad():
        return float(asking(torch.from_numpy(TASK.windows(1000, seed=(1, 0)))))


def descents(given: Given) -> dict[str, float]:
    """Nats of the answer: scores divided, as they are, and as they are from weights that are d_k^(1/4) times smaller."""
    return given.once("recall with and without scaling", lambda: _descend(given))


def _descend(given: Given) -> dict[str, float]:
    with_it, without = (given.drawn(one_head_model(scaled=scaled)).weights for scaled in (True, False))
    return {"scaled": descend(with_it), "unscaled": descend(without), "smaller": descend(without, factor=D_K**-0.25)}
