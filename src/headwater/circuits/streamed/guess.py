"""What a sample of lines tells before the pass: where the floors of all lines may start, and which integers will do."""

from collections.abc import Callable
from dataclasses import dataclass

import torch
from jaxtyping import Float
from torch import Tensor

from headwater.circuits.algebra import lengths
from headwater.circuits.streamed.exact import ROUNDING

SAMPLE = 96
"""Lines looked at whole."""
MARGIN = 0.15


@dataclass(frozen=True, eq=False)
class Side:
    """The lines of one axis, turned and balanced."""

    lines: Float[Tensor, "line inner"]
    lengths: Float[Tensor, " line"]
    """A little more than their norms."""
    slack: Float[Tensor, " line"]
    """How wrong an entry of the line may be beyond rounding to integers."""
    small: Float[Tensor, "line inner"]
    """In float32, the longest line as one."""

    @staticmethod
    def of(turned: Float[Tensor, "line inner"], given: Float[Tensor, "line inner"], longest: float, share: float) -> "Side":
        """``given`` are the lines themselves, ``longest`` is the largest norm of the other axis, ``share`` is what turning took."""
        # What float64 rounds away, here and wherever the entry is calculated again.
        share += 4 * (given.shape[1] + 4) * ROUNDING
        norms = lengths(turned) * (1 + 1e-9)
        unit = float(norms.max()) or 1.0
        return Side(turned, norms, lengths(given) * (longest * share), (turned / unit).float())

    @property
    def unit(self) -> float:
        """The longest norm."""
        return float(self.lengths.max()) or 1.0


@dataclass(frozen=True, eq=False)
class Sample:
    """Some lines of one axis against all of the other, in float32."""

    ours: Side
    theirs: Side
    places: Tensor
    entries: Float[Tensor, "chosen line"]

    @staticmethod
    def of(ours: Side, theirs: Side) -> "Sample":
        """Lines at equal distances."""
        places = torch.linspace(0, len(ours.lines) - 1, min(SAMPLE, len(ours.lines))).long()
        return Sample(ours, theirs, places, ours.small[places] @ theirs.small.T)

    def cuts(self, keep: int, sign: int) -> Float[Tensor, " chosen"]:
        """The last of the ``keep`` largest of each line of the sample."""
        return (self.entries if sign > 0 else -self.entries).topk(min(keep, self.entries.shape[1]), dim=1).values[:, -1]

    def floors(self, cuts: Float[Tensor, " chosen"], sign: int) -> Float[Tensor, " line"]:
        """A guess for every line: about as many standard deviations above its mean as the least of the sample."""
        small, means = self.theirs.small, self.theirs.small.mean(dim=0)
        moments = small.T @ small / len(small) - means[:, None] * means
        middle = self.ours.small @ (sign * means)
        spread = ((self.ours.small @ moments) * self.ours.small).sum(dim=1).clamp(min=1e-30).sqrt()
        heights = (cuts - middle[self.places]) / spread[self.places]
        # A line of a hundred would still be below the least of a hundred others; a little lower, few are.
        least = float(heights.min() - MARGIN * (heights.median() - heights.min()))
        return (middle + least * spread).double() * (self.ours.unit * self.theirs.unit)

    def passing(self, cuts: Float[Tensor, " chosen"], error: float, sign: int) -> float:
        """How many entries of a line are above its cut where integers may be wrong by a share ``error`` of the norms."""
        return self._share(lambda entries, reach, cut: entries.mul(sign).add_(reach) >= cut, cuts, error)

    def near(self, own: Float[Tensor, " chosen"], error: float) -> float:
        """How many entries of a line cannot be told from ``own``."""
        return self._share(lambda entries, reach, cut: entries.sub(cut).abs_() <= reach, own, error)

    def _share(self, test: Callable[[Tensor, Tensor, Tensor], Tensor], about: Tensor, error: float) -> float:
        """A few lines are enough to tell ten entries from thousands."""
        few = slice(None, None, 8)
        ours, theirs = self.ours.lengths[self.places[few]] / self.ours.unit, self.theirs.lengths / self.theirs.unit
        reach = (error * ours.float())[:, None] * theirs.float()
        return float(test(self.entries[few], reach, about[few, None]).count_nonzero()) / len(ours)
