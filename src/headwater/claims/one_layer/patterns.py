"""Document 000, sections 9 and 10: the three factors of the expanded product, and where attention patterns come from."""

from dataclasses import replace
from typing import cast

import torch
from jaxtyping import Float
from torch import Tensor
from torch.nn.functional import one_hot

import headwater as hw
from headwater.api import Model
from headwater.claims.evidence import Finding, beside, corrected, found, outside, stated
from headwater.claims.given import SMALL, Given
from headwater.claims.one_layer.as_printed import apart, every_printed, printed, rank
from headwater.claims.one_layer.held_out import reading
from headwater.claims.one_layer.paths import sum_of_paths, summed_under_a_norm
from headwater.claims.registry import checks
from headwater.errors import InputError
from headwater.shapes import Tokens

PLACED = replace(SMALL, positions=hw.SinusoidalPositions(into="queries-and-keys"))
IN_STREAM = replace(SMALL, positions=hw.LearnedPositions(into="stream"))
NORMED = replace(SMALL, norm=hw.PreNorm())


@checks("000-E16")
def sum_of_terms(given: Given) -> Finding:
    """Every source's own logits, moved by the patterns, one position after the other. A last norm or positions in the stream add what is not in the sum."""
    model, placed, ids = given.drawn(), given.drawn(IN_STREAM), given.ids()
    A, heads, t = model.record(ids)["L0.pattern"][0], every_printed(model), columns(ids, SMALL.vocab)
    total = heads[0].W_U @ heads[0].W_E @ t
    for dest in range(ids.shape[1]):
        for source in range(dest + 1):
            for h, head in enumerate(heads):
                total[:, dest] += A[h, dest, source] * (head.W_U @ head.W_OV @ head.W_E @ t[:, source])
    return found(
        stated("sum", apart(total, model.logits(ids)[0].T), within=1e-10),
        outside("norm", apart(*summed_under_a_norm(given, frozen=False)), within=1e-10),
        outside("positions", apart(sum_of_paths(placed, ids, ["embed"]), placed.logits(ids)), within=1e-10),
    )


@checks("000-N14")
def three_readings(given: Given) -> Finding:
    """One token changed changes the stream at its place alone, one place of the stream its logits alone; a pattern is all that moves."""
    model, ids = given.drawn(), given.ids()
    run, other = model.record(ids), model.record(ids.index_fill(1, torch.tensor([3]), 0))
    nothing = hw.Scale(model.place("L0.pattern"), 0.0)
    still = model.record(ids.index_fill(1, torch.tensor([3]), 0), tap=nothing).logits - model.record(ids, tap=nothing).logits
    placed, normed = given.drawn(IN_STREAM).record(ids), given.drawn(NORMED).record(ids)
    return found(
        stated("embedding", elsewhere(other["embed"] - run["embed"], 3), within=1e-10),
        stated("unembedding", elsewhere(still, 3), within=1e-10),
        stated("heads", apart(run["L0.head_writes"].sum(dim=1), run["L0.out"] - run["L0.in"]), within=1e-10),
        outside("positions", apart(placed["L0.in"], placed.weights.W_E[ids]), within=1e-10),
        outside("norm", apart(normed["L0.out"] @ normed.weights.W_U, normed.logits), within=1e-10),
    )


@checks("000-L4")
def bilinear_scores(given: Given) -> Finding:
    """Scores are linear in the destination and linear in the source, each with the other held; their softmax is neither."""
    model, ids = given.drawn(), given.ids()
    run, dest, source = model.record(ids), 7, 2
    one, two = (model.record(ids, tap=hw.Scale(model.place(f"embed@{at}"), 3.0)) for at in (dest, source))
    placed = given.drawn(PLACED)
    shifted, still = (placed.record(ids, tap=hw.Scale(placed.place("embed"), by))["L0.scores"] for by in (3.0, 1.0))
    here = (0, slice(None), dest, source)
    return found(
        stated("dest", apart(one["L0.scores"][here], 3 * run["L0.scores"][here]), within=1e-10),
        stated("source", apart(two["L0.scores"][here], 3 * run["L0.scores"][here]), within=1e-10),
        outside("pattern", apart(two["L0.pattern"][here], 3 * run["L0.pattern"][here]), within=1e-10),
        outside("positions", apart(shifted[here], 9 * still[here]), within=1e-10),
    )


