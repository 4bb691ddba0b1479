"""What a file says about a tensor before the tensor is read."""

from dataclasses import dataclass
from math import prod

from headwater.errors import ModelFileError

ITEM_BYTES = {
    "float64": 8, "float32": 4, "float16": 2, "bfloat16": 2,
    "int64": 8, "int32": 4, "int16": 2, "int8": 1, "uint8": 1, "bool": 1,
}  # fmt: skip
"""The number formats that are read, under torch's names, with their sizes."""


@dataclass(frozen=True, slots=True)
class TensorEntry:
    """A tensor's name, number format and shape, and where its bytes stand in the file."""

    name: str
    dtype: str
    shape: tuple[int, ...]
    start: int
    size: int

    @property
    def count(self) -> int:
        """How many numbers it holds."""
        return prod(self.shape)


def checked_shape(name: str, shape: object) -> tuple[int, ...]:
    """A shape made of at most eight whole numbers whose product a file could hold."""
    if not isinstance(shape, list | tuple) or len(shape) > 8:  # pyright: ignore[reportUnknownArgumentType]
        raise ModelFileError(
            f"{name!r:.120} has the shape {shape!r:.80}", "a list of at most eight sizes", "write the file again"
        )
    sizes = tuple(shape)  # pyright: ignore[reportUnknownVariableType,reportUnknownArgumentType]
    if not all(type(size) is int and 0 <= size < 2**40 for size in sizes) or prod(sizes) >= 2**48:
        raise ModelFileError(
            f"{name!r:.120} has the shape {shape!r:.80}", "sizes that a file could hold", "write the file again"
        )
    return sizes
