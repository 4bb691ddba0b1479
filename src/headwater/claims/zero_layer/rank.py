"""Document 001, statistical complexity: what the width of the embedding allows and what it costs."""

import math
from dataclasses import replace
from itertools import pairwise

import torch
from jaxtyping import Float
from torch import Tensor
from torch.utils.flop_counter import FlopCounterMode

import headwater as hw
from headwater.circuits.algebra import frobenius, singular_values, svd
from headwater.circuits.capacity import bigram_ranks
from headwater.claims.evidence import Finding, answered, beside, corrected, defined, found, outside, stated
from headwater.claims.given import SMALL, Given
from headwater.claims.one_layer.as_printed import apart, rank
from headwater.claims.registry import checks
from headwater.claims.zero_layer.language import (
    WIDTHS,
    WORDS,
    centred,
    composite,
    factored,
    language,
    trained,
)
from headwater.model.forward import forward
from headwater.train.studies.rank import circle
from headwater.train.studies.zero_layer import zero_layer

VOCAB = 50
EPSILON = 0.01


@checks("001-T1", "001-N9")
def rank_of_what_is_said(given: Given) -> Finding:
    """Logits have at most d independent directions and ``ln P`` one more; the probabilities themselves can have as many as there are words."""
    d_model = 4
    model = given.drawn(zero_layer(VOCAB, d_model))
    log_p = model.logits(torch.arange(VOCAB)[:, None])[:, 0].log_softmax(dim=1).T
    again = composite(factored(centred(log_p), d_model)).log_softmax(dim=0)
    said = bigram_ranks(model.weights)
    return found(
        stated("logits", said.logits.measured, within=d_model),
        stated("centred", _rank(centred(log_p)), within=d_model),
        stated("logarithms", _rank(log_p), within=d_model + 1),
        stated("again", apart(again, log_p), within=1e-10),
        outside("probabilities", _rank(log_p.exp()), within=d_model),
    )


@checks("001-E8")
def rank_of_a_product(given: Given) -> Finding:
    """``rank(W_U W_E) ≤ min(rank W_U, rank W_E) ≤ d``, for factors of several ranks and for the trained model's."""
    weights = given.drawn(zero_layer(VOCAB, 5)).weights
    beyond = told = 0
    for rank_e, rank_u in ((5, 5), (3, 5), (5, 2), (1, 4)):
        W_E, W_U = weights.W_E.clone(), weights.W_U.clone()
        W_E[:, rank_e:], W_U[rank_u:] = W_E[:, :1], W_U[:1]
        least = min(rank(W_U), rank(W_E))
        beyond = max(beyond, rank(W_E @ W_U) - least, least - 5)
        logits = bigram_ranks(weights.changed({"embed.W_E": W_E, "unembed.W_U": W_U})).logits
        told = max(told, abs(logits.measured - rank(W_E @ W_U)), abs(logits.bound - least))
    own = given.model("zero-layer")
    return found(
        stated("drawn", beyond, within=0),
        stated("told", told, within=0),
        stated("trained", own.direct.rank(), within=min(rank(own.weights.W_E), rank(own.weights.W_U))),
        stated("width", rank(own.weights.W_E), within=own.config.d_model),
        on=given.name("zero-layer"),
    )


@checks("001-QT2")
def cost_and_gain(given: Given) -> Finding:
    """Operations and numbers grow by the same amount with each dimension; the loss falls to ``H(X2 | X1)`` at the rank of ``ln P``."""
    words = language()
    operations = [_multiplications(given, d_model, length=1) for d_model in (1, 2, 3)]
    left = [words.loss(composite(trained(given, d_model))) - words.entropy for d_model in WIDTHS]
    enough = rank(centred(words.P.log()))
    return found(
        answered("cost", operations[2] - operations[1], equal=operations[1] - operations[0]),
        answered("falling", max(after - before for before, after in pairwise(left)), below=0),
        answered("enough", enough, equal=WIDTHS[-1]),
        answered("last", left[-1], within=1e-10),
        answered("before", left[-2], above=1e-3),
        *(beside(f"left-{d_model}", excess) for d_model, excess in zip(WIDTHS, left, strict=True)),
    )


@checks("001-N8")
def multiplications_and_numbers(given: Given) -> Finding:
    """Counted while the forward pass runs: ``|V| d`` multiplications for each token, and ``2 |V| d`` numbers."""
    d_model, length = 6, 9
    size, once = VOCAB * d_model, _multiplications(given, d_model, length=length)
    numbers = [sum(t.numel() for t in given.drawn(zero_layer(VOCAB, d)).weights.tensors().values()) for d in (6, 12)]
    return found(
        stated("token", once / length / size, equal=1),
        stated("twice", _multiplications(given, 2 * d_model, length=length) / once, equal=2),
        stated("numbers", numbers[0] / size, equal=2),
        stated("twice-numbers", numbers[1] / numbers[0], equal=2),
    )


