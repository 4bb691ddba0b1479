"""Document 000, sections 3 and 4: worked skip-trigrams, copying, selective attention, and how much room it has."""

from dataclasses import dataclass, replace
from statistics import median

import numpy as np
import torch
from torch import Tensor

import headwater as hw
from headwater.api import Model
from headwater.circuits.algebra import qr, svd
from headwater.circuits.chance import scores
from headwater.circuits.cores import ov_cores
from headwater.circuits.head import Head, every_head
from headwater.claims.evidence import Finding, beside, corrected, found, outside, reported, stated
from headwater.claims.given import SMALL, Given
from headwater.claims.one_layer.as_printed import apart, every_printed, printed, rank
from headwater.claims.one_layer.held_out import (
    SHUFFLES,
    copies_most,
    fitting,
    in_every_head,
    own_ranks,
    panels,
    reading,
    untrained,
)
from headwater.claims.registry import checks
from headwater.shapes import whole
from headwater.text.recall import RecallTask
from headwater.text.spoken import Spoken
from headwater.train.predictors import Transformer
from headwater.train.studies import recall

ONE_HEAD = replace(SMALL, attention=hw.Attention(heads=1, d_head=4))
TWO_HEADS = replace(SMALL, attention=hw.Attention(heads=2, d_head=4))
CROWDED = replace(SMALL, attention=hw.Attention(heads=6, d_head=4))
FIRST = 5
"""A token copies itself well when it is among so many outputs that its head raises most."""
EXCHANGED = 8
"""So many other tokens are put in a source's place, one after the other."""
DIRECTIONS = 4
"""So many of the directions that a head reads are taken from it."""


@checks("000-EX1")
def source_is_output(given: Given) -> Finding:
    """[perfect] … [are] → [perfect]: the head that copies most, and where it does so most in the text; then the source is exchanged."""
    model, text, head = given.model("one-layer"), reading(given), copies_most(given)
    first = (own_ranks(model, head, text.kinds) < FIRST).double().mean()
    drawn = untrained(given)
    chance = in_every_head(drawn, lambda each: float((own_ranks(drawn, each, text.kinds) < FIRST).double().mean()))
    most = strongest_copy(given)
    seen = text.tokens[most.window, : most.dest + 1]
    A, B = int(seen[most.source]), int(seen[most.dest])
    others = text.kinds[(text.kinds != A) & (text.kinds != B)][:EXCHANGED, None]
    exchanged = torch.where((seen == A) & (torch.arange(len(seen)) < most.dest), others, seen)
    said, without = (model.logits(each)[:, -1].log_softmax(-1)[:, A].mean() for each in (seen, exchanged))
    word = Spoken(model.tokenizer)
    return found(
        reported("first", first, above=max(chance)),
        reported("raised", said, above=without),
        beside("adds", most.adds),
        on=given.name("one-layer"),
        examples=[f"{Head(0, most.head)}: {word(A)} … {word(B)} → {word(A)}"],
    )


@checks("000-EX2")
def source_is_not_output(given: Given) -> Finding:
    """[perfect] … [looks] → [super] beside [are] → [perfect]: one source, another output from another destination. One head cannot do that."""
    small, model, text = given.drawn(), given.model("one-layer"), reading(given)
    most = strongest_copy(given)
    A = int(text.tokens[most.window, most.source])
    small_tables, tables = by_destination(small, 3, torch.arange(SMALL.vocab)), by_destination(model, A, text.kinds)
    back = hw.Patch(model.place("L0.pattern"), text.run["L0.pattern"].tril(-1), "only earlier tokens")
    fits, shuffled = fitting(given, model.record(text.tokens, tap=back)["L0.attention"])
    by_lot = by_destination(untrained(given), A, text.kinds)
    together, drawn = (each.sum(dim=0).argmax(dim=1) for each in (tables, by_lot))
    word, outputs = Spoken(model.tokenizer), dict(zip(whole(together), whole(text.kinds), strict=True))
    return found(
        stated("one head", rank(small_tables[0]), within=1),
        stated("heads", rank(small_tables.sum(dim=0)), within=SMALL.heads),
        reported("outputs", different(together), above=different(drawn)),
        reported("earlier", fits, above=shuffled),
        beside("own", (together == A).double().mean()),
        on=given.name("one-layer"),
        examples=[f"{word(A)} … {word(B)} → {word(C)}" for C, B in outputs.items()],
    )


