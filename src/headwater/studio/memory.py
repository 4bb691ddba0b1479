"""What a studio keeps from one question to the next, beside what lies open on its shelf: made when it is started, and gone with it."""

import sys
import threading
from collections import OrderedDict
from collections.abc import Callable, Hashable, Mapping
from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Any, Generic, TypeVar, cast

import numpy as np
from torch import Tensor

from headwater.studio.limits import KNOWN_BYTES, PICTURE, SURVEYS_BYTES

if TYPE_CHECKING:
    from headwater.studio.documents_measured import Watched
    from headwater.trace.looks import Survey

Value = TypeVar("Value")


def bytes_of(value: object) -> int:
    """About how much memory a value takes, with all that it holds.

    >>> bytes_of({"zeros": np.zeros(1000)}) > bytes_of(np.zeros(1000)) == 8000
    True
    """
    total, waiting, seen = 0, [value], set[int]()
    while waiting:
        one = waiting.pop()
        if id(one) in seen or isinstance(one, type):
            continue
        seen.add(id(one))
        if isinstance(one, Tensor | np.ndarray):
            total += one.nbytes
            continue
        total += sys.getsizeof(one)
        waiting += _held(one)
    return total


def _held(value: object) -> list[object]:
    if isinstance(value, Mapping):
        return [each for pair in cast(Mapping[object, object], value).items() for each in pair]
    if isinstance(value, list | tuple | set | frozenset):
        return list(cast(list[object], value))
    return list(getattr(value, "__dict__", {}).values())


class Known(Generic[Value]):
    """What has been computed, by what it was computed from: as much as fits into some bytes, and the last in any case. The longest unasked goes first."""

    def __init__(self, most: int) -> None:
        self._values: OrderedDict[Hashable, Value] = OrderedDict()
        self._sizes: dict[Hashable, int] = {}
        self._lock, self._most = threading.Lock(), most

    def __contains__(self, key: Hashable) -> bool:
        with self._lock:
            return key in self._values

    def __len__(self) -> int:
        with self._lock:
            return len(self._values)

    def get(self, key: Hashable, compute: Callable[[], Value]) -> Value:
        """The value, computed where it is not known."""
        with self._lock:
            if key in self._values:
                # Measured anew: many a value works out more of itself once it is asked.
                return self._kept(key, self._values[key])
        value = compute()
        with self._lock:
            return self._kept(key, value)

    def _kept(self, key: Hashable, value: Value) -> Value:
        self._values[key], self._sizes[key] = value, bytes_of(value)
        self._values.move_to_end(key)
        while len(self._values) > 1 and sum(self._sizes.values()) > self._most:
            del self._sizes[self._values.popitem(last=False)[0]]
        return value


@dataclass
class Memory:
    """All of it."""

    known: Known[Any] = field(default_factory=lambda: Known[Any](KNOWN_BYTES))
    """About trainings, by the files that it was computed from."""
    surveys: "Known[Survey]" = field(default_factory=lambda: Known["Survey"](SURVEYS_BYTES))
    """Of all heads on a text, by the run and the size of the pictures."""
    figures: Known[bytes] = field(default_factory=lambda: Known[bytes](PICTURE))
    """As they are drawn, by their ids and looks."""
    givens: "OrderedDict[object, Watched]" = field(default_factory=OrderedDict[object, "Watched"])
    """Sets of models that claims are measured on; for the lane of models alone."""
    building: set[str] = field(default_factory=set[str])
    """The models whose atlases are being built: one at the most."""
    errands: set[object] = field(default_factory=set[object])
    """Those that are being done."""
    followers: int = 0
    """How many follow a training at the moment."""
