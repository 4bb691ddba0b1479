"""JSON files, read strictly: bounded, no key twice, no NaN, no surprises."""

import json
import math
import os
import stat
from pathlib import Path
from typing import Any, NoReturn, cast

from headwater.errors import ModelFileError

MOST_BYTES = 16 * 2**20
MOST_DEPTH = 32
MOST_GROUPS = 1_000_000
MOST_VALUES = 4_000_000


def read_bytes(path: Path, most: int) -> bytes:
    """A small file whole; ``most`` bounds what is read."""
    size = file_size(path)
    if size > most:
        raise ModelFileError(f"{path.name} has {size:,} bytes", f"at most {most:,}", "check that it is the right file")
    with open_file(path) as file:
        return file.read(most)


def file_size(path: Path) -> int:
    """The size of a regular file; pipes, devices and folders are refused before they are opened."""
    try:
        state = path.stat()
    except FileNotFoundError:
        raise ModelFileError(f"{path} is not there", "a file that exists", "check the path") from None
    except (OSError, ValueError) as reason:
        raise ModelFileError(
            f"{str(path)!r:.200} cannot be read ({reason})", "a readable file", "check path and rights"
        ) from None
    if not stat.S_ISREG(state.st_mode):
        raise _no_file(path)
    return state.st_size


def open_file(path: Path) -> Any:
    """Open for reading; the system's refusal becomes ours."""
    file_size(path)
    try:
        file = open(path, "rb", opener=_at_once)  # noqa: SIM115  (whoever asked closes it)
    except OSError as reason:
        raise ModelFileError(f"{path} cannot be opened ({reason.strerror})", "a readable file", "check its rights") from None
    if not stat.S_ISREG(os.fstat(file.fileno()).st_mode):
        file.close()
        raise _no_file(path)
    return file


def _at_once(path: str, flags: int) -> int:
    """A pipe that has been put in a file's place meanwhile is not waited for."""
    return os.open(path, flags | getattr(os, "O_NONBLOCK", 0))


def _no_file(path: Path) -> ModelFileError:
    return ModelFileError(f"{path} is no regular file", "a file", "give the file itself")


def read_json(path: Path, most: int = MOST_BYTES) -> dict[str, Any]:
    """A JSON object from a file."""
    return parse_json(read_bytes(path, most), path.name)


def parse_json(data: bytes, name: str) -> dict[str, Any]:
    """A JSON object; what Python's parser lets through and should not (NaN, double keys, deep nesting) is refused."""
    # Two bytes of text can make sixty of memory, so what there is to make is counted first.
    if data.count(b",") > MOST_VALUES or data.count(b"[") + data.count(b"{") > MOST_GROUPS:
        given = f"{name} holds more than {MOST_VALUES:,} values or {MOST_GROUPS:,} lists"
        raise ModelFileError(given, "a description, not data", "check that it is the right file")
    try:
        value: Any = json.loads(data.decode("utf-8"), object_pairs_hook=_once, parse_constant=_no_constant, parse_float=_finite)
        _check_depth(value)
        if b"\\u" in data:
            # Half a surrogate pair is a text that nothing can print or write.
            json.dumps(value, ensure_ascii=False).encode()
    except ModelFileError as error:
        raise error.within(name) from None
    except (ValueError, RecursionError) as reason:
        raise ModelFileError(
            f"{name} is not JSON ({reason!s:.120})", "valid JSON in UTF-8", "fetch or write it again"
        ) from None
    if type(value) is not dict:
        raise ModelFileError(f"{name} holds no JSON object", "an object {…}", "check that it is the right file")
    return cast(dict[str, Any], value)


def _once(pairs: list[tuple[str, Any]]) -> dict[str, Any]:
    result = dict(pairs)
    if len(result) < len(pairs):
        seen: set[str] = set()
        twice = next(name for name, _ in pairs if name in seen or seen.add(name))
        raise ModelFileError(f"the key {twice!r:.80} stands twice", "each key once", "remove one of them")
    return result


def _check_depth(value: Any) -> None:
    level: list[Any] = [value] if type(value) in (dict, list) else []
    for _ in range(MOST_DEPTH):
        members: list[Any] = [outer.values() if type(outer) is dict else outer for outer in level]
        level = [inner for outer in members for inner in outer if type(inner) in (dict, list)]
        if not level:
            return
    raise ModelFileError("values nested without end", f"at most {MOST_DEPTH} levels", "check that it is the right file")


def _no_constant(name: str) -> NoReturn:
    raise ModelFileError(f"the number {name}", "finite numbers", "write a number")


def _finite(digits: str) -> float:
    number = float(digits)
    if not math.isfinite(number):
        _no_constant(digits[:40])
    return number
