"""Torch's zip-and-pickle files, understood without running them.

A pickle is a program. Ours is walked by a stack machine that knows only the instructions torch writes and can call
nothing: it builds plain values and a ``TensorEntry`` in place of each tensor. Only a file that has passed is given to
``torch.load(weights_only=True)``.
"""

import pickletools
from collections.abc import Callable
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Any, cast

from headwater.errors import ModelFileError
from headwater.files.archives import AGAIN, Archive, check_sums, open_archive
from headwater.files.entries import ITEM_BYTES, TensorEntry, checked_shape
from headwater.files.plain import file_size, open_file

MOST_STEPS = 250_000
MOST_TEXT = 2**20
MOST_DEPTH = 32

_STORAGES = {
    "torch DoubleStorage": "float64", "torch FloatStorage": "float32", "torch HalfStorage": "float16",
    "torch BFloat16Storage": "bfloat16", "torch LongStorage": "int64", "torch IntStorage": "int32",
    "torch ShortStorage": "int16", "torch CharStorage": "int8", "torch ByteStorage": "uint8", "torch BoolStorage": "bool",
}  # fmt: skip


def look(path: Path) -> Any:
    """The pickled tree of a torch file with a ``TensorEntry`` for each tensor, named by the key that it stands under.

    The tree holds dictionaries, lists, tuples, numbers, texts and ``None``; a ``torch.dtype`` or ``torch.device`` is its
    name. No tensor library is imported and nothing in the file is called.
    """
    try:
        with open_file(path) as file:
            return _tree(open_archive(file, file_size(path)))
    except ModelFileError as error:
        raise error.within(path.name) from None


def read(path: Path) -> Any:
    """The same tree with its tensors, on the CPU; every stored checksum is compared first, which torch does not do."""
    import torch

    try:
        with open_file(path) as file:
            archive = open_archive(file, file_size(path))
            _tree(archive)
            check_sums(archive)
            file.seek(0)
            try:
                return torch.load(file, weights_only=True, map_location="cpu", mmap=False)
            except Exception as reason:  # noqa: BLE001  # a file that changes while it is read fails in many ways
                raise ModelFileError(f"torch cannot load it ({reason!s:.120})", "a whole torch file", AGAIN) from None
    except ModelFileError as error:
        raise error.within(path.name) from None


@dataclass(frozen=True, slots=True)
class _Name:
    """A global that the pickle mentions; it stands for itself and is never looked up."""

    name: str


@dataclass(frozen=True, slots=True)
class _Storage:
    dtype: str
    count: int
    start: int


class _OrderedDict(dict[Any, Any]):
    """Stands in for ``collections.OrderedDict``, the one object that may be given attributes (they are dropped)."""


