"""TransformerLens state dicts beside a ``config.json`` that holds ``HookedTransformerConfig.to_dict()``."""

import math
from dataclasses import replace
from pathlib import Path
from typing import TYPE_CHECKING, Any

from headwater.errors import ModelFileError
from headwater.files.plain import read_json
from headwater.model.config import (
    Attention,
    FeedForward,
    GatedFeedForward,
    LayerNorm,
    LearnedPositions,
    LinearStretch,
    Llama3Stretch,
    ModelConfig,
    NoNorm,
    NoPositions,
    Norm,
    NoStretch,
    Positions,
    PreNorm,
    RMSNorm,
    RotaryPositions,
    Unembedding,
)
from headwater.model.foreign import state_dict
from headwater.model.foreign.expressed import Expressed, only
from headwater.model.foreign.fields import Fields, reading
from headwater.model.foreign.gpt2 import ACTIVATION_NAMES
from headwater.model.foreign.links import Layout, same
from headwater.model.layout import Shape, block_shapes, tensor_shapes
from headwater.model.source import Source

if TYPE_CHECKING:
    from torch import Tensor

ENDINGS = (".pt", ".pth", ".safetensors")

_HARMLESS = [
    # Where the model came from and how it was made.
    "model_name", "from_checkpoint", "checkpoint_index", "checkpoint_label_type", "checkpoint_value", "trust_remote_code",
    "n_params", "seed", "init_mode", "init_weights", "initializer_range", "layer_norm_folding", "uses_rms_norm",
    # Where it runs, and what can be watched while it runs.
    "device", "n_devices", "dtype", "use_attn_result", "use_split_qkv_input", "use_hook_mlp_in", "use_attn_in",
    "use_hook_tokens", "ungroup_grouped_query_attention",
    # Texts.
    "tokenizer_name", "tokenizer_prepends_bos", "default_prepend_bos", "decoder_start_token_id",
    # Numbers of features that must be off, and of encoders.
    "window_size", "attn_types", "rotary_base_local", "train_seq_length", "norm_topk_prob", "tie_word_embeddings",
    "relative_attention_max_distance", "relative_attention_num_buckets",
    "yarn_factor", "yarn_attention_factor", "yarn_beta_fast", "yarn_beta_slow", "yarn_original_max_position_embeddings",
    "yarn_truncate", "yarn_global_attn_only",
]  # fmt: skip

_STRETCH = [
    "rotary_scaling_factor", "NTK_by_parts_factor", "NTK_by_parts_low_freq_factor", "NTK_by_parts_high_freq_factor",
    "NTK_original_ctx_len",
]  # fmt: skip

_MUST_BE = {
    "use_local_attn": False, "scale_attn_by_inverse_layer_idx": False, "post_embedding_ln": False, "load_in_4bit": False,
    "use_normalization_before_and_after": False, "use_qk_norm": False, "use_logn_attn": False, "use_dynamic_ntk_rope": False,
    "use_yarn_rope": False, "use_attention_sinks": False, "attn_scores_soft_cap": -1.0, "output_logits_soft_cap": -1.0,
    # Nothing but null will do.
    "num_experts": None, "experts_per_token": None, "clip_qkv": None, "quantization_method": None,
}  # fmt: skip


def look(path: Path) -> Source:
    """The model in a state dict, or in the folder that holds one, without its numbers."""
    file = _file_in(path) if path.is_dir() else path
    plain = read_json(file.parent / "config.json")
    with reading("config.json"):
        config = read_config(Fields(plain))
    state = state_dict.look(file)
    layout = layout_of(config, grouped=plain.get("n_key_value_heads") is not None)
    names = layout.match(config, state.entries)

    def read() -> "dict[str, Tensor]":
        stored = state.read()
        tensors = state_dict.widened({ours: stored[name] for ours, name in names.items()})
        return with_gate_biases(config, layout.load(config, tensors))

    words = file.parent / "tokenizer.json"
    return Source(
        path=path,
        format="TransformerLens",
        config=config,
        entries=state.entries,
        read=read,
        files=(file.parent / "config.json", *state.files, words),
        words=words if words.exists() else None,
    )


def _file_in(folder: Path) -> Path:
    files = sorted(file for file in folder.iterdir() if file.suffix in ENDINGS)
    if len(files) != 1:
        names = ", ".join(file.name for file in files[:5]) or "none"
        raise ModelFileError(
            f"state dicts in the folder: {names}", f"one that ends in {', '.join(ENDINGS)}", "give the file itself"
        )
    return files[0]


