"""Lift, and the strongest of all vocab³ skip-trigrams without looking at vocab³ of them.

A head at ``dest`` pays ``source``, among n other tokens drawn from the corpus' unigram distribution p, the attention

    α(dest, source) = exp(s) / (exp(s) + n · Σ_a p(a) exp(s(dest, a))) = σ(s − mass(dest) − log n)

where ``s`` is the score, and adds ``o(source, out)`` to the logit of ``out`` for each unit of it (each row of o has mean zero: a softmax
cannot see it). **lift = α(dest, source) · o(source, out)**. For one source it is a product of a function of dest and one of out, so its
triples stand in a rectangle that falls to the right and downwards once both sides are sorted: the best K lie under the hyperbola
``i · j ≤ K``. A source whose best unlisted triple cannot reach the K-th found so far needs no further look; the others are looked
at whole.

Skip-trigrams stand in the order of falling lift; equal ones by source, then by the larger ``s − mass``, the larger output, dest, out. Those
that lower an output are the strongest of −o.
"""

import math
from dataclasses import dataclass, fields
from functools import cached_property

import numpy as np
import torch
from jaxtyping import Bool, Float, Int
from torch import Tensor

from headwater.circuits.factored import Factored
from headwater.circuits.streamed.exact import dots, whole
from headwater.circuits.streamed.lines import Lines

AT_ONCE = 2**22
"""Triples held at once."""
EVERY = slice(None)
SOURCES = 64
"""Sources looked at whole before the floor is raised again."""


@dataclass(frozen=True, eq=False)
class Trigrams:
    """Some skip-trigrams of one head; numbers in float64."""

    source: Int[Tensor, " row"]
    dest: Int[Tensor, " row"]
    out: Int[Tensor, " row"]
    lead: Float[Tensor, " row"]
    """``score − mass(dest)``: what attention goes by."""
    output: Float[Tensor, " row"]
    attention: Float[Tensor, " row"]
    lift: Float[Tensor, " row"]

    def __len__(self) -> int:
        return len(self.lift)

    def some(self, chosen: Tensor) -> "Trigrams":
        """Those at these places, or where a mask is true."""
        return Trigrams(*(getattr(self, field.name)[chosen] for field in fields(self)))

    def ordered(self) -> "Trigrams":
        """The strongest first."""
        order = torch.arange(len(self), device=self.lift.device)
        for key in (self.out, self.dest, -self.output, -self.lead, self.source, -self.lift):
            order = order[key[order].argsort(stable=True)]
        return self.some(order)

    def first(self, count: int) -> "Trigrams":
        """The strongest few."""
        # Most may be far below: only what is not is worth sorting.
        near = self if len(self) <= count else self.some(self.lift >= self.lift.topk(count).values[-1])
        return near.ordered().some(torch.arange(min(count, len(near)), device=self.lift.device))

    def negated(self) -> "Trigrams":
        """Outputs and lifts with the other sign."""
        return Trigrams(self.source, self.dest, self.out, self.lead, -self.output, self.attention, -self.lift)

    @staticmethod
    def joined(parts: "list[Trigrams]") -> "Trigrams":
        """All of them."""
        return Trigrams(*(torch.cat([getattr(part, field.name) for part in parts]) for field in fields(Trigrams)))


@dataclass(frozen=True, eq=False)
class Looking:
    """How a head's destinations look at sources."""

    scores: Factored
    """``[dest, source]``."""
    mass: Float[Tensor, " dest"]
    others: int

    @cached_property
    def leads(self) -> Factored:
        """``[source, dest]``: ``score − mass(dest)``, by which destinations of one source are compared; in float64."""
        queries, keys = self.scores.left.double(), self.scores.right.T.double()
        ours = torch.cat([keys, keys.new_ones(len(keys), 1)], dim=1)
        return Factored(ours, torch.cat([queries, -self.mass[:, None]], dim=1).T)

    def attention(self, lead: Float[Tensor, " *many"]) -> Float[Tensor, " *many"]:
        """α for this lead: the same bits for the same lead wherever it stands, which torch's own functions of vectors do not give."""
        with np.errstate(over="ignore"):
            weighed = np.exp(math.log(self.others) - lead.cpu().contiguous().numpy())
        return torch.from_numpy(1.0 / (1.0 + weighed)).to(lead.device)

    def score(self, dest: Int[Tensor, " *many"], source: Int[Tensor, " *many"]) -> Float[Tensor, " *many"]:
        """What the softmax gets."""
        found = dots(self.scores.left, self.scores.right.T, dest.flatten(), source.flatten())
        return found.reshape(dest.shape)


