"""Document 000, introduction and section 1: the model as a product, and multiplied out as a sum of paths."""

from dataclasses import replace

import torch
from torch import Tensor
from torch.nn.functional import layer_norm, one_hot

import headwater as hw
from headwater.api import Model
from headwater.circuits.algebra import frobenius
from headwater.circuits.head import every_head
from headwater.circuits.paths import contribution, count, origins, paths
from headwater.claims.evidence import Finding, beside, corrected, defined, found, outside, reported, stated
from headwater.claims.given import SMALL, Given
from headwater.claims.one_layer.as_printed import apart, every_printed, eye, rank, rounding
from headwater.claims.one_layer.held_out import reading
from headwater.claims.registry import checks
from headwater.shapes import Tokens
from headwater.trace.experts import experts

KEPT = 16
"""Terms kept at each position, of all sources and heads."""
BIASED = replace(SMALL, attention=hw.Attention(heads=3, d_head=4, input_bias=True, output_bias=True))
DEEPER = replace(SMALL, layers=2)


@checks("000-N1")
def bigram_and_skip_trigrams(given: Given) -> Finding:
    """The tables of the bigram and of each head's skip-trigrams, mixed by the patterns, are the logits; their probabilities multiply."""
    model, ids = given.drawn(), given.ids()[0]
    A = model.record(ids)["L0.pattern"][0]
    skips = torch.stack([A[h] @ (m.W_U @ m.W_OV @ m.W_E).T[ids] for h, m in enumerate(every_printed(model))])
    bigram = (model.weights.W_E @ model.weights.W_U)[ids]
    run = given.model("one-layer").record(reading(given).tokens[:1])
    trained = experts(run)
    return found(
        stated("drawn", apart(bigram + skips.sum(dim=0), model.logits(ids)[0]), within=1e-10),
        stated("trained", trained.certificate, within=rounding(run.logits)),
        stated("product", trained.product_certificate, within=rounding(run.logits)),
        outside("added", trained.added - trained.p, within=1e-10),
        outside("norm", apart(*summed_under_a_norm(given, frozen=False)), within=1e-10),
        on=given.name("one-layer"),
    )


@checks("000-N2")
def parts_that_matter(given: Given) -> Finding:
    """The paths of two layers add up too; in the trained model a few skip-trigrams carry what heads do for the loss."""
    deeper, ids = given.drawn(DEEPER), given.ids()
    listed = list(paths(DEEPER))
    model, text = given.model("one-layer"), reading(given)
    here = model.place("L0.pattern")
    strength = text.run["L0.pattern"] * spreads(model)[:, text.tokens].transpose(0, 1)[:, :, None]
    lots = torch.rand(strength.shape, generator=torch.Generator().manual_seed(0)) * (text.run["L0.pattern"] > 0)
    alone, whole, strongest, any_ = (
        float(text.nats(model, hw.Patch(here, text.run["L0.pattern"] * kept, "")).mean())
        for kept in (torch.zeros(1), torch.ones(1), largest(strength, KEPT), largest(lots, KEPT))
    )
    return found(
        stated("paths", len(listed), equal=(1 + DEEPER.heads) ** DEEPER.layers),
        stated("sum", apart(sum_of_paths(deeper, ids), deeper.logits(ids)), within=1e-10),
        reported("strongest", strongest, below=any_),
        beside("share", (alone - strongest) / (alone - whole)),
        beside("kept", KEPT / float((text.run["L0.pattern"] > 0).sum(dim=(1, 3)).double().mean())),
        on=given.name("one-layer"),
    )


@checks("000-E1")
def product_form(given: Given) -> Finding:
    """The product as printed, applied to the one-hot text, is the forward pass of that text."""
    model, ids = given.drawn(), given.ids()
    n, d = ids.shape[1], model.config.d_model
    heads = every_printed(model)
    A, W_U, W_E = model.record(ids)["L0.pattern"][0], heads[0].W_U, heads[0].W_E
    middle = eye(n * d) + torch.stack([torch.kron(A[h], m.W_OV) for h, m in enumerate(heads)]).sum(dim=0)
    T = torch.kron(eye(n), W_U) @ middle @ torch.kron(eye(n), W_E)
    said, other = (T @ one_hot(text, model.config.vocab).double().flatten() for text in (ids[0], ids[0].flip(0)))
    return found(
        defined("forward", apart(said, model.logits(ids).flatten()), within=1e-10),
        beside("other", apart(other, model.logits(ids.flip(1)).flatten())),
    )


