"""What TransformerLens calls things, so that whoever tries its words here is told ours."""

import re

from headwater.model.config import GatedFeedForward, ModelConfig

_MODEL = {
    "hook_embed": "embed",
    "hook_pos_embed": "positions",
    "ln_final.hook_scale": "final.scale",
    "ln_final.hook_normalized": "final",
}
_BLOCK = {
    "hook_resid_pre": "in", "hook_resid_mid": "middle", "hook_resid_post": "out",
    "hook_attn_out": "attention", "hook_mlp_out": "feed_forward",
    "attn.hook_q": "queries", "attn.hook_rot_q": "queries", "attn.hook_k": "keys", "attn.hook_rot_k": "keys",
    "attn.hook_v": "values", "attn.hook_attn_scores": "scores", "attn.hook_pattern": "pattern",
    "attn.hook_z": "mixed", "attn.hook_result": "head_writes",
    "mlp.hook_pre": "hidden", "mlp.hook_pre_linear": "hidden", "mlp.hook_post": "neurons",
    "ln1.hook_scale": "norm_1.scale", "ln1.hook_normalized": "attention_input",
    "ln2.hook_scale": "norm_2.scale", "ln2.hook_normalized": "feed_forward_input",
}  # fmt: skip

MODEL_WORDS = {
    "run_with_cache": "model.record(text)",
    "run_with_hooks": "model.record(text, tap=…)",
    "to_tokens": "model.tokens(text)",
    "to_string": "model.tokenizer.decode(ids)",
    "to_str_tokens": "[model.tokenizer.display(token) for token in model.tokens(text)[0].tolist()]",
    "to_single_token": "run.find(text)",
    "from_pretrained": "headwater.load(path)",
    "cfg": "model.config",
    "blocks": "model.weights.blocks",
    "OV": "model.ov(head)",
    "QK": "model.qk(head)",
    **{symbol: f"model.weights.{symbol}" for symbol in ("W_E", "W_U", "W_pos", "b_U")},
    **{
        symbol: f"model.weights.blocks[layer].{part}.{symbol}"
        for part, symbols in {
            "attention": ("W_Q", "W_K", "W_V", "W_O", "b_Q", "b_K", "b_V", "b_O"),
            "feed_forward": ("W_in", "W_out", "W_gate", "b_in", "b_out"),
        }.items()
        for symbol in symbols
    },
}
"""What a ``HookedTransformer`` has, and where it is here."""


def site_of(name: object, config: ModelConfig) -> str | None:
    """Our site for ``blocks.0.attn.hook_z``, or for the short ``("z", 0)``; None where it is none of TransformerLens' names.

    >>> config = ModelConfig(vocab=5, context=4, d_model=4, layers=0)
    >>> site_of("blocks.3.attn.hook_z", config), site_of(("resid_post", 3), config), site_of("L0.out", config)
    ('L3.mixed', 'L3.out', None)
    """
    block = _BLOCK
    if isinstance(config.feed_forward, GatedFeedForward):
        # Such a layer has two readings, and the one before its activation is the gate's.
        block = _BLOCK | {"mlp.hook_pre": "gate_input"}
    match name:
        case str():
            inside = re.fullmatch(r"blocks\.(\d+|\*)\.(.+)", name, re.ASCII)
            layer, hook = (inside[1], inside[2]) if inside else ("", "")
            return f"L{layer}.{block[hook]}" if hook in block else _MODEL.get(name)
        case (str() as short, int() as layer) | (str() as short, int() as layer, str()):
            found = next((site for hook, site in block.items() if hook.endswith(f"hook_{short}")), None)
            return found and f"L{layer % config.layers if config.layers else layer}.{found}"
        case _:
            return None
