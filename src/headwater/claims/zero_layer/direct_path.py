"""The direct path of a trained model beside all that its layers add: over the pairs of its text, and place by place."""

from dataclasses import dataclass, replace

import numpy as np
import torch
from jaxtyping import Bool, Float, Int
from torch import Tensor

from headwater.claims.given import LONGEST, Family, Given
from headwater.claims.one_layer.held_out import SHUFFLES
from headwater.model.forward import forward
from headwater.model.weights import Weights
from headwater.shapes import Tokens
from headwater.train.studies.pairs import Pairs

OFTEN = 30
"""A token must be met so often for the mean of what the layers add after it to say something."""
READ = 12_288
"""Tokens that are read to take that mean."""
WINDOWS_AT_ONCE = 8


@dataclass(frozen=True, eq=False)
class Said:
    """Of each pair of a text whose first token is met often: how frequent it is, and what is said of its second token."""

    first: Int[Tensor, " pair"]
    count: Float[Tensor, " pair"]
    log_p: Float[Tensor, " pair"]
    """``ln p(second | first)`` of the text."""
    direct: Float[Tensor, " pair"]
    """Its logit on the direct path."""
    layers: Float[Tensor, " pair"]
    """``E[ℓ_layers | first]``: the logit that the layers add, the mean over the text."""

    def correlation(self, a: Float[Tensor, " pair"], b: Float[Tensor, " pair"]) -> float:
        """Each pair as often as it occurs, both sides without the mean of their first token."""
        a, b = self._centred(a), self._centred(b)
        return float((self.count * a * b).sum() / ((self.count * a * a).sum() * (self.count * b * b).sum()).sqrt())

    def to_the_bigrams(self) -> float:
        """The correlation of the direct path with ``ln p``."""
        return self.correlation(self.direct, self.log_p)

    def to_the_rest(self) -> float:
        """The correlation of the direct path with what the layers leave over of ``ln p``."""
        return self.correlation(self.direct, self.log_p - self.layers)

    def partial(self) -> float:
        """The correlation of direct path and layers at equal ``ln p``: negative where one says less of what the other says."""
        x, y = self.to_the_bigrams(), self.correlation(self.layers, self.log_p)
        return (self.correlation(self.direct, self.layers) - x * y) / ((1 - x**2) * (1 - y**2)) ** 0.5

    def shuffled(self) -> list["Said"]:
        """The same with the direct path's logits exchanged among pairs, again and again: what chance would make of them."""
        lots = torch.Generator().manual_seed(0)
        orders = (torch.randperm(len(self.direct), generator=lots) for _ in range(SHUFFLES))
        return [replace(self, direct=self.direct[order]) for order in orders]

    def _centred(self, values: Float[Tensor, " pair"]) -> Float[Tensor, " pair"]:
        size = int(self.first.max()) + 1
        total, weight = (values.new_zeros(size).index_add_(0, self.first, x) for x in (self.count * values, self.count))
        return values - (total / weight)[self.first]


@torch.no_grad()
def said(weights: Weights, windows: Tokens, pairs: Pairs) -> Said:
    """What a model says of the pairs of a text, of which ``windows`` are read."""
    ids = windows[:, :-1]
    met = torch.bincount(ids.flatten(), minlength=pairs.vocab)
    often = met >= OFTEN
    row = often.cumsum(0) - 1
    added = weights.W_E.new_zeros(int(often.sum()), pairs.vocab)
    for begin in range(0, len(ids), WINDOWS_AT_ONCE):
        some = ids[begin : begin + WINDOWS_AT_ONCE]
        here = often[some]
        by_layers = forward(weights, some)[here] - weights.W_E[some[here]] @ weights.W_U
        added.index_add_(0, row[some[here]], by_layers)
    kept = often[pairs.first]
    first, second = pairs.first[kept], pairs.second[kept]
    return Said(
        first=first,
        count=pairs.count[kept].double(),
        log_p=pairs.log_p[kept],
        direct=(weights.W_E[first] * weights.W_U.T[second]).sum(dim=1),
        layers=(added / met[often][:, None])[row[first], second],
    )


