"""Which foreign tensor holds which of ours, and how it lies there: one table for loading and for export."""

import re
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass
from math import prod
from typing import TYPE_CHECKING

from headwater.errors import ModelFileError
from headwater.files.entries import TensorEntry
from headwater.model.config import ModelConfig
from headwater.model.layout import Shape, check_names_and_shapes, tensor_shapes

if TYPE_CHECKING:
    from torch import Tensor


@dataclass(frozen=True)
class Link:
    """A foreign tensor, the tensors of ours that it holds, and the axes of both.

    ``{layer}`` stands for the layer's number. Where one tensor holds several of ours, the axis ``part`` counts them.

    >>> link = Link("h.{layer}.c_attn.weight", ("attn.W_Q", "attn.W_K"), "d_model (part head d_head)", "head d_model d_head")
    >>> link.shape((2, 8, 4))
    (8, 16)
    """

    foreign: str
    ours: tuple[str, ...]
    stored: str
    axes: str

    def shape(self, shape: Shape) -> Shape:
        """The foreign tensor's shape, given the shape that each of ours has."""
        sizes = self._sizes(shape)
        groups = re.findall(r"\(([^)]*)\)|(\w+)", self.stored)
        return tuple(prod(sizes[axis] for axis in (group or single).split()) for group, single in groups)

    def take_apart(self, tensor: "Tensor", shape: Shape) -> "Sequence[Tensor]":
        """Our tensors out of the foreign one."""
        from einops import rearrange

        part = "part " if len(self.ours) > 1 else ""
        result = rearrange(tensor, f"{self.stored} -> {part}{self.axes}", **self._sizes(shape))
        return [tensor.contiguous() for tensor in (result.unbind() if part else [result])]

    def put_together(self, tensors: "Sequence[Tensor]") -> "Tensor":
        """The foreign tensor out of ours."""
        import torch
        from einops import rearrange

        if len(tensors) == 1:
            return rearrange(tensors[0], f"{self.axes} -> {self.stored}")
        return rearrange(torch.stack(list(tensors)), f"part {self.axes} -> {self.stored}")

    def _sizes(self, shape: Shape) -> dict[str, int]:
        sizes = dict(zip(self.axes.split(), shape, strict=True))
        return sizes | {"part": len(self.ours)} if len(self.ours) > 1 else sizes


def matrix(foreign: str, ours: str) -> Link:
    """A matrix stored as ``nn.Linear`` does, ``[out, in]``."""
    return Link(foreign, (ours,), "outer inner", "inner outer")


def same(foreign: str, ours: str, axes: str = "size") -> Link:
    """A tensor stored as it is."""
    return Link(foreign, (ours,), axes, axes)


@dataclass(frozen=True)
class Layout:
    """The tensors of one kind of foreign model.

    ``model`` and ``block`` are its links, ``base`` a prefix that some files have on every name but the unembedding's,
    ``unembedding`` the name of a matrix that a tied model may repeat, ``buffers`` a pattern of names that hold no
    parameters and are left out.
    """

    model: tuple[Link, ...]
    block: tuple[Link, ...]
    base: str = ""
    unembedding: str = ""
    buffers: str = r"(?!)"

    def links(self, config: ModelConfig) -> dict[str, tuple[Link, list[str], Shape]]:
        """Under each foreign name that this configuration calls for: its link, our names, and the shape that ours have."""
        shapes = tensor_shapes(config)
        blocks = [(link, layer, f"blocks.{layer}.") for layer in range(config.layers) for link in self.block]
        found: dict[str, tuple[Link, list[str], Shape]] = {}
        for link, layer, prefix in [*((link, 0, "") for link in self.model), *blocks]:
            ours = [prefix + name for name in link.ours]
            if ours[0] in shapes:
                found[link.foreign.format(layer=layer)] = (link, ours, shapes[ours[0]])
        return found

    def match(self, config: ModelConfig, entries: Iterable[TensorEntry]) -> dict[str, str]:
        """The file's spelling of each name, under ours, once names, shapes and number formats are as they must be."""
        found: dict[str, TensorEntry] = {}
        for entry in entries:
            # torch.compile puts a prefix of its own before every name.
            name = entry.name.removeprefix("_orig_mod.").removeprefix(self.base)
            if re.fullmatch(self.buffers, name):
                continue
            if name in found:
                raise ModelFileError(f"both {found[name].name} and {entry.name}", "each tensor once", "remove one of them")
            found[name] = entry
        needed = {name: link.shape(shape) for name, (link, _, shape) in self.links(config).items()}
        if config.unembedding.tied and self.unembedding in found:
            needed[self.unembedding] = (config.vocab, config.d_model)
        check_names_and_shapes(needed, {name: entry.shape for name, entry in found.items()})
        for entry in found.values():
            if entry.dtype not in ("float64", "float32", "float16", "bfloat16"):
                raise ModelFileError(
                    f"{entry.name} is in {entry.dtype}", "floating-point numbers", "use the model as it was trained"
                )
        return {name: entry.name for name, entry in found.items()}

    def load(self, config: ModelConfig, tensors: "Mapping[str, Tensor]") -> "dict[str, Tensor]":
        """Our tensors out of the foreign ones, which stand under our spelling of their names."""
        result: dict[str, Tensor] = {}
        for name, (link, ours, shape) in self.links(config).items():
            result |= dict(zip(ours, link.take_apart(tensors[name], shape), strict=True))
        if config.unembedding.tied and not tensors.get(self.unembedding, result["embed.W_E"]).equal(result["embed.W_E"]):
            raise ModelFileError(
                f"{self.unembedding} differs from the embedding",
                "one matrix for both, as the configuration says",
                "say in the configuration that they are not tied, if the model has two",
            )
        return result

    def save(self, config: ModelConfig, tensors: "Mapping[str, Tensor]") -> "dict[str, Tensor]":
        """The foreign tensors out of ours."""
        result: dict[str, Tensor] = {}
        for name, (link, ours, _) in self.links(config).items():
            base = "" if name == self.unembedding else self.base
            result[base + name] = link.put_together([tensors[each] for each in ours]).contiguous()
        return result
