"""The name of a head: ``L1H4`` is head 4 of layer 1, both counted from 0."""

import re
from dataclasses import dataclass
from typing import Any, TypeAlias

from headwater.errors import InputError
from headwater.model.config import ModelConfig


@dataclass(frozen=True, order=True)
class Head:
    """One attention head of a model.

    >>> print(Head(1, 4))
    L1H4
    """

    layer: int
    head: int

    def __str__(self) -> str:
        return f"L{self.layer}H{self.head}"


HeadName: TypeAlias = Head | str | tuple[int, int]
"""A head as people write it: ``"L1H4"``, ``(1, 4)`` or ``Head(1, 4)``."""


def find_head(name: HeadName, config: ModelConfig) -> Head:
    """The head of this model that is called so.

    >>> from headwater.model.config import Attention
    >>> find_head("l0h7", ModelConfig(vocab=50, context=16, d_model=8, layers=1, attention=Attention(heads=8, d_head=4)))
    Head(layer=0, head=7)
    """
    if not config.layers:
        raise InputError(f"head {name!s:.40} of a model without layers", "a model with heads", "choose another model")
    if isinstance(name, str):
        match = re.fullmatch(r"[Ll](\d{1,6})[Hh](\d{1,6})", name.strip(), re.ASCII)
        if match is None:
            raise InputError(f"{name!r:.40} as a head", "a layer and a head, such as L0H3", "write L, the layer, H, the head")
        name = (int(match[1]), int(match[2]))
    found = name if isinstance(name, Head) else _of_numbers(name)
    if not (0 <= found.layer < config.layers and 0 <= found.head < config.heads):
        raise InputError(f"no head is called {found}", f"heads from L0H0 to {every_head(config)[-1]}", "choose one of these")
    return found


def _of_numbers(name: Any) -> Head:
    match name:
        case (int() as layer, int() as head) if not isinstance(layer, bool) and not isinstance(head, bool):
            return Head(layer, head)
        case _:
            pass
    raise InputError(f"{name!r:.40} as a head", "a name such as L0H3, or a layer and a head", 'write "L0H3" or (0, 3)')


def every_head(config: ModelConfig) -> list[Head]:
    """All heads of a model, layer by layer."""
    return [Head(layer, head) for layer in range(config.layers) for head in range(config.heads)]


def key_head(config: ModelConfig, head: Head) -> int:
    """The number, in its layer, of the key and value that a head uses: heads of a group share them."""
    assert config.attention is not None, "whoever has heads has attention"
    return head.head // config.attention.group_size