@checks("000-N6")
def copy_and_continue(given: Given) -> Finding:
    """What heads add to the token that comes next: by copying it from earlier places, and where it was not there before."""
    text = reading(given)
    copies = own_contributions(given).sum(dim=1)
    right = (copies * (text.tokens[:, None, :] == text.next[:, :, None])).sum(dim=2)
    same = (text.tokens[:, :, None] == text.tokens[:, None, :]).double()
    to_each, lots = copies @ same, torch.Generator().manual_seed(0)
    earlier = [(torch.rand(right.shape, generator=lots) * torch.arange(1, right.shape[1] + 1)).long() for _ in range(SHUFFLES)]
    others = [to_each.gather(2, places[:, :, None])[text.repeats].mean() for places in earlier]
    fits, shuffled = fitting(given, text.run["L0.attention"])
    return found(
        reported("copied", right[text.repeats].mean(), above=max(others)),
        reported("continued", fits, above=shuffled),
        beside("repeats", text.repeats.double().mean()),
        on=given.name("one-layer"),
    )


@checks("000-FN5")
def linear_and_bilinear(given: Given) -> Finding:
    """Scores are bilinear in two tokens, logits linear in the source once its weight is given; the weight itself is neither."""
    model, m, ids = given.drawn(), printed(given.drawn()), given.ids()
    run = model.record(ids)
    QK, OV = m.W_E.T @ m.W_Q.T @ m.W_K @ m.W_E / model.config.d_head**0.5, m.W_U @ m.W_OV @ m.W_E
    t = torch.nn.functional.one_hot(ids[0], model.config.vocab).double().T
    S, A = run["L0.scores"][0, 0], run["L0.pattern"][0, 0]
    allowed = S.isfinite()
    normed = given.drawn(replace(SMALL, norm=hw.PreNorm())).record(ids)["L0.scores"][0, 0]
    return found(
        stated("bilinear", apart((t.T @ QK @ t)[allowed], S[allowed]), within=1e-10),
        stated("linear", apart((OV @ t @ A.T).T, run["L0.head_writes"][0, 0] @ model.weights.W_U), within=1e-10),
        outside("weights", apart((t.T @ QK @ t)[allowed], A[allowed]), within=1e-10),
        outside("norm", apart((t.T @ QK @ t)[allowed], normed[allowed]), within=1e-10),
    )


@checks("000-FN6")
def most_heads_copy(given: Given) -> Finding:
    """How many heads copy beyond chance, and how high the middle one's score is, against heads of drawn weights."""
    model, judged = given.model("one-layer"), panels(given).values()
    drawn = [float(scores(core.centred.eigenvalues)) for core in ov_cores(untrained(given).weights).values()]
    return found(
        reported("heads", sum(panel.verdict == "copying" for panel in judged), above=model.config.heads / 2),
        reported("score", median(panel.centred.score for panel in judged), above=max(drawn)),
        beside("raw", sum(panel.votes["raw score"] == "copying" for panel in judged)),
        on=given.name("one-layer"),
        examples=[str(head) for head, panel in panels(given).items() if panel.verdict == "copying"],
    )


@checks("000-N7")
def not_by_distance(given: Given) -> Finding:
    """Another basis of the stream moves embeddings apart and changes no skip-trigram; moving tokens neither. No weight is zero."""
    model, ids, text = given.drawn(), given.ids(), reading(given)
    other = in_another_basis(model)
    before, after = (float((each.weights.W_E[3] - each.weights.W_E[5]).square().sum().sqrt()) for each in (model, other))
    moved = torch.cat([ids[:, :-1].flip(1), ids[:, -1:]], dim=1)
    A = text.run["L0.pattern"]
    allowed = text.run["L0.scores"].isfinite()
    keys = torch.exp(-(A * A.clamp(min=1e-300).log()).sum(dim=3)).mean(dim=(0, 2))
    return found(
        stated("distance", after / before - 1, within=1e-10),
        stated("sparse", (A[allowed] == 0).double().mean(), above=0.5),
        corrected("basis", apart(other.logits(ids), model.logits(ids)), within=1e-10),
        corrected("moved", apart(model.logits(moved)[0, -1], model.logits(ids)[0, -1]), within=1e-10),
        corrected("rank", model.ov("L0H0").rank(), within=SMALL.d_head),
        beside("fewest", keys.min()),
        beside("most", keys.max()),
        on=given.name("one-layer"),
    )


