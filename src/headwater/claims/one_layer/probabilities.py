"""Document 000, section 6: bigrams and skip-trigrams add up as logits; as probabilities they do not."""

import torch
from torch import Tensor

from headwater.api import Model
from headwater.claims.evidence import Finding, beside, corrected, found, stated
from headwater.claims.given import Given
from headwater.claims.one_layer.as_printed import apart, every_printed, rounding
from headwater.claims.one_layer.held_out import reading
from headwater.claims.registry import checks
from headwater.trace.experts import experts

LENGTH = 32
"""Tokens of the trained model's text."""


@checks("000-T1", "000-E9")
def probabilities_multiply(given: Given) -> Finding:
    """If p were a sum over sources, p(A₁A₂B) − p(A₁B) − p(A₂B) + p(B) would be nothing, whatever its terms; and what adds up are logits."""
    model, (A1, A2, B) = given.drawn(), (3, 5, 7)
    p = [model.logits(context)[0, -1].softmax(-1) for context in ([A1, A2, B], [A1, B], [A2, B], [B])]
    terms = bigram_and_skips(model, torch.tensor([A1, A2, B]))
    run = given.model("one-layer").record(reading(given).tokens[:1, :LENGTH])
    told = experts(run)
    assert told.worst is not None, "a text of several tokens has pairs of sources"
    return found(
        stated("any terms", (p[0] - p[1] - p[2] + p[3]).abs().max(), within=1e-10),
        stated("trained", told.worst.defect, within=1e-10),
        stated("alone", apart(each_source_alone(terms), p[0]), within=1e-10),
        corrected("logits", apart(terms.sum(dim=0), model.logits([A1, A2, B])[0, -1]), within=1e-10),
        corrected("product", apart(product(terms), p[0]), within=1e-10),
        corrected("trained logits", told.certificate, within=rounding(run.logits)),
        corrected("trained product", told.product_certificate, within=rounding(run.logits)),
        on=given.name("one-layer"),
    )


@checks("000-E11")
def log_probability(given: Given) -> Finding:
    """log p(C) against the sum of the tables' entries: as it stands, and less the logarithm of what the softmax divides by."""
    model, ids = given.drawn(), given.ids()[0]
    log_p = model.logits(ids)[0, -1].log_softmax(-1)
    total = bigram_and_skips(model, ids).sum(dim=0)
    log_Z = total.exp().sum().log()
    return found(
        stated("printed", apart(log_p, total), within=1e-10),
        corrected("normalised", apart(log_p, total - log_Z), within=1e-10),
        corrected("gap", (total - log_p).std(), within=1e-10),
        beside("log Z", log_Z),
    )


def bigram_and_skips(model: Model, ids: Tensor) -> Tensor:
    """The logits (W_U W_E)[C, B] and, for each source A, Σ_h α_BA (W_U W_OV W_E)[C, A], after the last token: [term, C]."""
    alpha, heads = model.record(ids)["L0.pattern"][0, :, -1], every_printed(model)
    bigram = (heads[0].W_U @ heads[0].W_E)[:, ids[-1]]
    skips = torch.stack([alpha[h, :, None] * (m.W_U @ m.W_OV @ m.W_E).T[ids] for h, m in enumerate(heads)])
    return torch.cat([bigram[None], skips.sum(dim=0)])


def each_source_alone(terms: Tensor) -> Tensor:
    """The bigram's probabilities, and for each source what it adds to them with no other beside it."""
    bigram, skips = terms[0], terms[1:]
    return bigram.softmax(-1) + ((bigram + skips).softmax(-1) - bigram.softmax(-1)).sum(dim=0)


def product(terms: Tensor) -> Tensor:
    """Each term made probabilities, these multiplied, and the product divided by its sum."""
    multiplied = terms.softmax(dim=1).prod(dim=0)
    return multiplied / multiplied.sum()
