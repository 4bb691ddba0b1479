"""Document 003, Theorem 1: the six lines of a post-norm block, and what is said of its parts."""

import math
from collections.abc import Callable
from dataclasses import replace
from typing import Literal, get_args

import torch
from torch import Tensor

from headwater.api import Model
from headwater.circuits.algebra import singular_values
from headwater.claims.evidence import Finding, beside, corrected, defined, found, reported, stated
from headwater.claims.given import SMALL, Given
from headwater.claims.integration.trainings import gain
from headwater.claims.registry import checks
from headwater.claims.self_attention.pieces import BLOCK, apart, length
from headwater.claims.self_attention.short_runs import entropy_of_words, with_and_without_norms
from headwater.model.config import Activation, Attention, FeedForward, LayerNorm, NoNorm, PostNorm
from headwater.model.weights import Weights
from headwater.trace.run import Run

ACTIVATIONS: dict[Activation, Callable[[Tensor], Tensor]] = {
    "relu": lambda z: z.clamp(min=0),
    "gelu": lambda z: z * (1 + torch.erf(z / math.sqrt(2))) / 2,
    "gelu-tanh": lambda z: z * (1 + torch.tanh(math.sqrt(2 / math.pi) * (z + 0.044715 * z**3))) / 2,
    "silu": lambda z: z / (1 + torch.exp(-z)),
}
SMALL_SCALE, LARGE_SCALE = 0.5, 1.4
"""Of weights: at which gradients vanish without a residual connection, and at which they explode with it."""


def run_of(given: Given) -> Run:
    """A drawn block, gains and biases too, on drawn tokens."""
    return given.drawn(BLOCK).record(given.ids(BLOCK))


def self_attention(run: Run, x: Tensor) -> Tensor:
    """SelfAttention(X) with W_O: for every head softmax(Q Kᵀ/√d_k) V W_O, each position seeing those up to its own; added up."""
    heads, later = run.weights.blocks[0].attention, torch.ones(x.shape[1], x.shape[1]).triu(1).bool()
    out = torch.zeros_like(x)
    for W_Q, W_K, W_V, W_O in zip(heads.W_Q, heads.W_K, heads.W_V, heads.W_O, strict=True):
        scores = (x @ W_Q) @ (x @ W_K).mT / math.sqrt(W_K.shape[-1])
        out += scores.masked_fill(later, -math.inf).softmax(dim=-1) @ (x @ W_V) @ W_O
    return out


def layer_norm(run: Run, name: Literal["ln1", "ln2"], x: Tensor) -> Tensor:
    """LayerNorm(x) = (x − μ)/√(σ² + ε) ∘ gain + bias, of one of the block's two norms."""
    gain, bias = part(run, f"{name}.w"), part(run, f"{name}.b")
    centred = x - x.mean(dim=-1, keepdim=True)
    return centred / (centred.square().mean(dim=-1, keepdim=True) + LayerNorm().eps).sqrt() * gain + bias


def ffn(run: Run, x: Tensor, activation: Activation = "relu") -> Tensor:
    """FFN(x) = σ(x W_in + b_in) W_out + b_out."""
    hidden = x @ part(run, "mlp.W_in") + part(run, "mlp.b_in")
    return ACTIVATIONS[activation](hidden) @ part(run, "mlp.W_out") + part(run, "mlp.b_out")


def part(run: Run, name: str) -> Tensor:
    """A tensor of the block."""
    return run.weights.tensors()[f"blocks.0.{name}"]


@checks("003-N6")
def three_ingredients(given: Given) -> Finding:
    """Attention, feed-forward layer and norms: the block's output is another one without any of them."""
    ids, run = given.ids(BLOCK), run_of(given)
    tensors = run.weights.tensors()
    mute = {name: torch.zeros_like(tensors[f"blocks.0.{name}"]) for name in ("attn.W_O", "mlp.W_out")}
    no_attention, no_ffn = (Model(run.weights.changed({f"blocks.0.{name}": zero})) for name, zero in mute.items())
    rest = {name: tensor for name, tensor in tensors.items() if ".ln" not in name}
    no_norms = Model(Weights.assemble(replace(BLOCK, norm=NoNorm()), rest))
    return found(
        defined("attention", apart(run["L0.out"], no_attention.record(ids)["L0.out"]), above=1e-3),
        defined("feed_forward", apart(run["L0.out"], no_ffn.record(ids)["L0.out"]), above=1e-3),
        defined("norms", apart(run["L0.out"], no_norms.record(ids)["L0.out"]), above=1e-3),
    )


