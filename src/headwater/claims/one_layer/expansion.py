"""Document 000, sections 7 and 8: the three stages of the model, what in them is linear, and the product over positions and features."""

import torch
from jaxtyping import Float
from torch import Tensor
from torch.nn.functional import one_hot

import headwater as hw
from headwater.api import Model
from headwater.circuits.paths import contribution
from headwater.claims.evidence import Finding, beside, corrected, defined, found, outside, reported, stated
from headwater.claims.given import Given
from headwater.claims.one_layer.as_printed import apart, every_printed, eye
from headwater.claims.one_layer.bigram_fits import correlation, of_strangers, seen_pairs
from headwater.claims.one_layer.held_out import reading
from headwater.claims.registry import checks
from headwater.shapes import Tokens


@checks("000-E12")
def embedding(given: Given) -> Finding:
    """``W_E`` times the one-hot columns of the text is what enters the stream."""
    model, ids = given.drawn(), given.ids()
    t = one_hot(ids[0], model.config.vocab).double().T
    return found(defined("stream", apart(every_printed(model)[0].W_E @ t, model.record(ids)["embed"][0].T), within=1e-10))


@checks("000-E13")
def attention_layer(given: Given) -> Finding:
    """Each head from its four matrices, one destination after the other; the stream afterwards is the stream before and all heads."""
    model, ids = given.drawn(), given.ids()
    run, watched = model.record(ids), model.record(ids, ["L0.pattern"])
    x_0 = run["embed"][0].T
    x_1 = x_0.clone()
    for head in every_printed(model):
        for dest in range(ids.shape[1]):
            seen = x_0[:, : dest + 1]
            scores = (head.W_K @ seen).T @ (head.W_Q @ x_0[:, dest]) / model.config.d_head**0.5
            x_1[:, dest] += head.W_O @ head.W_V @ seen @ scores.softmax(dim=0)
    return found(
        defined("stream", apart(x_1, run["L0.out"][0].T), within=1e-10),
        defined("watched", apart(x_1, watched["L0.out"][0].T), within=1e-10),
    )


@checks("000-E14")
def unembedding(given: Given) -> Finding:
    """``W_U`` times the stream after the attention layer gives the logits."""
    model, ids = given.drawn(), given.ids()
    x_1 = model.record(ids)["L0.out"][0].T
    return found(defined("logits", apart(every_printed(model)[0].W_U @ x_1, model.logits(ids)[0].T), within=1e-10))


@checks("000-L3")
def only_the_softmax(given: Given) -> Finding:
    """Without the softmax the rest would have to be linear: twice the input, twice the output. It is eight times, for scores are products."""
    model, ids = given.drawn(), given.ids()
    run, twice = model.record(ids), hw.Scale(model.place("embed"), 2.0)
    frozen = model.record(ids, tap=hw.Chain(twice, hw.Freeze(run)))
    once, doubled = heads_without_softmax(model, ids), heads_without_softmax(model, ids, times=2.0)
    return found(
        stated("rest", apart(doubled, 2 * once), within=1e-10),
        corrected("cubic", apart(doubled, 8 * once), within=1e-10),
        corrected("frozen", apart(frozen.logits, 2 * run.logits), within=1e-10),
    )


def heads_without_softmax(model: Model, ids: Tokens, times: float = 1.0) -> Float[Tensor, "pos d_model"]:
    """What the heads would write if scores were weights as they are, for the embedding of a text multiplied by ``times``."""
    run = model.record(ids, tap=hw.Scale(model.place("embed"), times))
    weights = run["L0.scores"][0].masked_fill(run["L0.scores"][0].isinf(), 0)
    return (weights @ run["L0.values"][0] @ model.weights.blocks[0].attention.W_O).sum(dim=0)


@checks("000-N11")
def tracked_linearly(given: Given) -> Finding:
    """A push at one position, followed by hand through ``Id`` and every ``A``: what the frozen model says, not what the live one does."""
    model, ids = given.drawn(), given.ids()
    run, pushed = model.record(ids), 3
    push = torch.randn(model.config.d_model, generator=torch.Generator().manual_seed(1), dtype=torch.float64)
    steer = hw.Steer(model.place(f"embed@{pushed}"), push, 1.0)
    A, heads = run["L0.pattern"][0], every_printed(model)
    tracked = torch.outer(eye(ids.shape[1])[:, pushed], heads[0].W_U @ push)
    for h, head in enumerate(heads):
        tracked = tracked + torch.outer(A[h][:, pushed], head.W_U @ head.W_OV @ push)
    frozen, live = (model.record(ids, tap=tap).logits[0] - run.logits[0] for tap in (hw.Chain(steer, hw.Freeze(run)), steer))
    return found(stated("frozen", apart(frozen, tracked), within=1e-10), outside("live", apart(live, tracked), within=1e-10))


@checks("000-E15")
def three_factors(given: Given) -> Finding:
    """The three factors applied to the one-hot text one after the other: the stream before, the stream after, the logits."""
    model, ids = given.drawn(), given.ids()
    run, heads, n = model.record(ids), every_printed(model), ids.shape[1]
    A = run["L0.pattern"][0]
    layer = eye(n * model.config.d_model) + torch.stack([torch.kron(A[h], m.W_OV) for h, m in enumerate(heads)]).sum(dim=0)
    before = torch.kron(eye(n), heads[0].W_E) @ one_hot(ids[0], model.config.vocab).double().flatten()
    after = layer @ before
    return found(
        defined("before", apart(before, run["L0.in"].flatten()), within=1e-10),
        defined("after", apart(after, run["L0.out"].flatten()), within=1e-10),
        defined("logits", apart(torch.kron(eye(n), heads[0].W_U) @ after, run.logits.flatten()), within=1e-10),
    )


