"""The one-layer model on a short text: what the diagrams of document 000 are drawn from."""

from dataclasses import dataclass
from functools import cached_property
from typing import Literal

import torch
from jaxtyping import Float
from torch import Tensor

from headwater.circuits.head import Head, key_head
from headwater.claims.given import Given
from headwater.model.positions import place
from headwater.model.weights import AttentionWeights, Weights
from headwater.text.spoken import Spoken
from headwater.trace.run import Run

TEXT = "for line in open("
MOST_TOKENS = 8
BEST = 5
"""Next tokens that are shown of the whole vocabulary: the likeliest."""


def one_run(given: Given) -> "OneRun":
    """The run, done once."""

    def make() -> OneRun:
        model = given.model("one-layer")
        run = model.record(model.tokens(TEXT)[:, :MOST_TOKENS], ["L0.scores", "L0.pattern", "L0.values", "L0.head_writes"])
        return OneRun(run, given.name("one-layer"))

    return given.once("diagrams of one layer", make)


@dataclass(frozen=True, eq=False)
class OneRun:
    """A run of a model with one layer of heads, and the parts of its last logits. B is the last token."""

    run: Run
    name: str

    @property
    def x0(self) -> Float[Tensor, "pos d_model"]:
        """The stream before the heads."""
        return self.run["L0.in"][0]

    @property
    def x1(self) -> Float[Tensor, "pos d_model"]:
        """The stream after them."""
        return self.run["L0.out"][0]

    @property
    def writes(self) -> Float[Tensor, "head pos d_model"]:
        """What each head adds to the stream."""
        return self.run["L0.head_writes"][0]

    @property
    def scores(self) -> Float[Tensor, "head dest source"]:
        """Before the softmax, divided by √d_k."""
        return self.run["L0.scores"][0]

    @property
    def pattern(self) -> Float[Tensor, "head dest source"]:
        """What each head attends to."""
        return self.run["L0.pattern"][0]

    @property
    def logits(self) -> Float[Tensor, " vocab"]:
        """The model's own, after the last token."""
        return self.run.logits[0, -1]

    @property
    def p(self) -> Float[Tensor, " vocab"]:
        """The probabilities of all next tokens."""
        return self.logits.softmax(dim=-1)

    @cached_property
    def direct(self) -> Float[Tensor, " vocab"]:
        """What B says by itself, its row of ``W_E W_U``; and what biases say, where there are any."""
        return (self.x0[-1] + self.bias("b_O")) @ self.weights.W_U + self.b_U

    @cached_property
    def said(self) -> Float[Tensor, "head source vocab"]:
        """The logits that a head adds when it looks at one token and at no other: ``x W_V W_O W_U``."""
        values, heads = self.run["L0.values"][0], range(self.run.config.heads)
        return torch.stack([values[self.shared(head)] @ self.block.W_O[head] for head in heads]) @ self.weights.W_U

    @cached_property
    def added(self) -> Float[Tensor, "head source vocab"]:
        """What each head adds to the last logits because of each token: its weight times what it says."""
        return self.pattern[:, -1, :, None] * self.said

    @cached_property
    def best(self) -> Tensor:
        """The likeliest next tokens."""
        return self.logits.argsort(descending=True, stable=True)[:BEST]

    @cached_property
    def copied(self) -> tuple[int, int]:
        """The head and the source, before the last token, that add most to the likeliest next token."""
        gains = self.added[:, : max(1, self.pattern.shape[1] - 1), int(self.best[0])]
        return divmod(int(gains.argmax()), gains.shape[1])

    @property
    def head(self) -> int:
        """The head that is shown."""
        return self.copied[0]

    @property
    def source(self) -> int:
        """The position of A."""
        return self.copied[1]

    @property
    def weights(self) -> Weights:
        """The model's."""
        return self.run.weights

    @property
    def block(self) -> AttentionWeights:
        """Those of its heads."""
        return self.weights.blocks[0].attention

    def shared(self, head: int) -> int:
        """Which key and value a head uses."""
        return key_head(self.run.config, Head(0, head))

    @property
    def is_marked(self) -> bool:
        """Whether positions are added to what queries and keys are made of, and not to the stream."""
        return place(self.weights, 0, len(self.words)).in_queries_and_keys is not None

    @property
    def scale(self) -> float:
        """What scores are multiplied by: 1/√d_k."""
        assert self.run.config.attention is not None, "a model of one layer has attention"
        return self.run.config.attention.scale

    @property
    def W_QK(self) -> Float[Tensor, "d_model d_model"]:  # noqa: N802
        """``W_Q W_Kᵀ/√d_k`` of the head that is shown."""
        return self.block.W_Q[self.head] @ self.block.W_K[self.shared(self.head)].T * self.scale

    @property
    def W_OV(self) -> Float[Tensor, "d_model d_model"]:  # noqa: N802
        """``W_V W_O`` of that head."""
        return self.block.W_V[self.shared(self.head)] @ self.block.W_O[self.head]

    @property
    def queries(self) -> Float[Tensor, "pos d_head"]:
        """Of that head."""
        return self.run["L0.queries"][0, self.head]

    @property
    def keys(self) -> Float[Tensor, "pos d_head"]:
        """That it compares them with."""
        return self.run["L0.keys"][0, self.shared(self.head)]

    @property
    def values(self) -> Float[Tensor, "pos d_head"]:
        """That it mixes."""
        return self.run["L0.values"][0, self.shared(self.head)]

    @property
    def query(self) -> Float[Tensor, " d_head"]:
        """B's, in that head."""
        return self.queries[-1]

    @property
    def key(self) -> Float[Tensor, " d_head"]:
        """A's."""
        return self.keys[self.source]

    @property
    def value(self) -> Float[Tensor, " d_head"]:
        """A's."""
        return self.values[self.source]

    def bias(self, name: Literal["b_O", "b_V"]) -> Float[Tensor, " d_model"]:
        """What a bias adds to the stream, by that head where it is one of ``b_V``; zeros where there is none."""
        bias = self.block.b_O if name == "b_O" else self.block.b_V
        if bias is None:
            return torch.zeros_like(self.x0[0])
        return bias if name == "b_O" else bias[self.shared(self.head)] @ self.block.W_O[self.head]

    @property
    def b_U(self) -> Float[Tensor, " vocab"]:  # noqa: N802
        """The unembedding's bias, or zeros."""
        return torch.zeros_like(self.logits) if self.weights.b_U is None else self.weights.b_U

    @cached_property
    def words(self) -> tuple[str, ...]:
        """The tokens of the text, spaces and all."""
        return self.texts(self.run.tokens[0])

    def texts(self, ids: Tensor) -> tuple[str, ...]:
        """Tokens as they are; by number where they have no text."""
        return tuple(self.run.words.text(int(token)) or self.run.words(int(token)) for token in ids)

    def quoted(self, token: int | Tensor) -> str:
        """A token in quotes."""
        return Spoken(self.run.tokenizer)(int(token))

    @property
    def text(self) -> str:
        """All of it."""
        return "".join(self.words)


