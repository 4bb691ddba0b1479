"""Document 003, fundamentals: what an output of self-attention is a combination of."""

import math
from dataclasses import replace

import torch
from einops import einsum

from headwater.api import Model
from headwater.circuits.algebra import frobenius, svd
from headwater.claims.evidence import Finding, beside, corrected, defined, found, outside, stated
from headwater.claims.given import SMALL, Given
from headwater.claims.registry import checks
from headwater.claims.self_attention.pieces import BLOCK, WIDE, apart, length, one_head
from headwater.model.attention import Rule, matrix
from headwater.model.config import LearnedPositions, ModelConfig
from headwater.model.layout import tensor_shapes
from headwater.model.positions import for_each_head

LENGTHS = (10, 1_000, 100_000)


@checks("003-N1")
def as_long_as_before(given: Given) -> Finding:
    """A post-norm block gives back as many vectors as it gets, of the same width, whatever the length."""
    model = given.drawn(BLOCK)
    runs = [model.record(given.ids(BLOCK, length=length)) for length in (1, 2, 7, BLOCK.context)]
    other = [run["L0.h"].shape != run["L0.in"].shape for run in runs]
    return found(defined("shapes", sum(other), equal=0), beside("lengths", len(runs)))


@checks("003-N2")
def any_length(given: Given) -> Finding:
    """No tensor grows with the context, and a far token keeps its weight if its score grows with ln N; neither is so in general."""
    kept = [weight_of_one(math.log(9 * (length - 1)), length) for length in LENGTHS]
    diluted = [weight_of_one(5.0, length) for length in LENGTHS]
    formula = [math.exp(5) / (math.exp(5) + length - 1) for length in LENGTHS]
    return found(
        stated("sizes", tensors_that_grow(SMALL), equal=0),
        stated("kept", max(abs(weight - 0.9) for weight in kept), within=1e-10),
        outside("learned", tensors_that_grow(replace(SMALL, positions=LearnedPositions())), equal=0),
        outside("diluted", min(diluted), above=0.5),
        corrected("formula", max(abs(a - b) for a, b in zip(diluted, formula, strict=True)), within=1e-10),
    )


def weight_of_one(gap: float, length: int) -> float:
    """What attention gives to one key whose score is ``gap`` above that of all others."""
    k = torch.zeros(1, 1, length, 1, dtype=torch.float64)
    k[0, 0, 0] = gap
    return float(matrix(torch.ones_like(k[:, :, :1]), k, (k == gap).double(), Rule("full", scale=1.0)))


def tensors_that_grow(config: ModelConfig) -> int:
    """How many tensors a longer context makes larger."""
    longer = tensor_shapes(replace(config, context=2 * config.context))
    return sum(shape != longer[name] for name, shape in tensor_shapes(config).items())


@checks("003-N3")
def sees_context(given: Given) -> Finding:
    """One output for each input; a token's own vector is the same in every text, its output is not."""
    model, ids = given.drawn(), given.ids()
    elsewhere = ids.clone()
    elsewhere[:, 0] = (ids[:, 0] + 1) % SMALL.vocab
    here, there = model.record(ids), model.record(elsewhere)
    return found(
        defined("count", here["L0.attention"].shape[1] - ids.shape[1], equal=0),
        defined("input", apart(here["embed"][:, -1], there["embed"][:, -1]), equal=0),
        defined("output", apart(here["L0.attention"][:, -1], there["L0.attention"][:, -1]), above=1e-3),
    )


@checks("003-L1")
def combination_of_inputs(given: Given) -> Finding:
    """The weights are positive and add up to 1; the output is no combination of the inputs, but the image of one."""
    head = one_head(given)
    _, sizes, directions = svd(head.x)
    span = directions[:, sizes > 1e-10]
    beyond = head.y - head.y @ span @ span.T
    return found(
        stated("inputs", apart(head.y, head.a @ head.x), within=1e-10),
        stated("beyond", frobenius(beyond) / frobenius(head.y), within=1e-10),
        stated("least", head.a.min(), above=0),
        stated("sums", apart(head.a.sum(dim=-1), torch.ones(len(head.a)).double()), within=1e-10),
        corrected("image", apart(head.y, (head.a @ head.x) @ head.W_V), within=1e-10),
    )


@checks("003-E1")
def inputs_added(given: Given) -> Finding:
    """As printed it fails; with W_V in its place, or with a head whose W_V is the identity, it holds."""
    head = one_head(given)
    model = given.drawn(WIDE)
    W_V = torch.eye(WIDE.d_model, dtype=torch.float64)[None]
    run = Model(model.weights.changed({"blocks.0.attn.W_V": W_V})).record(given.ids())
    return found(
        stated("inputs", apart(head.y, head.a @ head.x), within=1e-10),
        corrected("image", apart(head.y, (head.a @ head.x) @ head.W_V), within=1e-10),
        corrected("identity", apart(run["L0.mixed"][0, 0], run["L0.pattern"][0, 0] @ run["L0.in"][0]), within=1e-10),
    )


@checks("003-E6")
def images_added(given: Given) -> Finding:
    """Each input through W_V and then weighted, term by term; and weighted first, which is the same."""
    head = one_head(given)
    one_by_one = torch.zeros_like(head.y)
    for n, row in enumerate(head.a):
        for a_nm, x_m in zip(row, head.x, strict=True):
            one_by_one[n] += a_nm * (x_m @ head.W_V)
    return found(
        stated("terms", apart(head.y, one_by_one), within=1e-10),
        stated("weighted_first", apart(head.y, (head.a @ head.x) @ head.W_V), within=1e-10),
    )


@checks("003-N4")
def mean_of_values(given: Given) -> Finding:
    """A weighted mean of the values, not of the inputs; the source of the largest weight is not always the one that counts most."""
    model, head = given.model("one-layer"), one_head(given)
    run = model.record(given.windows("one-layer", 2)[:, :-1])
    a, v = run["L0.pattern"], for_each_head(run["L0.values"], model.config.heads)
    mean = einsum(a, v, "batch head dest source, batch head source d_head -> batch head dest d_head")
    influence = a * length(v)[:, :, None]
    return found(
        stated("values", apart(run["L0.mixed"], mean), within=1e-10),
        stated("sums", apart(a.sum(dim=-1), torch.ones_like(a[..., 0])), within=1e-10),
        outside("inputs", apart(head.y, head.a @ head.x), within=1e-10),
        outside("influence", (influence.argmax(dim=-1) == a.argmax(dim=-1)).double().mean(), equal=1),
        on=given.name("one-layer"),
    )