@checks("003-T1", "003-E8")
def six_lines(given: Given) -> Finding:
    """The six lines written out, each from the one before, against the steps of the library's block."""
    run, unseen = run_of(given), given.drawn(BLOCK).logits(given.ids(BLOCK))
    x = run["L0.in"]
    t1 = self_attention(run, x)
    t2 = x + t1
    t3 = layer_norm(run, "ln1", t2)
    t4 = ffn(run, t3)
    t5 = t3 + t4
    lines = {"t1": t1, "t2": t2, "t3": t3, "t4": t4, "t5": t5, "h": layer_norm(run, "ln2", t5)}
    return found(
        *(defined(name, apart(run[f"L0.{name}"], value), within=1e-10) for name, value in lines.items()),
        defined("logits", apart(unseen, lines["h"] @ run.weights.W_U), within=1e-10),
    )


@checks("003-E9")
def first_line(given: Given) -> Finding:
    """Attention with W_O: without it, a head's output is narrower than the stream."""
    run = run_of(given)
    return found(
        defined("t1", apart(run["L0.t1"], self_attention(run, run["L0.in"])), within=1e-10),
        beside("width", run["L0.mixed"].shape[-1]),
        beside("stream", run["L0.in"].shape[-1]),
    )


@checks("003-E10")
def second_line(given: Given) -> Finding:
    """The input is added to what attention wrote."""
    run = run_of(given)
    x = run["L0.in"]
    return found(defined("t2", apart(run["L0.t2"], x + self_attention(run, x)), within=1e-10))


@checks("003-E11")
def third_line(given: Given) -> Finding:
    """The norm by its formula; before gain and bias, each vector has mean 0 and a variance of 1 but for ε."""
    run = run_of(given)
    t2, t3 = run["L0.t2"], run["L0.t3"]
    bare, variance = (t3 - part(run, "ln1.b")) / part(run, "ln1.w"), t2.var(dim=-1, correction=0)
    return found(
        defined("t3", apart(t3, layer_norm(run, "ln1", t2)), within=1e-10),
        defined("mean", bare.mean(dim=-1).abs().max(), within=1e-10),
        defined("variance", apart(bare.var(dim=-1, correction=0), variance / (variance + LayerNorm().eps)), within=1e-10),
    )


@checks("003-E12")
def fourth_line(given: Given) -> Finding:
    """The feed-forward layer reads the normalised t3, each position by itself."""
    run = run_of(given)
    t3 = run["L0.t3"]
    alone = torch.cat([ffn(run, t3[:, at : at + 1]) for at in range(t3.shape[1])], dim=1)
    return found(defined("t4", apart(run["L0.t4"], alone), within=1e-10))


@checks("003-E13")
def fifth_line(given: Given) -> Finding:
    """The second sum begins with the normalised t3, not with the stream t2."""
    run = run_of(given)
    t4 = ffn(run, run["L0.t3"])
    return found(
        defined("t5", apart(run["L0.t5"], run["L0.t3"] + t4), within=1e-10),
        beside("from_t2", apart(run["L0.t5"], run["L0.t2"] + t4)),
    )


@checks("003-E14")
def sixth_line(given: Given) -> Finding:
    """The second norm, with a gain and a bias of its own, makes what the block leaves."""
    run = run_of(given)
    h, t5 = run["L0.out"], run["L0.t5"]
    return found(
        defined("h", apart(h, layer_norm(run, "ln2", t5)), within=1e-10),
        beside("first_norm", apart(h, layer_norm(run, "ln1", t5))),
    )


