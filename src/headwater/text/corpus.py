"""``Corpus``: a text in tokens, on disk, with the counts of what stands in it."""

import hashlib
import json
import platform
from collections.abc import Callable, Iterator
from contextlib import ExitStack
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import numpy as np
from jaxtyping import Int64, UInt, UInt32
from numpy import ndarray
from numpy.typing import NDArray

from headwater.errors import HeadwaterError, InputError, ModelFileError
from headwater.files.atomic import new_folder, write_file
from headwater.files.plain import file_size, open_file, read_json
from headwater.settings import from_plain, setting, to_plain
from headwater.text.counts import RECORD, Counter
from headwater.text.encoding import Piece, divide, pieces, planted_pieces
from headwater.text.sources import Built, Files, Planted, StandardInput, StandardLibrary, TextSource
from headwater.text.tokenizer import Tokenizer, read_tokenizer

FORMAT = "headwater-corpus/1"
PIECE = 2**24
"""Bytes that are read at a time."""
FILES = ("train.bin", "held_out.bin", "unigrams.bin", "bigrams.bin", "tokenizer.json")

Progress = Callable[[int, int | None], Any]
"""Called with the bytes of text that are done, and those that there are where that is known."""


@setting
class Part:
    """How much there is to train on, or to evaluate on."""

    tokens: int = 0
    bytes: int = 0
    passages: int = 0


@setting
class StoredFile:
    """A file of the corpus, as it was written."""

    name: str
    bytes: int
    sha256: str


@setting
class Manifest:
    """What a corpus says about itself, in ``manifest.json``."""

    format: str
    source: Files | StandardInput | StandardLibrary | Planted | Built
    tokenizer: str
    """The hash of its ``tokenizer.json``."""
    vocab: int
    share: float
    seed: int
    documents: int
    train: Part
    held_out: Part
    files: tuple[StoredFile, ...]
    python: str | None = None
    """Whose standard library was read, where one was."""


@dataclass(frozen=True)
class Bigrams:
    """The pairs of neighbours that occur, sorted by ``first`` and then ``second``, and how often each does."""

    first: UInt32[ndarray, " pair"]
    second: UInt32[ndarray, " pair"]
    count: Int64[ndarray, " pair"]


@dataclass(frozen=True)
class Corpus:
    """A text in tokens. Once it is opened, the ids are mapped from disk: they take no memory until they are looked at."""

    folder: Path
    manifest: Manifest
    tokenizer: Tokenizer
    train: UInt[ndarray, " train"]
    held_out: UInt[ndarray, " held_out"]
    unigrams: Int64[ndarray, " vocab"]
    """How often each token stands in ``train``."""
    bigrams: Bigrams
    """How often each pair of neighbours stands in ``train``."""

    @property
    def vocab(self) -> int:
        """How many tokens there are."""
        return self.tokenizer.size


def build_corpus(  # noqa: PLR0913  (what, with what, where to, and how it is split)
    source: TextSource,
    tokenizer: Tokenizer,
    folder: str | Path,
    *,
    held_out: float = 0.05,
    seed: int = 0,
    overwrite: bool = False,
    progress: Progress = lambda done, total: None,
) -> Corpus:
    """Encode a source into a new folder, a little at a time; ``held_out`` is the share that is not trained on.

    Whole passages are held out, by lots drawn from their content: equal passages are never on both sides.
    """
    if isinstance(source, Built):
        raise InputError(f"{source.folder} is a corpus already", "a text", "open it with open_corpus")
    if not 0 <= held_out < 1:
        raise InputError(f"held_out is {held_out}", "a share from 0 to below 1", "change held_out")
    if not 0 <= seed < 2**62:
        raise InputError(f"the seed {seed}", "a whole number from 0 to 2⁶² − 1", "change the seed")
    with new_folder(Path(folder), overwrite=overwrite, ours=(*FILES, "manifest.json")) as place, ExitStack() as files:
        writer = _Writer(place, tokenizer, files)
        for done, total, piece in _told(source, tokenizer, held_out, seed):
            writer.add(piece)
            progress(done, total)
        _check_parts(writer, held_out)
        manifest = writer.finish(source, held_out, seed)
        write_file(place / "manifest.json", json.dumps(to_plain(manifest), indent=2, ensure_ascii=False).encode() + b"\n")
    return open_corpus(folder)


