"""Document 001, relevance, spectrum and optimum: what ``W_U W_E`` is in deeper models, its singular values, and where its loss is least."""

import math
from collections import Counter
from dataclasses import replace
from itertools import pairwise

import torch
from torch import Tensor

import headwater as hw
from headwater.circuits.algebra import frobenius
from headwater.circuits.algebra import singular_values as singular_values_of
from headwater.circuits.capacity import bigram_ranks
from headwater.circuits.factored import Factored
from headwater.circuits.spectrum import Kind, spectrum
from headwater.claims.evidence import Finding, answered, beside, corrected, defined, found, outside, reported, stated
from headwater.claims.given import SMALL, Given
from headwater.claims.one_layer.as_printed import apart, rank
from headwater.claims.registry import checks
from headwater.claims.zero_layer.direct_path import said_of_text
from headwater.claims.zero_layer.language import (
    NARROW,
    WIDTHS,
    WORDS,
    Language,
    centred,
    composite,
    factored,
    language,
    train,
    trained,
)
from headwater.shapes import whole
from headwater.trace.terms import orders
from headwater.train.studies import bigram
from headwater.train.studies.pairs import Pairs

DEEP = replace(SMALL, layers=4)
TINY = hw.ModelConfig(vocab=5, context=64, d_model=3, layers=0)


@checks("001-N5")
def direct_term(given: Given) -> Finding:
    """What is left of a model's logits without the paths through its heads is ``W_U W_E t``, unless a norm stands on the stream."""
    ids = given.ids()

    def off(config: hw.ModelConfig) -> float:
        model = given.drawn(config)
        return apart(orders(model.record(ids))[0, 0], composite(model.weights)[:, ids[0]].T)

    return found(
        stated("one", off(SMALL), within=1e-10),
        stated("four", off(DEEP), within=1e-10),
        stated("frozen", under_a_frozen_norm(given), within=1e-10),
        outside("final", off(replace(SMALL, norm=hw.PreNorm())), within=1e-10),
        outside("post", off(replace(SMALL, norm=hw.PostNorm())), within=1e-10),
    )


@checks("001-IN1")
def residual_of_the_bigrams(given: Given) -> Finding:
    """The direct path of the two-layer model against ``ln p`` less what the layers add on average, and against ``ln p`` itself."""
    pairs = said_of_text(given, "two-layer")
    return found(
        reported("residual", pairs.to_the_rest(), above=pairs.to_the_bigrams()),
        reported("chance", pairs.to_the_rest(), above=max(each.to_the_rest() for each in pairs.shuffled())),
        beside("layers", pairs.correlation(pairs.layers, pairs.log_p)),
        beside("together", pairs.correlation(pairs.direct + pairs.layers, pairs.log_p)),
        on=given.name("two-layer"),
    )


@checks("001-QT1")
def what_the_spectrum_says(given: Given) -> Finding:
    """Centred, the number of singular values is that of independent patterns; weighted too, their squares are variance over the text."""
    made = factored(centred(language().P.log()), NARROW)
    table, share = Factored(made.W_E, made.W_U), language().share
    moved = table + Factored(torch.arange(WORDS).double()[:, None], torch.ones(1, WORDS, dtype=torch.float64))
    before, after = (torch.tensor(spectrum(each, "centred").singular_values[:NARROW]) for each in (table, moved))
    variance = float((share * centred(composite(made)).square().sum(dim=0)).sum())
    direct, counts = given.model("zero-layer").direct, given.unigrams("zero-layer")
    return found(
        answered("patterns", int((before > 1e-9 * before[0]).sum()), equal=rank(centred(composite(made)))),
        answered("constant", apart(before, after), within=1e-10),
        answered("variance", spectrum(table, "weighted", frequencies=share).norm ** 2 - variance, within=1e-10),
        beside("raw", spectrum(direct, "raw").singular_values[0]),
        beside("centred", spectrum(direct, "centred").singular_values[0]),
        beside("weighted", spectrum(direct, "weighted", frequencies=counts).singular_values[0]),
        on=given.name("zero-layer"),
    )


