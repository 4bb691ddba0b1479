"""``Weights``: a model as a frozen value of plain tensors, under the paper's symbols."""

from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any

import torch
from jaxtyping import Float
from torch import Tensor

from headwater.errors import ModelFileError
from headwater.model.config import ModelConfig
from headwater.model.layout import check_names_and_shapes, tensor_shapes


@dataclass(frozen=True, kw_only=True)
class NormWeights:
    """Gain and bias of one norm; either may be missing."""

    gain: Float[Tensor, " d_model"] | None = None
    bias: Float[Tensor, " d_model"] | None = None


@dataclass(frozen=True, kw_only=True)
class AttentionWeights:
    """The heads of one layer."""

    W_Q: Float[Tensor, "head d_model d_head"]
    W_K: Float[Tensor, "key_head d_model d_head"]
    W_V: Float[Tensor, "key_head d_model d_head"]
    W_O: Float[Tensor, "head d_head d_model"]
    b_Q: Float[Tensor, "head d_head"] | None = None
    b_K: Float[Tensor, "key_head d_head"] | None = None
    b_V: Float[Tensor, "key_head d_head"] | None = None
    b_O: Float[Tensor, " d_model"] | None = None


@dataclass(frozen=True, kw_only=True)
class FeedForwardWeights:
    """One feed-forward layer; ``W_gate`` only where it is gated."""

    W_in: Float[Tensor, "d_model d_mlp"]
    W_out: Float[Tensor, "d_mlp d_model"]
    W_gate: Float[Tensor, "d_model d_mlp"] | None = None
    b_in: Float[Tensor, " d_mlp"] | None = None
    b_out: Float[Tensor, " d_model"] | None = None
    b_gate: Float[Tensor, " d_mlp"] | None = None


@dataclass(frozen=True, kw_only=True)
class BlockWeights:
    """One block: attention, then perhaps a feed-forward layer, each with its norm where the model has norms."""

    attention: AttentionWeights
    feed_forward: FeedForwardWeights | None = None
    norm_1: NormWeights
    norm_2: NormWeights


@dataclass(frozen=True, kw_only=True, eq=False)
class Weights:
    """A model: its configuration and its tensors.

    >>> from headwater.model.presets import named
    >>> weights = Weights.draw(named("zero-layer"), seed=0)
    >>> weights
    Weights(0 layers, d_model 256, vocab 4,096, 2,097,152 parameters, float32)
    """

    config: ModelConfig
    W_E: Float[Tensor, "vocab d_model"]
    W_pos: Float[Tensor, "context d_model"] | None = None
    blocks: tuple[BlockWeights, ...]
    norm_final: NormWeights
    W_U_untied: Float[Tensor, "d_model vocab"] | None = None
    """The unembedding where it is a tensor of its own; ``W_U`` is there for all models."""
    b_U: Float[Tensor, " vocab"] | None = None

    def __repr__(self) -> str:
        count = sum(tensor.numel() for tensor in self.tensors().values())
        sizes = f"d_model {self.config.d_model}, vocab {self.config.vocab:,}"
        return f"Weights({self.config.layers} layers, {sizes}, {count:,} parameters, {str(self.W_E.dtype)[6:]})"

    def __eq__(self, other: object) -> bool:
        """Equal configurations and equal numbers in the same format."""
        if not isinstance(other, Weights) or self.config != other.config or self.dtype != other.dtype:
            return False
        theirs = other.tensors()
        return all(torch.equal(tensor, theirs[name]) for name, tensor in self.tensors().items())

    __hash__ = None  # pyright: ignore[reportAssignmentType]

    @property
    def W_U(self) -> Float[Tensor, "d_model vocab"]:  # noqa: N802
        """The unembedding; in a tied model the embedding, transposed."""
        return self.W_E.T if self.W_U_untied is None else self.W_U_untied

    @property
    def dtype(self) -> torch.dtype:
        """The number format that all tensors share."""
        return self.W_E.dtype

    @property
    def device(self) -> torch.device:
        """Where the tensors are."""
        return self.W_E.device

    def tensors(self) -> dict[str, Tensor]:
        """Every tensor under its name in files; a tied unembedding is not listed twice."""
        return {name: _look_up(self, name) for name in tensor_shapes(self.config)}

    def norm(self, name: str) -> NormWeights:
        """The norm of a name: ``L0.norm_1``, ``L0.norm_2`` or ``final``."""
        if name == "final":
            return self.norm_final
        layer, which = name.removeprefix("L").split(".")
        return self.blocks[int(layer)].norm_1 if which == "norm_1" else self.blocks[int(layer)].norm_2

    def to(self, *, dtype: torch.dtype | None = None, device: torch.device | str | None = None) -> "Weights":
        """The same weights cast or moved."""
        moved = {name: tensor.to(device=device, dtype=dtype) for name, tensor in self.tensors().items()}
        return Weights.assemble(self.config, moved)

    def changed(self, tensors: Mapping[str, Tensor]) -> "Weights":
        """The same model with some tensors replaced, by their names in files.

        >>> from headwater.model.presets import named
        >>> weights = Weights.draw(named("zero-layer"), seed=0)
        >>> weights.changed({"unembed.W_U": 2 * weights.W_U}) == weights
        False
        """
        return Weights.assemble(self.config, {**self.tensors(), **tensors})

    @staticmethod
    def assemble(config: ModelConfig, tensors: Mapping[str, Tensor]) -> "Weights":
        """The weights made of ``tensors`` under their names in files: all that ``config`` calls for and no other."""
        _check(config, tensors)
        blocks = tuple(_block(tensors, f"blocks.{layer}.", config) for layer in range(config.layers))
        return Weights(
            config=config,
            W_E=tensors["embed.W_E"],
            W_pos=tensors.get("pos_embed.W_pos"),
            blocks=blocks,
            norm_final=_norm(tensors, "ln_final."),
            W_U_untied=tensors.get("unembed.W_U"),
            b_U=tensors.get("unembed.b_U"),
        )

    @staticmethod
    def draw(config: ModelConfig, *, seed: int, dtype: torch.dtype = torch.float32) -> "Weights":
        """Random weights to start from; the same seed gives the same numbers, whatever the process drew before.

        Embeddings and matrices have variance ``1/d_model``, what writes to the stream ``1/(2·layers·fan-in)``, so that the
        stream does not grow with depth. Gains are one, biases zero.
        """
        generator = torch.Generator().manual_seed(seed)
        tensors: dict[str, Tensor] = {}
        for name, shape in tensor_shapes(config).items():
            kind = name.rsplit(".", 1)[1]
            if kind in ("w", "b") or kind.startswith("b_"):
                tensors[name] = torch.full(shape, 1.0 if kind == "w" else 0.0, dtype=dtype)
            else:
                spread = _spread(kind, config)
                tensors[name] = (torch.randn(shape, generator=generator, dtype=torch.float64) * spread).to(dtype)
        return Weights.assemble(config, laid_out(tensors))


