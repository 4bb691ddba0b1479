"""Who can look back: accuracy and loss on the recall task by the length of its gap.

All are trained on the same windows and asked through the same interface: the likeliest of all keys is the answer. Who does not see the
key must guess: a zero-layer model always, an n-gram wherever the gap is longer than its order less three. One layer of attention written
by hand shows that the task can be done. A recurrent network can do it too, at any gap here, once it has been trained for long enough: it
learns far gaps later than near ones, where attention learns all at the same time. So what is measured depends on the number of updates.
"""

import math
from collections.abc import Callable, Iterator, Sequence
from dataclasses import asdict, dataclass
from typing import Any

import numpy as np
import torch
from jaxtyping import Float, Int
from torch import Tensor, nn

from headwater.model.config import Attention, ModelConfig, SinusoidalPositions
from headwater.model.forward import final_stream
from headwater.model.weights import Weights
from headwater.show.values import Line, Panel, Progress, Table, silent
from headwater.text.recall import RecallTask
from headwater.train.loop import train_steps
from headwater.train.loss import cross_entropy
from headwater.train.module import TransformerModule
from headwater.train.ngrams import KneserNey, count_ngrams
from headwater.train.plan import Plan
from headwater.train.predictors import Predictor, Transformer
from headwater.train.recurrent import Recurrent, RecurrentModule, equal_in_size

ORDERS = (2, 3, 5)
"""Of the n-grams."""
SMOOTHED = 10
"""Updates over which losses are averaged."""
USUAL = Plan(steps=200, batch=32, learning_rate=1e-2, warmup=20)
"""Enough for attention to answer at every gap, and for a recurrent network to be on its way."""
TRAINING, HELD_OUT = 0, 1
"""First parts of the seeds of windows to train on and to ask."""


@dataclass(frozen=True, kw_only=True)
class Score:
    """Answers to questions with one gap."""

    gap: int
    accuracy: float
    accuracy_error: float
    """Standard errors of both means."""
    nats: float
    """``−ln P(answer)``, the mean."""
    nats_error: float


@dataclass(frozen=True, kw_only=True)
class Row:
    """One model at every gap."""

    name: str
    parameters: int
    scores: tuple[Score, ...]
    losses: tuple[float, ...]
    """Nats of the answer at each update, over all gaps; of a model that is not trained in this way, none."""

    def answers_from(self, chance_nats: float) -> int | None:
        """The update by which the mean loss over ``SMOOTHED`` of them is half that of guessing."""
        return next((step for step, loss in _smoothed(self.losses) if loss < chance_nats / 2), None)


