"""One head at work on a short text: every step of self-attention, from the tensors and the documents' formulas."""

from dataclasses import dataclass

import torch
from torch import Tensor

from headwater.api import Model
from headwater.circuits.head import Head, key_head
from headwater.claims.figures.paper import Array
from headwater.claims.given import Given
from headwater.model.positions import place
from headwater.text.spoken import Spoken

TEXT = "for line in open("
MOST = 6
"""Tokens that have room on a figure."""


@dataclass(frozen=True, kw_only=True)
class Attended:
    """What one head does with a text; rows are tokens. Scores are −∞ where the mask forbids a token to look."""

    number: int
    """Of the head in its layer."""
    shared: int
    """Of the key and value that it uses, which heads of a group share."""
    words: tuple[str, ...]
    x: Array
    """What attention reads."""
    positions: Array
    """What is added to that for queries and keys alone; zeros where positions are in the stream already."""
    W_Q: Array
    W_K: Array
    W_V: Array
    q: Array
    k: Array
    v: Array
    scale: float
    """What scores are multiplied by: 1/√d_k."""
    scores: Array
    weights: Array
    mixed: Array

    @property
    def head(self) -> str:
        """The head's name."""
        return str(Head(0, self.number))

    @property
    def is_marked(self) -> bool:
        """Whether queries and keys are made of x + p."""
        return bool(self.positions.any())

    @property
    def last(self) -> int:
        """The token whose attention is told in full: the last, which sees all."""
        return len(self.words) - 1


def attended(given: Given) -> Attended:
    """The head of the one-layer model that is between looking at one token and at all."""
    return given.once("figures: attended", lambda: _attend(given.model("one-layer")))


def short_text(model: Model, text: str = TEXT, most: int = MOST) -> Tensor:
    """The tokens of a short text, cut where a figure has no room for more."""
    return model.tokens(text)[:, :most]


def words_of(model: Model, ids: Tensor) -> tuple[str, ...]:
    """Tokens as they are, spaces and all."""
    spoken = Spoken(model.tokenizer)
    return tuple(spoken.text(int(token)) or spoken(int(token)) for token in ids.flatten())


def _attend(model: Model) -> Attended:
    ids = short_text(model)
    run = model.record(ids)
    head = telling(run["L0.pattern"][0, :, -1])
    attention, layer = model.weights.blocks[0].attention, model.config.attention
    assert layer is not None, "a model of one layer has attention"
    shared, placed = key_head(model.config, Head(0, head)), place(model.weights, 0, ids.shape[1])
    x = run["L0.attention_input"][0]
    positions = torch.zeros_like(x) if placed.in_queries_and_keys is None else placed.in_queries_and_keys
    W_Q, W_K, W_V = attention.W_Q[head], attention.W_K[shared], attention.W_V[shared]
    q, k, v = (x + positions) @ W_Q, (x + positions) @ W_K, x @ W_V
    q, k, v = (
        made if bias is None else made + bias[number]
        for made, bias, number in ((q, attention.b_Q, head), (k, attention.b_K, shared), (v, attention.b_V, shared))
    )
    if placed.turn is not None:
        q, k = placed.turn(q[None, None])[0, 0], placed.turn(k[None, None])[0, 0]
    scores = (q @ k.T) * layer.scale
    if layer.mask == "causal":
        scores = scores.masked_fill(torch.ones_like(scores).triu(1).bool(), -torch.inf)
    weights = scores.exp() / scores.exp().sum(dim=-1, keepdim=True)
    named = {"x": x, "positions": positions, "W_Q": W_Q, "W_K": W_K, "W_V": W_V, "q": q, "k": k, "v": v}
    made = {"scores": scores, "weights": weights, "mixed": weights @ v}
    arrays = {name: tensor.double().numpy() for name, tensor in (named | made).items()}
    return Attended(number=head, shared=shared, words=words_of(model, ids), scale=layer.scale, **arrays)


def telling(weights: Tensor) -> int:
    """The head whose attention is spread over about half of the tokens: one that looks at one alone, or at all alike, tells little."""
    entropy = -(weights * weights.clamp(min=1e-300).log()).sum(dim=-1)
    return int((entropy.exp() - weights.shape[-1] / 2).abs().argmin())
