"""``LlamaForCausalLM`` and its close kin ``MistralForCausalLM`` and ``Qwen2ForCausalLM``."""

from dataclasses import replace

from headwater.model.config import Attention, GatedFeedForward, ModelConfig, PreNorm, RMSNorm, RotaryPositions, Unembedding
from headwater.model.foreign.expressed import Expressed, need, only
from headwater.model.foreign.fields import Fields
from headwater.model.foreign.gpt2 import ACTIVATION_NAMES
from headwater.model.foreign.links import Layout, Link, matrix, same
from headwater.model.foreign.rotary import read_rotary, write_scaling

LAYOUT = Layout(
    model=(
        same("embed_tokens.weight", "embed.W_E", "vocab d_model"),
        same("norm.weight", "ln_final.w"),
        matrix("lm_head.weight", "unembed.W_U"),
    ),
    block=(
        same("layers.{layer}.input_layernorm.weight", "ln1.w"),
        Link("layers.{layer}.self_attn.q_proj.weight", ("attn.W_Q",), "(head d_head) d_model", "head d_model d_head"),
        Link("layers.{layer}.self_attn.q_proj.bias", ("attn.b_Q",), "(head d_head)", "head d_head"),
        Link("layers.{layer}.self_attn.k_proj.weight", ("attn.W_K",), "(head d_head) d_model", "head d_model d_head"),
        Link("layers.{layer}.self_attn.k_proj.bias", ("attn.b_K",), "(head d_head)", "head d_head"),
        Link("layers.{layer}.self_attn.v_proj.weight", ("attn.W_V",), "(head d_head) d_model", "head d_model d_head"),
        Link("layers.{layer}.self_attn.v_proj.bias", ("attn.b_V",), "(head d_head)", "head d_head"),
        Link("layers.{layer}.self_attn.o_proj.weight", ("attn.W_O",), "d_model (head d_head)", "head d_head d_model"),
        same("layers.{layer}.self_attn.o_proj.bias", "attn.b_O"),
        same("layers.{layer}.post_attention_layernorm.weight", "ln2.w"),
        matrix("layers.{layer}.mlp.gate_proj.weight", "mlp.W_gate"),
        same("layers.{layer}.mlp.gate_proj.bias", "mlp.b_gate"),
        matrix("layers.{layer}.mlp.up_proj.weight", "mlp.W_in"),
        same("layers.{layer}.mlp.up_proj.bias", "mlp.b_in"),
        matrix("layers.{layer}.mlp.down_proj.weight", "mlp.W_out"),
        same("layers.{layer}.mlp.down_proj.bias", "mlp.b_out"),
    ),
    base="model.",
    unembedding="lm_head.weight",
    buffers=r"layers\.\d+\.self_attn\.rotary_emb\.inv_freq",
)


