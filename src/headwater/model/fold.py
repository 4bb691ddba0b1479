"""Changes of a model's weights that leave what it says as it was.

Loading never does any of this. Each function returns new weights and has a law: the logits stay (``fold_norms``,
``centre_writes``, ``fold_value_bias``) or the log-probabilities do (``centre_unembed``). A tied unembedding is untied where
only one of its two uses changes.
"""

from collections.abc import Callable
from dataclasses import replace

import torch
from einops import einsum
from torch import Tensor

from headwater.errors import ConfigError
from headwater.model.config import LayerNorm, LearnedPositions, ModelConfig, PostNorm, PreNorm, SinusoidalPositions
from headwater.model.layout import tensor_shapes
from headwater.model.weights import Weights


def fold_norms(weights: Weights) -> Weights:
    """Norms without gain or bias: both move into what reads the normalised stream. The logits stay.

    ``(x̂ ∘ gain + bias) W = x̂ (diag(gain) W) + bias W``.
    """
    norm = _pre_norm(weights.config, "fold_norms").norm
    positions = weights.config.positions
    if norm.gain and isinstance(positions, LearnedPositions | SinusoidalPositions) and positions.into == "queries-and-keys":
        raise ConfigError(
            "fold_norms with positions added to queries' and keys' input",
            "readers of the normalised stream alone: a gain cannot pass through the sum",
            "use the weights as they are",
        )
    weights = _with_biases(_untied(weights)) if norm.bias else _untied(weights)
    tensors = weights.tensors()
    for layer in range(weights.config.layers):
        _fold(tensors, f"blocks.{layer}.ln1", [f"blocks.{layer}.attn.{symbol}" for symbol in ("W_Q", "W_K", "W_V")])
        _fold(tensors, f"blocks.{layer}.ln2", [f"blocks.{layer}.mlp.{symbol}" for symbol in ("W_in", "W_gate")])
    _fold(tensors, "ln_final", ["unembed.W_U"])
    bare = LayerNorm(eps=norm.eps, gain=False, bias=False) if isinstance(norm, LayerNorm) else replace(norm, gain=False)
    return Weights.assemble(replace(weights.config, norm=PreNorm(norm=bare)), tensors)


def centre_writes(weights: Weights) -> Weights:
    """Everything written to the stream with its mean over d_model taken out. The logits stay.

    A LayerNorm before every reader subtracts that mean anyway; hence pre-norm with LayerNorm only.
    """
    if not isinstance(_pre_norm(weights.config, "centre_writes").norm, LayerNorm):
        raise ConfigError(
            "centre_writes of a model with RMSNorm", "LayerNorm, which subtracts the mean", "use its weights as they are"
        )
    writers = {"embed.W_E", "attn.W_O", "attn.b_O", "mlp.W_out", "mlp.b_out"}
    if weights.config.positions == LearnedPositions(into="stream"):
        writers.add("pos_embed.W_pos")
    return _change(_untied(weights), writers, _centred)


def centre_unembed(weights: Weights) -> Weights:
    """``W_U`` and ``b_U`` with their mean over the vocabulary taken out. The log-probabilities stay."""
    return _change(_untied(weights), {"unembed.W_U", "unembed.b_U"}, _centred)


def fold_value_bias(weights: Weights) -> Weights:
    """``b_V`` moved into ``b_O``: patterns sum to one, so each head adds ``b_V W_O`` whatever it looks at. The logits stay."""
    attention = weights.config.attention
    if attention is None or not attention.input_bias:
        return weights
    tensors = weights.tensors()
    for layer, block in enumerate(weights.blocks):
        W_O, b_V, b_O = block.attention.W_O, block.attention.b_V, block.attention.b_O
        assert b_V is not None, "input_bias comes with b_V"
        added = einsum(b_V.repeat_interleave(attention.group_size, dim=0), W_O, "head d_head, head d_head d_model -> d_model")
        tensors[f"blocks.{layer}.attn.b_V"] = torch.zeros_like(b_V)
        tensors[f"blocks.{layer}.attn.b_O"] = added if b_O is None else b_O + added
    return Weights.assemble(replace(weights.config, attention=replace(attention, output_bias=True)), tensors)


def _pre_norm(config: ModelConfig, name: str) -> PreNorm:
    if isinstance(config.norm, PreNorm):
        return config.norm
    reason = "the normalised stream is itself carried on" if isinstance(config.norm, PostNorm) else "there is no norm"
    raise ConfigError(f"{name} of a model without pre-norm: {reason}", "a pre-norm model", "use its weights as they are")


def _centred(tensor: Tensor) -> Tensor:
    return tensor - tensor.mean(dim=-1, keepdim=True)


def _fold(tensors: dict[str, Tensor], norm: str, readers: list[str]) -> None:
    """Move one norm's gain and bias into the matrices that read it and their biases."""
    gain, bias = tensors.pop(f"{norm}.w", None), tensors.pop(f"{norm}.b", None)
    for reader in filter(tensors.__contains__, readers):
        W = tensors[reader]
        if bias is not None:
            b = reader.replace("W_", "b_")
            tensors[b] = tensors[b] + bias @ W
        tensors[reader] = W if gain is None else gain[:, None] * W


def _untied(weights: Weights) -> Weights:
    """``W_U`` as a tensor of its own."""
    config = replace(weights.config, unembedding=replace(weights.config.unembedding, tied=False))
    return Weights.assemble(config, {**weights.tensors(), "unembed.W_U": weights.W_U.contiguous()})


def _with_biases(weights: Weights) -> Weights:
    """Every reader of the normalised stream with a bias, zero where it had none."""
    config = weights.config
    config = replace(
        config,
        attention=config.attention and replace(config.attention, input_bias=True),
        feed_forward=config.feed_forward and replace(config.feed_forward, bias=True),
        unembedding=replace(config.unembedding, bias=True),
    )
    there = weights.tensors()
    return Weights.assemble(
        config,
        {name: there[name] if name in there else weights.W_E.new_zeros(shape) for name, shape in tensor_shapes(config).items()},
    )


def _change(weights: Weights, names: set[str], change: Callable[[Tensor], Tensor]) -> Weights:
    """Weights whose tensors with these names, in any block, are changed."""

    def within_block(name: str) -> str:
        return name.split(".", 2)[2] if name.startswith("blocks.") else name

    tensors = {name: change(tensor) if within_block(name) in names else tensor for name, tensor in weights.tensors().items()}
    return Weights.assemble(weights.config, tensors)