@checks("001-E3")
def singular_values(given: Given) -> Finding:
    """``U Σ Vᵀ`` from the thin factors gives the matrix back, and the singular values of the whole table; beyond d all are zero."""
    config = hw.ModelConfig(vocab=40, context=2, d_model=6, layers=0)
    model = given.drawn(config)
    T, svd = composite(model.weights), model.direct.T.svd()
    every = singular_values_of(T)
    identity = torch.eye(config.d_model, dtype=torch.float64)
    return found(
        defined("product", apart(svd.U * svd.S @ svd.V.T, T), within=1e-10),
        defined("left", apart(svd.U.T @ svd.U, identity), within=1e-10),
        defined("right", apart(svd.V.T @ svd.V, identity), within=1e-10),
        defined("values", apart(svd.S, every[: config.d_model]), within=1e-10),
        defined("beyond", every[config.d_model] / every[0], within=1e-10),
    )


@checks("001-L2")
def singular_values_and_transitions(given: Given) -> Finding:
    """Constants that change no probability change the largest singular value; and a word that never comes can own its direction."""
    words = language()
    T, share = words.P.log(), words.share.clone()
    constant = T + 50 * torch.randn(WORDS, generator=torch.Generator().manual_seed(0), dtype=torch.float64)
    rare, share[0] = centred(T), 1e-9
    rare[0, 0] += 30

    def first(table: Tensor, kind: Kind) -> tuple[float, float]:
        made = factored(table, WORDS)
        found_ = spectrum(Factored(made.W_E, made.W_U), kind, frequencies=share, tokens=WORDS)
        reads = found_.directions[0].reads
        return found_.singular_values[0], abs(reads.weights[reads.ids.index(0)])

    return found(
        stated("constant", first(constant, "raw")[0] / first(T, "raw")[0] - 1, within=1e-10),
        stated("rare", first(rare, "raw")[1], below=0.5),
        corrected("same", apart(constant.softmax(dim=0), T.softmax(dim=0)), within=1e-10),
        corrected("weighted", first(constant, "weighted")[0] / first(T, "weighted")[0] - 1, within=1e-10),
        corrected("common", first(rare, "weighted")[1], below=0.5),
    )


@checks("001-L3")
def where_the_loss_is_least(given: Given) -> Finding:
    """``ln P`` is an optimum: nothing near it loses less. So is every table that differs by constants; and a narrow model never gets there."""
    words = language()
    T, draws = words.P.log(), torch.Generator().manual_seed(0)
    near = min(words.loss(T + 0.01 * torch.randn(T.shape, generator=draws, dtype=torch.float64)) for _ in range(200))
    full = composite(trained(given, WORDS - 1))
    unseen = replace(words, share=torch.where(torch.arange(WORDS) == 0, 0.0, words.share))
    return found(
        stated("least", words.loss(composite(factored(centred(T), WORDS - 1))) - words.entropy, within=1e-10),
        stated("near", near, above=words.entropy),
        stated("trained", apart(centred(full), centred(T)), within=1e-10),
        outside("constant", apart(full, T), within=1e-10),
        outside("narrow", words.loss(composite(trained(given, NARROW))) - words.entropy, within=1e-10),
        outside("unseen", apart(composite(train(unseen, WORDS)).softmax(dim=0), words.P), within=1e-10),
    )


@checks("001-E5")
def expected_loss(given: Given) -> Finding:
    """The mean loss over a text is the sum over pairs as printed; and that is ``H(X2 | X1)`` plus the mean divergence."""
    model, ids = given.drawn(TINY), given.ids(TINY, length=60)[0]
    log_q, text = composite(model.weights).log_softmax(dim=0), list(pairwise(whole(ids)))
    printed = entropy = 0.0
    for (first, second), times in Counter(text).items():
        p, p_second = times / len(text), times / sum(before == first for before, _ in text)
        printed -= p * float(log_q[second, first])
        entropy -= p * math.log(p_second)
    along = -model.logits(ids[:-1])[0].log_softmax(dim=1)[torch.arange(len(text)), ids[1:]].mean()
    fit = bigram.fit(model.weights, Pairs.of(ids.numpy(), TINY.vocab))
    return found(
        defined("text", along - printed, within=1e-10),
        defined("loss", fit.loss - printed, within=1e-10),
        defined("divergence", printed - entropy - fit.excess, within=1e-10),
    )


