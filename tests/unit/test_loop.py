"""Updates, against torch's own pieces put together by hand; stopping and going on; numbers that are none."""

import dataclasses
from collections.abc import Iterator

import numpy as np
import pytest
import torch

from headwater.model.config import Attention, FeedForward, ModelConfig, PreNorm, SinusoidalPositions
from headwater.model.forward import forward
from headwater.model.weights import Weights
from headwater.train.batches import Batches
from headwater.train.loop import DivergedError, Trainer, train_steps
from headwater.train.module import TransformerModule
from headwater.train.plan import Plan

CONFIG = ModelConfig(
    vocab=23,
    context=8,
    d_model=16,
    layers=2,
    attention=Attention(heads=2, d_head=8, input_bias=True, output_bias=True),
    feed_forward=FeedForward(d_mlp=32),
    norm=PreNorm(),
    positions=SinusoidalPositions(),
)
PLAN = Plan(steps=12, batch=4, learning_rate=1e-2, warmup=3, weight_decay=0.1, clip=0.5)
BATCHES = Batches(ids=np.random.default_rng(0).integers(0, 23, 500), vocab=23, context=8, batch=4, seed=0)


def module(dtype: torch.dtype = torch.float32) -> TransformerModule:
    return TransformerModule(Weights.draw(CONFIG, seed=0, dtype=dtype))


def by_hand(plan: Plan) -> Iterator[tuple[float, Weights]]:
    """The same training with nothing but torch: full logits, plain AdamW."""
    tensors = {
        name: tensor.clone().requires_grad_()
        for name, tensor in Weights.draw(CONFIG, seed=0, dtype=torch.float64).tensors().items()
    }
    matrices = [tensor for tensor in tensors.values() if tensor.ndim > 1]
    others = [tensor for tensor in tensors.values() if tensor.ndim <= 1]
    groups = [{"params": matrices, "weight_decay": plan.weight_decay}, {"params": others, "weight_decay": 0.0}]
    optimiser = torch.optim.AdamW(groups, lr=1.0, betas=(plan.beta_1, plan.beta_2), foreach=False)
    for step in range(plan.steps):
        windows = BATCHES(step)
        logits = forward(Weights.assemble(CONFIG, tensors), windows[:, :-1])
        loss = torch.nn.functional.cross_entropy(logits.flatten(0, 1), windows[:, 1:].flatten())
        loss.backward()
        length = sum(float(tensor.grad.square().sum()) for tensor in tensors.values()) ** 0.5
        for tensor in tensors.values():
            tensor.grad *= min(1, plan.clip / (length + 1e-6))
        for group in optimiser.param_groups:
            group["lr"] = plan.rate(step)
        optimiser.step()
        optimiser.zero_grad()
        yield loss.item(), Weights.assemble(CONFIG, {name: tensor.detach().clone() for name, tensor in tensors.items()})


@pytest.mark.parametrize("pieces", [1, 2, 4])
def test_training_is_what_torch_does_by_hand(pieces: int) -> None:
    ours = module(torch.float64)
    plan = dataclasses.replace(PLAN, pieces=pieces)
    for step, (loss, weights) in zip(train_steps(ours, BATCHES, plan), by_hand(plan), strict=True):
        assert abs(step.loss - loss) < 1e-9
        for name, tensor in ours.weights().tensors().items():
            torch.testing.assert_close(tensor, weights.tensors()[name], rtol=0, atol=1e-7, msg=name)


def test_clipping_is_at_work_in_that_comparison() -> None:
    norms = [step.gradient_norm for step in train_steps(module(), BATCHES, PLAN)]
    assert max(norms) > PLAN.clip


def test_a_trainer_that_is_restored_goes_on_to_the_same_bits() -> None:
    through = Trainer(module(), PLAN)
    for step in range(12):
        if step == 5:
            tensors, moments = through.tensors(), through.moments()
        through.update(step, BATCHES(step))
    later = Trainer(TransformerModule(Weights.draw(CONFIG, seed=99)), PLAN)
    later.restore(tensors, moments, 5)
    for step in range(5, 12):
        later.update(step, BATCHES(step))
    assert all(torch.equal(tensor, through.tensors()[name]) for name, tensor in later.tensors().items())
    assert all(torch.equal(moment, through.moments()[name]) for name, moment in later.moments().items())


def test_the_first_update_may_be_restored_too() -> None:
    fresh, restored = Trainer(module(), PLAN), Trainer(module(), PLAN)
    restored.restore(fresh.tensors(), {f"{kind}.{name}": torch.zeros_like(tensor) for name, tensor in fresh.tensors().items() for kind in ("exp_avg", "exp_avg_sq")}, 0)  # fmt: skip
    assert fresh.update(0, BATCHES(0)) == restored.update(0, BATCHES(0))
    assert all(torch.equal(tensor, fresh.tensors()[name]) for name, tensor in restored.tensors().items())


def test_a_loss_that_is_no_number_stops_before_the_weights_change() -> None:
    broken = module()
    with torch.no_grad():
        getattr(broken, "unembed/W_U")[0, 0] = torch.inf
    before = broken.weights()
    with pytest.raises(DivergedError, match="update 8 has a loss of nan"):
        Trainer(broken, PLAN).update(7, BATCHES(7))
    assert broken.weights().tensors()["blocks.0.attn.W_Q"].equal(before.tensors()["blocks.0.attn.W_Q"])


def test_bfloat16_learns_and_keeps_float32_weights() -> None:
    ours = module()
    losses = [step.loss for step in train_steps(ours, lambda step: BATCHES(0), dataclasses.replace(PLAN, precision="bfloat16"))]
    assert losses[-1] < losses[0] - 0.3
    assert ours.weights().dtype == torch.float32


def test_a_value_of_weights_is_not_changed_by_further_training() -> None:
    ours = module()
    steps = train_steps(ours, BATCHES, PLAN)
    next(steps)
    weights = ours.weights()
    copy = weights.to(dtype=torch.float64)
    next(steps)
    assert weights.to(dtype=torch.float64) == copy
    assert ours.weights() != weights
