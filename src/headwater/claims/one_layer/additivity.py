"""Document 000, sections 11.2 and 11.3: terms that add up, what that means for training, and the gaps that the direct path fills."""

from itertools import pairwise

import torch
from jaxtyping import Float
from torch import Tensor
from torch.nn.functional import one_hot

from headwater.api import Model
from headwater.circuits.algebra import frobenius
from headwater.claims.evidence import Finding, beside, corrected, found, outside, reported, stated
from headwater.claims.given import SMALL, Given
from headwater.claims.one_layer.as_printed import apart, every_printed, eye, rounding
from headwater.claims.one_layer.bigram_fits import correlation, distance, of_strangers, seen_pairs, small_seen_pairs
from headwater.claims.one_layer.held_out import reading
from headwater.claims.one_layer.optimum import Contexts, bend, centred, logits_at_random, slope
from headwater.claims.one_layer.paths import summed_under_a_norm
from headwater.claims.registry import checks
from headwater.shapes import Tokens


def terms_of(model: Model, ids: Tokens, read: Tokens | None = None) -> Float[Tensor, "term pos vocab"]:
    """``T_direct(x)`` and each ``T_h(x)`` from the matrices as printed, with the patterns of that text or of another one."""
    A, heads = model.record(ids if read is None else read)["L0.pattern"][0], every_printed(model)
    t = one_hot(ids[0], model.config.vocab).double().T
    direct = heads[0].W_U @ heads[0].W_E @ t
    return torch.stack([direct.T, *((m.W_U @ m.W_OV @ m.W_E @ t @ A[h].T).T for h, m in enumerate(heads))])


@checks("000-L5")
def additivity(given: Given) -> Finding:
    """Every term written out, and the trained model's own parts of a logit: both add up. Through a norm or as probabilities they do not."""
    model, ids = given.drawn(), given.ids()
    terms, whole = terms_of(model, ids), model.logits(ids)[0]
    even = 1 / SMALL.vocab
    run = given.model("one-layer").record(reading(given).tokens[:1])
    why = run.explain(position=-1)
    return found(
        stated("drawn", apart(terms.sum(dim=0), whole), within=1e-10),
        stated("trained", why.certificate, within=rounding(run.logits)),
        outside("norm", apart(*summed_under_a_norm(given, frozen=False)), within=1e-10),
        outside("probabilities", apart((terms.softmax(dim=-1) - even).sum(dim=0), whole.softmax(dim=-1) - even), within=1e-10),
        on=given.name("one-layer"),
    )


@checks("000-E21")
def operators_add_up(given: Given) -> Finding:
    """As matrices: the direct one and those of the heads add up to a ``T`` that gives the logits of its own text, and of no other."""
    model, ids = given.drawn(), given.ids()
    A, heads, n = model.record(ids)["L0.pattern"][0], every_printed(model), ids.shape[1]
    direct = torch.kron(eye(n), heads[0].W_U @ heads[0].W_E)
    T = direct + torch.stack([torch.kron(A[h], m.W_U @ m.W_OV @ m.W_E) for h, m in enumerate(heads)]).sum(dim=0)
    said, other = (T @ one_hot(text[0], SMALL.vocab).double().flatten() for text in (ids, ids.flip(1)))
    return found(
        stated("own", apart(said, model.logits(ids).flatten()), within=1e-10),
        outside("other", apart(other, model.logits(ids.flip(1)).flatten()), within=1e-10),
    )


@checks("000-E22")
def for_every_text(given: Given) -> Finding:
    """Twenty texts, each with its own patterns; and the same with the patterns of the text before."""
    model, texts = given.drawn(), [given.ids(seed=seed) for seed in range(20)]
    own = max(apart(terms_of(model, x).sum(dim=0), model.logits(x)[0]) for x in texts)
    borrowed = min(apart(terms_of(model, x, read).sum(dim=0), model.logits(x)[0]) for read, x in pairwise(texts))
    return found(stated("own", own, within=1e-10), outside("borrowed", borrowed, within=1e-10))


