"""One forward pass at GPT-2-small shape over 1,024 tokens, watched and unwatched, beside transformers and TransformerLens."""

import torch

from contest import Result, contest

LENGTH = 1024
TITLE = f"Forward pass: GPT-2-small shape, random weights, {LENGTH:,} tokens, float32, all logits"

JOBS = {
    "headwater": "forward:headwater",
    "transformers (SDPA)": "forward:transformers_sdpa",
    "TransformerLens": "forward:transformer_lens",
    "headwater, recorded": "forward:headwater_recorded",
    "headwater, recorded, every site TransformerLens caches": "forward:headwater_recorded_like_peer",
    "TransformerLens, run_with_cache": "forward:transformer_lens_recorded",
    "the weights' matrix products alone": "forward:products_alone",
}


def table(rounds: int) -> tuple[list[list[str]], list[dict[str, object]]]:
    """Rows for people, and the goals with whether they are met."""
    results = contest(JOBS, rounds)
    rows = [["", "seconds", "MB over the model"]]
    rows += [[name, f"{result.seconds:.2f}", f"{result.megabytes:,.0f}"] for name, result in results.items()]
    peer, floor = results["TransformerLens, run_with_cache"], results["the weights' matrix products alone"]
    goals = [
        _goal("what no implementation can pass: run_with_cache over the products alone", peer, floor, "seconds", 0.0),
        _goal("unrecorded no slower than transformers with SDPA", results["transformers (SDPA)"], results["headwater"], "seconds", 1.0),
        _goal("recorded, times faster than run_with_cache", peer, results["headwater, recorded"], "seconds", 2.0),
        _goal("recorded, times smaller than run_with_cache", peer, results["headwater, recorded"], "megabytes", 2.0),
        _goal("the same sites kept, times faster than run_with_cache", peer, results["headwater, recorded, every site TransformerLens caches"], "seconds", 1.0),
        _goal("the same sites kept, times smaller than run_with_cache", peer, results["headwater, recorded, every site TransformerLens caches"], "megabytes", 1.0),
    ]  # fmt: skip
    return rows, goals


def _goal(name: str, peer: Result, ours: Result, what: str, goal: float) -> dict[str, object]:
    ratio = getattr(peer, what) / getattr(ours, what)
    return {"name": name, "ratio": round(ratio, 2), "goal": goal, "met": ratio >= goal}


def tokens():
    return torch.randint(0, 50_257, (1, LENGTH), generator=torch.Generator().manual_seed(0))


def _weights():
    from headwater.model.presets import named
    from headwater.model.weights import Weights

    return Weights.draw(named("gpt2-small"), seed=0)


def products_alone():
    """The products with weights that every implementation must do: nothing of attention's own, no norm, no activation."""
    weights, x = _weights(), torch.randn(LENGTH, 768)
    wide = torch.randn(LENGTH, 3072)
    square = [
        w.transpose(0, 1).reshape(768, 768) for b in weights.blocks for w in (b.attention.W_Q, b.attention.W_K, b.attention.W_V)
    ]

    @torch.inference_mode()
    def run():
        for W in square:
            x @ W
        for block in weights.blocks:
            x @ block.attention.W_O.reshape(768, 768)
            x @ block.feed_forward.W_in
            wide @ block.feed_forward.W_out
        return x @ weights.W_U

    return run


def headwater():
    from headwater.model.forward import forward

    weights, text = _weights(), tokens()

    @torch.inference_mode()
    def run():
        return forward(weights, text)

    return run


def headwater_recorded():
    from headwater.model.record import record

    weights, text = _weights(), tokens()
    return lambda: record(weights, text).logits


def headwater_recorded_like_peer():
    from headwater.model.record import record

    weights, text = _weights(), tokens()
    # What run_with_cache keeps: all but each head's write, which it makes on demand, and the gates, which it has not.
    sites = ["embed", "positions", "*.scale", "*_input", "final"]
    sites += [
        f"L*.{site}"
        for site in [
            "in",
            "queries",
            "keys",
            "values",
            "scores",
            "pattern",
            "mixed",
            "attention",
            "middle",
            "hidden",
            "neurons",
            "feed_forward",
            "out",
        ]
    ]
    return lambda: record(weights, text, sites).logits


def transformers_sdpa():
    from transformers import GPT2Config, GPT2LMHeadModel

    model = GPT2LMHeadModel(GPT2Config(attn_implementation="sdpa", use_cache=False)).eval()
    text = tokens()

    @torch.inference_mode()
    def run():
        return model(text, use_cache=False).logits

    return run


def _peer():
    from transformer_lens import HookedTransformer, HookedTransformerConfig

    config = HookedTransformerConfig(
        n_layers=12, d_model=768, n_ctx=1024, d_head=64, n_heads=12, d_mlp=3072, d_vocab=50_257, act_fn="gelu_new",
        normalization_type="LN", device="cpu", seed=0,
    )  # fmt: skip
    return HookedTransformer(config).eval()


def transformer_lens():
    model, text = _peer(), tokens()

    @torch.inference_mode()
    def run():
        return model(text, return_type="logits")

    return run


def transformer_lens_recorded():
    model, text = _peer(), tokens()

    @torch.inference_mode()
    def run():
        return model.run_with_cache(text)

    return run
