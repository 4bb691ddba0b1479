"""How wide a zero-layer model must be: its loss against d, and the minimal dimension d_min(ε).

``W_E W_U`` has rank d, so that only logits of rank d can be learned: ``ln p(second | first)``, centred in each row, must be one of
them for the loss to reach ``H(X2 | X1)``. What rank d allows is found by descending the expected loss of the whole text, without
noise, from the best rank-d approximation of the centred ``ln P``; what training reaches is shown beside it.

For a precision ε of the probabilities, ``‖P − P̂‖ ≤ ε`` over the rows that are seen often (Frobenius):

- softmax is ½-Lipschitz, so ``d_min(ε) ≤ min {k : ‖P − S‖ + ½ √(Σ_{i>k} σ_i(ln S, centred)²) ≤ ε}`` for any table S without zeros; S here
  is P with a tenth of a count added to every pair, since ``ln 0`` is not a number;
- the number of singular values of P above ε, ``rank_ε(P)``, is *no* lower bound, though it is sometimes given as one: it bounds tables of rank
  d, and a softmax of rank-d logits is not of rank d. ``circle`` is the counterexample: a table of full rank that two dimensions write.
"""

import math
from collections.abc import Sequence
from dataclasses import asdict, dataclass
from typing import Any, cast

import torch
from jaxtyping import Bool, Float
from numpy.typing import NDArray
from torch import Tensor

from headwater.model.weights import Weights
from headwater.show.values import Line, Panel, Progress, Table, silent
from headwater.train.plan import Plan
from headwater.train.studies import bigram
from headwater.train.studies.pairs import Pairs
from headwater.train.studies.zero_layer import descend, train_zero_layer, zero_layer

SMOOTHING = 0.1
DESCENT = Plan(steps=500, batch=1, learning_rate=0.05, warmup=20, final_rate=0.01, beta_2=0.99, clip=1e9)
EPSILONS = (1.0, 0.5, 0.3, 0.1, 0.05)


@dataclass(frozen=True, kw_only=True)
class Width:
    """One d: what was trained, what rank d allows, and how far the probabilities are from the text's."""

    d_model: int
    parameters: int
    """``2 · vocab · d``."""
    trained: float
    """The loss of a model trained on windows of the text, above ``H(X2 | X1)``, in nats."""
    limit: float
    """The least that was found with rank-d logits."""
    truncated: float
    """That of the best rank-d approximation of the centred ``ln S``, from which the descent began."""
    distance: float
    """``‖P − P̂‖`` of the descended model."""
    truncated_distance: float
    bound: float
    """What ``‖P − softmax(truncated)‖`` cannot exceed: ``‖P − S‖ + ½ √(Σ_{i>d} σ_i²)``."""


@dataclass(frozen=True, kw_only=True)
class Precision:
    """One ε: the least of the widths tried that reaches it (``None``: none of them does), and what is said about it."""

    epsilon: float
    reached: int | None
    bound: int
    """The corrected bound: never below d_min(ε)."""
    rank: int
    """``rank_ε(P)``, which is said to be at most d_min(ε)."""


@dataclass(frozen=True, kw_only=True)
class Circle:
    """A cycle, each token followed by the next for certain, written by tokens on a circle: ``logits = β cos(angle)``."""

    vocab: int
    beta: float
    d_model: int
    rank: int
    """Singular values of P above ½: all of them are 1."""
    distance: float
    """``‖P − softmax(logits)‖``."""


