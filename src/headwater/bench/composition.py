# pyright: basic, reportMissingImports=false
# Peers carry no types.
"""Composition scores of all pairs of heads at GPT-2's shapes, beside TransformerLens where that fits into memory."""

import torch

from headwater.bench.contest import absent, contest
from headwater.bench.goals import Table, at_least, at_most, shown
from headwater.bench.machine import EDGE
from headwater.bench.phases import operations

TITLE = "Composition: all pairs of heads, one mode (K), random weights, float32"

ROUNDS, D_HEAD = 3, 64
OURS, PEER, XL, PEAK = "headwater, GPT-2 small", "TransformerLens, GPT-2 small", "headwater, GPT-2 XL", "a float32 GEMM"
SMALL = {
    OURS: "composition:headwater_small",
    PEER: "composition:transformer_lens_small",
    PEAK: "machine:gemm:float32",
    "headwater, GPT-2 small, all three modes": "composition:headwater_small_modes",
}
LARGE = {XL: "composition:headwater_xl"}
ROUNDS_OF_LARGE = 2
"""Half a minute each; TransformerLens would need 590 GB."""

SMALL_TILES = "Half of the time is one small product for every head and tile, which run at half of a large GEMM's speed; the rest is pairs of heads."
STAIRS = (
    "All of it is products of pairs of heads. A seventh more are done than needed, since tiles on the diagonal are whole and pairs come"
    " in rectangles, and long and narrow products stay below the speed of a square one."
)


def table(rounds: int) -> Table:
    results = {**contest(SMALL, rounds), **contest(LARGE, min(rounds, ROUNDS_OF_LARGE))}
    rows = [["", "heads", "seconds", "MB over the model"]]
    heads = {name: "1,200" if "XL" in name else "144" for name in results}
    rows += [
        [name, heads[name], shown(result.seconds), shown(result.megabytes, 0)]
        for name, result in results.items()
        if name != PEAK
    ]
    ours, peer, large = (results[name] for name in (OURS, PEER, XL))
    speed = 2 * EDGE**3 / results[PEAK].seconds
    floors = [_least(*shape) / speed for shape in ((144, 12, 768), (1200, 25, 1600))]
    rows += [[f"the products of {name} alone, at the speed of a float32 GEMM", "", shown(floor), ""]
             for name, floor in zip((OURS, XL), floors, strict=True)]  # fmt: skip
    goals = [
        at_least(
            "GPT-2 small, times faster than TransformerLens", peer.seconds / ours.seconds, 30.0,
            limit=peer.seconds / floors[0], why="composition:why:small", because=SMALL_TILES,
        ),
        at_least("GPT-2 small, times smaller than TransformerLens", peer.megabytes / ours.megabytes, 1.0),
        at_most("GPT-2 small, memory", ours.megabytes, 2048.0, unit="MB"),
        at_most("GPT-2 XL", large.seconds, 20.0, unit="s", limit=floors[1], why="composition:why:xl", because=STAIRS),
        at_most("GPT-2 XL, memory", large.megabytes, 6144.0, unit="MB"),
    ]  # fmt: skip
    return Table(rows, goals, absent(results))


def _least(heads: int, in_layer: int, d_model: int) -> float:
    """Operations: half of each head's two Gram matrices, and their inner products for every pair of layers in order, over half the entries."""
    half = d_model * (d_model + 1) / 2
    pairs = heads * (heads - in_layer) / 2
    return 2 * half * (2 * heads * D_HEAD + pairs)


def why(size: str):
    return operations(headwater_small() if size == "small" else headwater_xl())


def _headwater(weights, modes: str):
    from headwater.circuits.composition import composition

    return lambda: composition(weights, modes)


def _small():
    from headwater.model.presets import named
    from headwater.model.weights import Weights

    return Weights.draw(named("gpt2-small"), seed=0)


def headwater_small():
    return _headwater(_small(), "K")


def headwater_small_modes():
    return _headwater(_small(), "QKV")


def headwater_xl():
    from headwater.model.config import Attention, ModelConfig, PreNorm
    from headwater.model.weights import Weights

    # The heads alone: nothing else of the model is read.
    config = ModelConfig(
        vocab=64, context=64, d_model=1600, layers=48, attention=Attention(heads=25, d_head=64), norm=PreNorm()
    )
    return _headwater(Weights.draw(config, seed=0), "K")


def transformer_lens_small():
    from transformer_lens import HookedTransformer, HookedTransformerConfig

    config = HookedTransformerConfig(
        n_layers=12, d_model=768, n_ctx=1024, d_head=64, n_heads=12, d_mlp=3072, d_vocab=50_257, act_fn="gelu_new",
        normalization_type="LN", device="cpu", seed=0,
    )  # fmt: skip
    model = HookedTransformer(config).eval()

    @torch.inference_mode()
    def run():
        return model.all_composition_scores("K")

    return run
