"""``GPTNeoXForCausalLM``: Pythia and its kin."""

import math
from dataclasses import replace

from headwater.model.config import Attention, FeedForward, LayerNorm, ModelConfig, PreNorm, RotaryPositions, Unembedding
from headwater.model.foreign.expressed import Expressed, need, only
from headwater.model.foreign.fields import Fields
from headwater.model.foreign.gpt2 import ACTIVATION_NAMES
from headwater.model.foreign.links import Layout, Link, matrix, same
from headwater.model.foreign.rotary import read_partial_rotary, write_scaling

LAYOUT = Layout(
    model=(
        same("embed_in.weight", "embed.W_E", "vocab d_model"),
        same("final_layer_norm.weight", "ln_final.w"),
        same("final_layer_norm.bias", "ln_final.b"),
        matrix("embed_out.weight", "unembed.W_U"),
    ),
    block=(
        same("layers.{layer}.input_layernorm.weight", "ln1.w"),
        same("layers.{layer}.input_layernorm.bias", "ln1.b"),
        # Query, key and value of one head lie together, head after head.
        Link(
            "layers.{layer}.attention.query_key_value.weight",
            ("attn.W_Q", "attn.W_K", "attn.W_V"),
            "(head part d_head) d_model",
            "head d_model d_head",
        ),
        Link(
            "layers.{layer}.attention.query_key_value.bias",
            ("attn.b_Q", "attn.b_K", "attn.b_V"),
            "(head part d_head)",
            "head d_head",
        ),
        Link("layers.{layer}.attention.dense.weight", ("attn.W_O",), "d_model (head d_head)", "head d_head d_model"),
        same("layers.{layer}.attention.dense.bias", "attn.b_O"),
        same("layers.{layer}.post_attention_layernorm.weight", "ln2.w"),
        same("layers.{layer}.post_attention_layernorm.bias", "ln2.b"),
        matrix("layers.{layer}.mlp.dense_h_to_4h.weight", "mlp.W_in"),
        same("layers.{layer}.mlp.dense_h_to_4h.bias", "mlp.b_in"),
        matrix("layers.{layer}.mlp.dense_4h_to_h.weight", "mlp.W_out"),
        same("layers.{layer}.mlp.dense_4h_to_h.bias", "mlp.b_out"),
    ),
    base="gpt_neox.",
    unembedding="embed_out.weight",
    buffers=r"layers\.\d+\.attention\.(bias|masked_bias|rotary_emb\.inv_freq)",
)


def read_config(fields: Fields) -> ModelConfig:
    """The configuration that ``GPTNeoXConfig`` describes."""
    fields.ignore(["attention_dropout", "hidden_dropout", "classifier_dropout", "is_decoder"])
    fields.must_be(model_type="gpt_neox")
    d_model = fields.whole("hidden_size", default=6144)
    heads = fields.whole("num_attention_heads", default=64)
    if heads < 1 or d_model % heads:
        raise fields.unfit("num_attention_heads", heads, f"a divisor of hidden_size={d_model}")
    context = fields.whole("max_position_embeddings", default=2048)
    bias = fields.flag("attention_bias", default=True)
    parallel = fields.flag("use_parallel_residual", default=True)
    return ModelConfig(
        vocab=fields.whole("vocab_size", default=50432),
        context=context,
        d_model=d_model,
        layers=fields.whole("num_hidden_layers", default=44),
        attention=Attention(heads=heads, d_head=d_model // heads, input_bias=bias, output_bias=bias),
        feed_forward=FeedForward(
            d_mlp=fields.whole("intermediate_size", default=24576),
            activation=fields.activation("hidden_act", default="gelu"),
            reads="beside-attention" if parallel else "after-attention",
        ),
        norm=PreNorm(norm=LayerNorm(eps=fields.number("layer_norm_eps", default=1e-5))),
        positions=read_partial_rotary(fields, d_head=d_model // heads, context=context),
        unembedding=Unembedding(tied=fields.flag("tie_word_embeddings", default=False)),
    )


def express(config: ModelConfig) -> Expressed:
    """A configuration as ``GPTNeoXConfig``."""
    attention = only("attention", config.attention, Attention)
    layer = only("feed_forward", config.feed_forward, FeedForward)
    norm = only("norm.norm", only("norm", config.norm, PreNorm).norm, LayerNorm)
    rotary = only("positions", config.positions, RotaryPositions)
    need("attention.mask", attention.mask, ["causal"])
    need("attention.group_size", attention.group_size, [1])
    need("attention.scaled", attention.scaled, [True])
    need("heads × d_head", attention.heads * attention.d_head, [config.d_model])
    bias = attention.input_bias or attention.output_bias
    nearest = replace(
        config,
        attention=replace(attention, input_bias=bias, output_bias=bias),
        feed_forward=replace(layer, bias=True),
        norm=PreNorm(norm=LayerNorm(eps=norm.eps)),
        unembedding=Unembedding(tied=config.unembedding.tied),
    )
    plain = {
        "architectures": ["GPTNeoXForCausalLM"],
        "model_type": "gpt_neox",
        "vocab_size": config.vocab,
        "max_position_embeddings": config.context,
        "hidden_size": config.d_model,
        "num_hidden_layers": config.layers,
        "num_attention_heads": attention.heads,
        "intermediate_size": layer.d_mlp,
        "hidden_act": ACTIVATION_NAMES[layer.activation],
        "layer_norm_eps": norm.eps,
        "attention_bias": bias,
        "use_parallel_residual": layer.reads == "beside-attention",
        "rotary_emb_base": rotary.base,
        "rotary_pct": share_of(rotary.dims, attention.d_head),
        "rope_scaling": write_scaling(rotary),
        "tie_word_embeddings": config.unembedding.tied,
    }
    return Expressed(nearest, plain)


def share_of(dims: int, d_head: int) -> float:
    """A fraction that ``int(d_head * fraction)`` takes back to ``dims``.

    >>> int(98 * (2 / 98)), int(98 * share_of(2, 98))
    (1, 2)
    """
    share = dims / d_head
    return share if int(d_head * share) == dims else math.nextafter(share, 1)
