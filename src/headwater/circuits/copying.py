"""Whether a head copies: several definitions side by side, and where they disagree. The same for whether it looks for equal tokens.

A circuit from tokens to tokens *copies* when a token raises itself. As a property of the whole table there are several ways to say so:

==============  ================================================================  ==============================================
definition      number                                                            says yes (or the opposite) when
==============  ================================================================  ==============================================
score           ``Σλ / Σ|λ|`` of the centred table                                above the 95 % quantile of chance (below 5 %)
raw score       the same of the table as it is (the paper's)                      the same
signs           share of eigenvalues with positive real part, centred             the same
trace           ``Σλ`` of the centred table                                       more than 1.645 standard deviations from 0
diagonal        share of tokens whose own entry is above its row's mean           further from ½ than independent tokens (95 %)
mean rank       how many tokens stand before a token's own, on the average        further from the middle than these (95 %)
most in top 10  share of tokens that are among the first ten of their row         above one half (among the last ten: the opposite)
==============  ================================================================  ==============================================

The *verdict* is what score and trace both say, else neither: the score does not know sizes, and a single eigenvalue that is all but
zero makes it ±1. Both are taken from the centred table because a softmax cannot see a row's mean, while eigenvalues can: a constant
added to all logits of each row changes nothing that a model says and the raw score at will. Ranks within a row are the same either way.
Where the stream is known as well (``headwater.circuits.chance``), score, signs and trace must be beyond chance for both cuts: beyond
the first alone means that embedding and unembedding share directions, which any head would show. Diagonal and mean rank are
compared with independent tokens only: in tied models, and for scores, whose two sides are the same embedding, most random heads
pass them. Of two or three dimensions score and signs are extreme by chance too; there they say what the trace says.
"""

from collections import Counter
from collections.abc import Sequence
from dataclasses import asdict, dataclass
from functools import cached_property
from typing import Any, Literal, TypeAlias

import torch
from jaxtyping import Float, Int
from torch import Tensor

from headwater.circuits.chance import DRAWS, Chance, Draws, Range, chance, positive_shares, scores
from headwater.circuits.factored import Factored
from headwater.circuits.families import Core, Cores, cores
from headwater.circuits.spectrum import distribution

Vote: TypeAlias = Literal[-1, 0, 1]
SURE = 1.645
"""Standard deviations that a Gaussian number exceeds in 5 % of all cases."""


@dataclass(frozen=True)
class Words:
    """What the votes are called."""

    yes: str
    no: str

    def of(self, vote: Vote) -> str:
        """The word for one vote."""
        return {1: self.yes, -1: self.no, 0: "neither"}[vote]


COPYING = Words("copying", "anti-copying")
SELF_MATCH = Words("self-matching", "self-avoiding")


@dataclass(frozen=True)
class Eigen:
    """What the eigenvalues of one table say."""

    eigenvalues: tuple[complex, ...]
    score: float
    positive: float
    trace: float
    norm: float
    tokens: Chance
    """Both sides turned against each other over the tokens."""
    stream: Chance | None
    """The head turned in the stream, embedding and unembedding as they are; None where only the circuit is known."""

    @property
    def z(self) -> float:
        """The trace against tokens turned at random."""
        return self.tokens.z(self.trace)

    @property
    def z_stream(self) -> float | None:
        """The trace against heads turned at random."""
        return self.stream.z(self.trace) if self.stream else None

    def plain(self) -> dict[str, Any]:
        """Everything as JSON has it; an eigenvalue is ``[real, imaginary]``."""
        pairs = [[value.real, value.imag] for value in self.eigenvalues]
        return {**asdict(self), "eigenvalues": pairs, "z": self.z, "z_stream": self.z_stream}

    @property
    def votes(self) -> dict[str, Vote]:
        """By score, by signs and by trace."""
        chances = [self.tokens] + ([self.stream] if self.stream else [])
        trace = _together([_sign(each.z(self.trace), SURE) for each in chances])
        # Of two or three eigenvalues all may be positive by chance: then only the trace can tell.
        decides = all(each.score.low > -1 and each.score.high < 1 for each in chances)
        counts = all(each.positive.low > 0 and each.positive.high < 1 for each in chances)
        return {
            "score": _together([_beyond(self.score, each.score) for each in chances]) if decides else trace,
            "signs": _together([_beyond(self.positive, each.positive) for each in chances]) if counts else trace,
            "trace": trace,
        }


@dataclass(frozen=True)
class Ranks:
    """Where tokens stand in their own rows: shares of tokens, and the mean of how many stand before a token's own entry."""

    top_1: float
    top_5: float
    top_10: float
    last_10: float
    mean: float


