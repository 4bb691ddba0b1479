"""The certificate over every position and the whole vocabulary: do the parts add up to what the model says?"""

import math
from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass
from typing import Any

import torch
from jaxtyping import Float
from torch import Tensor

from headwater.model.config import NoNorm, PreNorm
from headwater.model.forward import affine
from headwater.shapes import floats
from headwater.show.html import fragment
from headwater.show.text import written
from headwater.show.values import Line, Panel, Progress, Table, silent
from headwater.trace import push
from headwater.trace.course import AttentionStep, FeedForwardStep, Given, NormStep, course
from headwater.trace.frozen import Rows
from headwater.trace.parts import Part, Split, Way
from headwater.trace.run import Run
from headwater.trace.terms import streams

LOGITS_AT_ONCE = 2**23
FEW = 64
"""Positions at which what all heads wrote is made at once."""
DEEP, WALKED = 6, 20
"""Levels that a sampled explanation is followed upstream, and parts that are taken apart to walk along its largest paths."""


@dataclass(frozen=True, kw_only=True)
class Check:
    """How far sums of parts are from the model's own logits, at the most."""

    by_component: tuple[float, ...]
    """Every component's write, added up: at each position the largest difference over the whole vocabulary."""
    by_path: tuple[float, ...]
    """Every path from a token, a position or a bias, added up by order: likewise."""
    splits: float
    """Every split of some logits drawn at random, followed upstream to its end."""
    sampled: int
    """Splits that were looked at."""
    bound: float
    """What rounding may come to in this format, at this width and depth, and with numbers of this size."""
    vocab: int
    largest: float
    """The largest logit, to hold the others against."""

    @property
    def components(self) -> float:
        """The largest difference of sums of components."""
        return max(self.by_component)

    @property
    def paths(self) -> float:
        """The largest difference of sums of paths."""
        return max(self.by_path)

    @property
    def certificate(self) -> float:
        """The largest of all differences."""
        return max(self.components, self.paths, self.splits)

    @property
    def ok(self) -> bool:
        """Whether all of them are rounding."""
        return self.certificate <= self.bound

    @property
    def positions(self) -> int:
        """How many there are."""
        return len(self.by_component)

    def tables(self) -> tuple[Table, ...]:
        """For people."""
        everywhere = f"{self.positions:,} position{'s' * (self.positions > 1)} × {self.vocab:,} tokens"
        rows = (
            ("components", everywhere, f"{self.components:.1e}"),
            ("paths, by order", everywhere, f"{self.paths:.1e}"),
            ("splits, followed upstream", f"{self.sampled:,} splits of logits drawn at random", f"{self.splits:.1e}"),
            ("what rounding may come to", f"largest logit {self.largest:.1f}", f"{self.bound:.1e}"),
        )
        return (
            Table(
                title="largest |sum of parts − the model's own number|", columns=("sums of", "over", "difference#"), rows=rows
            ),
        )

    def __str__(self) -> str:
        return f"{written(*self.tables())}\n\n{self.remark()}"

    def _repr_html_(self) -> str:
        return fragment(*self.tables(), *self.curves(), remarks=(self.remark(),))

    def curves(self) -> tuple[Panel, ...]:
        """For a plot: the differences at each position, and what rounding may come to."""
        x = tuple(float(position) for position in range(self.positions))
        sums = (("components", self.by_component), ("paths, by order", self.by_path))
        lines = tuple(Line(label=f"sums of {name}", x=x, y=y) for name, y in sums)
        bound = Line(label="what rounding may come to", x=x, y=(self.bound,) * len(x), kind="bound")
        title = "largest |sum of parts − the model's own number|"
        return (Panel(title=title, x="position", y="difference", lines=(*lines, bound), y_scale="log"),)

    def remark(self) -> str:
        """The answer, in words."""
        return f"certificate {self.certificate:.1e}: " + ("the parts add up" if self.ok else "the parts do NOT add up")

    def plain(self) -> dict[str, Any]:
        """For programs."""
        measured = {
            "certificate": self.certificate,
            "bound": self.bound,
            "components": self.components,
            "paths": self.paths,
            "splits": self.splits,
            "largest_logit": self.largest,
        }
        counts = {"sampled": self.sampled, "positions": self.positions, "vocab": self.vocab}
        # Where logits overflowed there is no number to tell.
        return {"ok": self.ok, **{name: each if math.isfinite(each) else None for name, each in measured.items()}, **counts}


@torch.no_grad()
def check(run: Run, *, samples: int = 8, seed: int = 0, progress: Progress = silent) -> Check:
    """Add everything up, in every way, and compare."""
    read, size = _by_components(run, torch.arange(run.tokens.shape[1]))
    progress("components", 0.2)
    by_order = streams(run).double()
    size = size + by_order.square().sum(dim=(0, -1))
    progress("paths", 0.4)
    W_U, b_U = run.weights.W_U.double(), None if run.weights.b_U is None else run.weights.b_U.double()
    # The model's own numbers, as it makes them: row by row they would be rounded in another way.
    apart: tuple[list[float], list[float]] = ([], [])
    for rows, own in _logits(run, lambda share: progress("vocabulary", 0.4 + 0.4 * share)):
        for number, parts in enumerate((read, by_order.sum(dim=0))):
            off = (affine(parts[0, rows], W_U, b_U) - own).abs().amax(dim=-1)
            apart[number].extend(map(_counted, floats(off)))
    splits, sampled = _sampled(run, samples, seed)
    progress("splits", 1.0)
    return Check(
        by_component=tuple(apart[0]),
        by_path=tuple(apart[1]),
        splits=splits,
        sampled=sampled,
        bound=_bound(run, size, *_longest(run)),
        vocab=run.config.vocab,
        largest=float(run.logits.abs().max()),
    )


