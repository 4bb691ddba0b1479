"""All that is said about heads from their weights, gathered: one value for each head."""

import math
from collections.abc import Mapping, Sequence
from dataclasses import asdict, dataclass, field, replace
from typing import Any

from jaxtyping import Float, Int
from torch import Tensor

from headwater.circuits.behaviour import Attending, Induction, attending, induction
from headwater.circuits.chance import DRAWS, Draws
from headwater.circuits.composition import Composition, Link, composition
from headwater.circuits.copying import COPYING, NOTHING, SELF_MATCH, Known, Panel, Words, copying
from headwater.circuits.cores import ov_cores, qk_cores
from headwater.circuits.factored import Factored
from headwater.circuits.families import Cores
from headwater.circuits.head import Head, HeadName, every_head, find_head
from headwater.circuits.norms import Scaling
from headwater.circuits.spectrum import effective_rank
from headwater.circuits.streamed.lines import Entries
from headwater.circuits.streamed.scan import Progress, silent
from headwater.circuits.tables import Circuit, ov, qk
from headwater.model.config import ModelConfig, PostNorm, RotaryPositions
from headwater.model.weights import Weights

MOST = 10_000
"""Among how many entries examples that differ are looked for."""


@dataclass(frozen=True, kw_only=True, eq=False)
class Strength:
    """How large a circuit is, and over how many directions."""

    norm: float
    effective_rank: float
    singular_values: tuple[float, ...]

    @staticmethod
    def of(cores: Cores) -> "Strength":
        """That of the circuit as it is, nothing centred."""
        values = cores.raw.singular_values
        return Strength(norm=cores.raw.norm, effective_rank=effective_rank(values), singular_values=tuple(map(float, values)))

    def plain(self) -> dict[str, Any]:
        """For programs."""
        return asdict(self)


@dataclass(frozen=True, kw_only=True, eq=False)
class Overview:
    """One head."""

    head: Head
    copying: Panel
    """Whether it says what it looks at."""
    self_match: Panel
    """Whether it looks for what it looks from."""
    ov: Strength
    qk: Strength
    attending: Attending | None
    """None where the context is a single position."""
    induction: Induction | None
    """None in the first layer, where nothing was written before, and in post-norm models, where it is not told from weights."""
    partners: tuple[Link, ...]
    says: Entries
    """The largest entries of its OV circuit, each row's mean taken out: sources and outputs."""
    seeks: Entries
    """The largest scores of its QK circuit: destinations and sources."""

    def plain(self) -> dict[str, Any]:
        """For programs; ``copying`` is the paper's number, ``Σλ/Σ|λ|`` of the OV circuit as it is."""
        return {
            "head": str(self.head),
            "copying": self.copying.raw.score,
            "copying_centred": self.copying.centred.score,
            "verdict": self.copying.verdict,
            "self_match": self.self_match.raw.score,
            "self_match_centred": self.self_match.centred.score,
            "ov": self.ov.plain(),
            "qk": self.qk.plain(),
            "attending": self.attending and self.attending.plain(),
            "induction": self.induction and self.induction.plain(),
            "partners": [link.plain() for link in self.partners],
            "says": [{"source": row, "out": column, "value": value} for row, column, value in self.says],
            "seeks": [{"dest": row, "source": column, "value": value} for row, column, value in self.seeks],
            "copying_panel": self.copying.plain(),
            "self_match_panel": self.self_match.plain(),
        }


@dataclass(frozen=True, kw_only=True, eq=False)
class Choices:
    """How a model is looked at."""

    frequencies: Float[Tensor, " vocab"] | None = None
    scales: Scaling = "one"
    offset: int = 0
    """Under rotary positions: how far back the sources are that scores are told for."""
    examples: int = 3
    partners: int = 3
    ranks: bool = True
    """Whether to look where each token stands in its own row, which takes a pass over all entries of each circuit."""
    own_ranks: Mapping[Head, Int[Tensor, " vocab"]] = field(default_factory=dict[Head, Tensor])
    """Where tokens stand in their own rows of OV circuits, as far as a pass over all entries has told before; no second one is made."""
    draws: Draws = DRAWS

    def rotary_offset(self, config: ModelConfig) -> int | None:
        """The offset, where scores depend on one."""
        return self.offset if isinstance(config.positions, RotaryPositions) else None


PLAIN = Choices()


def overview(
    weights: Weights, heads: Sequence[HeadName] | None = None, choices: Choices = PLAIN, progress: Progress = silent
) -> tuple[list[Overview], Composition]:
    """Some heads, unless said otherwise all; and who composes with whom among all.

    What all heads share comes first: it is the first tenth of the progress, however long it takes.
    """
    names = [heads] if isinstance(heads, str | Head) else heads
    chosen = every_head(weights.config) if names is None else [find_head(head, weights.config) for head in names]
    pairs = composition(weights)
    progress(0.02)
    of_position = {found.head: found for found in attending(weights)} if weights.config.context > 1 else {}
    # In a post-norm model a token's own vector does not come to later layers as it was.
    knows_repeats = weights.config.layers > 1 and not isinstance(weights.config.norm, PostNorm)
    of_repeats = {found.head: found for found in induction(weights)} if knows_repeats else {}
    of_repeats = {head: found for head, found in of_repeats.items() if math.isfinite(found.score)}
    progress(0.05)
    ov_found = ov_cores(weights, chosen, scales=choices.scales)
    qk_found = qk_cores(weights, chosen, offset=choices.offset, scales=choices.scales)
    told: list[Overview] = []
    for head in chosen:
        says, seeks = (
            ov(weights, head, scales=choices.scales),
            qk(weights, head, offset=choices.rotary_offset(weights.config), scales=choices.scales),
        )
        told.append(
            Overview(
                head=head,
                copying=judged(says, choices, Known(ov_found[head], choices.own_ranks.get(head))),
                self_match=judged(seeks, choices, Known(qk_found[head]), SELF_MATCH),
                ov=Strength.of(ov_found[head]),
                qk=Strength.of(qk_found[head]),
                attending=of_position.get(head),
                induction=of_repeats.get(head),
                partners=pairs.strongest(str(head), choices.partners),
                says=examples(says.centred_rows(), choices.examples),
                seeks=examples(seeks, choices.examples),
            )
        )
        progress(0.1 + 0.9 * len(told) / len(chosen))
    return told, pairs


def judged(circuit: Circuit, choices: Choices = PLAIN, known: Known = NOTHING, words: Words = COPYING) -> Panel:
    """The panel of a circuit from tokens to tokens."""
    known = replace(known, leaves_out_ranks=not choices.ranks)
    return copying(circuit, frequencies=choices.frequencies, known=known, draws=choices.draws, words=words)


def examples(circuit: Factored, count: int) -> Entries:
    """The largest entries, of each row and of each column only the first: a few tokens would fill the whole list otherwise."""
    rows, columns = circuit.shape
    wanted, looked = min(count, rows, columns), max(1, 8 * count)
    while True:
        found = circuit.top(min(looked, rows * columns))
        chosen = _distinct(found)[:wanted]
        if len(chosen) == wanted or looked >= min(MOST, rows * columns):
            return found.some(chosen)
        looked *= 8


def _distinct(found: Entries) -> list[int]:
    """The places of entries that share neither row nor column with one before them."""
    rows: set[int] = set()
    columns: set[int] = set()
    chosen: list[int] = []
    for number, (row, column, _) in enumerate(found):
        if row not in rows and column not in columns:
            chosen.append(number)
            rows.add(row)
            columns.add(column)
    return chosen