@checks("000-E17", "000-E18")
def patterns_from_tokens(given: Given) -> Finding:
    """The formula as printed, row by row with the mask, against the patterns of the run."""
    model, placed, normed, ids = given.drawn(), given.drawn(PLACED), given.drawn(NORMED), given.ids()
    scaled = SMALL.d_head**-0.5
    return found(
        stated("absorbed", apart(as_written(model, ids, scaled), model.record(ids)["L0.pattern"][0]), within=1e-10),
        outside("scale", apart(as_written(model, ids), model.record(ids)["L0.pattern"][0]), within=1e-10),
        outside("positions", apart(as_written(placed, ids, scaled), placed.record(ids)["L0.pattern"][0]), within=1e-10),
        outside("norm", apart(as_written(normed, ids, scaled), normed.record(ids)["L0.pattern"][0]), within=1e-10),
    )


def as_written(model: Model, ids: Tokens, factor: float = 1.0) -> Float[Tensor, "head dest source"]:
    """``softmax*(tᵀ W_Eᵀ W_QK W_E t)`` for each head, with ``factor`` taken into ``W_QK``."""
    t, n = columns(ids, model.config.vocab), ids.shape[1]
    ahead = torch.ones(n, n).triu(diagonal=1).bool()
    scores = [t.T @ m.W_E.T @ (factor * m.W_Q.T @ m.W_K) @ m.W_E @ t for m in every_printed(model)]
    return torch.stack(scores).masked_fill(ahead, -torch.inf).softmax(dim=-1)


@checks("000-N15")
def pairs_of_tokens(given: Given) -> Finding:
    """The score of a pair of tokens is one number in the QK table, whatever else stands in the text; its weight in the pattern is not."""
    model, ids = given.drawn(), given.ids()
    run, other = model.record(ids), model.record(ids.index_fill(1, torch.tensor([4]), 0))
    dest, source = 7, 2
    table = model.qk("L0H0")[int(ids[0, dest]), int(ids[0, source])]
    return found(
        stated("table", run["L0.scores"][0, 0, dest, source] - table, within=1e-10),
        stated("scores", apart(run["L0.scores"][0, :, dest, source], other["L0.scores"][0, :, dest, source]), within=1e-10),
        outside("pattern", apart(run["L0.pattern"][0, :, dest, source], other["L0.pattern"][0, :, dest, source]), within=1e-10),
    )


@checks("000-IN2")
def nothing_ahead(given: Given) -> Finding:
    """No weight on a later token, all weights of a row together one, and earlier logits as they were when a later token changes."""
    model, text = given.model("one-layer"), reading(given).tokens[:1]
    if model.config.attention is None or model.config.attention.mask == "full":
        raise InputError("heads that see the whole text", "heads under a causal mask", "use another model")
    pattern, half = model.record(text)["L0.pattern"], text.shape[1] // 2
    changed = torch.cat([text[:, :half], (text[:, half:] + 1) % model.config.vocab], dim=1)
    return found(
        stated("ahead", pattern.triu(diagonal=1).abs().max(), equal=0),
        stated("rows", apart(pattern.sum(dim=-1), torch.ones(pattern.shape[:-1])), within=1e-10),
        stated("earlier", apart(model.logits(changed)[:, :half], model.logits(text)[:, :half]), within=1e-10),
        beside("later", apart(model.logits(changed)[:, half:], model.logits(text)[:, half:])),
        on=given.name("one-layer"),
    )


