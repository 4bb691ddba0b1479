"""What a model's direct path ``W_E W_U`` has learned of a text's bigrams.

A zero-layer model is its direct path. Cross-entropy asks of it ``softmax(W_E W_U)[first] = p(· | first)``: logits that are
``ln p(second | first)`` up to one constant for each first token. Where a pair never occurs, ``ln p`` is −∞, and the logits move
towards it as long as training goes on.

Everything is calculated in float64 and row by row: no square of the vocabulary is ever held.
"""

from collections.abc import Iterable, Iterator
from dataclasses import asdict, dataclass
from pathlib import Path
from typing import Any

import torch
from jaxtyping import Float, Int
from numpy.typing import NDArray
from torch import Tensor

from headwater.errors import InputError
from headwater.model.config import LearnedPositions, ModelConfig, SinusoidalPositions
from headwater.model.forward import unembed
from headwater.model.sources import load_weights, look
from headwater.model.weights import Weights
from headwater.show.values import Line, Panel, Progress, Table, silent
from headwater.text.corpus import Corpus
from headwater.train.folder import RunFolder
from headwater.train.history import corpus_of
from headwater.train.plan import Plan
from headwater.train.recipe import read_recipe
from headwater.train.studies.pairs import Pairs
from headwater.train.studies.zero_layer import train_zero_layer, zero_layer

ENTRIES_AT_ONCE = 2**21
"""Logits held at a time."""


@dataclass(frozen=True, kw_only=True)
class Fit:
    """One model against the pairs of a text; nats throughout. ``None`` where there is nothing to take a mean over."""

    step: int
    loss: float
    """``−Σ p(first, second) ln q(second | first)``."""
    excess: float
    """The loss above ``H(X2 | X1)``: the mean over the text of ``KL(p(· | first) ‖ q(· | first))``."""
    mean_kl: float | None
    """That divergence, averaged over first tokens that are seen often, each counted once."""
    weighted_kl: float | None
    """The same, each counted as often as it is seen."""
    largest_kl: float | None
    correlation: float | None
    """Between logits and ``ln p`` over the pairs that occur, each as often as it does and both centred in each row."""
    unseen_mass: float
    """The probability that goes to pairs that never occur, averaged over the text."""
    unseen_probability: float | None
    """What one such pair gets, the mean over all of them."""
    gap: float | None
    """How far the mean logit of pairs that occur lies above that of those that never do, averaged over the text."""
    largest_logit: float
    """The largest distance of a logit from the mean of its row."""


@dataclass(frozen=True, kw_only=True)
class BigramStudy:
    """Fits along a training, the first one first."""

    vocab: int
    d_model: int
    entropy: float
    """``H(X2 | X1)`` of the text."""
    pairs: int
    """Pairs in the text."""
    different: int
    """Different ones among them."""
    often: int
    """How often a first token must be seen to be among those whose divergences are averaged."""
    rows: int
    """How many first tokens are."""
    whole: bool
    """Whether ``W_E W_U`` is the whole model, and not the direct path of a larger one."""
    fits: tuple[Fit, ...]

    def tables(self) -> tuple[Table, ...]:
        """What was compared, and one row for each snapshot."""
        return (self._text(), self._along())

    def _text(self) -> Table:
        rows = (
            ("model", "W_E W_U, all of it" if self.whole else "W_E W_U, the direct path alone: the rest is left out"),
            ("vocabulary", f"{self.vocab:,} tokens, {self.d_model} wide"),
            ("text", f"{self.pairs:,} pairs of tokens, {self.different:,} different ones"),
            ("H(X2|X1)", f"{self.entropy:z.4f} nats"),
            (f"seen ≥ {self.often:,}", f"{self.rows:,} first tokens"),
        )
        return Table(title="", columns=("", ""), rows=rows)

    def _along(self) -> Table:
        columns = ("step#", "loss#", "excess#", "excess %#", "mean KL#", "weighted#", "largest#", "correlation#",
                   "unseen mass#", "of each#", "gap#", "|logit|#")  # fmt: skip
        return Table(title="along the training, in nats", columns=columns, rows=tuple(map(self._words, self.fits)))

    def _words(self, fit: Fit) -> tuple[str, ...]:
        return (
            f"{fit.step:,}",
            f"{fit.loss:z.4f}",
            f"{fit.excess:z.4f}",
            f"{100 * fit.excess / self.entropy:z.2f}" if self.entropy else "–",
            *(_number(value, "z.4f") for value in (fit.mean_kl, fit.weighted_kl, fit.largest_kl, fit.correlation)),
            f"{fit.unseen_mass:.2e}",
            _number(fit.unseen_probability, ".1e"),
            _number(fit.gap, "z.2f"),
            f"{fit.largest_logit:.1f}",
        )

    def plain(self) -> dict[str, Any]:
        """All numbers."""
        return asdict(self) | {"study": "bigram"}

    def curves(self) -> tuple[Panel, ...]:
        """Divergence and what happens to unseen pairs, along the training."""
        steps = tuple(float(max(1, fit.step)) for fit in self.fits)
        excess = [
            _line("excess loss", steps, [fit.excess for fit in self.fits]),
            _line(f"mean KL, rows seen ≥ {self.often:,}", steps, [fit.mean_kl for fit in self.fits]),
            _line("probability of unseen pairs", steps, [fit.unseen_mass for fit in self.fits]),
        ]
        gap = [
            _line("mean of the first above the second", steps, [fit.gap for fit in self.fits]),
            _line("largest |logit|", steps, [fit.largest_logit for fit in self.fits]),
        ]
        return (
            Panel(title="Distance from the bigram table", x="step", y="nats (or probability)", lines=tuple(excess), x_scale="log", y_scale="log"),
            Panel(title="Logits of pairs that occur and that never do", x="step", y="nats", lines=tuple(gap), x_scale="log"),
        )  # fmt: skip