def read_config(fields: Fields) -> ModelConfig:
    """The configuration that a ``HookedTransformerConfig`` describes."""
    fields.ignore(_HARMLESS)
    fields.must_be(**_MUST_BE)
    d_model, layers = fields.whole("d_model"), fields.whole("n_layers")
    vocab = fields.whole("d_vocab")
    if fields.whole("d_vocab_out", default=-1) not in (-1, vocab):
        raise fields.unfit("d_vocab_out", fields.whole("d_vocab_out"), f"d_vocab={vocab}")
    attention, feed_forward = _attention(fields, d_model), _feed_forward(fields, d_model)
    positions = _positions(fields, attention.d_head)
    # The class runs these differently because of their name alone.
    fields.must_not_be("original_architecture", ["OlmoeForCausalLM", "Olmo2ForCausalLM", "Olmo3ForCausalLM"])
    config = ModelConfig(
        vocab=vocab,
        context=fields.whole("n_ctx"),
        d_model=d_model,
        layers=layers,
        attention=attention if layers else None,
        feed_forward=feed_forward if layers else None,
        norm=_norm(fields),
        positions=NoPositions() if isinstance(positions, RotaryPositions) and not layers else positions,
        unembedding=Unembedding(bias=True),
    )
    fields.finish()
    return config


def _attention(fields: Fields, d_model: int) -> Attention:
    d_head, heads = fields.whole("d_head"), fields.whole("n_heads", default=-1)
    if heads == -1 and d_head > 0 and d_model % d_head == 0:
        heads = d_model // d_head
    key_heads = fields.whole("n_key_value_heads", default=heads)
    if key_heads < 1 or heads % key_heads:
        raise fields.unfit("n_key_value_heads", key_heads, f"a divisor of n_heads={heads}")
    direction = fields.word("attention_dir", among=("causal", "bidirectional"), default="causal")
    return Attention(
        heads=heads,
        d_head=d_head,
        group_size=heads // key_heads,
        mask="causal" if direction == "causal" else "full",
        scaled=_is_scaled(fields, d_head),
        input_bias=True,
        output_bias=True,
    )


def _is_scaled(fields: Fields, d_head: int) -> bool:
    """Scores are divided by √d_head or by one; there is no third."""
    divisor = fields.optional_number("attn_scale", nothing=-1.0)
    if not fields.flag("use_attn_scale", default=True):
        return False
    if divisor is None or math.isclose(divisor, abs(d_head) ** 0.5, rel_tol=1e-7):
        return True
    if divisor == 1.0:
        return False
    raise fields.unfit("attn_scale", divisor, "√d_head or one")


def _feed_forward(fields: Fields, d_model: int) -> FeedForward | GatedFeedForward | None:
    is_gated = fields.flag("gated_mlp", default=False)
    is_parallel = fields.flag("parallel_attn_mlp", default=False)
    d_mlp = fields.whole("d_mlp", default=4 * d_model)
    if fields.flag("attn_only", default=False):
        fields.ignore(["act_fn"])
        return None
    return (GatedFeedForward if is_gated else FeedForward)(
        d_mlp=d_mlp,
        activation=fields.activation("act_fn", default="relu"),
        bias=True,
        reads="beside-attention" if is_parallel else "after-attention",
    )


def _norm(fields: Fields) -> Norm:
    eps, final_rms = fields.number("eps", default=1e-5), fields.flag("final_rms", default=False)
    kind = fields.optional_word("normalization_type", among=("LN", "LNPre", "RMS", "RMSPre"), default="LN")
    if kind is None:
        return NoNorm()
    has_gain = not kind.endswith("Pre")
    if kind.startswith("RMS"):
        return PreNorm(norm=RMSNorm(eps=eps, gain=has_gain))
    if final_rms:
        raise fields.unfit("final_rms", final_rms, "one kind of norm for the whole model")
    return PreNorm(norm=LayerNorm(eps=eps, gain=has_gain, bias=has_gain))


def _positions(fields: Fields, d_head: int) -> Positions:
    kinds = ("standard", "shortformer", "rotary", "none")
    match fields.word("positional_embedding_type", among=kinds, default="standard"):
        case "rotary":
            return RotaryPositions(
                dims=fields.whole("rotary_dim", default=d_head),
                base=fields.number("rotary_base", default=10_000.0),
                pairs="adjacent" if fields.flag("rotary_adjacent_pairs", default=False) else "halves",
                stretch=_stretch(fields),
            )
        case "none":
            positions = NoPositions()
        case kind:
            positions = LearnedPositions(into="stream" if kind == "standard" else "queries-and-keys")
    fields.ignore(["rotary_dim", "rotary_base", "rotary_adjacent_pairs", "use_NTK_by_parts_rope", *_STRETCH])
    return positions


def _stretch(fields: Fields) -> NoStretch | LinearStretch | Llama3Stretch:
    fields.ignore(_STRETCH)
    if fields.flag("use_NTK_by_parts_rope", default=False):
        return Llama3Stretch(
            factor=fields.number("NTK_by_parts_factor", default=8.0),
            low_frequency_factor=fields.number("NTK_by_parts_low_freq_factor", default=1.0),
            high_frequency_factor=fields.number("NTK_by_parts_high_freq_factor", default=4.0),
            original_context=fields.whole("NTK_original_ctx_len", default=8192),
        )
    factor = fields.number("rotary_scaling_factor", default=1.0)
    return NoStretch() if factor == 1.0 else LinearStretch(factor=factor)