@dataclass(frozen=True, kw_only=True)
class RankStudy:
    """Loss and precision against d."""

    vocab: int
    rows: int
    often: int
    entropy: float
    smoothing_distance: float
    """``‖P − S‖``."""
    widths: tuple[Width, ...]
    precisions: tuple[Precision, ...]
    circles: tuple[Circle, ...]

    def tables(self) -> tuple[Table, ...]:
        """By width, by precision, and the counterexample."""
        return (self._by_width(), self._by_precision(), self._by_circle())

    def _by_width(self) -> Table:
        rows = tuple(
            (
                f"{width.d_model}",
                f"{width.parameters:,}",
                f"{self.entropy + width.trained:.4f}",
                f"{width.trained:.4f}",
                f"{width.limit:.4f}",
                f"{width.truncated:.4f}",
                f"{width.distance:.3f}",
                f"{width.truncated_distance:.3f}",
                f"{width.bound:.3f}",
            )
            for width in self.widths
        )
        return Table(
            title=f"loss above H(X2|X1) = {self.entropy:z.4f} nats, {self.vocab} tokens; ‖P − P̂‖ over {self.rows} rows seen ≥ {self.often:,}",
            columns=("d#", "parameters#", "loss#", "trained#", "rank limit#", "SVD#", "‖P − P̂‖#", "of SVD#", "≤#"),
            rows=rows,
        )

    def _by_precision(self) -> Table:
        widest = self.widths[-1].d_model
        rows = tuple(
            (
                f"{precision.epsilon:g}",
                f"> {widest}" if precision.reached is None else f"{precision.reached}",
                f"{precision.bound}",
                f"{precision.rank}",
                "" if precision.reached is None or precision.reached >= precision.rank else "no lower bound: see left",
            )
            for precision in self.precisions
        )
        return Table(
            title="d_min(ε): the width that ‖P − P̂‖ ≤ ε takes",
            columns=("ε#", "reached at d#", "d_min ≤#", "rank_ε(P)#", ""),
            rows=rows,
        )

    def _by_circle(self) -> Table:
        rows = tuple((f"{c.vocab}", f"{c.d_model}", f"{c.beta:g}", f"{c.distance:.1e}", f"{c.rank}") for c in self.circles)
        return Table(
            title="tokens on a circle: full rank from d = 2",
            columns=("vocabulary#", "d#", "β#", "‖P − P̂‖#", "rank_½(P)#"),
            rows=rows,
        )

    def plain(self) -> dict[str, Any]:
        """All numbers."""
        return asdict(self) | {"study": "rank"}

    def curves(self) -> tuple[Panel, ...]:
        """Excess loss and distance of the probabilities, both against d."""

        def line(label: str, field: str, kind: Any = "measured") -> Line:
            there = [(float(width.d_model), getattr(width, field)) for width in self.widths if getattr(width, field) > 0]
            return Line(label=label, x=tuple(x for x, _ in there), y=tuple(y for _, y in there), kind=kind)

        return (
            Panel(
                title="Loss above H(X2|X1)",
                x="d",
                y="nats",
                lines=(line("trained", "trained"), line("rank limit", "limit"), line("SVD of ln P", "truncated", "bound")),
                x_scale="log",
                y_scale="log",
            ),
            Panel(
                title="Distance of the probabilities",
                x="d",
                y="‖P − P̂‖",
                lines=(
                    line("descended", "distance"),
                    line("SVD of ln P", "truncated_distance"),
                    line("bound of the SVD", "bound", "bound"),
                ),
                x_scale="log",
                y_scale="log",
            ),
        )


def run(
    ids: NDArray[Any],
    vocab: int,
    plan: Plan,
    *,
    widths: Sequence[int] | None = None,
    often: int = 1000,
    progress: Progress = silent,
) -> RankStudy:
    """Train a zero-layer model of each width on a text of a small vocabulary and hold it against what its rank allows.

    ``widths`` are 1, 2, 4, 8, 16, 24, 32, 48 … and the vocabulary itself unless told otherwise.
    """
    pairs = Pairs.of(ids, vocab)
    # Of a short text, the tokens that are seen most: there is no distance over no rows.
    often = min(often, int(pairs.seen.max()))
    target = _Target.of(pairs, pairs.seen >= often)
    measured: list[Width] = []
    chosen = sorted(set(widths or _usual_widths(vocab)))
    for number, d_model in enumerate(chosen):
        progress(f"d = {d_model}", number / len(chosen))
        measured.append(_width(ids, pairs, target, d_model, plan))
    return RankStudy(
        vocab=vocab,
        rows=int(target.common.sum()),
        often=often,
        entropy=pairs.entropy,
        smoothing_distance=target.offset,
        widths=tuple(measured),
        precisions=tuple(_precision(target, measured, epsilon) for epsilon in EPSILONS),
        circles=tuple(circle(50, beta) for beta in (500.0, 1000.0, 2000.0)),
    )


def circle(vocab: int, beta: float) -> Circle:
    """The cycle ``p(second = first + 1 | first) = 1`` from two dimensions: as near as ``beta`` is large.

    >>> circle(50, 2000.0)
    Circle(vocab=50, beta=2000.0, d_model=2, rank=50, distance=2.4...e-06)
    """
    angles = torch.arange(vocab, dtype=torch.float64) * (2 * math.pi / vocab)
    points = torch.stack([angles.cos(), angles.sin()], dim=1)
    W_E, W_U = points.roll(-1, dims=0), beta * points.T
    P = torch.eye(vocab, dtype=torch.float64).roll(1, dims=1)
    distance = _length(P - (W_E @ W_U).softmax(dim=-1))
    return Circle(vocab=vocab, beta=beta, d_model=2, rank=_rank(_singular(P), 0.5), distance=distance)


def centred(log_table: Float[Tensor, "first second"]) -> Float[Tensor, "first second"]:
    """Without the mean of each row, which softmax cannot see."""
    return log_table - log_table.mean(dim=1, keepdim=True)