def run(
    snapshots: Iterable[tuple[int, Weights]], pairs: Pairs, *, often: int = 1000, progress: Progress = silent
) -> BigramStudy:
    """Hold each of some models, with the step it was made at, against the pairs of a text."""
    fits: list[Fit] = []
    config = None
    for step, weights in snapshots:
        config = weights.config
        fits.append(fit(weights, pairs, step=step, often=often, progress=progress))
    if config is None:
        raise InputError("no model", "at least one", "give a model, or a run with snapshots")
    return study_of(config, pairs, fits, often=often)


def study_of(config: ModelConfig, pairs: Pairs, fits: Iterable[Fit], *, often: int = 1000) -> BigramStudy:
    """Fits that have been made before, in the order of their steps, as a study."""
    return BigramStudy(
        vocab=config.vocab,
        d_model=config.d_model,
        entropy=pairs.entropy,
        pairs=pairs.total,
        different=len(pairs.count),
        often=often,
        rows=int((pairs.seen >= often).sum()),
        whole=_is_whole(config),
        fits=tuple(fits),
    )


def of_training(path: Path, *, often: int = 1000, progress: Progress = silent) -> BigramStudy:
    """All snapshots of a training against the pairs of its own text."""
    places = RunFolder(path).snapshots()
    if not places:
        raise InputError(f"{path} has no snapshots", "the folder of a training", "headwater train RECIPE --out DIR makes one")
    snapshots = ((step, load_weights(look(place))) for step, place in places)
    corpus = corpus_of(path, read_recipe(RunFolder(path).recipe))
    if corpus is None:
        raise InputError(f"{path} has no text", "its corpus", "give a training whose text is there")
    pairs = pairs_of(corpus, look(places[-1][1]).config.vocab)
    return run(snapshots, pairs, often=often, progress=progress)


def pairs_of(corpus: Corpus, vocab: int) -> Pairs:
    """The pairs of a corpus, for a model of a vocabulary that may hold more than its tokens."""
    return Pairs.sparse(vocab, corpus.bigrams.first, corpus.bigrams.second, corpus.bigrams.count)


def train_and_run(
    ids: NDArray[Any], vocab: int, plan: Plan, *, d_model: int, often: int = 1000, progress: Progress = silent
) -> BigramStudy:
    """Train a zero-layer model on a text of a small vocabulary and follow it: after 0, 1, 2, 4, 8 … updates and the last."""
    marks = [0, *(2**power for power in range(plan.steps.bit_length()))]
    beginning = Weights.draw(zero_layer(vocab, d_model), seed=plan.seed)

    def snapshots() -> Iterator[tuple[int, Weights]]:
        for step, weights in train_zero_layer(beginning, ids, plan, marks):
            progress("training", step / plan.steps)
            yield step, weights

    return run(snapshots(), Pairs.of(ids, vocab), often=often)


def fit(weights: Weights, pairs: Pairs, *, step: int = 0, often: int = 1000, progress: Progress = silent) -> Fit:
    """One model against the pairs of a text."""
    if weights.config.vocab != pairs.vocab:
        raise InputError(
            f"a model of {weights.config.vocab:,} tokens and a text of {pairs.vocab:,}",
            "one vocabulary",
            "use the model's text",
        )
    rows = _Rows.of(weights, pairs, progress, f"step {step:,}")
    share, common = pairs.seen / pairs.total, pairs.seen >= often
    return Fit(
        step=step,
        loss=float(share @ rows.nats),
        excess=float(share @ rows.kl),
        mean_kl=_mean(rows.kl, common.double()),
        weighted_kl=_mean(rows.kl, common * pairs.seen),
        largest_kl=float(rows.kl[common].max()) if common.any() else None,
        correlation=_correlation(rows),
        unseen_mass=float(share @ rows.unseen),
        unseen_probability=_ratio(float(rows.unseen.sum()), float(rows.others.sum())),
        gap=_mean(rows.gap, pairs.seen * (rows.others > 0)),
        largest_logit=float(rows.largest.max()),
    )


