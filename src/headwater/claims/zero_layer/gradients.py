"""Document 001, gradients: what reaches the direct path and the layers, and what the direct path is then kept for."""

import numpy as np
import torch
from jaxtyping import Float
from torch import Tensor
from torch.nn.functional import one_hot

import headwater as hw
from headwater.circuits.algebra import frobenius
from headwater.claims.evidence import Finding, answered, beside, corrected, found, outside, reported, stated
from headwater.claims.given import SMALL, Given
from headwater.claims.one_layer.as_printed import apart, eye
from headwater.claims.one_layer.small_runs import small_one_layer
from headwater.claims.registry import checks
from headwater.claims.zero_layer.direct_path import places, text_pairs
from headwater.claims.zero_layer.language import WORDS, composite, language, trained
from headwater.claims.zero_layer.residual import layer_terms
from headwater.model.forward import forward
from headwater.shapes import Tokens
from headwater.text.counts import entropy
from headwater.train.module import TransformerModule
from headwater.train.studies import gradient_paths
from headwater.train.studies.gradient_paths import cosine_at_the_logits, path_gradients
from headwater.train.studies.zero_layer import zero_layer

TWO = hw.ModelConfig(vocab=SMALL.vocab, context=16, d_model=12, layers=2, attention=SMALL.attention)
STEP = 1e-5
"""Of finite differences."""
MOST = 0.1
"""The tenth of all places whose pair says most."""
BATCHES = 10


@checks("001-QT3")
def what_is_left_for_the_layers(given: Given) -> Finding:
    """All paths get the same ``p − y``; a trained direct path takes its mean given the token away, and the layers get the rest."""
    words, small = language(), small_one_layer(given)
    T = composite(trained(given, WORDS - 1))
    before, after = (frobenius((each.softmax(dim=0) - words.P) * words.share) for each in (torch.zeros_like(T), T))
    shares = [told_by_the_token(weights, small.windows(64)) for _, weights in small.series]
    return found(
        answered("same", 1 - cosine_at_the_logits(given.drawn(TWO).weights, given.ids(TWO, batch=3)), within=1e-10),
        answered("left", after, below=1e-10),
        answered("course", shares[-1], below=shares[0]),
        beside("without", before),
    )


@checks("001-L7")
def not_orthogonal(given: Given) -> Finding:
    """At the logits the gradients of all paths are one and the same; in the embedding, which they share, their cosine is no zero either."""
    weights, windows = given.drawn(TWO).weights, given.ids(TWO, batch=3)
    small = small_one_layer(given)
    first, last = small.series[0], small.series[-1]
    text = small.windows(16 * BATCHES)
    begun, ended = (gradient_paths.run([at], lambda n: text[n::BATCHES], batches=BATCHES).angles[0] for at in (first, last))
    return found(
        stated("logits", cosine_at_the_logits(weights, windows), within=1e-3),
        stated("shared", begun.mean / begun.error, within=3),
        corrected("same", 1 - cosine_at_the_logits(weights, windows), within=1e-10),
        corrected("residual", max(apart(numeric, exact) for numeric, exact in by_differences(given)), within=1e-8),
        beside("begun", begun.of_mean),
        beside("ended", ended.of_mean),
    )


@checks("001-E13")
def chain_rule(given: Given) -> Finding:
    """``(p − y) tᵀ``, the mean over places, is the gradient in ``W_U W_E`` as long as the layers' terms are held; in fact ``W_E`` enters them too."""
    windows = given.ids(TWO, batch=3)
    t, y = (one_hot(part.flatten(), TWO.vocab).double() for part in (windows[:, :-1], windows[:, 1:]))
    T = composite(given.drawn(zero_layer(TWO.vocab, 6)).weights)
    as_unembedding = hw.Weights.assemble(zero_layer(TWO.vocab, TWO.vocab), {"embed.W_E": eye(TWO.vocab), "unembed.W_U": T.T})
    alone = (t @ T.T).softmax(dim=1)
    weights = given.drawn(TWO).weights
    p = forward(weights, windows[:, :-1]).flatten(0, 1).softmax(dim=1)
    direct = weights.W_U @ ((p - y).T @ t / len(t))
    return found(
        stated(
            "zero", apart(whole_gradient(as_unembedding, windows, "unembed.W_U").T, (alone - y).T @ t / len(t)), within=1e-10
        ),
        stated("held", apart(path_gradients(weights, windows)["W_E", "direct"].T, direct), within=1e-10),
        outside("free", apart(whole_gradient(weights, windows, "embed.W_E").T, direct), within=1e-10),
    )


