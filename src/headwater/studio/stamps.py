"""Which files a thing is read from, and whether they are still those."""

from collections.abc import Iterable
from contextlib import suppress
from pathlib import Path
from stat import S_ISREG

Stamp = tuple[tuple[str, int, int, int, int], ...]


def stamp(paths: Iterable[Path]) -> Stamp:
    """Which files these are: name, inode, size, times of the last change of what is in them and of anything; what is not there is no part of it."""
    found: list[tuple[str, int, int, int, int]] = []
    for path in paths:
        with suppress(OSError):
            state = path.stat()
            if S_ISREG(state.st_mode):
                # What is in a file cannot change without the last of these, whatever is done to the others afterwards.
                found.append((str(path), state.st_ino, state.st_size, state.st_mtime_ns, state.st_ctime_ns))
    return tuple(found)


def bytes_in(paths: Iterable[Path]) -> int:
    """How large they are together."""
    return sum(size for _, _, size, _, _ in stamp(paths))


def model_files(path: Path) -> list[Path]:
    """The files that a model is read from; with a recipe beside them, the folder would be a training's and mean another model."""
    from headwater.model.sources import look

    return [*look(path).files, path / "recipe.toml"]


def atlas_files(path: Path) -> list[Path]:
    """The files of an atlas."""
    from headwater.atlas.manifest import MANIFEST

    return [path / MANIFEST, *sorted(each for each in path.rglob("*") if each.is_file() and each.name != MANIFEST)]


def corpus_files(path: Path) -> list[Path]:
    """The files of a text in tokens."""
    from headwater.text.corpus import FILES

    return [path / "manifest.json", *(path / name for name in FILES)]
