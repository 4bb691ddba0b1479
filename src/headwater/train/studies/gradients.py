"""Where gradients go: along paths, through depth, and through the softmax of attention."""

from collections.abc import Callable, Iterable, Iterator
from dataclasses import dataclass
from typing import Any

from jaxtyping import Int
from numpy.typing import NDArray
from torch import Tensor

from headwater.model.config import Attention, ModelConfig, SinusoidalPositions
from headwater.model.weights import Weights
from headwater.show.values import Panel, Progress, Table, silent
from headwater.train.batches import Batches
from headwater.train.loop import train_steps
from headwater.train.module import TransformerModule
from headwater.train.plan import Plan
from headwater.train.studies import gradient_depth, gradient_paths, softmax_scaling
from headwater.train.studies.gradient_depth import DepthStudy
from headwater.train.studies.gradient_paths import PathStudy
from headwater.train.studies.softmax_scaling import SoftmaxStudy


@dataclass(frozen=True, kw_only=True)
class GradientStudy:
    """The three together."""

    paths: PathStudy
    depth: DepthStudy
    softmax: SoftmaxStudy

    def tables(self) -> tuple[Table, ...]:
        """One after the other."""
        return (*self.paths.tables(), *self.depth.tables(), *self.softmax.tables())

    def plain(self) -> dict[str, Any]:
        """All numbers."""
        parts = {"paths": self.paths.plain(), "depth": self.depth.plain(), "softmax": self.softmax.plain()}
        return {"study": "gradients"} | parts

    def curves(self) -> tuple[Panel, ...]:
        """All panels."""
        return (*self.paths.curves(), *self.depth.curves(), *self.softmax.curves())


def run(
    snapshots: Iterable[tuple[int, Weights]],
    batch_of: Callable[[int], Int[Tensor, "batch window"]],
    *,
    seed: int = 0,
    progress: Progress = silent,
) -> GradientStudy:
    """Paths on some models and batches of their text; depth and softmax on stacks and scores that are drawn."""
    return GradientStudy(
        paths=gradient_paths.run(snapshots, batch_of, progress=progress),
        depth=gradient_depth.run(seed=seed, progress=progress),
        softmax=softmax_scaling.run(seed=seed, progress=progress),
    )


def train_one_layer(ids: NDArray[Any], vocab: int, plan: Plan, progress: Progress = silent) -> Iterator[tuple[int, Weights]]:
    """A small attention-only model on its way: at the beginning, after 16, 64, 256 … updates and at the end."""
    config = one_layer(vocab)
    module = TransformerModule(Weights.draw(config, seed=plan.seed))
    batches = Batches(ids=ids, vocab=vocab, context=config.context, batch=plan.batch, seed=plan.seed)
    yield 0, module.weights()
    for step in train_steps(module, batches, plan):
        progress("training", step.number / plan.steps)
        if step.number in (16, 64, 256, 1024, 4096, plan.steps):
            yield step.number, module.weights()


def one_layer(vocab: int) -> ModelConfig:
    """Four heads of 16 over a stream 64 wide, positions into queries and keys only."""
    return ModelConfig(
        vocab=vocab,
        context=64,
        d_model=64,
        layers=1,
        attention=Attention(heads=4, d_head=16),
        positions=SinusoidalPositions(into="queries-and-keys"),
    )