@checks("001-E14")
def gradient_of_a_term(given: Given) -> Finding:
    """``∂L/∂T_i`` by differences is ``p − y`` for every term; what a layer writes gets it through ``W_U``."""
    model, windows = given.drawn(TWO), given.ids(TWO)[0]
    ids, place = windows[:-1], model.place("L1.attention")
    u = torch.randn(TWO.d_model, generator=torch.Generator().manual_seed(0), dtype=torch.float64)

    def loss(step: float) -> float:
        return nats(model.record(ids, tap=hw.Steer(place, u, step)).logits[0], windows[1:])

    p = model.logits(ids)[0].softmax(dim=1)
    written = ((p - one_hot(windows[1:], TWO.vocab)) @ model.weights.W_U.T @ u).mean()
    return found(
        stated("terms", max(apart(numeric, exact) for numeric, exact in by_differences(given)), within=1e-8),
        stated("writes", (loss(STEP) - loss(-STEP)) / (2 * STEP) - written, within=1e-8),
    )


@checks("001-FN17")
def names_and_surnames(given: Given) -> Finding:
    """The direct path's part of what lifts the next token above the mean: where the pair is specific, and elsewhere."""
    held = places(given, "one-layer")
    specific, lots = held.most(MOST), held.by_lot(MOST)

    def share(where: Tensor) -> float:
        direct, layers = held.direct_margin[where].sum(), held.layers_margin[where].sum()
        return float(direct / (direct + layers))

    def margin(where: Tensor) -> float:
        return float(held.direct_margin[where].mean())

    return found(
        reported("share", share(specific), above=max(map(share, lots))),
        reported("margin", margin(specific), above=max(map(margin, lots))),
        on=given.name("one-layer"),
    )


@checks("001-PC2")
def shortcut(given: Given) -> Finding:
    """Alone, does the direct path know the bigrams? Not even the frequencies of tokens; the whole model goes below ``H(X2 | X1)``."""
    held, pairs = places(given, "one-layer"), text_pairs(given, "one-layer")
    return found(
        reported("alone", held.direct.mean(), below=entropy(given.corpus("one-layer").unigrams)),
        reported("whole", held.whole.mean(), below=pairs.entropy),
        beside("without", held.layers.mean()),
        on=given.name("one-layer"),
    )


def nats(logits: Float[Tensor, "pos vocab"], second: Tensor) -> float:
    """``−ln p`` of the tokens that came next, the mean."""
    return -float(logits.log_softmax(dim=1)[torch.arange(len(second)), second].mean())


def by_differences(given: Given) -> list[tuple[Tensor, Tensor]]:
    """For the direct path and each layer of a drawn model: ``∂L/∂T_i`` by finite differences, entry by entry, and ``p − y``."""
    windows = given.ids(TWO, length=4)[0]
    run, second = given.drawn(TWO).record(windows[:-1]), windows[1:]
    terms = [composite(run.weights)[:, windows[:-1]].T, *layer_terms(run)]
    exact = (run.logits[0].softmax(dim=1) - one_hot(second, TWO.vocab)) / len(second)

    def slope(term: int, at: tuple[int, ...]) -> float:
        bump = torch.zeros_like(exact)
        bump[at] = STEP
        up, down = (sum([*terms[:term], *terms[term + 1 :]], terms[term] + sign * bump) for sign in (1, -1))
        return (nats(up, second) - nats(down, second)) / (2 * STEP)

    entries = list(np.ndindex(*exact.shape))
    by_hand = [torch.tensor([slope(term, at) for at in entries], dtype=torch.float64) for term in range(len(terms))]
    return [(numeric.view_as(exact), exact) for numeric in by_hand]


def whole_gradient(weights: hw.Weights, windows: Tokens, name: str) -> Tensor:
    """The gradient of the training loss in one tensor, all uses of it together."""
    module = TransformerModule(weights)
    module(windows).backward()
    gradient = module.tensors()[name].grad
    assert gradient is not None, "the loss was differentiated"
    return gradient


@torch.no_grad()
def told_by_the_token(weights: hw.Weights, windows: Tokens) -> float:
    """The part of ``E‖p − y‖²`` that lies in ``E[p − y | token]``: what a better direct path could still take away."""
    ids = windows[:, :-1].flatten()
    left = forward(weights, windows[:, :-1]).flatten(0, 1).softmax(dim=1) - one_hot(
        windows[:, 1:].flatten(), weights.config.vocab
    )
    total = torch.zeros(weights.config.vocab, weights.config.vocab, dtype=torch.float64).index_add_(0, ids, left)
    times = torch.bincount(ids, minlength=weights.config.vocab).clamp(min=1)
    return float((total.square().sum(dim=1) / times).sum() / left.square().sum())
