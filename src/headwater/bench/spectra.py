# pyright: basic, reportMissingImports=false
# Peers carry no types.
"""Eigenvalues, singular values and norms of all 144 full OV circuits at GPT-2-small shape, beside TransformerLens' FactoredMatrix.

Headwater calculates in float64 from float32 weights, and with all heads at once. TransformerLens takes the heads of one layer together, which is
measured and multiplied by twelve; once in float32, as its users do, and once in float64, as accurate as Headwater is.
"""

import torch

from headwater.bench.contest import Result, absent, close, contest
from headwater.bench.goals import Goal, Table, at_least, beside, shown
from headwater.bench.phases import operations

LAYERS, ROUNDS = 12, 2
TITLE = (
    "Spectra: eigenvalues, singular values, norms of all 144 OV circuits (50,257 × 50,257), GPT-2-small shape, random weights"
)

WORKS = ["eigenvalues", "singular values", "norms"]
OURS, TIED = "headwater", "headwater, embedding and unembedding tied as GPT-2's are"
SINGLE, DOUBLE = "TransformerLens, float32 (one layer × 12)", "TransformerLens, float64 (one layer × 12)"
GOALS = {"eigenvalues": 25.0, "singular values": 35.0, "norms": 50.0}
FLOOR = "one product vocab × d_model² in float64, alone: all that any of them needs at least of the vocabulary"

DOUBLE_HERE = (
    "Headwater calculates in float64, where this machine multiplies half as fast, and TransformerLens is taken as its users run it, in"
    " float32; beside its own float64 the ratio is the one given below. Nearly all of the time is the one product with the vocabulary."
)


def jobs() -> dict[str, str]:
    named = {}
    for work in WORKS:
        named[f"{work}: {OURS}"] = f"spectra:ours:{work}"
        named[f"{work}: {TIED}"] = f"spectra:ours_tied:{work}"
        named[f"{work}: {SINGLE}"] = f"spectra:peer:{work}"
        named[f"{work}: {DOUBLE}"] = f"spectra:peer_in_double:{work}"
    return {**named, FLOOR: "spectra:product_alone"}


def table(rounds: int) -> Table:
    results = contest(jobs(), rounds)
    rows = [["", "seconds", "MB over the weights", "largest, layer 0"]]
    rows += [
        [name, shown(_seconds(name, result)), shown(result.megabytes, 0), shown(result.answer, 6)]
        for name, result in results.items()
    ]
    floor, goals = results[FLOOR].seconds, list[Goal]()
    for work in WORKS:
        ours = results[f"{work}: {OURS}"]
        close(work, (results[f"{work}: {name}"] for name in (OURS, SINGLE, DOUBLE)), 1e-4)
        for peer in (SINGLE, DOUBLE):
            theirs, name = _seconds(peer, results[f"{work}: {peer}"]), f"{work}, times faster than {peer.split(' (')[0]}"
            faster, limit = theirs / ours.seconds, theirs / floor
            goal = at_least(name, faster, GOALS[work], limit=limit, why=f"spectra:why:{work}", because=DOUBLE_HERE)
            goals.append(goal if peer == SINGLE else beside(name, faster))
        tied = _seconds(SINGLE, results[f"{work}: {SINGLE}"]) / results[f"{work}: {TIED}"].seconds
        goals.append(beside(f"{work}, tied, times faster than {SINGLE.split(' (', maxsplit=1)[0]}", tied))
    return Table(rows, goals, absent(results))


def why(work: str):
    return operations(ours(work))


def _seconds(name: str, result: Result) -> float:
    """Of all layers."""
    return result.seconds * (LAYERS if "TransformerLens" in name else 1)


def _weights(*, tied: bool = False):
    from headwater.model.config import Attention, ModelConfig, Unembedding
    from headwater.model.weights import Weights

    attention = Attention(heads=12, d_head=64)
    config = ModelConfig(
        vocab=50_257, context=1024, d_model=768, layers=LAYERS, attention=attention, unembedding=Unembedding(tied=tied)
    )
    return Weights.draw(config, seed=0)


def ours_tied(work: str):
    """The product with the vocabulary is symmetric then: half of it is enough, and one side is the other."""
    return ours(work, tied=True)


def ours(work: str, *, tied: bool = False):
    from headwater.circuits.cores import ov_families

    weights = _weights(tied=tied)

    @torch.inference_mode()
    def run():
        # A family keeps what it has computed from the vocabulary: each turn makes a new one.
        [group] = ov_families(weights)
        match work:
            case "eigenvalues":
                found = group.family.eigenvalues().abs()
            case "singular values":
                found = group.family.singular_values()
            case _:
                found = group.family.norms()
        return float(found[:12].max())

    return run


def peer(work: str, dtype: torch.dtype = torch.float32):
    from transformer_lens import FactoredMatrix

    weights = _weights().to(dtype=dtype)
    layer = weights.blocks[0].attention
    W_E, W_U = weights.W_E, weights.W_U.contiguous()

    @torch.inference_mode()
    def run():
        circuits = W_E @ FactoredMatrix(layer.W_V, layer.W_O) @ W_U
        match work:
            case "eigenvalues":
                found = circuits.eigenvalues.abs()
            case "singular values":
                found = circuits.svd()[1]
            case _:
                found = circuits.norm()
        return float(found.max())

    return run


def peer_in_double(work: str):
    return peer(work, torch.float64)


def product_alone():
    left, right = torch.randn(50_257, 768, dtype=torch.float64), torch.randn(50_257, 768, dtype=torch.float64)

    @torch.inference_mode()
    def run():
        return left.T @ right

    return run
