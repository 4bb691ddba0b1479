"""One layer of heads: bigrams and skip-trigrams, which add up as logits and multiply as probabilities.

After the tokens ``… A … B`` a model of one layer without feed-forward layers gives the next token C the logit

    l(C) = bigram(B, C) + Σ_A skip(A, B, C)          bigram = W_E W_U,  skip = Σ_heads A[B, A] · W_E W_V W_O W_U

exactly, with the attention ``A[B, A]`` that it had (which depends on all other tokens too) and the scales of its norms. So its probabilities are
a product of experts, ``p ∝ exp(bigram) · Π_A exp(skip)``, and no sum: if they were one, the inclusion–exclusion defect
``p(A₁A₂B) − p(A₁B) − p(A₂B) + p(B)`` would vanish for any two sources.

Biases, and what positions add where they are in the stream, say the same whatever the tokens are: they are terms of their own, and beside the
bigram in every probability here.
"""

from dataclasses import asdict, dataclass
from itertools import combinations
from typing import Any

import torch
from einops import einsum
from jaxtyping import Float
from torch import Tensor

from headwater.errors import InputError
from headwater.model.config import ModelConfig, NoNorm, PostNorm, PreNorm
from headwater.model.record import Record
from headwater.model.taps import NOBODY
from headwater.text.spoken import Spoken
from headwater.trace import push
from headwater.trace.frozen import Frozen
from headwater.trace.question import check_one_text, known, within

STRONGEST = 6
"""So many sources are paired with each other."""
NAMELESS = Spoken(None)


@dataclass(frozen=True, kw_only=True)
class Source:
    """The skip-trigram of one source position."""

    position: int
    token: int
    value: float
    """What it adds to the logit."""
    p: float
    """The probability by the bigram and this source alone."""


@dataclass(frozen=True, kw_only=True)
class Pair:
    """Two sources, by their positions."""

    first: int
    second: int
    p: float
    """The probability by the bigram and these two alone."""
    defect: float
    """``p(A₁A₂B) − p(A₁B) − p(A₂B) + p(B)``: 0 if probabilities added up."""


@dataclass(frozen=True, kw_only=True)
class Experts:
    """A logit of a one-layer model as bigram and skip-trigrams, and what they are worth as probabilities."""

    position: int
    current: int
    """The token at that position: B."""
    token: int
    """The token whose logit it is: C."""
    logit: float
    """The model's own."""
    bigram: float
    positions: float
    """What positions in the stream add; 0 where there are none."""
    biases: float
    sources: tuple[Source, ...]
    """In the order of the text; a token that is there twice is there twice. B itself is the last of them under a causal mask."""
    p: float
    """The model's own."""
    p_bigram: float
    """By the bigram alone."""
    pairs: tuple[Pair, ...]
    """Of the strongest sources, the two strongest first."""
    added: float
    """``p(B) + Σ_A (p(AB) − p(B))``: what the probability would be if sources added to it one by one."""
    softmaxed: float
    """The sum, over all tokens, of all terms made probabilities one by one: the number of terms."""
    normed: bool
    certificate: float
    """The largest |sum of terms − logit| over the vocabulary."""
    product_certificate: float
    """The largest |product of experts − probability| over the vocabulary."""

    @property
    def strongest(self) -> tuple[Source, ...]:
        """The sources that move the logit most, either way."""
        return tuple(sorted(self.sources, key=lambda source: -abs(source.value)))

    @property
    def worst(self) -> Pair | None:
        """The pair that is farthest from adding up."""
        return max(self.pairs, key=lambda pair: abs(pair.defect), default=None)

    def words(self, spoken: Spoken, most: int = 3) -> str:
        """A few sentences."""
        token, current = spoken(self.token), spoken(self.current)
        named = ", ".join(f"{spoken(each.token)}@{each.position} {each.value:+.3f}" for each in self.strongest[:most])
        rest = [(name, value) for name, value in (("positions", self.positions), ("biases", self.biases)) if value]
        others = "".join(f", {name} {value:+.3f}" for name, value in rest)
        count, skips = len(self.sources), sum(source.value for source in self.sources)
        first = self.strongest[0]
        lines = [
            f"One layer of heads is bigrams and skip-trigrams{', at the scales of its norms here' * self.normed}.",
            f"The logit of {token} after {current} is {self.logit:.3f}: bigram {self.bigram:+.3f}{others}, "
            f"{count} skip-trigram{'s' * (count > 1)} {skips:+.3f}; the strongest: {named}.",
            f"Probabilities multiply: {self.p_bigram:.4f} by the bigram alone, {first.p:.4f} with {spoken(first.token)}@{first.position}, "
            f"{self.p:.4f} by all (a product of experts to {self.product_certificate:.0e}).",
        ]
        return " ".join([*lines, *self._not_a_sum(spoken)])

    def _not_a_sum(self, spoken: Spoken) -> list[str]:
        worst = self.worst
        if worst is None:
            return []
        one, other = (f"{spoken(self._at(place).token)}@{place}" for place in (worst.first, worst.second))
        return [
            f"They do not add: what {one} and {other} do together differs by {worst.defect:+.4f} from what each does alone;"
            f" sources added one by one would give {self.added:.4f};"
            f" and all {len(self.sources) + 1} terms, each made probabilities, add up to {self.softmaxed:.1f} and not to 1."
        ]

    def _at(self, position: int) -> Source:
        return next(source for source in self.sources if source.position == position)

    def plain(self, spoken: Spoken = NAMELESS) -> dict[str, Any]:
        """For programs; texts of tokens beside their ids where there are words."""
        sources = [asdict(source) | {"text": spoken.text(source.token)} for source in self.sources]
        texts = {"current_text": spoken.text(self.current), "token_text": spoken.text(self.token)}
        return asdict(self) | texts | {"sources": sources}


