"""The loop: one update after the other. Read ``train_steps``, then ``Trainer.update``: that is training."""

import math
from collections.abc import Callable, Iterator, Mapping
from dataclasses import dataclass

import torch
from torch import Tensor, nn
from torch.nn.utils import clip_grads_with_norm_, get_total_norm

from headwater.errors import HeadwaterError
from headwater.train.plan import Plan
from headwater.train.processes import ALONE, World, fill, whole

MOMENTS = ("exp_avg", "exp_avg_sq")


@dataclass(frozen=True)
class Step:
    """What one update was like; ``number`` counts from 1."""

    number: int
    loss: float
    gradient_norm: float
    learning_rate: float


class DivergedError(HeadwaterError):
    """The loss or its gradient is no number any more."""


def train_steps(
    module: nn.Module, batch_of: Callable[[int], Tensor], plan: Plan, *, device: torch.device | str = "cpu"
) -> Iterator[Step]:
    """Train in memory: a ``Step`` after each update.

    ``batch_of(step)`` gives windows of ids ``[batch, context + 1]``, and ``module(windows)`` the mean nats of predicting all but
    their first.

    >>> from headwater.model.presets import named
    >>> from headwater.model.weights import Weights
    >>> from headwater.train.module import TransformerModule
    >>> module = TransformerModule(Weights.draw(named("zero-layer"), seed=0))
    >>> plan = Plan(steps=30, batch=1, learning_rate=0.1, warmup=0)
    >>> losses = [step.loss for step in train_steps(module, lambda step: torch.tensor([[1, 2, 3, 1]]), plan)]
    >>> round(losses[0]), losses[-1] < 0.1
    (8, True)
    """
    trainer = Trainer(module.to(device), plan)
    for step in range(plan.steps):
        yield trainer.update(step, batch_of(step))


class Trainer:
    """A module, its optimiser and the world they live in: everything that an update changes."""

    def __init__(self, module: nn.Module, plan: Plan, world: World = ALONE) -> None:
        self.module, self.plan, self.world = module, plan, world
        self._device = next(module.parameters()).device
        self._wrapped = world.wrap(module, self._device)
        self._named = dict(module.named_parameters())
        groups = [
            {"params": [tensor for tensor in self._named.values() if tensor.ndim > 1], "weight_decay": plan.weight_decay},
            {"params": [tensor for tensor in self._named.values() if tensor.ndim <= 1], "weight_decay": 0.0},
        ]
        groups = [group for group in groups if group["params"]]
        self._optimiser = torch.optim.AdamW(groups, lr=plan.learning_rate, betas=(plan.beta_1, plan.beta_2), fused=True)

    def update(self, step: int, windows: Tensor) -> Step:
        """One update of the parameters, number ``step`` counted from 0."""
        loss = self._gradients(self.world.share(windows).to(self._device))
        norm = self._clip()
        if not math.isfinite(loss) or not math.isfinite(norm):
            raise DivergedError(
                f"update {step + 1:,} has a loss of {loss} and a gradient of length {norm}",
                "finite numbers",
                "set a smaller training.learning_rate or a longer training.warmup",
            )
        rate = self.plan.rate(step)
        for group in self._optimiser.param_groups:
            group["lr"] = rate
        self._optimiser.step()
        self._optimiser.zero_grad()
        return Step(step + 1, loss, norm, rate)

    def _gradients(self, windows: Tensor) -> float:
        """Gradients of the mean loss over the whole batch, and that loss."""
        pieces = windows.chunk(self.plan.pieces)
        losses: list[Tensor] = []
        for number, piece in enumerate(pieces):
            with self.world.accumulating(self._wrapped, last=number == len(pieces) - 1):
                loss = self._loss(piece) * (len(piece) / len(windows))
                loss.backward()
            losses.append(loss.detach())
        return self.world.mean(torch.stack(losses).sum())

    def _loss(self, windows: Tensor) -> Tensor:
        if self.plan.precision == "float32":
            return self._wrapped(windows)
        with torch.autocast(self._device.type, torch.bfloat16):
            return self._wrapped(windows)

    def loss(self, windows: Tensor) -> float:
        """The loss on some windows, all processes together; nothing changes."""
        with torch.no_grad():
            return self.world.mean(self._loss(self.world.share(windows).to(self._device)))

    def _clip(self) -> float:
        """Shorten the gradient to the plan's longest; its length before that."""
        length = get_total_norm([tensor.grad for tensor in self._named.values() if tensor.grad is not None], foreach=True)
        known = float(whole(length))
        # torch's own clipping would also read and write gradients that are short enough.
        if known > self.plan.clip:
            clip_grads_with_norm_(self._named.values(), self.plan.clip, length, foreach=True)
        return known

    def moments(self) -> dict[str, Tensor]:
        """The optimiser's moments, each in one piece; the same whatever the number of processes. All processes must ask."""
        state = self._optimiser.state
        return {
            f"{kind}.{name}": whole(state[tensor][kind]).detach().clone()
            for name, tensor in self._named.items()
            for kind in MOMENTS
            if tensor in state
        }

    def tensors(self) -> dict[str, Tensor]:
        """The parameters, each in one piece. All processes must ask."""
        return {name: whole(tensor.detach()).clone() for name, tensor in self._named.items()}

    def restore(self, tensors: Mapping[str, Tensor], moments: Mapping[str, Tensor], step: int) -> None:
        """Go on from where a trainer was after ``step`` updates, in this world or in another."""
        for name, tensor in self._named.items():
            fill(tensor, tensors[name])
            state = {kind: torch.zeros_like(tensor, memory_format=torch.preserve_format) for kind in MOMENTS}
            for kind, moment in state.items():
                fill(moment, moments[f"{kind}.{name}"])
            self._optimiser.state[tensor] = {"step": torch.tensor(float(step), device=self._device), **state}