@checks("000-C3")
def what_limits_range(given: Given) -> Finding:
    """The table of scores has no more than ``d_head`` independent rows. Distance is no limit: far or near, a pair has the same score."""
    model, trained = given.drawn(), given.model("one-layer")
    tables = [m.W_E.T @ m.W_Q.T @ m.W_K @ m.W_E for m in every_printed(model)]
    near, far = torch.tensor([[1, 2, 3, 4, 5, 6, 7, 8]]), torch.tensor([[7, 1, 2, 3, 4, 5, 6, 8]])
    runs = [model.record(ids) for ids in (near, far)]
    close, distant = (run["L0.scores"][0, 0, -1, at] for run, at in zip(runs, (6, 0), strict=True))
    diluted = model.record(torch.tensor([[7, *range(1, 7), *range(1, 7), 8]]))["L0.pattern"][0, 0, -1, 0]
    return found(
        stated("rank", max(map(rank, tables)), equal=min(SMALL.d_head, SMALL.d_model)),
        stated("trained", max(trained.qk(f"L0H{h}").rank() for h in range(trained.config.heads)), within=trained.config.d_head),
        outside("distance", close - distant, above=1e-10),
        beside("near", runs[0]["L0.pattern"][0, 0, -1, 6]),
        beside("diluted", diluted),
        on=given.name("one-layer"),
    )


@checks("000-E19")
def strength_of_a_dependency(given: Given) -> Finding:
    """The weights of the last row, held against the best multiple of the scores; and the logarithm of the same weights."""
    model, ids, head = given.drawn(), given.ids(), printed(given.drawn())
    v = model.record(ids)["embed"][0].T
    score = v.T @ head.W_Q.T @ head.W_K @ v
    weights = model.record(ids)["L0.pattern"][0, 0, -1]
    multiple = (weights @ score[-1]) / (score[-1] @ score[-1]) * score[-1]
    scaled = score[-1] / SMALL.d_head**0.5
    return found(
        stated("proportional", length(weights - multiple) / length(weights), within=1e-10),
        corrected("logarithm", apart(weights.log(), scaled - scaled.logsumexp(dim=0)), within=1e-10),
    )


@checks("000-N16")
def projected_similarity(given: Given) -> Finding:
    """A score is the inner product of two projections, and a sum over the few directions that ``W_QK`` keeps; no similarity that goes both ways."""
    model, ids = given.drawn(), given.ids()
    head, x = printed(model), model.record(ids)["embed"][0].T
    scores = model.record(ids)["L0.scores"][0, 0].tril() * SMALL.d_head**0.5
    U, S, V = directions_of(head.W_Q.T @ head.W_K)
    kept = SMALL.d_head
    directions = (x.T @ U[:, :kept] * S[:kept]) @ (V[:kept] @ x)
    table = model.qk("L0H0").dense()
    return found(
        stated("projected", apart(((head.W_Q @ x).T @ (head.W_K @ x)).tril(), scores), within=1e-10),
        stated("directions", apart(directions.tril(), scores), within=1e-10),
        outside("symmetric", apart(table, table.T), within=1e-10),
        outside("itself", (table.argmax(dim=1) != torch.arange(SMALL.vocab)).double().mean(), within=1e-10),
    )


def columns(ids: Tokens, vocab: int) -> Float[Tensor, "vocab pos"]:
    """``t``: the one-hot columns of a text."""
    return one_hot(ids[0], vocab).double().T


def elsewhere(change: Float[Tensor, "1 pos any"], place: int) -> float:
    """The largest change at any other position than this one."""
    return float(change.index_fill(1, torch.tensor([place]), 0).abs().max())


def length(vector: Float[Tensor, " any"]) -> float:
    """The root of the sum of squares."""
    return float(vector.square().sum().sqrt())


def directions_of(matrix: Float[Tensor, "row column"]) -> tuple[Tensor, Tensor, Tensor]:
    """``U S Vᵀ``: directions that are read, how much each counts, and directions that they are paired with."""
    return cast(tuple[Tensor, Tensor, Tensor], torch.linalg.svd(matrix))
