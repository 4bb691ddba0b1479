"""Document 000, section 11.1: the direct path, and what it has to do with the bigrams of the text."""

import torch
from jaxtyping import Float
from torch import Tensor
from torch.nn.functional import one_hot

import headwater as hw
from headwater.api import Model
from headwater.circuits.paths import contribution
from headwater.claims.evidence import Finding, beside, corrected, found, outside, stated
from headwater.claims.given import SMALL, Given
from headwater.claims.one_layer.as_printed import apart, every_printed
from headwater.claims.one_layer.bigram_fits import corpus_pairs, distance, logits_of
from headwater.claims.one_layer.optimum import Contexts, centred
from headwater.claims.one_layer.patterns import IN_STREAM, elsewhere
from headwater.claims.one_layer.small_runs import small_one_layer, small_zero_layer
from headwater.claims.registry import checks
from headwater.model.weights import Weights
from headwater.train.plan import Plan
from headwater.train.studies import bigram
from headwater.train.studies.zero_layer import descend, zero_layer

CLOSE = 0.1
"""An excess of this share of ``H(X2 | X1)`` is still an approximation of the bigrams."""
PLAN = Plan(steps=400, batch=1, learning_rate=0.05, warmup=20, final_rate=0.0)
TRAINED = 0.01
"""How near a training comes that is run to the end."""


@checks("000-N17")
def terms_by_themselves(given: Given) -> Finding:
    """What each term does by itself, added up: the logits; but neither the probabilities nor the loss."""
    model, ids = given.drawn(), given.ids(length=10)
    A, heads = model.record(ids[:, :-1])["L0.pattern"][0], every_printed(model)
    t, after = one_hot(ids[0, :-1], SMALL.vocab).double(), ids[0, 1:]
    terms = torch.stack(
        [t @ (heads[0].W_U @ heads[0].W_E).T, *(A[h] @ t @ (m.W_U @ m.W_OV @ m.W_E).T for h, m in enumerate(heads))]
    )
    total = model.logits(ids[:, :-1])[0]
    even = torch.full_like(total, 1 / SMALL.vocab)
    gains = (terms.log_softmax(dim=-1) - even.log())[:, torch.arange(len(after)), after].mean(dim=-1)
    gain = (total.log_softmax(dim=-1) - even.log())[torch.arange(len(after)), after].mean()
    return found(
        stated("logits", apart(terms.sum(dim=0), total), within=1e-10),
        outside("probabilities", apart((terms.softmax(dim=-1) - even).sum(dim=0), total.softmax(dim=-1) - even), within=1e-10),
        outside("loss", gains.sum() - gain, within=1e-10),
    )


@checks("000-N18")
def same_as_without_layers(given: Given) -> Finding:
    """With its heads silent, a one-layer model is the zero-layer model of its ``W_E`` and ``W_U``; trained, the two end elsewhere."""
    model, ids = given.drawn(), given.ids()
    weights = model.weights
    bare = Weights.assemble(zero_layer(SMALL.vocab, SMALL.d_model), {"embed.W_E": weights.W_E, "unembed.W_U": weights.W_U})
    silent = model.record(ids, tap=hw.Zero(model.place("L0.attention"))).logits
    pairs = small_one_layer(given).pairs
    direct, one, other = (
        logits_of(Model(each).direct, pairs.first, pairs.second)
        for each in (small_one_layer(given).trained.weights, small_zero_layer(given, 0), small_zero_layer(given, 1))
    )
    return found(
        stated("form", apart(silent, Model(bare).logits(ids)), within=1e-10),
        outside("trained", distance(pairs, direct, one), within=2 * distance(pairs, other, one)),
    )


@checks("000-N19")
def nothing_moved(given: Given) -> Finding:
    """One token changed: the direct path's logits change at its place, and nowhere else."""
    model, ids = given.drawn(), given.ids()
    other = ids.index_fill(1, torch.tensor([3]), 0)
    A, B = ([model.record(text)["L0.pattern"]] for text in (ids, other))
    change = contribution(model.weights, "direct", B, other) - contribution(model.weights, "direct", A, ids)
    by_hand = (model.weights.W_E[0] - model.weights.W_E[ids[0, 3]]) @ model.weights.W_U
    moved = contribution(model.weights, "L0H0", B, other) - contribution(model.weights, "L0H0", A, ids)
    return found(
        stated("elsewhere", elsewhere(change, 3), within=1e-10),
        stated("there", apart(change[0, 3], by_hand), within=1e-10),
        beside("head", elsewhere(moved, 3)),
    )


@checks("000-N20")
def present_token_alone(given: Given) -> Finding:
    """The direct path says the same after the same token, whatever came before it and wherever it stands; positions in the stream end that."""
    model, ids = given.drawn(), torch.tensor([[5, 2, 5, 7, 3, 5]])
    said = contribution(model.weights, "direct", [model.record(ids)["L0.pattern"]], ids)[0]
    placed = given.drawn(IN_STREAM)
    silent = placed.record(ids, tap=hw.Zero(placed.place("L0.attention"))).logits[0]
    whole = model.logits(ids)[0]
    return found(
        stated("same", max(apart(said[2], said[0]), apart(said[5], said[0])), within=1e-10),
        stated("bigram", apart(said, (model.weights.W_E @ model.weights.W_U)[ids[0]]), within=1e-10),
        outside("positions", apart(silent[5], silent[0]), within=1e-10),
        beside("whole", apart(whole[5], whole[0])),
    )


@checks("000-T2")
def direct_path_and_bigrams(given: Given) -> Finding:
    """Beside heads that know the bigrams too, the best direct path is another; what the optimum meets is a mean over contexts."""
    contexts = Contexts.drawn()
    heads = contexts.p.log()
    best, alone = contexts.best_direct(heads), contexts.best_direct(torch.zeros_like(heads))
    pairs, small = corpus_pairs(given), small_one_layer(given).pairs
    trained = bigram.fit(given.model("one-layer").weights, pairs)
    bare = bigram.fit(small_zero_layer(given), small)
    return found(
        stated("optimum", apart(best, centred(contexts.bigram)), within=1e-10),
        stated("trained", trained.excess, within=CLOSE * pairs.entropy),
        corrected("stationary", apart((best + heads).softmax(dim=-1).mean(dim=0), contexts.bigram.exp()), within=1e-10),
        corrected("alone", apart(alone, centred(contexts.bigram)), within=1e-10),
        corrected("zero_layer", bare.excess, within=CLOSE * small.entropy),
        on=given.name("one-layer"),
    )


@checks("000-E20")
def rows_and_columns(given: Given) -> Finding:
    """A zero-layer model trained to the end on a table of bigrams: which index of ``W_U W_E`` is which, and what the constant hangs on."""
    V = SMALL.vocab
    counts = torch.rand(V, V, generator=torch.Generator().manual_seed(0)).square() + 0.01
    log_p = (counts / counts.sum(dim=1, keepdim=True)).log().double()
    wide, narrow = (descend(Weights.draw(zero_layer(V, d), seed=0), counts, PLAN) for d in (V, 2))
    printed, low = ((weights.W_E @ weights.W_U).T.double() for weights in (wide, narrow))
    return found(
        stated("printed", spread(printed - log_p), within=TRAINED),
        stated("one_constant", spread(printed.T - log_p), within=TRAINED),
        corrected("right", spread(centred(printed.T - log_p)), within=TRAINED),
        beside("narrow", spread(centred(low.T - log_p))),
    )


def spread(table: Float[Tensor, "row column"]) -> float:
    """The largest distance of an entry from the mean of all."""
    return float((table - table.mean()).abs().max())