def layout_of(config: ModelConfig, *, grouped: bool) -> Layout:
    """TransformerLens' names are ours, but that it writes ``_W_K`` where keys and values can be shared."""
    model = {name: shape for name, shape in tensor_shapes(config).items() if not name.startswith("blocks.")}
    block = block_shapes(config) if config.layers else {}
    # Its gated layer has no bias before the activation.
    block.pop("mlp.b_gate", None)
    shared = {f"attn.{symbol}": f"attn._{symbol}" for symbol in ("W_K", "W_V", "b_K", "b_V")} if grouped else {}
    return Layout(
        model=tuple(same(name, name, _axes(shape)) for name, shape in model.items()),
        block=tuple(same("blocks.{layer}." + shared.get(name, name), name, _axes(shape)) for name, shape in block.items()),
        buffers=r"blocks\.\d+\.attn\.(mask|IGNORE|rotary_sin|rotary_cos)",
    )


def _axes(shape: Shape) -> str:
    return " ".join(f"axis{number}" for number in range(len(shape)))


def with_gate_biases(config: ModelConfig, tensors: "dict[str, Tensor]") -> "dict[str, Tensor]":
    """The biases of a gated layer, which TransformerLens adds after the product and we before it: only zeros are both."""
    if not isinstance(config.feed_forward, GatedFeedForward):
        return tensors
    for layer in range(config.layers):
        bias = tensors[f"blocks.{layer}.mlp.b_in"]
        if bias.any():
            raise ModelFileError(
                f"blocks.{layer}.mlp.b_in is not zero", "a gated layer without a bias after the product", "convert the model"
            )
        tensors[f"blocks.{layer}.mlp.b_gate"] = bias.new_zeros(bias.shape)
    return tensors


def express(config: ModelConfig) -> Expressed:
    """A configuration as the arguments of a ``HookedTransformerConfig``."""
    norm = only("norm", config.norm, NoNorm, PreNorm)
    attention = config.attention or Attention(heads=1, d_head=config.d_model)
    positions = config.positions
    if not isinstance(positions, RotaryPositions):
        positions = LearnedPositions(into="stream" if isinstance(positions, NoPositions) else positions.into)
    nearest = replace(
        config,
        attention=replace(attention, input_bias=True, output_bias=True) if config.attention else None,
        feed_forward=replace(config.feed_forward, bias=True) if config.feed_forward else None,
        norm=norm if isinstance(norm, NoNorm) else PreNorm(norm=_whole_norm(norm.norm)),
        positions=positions,
        unembedding=Unembedding(bias=True),
    )
    plain = {
        "d_model": config.d_model,
        "n_layers": config.layers,
        "n_ctx": config.context,
        "d_vocab": config.vocab,
        "d_head": attention.d_head,
        "n_heads": attention.heads,
        "n_key_value_heads": attention.key_heads if attention.group_size > 1 else None,
        "attention_dir": "causal" if attention.mask == "causal" else "bidirectional",
        "use_attn_scale": attention.scaled,
    }
    return Expressed(
        nearest, plain | _write_feed_forward(config) | _write_norm(nearest.norm) | _write_positions(nearest.positions)
    )


def _whole_norm(norm: LayerNorm | RMSNorm) -> LayerNorm | RMSNorm:
    """Gain and bias come together or not at all."""
    return replace(norm, gain=True, bias=True) if isinstance(norm, LayerNorm) and (norm.gain or norm.bias) else norm


def _write_feed_forward(config: ModelConfig) -> dict[str, Any]:
    layer = config.feed_forward
    if layer is None:
        return {"attn_only": True}
    return {
        "attn_only": False,
        "d_mlp": layer.d_mlp,
        "act_fn": ACTIVATION_NAMES[layer.activation],
        "gated_mlp": isinstance(layer, GatedFeedForward),
        "parallel_attn_mlp": layer.reads == "beside-attention",
    }


def _write_norm(norm: Norm) -> dict[str, Any]:
    match norm:
        case PreNorm(norm=inner):
            kind = "LN" if isinstance(inner, LayerNorm) else "RMS"
            return {"normalization_type": kind if inner.gain else f"{kind}Pre", "eps": inner.eps}
        case _:
            return {"normalization_type": None}


def _write_positions(positions: Positions) -> dict[str, Any]:
    match positions:
        case LearnedPositions(into=into):
            return {"positional_embedding_type": "standard" if into == "stream" else "shortformer"}
        case RotaryPositions(dims=dims, base=base, pairs=pairs, stretch=stretch):
            kind = {"positional_embedding_type": "rotary", "rotary_dim": dims, "rotary_base": base}
            return kind | {"rotary_adjacent_pairs": pairs == "adjacent"} | _write_stretch(stretch)
        case _:
            raise AssertionError("all other positions are written as learned ones")


def _write_stretch(stretch: NoStretch | LinearStretch | Llama3Stretch) -> dict[str, Any]:
    match stretch:
        case NoStretch():
            return {}
        case LinearStretch(factor=factor):
            return {"rotary_scaling_factor": factor}
        case Llama3Stretch():
            return {
                "use_NTK_by_parts_rope": True,
                "NTK_by_parts_factor": stretch.factor,
                "NTK_by_parts_low_freq_factor": stretch.low_frequency_factor,
                "NTK_by_parts_high_freq_factor": stretch.high_frequency_factor,
                "NTK_original_ctx_len": stretch.original_context,
            }