def text_pairs(given: Given, family: Family) -> Pairs:
    """The bigrams of the text that a trained model was trained on."""
    known = given.corpus(family).bigrams
    vocab = given.model(family).config.vocab
    return given.once(f"pairs of {family}", lambda: Pairs.sparse(vocab, known.first, known.second, known.count))


def said_of_text(given: Given, family: Family) -> Said:
    """What a trained model says of the pairs of the text that it was trained on."""

    def make() -> Said:
        model, ids = given.model(family), given.corpus(family).train
        size = min(model.config.context, LONGEST)
        starts = np.linspace(0, len(ids) - size - 1, max(1, READ // size)).astype(int)
        windows = torch.from_numpy(np.stack([ids[start : start + size + 1] for start in starts]).astype(np.int64))
        return said(model.weights, windows, text_pairs(given, family))

    return given.once(f"said by {family}", make)


@dataclass(frozen=True, eq=False)
class Places:
    """Held-out places: what the token that came next costs, and how far its logit is above the mean of all."""

    whole: Float[Tensor, " place"]
    """Nats of the model."""
    direct: Float[Tensor, " place"]
    """Nats of the direct path alone."""
    layers: Float[Tensor, " place"]
    """Nats of all else, the attention patterns as they were."""
    direct_margin: Float[Tensor, " place"]
    layers_margin: Float[Tensor, " place"]
    information: Float[Tensor, " place"]
    """``ln p(second | first) − ln p(second)`` of the pair in the training text; no number where it never occurs there."""

    def most(self, share: float) -> Bool[Tensor, " place"]:
        """The places with the most pointwise mutual information, of those whose pair is known."""
        return self.information >= self.information.nanquantile(1 - share)

    def by_lot(self, share: float) -> list[Bool[Tensor, " place"]]:
        """As many places whose pair is known, drawn by lot, again and again."""
        lots = torch.Generator().manual_seed(0)
        known = self.information.isfinite()
        draws = (torch.rand(len(known), generator=lots).masked_fill(~known, -1.0) for _ in range(SHUFFLES))
        return [draw >= draw[known].quantile(1 - share) for draw in draws]


def places(given: Given, family: Family) -> Places:
    """Held-out places of a trained model."""
    return given.once(f"places of {family}", lambda: _places(given, family))


def _places(given: Given, family: Family) -> Places:
    model = given.model(family)
    windows = given.windows(family, 2048 // min(model.config.context, LONGEST))
    ids, second = windows[:, :-1], windows[:, 1:].flatten()
    logits = model.logits(ids).flatten(0, 1)
    direct = model.weights.W_E[ids.flatten()] @ model.weights.W_U
    whole, alone, without = (_nats(x, second) for x in (logits, direct, logits - direct))
    at = torch.arange(len(second))
    return Places(
        whole=whole,
        direct=alone,
        layers=without,
        direct_margin=(direct - direct.mean(dim=1, keepdim=True))[at, second],
        layers_margin=(logits - direct - (logits - direct).mean(dim=1, keepdim=True))[at, second],
        information=_information(text_pairs(given, family), ids.flatten(), second),
    )


def _nats(logits: Float[Tensor, "place vocab"], second: Int[Tensor, " place"]) -> Float[Tensor, " place"]:
    return -logits.log_softmax(dim=1).gather(1, second[:, None])[:, 0]


def _information(pairs: Pairs, first: Int[Tensor, " place"], second: Int[Tensor, " place"]) -> Float[Tensor, " place"]:
    codes, asked = pairs.first * pairs.vocab + pairs.second, first * pairs.vocab + second
    at = torch.searchsorted(codes, asked).clamp(max=len(codes) - 1)
    p_second = torch.zeros(pairs.vocab, dtype=torch.float64).index_add_(0, pairs.second, pairs.count.double()) / pairs.total
    return torch.where(codes[at] == asked, pairs.log_p[at] - p_second[second].log(), torch.nan)