def are_experts(config: ModelConfig) -> bool:
    """Whether a model is made of bigrams and skip-trigrams alone: one layer of heads and nothing else."""
    return config.layers == 1 and config.feed_forward is None


@torch.no_grad()
def experts(run: Record, position: int = -1, token: int | None = None) -> Experts:
    """The logit of a token (unless said otherwise the likeliest) after a position of a one-layer model.

    >>> from headwater.model.presets import named
    >>> from headwater.model.record import record
    >>> from headwater.model.weights import Weights
    >>> found = experts(record(Weights.draw(named("one-layer"), seed=0), torch.tensor([[5, 9, 7]])), token=3)
    >>> found.current, [source.token for source in found.sources], round(found.softmaxed, 6)
    (7, [5, 9, 7], 4.0)
    """
    check_one_text(run)
    if run.tap is not NOBODY:
        raise InputError("a run in which something intervened", "a run of the model itself", "record it without a tap")
    if not are_experts(run.config):
        given = f"a model of {run.config.layers} layers" + " with feed-forward layers" * (run.config.feed_forward is not None)
        raise InputError(given, "one layer of heads and nothing else", "use explain, which takes any model apart")
    position = within(position, run.tokens.shape[1], "position")
    logits = run.logits_at(position)[0].double()
    token = int(logits.argmax()) if token is None else known(token, run.config.vocab)
    biases, bigram, positions, *skips = _terms(run, position).double()
    terms = torch.stack([biases + bigram + positions, *skips])
    alone = [float(p) for p in (terms[0] + terms[1:]).softmax(dim=-1)[:, token]]
    p, p_bigram = logits.softmax(dim=-1), float(terms[0].softmax(dim=-1)[token])
    sources = tuple(
        Source(position=place, token=int(run.tokens[0, place]), value=float(skip[token]), p=alone[place])
        for place, skip in enumerate(skips)
    )
    return Experts(
        position=position,
        current=int(run.tokens[0, position]),
        token=token,
        logit=float(logits[token]),
        bigram=float(bigram[token]),
        positions=float(positions[token]),
        biases=float(biases[token]),
        sources=sources,
        p=float(p[token]),
        p_bigram=p_bigram,
        pairs=_pairs(terms, token),
        added=p_bigram + sum(each - p_bigram for each in alone),
        softmaxed=float(terms.softmax(dim=-1).sum()),
        normed=not isinstance(run.config.norm, NoNorm),
        certificate=float((terms.sum(dim=0) - logits).abs().max()),
        product_certificate=float((_product(terms) - p).abs().max()),
    )


def _terms(run: Record, position: int) -> Float[Tensor, "term vocab"]:
    """The logits that biases, the token itself, positions, and each source give; together, those of the model."""
    weights, norm, block = run.weights, run.config.norm, run.weights.blocks[0]
    embed = run["embed"]
    placed = run["positions"].expand_as(embed) if "positions" in run else torch.zeros_like(embed)
    given = torch.stack([torch.zeros_like(embed), embed, placed])
    read = given
    if isinstance(norm, PreNorm):
        read = push.through_norm(norm.norm, block.norm_1, run["L0.norm_1.scale"], given)
    looks = Frozen(run).pattern(0, torch.tensor([position], device=embed.device))[:, 0]
    each = einsum(
        looks,
        push.values(block.attention, read)[:, 0],
        block.attention.W_O,
        "head source, part head source d_head, head d_head d_model -> part source d_model",
    )
    seen = position + 1 if run.config.attention and run.config.attention.mask == "causal" else len(looks[0])
    biases, _, at_positions = given[:, 0, position] + each.sum(dim=1)
    rows = torch.cat([torch.stack([biases, embed[0, position], at_positions]), each[1, :seen]])
    rows = push.joined(rows, block.attention.b_O)
    if isinstance(norm, PostNorm):
        rows = push.through_norm(norm.norm, block.norm_1, run["L0.norm_1.scale"][0, position], rows)
    elif isinstance(norm, PreNorm):
        rows = push.through_norm(norm.norm, weights.norm_final, run["final.scale"][0, position], rows)
    return push.joined(rows @ weights.W_U, weights.b_U)


def _product(terms: Float[Tensor, "term vocab"]) -> Float[Tensor, " vocab"]:
    """Every term made probabilities, these multiplied (as logarithms: they are small), and the product made probabilities."""
    return terms.log_softmax(dim=-1).sum(dim=0).softmax(dim=-1)


def _pairs(terms: Float[Tensor, "term vocab"], token: int) -> tuple[Pair, ...]:
    """The strongest sources, two at a time."""
    skips = terms[1:]
    strongest = [int(place) for place in skips[:, token].abs().topk(min(STRONGEST, len(skips))).indices]

    def p(*sources: int) -> float:
        return float((terms[0] + skips[list(sources)].sum(dim=0)).softmax(dim=-1)[token])

    return tuple(
        Pair(first=one, second=other, p=p(one, other), defect=p(one, other) - p(one) - p(other) + p())
        for one, other in combinations(strongest, 2)
    )