@checks("001-E6")
def stationary(given: Given) -> Finding:
    """Where training rests, the gradient of the expected loss in ``W_U W_E`` is zero; in a narrow model only those of the two factors are."""
    words = language()

    def gradient(d_model: int) -> Tensor:
        T = composite(trained(given, d_model)).requires_grad_()
        (-(words.pairs * T.log_softmax(dim=0)).sum()).backward()
        assert T.grad is not None, "the loss was differentiated"
        return T.grad

    G, narrow = gradient(NARROW), trained(given, NARROW)
    return found(
        stated("wide", frobenius(gradient(WORDS - 1)), within=1e-10),
        stated("formula", apart(G, (composite(narrow).softmax(dim=0) - words.P) * words.share), within=1e-10),
        stated("factors", max(frobenius(narrow.W_U @ G), frobenius(G @ narrow.W_E)), within=1e-10),
        outside("narrow", frobenius(G), within=1e-10),
    )


@checks("001-E7")
def probabilities_at_the_optimum(given: Given) -> Finding:
    """Where training rests, what the model expects after each word is what follows it; not in a narrow model, nor after an unseen word."""
    words = language()

    def off(weights: hw.Weights, spoken: Language) -> float:
        expected = hw.Model(weights).logits(torch.arange(WORDS)[:, None])[:, 0].softmax(dim=1).T
        return apart(expected, spoken.P)

    return found(
        stated("wide", off(trained(given, WORDS - 1), words), within=1e-10),
        outside("narrow", off(trained(given, NARROW), words), within=1e-10),
        outside("zeros", off(train(words.without(0.02), WORDS), words.without(0.02)), within=1e-10),
    )


@checks("001-C2")
def least_loss(given: Given) -> Finding:
    """What a narrow model loses at its best is the cross-entropy of the bigrams under it: their entropy and the divergence that is left."""
    words, best = language(), trained(given, NARROW)
    q = composite(best).softmax(dim=0)
    divergence = float((words.share * (words.P * (words.P / q).log()).sum(dim=0)).sum())
    draws = torch.Generator().manual_seed(0)

    def near() -> float:
        moves = [0.01 * torch.randn(m.shape, generator=draws, dtype=torch.float64) for m in (best.W_E, best.W_U)]
        return words.loss(composite(best.changed({"embed.W_E": best.W_E + moves[0], "unembed.W_U": best.W_U + moves[1]})))

    return found(
        stated("divergence", words.loss(composite(best)) - words.entropy - divergence, within=1e-10),
        stated("study", bigram.fit(best, words.counted).excess - divergence, within=1e-10),
        stated("least", min(near() for _ in range(200)), above=words.loss(composite(best))),
        beside("excess", divergence),
    )


@checks("001-N7")
def capacity(given: Given) -> Finding:
    """Three numbers for it: the rank, the parameters, and how much of the bigrams is left over at each width."""
    words = language()
    models = [trained(given, d_model) for d_model in WIDTHS]
    left = [words.loss(composite(weights)) - words.entropy for weights in models]
    return found(
        defined("rank", max(abs(bigram_ranks(w).logits.measured - rank(composite(w))) for w in models), equal=0),
        defined("numbers", sum(t.numel() for t in models[0].tensors().values()), equal=2 * WORDS * WIDTHS[0]),
        defined("falling", max(after - before for before, after in pairwise(left)), below=0),
        *(beside(f"left-{d_model}", excess) for d_model, excess in zip(WIDTHS, left, strict=True)),
    )


def under_a_frozen_norm(given: Given) -> float:
    """How far the direct term of a pre-norm model is from ``W_U W_E t`` centred, at the scale that its last norm had."""
    model, ids = given.drawn(replace(SMALL, norm=hw.PreNorm(norm=hw.LayerNorm(gain=False, bias=False)))), given.ids()
    run = model.record(ids)
    x = model.weights.W_E[ids[0]]
    frozen = (x - x.mean(dim=1, keepdim=True)) * run["final.scale"][0, :, None]
    return apart(orders(run)[0, 0], frozen @ model.weights.W_U)
