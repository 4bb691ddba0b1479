"""How many dimensions a model has to say things in: ranks, measured, beside the bounds that hold for every model of its sizes.

Ranks are numerical. They are those of the numbers as they are stored, calculated in float64 from small cores; singular values above
``ROUNDING`` of the largest count. They are about dimensions and say nothing of how large an adjustment is, nor of how many there are.
"""

from collections.abc import Iterable
from dataclasses import asdict, dataclass
from typing import Any, cast

import torch
from jaxtyping import Float
from torch import Tensor

from headwater.circuits.factored import Factored
from headwater.circuits.head import Head, HeadName, every_head, find_head, key_head
from headwater.circuits.paths import circuit
from headwater.circuits.ports import as_read
from headwater.errors import InputError
from headwater.model.config import LayerNorm, PostNorm, PreNorm
from headwater.model.weights import Weights

ROUNDING = 1e-11
"""Of the largest singular value: what is below may come from float64's rounding alone."""

NEGLIGIBLE = 1e-8
"""Of the largest singular value of a table of probabilities: what is below counts as zero. A softmax has no rank of its own, its singular
values fall off without end."""


@dataclass(frozen=True)
class Rank:
    """A rank, and what it cannot exceed."""

    measured: int
    bound: int


@dataclass(frozen=True, kw_only=True)
class Adjustments:
    """The space of all that some heads can add to the logits, over all texts."""

    heads: int
    d_head: int
    logits: Rank
    """At most ``min(d_model, vocab, heads · d_head)``."""
    probabilities: Rank
    """Without the direction that a softmax cannot see, a constant on all logits: at most ``vocab − 1`` in place of ``vocab``."""
    document_bound: int
    """``heads · min(d_model, d_head)``, which is right and not tight: heads beyond ``d_model / d_head`` add nothing to it."""

    def plain(self) -> dict[str, Any]:
        """As JSON has it."""
        return asdict(self)


def adjustments(weights: Weights, heads: Iterable[HeadName] | None = None) -> Adjustments:
    """The dimension of the span of ``v W_O W_U`` over all values ``v`` that the heads (all of the model's, or those named) can have.

    That is the rank of all the heads' ``W_V W_O W_U`` on top of each other, ``b_V W_O W_U`` among them, whatever the stream holds. ``b_O`` is the
    same in every text and adjusts nothing. ``W_V`` is taken as the head reads it, behind its norm's gain and centring. A pre-norm model's last norm multiplies each position by a number, which leaves a span as it
    is, and its gain and mean are part of ``W_U`` here. What later layers make of a head's write is not in it.
    """
    config = weights.config
    chosen = sorted(set(every_head(config) if heads is None else (find_head(head, config) for head in heads)))
    if not chosen:
        raise InputError("the adjustments of no heads", "at least one head", "choose a model with layers, or name a head")
    W_U = _unembedding(weights)
    written = Factored(torch.cat([_written(weights, head) for head in chosen]), W_U)
    d_model, vocab = W_U.shape
    most = min(d_model, len(chosen) * config.d_head)
    return Adjustments(
        heads=len(chosen),
        d_head=config.d_head,
        logits=Rank(written.rank(ROUNDING), min(most, vocab)),
        probabilities=Rank(written.centred_rows().rank(ROUNDING), min(most, vocab - 1)),
        document_bound=len(chosen) * min(d_model, config.d_head),
    )


def _written(weights: Weights, head: Head) -> Float[Tensor, "few d_model"]:
    """Rows that span what a head can write to the stream: the few that ``W_V`` with ``b_V`` reduces to, times ``W_O``."""
    block = weights.blocks[head.layer].attention
    shared = key_head(weights.config, head)
    W_V, norm_bias = block.W_V[shared].double(), weights.blocks[head.layer].norm_1.bias
    constant = torch.zeros_like(W_V[:1]) if block.b_V is None else block.b_V[shared][None].double()
    if norm_bias is not None:
        constant = constant + norm_bias.double() @ W_V
    values = torch.cat([as_read(weights, f"L{head.layer}.attention", W_V), constant])
    few = cast(Tensor, torch.linalg.qr(values.double(), mode="r").R)
    return few @ block.W_O[head.head].double()