@checks("003-N7")
def gradients_with_residual(given: Given) -> Finding:
    """How much of the gradient arrives at the bottom of 32 layers, in powers of ten: with the residual connection and without it."""
    return found(
        reported("arrives", gain(given, "residual", SMALL_SCALE), above=gain(given, "plain", SMALL_SCALE)),
        beside("exploding", gain(given, "residual", LARGE_SCALE)),
        beside("exploding_plain", gain(given, "plain", LARGE_SCALE)),
    )


@checks("003-N8")
def training_with_norms(given: Given) -> Finding:
    """The largest rate that a stack bears, and how soon it learns at its best rate; gradients through depth at a large scale."""
    normed, bare = with_and_without_norms(given)
    boldest = max((each for each in normed if each.is_stable), key=lambda each: each.rate)
    steady, unsteady = (abs(gain(given, kind, LARGE_SCALE)) for kind in ("post-norm", "residual"))
    return found(
        reported("gradient", steady, below=unsteady),
        reported("rate", boldest.rate, above=max(each.rate for each in bare if each.is_stable)),
        reported("updates", min(each.updates for each in normed), below=min(each.updates for each in bare)),
        beside("learned", boldest.losses[-1]),
        beside("words", entropy_of_words()),
    )


@checks("003-N9")
def two_linear_layers(given: Given) -> Finding:
    """Two linear maps with an activation between, for each activation there is; without one, they would be one linear map."""
    wrong, bend = list[float](), list[float]()
    for activation in get_args(Activation):
        config = replace(BLOCK, feed_forward=FeedForward(d_mlp=10, activation=activation))
        run = given.drawn(config).record(given.ids(config))
        t3, t4 = run["L0.t3"], run["L0.t4"]
        wrong.append(apart(t4, ffn(run, t3, activation)))
        flat = t3 @ part(run, "mlp.W_in") @ part(run, "mlp.W_out")
        bend.append(apart(t4 - t4[:, :1], flat - flat[:, :1]))
    return found(defined("layers", max(wrong), within=1e-10), defined("bend", min(bend), above=1e-3))


@checks("003-N10")
def integrity(given: Given) -> Finding:
    """A head can write −x and leave nothing; a norm takes x and 3x for the same. A branch that contracts can be undone."""
    config = replace(SMALL, attention=Attention(heads=1, d_head=SMALL.d_model))
    weights, alone = given.drawn(config).weights, torch.arange(config.vocab)[:, None]
    same = torch.eye(config.d_model, dtype=torch.float64)
    erased = Model(weights.changed({"blocks.0.attn.W_V": -same[None], "blocks.0.attn.W_O": same[None]})).record(alone)
    M = 0.5 * weights.blocks[0].attention.W_V[0] / singular_values(weights.blocks[0].attention.W_V[0])[0]
    added = Model(weights.changed({"blocks.0.attn.W_V": M[None], "blocks.0.attn.W_O": same[None]})).record(alone)
    again = added["L0.out"]
    for _ in range(60):
        again = added["L0.out"] - again @ M
    h = one_word_and_three_times_it(given)
    return found(
        stated("left", (length(erased["L0.out"]) / length(erased["L0.in"])).max(), above=1e-10),
        stated("told_apart", apart(h[0], h[1]), above=1e-6),
        stated("length", (length(h) / math.sqrt(h.shape[-1]) - 1).abs().max(), within=1e-10),
        corrected("recovered", apart(again, added["L0.in"]), within=1e-10),
    )


def one_word_and_three_times_it(given: Given) -> Tensor:
    """What a post-norm block without ε, gain and bias leaves of a vector alone, and of three times that vector."""
    config = replace(BLOCK, norm=PostNorm(norm=LayerNorm(eps=1e-14, gain=False, bias=False)))
    weights = given.drawn(config).weights
    W_E = weights.W_E.clone()
    W_E[1] = 3 * W_E[0]
    return Model(weights.changed({"embed.W_E": W_E})).record(torch.tensor([[0], [1]]))["L0.out"][:, 0]