class _Machine:
    """The part of pickle's stack machine that builds plain values."""

    def __init__(self, archive: Archive) -> None:
        self.archive = archive
        self.stack: list[Any] = []
        self.marked: list[list[Any]] = []
        self.memo: dict[int, Any] = {}

    def run(self) -> Any:
        """The value that the pickle describes."""
        try:
            for count, (opcode, argument, _) in enumerate(pickletools.genops(self.archive.pickle)):
                if count == MOST_STEPS:
                    raise ModelFileError(f"a pickle of more than {MOST_STEPS:,} steps", "a model", "save the tensors alone")
                if opcode.name not in _STEPS:
                    raise ModelFileError(f"the pickle instruction {opcode.name}", "the instructions that torch writes", AGAIN)
                _STEPS[opcode.name](self, argument)
            return self.stack.pop()
        except (ValueError, IndexError, KeyError) as reason:
            if isinstance(reason, ModelFileError):
                raise
            raise ModelFileError(
                f"a damaged pickle ({reason!s:.120})", "a whole torch file", "fetch or save it again"
            ) from None

    def push(self, value: Any) -> None:
        self.stack.append(value)

    def push_text(self, text: str) -> None:
        if len(text) > MOST_TEXT:
            raise ModelFileError(f"a text of {len(text):,} characters", f"at most {MOST_TEXT:,}", "save the tensors alone")
        text.encode()  # lone surrogates, which nothing could print, raise a ValueError
        self.push(text)

    def since_mark(self) -> list[Any]:
        items, self.stack = self.stack, self.marked.pop()
        return items

    def mark(self) -> None:
        self.marked.append(self.stack)
        self.stack = []

    def put(self, index: int) -> None:
        # Torch counts upwards from zero; a sparse memo of gigabytes is none of its habits.
        if index > MOST_STEPS:
            raise ModelFileError(f"a pickle that remembers value {index:,}", f"at most {MOST_STEPS:,} values", AGAIN)
        self.memo[index] = self.stack[-1]

    def take(self, count: int) -> tuple[Any, ...]:
        if len(self.stack) < count:
            raise IndexError("its stack is empty")
        items = tuple(self.stack[len(self.stack) - count :])
        del self.stack[len(self.stack) - count :]
        return items

    def append(self, items: list[Any]) -> None:
        if type(self.stack[-1]) is not list:
            raise _unfit("a list", self.stack[-1])
        self.stack[-1].extend(items)

    def set_items(self, items: list[Any]) -> None:
        target = self.stack[-1]
        if type(target) not in (dict, _OrderedDict) or len(items) % 2:
            raise _unfit("a dictionary", target)
        for key, value in zip(items[::2], items[1::2], strict=True):
            # The hash of a tuple that is nested deep enough would end the process.
            if type(key) not in (str, int):
                raise _unfit("a text or a whole number as key", key)
            if key in target:
                raise ModelFileError(f"the key {key!r:.80} stands twice", "each key once", AGAIN)
            target[key] = value

    def build(self) -> None:
        target, state = self.take(2)
        if type(target) is not _OrderedDict or type(state) is not dict:
            raise ModelFileError(f"{_kind(target)} with attributes, which would run code", "plain values and tensors", AGAIN)
        self.push(target)

    def storage(self) -> None:
        given = self.stack.pop()
        if type(given) is not tuple or len(cast(tuple[Any, ...], given)) != 5 or given[0] != "storage":
            raise _unfit("a storage", given)
        _, kind, key, _, count = cast(tuple[Any, ...], given)
        dtype = _STORAGES.get(kind.name) if type(kind) is _Name else None
        if dtype is None or type(key) is not str or type(count) is not int:
            raise ModelFileError(f"a storage of {_kind(kind)}", f"one of {', '.join(ITEM_BYTES)}", "convert it first")
        start, size = self.archive.storages.get(key, (0, -1))
        if count * ITEM_BYTES[dtype] != size:
            given = f"storage {key!r:.40} is said to hold {count:,} numbers of {dtype}"
            raise ModelFileError(given, f"as many bytes in the file, not {max(size, 0):,}", "fetch or save it again")
        self.push(_Storage(dtype, count, start))

    def name(self, name: str) -> None:
        if name not in _NAMES:
            where = name.replace(" ", ".", 1)
            raise ModelFileError(
                f"the pickle calls for {where!r:.120}, which would run code", "plain values and tensors", AGAIN
            )
        self.push(_Name(name))

    def call(self) -> None:
        function, arguments = self.take(2)
        if type(function) is not _Name or function.name not in _CALLS or type(arguments) is not tuple:
            raise ModelFileError(f"the pickle calls {_kind(function)}, which would run code", "plain values and tensors", AGAIN)
        self.push(_CALLS[function.name](cast(tuple[Any, ...], arguments)))


def _kind(value: Any) -> str:
    """A value in an error: never its content, which may be endless."""
    return value.name.replace(" ", ".", 1) if type(value) is _Name else f"a {type(value).__name__.strip('_')}"


def _unfit(needed: str, given: Any) -> ModelFileError:
    return ModelFileError(f"{_kind(given)} in a pickle", needed, AGAIN)


def _tensor(arguments: tuple[Any, ...]) -> TensorEntry:
    """``_rebuild_tensor_v2(storage, offset, size, stride, requires_grad, hooks[, metadata])``, its place checked."""
    if not 6 <= len(arguments) <= 7 or type(arguments[0]) is not _Storage or arguments[6:] not in ((), (None,), ({},)):
        raise _unfit("a storage, an offset, a size and strides", arguments)
    storage, offset, shape, strides, _, hooks = arguments[:6]
    if type(hooks) is not _OrderedDict or hooks:
        raise ModelFileError("a tensor with hooks, which would run code", "plain tensors", AGAIN)
    shape = checked_shape("a tensor", shape)
    if type(strides) is not tuple or not all(type(stride) is int and 0 <= stride < 2**48 for stride in cast(Any, strides)):
        raise _unfit("strides", strides)
    if type(offset) is not int or not 0 <= offset <= storage.count or len(cast(tuple[int, ...], strides)) != len(shape):
        raise _unfit("an offset within the storage and a stride for each size", offset)
    _check_extent(shape, cast(tuple[int, ...], strides), storage.count - offset)
    entry = TensorEntry("", storage.dtype, shape, storage.start + offset * ITEM_BYTES[storage.dtype], 0)
    return replace(entry, size=entry.count * ITEM_BYTES[storage.dtype])


def _check_extent(shape: tuple[int, ...], strides: tuple[int, ...], room: int) -> None:
    """Contiguous, transposed or cut out, but every number stands within the storage and no number is used twice."""
    reach = 1
    for stride, size in sorted((stride, size) for stride, size in zip(strides, shape, strict=True) if size != 1):
        if stride < reach and 0 not in shape:
            given = f"a tensor of shape {list(shape)} and strides {list(strides)}"
            raise ModelFileError(given, "each number used once", "save a copy: tensor.contiguous()")
        reach += stride * (size - 1)
    if 0 not in shape and reach > room:
        raise ModelFileError(f"a tensor of shape {list(shape)} in a storage with room for {room:,}", "a place within it", AGAIN)