@checks("000-N8")
def selective_attention(given: Given) -> Finding:
    """A head written by hand finds a key among fillers and says it again; how selective it can be is a matter of scores."""
    task = RecallTask()
    asked = torch.from_numpy(task.windows(1, gap=task.farthest, seed=0))[:, :-1]
    sharp, dull = (Model(recall.by_hand(task, score=D).to(dtype=torch.float64)) for D in (20.0, 1.5))
    weight, low = (model.record(asked)["L0.pattern"][0, 0, -1, 0] for model in (sharp, dull))
    answers = recall.ask(Transformer(sharp.weights, ""), task, task.farthest, 64)
    e, N = torch.tensor(20.0, dtype=torch.float64).exp(), task.context
    return found(
        stated("answers", answers.accuracy, equal=1.0),
        stated("weight", weight - e / (e + N - 1), within=1e-10),
        outside("perfect", 1 - weight, within=1e-10),
        outside("dull", 1 - low, within=0.5),
        beside("chance", 1 / task.keys),
    )


@checks("000-E5")
def probability_after_two_tokens(given: Given) -> Finding:
    """Contexts A B of one-head models: what the printed formula says, and what it says with B's look at itself, against the model."""
    printed_nats, full_nats = zip(*(formulas(given, seed) for seed in range(20)), strict=True)
    return found(
        stated("printed", max(printed_nats), within=1e-10),
        corrected("full", max(full_nats), within=1e-10),
        beside("mean", sum(printed_nats) / len(printed_nats)),
    )


@checks("000-L2")
def room_for_adjustments(given: Given) -> Finding:
    """The dimension of all that heads add to logits, over many texts, against the bound. Sizes and probabilities are not bound by it."""
    few, many = (dimensions(given, config) for config in (TWO_HEADS, CROWDED))
    one, ids = given.drawn(ONE_HEAD), given.ids(ONE_HEAD, batch=60)
    louder = Model(one.weights.changed({"blocks.0.attn.W_O": 1000 * one.weights.blocks[0].attention.W_O}))
    alone = hw.Zero(one.place("L0.attention"))
    quiet = one.record(ids, tap=alone).logits
    moved = (one.logits(ids).softmax(-1) - quiet.softmax(-1)).flatten(0, 1)
    bound = ONE_HEAD.heads * min(ONE_HEAD.d_model, ONE_HEAD.d_head)
    return found(
        stated("few", few, within=TWO_HEADS.heads * min(TWO_HEADS.d_model, TWO_HEADS.d_head)),
        stated("many", many, within=CROWDED.heads * min(CROWDED.d_model, CROWDED.d_head)),
        stated("tight", many, equal=min(CROWDED.d_model, CROWDED.vocab, CROWDED.heads * CROWDED.d_head)),
        outside("size", apart(louder.logits(ids), quiet) / apart(one.logits(ids), quiet), within=1),
        outside("probabilities", rank(moved), within=bound),
    )


@checks("000-N9")
def directional_filters(given: Given) -> Finding:
    """A head reads and writes few directions and no others; in the trained model those that it reads most matter for the loss."""
    model, m, ids = given.drawn(), printed(given.drawn()), given.ids()
    unread, written = (torch.eye(SMALL.d_model).double() - onto(each) for each in (m.W_V.T, m.W_O))
    write = model.record(ids)["L0.head_writes"][0, 0]
    trained, text = given.model("one-layer"), reading(given)
    usual = float(text.nats(trained).mean())
    most, any_ = (float(text.nats(without(trained, how)).mean()) - usual for how in ("read most", "by lot"))
    return found(
        stated("reads", (m.W_V @ unread).abs().max(), within=1e-10),
        stated("writes", (write @ written).abs().max(), within=1e-10),
        reported("loss", most, above=any_),
        on=given.name("one-layer"),
    )


@dataclass(frozen=True)
class Copy:
    """The place in the text where a head raises most a token that stood before."""

    window: int
    head: int
    dest: int
    source: int
    adds: float


