"""``manifest.json``: the record that an atlas is finished, and what each of its files was when it was.

It is written last, and names rows, bytes and SHA-256 of every file and a hash of itself: no bit of an atlas can change unnoticed.
"""

import hashlib
import json
import platform
import re
from collections.abc import Iterator, Mapping, Sequence
from contextlib import suppress
from dataclasses import dataclass
from importlib.metadata import PackageNotFoundError, version
from pathlib import Path
from typing import Any, cast

from headwater.errors import ConfigError, InputError, ModelFileError
from headwater.files.atomic import write_file
from headwater.files.plain import open_file, parse_json, read_bytes
from headwater.files.tables import connect, damaged_if_refused, parquet
from headwater.settings import from_plain, setting, to_plain
from headwater.version import __version__

FORMAT = "headwater-atlas/1"
MANIFEST, PLAN, WORK = "manifest.json", "plan.json", ".work"
MOST_BYTES = 256 * 2**20
KEYS = {
    "bigrams": "token",
    "says": "source",
    "seeks": "dest",
    "sought": "source",
    "said": "out",
    "trigrams/by_source": "source",
    "trigrams/by_dest": "dest",
    "trigrams/by_out": "out",
}
"""What a table is sorted by first: of this column, a part's smallest and largest id are its ``first`` and ``last``."""
LIBRARIES = ("numpy", "torch", "duckdb", "numba")
"""Besides Headwater and Python: what numbers and bytes may depend on."""
_PATH = re.compile(r"[A-Za-z0-9_-][A-Za-z0-9_.-]*(/[A-Za-z0-9_-][A-Za-z0-9_.-]*)*")
LEFT = re.compile(r"\..+\.part|\.tmp[A-Za-z0-9]{6}")
"""What a write that is killed leaves behind: ours, or that of the safetensors library."""


@setting
class StoredFile:
    """A file of the atlas as it was written; ``rows``, ``first`` and ``last`` are for tables."""

    path: str
    bytes: int
    sha256: str
    rows: int | None = None
    first: int | None = None
    last: int | None = None

    def __post_init__(self) -> None:
        if not _PATH.fullmatch(self.path):
            raise ConfigError(f"a file called {self.path!r:.120}", "a path inside the atlas", "build the atlas again")
        if not re.fullmatch("[0-9a-f]{64}", self.sha256):
            raise ConfigError(f"{self.path} has the hash {self.sha256!r:.80}", "a SHA-256", "build the atlas again")

    @property
    def table(self) -> str | None:
        """The table that it is, or is a part of.

        >>> StoredFile(path="trigrams/by_out/007.parquet", bytes=1, sha256="0" * 64).table
        'trigrams/by_out'
        >>> StoredFile(path="says/L0H3.65536.parquet", bytes=1, sha256="0" * 64).table
        'says/L0H3'
        """
        return re.sub(r"([./][0-9]+)?\.parquet$", "", self.path) if self.path.endswith(".parquet") else None


@dataclass(frozen=True, kw_only=True)
class Manifest:
    """What an atlas is of, how it was made, and its files in the order of their paths."""

    format: str
    model: dict[str, Any]
    """``name``, ``sha256`` and ``config`` of the model."""
    settings: dict[str, Any]
    """Whatever changes numbers."""
    plan: dict[str, Any]
    """How the work was divided."""
    heads: tuple[str, ...]
    """Names; a head's number in tables is its place here."""
    vocab: int
    libraries: dict[str, str]
    files: tuple[StoredFile, ...]

    @property
    def tables(self) -> tuple[str, ...]:
        """The names of all tables: ``vocab``, ``says/L0H3``, ``trigrams/by_out`` …"""
        return tuple(dict.fromkeys(file.table for file in self.files if file.table is not None))

    def parts(self, table: str) -> tuple[StoredFile, ...]:
        """The files of a table, by rising ids; those without rows last."""
        found = [file for file in self.files if file.table == table]
        return tuple(sorted(found, key=lambda file: (file.first is None, file.first or 0, file.path)))

    @property
    def read_in(self) -> str:
        """The text that evidence is from, in words: held-out text unless somebody wanted the training text."""
        use: Any = self.plan.get("corpus")
        return "training text" if isinstance(use, dict) and use.get("part") == "train" else "held-out text"  # pyright: ignore[reportUnknownMemberType]

    def check_evidence(self, folder: Path, table: str) -> None:
        """Refuse an atlas without a table that comes from a text, with the reason."""
        if table in self.tables:
            return
        if not self.heads:
            raise InputError(f"{folder}, an atlas of a model without heads", "skip-trigrams", "choose another atlas")
        raise InputError(f"{folder}, which was held against no text", "an atlas with evidence", "build it with --corpus")

    def plain(self) -> dict[str, Any]:
        """As it stands in the file, but for the hash."""
        return {**vars(self), "heads": list(self.heads), "files": [to_plain(file) for file in self.files]}