@dataclass(frozen=True, kw_only=True)
class RecallStudy:
    """Models side by side."""

    keys: int
    windows: int
    """Questions asked at each gap."""
    trained_on: int
    """Windows seen in training."""
    rows: tuple[Row, ...]

    @property
    def chance(self) -> float:
        """The accuracy of one who guesses."""
        return 1 / self.keys

    @property
    def chance_nats(self) -> float:
        """The loss of one who gives all keys the same probability."""
        return math.log(self.keys)

    def tables(self) -> tuple[Table, ...]:
        """Accuracy by gap, then nats by gap, each with its standard error."""
        gaps = [str(score.gap) for score in self.rows[0].scores]
        asked = f"{self.windows:,} questions at each gap, after training on {self.trained_on:,} windows"
        columns = ("", *(f"gap {gap}#" for gap in gaps))
        accuracy = [
            (row.name, *(f"{score.accuracy:.3f} ± {score.accuracy_error:.3f}" for score in row.scores)) for row in self.rows
        ]
        nats = [(row.name, *(f"{score.nats:.3f} ± {score.nats_error:.3f}" for score in row.scores)) for row in self.rows]
        return (
            Table(
                title=f"accuracy: {asked}",
                columns=columns,
                rows=(*accuracy, ("chance", *(f"{self.chance:.3f}" for _ in gaps))),
            ),
            Table(
                title="\nnats of the answer",
                columns=columns,
                rows=(*nats, ("chance", *(f"{self.chance_nats:.3f}" for _ in gaps))),
            ),
            self._learning(),
        )

    def _learning(self) -> Table:
        def when(row: Row) -> str:
            update = row.answers_from(self.chance_nats)
            return "–" if not row.losses else "not yet" if update is None else f"{update:,}"

        return Table(
            title="\nupdates until the loss of the answer is half that of guessing",
            columns=("", "parameters#", "updates#"),
            rows=tuple((row.name, f"{row.parameters:,}", when(row)) for row in self.rows),
        )

    def plain(self) -> dict[str, Any]:
        """All numbers."""
        learned = {row.name: row.answers_from(self.chance_nats) for row in self.rows if row.losses}
        return asdict(self) | {"study": "recall", "chance": self.chance, "chance_nats": self.chance_nats, "updates": learned}

    def curves(self) -> tuple[Panel, ...]:
        """Accuracy and loss against the gap."""
        gaps = tuple(float(score.gap) for score in self.rows[0].scores)

        def lines(value: Callable[[Score], float], chance: float) -> tuple[Line, ...]:
            measured = [Line(label=row.name, x=gaps, y=tuple(map(value, row.scores))) for row in self.rows]
            return (*measured, Line(label="chance", x=gaps, y=(chance,) * len(gaps), kind="bound"))

        learning = [(row.name, list(_smoothed(row.losses))) for row in self.rows if row.losses]
        along = tuple(
            Line(label=name, x=tuple(float(step) for step, _ in points), y=tuple(loss for _, loss in points))
            for name, points in learning
        )
        return (
            Panel(title="Loss of the answer along training", x="update", y="nats", lines=along),
            Panel(title="Recall", x="gap", y="accuracy", lines=lines(lambda score: score.accuracy, self.chance), x_scale="log"),
            Panel(title="Loss of the answer", x="gap", y="nats", lines=lines(lambda score: score.nats, self.chance_nats), x_scale="log"),
        )  # fmt: skip


def run(
    task: RecallTask, plan: Plan = USUAL, *, d_model: int = 64, windows: int = 256, progress: Progress = silent
) -> RecallStudy:
    """Train each model by the plan and ask it ``windows`` questions at every gap of the task."""
    rows: list[Row] = []
    for predictor, losses in predictors(task, plan, d_model=d_model, progress=progress):
        scores = tuple(ask(predictor, task, gap, windows) for gap in task.gaps)
        rows.append(Row(name=predictor.name, parameters=predictor.parameters, scores=scores, losses=losses))
    return RecallStudy(keys=task.keys, windows=windows, trained_on=plan.steps * plan.batch, rows=tuple(rows))


def predictors(
    task: RecallTask, plan: Plan, *, d_model: int = 64, progress: Progress = silent
) -> Iterator[tuple[Predictor, tuple[float, ...]]]:
    """n-grams, a recurrent network, models of zero, one and two layers, and one layer by hand, each with its losses in training."""
    seen = np.concatenate([training_windows(task, plan, step) for step in range(plan.steps)])
    ngrams = count_ngrams(seen.ravel(), vocab=task.vocab, order=max(ORDERS))
    yield from ((KneserNey(ngrams, order=order), ()) for order in ORDERS)
    modules: dict[str, TransformerModule | RecurrentModule] = {
        "recurrent": RecurrentModule(equal_in_size(transformer(task, 1, d_model)), seed=plan.seed)
    }
    for name, layers in {"0 layers": 0, "1 layer": 1, "2 layers": 2}.items():
        modules[name] = TransformerModule(Weights.draw(transformer(task, layers, d_model), seed=plan.seed))
    for number, (name, module) in enumerate(modules.items()):
        losses: list[float] = []
        for step in train_steps(AnswerModule(module), lambda step: torch.from_numpy(training_windows(task, plan, step)), plan):
            progress(f"{name}, loss {step.loss:.3f}", (number + step.number / plan.steps) / len(modules))
            losses.append(step.loss)
        trained = Recurrent(module, name) if isinstance(module, RecurrentModule) else Transformer(module.weights(), name)
        yield trained, tuple(losses)
    yield Transformer(by_hand(task), "1 layer, by hand"), ()