def own_contributions(given: Given) -> Tensor:
    """What each head adds to the logit of the very token that it looks at, above the mean of all: [window, head, dest, source]."""
    model, text = given.model("one-layer"), reading(given)
    own = torch.stack([model.ov(head).centred_rows().diagonal() for head in every_head(model.config)])
    return text.run["L0.pattern"] * own[:, text.tokens].transpose(0, 1)[:, :, None]


def strongest_copy(given: Given) -> Copy:
    """Among all places of the text where a head looks back."""
    adds = own_contributions(given).tril(-1)
    window, head, dest, source = (int(each) for each in torch.unravel_index(adds.argmax(), adds.shape))
    return Copy(window, head, dest, source, float(adds.max()))


def by_destination(model: Model, source: int, dests: Tensor) -> Tensor:
    """What each head adds to the logits after the texts ``source dest`` by looking at the source, above the mean: [head, dest, out]."""
    texts = torch.stack([torch.full_like(dests, source), dests], dim=1)
    weights = model.record(texts)["L0.pattern"][:, :, 1, 0]
    rows = torch.cat([model.ov(head).centred_rows().rows([source]) for head in every_head(model.config)])
    return weights.T[:, :, None] * rows[:, None]


def different(tokens: Tensor) -> int:
    """How many tokens there are among these."""
    return len(np.unique(tokens.numpy()))


def in_another_basis(model: Model) -> Model:
    """The same model with all that enters the stream turned and stretched, and all that reads it the other way round."""
    weights, block = model.weights, model.weights.blocks[0].attention
    R = torch.randn(weights.W_E.shape[1], weights.W_E.shape[1], generator=torch.Generator().manual_seed(0)).double()
    back = R.inverse()
    tensors = {"embed.W_E": weights.W_E @ R, "blocks.0.attn.W_O": block.W_O @ R, "unembed.W_U": back @ weights.W_U}
    readers = {f"blocks.0.attn.{name}": back @ getattr(block, name) for name in ("W_Q", "W_K", "W_V")}
    return Model(weights.changed(tensors | readers))


def formulas(given: Given, seed: int) -> tuple[float, float]:
    """Nats between a one-head model after A B and the formula as printed, and with the term of B itself."""
    model, m = given.drawn(ONE_HEAD, seed), printed(given.drawn(ONE_HEAD, seed))
    run = model.record(given.ids(ONE_HEAD, seed, length=2))
    x_A, x_B = run["embed"][0]
    to_A, to_B = run["L0.pattern"][0, 0, 1]
    as_printed = m.W_U @ (m.W_O @ m.W_V @ (to_A * x_A) + x_B)
    full = m.W_U @ (m.W_O @ m.W_V @ (to_A * x_A + to_B * x_B) + x_B)
    log_p = run.logits[0, 1].log_softmax(-1)
    first, second = (float((log_p.exp() * (log_p - each.log_softmax(-1))).sum()) for each in (as_printed, full))
    return first, second


def dimensions(given: Given, config: hw.ModelConfig) -> int:
    """The rank of what attention adds to the logits, over many positions of many texts."""
    model, ids = given.drawn(config), given.ids(config, batch=60)
    added = model.record(ids).logits - model.record(ids, tap=hw.Zero(model.place("L0.attention"))).logits
    return rank(added.flatten(0, 1))


def onto(columns: Tensor) -> Tensor:
    """The projection onto the span of some columns."""
    directions, _ = qr(columns)
    return directions @ directions.T


def without(model: Model, how: str) -> Model:
    """The model whose heads no longer read a few directions each: those that they read most, or others drawn by lot."""
    block, lots = model.weights.blocks[0].attention, torch.Generator().manual_seed(0)
    deaf: list[Tensor] = []
    for m, W_V in zip(every_printed(model)[:: model.config.heads // len(block.W_V)], block.W_V, strict=True):
        drawn = torch.randn(W_V.shape[0], DIRECTIONS, generator=lots, dtype=torch.float64)
        few = svd(m.W_OV.T)[0][:, :DIRECTIONS] if how == "read most" else drawn
        deaf.append(W_V - onto(few) @ W_V)
    return Model(model.weights.changed({"blocks.0.attn.W_V": torch.stack(deaf)}), model.tokenizer)
