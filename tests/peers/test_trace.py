"""What each component wrote to a logit, beside TransformerLens' stacks and ``logit_attrs``; the certificate in float32 at GPT-2-small shape."""

import json

import pytest
import torch
from safetensors.torch import save_file

from headwater.model.presets import named
from headwater.model.record import record
from headwater.model.sources import load_weights, look
from headwater.model.weights import Weights
from headwater.trace.check import check
from headwater.trace.run import Run
from peers.precision import doubled, furthest, randomise
from strategies import random_tokens

pytestmark = [pytest.mark.peers, pytest.mark.filterwarnings("ignore")]

SIZES = {"d_model": 24, "d_head": 8, "n_heads": 3, "n_layers": 3, "n_ctx": 16, "d_vocab": 37, "d_mlp": 40, "device": "cpu"}
CASES = {
    "attention only": {**SIZES, "attn_only": True, "normalization_type": None},
    "attention only, LN": {**SIZES, "attn_only": True, "normalization_type": "LN"},
    "no norm, gelu": {**SIZES, "act_fn": "gelu", "normalization_type": None},
    "LN, relu": {**SIZES, "act_fn": "relu"},
    "LN, parallel, rotary": {**SIZES, "act_fn": "gelu", "parallel_attn_mlp": True, "positional_embedding_type": "rotary"},
    "grouped": {**SIZES, "n_heads": 6, "n_key_value_heads": 2, "act_fn": "relu"},
    "RMS, gated, rotary": {
        **SIZES, "act_fn": "silu", "normalization_type": "RMS", "gated_mlp": True, "final_rms": True,
        "positional_embedding_type": "rotary",
    },
}  # fmt: skip


def build(lens, case):
    """Random weights; the last norm's gain is 1 and its bias 0, since a stack goes past both: they are meant to be folded away."""
    model = randomise(lens.HookedTransformer(lens.HookedTransformerConfig(**CASES[case], dtype=torch.float64)), spread=0.3)
    for block in model.blocks if model.cfg.gated_mlp else []:
        block.mlp.b_in.data.zero_()
    for name, parameter in model.named_parameters():
        if name.startswith("ln_final"):
            parameter.data.fill_(1.0 if name.endswith("w") else 0.0)
    return model


def loaded(model, folder):
    (folder / "config.json").write_text(json.dumps(model.cfg.to_dict(), default=str))
    save_file({name: tensor.contiguous() for name, tensor in model.state_dict().items()}, folder / "model.safetensors")
    return load_weights(look(folder / "model.safetensors"))


def attributed(cache, token, other):
    """Every part of a difference of logits at the last position, by its label."""
    stack, labels = cache.get_full_resid_decomposition(expand_neurons=False, pos_slice=-1, return_labels=True)
    tokens = (torch.tensor(token), torch.tensor(other))
    return dict(zip(labels, cache.logit_attrs(stack, *tokens, pos_slice=-1)[:, 0].tolist(), strict=True))


def in_their_words(parts):
    """Our parts under their labels: one row for all ``b_O``, a feed-forward layer's ``b_out`` in its write, no row after the last norm."""
    told = {"bias": 0.0}
    for part in parts:
        name = part.facts["name"]
        layer, _, kind = name.removeprefix("L").partition(".")
        label = {"positions": "pos_embed", "b_U": "unembedding", "final.bias": "unembedding"}.get(name, name)
        label = {"feed_forward": f"{layer}_mlp_out", "b_out": f"{layer}_mlp_out", "b_O": "bias"}.get(kind, label)
        told[label] = told.get(label, 0.0) + part.value
    return told, told.pop("unembedding", 0.0)


@pytest.mark.parametrize("case", CASES)
def test_every_part_is_what_their_stack_says(tmp_path, case):
    import transformer_lens

    with doubled():
        model = build(transformer_lens, case)
        weights = loaded(model, tmp_path)
        tokens = random_tokens(weights.config, seed=0, batch=1)
        with torch.no_grad():
            logits, cache = model.run_with_cache(tokens)
            theirs = attributed(cache, 3, 8)
            heads = cache.stack_head_results(pos_slice=-1)[:, 0]
    run = Run.of(record(weights, tokens))
    why = run.explain(token=3, against=8).split(most=None)
    ours, after = in_their_words(why.parts)
    assert ours.keys() == theirs.keys()
    for name, value in theirs.items():
        assert ours[name] == pytest.approx(value, rel=1e-9, abs=1e-9), name
    assert float(logits[0, -1, 3] - logits[0, -1, 8]) == pytest.approx(sum(theirs.values()) + after, rel=1e-9)
    written = torch.cat([run[f"L{layer}.head_writes"][0, :, -1] for layer in range(weights.config.layers)])
    assert furthest(written, heads) < 1e-9


def test_in_float32_at_the_shape_of_gpt2_small_the_certificate_over_everything_is_below_a_thousandth():
    """TransformerLens' own test asks a hundredth, of two tokens at the last position."""
    weights = Weights.draw(named("gpt2-small"), seed=0)
    tokens = random_tokens(weights.config, seed=0, batch=1, length=32)
    found = check(Run.of(record(weights, tokens)), samples=4)
    assert found.positions == 32
    assert found.vocab == 50_257
    assert found.certificate < 1e-3, found.plain()
    assert found.ok, found.plain()