def read_llama(fields: Fields) -> ModelConfig:
    """The configuration that ``LlamaConfig`` describes."""
    fields.ignore(["is_llama_config"])
    fields.must_be(model_type="llama", pretraining_tp=1, rope_interleaved=False)
    d_model, heads = _width_and_heads(fields)
    bias = fields.flag("attention_bias", default=False)
    attention = Attention(
        heads=heads,
        d_head=fields.whole("head_dim", default=d_model // heads),
        group_size=_group_size(fields, heads, fields.optional_whole("num_key_value_heads")),
        input_bias=bias,
        output_bias=bias,
    )
    context = fields.whole("max_position_embeddings", default=2048)
    return _config(
        fields,
        attention,
        context=context,
        vocab=fields.whole("vocab_size", default=32000),
        feed_forward=GatedFeedForward(
            d_mlp=fields.whole("intermediate_size", default=11008),
            activation=fields.activation("hidden_act", default="silu"),
            bias=fields.flag("mlp_bias", default=False),
        ),
    )


def read_mistral(fields: Fields) -> ModelConfig:
    """The configuration that ``MistralConfig`` describes.

    A sliding window changes nothing for a text that fits into it, so it bounds the context.
    """
    fields.must_be(model_type="mistral")
    d_model, heads = _width_and_heads(fields)
    attention = Attention(
        heads=heads,
        d_head=fields.whole("head_dim", default=d_model // heads),
        group_size=_group_size(fields, heads, fields.optional_whole("num_key_value_heads", default=8)),
    )
    context = fields.whole("max_position_embeddings", default=4096 * 32)
    window = fields.optional_whole("sliding_window", default=4096)
    config = _config(
        fields,
        attention,
        context=context,
        vocab=fields.whole("vocab_size", default=32000),
        feed_forward=GatedFeedForward(
            d_mlp=fields.whole("intermediate_size", default=14336), activation=fields.activation("hidden_act", default="silu")
        ),
    )
    return config if window is None else replace(config, context=min(context, window))


def read_qwen2(fields: Fields) -> ModelConfig:
    """The configuration that ``Qwen2Config`` describes; a sliding window that any layer uses bounds the context."""
    fields.must_be(model_type="qwen2", use_mrope=False)
    d_model, heads = _width_and_heads(fields)
    attention = Attention(
        heads=heads,
        d_head=fields.whole("head_dim", default=d_model // heads),
        group_size=_group_size(fields, heads, fields.optional_whole("num_key_value_heads", default=32)),
        input_bias=True,
    )
    context = fields.whole("max_position_embeddings", default=32768)
    config = _config(
        fields,
        attention,
        context=context,
        vocab=fields.whole("vocab_size", default=151936),
        feed_forward=GatedFeedForward(
            d_mlp=fields.whole("intermediate_size", default=22016), activation=fields.activation("hidden_act", default="silu")
        ),
    )
    window = _window_of_qwen2(fields, config.layers)
    return config if window is None else replace(config, context=min(context, window))


def _window_of_qwen2(fields: Fields, layers: int) -> int | None:
    size = fields.optional_whole("sliding_window", default=4096)
    if not fields.flag("use_sliding_window", default=False):
        size = None
    first = fields.whole("max_window_layers", default=28)
    usual = ["full_attention" if size is None or layer < first else "sliding_attention" for layer in range(layers)]
    kinds = fields.words("layer_types", among=("full_attention", "sliding_attention"), default=usual)
    if len(kinds) != layers:
        raise fields.unfit("layer_types", kinds, f"one for each of {layers} layers")
    if "sliding_attention" not in kinds:
        return None
    if size is None:
        raise fields.unfit("layer_types", kinds, "use_sliding_window and sliding_window with it")
    return size


def _width_and_heads(fields: Fields) -> tuple[int, int]:
    d_model, heads = fields.whole("hidden_size", default=4096), fields.whole("num_attention_heads", default=32)
    if heads < 1 or (d_model % heads and fields.optional_whole("head_dim") is None):
        raise fields.unfit("num_attention_heads", heads, f"a divisor of hidden_size={d_model}")
    return d_model, heads


def _group_size(fields: Fields, heads: int, key_heads: int | None) -> int:
    if key_heads is None:
        return 1
    if key_heads < 1 or heads % key_heads:
        raise fields.unfit("num_key_value_heads", key_heads, f"a divisor of num_attention_heads={heads}")
    return heads // key_heads


def _config(fields: Fields, attention: Attention, *, context: int, vocab: int, feed_forward: GatedFeedForward) -> ModelConfig:
    fields.ignore(["attention_dropout"])
    positions = read_rotary(fields, d_head=attention.d_head, context=context)
    return ModelConfig(
        vocab=vocab,
        context=context,
        d_model=fields.whole("hidden_size", default=4096),
        layers=fields.whole("num_hidden_layers", default=32),
        attention=attention,
        feed_forward=feed_forward,
        norm=PreNorm(norm=RMSNorm(eps=fields.number("rms_norm_eps", default=1e-6))),
        positions=positions,
        unembedding=Unembedding(tied=fields.flag("tie_word_embeddings", default=False)),
    )


def express(config: ModelConfig) -> Expressed:
    """A configuration as ``LlamaConfig``, or as ``Qwen2Config`` where queries, keys and values alone have biases."""
    attention = only("attention", config.attention, Attention)
    layer = only("feed_forward", config.feed_forward, GatedFeedForward)
    norm = only("norm.norm", only("norm", config.norm, PreNorm).norm, RMSNorm)
    rotary = only("positions", config.positions, RotaryPositions)
    need("attention.mask", attention.mask, ["causal"])
    need("attention.scaled", attention.scaled, [True])
    need("feed_forward.reads", layer.reads, ["after-attention"])
    need("positions.dims", rotary.dims, [attention.d_head])
    is_qwen2 = attention.input_bias and not attention.output_bias and not layer.bias
    if not is_qwen2:
        need("d_model modulo heads", config.d_model % attention.heads, [0])
    bias = attention.input_bias or attention.output_bias
    nearest = replace(
        config,
        attention=replace(attention, input_bias=bias, output_bias=bias and not is_qwen2),
        norm=PreNorm(norm=RMSNorm(eps=norm.eps)),
        unembedding=Unembedding(tied=config.unembedding.tied),
    )
    plain = {
        "architectures": ["Qwen2ForCausalLM" if is_qwen2 else "LlamaForCausalLM"],
        "model_type": "qwen2" if is_qwen2 else "llama",
        "vocab_size": config.vocab,
        "max_position_embeddings": config.context,
        "hidden_size": config.d_model,
        "num_hidden_layers": config.layers,
        "num_attention_heads": attention.heads,
        "num_key_value_heads": attention.key_heads,
        "head_dim": attention.d_head,
        "intermediate_size": layer.d_mlp,
        "hidden_act": ACTIVATION_NAMES[layer.activation],
        "rms_norm_eps": norm.eps,
        "rope_theta": rotary.base,
        "rope_scaling": write_scaling(rotary),
        "tie_word_embeddings": config.unembedding.tied,
    }
    biases = {"use_sliding_window": False} if is_qwen2 else {"attention_bias": bias, "mlp_bias": layer.bias}
    return Expressed(nearest, plain | biases)
