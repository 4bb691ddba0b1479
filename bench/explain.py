"""One logit explained at GPT-2-small shape after 1,024 tokens, from the text on, beside one plain forward pass and beside TransformerLens."""

import math

import torch

from contest import Result, contest
from forward import LENGTH, _goal, _weights, tokens

TITLE = f"Explaining one logit: GPT-2-small shape, random weights, after {LENGTH:,} tokens, float32, from the text on"

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
PEERS = ("TransformerLens, components", "TransformerLens, components, told which sites to cache")


def table(rounds: int) -> tuple[list[list[str]], list[dict[str, object]]]:
    """Rows for people, and the goals with whether they are met."""
    results = contest(JOBS, rounds)
    ours, plain = results["headwater, components"], results["headwater, one forward pass, all logits"]
    for peer in PEERS:
        _check_same(ours, results[peer])
    rows = [["", "seconds", "MB over the model", "Σ |heads' parts|"]]
    rows += [
        [name, f"{each.seconds:.2f}", f"{each.megabytes:,.0f}", "" if each.answer is None else f"{each.answer:.4f}"]
        for name, each in results.items()
    ]
    goals = [
        _at_most("components, times one forward pass, seconds", ours, plain, "seconds", 1.3),
        _at_most("components, times one forward pass, memory", ours, plain, "megabytes", 2.0),
        _goal("components, times faster than TransformerLens", results[PEERS[0]], ours, "seconds", 3.0),
        _goal("components, times smaller than TransformerLens", results[PEERS[0]], ours, "megabytes", 3.0),
        _goal("components, times faster than TransformerLens told which sites to cache", results[PEERS[1]], ours, "seconds", 0.0),
        _goal("components, times smaller than TransformerLens told which sites to cache", results[PEERS[1]], ours, "megabytes", 0.0),
        _at_most("every head's sources, times one forward pass, seconds", results["headwater, every head's sources"], plain, "seconds", 0.0),
        _at_most("totals of all tokens, times one forward pass, seconds", results["headwater, totals of all tokens"], plain, "seconds", 0.0),
        _at_most("totals by order, times one forward pass, seconds", results["headwater, totals of all tokens, heads, layers and orders"], plain, "seconds", 0.0),
    ]  # fmt: skip
    return rows, goals


def _at_most(name: str, ours: Result, plain: Result, what: str, goal: float) -> dict[str, object]:
    """A ratio that should be small."""
    ratio = getattr(ours, what) / getattr(plain, what)
    return {"name": name, "ratio": round(ratio, 2), "goal": f"at most {goal}" if goal else 0.0, "met": ratio <= goal}


def _check_same(ours: Result, peer: Result) -> None:
    """A peer that says something else was asked something else."""
    assert ours.answer is not None
    assert peer.answer is not None
    if not math.isclose(ours.answer, peer.answer, rel_tol=1e-4):
        raise RuntimeError(f"the heads' parts come to {ours.answer} here and to {peer.answer} there")


def _model():
    from headwater.api import Model

    return Model(_weights())


def components():
    """Who wrote the likeliest token's logit: embedding, position, 144 heads, 12 feed-forward layers, biases."""
    model, text = _model(), tokens()

    def run():
        why = model.record(text).explain().split(most=None)
        return math.fsum(abs(part.value) for part in why.parts if part.kind == "head")

    return run


def sources():
    """What every head took from every position: 144 × 1,024 parts."""
    model, text = _model(), tokens()
    return lambda: model.record(text).explain().split("source", most=None)


def by_token():
    """What every token comes to, through everything downstream: one sweep."""
    model, text = _model(), tokens()
    return lambda: model.record(text).explain().split("token", most=None)


def totals():
    """The same by orders, which a sweep carries apart, and every head and layer."""
    model, text = _model(), tokens()
    return lambda: model.record(text).totals()


def _peer():
    """TransformerLens with our weights."""
    from transformer_lens import HookedTransformer, HookedTransformerConfig

    from headwater.model.export import to_transformer_lens

    config, tensors = to_transformer_lens(_weights())
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