@dataclass(frozen=True)
class Panel:
    """All definitions for one circuit, or for the sum of several."""

    name: str
    words: Words
    given: tuple[str, ...]
    """What the numbers take for granted beyond the weights."""
    tokens: int
    raw: Eigen
    centred: Eigen
    diagonal: float
    """Share of tokens whose own entry is positive."""
    diagonal_centred: float
    """Share of tokens whose own entry is above its row's mean; those at the mean count half."""
    ranks: Ranks | None
    """None where they were left out: they take a pass over all entries."""
    ranks_by_frequency: Ranks | None
    """The same with each token counted as often as it occurs."""

    @cached_property
    def votes(self) -> dict[str, str]:
        """What each definition says."""
        size = self.tokens
        middle, spread = (size - 1) / 2, ((size**2 - 1) / 12 / size) ** 0.5
        votes: dict[str, Vote] = {
            "score": self.centred.votes["score"],
            "raw score": self.raw.votes["score"],
            "signs": self.centred.votes["signs"],
            "trace": self.centred.votes["trace"],
            "diagonal": _sign(self.diagonal_centred - 0.5, SURE / 2 / size**0.5),
        }
        if self.ranks:
            votes["mean rank"] = _sign(middle - self.ranks.mean, SURE * spread)
            votes["most in top 10"] = _most(self.ranks)
        if self.ranks_by_frequency:
            votes["most in top 10, by frequency"] = _most(self.ranks_by_frequency)
        return {definition: self.words.of(vote) for definition, vote in votes.items()}

    @property
    def verdict(self) -> str:
        """What score and trace both say."""
        votes = self.centred.votes
        return self.words.of(_together([votes["score"], votes["trace"]]))

    @property
    def disagreements(self) -> tuple[str, ...]:
        """The definitions that say something else than the verdict: ``"most in top 10 says neither"``."""
        return tuple(f"{definition} says {word}" for definition, word in self.votes.items() if word != self.verdict)

    def plain(self) -> dict[str, Any]:
        """Everything as JSON has it."""
        whole = {**asdict(self), "raw": self.raw.plain(), "centred": self.centred.plain()}
        del whole["words"]
        return {**whole, "verdict": self.verdict, "votes": self.votes, "disagreements": list(self.disagreements)}


@dataclass(frozen=True, eq=False)
class Known:
    """What may have been computed before, and is not computed again."""

    cores: Cores | None = None
    """From ``headwater.circuits.cores``, for all heads at once, with the stream."""
    own_ranks: Int[Tensor, " row"] | None = None
    """From a survey that also asked other things."""
    leaves_out_ranks: bool = False
    """Whether to do without where they are not known: they take a pass over all entries."""


NOTHING = Known()


def copying(
    circuit: Factored,
    name: str = "",
    *,
    frequencies: Float[Tensor, " row"] | None = None,
    known: Known = NOTHING,
    draws: Draws = DRAWS,
    words: Words = COPYING,
) -> Panel:
    """Whether a circuit from tokens to tokens raises the token that it comes from; ``words=SELF_MATCH`` for circuits of scores.

    >>> eye = torch.eye(40)[:, :8]
    >>> copying(Factored(eye, eye.T)).verdict, copying(Factored(-eye, eye.T)).verdict
    ('copying', 'anti-copying')
    """
    found = known.cores or cores(circuit)
    ranks = known.own_ranks
    if ranks is None and not known.leaves_out_ranks:
        ranks = circuit.own_ranks()
    diagonal = circuit.diagonal().double()
    size = circuit.shape[0]
    uniform = torch.full((size,), 1 / size, dtype=torch.float64)
    return Panel(
        name=name or getattr(circuit, "name", ""),
        words=words,
        given=getattr(circuit, "given", ()),
        tokens=size,
        raw=_eigen(found.raw, draws),
        centred=_eigen(found.centred, draws),
        diagonal=float((diagonal > 0).double().mean()),
        diagonal_centred=_above(diagonal, circuit.row_means()),
        ranks=None if ranks is None else _ranks(ranks.cpu(), uniform),
        ranks_by_frequency=None
        if ranks is None or frequencies is None
        else _ranks(ranks.cpu(), distribution(frequencies, size).cpu()),
    )


def tally(panels: Sequence[Panel]) -> dict[str, dict[str, int]]:
    """How many circuits have each word by the verdict and by each definition: of heads, the paper counts those that copy."""
    counts: dict[str, Counter[str]] = {}
    for panel in panels:
        for definition, word in {"verdict": panel.verdict, **panel.votes}.items():
            counts.setdefault(definition, Counter())[word] += 1
    return {definition: dict(words) for definition, words in counts.items()}


def _eigen(core: Core, draws: Draws) -> Eigen:
    return Eigen(
        eigenvalues=tuple(complex(value) for value in core.eigenvalues),
        score=float(scores(core.eigenvalues)),
        positive=float(positive_shares(core.eigenvalues)),
        trace=core.trace,
        norm=core.norm,
        tokens=chance(core.singular_values, core.size, draws),
        stream=None if core.loop is None else chance(core.loop, core.width, draws),
    )


def _ranks(own: Int[Tensor, " token"], shares: Float[Tensor, " token"]) -> Ranks:
    def share(chosen: Tensor) -> float:
        return float((chosen * shares).sum())

    return Ranks(share(own < 1), share(own < 5), share(own < 10), share(own >= len(own) - 10), share(own))


def _above(numbers: Float[Tensor, " token"], others: Float[Tensor, " token"]) -> float:
    """The share of numbers above the others; equal ones count half."""
    return float((numbers > others).double().mean() + (numbers == others).double().mean() / 2)


def _sign(number: float, beyond: float) -> Vote:
    return 0 if abs(number) <= beyond else 1 if number > 0 else -1


def _beyond(number: float, by_chance: Range) -> Vote:
    return 1 if number > by_chance.high else -1 if number < by_chance.low else 0


def _most(ranks: Ranks) -> Vote:
    return 1 if ranks.top_10 > 0.5 else -1 if ranks.last_10 > 0.5 else 0


def _together(votes: list[Vote]) -> Vote:
    """The common vote, or neither."""
    return votes[0] if all(vote == votes[0] for vote in votes) else 0