@checks("000-N12")
def two_kinds_of_paths(given: Given) -> Finding:
    """Each path is a matrix over positions times one over features: applied to the text it gives what the library says of that path."""
    model, ids = given.drawn(), given.ids()
    A, heads = model.record(ids)["L0.pattern"], every_printed(model)
    t = one_hot(ids[0], model.config.vocab).double().flatten()
    n, W_U, W_E = ids.shape[1], heads[0].W_U, heads[0].W_E
    direct = torch.kron(eye(n), W_U @ W_E) @ t
    through = [torch.kron(A[0, h], W_U @ m.W_OV @ W_E) @ t for h, m in enumerate(heads)]
    said = [contribution(model.weights, f"L0H{h}", [A], ids).flatten() for h in range(len(heads))]
    moved_first = torch.kron(eye(n), W_U @ heads[0].W_OV @ W_E) @ (torch.kron(A[0, 0], eye(model.config.vocab)) @ t)
    return found(
        stated("direct", apart(direct, contribution(model.weights, "direct", [A], ids).flatten()), within=1e-10),
        stated("heads", apart(torch.stack(through), torch.stack(said)), within=1e-10),
        stated("separate", apart(moved_first, through[0]), within=1e-10),
    )


@checks("000-O1")
def heads_apart(given: Given) -> Finding:
    """Other numbers in one head change nothing that the others write; what all write, added up, is one product with stacked ``W_O``."""
    model, ids = given.drawn(), given.ids()
    run, block = model.record(ids), model.weights.blocks[0].attention
    changes = {f"blocks.0.attn.{name}": getattr(block, name).clone() for name in ("W_Q", "W_K", "W_V", "W_O")}
    for tensor in changes.values():
        tensor[0] *= -2
    other = Model(model.weights.changed(changes)).record(ids)
    changed = (other["L0.head_writes"] - run["L0.head_writes"])[0].abs().amax(dim=(1, 2))
    side_by_side = run["L0.mixed"][0].transpose(0, 1).flatten(1) @ block.W_O.flatten(0, 1)
    return found(
        stated("others", changed[1:].max(), within=1e-10),
        stated("sum", apart(run["L0.head_writes"][0].sum(dim=0), side_by_side), within=1e-10),
        stated("stream", apart(run["L0.out"] - run["L0.in"], run["L0.head_writes"].sum(dim=1)), within=1e-10),
        beside("changed", changed[0]),
    )


@checks("000-C2")
def who_knows_bigrams(given: Given) -> Finding:
    """Both parts against the bigrams of the text, given the present token; and the loss when heads see no token but that one."""
    model, text, seen = given.model("one-layer"), reading(given), seen_pairs(given)
    pairs, bigram = seen.pairs, seen.pairs.log_p
    own = hw.Patch(model.place("L0.pattern"), text.run["L0.pattern"] * eye(text.tokens.shape[1]), "")
    return found(
        stated("present", apart(*said_of_the_present_token(given)), within=1e-10),
        reported(
            "direct", correlation(pairs, seen.direct, bigram), above=correlation(pairs, of_strangers(given, pairs), bigram)
        ),
        reported("division", correlation(pairs, seen.direct, bigram), above=correlation(pairs, seen.heads, bigram)),
        reported("earlier", text.nats(model, own).mean(), above=text.nats(model).mean()),
        on=given.name("one-layer"),
    )


def said_of_the_present_token(given: Given) -> tuple[Tensor, Tensor]:
    """``Σ_h α_BB (W_U W_OV W_E)[:, B]`` at every position; and what heads say when each may look at its own position alone."""
    model, ids = given.drawn(), given.ids()
    A = model.record(ids)["L0.pattern"]
    own = hw.Patch(model.place("L0.pattern"), A * eye(ids.shape[1]), "")
    written = [A[0, h].diagonal() * (m.W_U @ m.W_OV @ m.W_E)[:, ids[0]] for h, m in enumerate(every_printed(model))]
    return torch.stack(written).sum(dim=0).T, (model.record(ids, tap=own)["L0.attention"] @ model.weights.W_U)[0]


@checks("000-N13")
def product_of_spaces(given: Given) -> Finding:
    """The stream is one vector of ``n · d`` numbers; a move and a transformation act on its two factors, in either order."""
    model, ids = given.drawn(), given.ids()
    run, n, d = model.record(ids), ids.shape[1], model.config.d_model
    A, W_OV = run["L0.pattern"][0, 0], every_printed(model)[0].W_OV
    move, transform = torch.kron(A, eye(d)), torch.kron(eye(n), W_OV)
    written = move @ transform @ run["embed"].flatten()
    return found(
        stated("size", run["embed"].numel(), equal=n * d),
        stated("order", apart(move @ transform, transform @ move), within=1e-10),
        stated("head", apart(written, run["L0.head_writes"][0, 0].flatten()), within=1e-10),
    )