def tails(values: Float[Tensor, " rank"]) -> Float[Tensor, " rank_plus_1"]:
    """``½ √(Σ_{i>k} σ_i²)`` for k = 0, 1, … all: how far the probabilities of the best rank-k logits can be from the table's.

    >>> tails(torch.tensor([4.0, 3.0]))
    tensor([2.5000, 1.5000, 0.0000])
    """
    left = values.square().flip(0).cumsum(0).flip(0)
    return torch.cat([left, left.new_zeros(1)]).sqrt() / 2


@dataclass(frozen=True, eq=False)
class _Target:
    """The text's table and its spectra."""

    P: Float[Tensor, "vocab vocab"]
    common: Bool[Tensor, " vocab"]
    log_S: Float[Tensor, "vocab vocab"]
    """``ln S``, centred."""
    offset: float
    """``‖P − S‖``."""
    tails: Float[Tensor, " rank_plus_1"]
    singular: Float[Tensor, " rows"]
    """Singular values of P."""

    @staticmethod
    def of(pairs: Pairs, common: Bool[Tensor, " vocab"]) -> "_Target":
        P = pairs.table / pairs.seen.clamp(min=1)[:, None]
        S = (pairs.table + SMOOTHING) / (pairs.seen + SMOOTHING * pairs.vocab)[:, None]
        log_S = centred(S.log())
        return _Target(
            P=P,
            common=common,
            log_S=log_S,
            offset=_length((P - S)[common]),
            tails=tails(_singular(log_S[common])),
            singular=_singular(P[common]),
        )

    def distance(self, logits: Float[Tensor, "vocab vocab"]) -> float:
        return _length((self.P - logits.softmax(dim=-1))[self.common])


def _usual_widths(vocab: int) -> list[int]:
    """Powers of two, from 16 on also those halfway between, and the vocabulary.

    >>> _usual_widths(96)
    [1, 2, 4, 8, 16, 24, 32, 48, 64, 96]
    """
    powers = [2**power for power in range(vocab.bit_length())]
    return sorted({vocab, *(width for width in [*powers, *(3 * width // 2 for width in powers if width > 8)] if width < vocab)})


def _width(ids: NDArray[Any], pairs: Pairs, target: _Target, d_model: int, plan: Plan) -> Width:
    drawn = Weights.draw(zero_layer(pairs.vocab, d_model), seed=plan.seed)
    *_, (_, trained) = train_zero_layer(drawn, ids, plan)
    start = _truncate(target, d_model)
    best = descend(start, pairs.table, DESCENT)
    return Width(
        d_model=d_model,
        parameters=2 * pairs.vocab * d_model,
        trained=bigram.fit(trained, pairs).excess,
        limit=bigram.fit(best, pairs).excess,
        truncated=bigram.fit(start, pairs).excess,
        distance=target.distance(best.W_E @ best.W_U),
        truncated_distance=target.distance(start.W_E @ start.W_U),
        bound=target.offset + float(target.tails[min(d_model, len(target.tails) - 1)]),
    )


def _truncate(target: _Target, d_model: int) -> Weights:
    """The rank-d logits nearest to the centred ``ln S`` in the rows that are seen often; the other rows follow as far as these directions go.

    Each direction's length is shared evenly between the two factors, which gives the descent a good start.
    """
    directions = cast(Tensor, torch.linalg.svd(target.log_S[target.common]).Vh)[:d_model]
    along = target.log_S @ directions.T
    share = along.square().sum(dim=0).pow(0.25).clamp(min=1e-3)
    tensors = {"embed.W_E": along / share, "unembed.W_U": share[:, None] * directions}
    return Weights.assemble(zero_layer(target.P.shape[0], d_model), tensors)


def _precision(target: _Target, measured: list[Width], epsilon: float) -> Precision:
    there = [width.d_model for width in measured if min(width.distance, width.truncated_distance) <= epsilon]
    enough = int((target.offset + target.tails > epsilon).sum())
    # With less smoothing still, as many dimensions as rows, or one fewer than tokens, come as near as wanted.
    most = min(int(target.common.sum()), target.P.shape[0] - 1)
    return Precision(
        epsilon=epsilon,
        reached=min(there, default=None),
        bound=min(enough, most),
        rank=_rank(target.singular, epsilon),
    )


def _rank(singular: Float[Tensor, " any"], epsilon: float) -> int:
    return int((singular > epsilon).sum())


def _singular(table: Float[Tensor, "first second"]) -> Float[Tensor, " any"]:
    return cast(Tensor, torch.linalg.svdvals(table))


def _length(table: Float[Tensor, "first second"]) -> float:
    """The Frobenius norm."""
    return float(table.square().sum().sqrt())