def laid_out(tensors: Mapping[str, Tensor]) -> dict[str, Tensor]:
    """The same tensors, in memory as they are multiplied.

    Those of queries, keys and values are ``[head, d_model, d_head]``, and multiplied as ``d_model × (head · d_head)``: with all heads side
    by side the forward pass need not copy them every time. The unembedding has a token's numbers side by side, as the embedding has:
    products with large vocabularies that are no multiple of 16 run faster.
    """
    joined = (".W_Q", ".W_K", ".W_V", ".W_U")
    return {
        name: tensor.transpose(0, 1).contiguous().transpose(0, 1) if name.endswith(joined) else tensor
        for name, tensor in tensors.items()
    }


_NORM = {"w": "gain", "b": "bias"}


def _norm(tensors: Mapping[str, Tensor], prefix: str) -> NormWeights:
    return NormWeights(**{word: tensors[prefix + letter] for letter, word in _NORM.items() if prefix + letter in tensors})


def _group(tensors: Mapping[str, Tensor], prefix: str) -> dict[str, Any]:
    return {name.removeprefix(prefix): tensor for name, tensor in tensors.items() if name.startswith(prefix)}


def _block(tensors: Mapping[str, Tensor], prefix: str, config: ModelConfig) -> BlockWeights:
    return BlockWeights(
        attention=AttentionWeights(**_group(tensors, prefix + "attn.")),
        feed_forward=FeedForwardWeights(**_group(tensors, prefix + "mlp.")) if config.feed_forward else None,
        norm_1=_norm(tensors, prefix + "ln1."),
        norm_2=_norm(tensors, prefix + "ln2."),
    )


_ATTRIBUTES = {
    "embed": "", "pos_embed": "", "unembed": "", "attn": "attention", "mlp": "feed_forward",
    "ln1": "norm_1", "ln2": "norm_2", "ln_final": "norm_final",
}  # fmt: skip


def _look_up(weights: Weights, name: str) -> Tensor:
    """The tensor that has this name in files."""
    *path, group, symbol = name.split(".")
    owner: Any = weights.blocks[int(path[1])] if path else weights
    owner = getattr(owner, _ATTRIBUTES[group]) if _ATTRIBUTES[group] else owner
    return getattr(owner, _NORM.get(symbol, symbol))


def _check(config: ModelConfig, tensors: Mapping[str, Tensor]) -> None:
    needed = tensor_shapes(config)
    check_names_and_shapes(needed, {name: tuple(tensor.shape) for name, tensor in tensors.items()})
    kinds = {(tensor.dtype, tensor.device) for tensor in tensors.values()}
    if len(kinds) > 1 or not next(iter(kinds))[0].is_floating_point:
        raise ModelFileError(
            f"tensors of several or unsuitable kinds: {', '.join(sorted(map(str, kinds)))}",
            "one floating-point format and one device for all",
            "cast them before they are assembled",
        )


def _spread(symbol: str, config: ModelConfig) -> float:
    into_stream = {"W_O": config.heads * config.d_head, "W_out": config.d_mlp}
    if symbol in into_stream:
        return (2 * config.layers * into_stream[symbol]) ** -0.5
    return config.d_model**-0.5