def commit(
    folder: Path,
    *,
    model: Mapping[str, Any],
    settings: Mapping[str, Any],
    plan: Mapping[str, Any],
    heads: Sequence[str],
    vocab: int,
) -> Manifest:
    """Finish an atlas: hash every file that lies in its folder, write the manifest and remove what killed writes left behind."""
    for left in [path for path in folder.rglob(".*") if LEFT.fullmatch(path.name)]:
        left.unlink()
    with connect(folder) as database:
        files = tuple(_stored(folder, path, database) for path in sorted(paths_in(folder)) if _is_ours(path))
    manifest = Manifest(
        format=FORMAT,
        model=dict(model),
        settings=dict(settings),
        plan=dict(plan),
        heads=tuple(heads),
        vocab=vocab,
        libraries=libraries(),
        files=files,
    )
    write_file(folder / MANIFEST, written(manifest.plain()))
    return manifest


def _is_ours(path: str) -> bool:
    """Whether a file is part of an atlas: what systems leave in folders, such as .DS_Store, is not."""
    return path != MANIFEST and not Path(path).name.startswith(".")


def read_manifest(folder: Path) -> Manifest:
    """The manifest of a finished atlas, every bit of it as it was written."""
    check_is_there(folder)
    data = read_bytes(folder / MANIFEST, MOST_BYTES)
    plain = parse_json(data, MANIFEST)
    if plain.get("format") != FORMAT:
        given = f"{folder} has the format {plain.get('format')!r:.40}"
        raise ModelFileError(given, FORMAT, "use the Headwater that wrote it, or build the atlas again")
    plain.pop("sha256", None)
    # Compared as bytes: a number or a letter can be written in several ways, and only one of them is what we wrote.
    if written(plain) != data:
        raise ModelFileError(
            f"{folder / MANIFEST} does not have the hash that it names", "the file as it was written", "build the atlas again"
        )
    return _manifest(plain)


def check_is_there(folder: Path) -> None:
    """Refuse a folder without a manifest; where an atlas is being built, say how to go on."""
    if (folder / MANIFEST).exists():
        return
    if (folder / PLAN).exists():
        raise ModelFileError(
            f"{folder} is not finished", "an atlas with its manifest", "run the same headwater atlas build again: it goes on"
        )
    if folder.exists() and not folder.is_dir():
        raise ModelFileError(
            f"{folder} is a file", "the folder of an atlas", "give the folder that headwater atlas build wrote"
        )
    given = f"{folder} is no atlas" if folder.is_dir() else f"{folder} is not there"
    raise ModelFileError(given, f"a folder with {MANIFEST}", f"make one: headwater atlas build MODEL --out {folder}")


def paths_in(folder: Path) -> Iterator[str]:
    """Whatever lies in an atlas' folder, but for intermediate work; with ``/`` on every system."""
    paths = (path.relative_to(folder) for path in folder.rglob("*") if path.is_symlink() or not path.is_dir())
    return (path.as_posix() for path in paths if path.parts[0] != WORK)


def sha256_of(path: Path) -> str:
    """The hash of a whole file."""
    with open_file(path) as file:
        return hashlib.file_digest(file, "sha256").hexdigest()


def _manifest(plain: dict[str, Any]) -> Manifest:
    kinds = {"model": dict, "settings": dict, "plan": dict, "heads": list, "vocab": int, "libraries": dict, "files": list}
    if {name: type(value) for name, value in plain.items()} != {"format": str, **kinds}:
        raise ModelFileError(f"{MANIFEST} has {', '.join(plain)[:120]}", f"format, {', '.join(kinds)}", "build the atlas again")
    try:
        files = tuple(from_plain(StoredFile, file, f"files[{number}]") for number, file in enumerate(plain["files"]))
    except ConfigError as error:
        raise ModelFileError(f"{MANIFEST}: {error.given}", error.needed, "build the atlas again") from None
    paths = [file.path for file in files]
    if paths != sorted(set(paths)):
        raise ModelFileError(f"{MANIFEST} lists files out of order or twice", "each file once", "build the atlas again")
    parsed: dict[str, Any] = {**plain, "heads": tuple(map(str, plain["heads"])), "files": files}
    return Manifest(**parsed)


def written(plain: dict[str, Any]) -> bytes:
    """A manifest's bytes; the last of its keys is the hash of all the others."""
    digest = hashlib.sha256(json.dumps(plain, separators=(",", ":")).encode()).hexdigest()
    return json.dumps({**plain, "sha256": digest}, indent=1, ensure_ascii=False).encode() + b"\n"


def libraries() -> dict[str, str]:
    """The versions of what numbers and bytes may depend on."""
    found = {"headwater": __version__, "python": platform.python_version()}
    for library in LIBRARIES:
        with suppress(PackageNotFoundError):
            found[library] = version(library)
    return found


def _stored(folder: Path, path: str, database: Any) -> StoredFile:
    file = StoredFile(path=path, bytes=(folder / path).stat().st_size, sha256=sha256_of(folder / path))
    if file.table is None:
        return file
    key = KEYS.get(file.table, KEYS.get(file.table.split("/")[0]))
    bounds = f'min("{key}"), max("{key}")' if key else "NULL, NULL"
    with damaged_if_refused(folder / path):
        found = database.execute(f"FROM {parquet(folder / path)} SELECT count(*), {bounds}").fetchone()
    rows, first, last = cast(tuple[int, int | None, int | None], found)
    return StoredFile(path=path, bytes=file.bytes, sha256=file.sha256, rows=rows, first=first, last=last)