def _told(source: TextSource, tokenizer: Tokenizer, share: float, seed: int) -> Iterator[tuple[int, int | None, Piece]]:
    """The pieces of a source, each with the bytes that are done by then and those that there are."""
    if isinstance(source, Planted):
        stream, total = planted_pieces(source, tokenizer, share, seed), None
    else:
        division = divide(source, tokenizer, share, seed)
        stream, total = pieces(source, tokenizer, division), division.bytes
    done = 0
    for piece in stream:
        done += piece.bytes
        yield done, total, piece


def _check_parts(writer: "_Writer", share: float) -> None:
    train, held_out = writer.train, writer.held_out
    if not train.tokens + held_out.tokens:
        raise InputError("a source without any text", "some text", "give another source")
    if not train.tokens or (share and not held_out.tokens):
        given = f"a text too short to hold out a share of {share:g}"
        raise InputError(given, "several documents, or a longer one", "give more text, or hold out 0")


class _PartWriter:
    """One part's file while it grows."""

    def __init__(self, file: Any, dtype: np.dtype[Any]) -> None:
        self._file, self._dtype = file, dtype
        self.tokens = self.bytes = self.passages = 0

    def add(self, piece: Piece) -> None:
        self._file.write(piece.ids.astype(self._dtype).tobytes())
        self.tokens += len(piece.ids)
        self.bytes += piece.bytes
        self.passages += 1

    def finish(self) -> Part:
        self._file.close()
        return Part(tokens=self.tokens, bytes=self.bytes, passages=self.passages)


class _Writer:
    """The files of a corpus while they grow."""

    def __init__(self, place: Path, tokenizer: Tokenizer, files: ExitStack) -> None:
        self._place, self._tokenizer = place, tokenizer
        self._counter = Counter(tokenizer.size, place)
        self._documents = 0
        self.train, self.held_out = (
            _PartWriter(files.enter_context((place / name).open("wb")), _dtype(tokenizer.size)) for name in FILES[:2]
        )

    def add(self, piece: Piece) -> None:
        if len(piece.ids) and piece.ids.max() >= self._tokenizer.size:
            raise ModelFileError("the tokenizer gives ids that it does not have", "a sound tokenizer", "use another one")
        self._documents += piece.begins
        if piece.is_held_out:
            self.held_out.add(piece)
        else:
            self.train.add(piece)
            self._counter.add(piece.ids)

    def finish(self, source: TextSource, share: float, seed: int) -> Manifest:
        train, held_out = self.train.finish(), self.held_out.finish()
        self._counter.unigrams.astype("<i8").tofile(self._place / "unigrams.bin")
        self._counter.write_bigrams(self._place / "bigrams.bin")
        (self._place / "tokenizer.json").write_bytes(self._tokenizer.to_json())
        return Manifest(
            format=FORMAT,
            source=source,
            tokenizer=self._tokenizer.sha256,
            vocab=self._tokenizer.size,
            share=share,
            seed=seed,
            documents=self._documents,
            train=train,
            held_out=held_out,
            files=tuple(_stored(self._place / name) for name in FILES),
            python=platform.python_version() if isinstance(source, StandardLibrary) else None,
        )


def open_corpus(folder: str | Path, *, verify: bool = False) -> Corpus:
    """The corpus in a folder, once its files are found to be whole; with ``verify`` every byte of them is read and compared."""
    folder = Path(folder)
    manifest = _read_manifest(folder)
    for file in manifest.files:
        _check_file(folder, file, verify=verify)
    return _corpus(folder, manifest, lambda file, dtype: _map(folder / file.name, dtype))


def read_corpus(folder: Path, pause: Callable[[], object] = lambda: None) -> Corpus:
    """The same in memory, each byte compared with its hash as it is read: whatever becomes of the files later, it stays what it is.

    ``pause`` is called now and then while it is read, and may end it by an error.
    """
    found = _corpus(folder, _read_manifest(folder), lambda file, dtype: np.frombuffer(_whole(folder, file, pause), dtype))
    for ids in (found.train, found.held_out, found.bigrams.first, found.bigrams.second):
        if len(ids) and ids.max() >= found.vocab:
            raise ModelFileError(f"{folder} holds ids that its tokenizer does not have", "a sound corpus", "build it again")
    return found


