"""The strongest skip-trigrams of a head, of each source only the first, where nothing else is asked: no lists are made.

The best skip-trigram of a source is its best dest with its best out. Products in the weights' own format, with a bound on how wrong they may be, say
how strong it can be for every source; the sources that may be among the strongest are then looked at whole, exactly.
"""

import torch
from jaxtyping import Float, Int
from torch import Tensor

from headwater.atlas.lift import SOURCES, Looking, Trigrams
from headwater.atlas.subject import Subject
from headwater.circuits.algebra import lengths, product_error
from headwater.circuits.factored import Factored
from headwater.circuits.head import HeadName
from headwater.circuits.streamed.exact import whole

ENTRIES = 2**19
"""Products held at once: as many as stay close to the processor."""


def leading(subject: Subject, head: HeadName, count: int) -> Trigrams:
    """The ``count`` sources whose best skip-trigrams have the largest lifts, with these; fewer where no more lift is above zero."""
    scores, outputs = subject.scores(head), subject.outputs(head)
    looking = Looking(scores, subject.mass(scores), subject.settings.others)
    lead, output = (_highest(table, scores.left.dtype) for table in (looking.leads, outputs))
    # A little more than the bounds: attention and the product are rounded too.
    reach = (1 + 1e-12) * looking.attention(lead) * output.clamp(min=0)
    reach, order = reach.sort(descending=True, stable=True)
    best = _of_each(looking, outputs, order[:0])
    for start in range(0, len(order), SOURCES):
        floor = float(best.lift[-1]) if len(best) == count else 0.0
        here = slice(start, start + SOURCES)
        sources = order[here][(reach[here] >= floor) & (reach[here] > 0)]
        if not len(sources):
            break
        best = Trigrams.joined([best, _of_each(looking, outputs, sources)]).first(count)
    return best


def _of_each(looking: Looking, outputs: Factored, sources: Int[Tensor, " chosen"]) -> Trigrams:
    """The best skip-trigram of each of these sources, exactly, where its lift is above zero."""
    dest, lead = (found[:, 0] for found in whole(looking.leads.left[sources], looking.leads.right.T, 1))
    out, output = (found[:, 0] for found in whole(outputs.left[sources], outputs.right.T, 1))
    attention = looking.attention(lead)
    found = Trigrams(sources, dest, out, lead, output, attention, attention * output)
    return found.some(found.lift > 0)


def _highest(table: Factored, dtype: torch.dtype) -> Float[Tensor, " row"]:
    """No entry of a row is above this, and one is close to it; float64."""
    left, right = table.left.to(dtype), table.right.T.to(dtype)
    step = max(1, ENTRIES // len(right))
    tops = [(left[start : start + step] @ right.T).amax(dim=1) for start in range(0, len(left), step)]
    # Factors that were rounded to this format are off by half of its precision each.
    share = product_error(table.inner, dtype) + 2 * torch.finfo(dtype).eps
    return torch.cat(tops).double() + share * lengths(left) * lengths(right).max()
