"""The axis words, and a name for each kind of tensor that crosses a module.

=============  ==============================================================
word           meaning
=============  ==============================================================
batch          texts looked at together
pos            positions of a text
dest, source   positions that attend and positions that are attended to
vocab          token ids
context        the most positions a model can take
head           attention heads of a layer
key_head       heads that own a key and a value (fewer when they are grouped)
d_model        width of the stream
d_head         width of a query, key or value
d_mlp          neurons of a feed-forward layer
=============  ==============================================================

Vectors are rows and multiply from the left, ``x @ W``; a matrix's axes read *from → to*.
"""

from typing import TypeAlias, cast

from jaxtyping import Float, Int
from torch import Tensor

Tokens: TypeAlias = Int[Tensor, "batch pos"]
Stream: TypeAlias = Float[Tensor, "batch pos d_model"]
Queries: TypeAlias = Float[Tensor, "batch head dest d_head"]
Keys: TypeAlias = Float[Tensor, "batch key_head source d_head"]
Pattern: TypeAlias = Float[Tensor, "batch head dest source"]
Logits: TypeAlias = Float[Tensor, "batch pos vocab"]


def floats(numbers: Float[Tensor, " any"]) -> list[float]:
    """A vector's numbers, for Python."""
    return cast(list[float], numbers.tolist())


def whole(numbers: Int[Tensor, " any"]) -> list[int]:
    """A vector of whole numbers, for Python."""
    return cast(list[int], numbers.tolist())