@dataclass(frozen=True, eq=False)
class Speaking:
    """A head's two lists for every source: where it is looked at from, and what is said then; the strongest first."""

    looking: Looking
    outputs: Factored
    """``[source, out]``; what lowers comes negated."""
    dests: Lines
    outs: Lines

    @cached_property
    def attention(self) -> Float[Tensor, "source k"]:
        """α of the listed dests."""
        return self.looking.attention(self.dests.values)

    @cached_property
    def beyond(self) -> Float[Tensor, " source"]:
        """No triple of this source that is not in the rectangle of its lists is above this; below zero where all are."""
        vocab, last = self.outputs.shape[0], torch.full_like(self.attention[:, 0], -1.0)
        by_dest = self.attention[:, -1] * self.outs.values[:, 0] if self.dests.ids.shape[1] < vocab else last
        by_out = self.attention[:, 0] * self.outs.values[:, -1] if self.outs.ids.shape[1] < vocab else last
        return torch.maximum(by_dest, by_out)

    def listed(self, sources: Int[Tensor, " chosen"] | slice = EVERY) -> "Rectangle":
        """What the lists hold of some sources."""
        return Rectangle(
            self.looking,
            torch.arange(len(self.outs.ids), device=self.outs.ids.device)[sources],
            self.dests.ids[sources], self.dests.values[sources], self.outs.ids[sources], self.outs.values[sources],
        )  # fmt: skip

    def whole(self, sources: Int[Tensor, " chosen"], count: int, floor: float) -> "Rectangle":
        """The same from all dests and outs of these sources, as far as they can be among the first ``count`` and reach ``floor``."""
        leads, size = self.looking.leads, min(count, self.outputs.shape[0])
        dests, lead = whole(leads.left[sources], leads.right.T, size)
        outs, output = whole(self.outputs.left[sources], self.outputs.right.T, size)
        attention = self.looking.attention(lead)
        wide = int(((attention * output[:, :1]) >= floor).sum(dim=1).max())
        high = int(((attention[:, :1] * output) >= floor).sum(dim=1).max())
        return Rectangle(self.looking, sources, dests[:, :wide], lead[:, :wide], outs[:, :high], output[:, :high])


@dataclass(frozen=True, eq=False)
class Rectangle:
    """Dests and outs of some sources, both falling: every dest with every out is a triple."""

    looking: Looking
    sources: Int[Tensor, " source"]
    dests: Int[Tensor, "source i"]
    leads: Float[Tensor, "source i"]
    outs: Int[Tensor, "source j"]
    outputs: Float[Tensor, "source j"]

    def best(self, count: int, floor: float = 0.0) -> Trigrams:
        """Those that can be among the best ``count`` of all, and are at ``floor`` or above it, and above zero."""
        i, j, lift = self._under(count)
        if lift.numel() > count:
            floor = max(floor, float(lift.flatten().topk(count).values[-1]))
        return self._some((lift > 0) & (lift >= floor), i, j, lift)

    def best_of_each(self, count: int) -> Trigrams:
        """The best ``count`` of every source, above zero."""
        i, j, lift = self._under(count)
        found = self._some(among_the_first(lift, count), i, j, lift)
        return best_of_each(found, found.source, count)

    def _under(self, count: int) -> tuple[Tensor, Tensor, Float[Tensor, "source pair"]]:
        """The places under the hyperbola ``i · j ≤ count``, and the lifts there."""
        down = torch.arange(1, self.dests.shape[1] + 1, device=self.dests.device)
        across = torch.arange(1, self.outs.shape[1] + 1, device=self.dests.device)
        i, j = (down[:, None] * across <= count).nonzero().unbind(dim=1)
        return i, j, self.looking.attention(self.leads)[:, i] * self.outputs[:, j]

    def _some(self, chosen: Tensor, i: Tensor, j: Tensor, lift: Tensor) -> Trigrams:
        line, pair = chosen.nonzero().unbind(dim=1)
        i, j = i[pair], j[pair]
        lead = self.leads[line, i]
        return Trigrams(
            self.sources[line], self.dests[line, i], self.outs[line, j],
            lead, self.outputs[line, j], self.looking.attention(lead), lift[line, pair],
        )  # fmt: skip


def among_the_first(lift: Float[Tensor, "line any"], count: int) -> Bool[Tensor, "line any"]:
    """What can be among the best ``count`` of its line, equal ones included, and is above zero."""
    if lift.shape[1] <= count:
        return lift > 0
    return (lift > 0) & (lift >= lift.topk(count, dim=1).values[:, -1:])


def strongest(head: Speaking, count: int) -> Trigrams:
    """The ``count`` triples of a head with the largest lift above zero, exactly."""
    vocab, step = head.outputs.shape[0], max(1, AT_ONCE // max(1, head.dests.ids.shape[1] * head.outs.ids.shape[1]))
    best = head.listed(slice(0, 0)).best(count)
    for start in range(0, vocab, step):
        more = head.listed(slice(start, start + step)).best(count, _floor(best, count))
        best = Trigrams.joined([best, more]).first(count)
    reach, order = head.beyond.sort(descending=True, stable=True)
    for start in range(0, vocab, SOURCES):
        floor = _floor(best, count)
        sources = order[start : start + SOURCES][reach[start : start + SOURCES] >= max(floor, math.ulp(0.0))]
        if not len(sources):
            break
        # Whole lines hold what the lists held: those sources are told anew.
        others = best.some(~torch.isin(best.source, sources))
        best = Trigrams.joined([others, head.whole(sources, count, floor).best(count, floor)]).first(count)
    return best


def _floor(best: Trigrams, count: int) -> float:
    """What a triple must reach to be among the best."""
    return float(best.lift[-1]) if len(best) == count else 0.0


def best_of_each(triples: Trigrams, line: Int[Tensor, " row"], count: int) -> Trigrams:
    """The strongest ``count`` of every line, a line being a source, a dest or an out."""
    order = torch.arange(len(triples), device=line.device)
    for key in (triples.out, triples.dest, -triples.output, -triples.lead, triples.source, -triples.lift, line):
        order = order[key[order].argsort(stable=True)]
    lines = line[order]
    first = torch.searchsorted(lines, lines)
    nth = torch.arange(len(lines), device=line.device) - first
    return triples.some(order[nth < count])
