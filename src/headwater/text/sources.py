"""Where text comes from, as settings, and the documents that are there."""

import atexit
import functools
import glob
import gzip
import os
import shutil
import sys
import sysconfig
import tempfile
import zlib
from collections.abc import Callable, Iterator
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from headwater.errors import ConfigError, InputError, ModelFileError
from headwater.files.plain import file_size, open_file
from headwater.settings import setting
from headwater.text.planted import PlantedLanguage

CHUNK = 2**20


@setting
class Files:
    """Files, folders with all that lies in them, and patterns such as ``books/**/*.txt``; ``.gz`` files are read unpacked."""

    paths: tuple[str, ...]


@setting
class StandardInput:
    """What comes in through the pipe, as one document."""


@setting
class StandardLibrary:
    """The source text of the Python that is running: code and English prose, on every machine."""


@setting
class Planted:
    """So many tokens of a planted language."""

    language: PlantedLanguage
    tokens: int

    def __post_init__(self) -> None:
        if self.tokens < 1:
            raise ConfigError(f"tokens is {self.tokens}", "at least 1", "change tokens")


@setting
class Built:
    """A corpus that was built before."""

    folder: str


TextSource = Files | StandardInput | StandardLibrary | Planted | Built


@dataclass(frozen=True)
class Document:
    """A text that begins and ends: its name, its size in bytes where that is known, and its bytes, a chunk at a time."""

    name: str
    size: int | None
    chunks: Callable[[], Iterator[bytes]]


def documents(source: TextSource) -> Iterator[Document]:
    """The documents of a source, always in the same order; none is read before its chunks are asked for."""
    match source:
        case Files(paths=paths):
            return (_file(path, str(path)) for path in _find(paths))
        case StandardInput():
            return iter([Document("standard input", None, functools.partial(_read_again, sys.stdin.buffer))])
        case StandardLibrary():
            library = _library()
            return (_file(path, path.relative_to(library).as_posix()) for path in _modules(library))
        case Planted() | Built():
            kind = type(source).__name__
            raise InputError(
                f"a source of kind {kind}", "documents of text", "use files, standard input or the standard library"
            )


def _find(paths: tuple[str, ...]) -> list[Path]:
    """The files that are meant, each once, sorted; what is hidden in a folder is not meant."""
    found: dict[Path, Path] = {}
    for path in paths:
        for each in _meant(path):
            found.setdefault(each.resolve(), each)
    if not found:
        raise InputError(f"{', '.join(paths) or 'no path'} holds no files", "a text to read", "check the paths")
    return sorted(found.values(), key=lambda path: path.as_posix())


def _meant(path: str) -> list[Path]:
    if Path(path).is_dir():
        return _within(Path(path))
    if Path(path).exists() or not glob.has_magic(path):
        file_size(Path(path))
        return [Path(path)]
    matches = [Path(match) for match in glob.glob(path, recursive=True)]  # noqa: PTH207  (a Path knows no absolute patterns)
    if not matches:
        raise InputError(f"nothing matches {path!r:.200}", "a file, a folder or a pattern", "check the path")
    return [match for match in matches if match.is_file()]


def _within(folder: Path) -> list[Path]:
    files: list[Path] = []
    for place, folders, names in os.walk(folder):
        folders[:] = [name for name in folders if not name.startswith(".")]
        files += [Path(place) / name for name in names if not name.startswith(".")]
    return [file for file in files if file.is_file()]


def _library() -> Path:
    return Path(sysconfig.get_path("stdlib"))


def _modules(library: Path) -> list[Path]:
    """Python files without tests, other people's packages and what differs from one build of Python to the next."""
    skipped = {"test", "tests", "idle_test", "site-packages", "dist-packages", "__pycache__"}
    files: list[Path] = []
    for place, folders, names in os.walk(library):
        folders[:] = [name for name in folders if name not in skipped and not name.startswith("config-")]
        files += [Path(place) / name for name in names if name.endswith(".py") and not name.startswith("_sysconfigdata")]
    if not files:
        raise InputError(f"no source text in {library}", "Python's standard library as files", "give files of your own")
    return sorted(files, key=lambda path: path.relative_to(library).as_posix())


def _file(path: Path, name: str) -> Document:
    size = file_size(path)
    return Document(name, None if path.suffix == ".gz" else size, functools.partial(_read_file, path))


def _read_file(path: Path) -> Iterator[bytes]:
    with open_file(path) as file:
        if path.suffix != ".gz":
            yield from _read(file)
            return
        try:
            with gzip.open(file) as unpacked:
                yield from _read(unpacked)
        except (EOFError, gzip.BadGzipFile, zlib.error) as reason:
            raise ModelFileError(f"{path} is damaged ({reason})", "a whole gzip file", "fetch it again") from None


def _read(file: Any) -> Iterator[bytes]:
    while chunk := file.read(CHUNK):
        yield chunk


def _read_again(stream: Any) -> Iterator[bytes]:
    copy = _copied(stream)
    copy.seek(0)
    return _read(copy)


@functools.cache
def _copied(stream: Any) -> Any:
    """A temporary file with all that a stream gives: it comes only once, and a tokenizer is learned before it is used."""
    copy = tempfile.TemporaryFile()  # noqa: SIM115  (read until the process ends, and gone then)
    atexit.register(copy.close)
    shutil.copyfileobj(stream, copy)
    return copy
