"""The bigrams of a text beside what the two parts of a one-layer model say of them, over the pairs that occur."""

from dataclasses import dataclass

import numpy as np
import torch
from jaxtyping import Float, Int
from torch import Tensor

from headwater.api import Model
from headwater.circuits.factored import Factored
from headwater.claims.given import LONGEST, Given
from headwater.claims.one_layer.small_runs import small_one_layer
from headwater.shapes import Tokens
from headwater.train.studies.pairs import Pairs

READ = 16_384
"""Tokens of the training text over which the heads are averaged."""
OFTEN = 20
"""A present token counts where it stands in these at least so often."""
AT_ONCE = 8192


@dataclass(frozen=True, eq=False)
class Seen:
    """Pairs that occur, and two logits for each: ``(W_U W_E)[second, first]`` and the mean over contexts of what heads add."""

    pairs: Pairs
    direct: Float[Tensor, " pair"]
    heads: Float[Tensor, " pair"]

    @staticmethod
    def of(model: Model, every: Pairs, texts: Tokens) -> "Seen":
        """Heads' logits are linear in what heads write, so their mean after a token is that of the mean write."""
        written, present = model.record(texts)["L0.attention"].flatten(0, 1), texts.flatten()
        times = torch.bincount(present, minlength=every.vocab)
        total = written.new_zeros(every.vocab, written.shape[1]).index_add_(0, present, written)
        often = times[every.first] >= OFTEN
        pairs = Pairs(every.vocab, every.first[often], every.second[often], every.count[often])
        mean = Factored(total / times.clamp(min=1)[:, None], model.weights.W_U)
        return Seen(pairs, logits_of(model.direct, pairs.first, pairs.second), logits_of(mean, pairs.first, pairs.second))


def correlation(pairs: Pairs, one: Float[Tensor, " pair"], other: Float[Tensor, " pair"]) -> float:
    """Of two logits over all pairs of a text; a constant for each first token does not count."""
    x, y = _centred(pairs, one), _centred(pairs, other)
    return float((pairs.count * x * y).sum() / ((pairs.count * x * x).sum() * (pairs.count * y * y).sum()).sqrt())


def distance(pairs: Pairs, one: Float[Tensor, " pair"], other: Float[Tensor, " pair"]) -> float:
    """The root of the mean square between two logits, over all pairs of a text; a constant for each first token does not count."""
    return float(((pairs.count * _centred(pairs, one - other).square()).sum() / pairs.total).sqrt())


def _centred(pairs: Pairs, values: Float[Tensor, " pair"]) -> Float[Tensor, " pair"]:
    total = torch.zeros_like(pairs.seen).index_add_(0, pairs.first, pairs.count * values)
    return values - (total / pairs.seen)[pairs.first]


def logits_of(table: Factored, first: Int[Tensor, " pair"], second: Int[Tensor, " pair"]) -> Float[Tensor, " pair"]:
    """The entries of some pairs, a few at a time."""
    pieces = [slice(begin, begin + AT_ONCE) for begin in range(0, len(first), AT_ONCE)]
    return torch.cat([table.entries(first[piece], second[piece]) for piece in pieces])


def corpus_pairs(given: Given) -> Pairs:
    """The bigrams of the text that the trained one-layer model learned from."""
    known = given.corpus("one-layer").bigrams
    return Pairs.sparse(given.model("one-layer").config.vocab, known.first, known.second, known.count)


def of_strangers(given: Given, pairs: Pairs) -> Float[Tensor, " pair"]:
    """The direct path's logits of the same seconds after other firsts, drawn by lot: what it knows of every text."""
    others = torch.randperm(pairs.vocab, generator=torch.Generator().manual_seed(0))
    return logits_of(given.model("one-layer").direct, others[pairs.first], pairs.second)


def seen_pairs(given: Given) -> Seen:
    """The trained one-layer model and its text."""

    def make() -> Seen:
        ids, model = given.corpus("one-layer").train, given.model("one-layer")
        length = min(model.config.context, LONGEST)
        starts = np.linspace(0, len(ids) - length, READ // length).astype(int)
        texts = torch.from_numpy(np.stack([ids[start : start + length] for start in starts]).astype("int64"))
        return Seen.of(model, corpus_pairs(given), texts)

    return given.once("one-layer bigrams", make)


def small_seen_pairs(given: Given) -> tuple[Seen, Seen]:
    """The small model, early in its training and at its end."""

    def make() -> tuple[Seen, Seen]:
        small = small_one_layer(given)
        texts = small.windows(256)[:, :-1]
        early, late = (Seen.of(Model(weights), small.pairs, texts) for _, weights in (small.series[1], small.series[-1]))
        return early, late

    return given.once("small one-layer bigrams", make)