@checks("001-L4")
def least_dimension(given: Given) -> Finding:
    """Some width does reach every precision; but on a circle two dimensions write a table that has as many large singular values as words."""
    angles = torch.arange(VOCAB, dtype=torch.float64) * (2 * math.pi / VOCAB)
    points = torch.stack([angles.cos(), angles.sin()], dim=1)
    config, tensors = zero_layer(VOCAB, 2), {"embed.W_E": points.roll(-1, dims=0), "unembed.W_U": 2000 * points.T}
    P = torch.eye(VOCAB, dtype=torch.float64).roll(1, dims=0)
    P_hat = _said(hw.Weights.assemble(config, tensors))
    cyclic = centred((0.999999 * P + 0.000001 / VOCAB).log())
    return found(
        stated("exists", frobenius(P - _said(factored(cyclic, VOCAB - 1))), within=EPSILON),
        stated("reached", frobenius(P - P_hat), within=EPSILON),
        stated("inequality", config.d_model, above=_large(P, EPSILON) - 1),
        corrected("upper", max(_beyond_the_bound(seed) for seed in range(20)), below=0),
    )


@checks("001-E9")
def distance_of_tables(given: Given) -> Finding:
    """``‖P − P̂‖`` is the root of the sum of squared differences; the study of ranks computes it so. It is not what training lowers."""
    beta, size = 500.0, 20
    squares = 0.0
    for first in range(size):
        logits = [beta * math.cos(2 * math.pi * (first + 1 - second) / size) for second in range(size)]
        total = sum(math.exp(logit - beta) for logit in logits)
        squares += sum(
            ((second == (first + 1) % size) - math.exp(logit - beta) / total) ** 2 for second, logit in enumerate(logits)
        )
    words = language()
    narrow = composite(trained(given, WIDTHS[2]))
    return found(
        defined("circle", circle(size, beta).distance / math.sqrt(squares) - 1, within=1e-6),
        beside("distance", frobenius(words.P - narrow.softmax(dim=0))),
        beside("divergence", words.loss(narrow) - words.entropy),
    )


@checks("001-E10")
def lower_bound(given: Given) -> Finding:
    """A model of four dimensions gives its own table exactly, which has more singular values above ε than four; a table of rank d cannot."""
    d_model = 4
    P = _said(given.drawn(zero_layer(VOCAB, d_model)).weights)
    U, S, V = svd(P)
    linear = [frobenius(P - (U[:, :k] * S[:k]) @ V[:, :k].T) for k in range(VOCAB)]
    return found(
        stated("softmax", d_model, above=_large(P, EPSILON) - 1),
        corrected("linear", min(k - _large(P, epsilon + 1e-12) for k, epsilon in enumerate(linear)), above=-1),
        corrected("upper", max(_beyond_the_bound(seed) for seed in range(20)), below=0),
    )


@checks("001-N10")
def around_the_layers(given: Given) -> Finding:
    """When every layer writes nothing, ``W_U W_E t`` still arrives; through post-norm blocks it does not."""
    ids = given.ids()[0]

    def left(config: hw.ModelConfig) -> float:
        model = given.drawn(config)
        silent = hw.Chain(*(hw.Zero(model.place(f"L{layer}.attention")) for layer in range(config.layers)))
        return apart(model.record(ids, tap=silent).logits[0], composite(model.weights)[:, ids].T)

    return found(
        stated("one", left(SMALL), within=1e-10),
        stated("four", left(replace(SMALL, layers=4)), within=1e-10),
        outside("final", left(replace(SMALL, norm=hw.PreNorm())), within=1e-10),
        outside("post", left(replace(SMALL, norm=hw.PostNorm())), within=1e-10),
    )


def _rank(table: Float[Tensor, "second first"]) -> int:
    """Singular values above one part in 10⁸ of the largest."""
    values = singular_values(table)
    return int((values > 1e-8 * values[0]).sum())


def _large(P: Float[Tensor, "second first"], epsilon: float) -> int:
    """``rank_ε(P)`` as printed: the singular values larger than ε."""
    return int((singular_values(P) > epsilon).sum())


def _said(weights: hw.Weights) -> Float[Tensor, "second first"]:
    """The probabilities that a zero-layer model gives."""
    tokens = torch.arange(weights.config.vocab)[:, None]
    return forward(weights, tokens)[:, 0].softmax(dim=1).T


def _multiplications(given: Given, d_model: int, *, length: int) -> int:
    model = given.drawn(zero_layer(VOCAB, d_model))
    with FlopCounterMode(display=False) as counter:
        forward(model.weights, torch.zeros(1, length, dtype=torch.long))
    # Each multiplication counts as two operations there, with the addition that follows it.
    return counter.get_total_flops() // 2


def _beyond_the_bound(seed: int) -> float:
    """How far ``‖P − softmax(L_k)‖`` of a drawn table exceeds ``½ √(Σ_{i>k} σ_i²)``, at the width k where it does most."""
    P = (2 * torch.randn(WORDS, WORDS, generator=torch.Generator().manual_seed(seed), dtype=torch.float64)).softmax(dim=0)
    L = centred(P.log())
    values = singular_values(L)
    return max(frobenius(P - _said(factored(L, k))) - float(values[k:].square().sum().sqrt()) / 2 for k in range(1, WORDS - 1))
