# pyright: basic, reportMissingImports=false
# Peers carry no types.
"""One forward pass at GPT-2-small shape over 1,024 tokens, watched and unwatched, beside transformers and TransformerLens."""

import torch

from headwater.bench.contest import absent, contest
from headwater.bench.goals import Table, at_least, shown
from headwater.bench.phases import operations

LENGTH = 1024
TITLE = f"Forward pass: GPT-2-small shape, random weights, {LENGTH:,} tokens, float32, all logits"
ROUNDS = 4

JOBS = {
    "headwater": "forward:headwater",
    "transformers (SDPA)": "forward:transformers_sdpa",
    "TransformerLens": "forward:transformer_lens",
    "headwater, recorded": "forward:headwater_recorded",
    "headwater, recorded, every site TransformerLens caches": "forward:headwater_recorded_like_peer",
    "TransformerLens, run_with_cache": "forward:transformer_lens_recorded",
    "the weights' matrix products alone": "forward:products_alone",
}


PLAIN, SDPA, RECORDED, LIKE_PEER, CACHED, FLOOR = (
    "headwater",
    "transformers (SDPA)",
    "headwater, recorded",
    "headwater, recorded, every site TransformerLens caches",
    "TransformerLens, run_with_cache",
    "the weights' matrix products alone",
)


SAME_PRODUCTS = (
    "TransformerLens does the same products of matrices, and those alone leave the limit. Of what is beyond them we save most; attention"
    " and activations remain, which nobody saves."
)


def table(rounds: int) -> Table:
    results = contest(JOBS, rounds)
    rows = [["", "seconds", "MB over the model"]]
    rows += [[name, shown(result.seconds), shown(result.megabytes, 0)] for name, result in results.items()]
    plain, sdpa, recorded, like_peer, cached, floor = (
        results[name] for name in (PLAIN, SDPA, RECORDED, LIKE_PEER, CACHED, FLOOR)
    )
    goals = [
        at_least(
            "unrecorded, times as fast as transformers with SDPA", sdpa.seconds / plain.seconds, 1.0,
            limit=sdpa.seconds / floor.seconds, why="forward:why",
        ),
        at_least(
            "recorded, times faster than run_with_cache", cached.seconds / recorded.seconds, 2.0,
            limit=cached.seconds / floor.seconds, why="forward:why_recorded", because=SAME_PRODUCTS,
        ),
        at_least("recorded, times smaller than run_with_cache", cached.megabytes / recorded.megabytes, 2.0),
        at_least("the same sites kept, times faster than run_with_cache", cached.seconds / like_peer.seconds, 1.0),
        at_least("the same sites kept, times smaller than run_with_cache", cached.megabytes / like_peer.megabytes, 1.0),
    ]  # fmt: skip
    return Table(rows, goals, absent(results))


def why():
    return operations(headwater())


def why_recorded():
    return operations(headwater_recorded())


def tokens():
    return torch.randint(0, 50_257, (1, LENGTH), generator=torch.Generator().manual_seed(0))


def drawn():
    from headwater.model.presets import named
    from headwater.model.weights import Weights

    return Weights.draw(named("gpt2-small"), seed=0)


def products_alone():
    """The products with weights that every implementation must do: nothing of attention's own, no norm, no activation."""
    weights, x = drawn(), torch.randn(LENGTH, 768)
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
            assert block.feed_forward is not None
            x @ block.feed_forward.W_in
            wide @ block.feed_forward.W_out
        return x @ weights.W_U

    return run


def headwater():
    from headwater.model.forward import forward

    weights, text = drawn(), tokens()

    @torch.inference_mode()
    def run():
        return forward(weights, text)

    return run


def headwater_recorded():
    from headwater.model.record import record

    weights, text = drawn(), tokens()
    return lambda: record(weights, text).logits


def headwater_recorded_like_peer():
    from headwater.model.record import record

    weights, text = drawn(), tokens()
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

    model = GPT2LMHeadModel(GPT2Config(attn_implementation="sdpa", use_cache=False)).eval()  # pyright: ignore[reportCallIssue]
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
