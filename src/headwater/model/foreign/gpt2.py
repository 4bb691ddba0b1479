"""``GPT2LMHeadModel``."""

from dataclasses import replace

from headwater.model.config import (
    Attention,
    FeedForward,
    LayerNorm,
    LearnedPositions,
    ModelConfig,
    NoPositions,
    PreNorm,
    SinusoidalPositions,
    Unembedding,
)
from headwater.model.foreign.expressed import Expressed, need, only
from headwater.model.foreign.fields import Fields
from headwater.model.foreign.links import Layout, Link, matrix, same

ACTIVATION_NAMES = {"relu": "relu", "gelu": "gelu", "gelu-tanh": "gelu_new", "silu": "silu"}

LAYOUT = Layout(
    model=(
        same("wte.weight", "embed.W_E", "vocab d_model"),
        same("wpe.weight", "pos_embed.W_pos", "context d_model"),
        same("ln_f.weight", "ln_final.w"),
        same("ln_f.bias", "ln_final.b"),
        matrix("lm_head.weight", "unembed.W_U"),
    ),
    block=(
        same("h.{layer}.ln_1.weight", "ln1.w"),
        same("h.{layer}.ln_1.bias", "ln1.b"),
        # GPT-2's Conv1D stores [in, out], unlike nn.Linear.
        Link(
            "h.{layer}.attn.c_attn.weight",
            ("attn.W_Q", "attn.W_K", "attn.W_V"),
            "d_model (part head d_head)",
            "head d_model d_head",
        ),
        Link("h.{layer}.attn.c_attn.bias", ("attn.b_Q", "attn.b_K", "attn.b_V"), "(part head d_head)", "head d_head"),
        Link("h.{layer}.attn.c_proj.weight", ("attn.W_O",), "(head d_head) d_model", "head d_head d_model"),
        same("h.{layer}.attn.c_proj.bias", "attn.b_O"),
        same("h.{layer}.ln_2.weight", "ln2.w"),
        same("h.{layer}.ln_2.bias", "ln2.b"),
        same("h.{layer}.mlp.c_fc.weight", "mlp.W_in", "d_model d_mlp"),
        same("h.{layer}.mlp.c_fc.bias", "mlp.b_in"),
        same("h.{layer}.mlp.c_proj.weight", "mlp.W_out", "d_mlp d_model"),
        same("h.{layer}.mlp.c_proj.bias", "mlp.b_out"),
    ),
    base="transformer.",
    unembedding="lm_head.weight",
    buffers=r"h\.\d+\.attn\.(masked_)?bias",
)

_HARMLESS = [
    "resid_pdrop", "embd_pdrop", "attn_pdrop", "summary_type", "summary_use_proj", "summary_activation",
    "summary_proj_to_labels", "summary_first_dropout",
    # The same formula in another order, for training in half precision.
    "reorder_and_upcast_attn",
]  # fmt: skip


def read_config(fields: Fields) -> ModelConfig:
    """The configuration that ``GPT2Config`` describes."""
    fields.ignore(_HARMLESS)
    fields.must_be(model_type="gpt2", scale_attn_by_inverse_layer_idx=False, add_cross_attention=False)
    d_model = fields.whole("n_embd", "hidden_size", default=768)
    heads = fields.whole("n_head", "num_attention_heads", default=12)
    if heads < 1 or d_model % heads:
        raise fields.unfit("n_head", heads, f"a divisor of n_embd={d_model}")
    return ModelConfig(
        vocab=fields.whole("vocab_size", default=50257),
        context=fields.whole("n_positions", "max_position_embeddings", "n_ctx", default=1024),
        d_model=d_model,
        layers=fields.whole("n_layer", "num_hidden_layers", default=12),
        attention=Attention(
            heads=heads,
            d_head=d_model // heads,
            scaled=fields.flag("scale_attn_weights", default=True),
            input_bias=True,
            output_bias=True,
        ),
        feed_forward=FeedForward(
            d_mlp=fields.whole("n_inner", default=4 * d_model),
            activation=fields.activation("activation_function", default="gelu_new"),
        ),
        norm=PreNorm(norm=LayerNorm(eps=fields.number("layer_norm_epsilon", default=1e-5))),
        positions=LearnedPositions(),
        unembedding=Unembedding(tied=fields.flag("tie_word_embeddings", default=True)),
    )


def express(config: ModelConfig) -> Expressed:
    """A configuration as ``GPT2Config``; positions that are a fixed table are written as learned ones."""
    attention = only("attention", config.attention, Attention)
    layer = only("feed_forward", config.feed_forward, FeedForward)
    norm = only("norm.norm", only("norm", config.norm, PreNorm).norm, LayerNorm)
    positions = only("positions", config.positions, LearnedPositions, SinusoidalPositions, NoPositions)
    need("attention.mask", attention.mask, ["causal"])
    need("attention.group_size", attention.group_size, [1])
    need("heads × d_head", attention.heads * attention.d_head, [config.d_model])
    need("feed_forward.reads", layer.reads, ["after-attention"])
    if not isinstance(positions, NoPositions):
        need("positions.into", positions.into, ["stream"])
    nearest = replace(
        config,
        attention=replace(attention, input_bias=True, output_bias=True),
        feed_forward=replace(layer, bias=True),
        norm=PreNorm(norm=LayerNorm(eps=norm.eps)),
        positions=LearnedPositions(),
        unembedding=Unembedding(tied=config.unembedding.tied),
    )
    plain = {
        "architectures": ["GPT2LMHeadModel"],
        "model_type": "gpt2",
        "vocab_size": config.vocab,
        "n_positions": config.context,
        "n_embd": config.d_model,
        "n_layer": config.layers,
        "n_head": attention.heads,
        "n_inner": layer.d_mlp,
        "activation_function": ACTIVATION_NAMES[layer.activation],
        "layer_norm_epsilon": norm.eps,
        "scale_attn_weights": attention.scaled,
        "tie_word_embeddings": config.unembedding.tied,
    }
    return Expressed(nearest, plain)