def projected(data: OneRun) -> tuple[Tensor, Tensor, Tensor]:
    """Queries, keys and values of the head that is shown, by the formulas: ``x W + b``, with its model's positions."""
    placed, block, head = place(data.weights, 0, len(data.words)), data.block, data.head
    x = data.x0 if placed.in_queries_and_keys is None else data.x0 + placed.in_queries_and_keys
    shared = data.shared(head)
    q, k, v = x @ block.W_Q[head], x @ block.W_K[shared], data.x0 @ block.W_V[shared]
    q, k, v = (
        made if bias is None else made + bias[number]
        for made, bias, number in ((q, block.b_Q, head), (k, block.b_K, shared), (v, block.b_V, shared))
    )
    return (q, k, v) if placed.turn is None else (placed.turn(q[None, None])[0, 0], placed.turn(k[None, None])[0, 0], v)


def attended(data: OneRun) -> Float[Tensor, "dest source"]:
    """The pattern of that head by its formula: the softmax of ``q kᵀ/√d_k``, over the tokens up to each where the model is causal."""
    q, k, _ = projected(data)
    powers = (q @ k.T * data.scale).exp()
    if data.run.config.attention and data.run.config.attention.mask == "causal":
        powers = powers.tril()
    return powers / powers.sum(dim=-1, keepdim=True)