class AnswerModule(nn.Module):
    """A model whose loss is that of the answer alone: the fillers before it can be predicted by nobody."""

    def __init__(self, module: TransformerModule | RecurrentModule) -> None:
        super().__init__()
        self.module = module

    def forward(self, windows: Int[Tensor, "batch window"]) -> Float[Tensor, ""]:
        """The mean nats of the last token of each window."""
        if isinstance(self.module, RecurrentModule):
            return cross_entropy(self.module.stream(windows[:, :-1])[:, -1], self.module.W_U, None, windows[:, -1])
        weights = self.module.live()
        return cross_entropy(final_stream(weights, windows[:, :-1])[:, -1], weights.W_U, None, windows[:, -1])


def training_windows(task: RecallTask, plan: Plan, step: int) -> np.ndarray[Any, np.dtype[np.int64]]:
    """The windows of one update, which all models see."""
    return task.windows(plan.batch, seed=(TRAINING, plan.seed, step))


@torch.no_grad()
def ask(predictor: Predictor, task: RecallTask, gap: int, windows: int) -> Score:
    """Questions with one gap, the same for every model."""
    asked = torch.from_numpy(task.windows(windows, gap=gap, seed=(HELD_OUT, gap)))
    answers = asked[:, -1].clone()
    by_key: list[Tensor] = []
    for key in range(task.keys):
        asked[:, -1] = key
        by_key.append(predictor.nats(asked)[:, -1].double())
    nats = torch.stack(by_key, dim=1)
    right = (nats.argmin(dim=1) == answers).double()
    lost = nats[torch.arange(windows), answers]
    return Score(
        gap=gap,
        accuracy=float(right.mean()),
        accuracy_error=_standard_error(right),
        nats=float(lost.mean()),
        nats_error=_standard_error(lost),
    )


def transformer(task: RecallTask, layers: int, d_model: int) -> ModelConfig:
    """An attention-only model with positions into queries and keys; with no layers, the bigram machine."""
    if not layers:
        return ModelConfig(vocab=task.vocab, context=task.context, d_model=d_model, layers=0)
    return ModelConfig(
        vocab=task.vocab,
        context=task.context,
        d_model=d_model,
        layers=layers,
        attention=Attention(heads=4, d_head=max(1, d_model // 4)),
        positions=SinusoidalPositions(into="queries-and-keys"),
    )


def by_hand(task: RecallTask, *, score: float = 20.0, output: float = 10.0) -> Weights:
    """One head that does it: the word that asks gives every key this ``score``, and a key attended to lifts its own logit by ``output``.

    With one key among n other words it has the weight ``e^score / (e^score + n)``.
    """
    vocab = task.vocab
    config = ModelConfig(
        vocab=vocab, context=task.context, d_model=vocab, layers=1, attention=Attention(heads=1, d_head=vocab, scaled=False)
    )
    is_key = (torch.arange(vocab) < task.keys).float()
    looks = torch.zeros(vocab, vocab)
    looks[task.ask] = score * is_key
    tensors = {
        "embed.W_E": torch.eye(vocab),
        "blocks.0.attn.W_Q": looks[None],
        "blocks.0.attn.W_K": torch.eye(vocab)[None],
        "blocks.0.attn.W_V": torch.diag(is_key)[None],
        "blocks.0.attn.W_O": output * torch.eye(vocab)[None],
        "unembed.W_U": torch.eye(vocab),
    }
    return Weights.assemble(config, tensors)


def _smoothed(losses: Sequence[float]) -> Iterator[tuple[int, float]]:
    """Each update, counted from 1, with the mean loss of the last ``SMOOTHED``."""
    for end in range(SMOOTHED, len(losses) + 1):
        yield end, sum(losses[end - SMOOTHED : end]) / SMOOTHED


def _standard_error(values: Tensor) -> float:
    return float(values.std(correction=0)) / math.sqrt(len(values))
