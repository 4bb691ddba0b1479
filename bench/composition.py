"""Composition scores of all pairs of heads at GPT-2's shapes, beside TransformerLens where that fits into memory."""

import torch

from contest import contest

TITLE = "Composition of all pairs of heads, one mode (K), random weights, float32"

SMALL = {
    "headwater, GPT-2 small": "composition:headwater_small",
    "TransformerLens, GPT-2 small": "composition:transformer_lens_small",
    "headwater, GPT-2 small, all three modes": "composition:headwater_small_modes",
}
LARGE = {"headwater, GPT-2 XL": "composition:headwater_xl"}
ROUNDS_OF_LARGE = 2
"""Half a minute each; TransformerLens would need 590 GB."""


def table(rounds: int) -> tuple[list[list[str]], list[dict[str, object]]]:
    """Rows for people, and the goals with whether they are met."""
    results = {**contest(SMALL, rounds), **contest(LARGE, min(rounds, ROUNDS_OF_LARGE))}
    rows = [["", "heads", "seconds", "MB over the model"]]
    heads = {name: "1,200" if "XL" in name else "144" for name in results}
    rows += [[name, heads[name], f"{result.seconds:.2f}", f"{result.megabytes:,.0f}"] for name, result in results.items()]
    ours, peer = results["headwater, GPT-2 small"], results["TransformerLens, GPT-2 small"]
    large = results["headwater, GPT-2 XL"]
    goals = [
        _goal("GPT-2 small, times faster than TransformerLens", peer.seconds / ours.seconds, 30.0),
        _goal("GPT-2 small, times smaller than TransformerLens", peer.megabytes / ours.megabytes, 1.0),
        _goal("GPT-2 small, times within 2 GB", 2048 / ours.megabytes, 1.0),
        _goal("GPT-2 XL, times within 20 seconds", 20 / large.seconds, 1.0),
        _goal("GPT-2 XL, times within 6 GB", 6144 / large.megabytes, 1.0),
    ]
    return rows, goals


def _goal(name: str, ratio: float, goal: float) -> dict[str, object]:
    return {"name": name, "ratio": round(ratio, 2), "goal": goal, "met": ratio >= goal}


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
