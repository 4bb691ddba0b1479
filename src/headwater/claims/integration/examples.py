"""The worked examples of document 002: one token through a post-norm block, step by step."""

from statistics import fmean, pstdev

from headwater.claims.evidence import Finding, corrected, found, recalculated, stated
from headwater.claims.given import Given
from headwater.claims.integration.worked import T_1, T_3, T_4, example, numbers
from headwater.claims.registry import checks


def out_of_order(before: list[float], after: list[float]) -> int:
    """How many pairs of entries a step puts the other way round; LayerNorm without gain and bias puts none."""
    places = range(len(before))
    return sum(before[i] < before[j] and after[i] > after[j] for i in places for j in places)


@checks("002-EX1")
def first_addition(given: Given) -> Finding:
    """``t2 = t1 + x_2`` with the printed numbers."""
    del given
    return found(recalculated("t2", [1.2, 0.4, 0.1, 0.9], numbers(example(t1=T_1)["L0.t2"]), within=0.005))


@checks("002-EX2")
def supposed_norm(given: Given) -> Finding:
    """LayerNorm of the printed ``t2``, beside the vector that is supposed to be it; and what every LayerNorm's output is like."""
    del given
    run = example(t1=T_1)
    t2, t3, t4 = (numbers(run[f"L0.{step}"]) for step in ("t2", "t3", "t4"))
    return found(
        recalculated("t3", T_3, t3, within=0.005),
        stated("mean", fmean(T_3), within=0.005),
        stated("deviation", pstdev(T_3) - 1, within=0.005),
        stated("order", out_of_order(t2, list(T_3)), equal=0),
        stated("width", len(t3) + len(t4), equal=8),
        recalculated("right", [1.2875, -0.5852, -1.2875, 0.5852], t3, within=5e-5, role="corrected"),
        corrected("right-order", out_of_order(t2, t3), equal=0),
    )


@checks("002-EX3")
def supposed_output(given: Given) -> Finding:
    """The second addition and the last LayerNorm on the printed ``t3`` and ``t4``; then the chain from ``x_2`` on, with a right ``t3``."""
    del given
    printed, chain = example(t3=T_3, t4=T_4), example(t1=T_1, t4=T_4)
    t5, h = numbers(printed["L0.t5"]), numbers(printed["L0.h"])
    return found(
        recalculated("t5", [0.9, -0.6, 0.7, 0.1], t5, within=0.005),
        recalculated("h", [0.3, -0.9, 0.5, 0.3], h, within=0.005),
        stated("mean", fmean([0.3, -0.9, 0.5, 0.3]), within=0.005),
        stated("deviation", pstdev([0.3, -0.9, 0.5, 0.3]) - 1, within=0.005),
        stated("order", out_of_order(t5, [0.3, -0.9, 0.5, 0.3]), equal=0),
        recalculated("right", [1.0689, -1.4965, 0.7269, -0.2993], h, within=5e-5, role="corrected"),
        recalculated("chain", [1.3858, -0.9016, -1.0002, 0.5160], numbers(chain["L0.h"]), within=5e-5, role="corrected"),
    )