def _parameter(arguments: tuple[Any, ...]) -> TensorEntry:
    if len(arguments) != 3 or type(arguments[0]) is not TensorEntry or type(arguments[2]) is not _OrderedDict or arguments[2]:
        raise _unfit("a parameter made of a tensor", arguments)
    return arguments[0]


def _ordered_dict(arguments: tuple[Any, ...]) -> _OrderedDict:
    if arguments:
        raise _unfit("an empty OrderedDict to start with", arguments)
    return _OrderedDict()


def _size(arguments: tuple[Any, ...]) -> tuple[int, ...]:
    return checked_shape("a torch.Size", *arguments) if len(arguments) == 1 else checked_shape("a torch.Size", None)


def _device(arguments: tuple[Any, ...]) -> str:
    if not 1 <= len(arguments) <= 2 or type(arguments[0]) is not str or not all(type(index) is int for index in arguments[1:]):
        raise _unfit("a device's name", arguments)
    return ":".join(map(str, arguments))


_CALLS: dict[str, Callable[[tuple[Any, ...]], Any]] = {
    "collections OrderedDict": _ordered_dict,
    "torch._utils _rebuild_tensor_v2": _tensor,
    "torch._utils _rebuild_parameter": _parameter,
    "torch Size": _size,
    "torch device": _device,
}
_DTYPES = {f"torch {dtype}" for dtype in ITEM_BYTES}
_NAMES = {*_CALLS, *_STORAGES, *_DTYPES}

_STEPS: dict[str, Callable[[_Machine, Any], None]] = {
    "PROTO": lambda machine, version: None,
    "STOP": lambda machine, _: None,
    "MARK": lambda machine, _: machine.mark(),
    **dict.fromkeys(["BININT", "BININT1", "BININT2", "LONG1", "BINFLOAT"], _Machine.push),
    "BINUNICODE": _Machine.push_text,
    "NONE": lambda machine, _: machine.push(None),
    "NEWTRUE": lambda machine, _: machine.stack.append(True),
    "NEWFALSE": lambda machine, _: machine.stack.append(False),
    "EMPTY_DICT": lambda machine, _: machine.push({}),
    "EMPTY_LIST": lambda machine, _: machine.push([]),
    "EMPTY_TUPLE": lambda machine, _: machine.push(()),
    "TUPLE1": lambda machine, _: machine.push(machine.take(1)),
    "TUPLE2": lambda machine, _: machine.push(machine.take(2)),
    "TUPLE3": lambda machine, _: machine.push(machine.take(3)),
    "TUPLE": lambda machine, _: machine.push(tuple(machine.since_mark())),
    "APPEND": lambda machine, _: machine.append(list(machine.take(1))),
    "APPENDS": lambda machine, _: machine.append(machine.since_mark()),
    "SETITEM": lambda machine, _: machine.set_items(list(machine.take(2))),
    "SETITEMS": lambda machine, _: machine.set_items(machine.since_mark()),
    "BINPUT": _Machine.put,
    "LONG_BINPUT": _Machine.put,
    "BINGET": lambda machine, index: machine.push(machine.memo[index]),
    "LONG_BINGET": lambda machine, index: machine.push(machine.memo[index]),
    "BINPERSID": lambda machine, _: machine.storage(),
    "GLOBAL": _Machine.name,
    "REDUCE": lambda machine, _: machine.call(),
    "BUILD": lambda machine, _: machine.build(),
}


def _tree(archive: Archive) -> Any:
    return _Copy().of(_Machine(archive).run(), "", MOST_DEPTH)


class _Copy:
    """A copy of the machine's value in which nothing contains itself and nothing is repeated without end."""

    def __init__(self) -> None:
        self.left = MOST_STEPS

    def of(self, value: Any, name: str, depth: int) -> Any:
        self.left -= 1
        if not depth or not self.left:
            raise ModelFileError("values nested or repeated without end", f"at most {MOST_DEPTH} levels", AGAIN)
        match value:
            case dict():
                items = cast(dict[Any, Any], value).items()
                return {key: self.of(inner, str(key), depth - 1) for key, inner in items}
            case list() | tuple():
                inner = [self.of(item, str(index), depth - 1) for index, item in enumerate(cast(list[Any], value))]
                return tuple(inner) if isinstance(value, tuple) else inner
            case TensorEntry():
                return replace(value, name=name)
            case _Name() if value.name in _DTYPES:
                return value.name.replace(" ", ".")
            case _Name() | _Storage():
                raise ModelFileError(f"{_kind(value)} on its own", "plain values and tensors", AGAIN)
            case _:
                return value