def _unembedding(weights: Weights) -> Float[Tensor, "d_model vocab"]:
    """``W_U`` as the stream meets it, but for the scale of a last norm."""
    norm, W_U, gain = weights.config.norm, weights.W_U.double(), weights.norm_final.gain
    if isinstance(norm, PostNorm):
        given = "the adjustments of a post-norm model"
        raise InputError(
            given, "writes that reach the logits as they are, but for one scale", "choose a model without post-norm"
        )
    if not isinstance(norm, PreNorm):
        return W_U
    seen = W_U if gain is None else gain.double()[:, None] * W_U
    return seen - seen.mean(dim=0) if isinstance(norm.norm, LayerNorm) else seen


@dataclass(frozen=True, kw_only=True)
class BigramRanks:
    """What the direct path, the whole of a zero-layer model, can say about the next token, counted in dimensions."""

    embedding: Rank
    """Of ``W_E``, at most d_model."""
    unembedding: Rank
    """Of ``W_U``, at most d_model."""
    logits: Rank
    """Of ``W_E W_U``, at most the smaller of these two. (``b_U``, where there is one, allows one more here and below.)"""
    centred: Rank
    """Of ``log P`` with each row's mean taken out, the same as that of the centred logits."""
    log_probabilities: Rank
    """Of ``log P``: one more, the logarithm of the sum that each row is divided by."""
    probabilities: Rank | None
    """Of P itself, to one part in 10⁸: up to the vocabulary, since a softmax is not linear. None where the vocabulary is too large to look."""

    def plain(self) -> dict[str, Any]:
        """As JSON has it."""
        return asdict(self)


def bigram_ranks(weights: Weights, *, largest: int = 1024) -> BigramRanks:
    """The ranks of ``W_E W_U + b_U`` and of its softmax.

    All come from small cores and one streamed sum over the vocabulary, but that of P, which needs ``vocab²`` numbers and ``vocab³`` steps and
    is looked at up to a vocabulary of ``largest``. Models with norms are refused: their direct path has no scale of its own.

    >>> from headwater.model.config import ModelConfig
    >>> ranks = bigram_ranks(Weights.draw(ModelConfig(vocab=50, context=2, d_model=4, layers=0), seed=0))
    >>> ranks.logits, ranks.log_probabilities
    (Rank(measured=4, bound=4), Rank(measured=5, bound=5))
    """
    direct = circuit(weights, "direct").to(dtype=torch.float64)
    vocab, ones = weights.config.vocab, direct.left.new_ones(weights.config.vocab)
    table, extra = direct, 0
    if weights.b_U is not None:
        table, extra = direct + Factored(ones[:, None], weights.b_U.double()[None]), 1
    log_p = table - Factored(table.logsumexp()[:, None], ones[None])
    embedding, unembedding = (Rank(_rank(thin), min(thin.shape)) for thin in (direct.left, direct.right))
    most = min(embedding.measured, unembedding.measured) + extra
    return BigramRanks(
        embedding=embedding,
        unembedding=unembedding,
        logits=Rank(table.rank(ROUNDING), min(most, vocab)),
        centred=Rank(table.centred_rows().rank(ROUNDING), min(most, vocab - 1)),
        log_probabilities=Rank(log_p.rank(ROUNDING), min(most + 1, vocab)),
        probabilities=Rank(_rank(table.dense().softmax(dim=1), NEGLIGIBLE), vocab) if vocab <= largest else None,
    )


def _rank(matrix: Float[Tensor, "row column"], tolerance: float = ROUNDING) -> int:
    return int(cast(Tensor, torch.linalg.matrix_rank(matrix, rtol=tolerance)))
