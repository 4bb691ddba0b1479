"""The recall task, trained once for all who ask: a key, a gap of words that mean nothing, and the question which key it was."""

import torch
from jaxtyping import Float
from torch import Tensor
from torch.autograd import grad
from torch.nn.functional import embedding

from headwater.claims.given import Given
from headwater.model.forward import final_stream
from headwater.model.record import record
from headwater.model.taps import Tap
from headwater.model.weights import Weights
from headwater.shapes import Tokens
from headwater.text.recall import RecallTask
from headwater.train.plan import Plan
from headwater.train.predictors import Predictor, Transformer
from headwater.train.recurrent import Recurrent, RecurrentModule
from headwater.train.studies import recall

TASK = RecallTask(farthest=32)
PLAN = Plan(steps=120, batch=32, learning_rate=1e-2, warmup=20)
NEAR, FAR = 1, TASK.farthest
ASKED = 128
"""Questions at each gap."""


def trained(given: Given, name: str) -> tuple[Predictor, tuple[float, ...]]:
    """One of the study's predictors with its losses: an n-gram, ``recurrent``, ``0 layers``, ``1 layer``, ``2 layers``."""
    every = given.once("recall", lambda: list(recall.predictors(TASK, PLAN, d_model=32)))
    return next((predictor, losses) for predictor, losses in every if predictor.name == name)


def accuracy(given: Given, name: str, gap: int) -> float:
    """The share of right answers over one gap."""
    return recall.ask(trained(given, name)[0], TASK, gap, ASKED).accuracy


def one_layer(given: Given) -> Weights:
    """The trained one-layer model."""
    predictor = trained(given, "1 layer")[0]
    assert isinstance(predictor, Transformer), "the study's models are ours"
    return predictor.weights


def recurrent(given: Given) -> RecurrentModule:
    """The trained recurrent network."""
    predictor = trained(given, "recurrent")[0]
    assert isinstance(predictor, Recurrent), "the study's network is ours"
    return predictor.module


def questions(gap: int, count: int = 16) -> tuple[Tokens, int]:
    """Windows up to the word that asks, and where their key is."""
    windows = torch.from_numpy(TASK.windows(count, gap=gap, seed=7))
    return windows[:, :-1], TASK.farthest - gap


class Leaf(Tap):
    """Makes the embeddings a variable that gradients are taken for."""

    def __init__(self) -> None:
        self.embeddings = torch.empty(0)

    def wants(self, site: str) -> bool:
        """The embeddings."""
        return site == "embed"

    def __call__(self, site: str, value: Tensor) -> Tensor:
        """The same numbers."""
        del site
        self.embeddings = value.detach().requires_grad_()
        return self.embeddings


def slope(state: Float[Tensor, "batch width"], embeddings: Tensor, position: int) -> float:
    """``‖∂h/∂x‖`` of the last state by the embedding at a position: the root of the sum of squares, one row at a time, averaged over windows."""
    rows = [grad(entry.sum(), embeddings, retain_graph=True)[0][:, position] for entry in state.unbind(dim=1)]
    return float(torch.stack(rows).square().sum(dim=(0, 2)).sqrt().mean())


def attention_slope(weights: Weights, gap: int) -> float:
    """``‖∂h/∂x‖`` of the last position of a transformer by the key."""
    tokens, key = questions(gap)
    leaf = Leaf()
    return slope(final_stream(weights, tokens, leaf)[:, -1], leaf.embeddings, key)


def weight_on_key(weights: Weights, gap: int) -> float:
    """The largest weight that a head of the word that asks gives to the key, averaged over windows."""
    tokens, key = questions(gap)
    return float(record(weights, tokens)["L0.pattern"][:, :, -1, key].amax(dim=1).mean())


def recurrent_slope(module: RecurrentModule, gap: int) -> float:
    """``‖∂h/∂x‖`` of a recurrent network by the key."""
    tokens, key = questions(gap)
    embeddings = embedding(tokens, module.W_E).detach().requires_grad_()
    return slope(module.lstm(embeddings)[0][:, -1], embeddings, key)


def fresh(given: Given) -> tuple[Weights, RecurrentModule]:
    """Both models as they were before training."""
    return Weights.draw(one_layer(given).config, seed=PLAN.seed), RecurrentModule(recurrent(given).config, seed=PLAN.seed)


def kept_state(module: RecurrentModule, steps: int) -> float:
    """``‖∂h_T/∂h_0‖`` of a recurrent network after some tokens: what is left of a change of its first state."""
    tokens, _ = questions(NEAR)
    first = torch.zeros(1, len(tokens), module.config.d_model, requires_grad=True)
    after = module.lstm(embedding(tokens[:, :steps], module.W_E), (first, torch.zeros_like(first)))[0][:, -1]
    rows = [grad(entry.sum(), first, retain_graph=True)[0][0] for entry in after.unbind(dim=1)]
    return float(torch.stack(rows).square().sum(dim=(0, 2)).sqrt().mean())
