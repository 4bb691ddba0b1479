"""The tensors that a configuration calls for, with their names in files and their shapes.

Names and shapes are TransformerLens' (``blocks.0.attn.W_Q`` is ``[head, d_model, d_head]``). This is the one list that
initialisation, checkpoints, loaders and ``headwater inspect`` read; it needs no tensor library.
"""

from collections.abc import Mapping
from math import prod

from headwater.errors import ModelFileError, did_you_mean
from headwater.model.config import GatedFeedForward, LayerNorm, LearnedPositions, ModelConfig, NoNorm, PreNorm, RMSNorm

Shape = tuple[int, ...]


def tensor_shapes(config: ModelConfig) -> dict[str, Shape]:
    """Every tensor of a model, in the order of the data path.

    >>> tensor_shapes(ModelConfig(vocab=5, context=4, d_model=2, layers=0))
    {'embed.W_E': (5, 2), 'unembed.W_U': (2, 5)}
    """
    shapes: dict[str, Shape] = {"embed.W_E": (config.vocab, config.d_model)}
    if isinstance(config.positions, LearnedPositions):
        shapes["pos_embed.W_pos"] = (config.context, config.d_model)
    for layer in range(config.layers):
        shapes |= {f"blocks.{layer}.{name}": shape for name, shape in block_shapes(config).items()}
    if isinstance(config.norm, PreNorm):
        shapes |= _norm_shapes("ln_final", config.norm.norm, config.d_model)
    if not config.unembedding.tied:
        shapes["unembed.W_U"] = (config.d_model, config.vocab)
    if config.unembedding.bias:
        shapes["unembed.b_U"] = (config.vocab,)
    return shapes


def parameter_count(config: ModelConfig) -> int:
    """How many numbers the model learned.

    >>> parameter_count(ModelConfig(vocab=50, context=16, d_model=8, layers=0))
    800
    """
    return sum(prod(shape) for shape in tensor_shapes(config).values())


def check_names_and_shapes(needed: Mapping[str, Shape], given: Mapping[str, Shape]) -> None:
    """All tensors that are needed, in their shapes, and no other; the first few differences are told together."""
    missing = [name for name in needed if name not in given]
    unknown = [name for name in given if name not in needed]
    wrong = [name for name in needed if name in given and given[name] != needed[name]]
    count = len(missing) + len(unknown) + len(wrong)
    if not count:
        return
    # Only what is shown is worded: a hostile file may list a million unknown names.
    problems = [f"no {name}" for name in missing[:5]]
    problems += [
        f"unknown {name!r:.120}" + (f" ({did_you_mean(name[:120], missing[:200])})" if missing else "") for name in unknown[:5]
    ]
    problems += [f"{name} is {list(given[name])}, not {list(needed[name])}" for name in wrong[:5]]
    more = f" and {count - 5} more" if count > 5 else ""
    raise ModelFileError(
        "; ".join(problems[:5]) + more, "the tensors that the configuration calls for", "check that both belong together"
    )


def block_shapes(config: ModelConfig) -> dict[str, Shape]:
    """The tensors of one block, named from the block on."""
    shapes: dict[str, Shape] = {}
    if not isinstance(config.norm, NoNorm):
        shapes |= _norm_shapes("ln1", config.norm.norm, config.d_model)
    shapes |= _attention_shapes(config)
    if config.feed_forward is not None:
        if not isinstance(config.norm, NoNorm):
            shapes |= _norm_shapes("ln2", config.norm.norm, config.d_model)
        shapes |= _feed_forward_shapes(config)
    return shapes


def _norm_shapes(name: str, norm: LayerNorm | RMSNorm, d_model: int) -> dict[str, Shape]:
    wanted = {f"{name}.w": norm.gain, f"{name}.b": norm.bias}
    return {tensor: (d_model,) for tensor, there in wanted.items() if there}


def _attention_shapes(config: ModelConfig) -> dict[str, Shape]:
    attention, d_model = config.attention, config.d_model
    assert attention is not None, "only models with layers have blocks"
    heads, key_heads, d_head = attention.heads, attention.key_heads, attention.d_head
    shapes: dict[str, Shape] = {
        "attn.W_Q": (heads, d_model, d_head),
        "attn.W_K": (key_heads, d_model, d_head),
        "attn.W_V": (key_heads, d_model, d_head),
        "attn.W_O": (heads, d_head, d_model),
    }
    if attention.input_bias:
        shapes |= {"attn.b_Q": (heads, d_head), "attn.b_K": (key_heads, d_head), "attn.b_V": (key_heads, d_head)}
    if attention.output_bias:
        shapes["attn.b_O"] = (d_model,)
    return shapes


def _feed_forward_shapes(config: ModelConfig) -> dict[str, Shape]:
    layer, d_model = config.feed_forward, config.d_model
    assert layer is not None, "asked only where there is a feed-forward layer"
    shapes: dict[str, Shape] = {"mlp.W_in": (d_model, layer.d_mlp), "mlp.W_out": (layer.d_mlp, d_model)}
    if layer.bias:
        shapes |= {"mlp.b_in": (layer.d_mlp,), "mlp.b_out": (d_model,)}
    if isinstance(layer, GatedFeedForward):
        shapes["mlp.W_gate"] = (d_model, layer.d_mlp)
        if layer.bias:
            shapes["mlp.b_gate"] = (layer.d_mlp,)
    return shapes
