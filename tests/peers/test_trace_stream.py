"""The logit lens beside TransformerLens': its accumulated stream, through its last norm, calculated anew, and its unembedding."""

import json

import pytest
import torch
from safetensors.torch import save_file

from headwater.model.record import record
from headwater.model.sources import load_weights, look
from headwater.trace.view.stream import stream
from peers.precision import doubled, furthest, randomise
from strategies import random_tokens

pytestmark = [pytest.mark.peers, pytest.mark.filterwarnings("ignore")]

SIZES = {"d_model": 24, "d_head": 8, "n_heads": 3, "n_layers": 3, "n_ctx": 16, "d_vocab": 37, "d_mlp": 40, "device": "cpu"}
CASES = {
    "attention only": {**SIZES, "attn_only": True, "normalization_type": None},
    "attention only, LN": {**SIZES, "attn_only": True, "normalization_type": "LN"},
    "LN, relu": {**SIZES, "act_fn": "relu"},
    "RMS, gated, rotary": {
        **SIZES, "act_fn": "silu", "normalization_type": "RMS", "gated_mlp": True, "final_rms": True,
        "positional_embedding_type": "rotary",
    },
}  # fmt: skip


@pytest.mark.parametrize("case", CASES)
def test_every_stage_of_the_stream_says_what_the_accumulated_stream_says(tmp_path, case):
    import transformer_lens

    with doubled():
        config = transformer_lens.HookedTransformerConfig(**CASES[case], dtype=torch.float64)
        model = randomise(transformer_lens.HookedTransformer(config))
        for block in model.blocks if config.gated_mlp else []:
            block.mlp.b_in.data.zero_()
        (tmp_path / "config.json").write_text(json.dumps(model.cfg.to_dict(), default=str))
        save_file({name: tensor.contiguous() for name, tensor in model.state_dict().items()}, tmp_path / "model.safetensors")
        weights = load_weights(look(tmp_path / "model.safetensors"))
        tokens = random_tokens(weights.config, seed=0, batch=1)
        with torch.no_grad():
            _, cache = model.run_with_cache(tokens)
            stacked, labels = cache.accumulated_resid(layer=-1, incl_mid=not config.attn_only, return_labels=True)
            normed = model.ln_final(stacked) if config.normalization_type else stacked
            theirs = (normed @ model.W_U + model.b_U).softmax(dim=-1)[:, 0]
    view = stream(record(weights, tokens), top=37)
    assert len(labels) == (1 if config.attn_only else 2) * 3 + 1
    for label, chances in zip(labels, theirs, strict=True):
        layer, _, kind = label.partition("_")
        name = f"L{config.n_layers - 1}.h" if layer == "final" else f"L{layer}.{'t0' if kind == 'pre' else 't3'}"
        said = view.lenses[view.index(name)]
        assert furthest(said.chances, chances.gather(-1, said.ids)) < 1e-9, label
