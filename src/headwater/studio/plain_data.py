"""What figures are drawn from, for JSON."""

import dataclasses
import math
from collections.abc import Mapping
from functools import cached_property
from typing import Any, cast

import numpy as np
from torch import Tensor

from headwater.api import Model
from headwater.model.record import Record

NUMBERS = 40_000
"""Of one array; of a larger one only its shape is told."""
Array = np.ndarray[Any, np.dtype[Any]]


def plain(value: Any) -> Any:
    """Any data of a figure: dataclasses with what they derive, arrays as lists; of models and runs their tokens and sizes.

    >>> plain({"weights": np.array([0.25, float("nan")])})
    {'weights': [0.25, None]}
    """
    if isinstance(value, Tensor):
        return _array(value.detach().cpu().numpy())
    if isinstance(value, np.ndarray | np.generic):
        return _array(np.asarray(cast(Any, value)))
    if value is None or isinstance(value, bool | int | str | float):
        return None if isinstance(value, float) and not math.isfinite(value) else value
    if isinstance(value, list | tuple | set | frozenset):
        return [plain(each) for each in cast(list[Any], value)]
    named = _named(value)
    return str(value) if named is None else {name: plain(each) for name, each in named.items()}


def _named(value: Any) -> dict[str, Any] | None:
    """What has parts with names: records and models are told in brief."""
    if isinstance(value, Record):
        return {"tokens": value.tokens, "layers": value.config.layers}
    if isinstance(value, Model):
        return {"layers": value.config.layers, "d_model": value.config.d_model, "vocab": value.config.vocab}
    if isinstance(value, Mapping):
        return {str(name): each for name, each in cast(Mapping[Any, Any], value).items()}
    return _members(value) if dataclasses.is_dataclass(value) else None


def _members(value: Any) -> dict[str, Any]:
    """The fields of a dataclass; and where one of them is a run, what the figure takes from it, which is derived."""
    fields = {field.name: getattr(value, field.name) for field in dataclasses.fields(value)}
    if not any(isinstance(each, Record) for each in fields.values()):
        return fields
    kind = cast(Any, type(value))
    derived = [
        name
        for name, each in cast(dict[str, Any], vars(kind)).items()
        if isinstance(each, property | cached_property) and not name.startswith("_") and name not in ("weights", "block")
    ]
    return fields | {name: getattr(value, name) for name in derived}


def _array(array: Array) -> Any:
    if array.size > NUMBERS:
        return {"shape": list(array.shape)}
    if array.dtype.kind != "f":
        return array.tolist()
    found = array.astype(object)
    found[~np.isfinite(array)] = None
    return found.tolist()
