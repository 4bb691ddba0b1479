"""The certificate over every position and the whole vocabulary: do the parts add up to what the model says?"""

import math
from collections.abc import Callable, Iterator
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
from headwater.trace.parts import Part, Split, Way
from headwater.trace.run import Run
from headwater.trace.sized import Sized
from headwater.trace.sizes import Sizes, furthest, rounding, squares
from headwater.trace.terms import ByOrder, streams

LOGITS_AT_ONCE = 2**23
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
    read = _by_components(run)
    progress("components", 0.2)
    by_order = streams(run).double()
    progress("paths", 0.4)
    W_U, b_U = run.weights.W_U.double(), None if run.weights.b_U is None else run.weights.b_U.double()
    # The model's own numbers, as it makes them: row by row they would be rounded in another way.
    apart: tuple[list[float], list[float]] = ([], [])
    for rows, own in _logits(run, lambda share: progress("vocabulary", 0.4 + 0.4 * share)):
        for number, parts in enumerate((read, by_order.sum(dim=0))):
            off = (affine(parts[0, rows], W_U, b_U) - own).abs().amax(dim=-1)
            apart[number].extend(furthest([each]) for each in floats(off))
    splits, sampled, size = _sampled(run, samples, seed)
    progress("splits", 1.0)
    return Check(
        by_component=tuple(apart[0]),
        by_path=tuple(apart[1]),
        splits=splits,
        sampled=sampled,
        bound=_bound(run, by_order, size),
        vocab=run.config.vocab,
        largest=float(run.logits.abs().max()),
    )


def _by_components(run: Run) -> Float[Tensor, "batch pos d_model"]:
    """What the unembedding reads, added up from every single write with the norms' scales held fixed."""
    x = torch.zeros_like(run["embed"], dtype=torch.float64)[None]
    for step in course(run.config):
        if isinstance(step, NormStep):
            x = _normed(run, f"L{step.layer}.{step.norm}", x)
        else:
            x = sum((write.double() for write in _writes(run, step)), x)
    return (_normed(run, "final", x) if isinstance(run.config.norm, PreNorm) else x)[0]


def _normed(run: Run, name: str, x: Tensor) -> Tensor:
    norm = run.config.norm
    assert not isinstance(norm, NoNorm), "asked only where there are norms"
    return push.through_norm(norm.norm, run.weights.norm(name), run[f"{name}.scale"].double(), x)


def _writes(run: Run, step: Given | AttentionStep | FeedForwardStep) -> Iterator[Tensor]:
    """Each thing that a step adds to the stream, by itself."""
    match step:
        case Given(site=site):
            yield run[site].expand_as(run["embed"])
        case AttentionStep(layer=layer):
            weights, mixed = run.weights.blocks[layer].attention, run[f"L{layer}.mixed"]
            # All heads in one go would be too large.
            yield from (mixed[:, head] @ W_O for head, W_O in enumerate(weights.W_O))
            if weights.b_O is not None:
                yield weights.b_O.expand_as(run["embed"])
        case FeedForwardStep(layer=layer):
            yield run[f"L{layer}.feed_forward"]


def _logits(run: Run, progress: Callable[[float], None]) -> Iterator[tuple[slice, Float[Tensor, "pos vocab"]]]:
    """The model's own logits, some positions at a time."""
    length = run.tokens.shape[1]
    size = max(1, LOGITS_AT_ONCE // run.config.vocab)
    for start in range(0, length, size):
        yield slice(start, start + size), run.logits[0, start : start + size]
        progress(min(1.0, (start + size) / length))


def _sampled(run: Run, samples: int, seed: int) -> tuple[float, int, float]:
    """The largest certificate of some explanations, each followed upstream along parts drawn at random; how many; and the size of all that was added up."""
    generator = torch.Generator().manual_seed(seed)

    def draw(size: int) -> int:
        return int(torch.randint(size, (), generator=generator))

    found: list[float] = []
    sized = Sized()
    for _ in range(samples):
        why: Split = run.explain(draw(run.tokens.shape[1]), draw(run.config.vocab))
        split = sized.split(why.whole, "component")
        found += [split.certificate, why.walk(budget=WALKED).certificate]
        for _ in range(DEEP):
            deeper: list[Part] = [part for part in split.parts if part.ways]
            if not deeper:
                break
            part = deeper[draw(len(deeper))]
            # Paths are walked from the top.
            ways: list[Way] = [way for way in part.ways if way != "path"]
            split = sized.split(part, ways[draw(len(ways))])
            found.append(split.certificate)
    return furthest(found), len(found), sized.size


def _bound(run: Run, by_order: ByOrder, size: float) -> float:
    """Of everything that was added up: ``headwater.trace.sizes`` has the formula.

    All that was written is carried on as if nothing cancelled; and orders count by themselves, as they are: they may be large where what was written is not.
    ``size`` is that of the splits that were looked at.
    """
    W_U, b_U = run.weights.W_U, run.weights.b_U
    reached = Sizes(run.frozen).uncancelled() + squares(by_order)[:, 0].sum(dim=0)
    longest, bias = float(squares(W_U.T).max()), 0.0 if b_U is None else float(b_U.abs().max())
    return rounding(run, math.hypot(math.sqrt(float(reached.max()) * longest), bias, size))