@dataclass(frozen=True, eq=False)
class _Rows:
    """What one model says after each first token, against what the text says."""

    nats: Float[Tensor, " vocab"]
    kl: Float[Tensor, " vocab"]
    spread_q: Float[Tensor, " vocab"]
    spread_p: Float[Tensor, " vocab"]
    together: Float[Tensor, " vocab"]
    """Variances of ``ln q`` and ``ln p`` over the pairs that occur, and their covariance, as sums over the text."""
    unseen: Float[Tensor, " vocab"]
    others: Float[Tensor, " vocab"]
    """Probability of the tokens that never follow, and how many these are."""
    gap: Float[Tensor, " vocab"]
    largest: Float[Tensor, " vocab"]

    @staticmethod
    def of(weights: Weights, pairs: Pairs, progress: Progress, what: str) -> "_Rows":
        wide, rows = weights.to(dtype=torch.float64), pairs.seen.nonzero()[:, 0]
        columns = torch.zeros(len(_Rows.__dataclass_fields__), pairs.vocab, dtype=torch.float64)
        size = max(1, ENTRIES_AT_ONCE // pairs.vocab)
        for begin in range(0, len(rows), size):
            some = rows[begin : begin + size]
            columns[:, some] = torch.stack(_measure(wide, pairs, some))
            progress(what, (begin + len(some)) / len(rows))
        return _Rows(*columns)


@torch.no_grad()
def _measure(weights: Weights, pairs: Pairs, rows: Int[Tensor, " row"]) -> tuple[Tensor, ...]:
    """The fields of ``_Rows`` for some first tokens, in ascending order."""
    logits = unembed(weights, weights.W_E[rows][None])[0]
    log_q = logits.log_softmax(dim=-1)
    ends, followers = pairs.followers.cumsum(0), pairs.followers[rows]
    here = slice(int(ends[rows[0]] - followers[0]), int(ends[rows[-1]]))
    row, second = torch.arange(len(rows)).repeat_interleave(followers), pairs.second[here]
    log_p, log_q_seen = pairs.log_p[here], log_q[row, second]
    p = log_p.exp()

    def total(values: Float[Tensor, " pair"]) -> Float[Tensor, " row"]:
        return logits.new_zeros(len(rows)).index_add_(0, row, values)

    nats, entropy = -total(p * log_q_seen), -total(p * log_p)
    x, y, weight = log_q_seen + nats[row], log_p + entropy[row], pairs.count[here].double()
    others = pairs.vocab - followers
    unseen = log_q.exp().index_put_((row, second), logits.new_zeros(())).sum(dim=-1)
    seen_logits, mean = total(logits[row, second]), logits.mean(dim=-1)
    gap = seen_logits / followers - (pairs.vocab * mean - seen_logits) / others.clamp(min=1)
    return (
        nats,
        total(p * (log_p - log_q_seen)),
        *(total(weight * product) for product in (x * x, y * y, x * y)),
        unseen,
        others.double(),
        gap,
        torch.maximum(logits.amax(dim=-1) - mean, mean - logits.amin(dim=-1)),
    )


def _is_whole(config: ModelConfig) -> bool:
    placed = isinstance(config.positions, LearnedPositions | SinusoidalPositions) and config.positions.into == "stream"
    return config.layers == 0 and not placed


def _mean(values: Float[Tensor, " vocab"], weight: Float[Tensor, " vocab"]) -> float | None:
    return _ratio(float(values @ weight), float(weight.sum()))


def _ratio(above: float, below: float) -> float | None:
    return above / below if below else None


def _correlation(rows: _Rows) -> float | None:
    together, spreads = float(rows.together.sum()), float(rows.spread_q.sum() * rows.spread_p.sum())
    return _ratio(together, spreads**0.5)


def _number(value: float | None, form: str) -> str:
    return "–" if value is None else format(value, form)


def _line(label: str, x: tuple[float, ...], y: list[float | None]) -> Line:
    """The points that are there."""
    there = [(a, b) for a, b in zip(x, y, strict=True) if b is not None]
    return Line(label=label, x=tuple(a for a, _ in there), y=tuple(b for _, b in there))