def _read_manifest(folder: Path) -> Manifest:
    plain = read_json(folder / "manifest.json")
    if plain.get("format") != FORMAT:
        raise ModelFileError(f"{folder} has the format {plain.get('format')!r:.40}", FORMAT, "build the corpus again")
    try:
        manifest = from_plain(Manifest, plain)
    except HeadwaterError as error:
        raise error.within(str(folder / "manifest.json")) from None
    if tuple(file.name for file in manifest.files) != FILES:
        raise ModelFileError(f"{folder}'s manifest lists other files", ", ".join(FILES), "build the corpus again")
    return manifest


def _corpus(folder: Path, manifest: Manifest, read: Callable[[StoredFile, np.dtype[Any]], NDArray[Any]]) -> Corpus:
    tokenizer = read_tokenizer(folder / "tokenizer.json")
    if (tokenizer.sha256, tokenizer.size) != (manifest.tokenizer, manifest.vocab):
        raise ModelFileError(f"{folder}'s tokenizer was changed", "the one its ids were made with", "build the corpus again")
    ids, whole = _dtype(manifest.vocab), np.dtype("<i8")
    lengths = {"train.bin": manifest.train.tokens, "held_out.bin": manifest.held_out.tokens, "unigrams.bin": manifest.vocab}
    numbers: dict[str, NDArray[Any]] = {}
    for file, dtype in zip(manifest.files, (ids, ids, whole, RECORD), strict=False):
        length = lengths.get(file.name)
        if file.bytes % dtype.itemsize or (length is not None and file.bytes != length * dtype.itemsize):
            given = f"{folder / file.name} has {file.bytes:,} bytes"
            raise ModelFileError(given, f"the {length or 'whole'} numbers its manifest tells of", "build it again")
        numbers[file.name] = read(file, dtype)
    train, held_out, unigrams, bigrams = numbers.values()
    return Corpus(
        folder=folder,
        manifest=manifest,
        tokenizer=tokenizer,
        train=train,
        held_out=held_out,
        unigrams=unigrams,
        bigrams=Bigrams(bigrams["first"], bigrams["second"], bigrams["count"]),
    )


def _check_file(folder: Path, file: StoredFile, *, verify: bool) -> None:
    # A file that is mapped and shorter than it was thought to be ends the process: its size is compared first.
    size = file_size(folder / file.name)
    if size != file.bytes:
        given = f"{folder / file.name} has {size:,} bytes"
        raise ModelFileError(given, f"the {file.bytes:,} it was written with", "build the corpus again")
    if verify and _stored(folder / file.name) != file:
        raise _was_changed(folder / file.name)


def _was_changed(path: Path) -> ModelFileError:
    return ModelFileError(f"{path} was changed", "the bytes it was written with", "build the corpus again")


def _whole(folder: Path, file: StoredFile, pause: Callable[[], object]) -> bytearray:
    """A file's bytes, as many as it was written with, and the very ones."""
    found, digest = bytearray(), hashlib.sha256()
    with open_file(folder / file.name) as opened:
        while piece := opened.read(min(PIECE, file.bytes + 1 - len(found))):
            pause()
            digest.update(piece)
            found += piece
    if (len(found), digest.hexdigest()) != (file.bytes, file.sha256):
        raise _was_changed(folder / file.name)
    return found


def _stored(path: Path) -> StoredFile:
    with open_file(path) as file:
        return StoredFile(name=path.name, bytes=file_size(path), sha256=hashlib.file_digest(file, "sha256").hexdigest())


def _map(path: Path, dtype: np.dtype[Any]) -> NDArray[Any]:
    # An empty file cannot be mapped.
    return np.memmap(path, dtype, "r") if file_size(path) else np.empty(0, dtype)


def _dtype(vocab: int) -> np.dtype[Any]:
    return np.dtype("<u2" if vocab <= 2**16 else "<u4")
