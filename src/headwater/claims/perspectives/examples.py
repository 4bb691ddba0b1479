"""The worked examples of document 004: a feed-forward network, attention's outputs, a LayerNorm, and a whole post-norm block."""

from statistics import fmean, pstdev, stdev

import torch

import headwater as hw
from headwater.claims.evidence import Finding, beside, defined, found, recalculated
from headwater.claims.given import Given
from headwater.claims.integration.worked import T_1, T_3, X_2, example, numbers
from headwater.claims.integration.written import apart
from headwater.claims.registry import checks
from headwater.shapes import floats

PRINTED_A = (0.11, 0.19, 0.21, 0.05)
OUTPUTS = ((0.1, 0.2, -0.1, 0.2), T_1, (-0.2, 0.1, 0.2, -0.1))
"""What 004-EX2 supposes that attention gives for the three tokens."""
X, PRINTED_T3, PRINTED_T4 = (0.5, 0.2, -0.1, 0.3), (1.25, -0.7, -0.3, 0.1), (0.1, -0.3, 0.2, -0.1)
"""The steps of 004-EX4."""
THREE = hw.ModelConfig(vocab=3, context=3, d_model=4, layers=1, attention=hw.Attention(heads=1, d_head=4, mask="full"))


@checks("004-EX1")
def feed_forward(given: Given) -> Finding:
    """The three steps of the network with the printed weights; and the last one again from the printed ``a``."""
    del given
    run, from_a = example(t3=T_3), example(t3=T_3, neurons=PRINTED_A)
    z, a, t4 = (numbers(run[f"L0.{site}"]) for site in ("hidden", "neurons", "t4"))
    return found(
        recalculated("z", PRINTED_A, z, within=0.005),
        recalculated("a", PRINTED_A, a, within=0.005),
        recalculated("t4", [0.05, 0.18, 0.24, 0.04], t4, within=0.005),
        recalculated("t4-from-a", [0.05, 0.18, 0.24, 0.04], numbers(from_a["L0.t4"]), within=0.005),
        recalculated("right-z", [0.15, 0.20, 0.48, -0.06], z, within=1e-10, role="corrected"),
        recalculated("right-a", [0.15, 0.20, 0.48, 0.0], a, within=1e-10, role="corrected"),
        recalculated("right-t4", [0.154, 0.127, 0.286, 0.053], t4, within=1e-10, role="corrected"),
    )


@checks("004-EX2")
def attention(given: Given) -> Finding:
    """Weights that give the three supposed outputs: for whatever pattern the scores make, ``W_V`` follows from ``A X W_V = T``."""
    drawn, ids = given.drawn(THREE), torch.tensor([[0, 1, 2]])
    x, wanted = drawn.weights.W_E.clone(), torch.tensor(OUTPUTS, dtype=torch.float64)
    x[1] = torch.tensor(X_2)
    there = hw.Model(drawn.weights.changed({"embed.W_E": x}))
    pattern = there.record(ids)["L0.pattern"][0, 0]
    W_V = torch.pinverse(pattern @ x) @ wanted
    solved = {"blocks.0.attn.W_V": W_V[None], "blocks.0.attn.W_O": torch.eye(4, dtype=torch.float64)[None]}
    outputs = hw.Model(there.weights.changed(solved)).record(ids)["L0.attention"][0]
    return found(
        recalculated("outputs", [n for row in OUTPUTS for n in row], floats(outputs.flatten()), within=1e-10, role="defined"),
        defined("combination", apart(outputs[1], sum((pattern[1, j] * x[j] for j in range(3)), x[0] * 0) @ W_V), within=1e-10),
        beside("on-token-3", pattern[1, 2]),
    )


@checks("004-EX3")
def layer_norm(given: Given) -> Finding:
    """Mean, standard deviation and normalised vector of the printed ``t2``."""
    del given
    run = example(t1=T_1)
    t2, t3, sigma = numbers(run["L0.t2"]), numbers(run["L0.t3"]), 1 / float(run["L0.norm_1.scale"])
    return found(
        recalculated("mean", [0.65], [fmean(t2)], within=0.005),
        recalculated("sigma", [0.44], [sigma], within=0.005),
        recalculated("t3", [1.25, -0.57, -1.25, 0.57], t3, within=0.005),
        recalculated("right-sigma", [0.4272], [sigma], within=5e-5, role="corrected"),
        recalculated("right-t3", [1.2875, -0.5852, -1.2875, 0.5852], t3, within=5e-5, role="corrected"),
        beside("printed-deviation", pstdev([1.25, -0.57, -1.25, 0.57])),
        beside("other-sigma", stdev(t2)),
    )


@checks("004-EX4")
def block(given: Given) -> Finding:
    """Each step from the printed ones before it; then the whole chain, with the printed ``t4`` and with the network of 004-EX1."""
    del given
    first, printed = example(X, t1=T_1), example(X, t1=T_1, t3=PRINTED_T3)
    after, chain = example(X, t3=PRINTED_T3, t4=PRINTED_T4), example(X, t1=T_1, t4=PRINTED_T4)
    return found(
        recalculated("t2", [0.7, 0.1, 0.2, 0.4], numbers(first["L0.t2"]), within=0.005),
        recalculated("t3", PRINTED_T3, numbers(first["L0.t3"]), within=0.005),
        recalculated("t4", PRINTED_T4, numbers(printed["L0.t4"]), within=0.005),
        recalculated("t5", [1.35, -1.0, -0.1, 0.0], numbers(after["L0.t5"]), within=0.005),
        recalculated("h", [1.4, -1.1, -0.2, 0.1], numbers(after["L0.h"]), within=0.005),
        recalculated("right-t3", [1.5275, -1.0911, -0.6547, 0.2182], numbers(first["L0.t3"]), within=5e-5, role="corrected"),
        recalculated("right-h", [1.5342, -1.2661, -0.1936, -0.0745], numbers(after["L0.h"]), within=5e-5, role="corrected"),
        recalculated("chain-h", [1.5082, -1.2468, -0.3921, 0.1307], numbers(chain["L0.h"]), within=5e-5, role="corrected"),
        recalculated("whole-t4", [0.2006, 0.0607, 0.2786, 0.1055], numbers(first["L0.t4"]), within=5e-5, role="corrected"),
        recalculated("whole-h", [1.5308, -1.1644, -0.5251, 0.1586], numbers(first["L0.h"]), within=5e-5, role="corrected"),
    )
