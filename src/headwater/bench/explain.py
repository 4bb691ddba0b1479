# pyright: basic, reportMissingImports=false
# Peers carry no types.
"""One logit explained at GPT-2-small shape after 1,024 tokens, from the text on, beside one plain forward pass and beside TransformerLens."""

import math

import torch

from headwater.bench.contest import absent, close, contest
from headwater.bench.forward import LENGTH, drawn, tokens
from headwater.bench.goals import Table, at_least, at_most, beside, shown
from headwater.bench.phases import operations

TITLE = f"Explaining one logit: GPT-2-small shape, random weights, after {LENGTH:,} tokens, float32, from the text on"
ROUNDS = 2

JOBS = {
    "headwater, one forward pass, all logits": "forward:headwater",
    "headwater, components": "explain:components",
    "headwater, every head's sources": "explain:sources",
    "headwater, totals of all tokens": "explain:by_token",
    "headwater, totals of all tokens, heads, layers and orders": "explain:totals",
    "TransformerLens, one forward pass, all logits": "explain:transformer_lens_forward",
    "TransformerLens, components": "explain:transformer_lens",
    "TransformerLens, components, told which sites to cache": "explain:transformer_lens_told",
}
FORWARD, OURS, SOURCES, TOKENS, TOTALS, _, PEER, TOLD = JOBS


def table(rounds: int) -> Table:
    results = contest(JOBS, rounds)
    ours, plain, peer, told = (results[name] for name in (OURS, FORWARD, PEER, TOLD))
    close("the heads' parts", (ours, peer, told), 1e-4)
    rows = [["", "seconds", "MB over the model", "Σ |heads' parts|"]]
    rows += [
        [name, shown(each.seconds), shown(each.megabytes, 0), shown(each.answer, 4)] for name, each in results.items()
    ]  # fmt: skip
    faster, smaller = peer.seconds / ours.seconds, peer.megabytes / ours.megabytes
    goals = [
        at_most("components, times one forward pass, seconds", ours.seconds / plain.seconds, 1.3, why="explain:why"),
        at_most("components, times one forward pass, memory", ours.megabytes / plain.megabytes, 2.0),
        at_least("components, times faster than TransformerLens", faster, 3.0, why="explain:why"),
        at_least("components, times smaller than TransformerLens", smaller, 3.0),
        beside("components, times faster than TransformerLens told which sites to cache", told.seconds / ours.seconds),
        beside("components, times smaller than TransformerLens told which sites to cache", told.megabytes / ours.megabytes),
        beside("every head's sources, times one forward pass, seconds", results[SOURCES].seconds / plain.seconds),
        beside("totals of all tokens, times one forward pass, seconds", results[TOKENS].seconds / plain.seconds),
        beside("totals by order, times one forward pass, seconds", results[TOTALS].seconds / plain.seconds),
    ]
    return Table(rows, goals, absent(results))


def why():
    return operations(components())


def model():
    from headwater.api import Model

    return Model(drawn())


def components():
    """Who wrote the likeliest token's logit: embedding, position, 144 heads, 12 feed-forward layers, biases."""
    loaded, text = model(), tokens()

    def run():
        why = loaded.record(text).explain().split(most=None)
        return math.fsum(abs(part.value) for part in why.parts if part.kind == "head")

    return run


def sources():
    """What every head took from every position: 144 × 1,024 parts."""
    loaded, text = model(), tokens()
    return lambda: loaded.record(text).explain().split("source", most=None)


def by_token():
    """What every token comes to, through everything downstream: one sweep."""
    loaded, text = model(), tokens()
    return lambda: loaded.record(text).explain().split("token", most=None)


def totals():
    """The same by orders, which a sweep carries apart, and every head and layer."""
    loaded, text = model(), tokens()
    return lambda: loaded.record(text).totals()


def _peer():
    """TransformerLens with our weights."""
    from transformer_lens import HookedTransformer, HookedTransformerConfig

    from headwater.model.export import to_transformer_lens

    config, tensors = to_transformer_lens(drawn())
    model = HookedTransformer(HookedTransformerConfig(**{**config, "device": "cpu"})).eval()
    _, unexpected = model.load_state_dict(tensors, strict=False)
    assert not unexpected
    return model


def transformer_lens_forward():
    model, text = _peer(), tokens()

    @torch.inference_mode()
    def run():
        return model(text, return_type="logits")

    return run


def transformer_lens():
    return _attributed(_peer(), None)


def transformer_lens_told():
    wanted = ("hook_z", "hook_mlp_out", "hook_embed", "hook_pos_embed", "hook_scale")
    return _attributed(_peer(), lambda name: name.endswith(wanted))


def _attributed(model, wanted):
    """The same components, as its documentation has it: the stack of all that was written, each part's way to the logit."""
    text = tokens()

    @torch.inference_mode()
    def run():
        logits, cache = model.run_with_cache(text, names_filter=wanted)
        token = logits[0, -1].argmax()
        stack, labels = cache.get_full_resid_decomposition(expand_neurons=False, pos_slice=-1, return_labels=True)
        parts = cache.logit_attrs(stack, token, pos_slice=-1)[:, 0].tolist()
        return math.fsum(abs(part) for label, part in zip(labels, parts, strict=True) if "H" in label)

    return run