@torch.no_grad()
def rounding_bound(run: Run, positions: Sequence[int], tokens: Sequence[int]) -> float:
    """What rounding may come to in sums of components that make the logits of some tokens, taken apart at some positions.

    It is the bound of ``check``, of these positions and tokens only: so that it is had at once for one explanation of a long text.
    """
    at = torch.tensor(sorted({position % run.tokens.shape[1] for position in positions}))
    columns, b_U = run.weights.W_U[:, list(tokens)].double(), run.weights.b_U
    bias = 0.0 if b_U is None else float(b_U[list(tokens)].abs().sum())
    return _bound(run, _by_components(run, at)[1], float(columns.square().sum(dim=0).sqrt().sum()), bias)


def _by_components(run: Run, at: Rows) -> tuple[Float[Tensor, "batch row d_model"], Float[Tensor, "batch row"]]:
    """What the unembedding reads, added up from every single write with the norms' scales held fixed; and the writes' squared lengths, added up."""
    x = torch.zeros_like(run["embed"][:, at], dtype=torch.float64)[None]
    size = torch.zeros_like(x[0, ..., 0])
    for step in course(run.config):
        if isinstance(step, NormStep):
            x, size = _normed(run, f"L{step.layer}.{step.norm}", at, x, size)
            continue
        for write in _writes(run, step, at):
            x = x + write.double()
            size = size + write.double().square().sum(dim=-1)
    if isinstance(run.config.norm, PreNorm):
        x, size = _normed(run, "final", at, x, size)
    return x[0], size


def _normed(run: Run, name: str, at: Rows, x: Tensor, size: Tensor) -> tuple[Tensor, Tensor]:
    norm = run.config.norm
    assert not isinstance(norm, NoNorm), "asked only where there are norms"
    weights, scale = run.weights.norm(name), run[f"{name}.scale"][:, at].double()
    gain = 1.0 if weights.gain is None else float(weights.gain.double().square().mean())
    bias = 0.0 if weights.bias is None else float(weights.bias.double().square().sum())
    return push.through_norm(norm.norm, weights, scale, x), size * scale.square() * gain + bias


def _writes(run: Run, step: Given | AttentionStep | FeedForwardStep, at: Rows) -> Iterator[Tensor]:
    """Each thing that a step adds to the stream at some positions, by itself."""
    match step:
        case Given(site=site):
            yield run[site].expand_as(run["embed"])[:, at]
        case AttentionStep(layer=layer):
            weights, mixed = run.weights.blocks[layer].attention, run[f"L{layer}.mixed"][:, :, at]
            if len(at) <= FEW:
                # All heads in one go; at all positions of a long text that would be too large.
                yield from (mixed @ weights.W_O).unbind(dim=1)
            else:
                yield from (mixed[:, head] @ W_O for head, W_O in enumerate(weights.W_O))
            if weights.b_O is not None:
                yield weights.b_O.expand(len(run.tokens), len(at), -1)
        case FeedForwardStep(layer=layer):
            yield run[f"L{layer}.feed_forward"][:, at]


def _logits(run: Run, progress: Callable[[float], None]) -> Iterator[tuple[slice, Float[Tensor, "pos vocab"]]]:
    """The model's own logits, some positions at a time."""
    length = run.tokens.shape[1]
    size = max(1, LOGITS_AT_ONCE // run.config.vocab)
    for start in range(0, length, size):
        yield slice(start, start + size), run.logits[0, start : start + size]
        progress(min(1.0, (start + size) / length))


def _sampled(run: Run, samples: int, seed: int) -> tuple[float, int]:
    """The largest certificate of some explanations, each followed upstream along parts drawn at random."""
    generator = torch.Generator().manual_seed(seed)

    def draw(size: int) -> int:
        return int(torch.randint(size, (), generator=generator))

    found: list[float] = []
    for _ in range(samples):
        split: Split = run.explain(draw(run.tokens.shape[1]), draw(run.config.vocab)).split(most=None)
        found += [split.certificate, split.walk(budget=WALKED).certificate]
        for _ in range(DEEP):
            deeper: list[Part] = [part for part in split.parts if part.ways]
            if not deeper:
                break
            part = deeper[draw(len(deeper))]
            # Paths are walked from the top.
            ways: list[Way] = [way for way in part.ways if way != "path"]
            split = part.split(ways[draw(len(ways))], most=None)
            found.append(split.certificate)
    return max(map(_counted, found), default=0.0), len(found)


def _counted(difference: float) -> float:
    """What is no number is as far away as can be: ``max`` would pass it over."""
    return math.inf if math.isnan(difference) else difference


def _longest(run: Run) -> tuple[float, float]:
    """The longest column of the unembedding, and its largest bias."""
    longest = float(run.weights.W_U.double().square().sum(dim=0).sqrt().max())
    return longest, 0.0 if run.weights.b_U is None else float(run.weights.b_U.abs().max())


def _bound(run: Run, size: Float[Tensor, "batch row"], longest: float, bias: float) -> float:
    """Rounding of ``n`` products, added up: about ``√n`` units in the last place of the sum of their sizes.

    ``size`` is the squared lengths of all writes and of all orders, added up at each position as errors are that do not know of each other. Orders count by
    themselves because they may be large where what was written is not: they cancel. Of hundreds of random models, badly conditioned ones
    among them, the worst came to half of the bound; most, and those that are trained, come to some hundredths of it.
    """
    depth, unit = len(course(run.config)) + 1, torch.finfo(run.weights.dtype).eps
    return 2 * unit * math.sqrt(run.config.d_model * depth) * (math.sqrt(float(size.max())) * longest + bias)