@checks("000-L1")
def end_to_end_paths(given: Given) -> Finding:
    """Every path's logits, added up, are the model's: on drawn weights and on the trained ones. A norm breaks the sum unless it is frozen."""
    model, ids = given.drawn(), given.ids()
    trained, text = given.model("one-layer"), reading(given).tokens[:1]
    biased, said = given.drawn(BIASED), trained.logits(text)
    return found(
        stated("count", count(model.config).total, equal=1 + model.config.heads),
        stated("drawn", apart(sum_of_paths(model, ids), model.logits(ids)), within=1e-10),
        stated("trained", apart(sum_of_paths(trained, text), said), within=rounding(said)),
        stated("frozen", apart(*summed_under_a_norm(given, frozen=True)), within=1e-10),
        outside("norm", apart(*summed_under_a_norm(given, frozen=False)), within=1e-10),
        outside("biases", apart(sum_of_paths(biased, ids, ["embed"]), biased.logits(ids)), within=1e-10),
        on=given.name("one-layer"),
    )


@checks("000-E2", "000-E10")
def expanded_form(given: Given) -> Finding:
    """The sum as printed is the product as printed, matrix by matrix, and applied to the text it is the forward pass."""
    model, ids = given.drawn(), given.ids()
    n, d, heads = ids.shape[1], model.config.d_model, every_printed(model)
    A, W_U, W_E = model.record(ids)["L0.pattern"][0], heads[0].W_U, heads[0].W_E
    middle = eye(n * d) + torch.stack([torch.kron(A[h], m.W_OV) for h, m in enumerate(heads)]).sum(dim=0)
    through = torch.stack([torch.kron(A[h], W_U @ m.W_OV @ W_E) for h, m in enumerate(heads)])
    T = torch.kron(eye(n), W_U @ W_E) + through.sum(dim=0)
    said = T @ one_hot(ids[0], model.config.vocab).double().flatten()
    return found(
        stated("product", apart(T, torch.kron(eye(n), W_U) @ middle @ torch.kron(eye(n), W_E)), within=1e-10),
        stated("forward", apart(said, model.logits(ids).flatten()), within=1e-10),
        outside("norm", apart(*summed_under_a_norm(given, frozen=False)), within=1e-10),
    )


@checks("000-N3")
def heads_are_no_projections(given: Given) -> Finding:
    """A projection done twice is the same as done once; no head is one. What it is: linear once its pattern is frozen, and of low rank."""
    W = [m.W_OV for m in every_printed(given.model("one-layer"))]
    model, ids = given.drawn(), given.ids()
    run, twice = model.record(ids), hw.Scale(model.place("embed"), 2.0)
    thawed, frozen = model.record(ids, tap=twice), model.record(ids, tap=hw.Chain(twice, hw.Freeze(run)))
    return found(
        stated("projection", min(frobenius(w @ w - w) / frobenius(w) for w in W), within=1e-10),
        stated("linear", apart(thawed["L0.attention"], 2 * run["L0.attention"]), within=1e-10),
        corrected("frozen", apart(frozen["L0.attention"], 2 * run["L0.attention"]), within=1e-10),
        corrected("rank", max(map(rank, W)), within=given.model("one-layer").config.d_head),
        on=given.name("one-layer"),
    )


def sum_of_paths(model: Model, ids: Tokens, starts: list[str] | None = None) -> Tensor:
    """The logits that came along every path, from all that enters the stream or from some of it, added up."""
    run = model.record(ids)
    patterns = [run[f"L{layer}.pattern"] for layer in range(model.config.layers)]
    every = (path for start in starts or origins(model.config) for path in paths(model.config, origin=start))
    return torch.stack([contribution(model.weights, path, patterns, ids) for path in every]).sum(dim=0)


def summed_under_a_norm(given: Given, *, frozen: bool) -> tuple[Tensor, Tensor]:
    """Each term through a last LayerNorm, at the whole stream's scale or at its own, added up; and the logits themselves."""
    model = given.drawn(replace(SMALL, norm=hw.PreNorm()))
    run, last = model.record(given.ids()), model.weights.norm_final
    assert last.gain is not None, "a LayerNorm has one unless told otherwise"
    assert last.bias is not None, "and the other"
    terms = torch.cat([run["embed"][:, None], run["L0.head_writes"]], dim=1)
    if frozen:
        read = (terms - terms.mean(dim=-1, keepdim=True)) * run["final.scale"][:, None, :, None] * last.gain
    else:
        read = layer_norm(terms, terms.shape[-1:], last.gain)
    return (read.sum(dim=1) + last.bias) @ model.weights.W_U, run.logits


def spreads(model: Model) -> Tensor:
    """How far the logits move that a head adds for each source: ``[head, source]``, the spread over all outputs."""
    return torch.stack([model.ov(head).row_spreads() for head in every_head(model.config)])


def largest(strength: Tensor, count: int) -> Tensor:
    """Ones where a destination's few largest entries are, over all its heads and sources; zeros elsewhere."""
    by_dest = strength.transpose(1, 2).flatten(2)
    chosen = torch.zeros_like(by_dest).scatter(2, by_dest.topk(min(count, by_dest.shape[2]), dim=2).indices, 1.0)
    return chosen.reshape(strength.transpose(1, 2).shape).transpose(1, 2)