@checks("000-E23")
def logits_add_up(given: Given) -> Finding:
    """The direct table's rows, and those of each OV table mixed by the pattern, are the logits; not so before a last norm."""
    model, ids = given.drawn(), given.ids()
    A = model.record(ids)["L0.pattern"][0]
    direct = model.direct.rows(ids[0])
    heads = torch.stack([A[h] @ model.ov(f"L0H{h}").rows(ids[0]) for h in range(SMALL.heads)])
    return found(
        stated("sum", apart(direct + heads.sum(dim=0), model.logits(ids)[0]), within=1e-10),
        stated("frozen", apart(*summed_under_a_norm(given, frozen=True)), within=1e-10),
        outside("norm", apart(*summed_under_a_norm(given, frozen=False)), within=1e-10),
    )


@checks("000-PC2")
def trained_apart(given: Given) -> Finding:
    """How the loss bends along two terms together, beside how it bends along one: the same. And what comes of terms that are each best alone."""
    model, ids = given.drawn(), given.ids()
    terms, y = terms_of(model, ids)[:, -1], torch.tensor(0)
    p = model.logits(ids)[0, -1].softmax(dim=0)

    def loss(each: Tensor) -> Tensor:
        return -each.sum(dim=0).log_softmax(dim=0)[y]

    signal, curved = slope(loss, terms), bend(loss, terms)
    own, between = curved[0, :, 0], curved[0, :, 1]
    contexts = Contexts.drawn()
    added = (contexts.bigram + contexts.p.log()).log_softmax(dim=-1)
    return found(
        stated("coupling", frobenius(between) / frobenius(own), within=0.1),
        stated("apart", (contexts.p * (contexts.p.log() - added)).sum(dim=-1).mean(), within=1e-3),
        corrected("same_signal", apart(signal, (p - one_hot(y, SMALL.vocab)).expand_as(signal)), within=1e-10),
        corrected("same_bend", apart(between, p.diag() - torch.outer(p, p)), within=1e-10),
    )


@checks("000-N21")
def gaps_filled(given: Given) -> Finding:
    """What the direct path says beside what heads leave of the bigrams, and what its absence costs; along a small training as well."""
    model, text, seen = given.model("one-layer"), reading(given), seen_pairs(given)
    early, late = small_seen_pairs(given)
    left, lacking = seen.pairs.log_p - seen.heads, late.pairs.log_p - late.heads
    without = (text.run["L0.attention"] @ model.weights.W_U).log_softmax(dim=-1).gather(2, text.next[:, :, None])
    return found(
        reported("cost", -without.mean(), above=text.nats(model).mean()),
        reported(
            "left",
            correlation(seen.pairs, seen.direct, left),
            above=correlation(seen.pairs, of_strangers(given, seen.pairs), left),
        ),
        reported("small", distance(late.pairs, late.direct, lacking), below=distance(late.pairs, 0 * late.direct, lacking)),
        reported(
            "adapts",
            correlation(late.pairs, late.direct, late.pairs.log_p),
            below=correlation(early.pairs, early.direct, early.pairs.log_p),
        ),
        on=given.name("one-layer"),
    )


@checks("000-E24")
def gap_formula(given: Given) -> Finding:
    """Exact where heads say the same in every context of a token; otherwise off by the square of how much they vary."""
    contexts, varying = Contexts.drawn(), logits_at_random(2)
    same = varying[:1].expand_as(varying)
    seen, small = seen_pairs(given), small_seen_pairs(given)[1]
    return found(
        stated("same", formula_misses(contexts, same), within=1e-10),
        stated("order", formula_misses(contexts, 0.02 * varying) / formula_misses(contexts, 0.01 * varying) - 4, within=0.1),
        outside("varying", formula_misses(contexts, varying), within=1e-10),
        beside("trained", distance(seen.pairs, seen.direct, seen.pairs.log_p - seen.heads)),
        beside("bigram", distance(seen.pairs, seen.direct, seen.pairs.log_p)),
        beside("nothing", distance(seen.pairs, 0 * seen.direct, seen.pairs.log_p - seen.heads)),
        beside("small", distance(small.pairs, small.direct, small.pairs.log_p - small.heads)),
        beside("small_bigram", distance(small.pairs, small.direct, small.pairs.log_p)),
        on=given.name("one-layer"),
    )


def formula_misses(contexts: Contexts, heads: Float[Tensor, "context next"]) -> float:
    """The largest distance between the best direct logits and ``ln p − E[heads]``, both without their mean."""
    return apart(contexts.best_direct(heads), centred(contexts.bigram - heads.mean(dim=0)))
