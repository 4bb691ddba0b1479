"""Writing so that nothing is ever half there: a temporary name, fsync, rename, fsync of the folder."""

import ctypes
import errno
import os
import secrets
import shutil
from collections.abc import Collection, Generator
from contextlib import contextmanager
from pathlib import Path

from headwater.errors import InputError


def sync(path: Path) -> None:
    """Make a file's or folder's content durable."""
    descriptor = os.open(path, os.O_RDONLY)
    try:
        os.fsync(descriptor)
    finally:
        os.close(descriptor)


def write_file(path: Path, data: bytes) -> None:
    """Write a whole file: afterwards it has the old bytes or the new ones, never a mixture."""
    with new_file(path) as temporary:
        temporary.write_bytes(data)


@contextmanager
def new_file(path: Path) -> Generator[Path]:
    """A temporary file to fill, which becomes ``path`` when the block ends well and vanishes when it does not.

    A link, a device or a pipe is refused: what takes its place would not be what it leads to, and to ``/dev/stdout`` that is for good.
    """
    if path.is_symlink() or (path.exists() and not path.is_file()):
        raise InputError(f"{path} is a link, a folder or a device", "a file, or a new name", "choose another name")
    temporary = path.with_name(f".{path.name}.{secrets.token_hex(6)}.part")
    # Made with the rights of any new file: to ask for the umask is to change it, for all threads.
    temporary.touch(exist_ok=False)
    try:
        yield temporary
        sync(temporary)
        temporary.replace(path)
        sync(path.parent)
    except BaseException:
        temporary.unlink(missing_ok=True)
        raise


@contextmanager
def new_folder(path: Path, *, overwrite: bool = False, ours: Collection[str] = ()) -> Generator[Path]:
    """A temporary folder to fill, which becomes ``path`` when the block ends well and vanishes when it does not.

    An existing ``path`` is refused, or with ``overwrite`` swapped out once the new one is complete on disk; but only a folder that
    holds nothing besides files named in ``ours``, so that nobody's work goes with it.
    """
    path = path.absolute()
    _check_target(path, overwrite=overwrite, ours=ours)
    try:
        path.parent.mkdir(parents=True, exist_ok=True)
        temporary = path.with_name(f".{path.name[:80]}.{secrets.token_hex(6)}.part")
        # Made with the rights of any new folder: to ask for the umask is to change it, for all threads.
        temporary.mkdir()
        try:
            yield temporary
            for inner in [*temporary.rglob("*"), temporary]:
                sync(inner)
            _move_into_place(temporary, path)
            sync(path.parent)
        finally:
            shutil.rmtree(temporary, ignore_errors=True)
    except OSError as reason:
        raise InputError(
            f"{path} cannot be written ({reason})", "a place with room and rights", "choose another folder"
        ) from reason


def _check_target(path: Path, *, overwrite: bool, ours: Collection[str]) -> None:
    if not os.path.lexists(path):
        return
    if path.is_symlink() or not path.is_dir():
        raise InputError(f"{path.name} is a file or a link", "a new folder", "choose another name")
    if not overwrite:
        raise InputError(f"{path.name} is already there", "a new folder", "choose another name, or overwrite it explicitly")
    others = sorted(inner.name for inner in path.iterdir() if inner.name not in ours)
    if others:
        raise InputError(
            f"{path.name} holds {others[0]!r} too", f"a folder with nothing but {', '.join(ours)}", "move it away first"
        )


def _move_into_place(temporary: Path, path: Path) -> None:
    """Give the new folder its name; a folder that had the name before is left under the temporary one."""
    if not path.exists():
        temporary.rename(path)
    elif not _swap(temporary, path):
        # No swap on this system: between the two renames the old folder lies whole under a name that says what it is.
        aside = path.with_name(f".{path.name}.old-{os.getpid()}")
        path.rename(aside)
        try:
            temporary.rename(path)
        except OSError:
            aside.rename(path)
            raise
        aside.rename(temporary)


def _swap(one: Path, other: Path) -> bool:
    """Exchange two names in one step, where the system can (Linux, macOS); Python has no call of its own for it."""
    library, a, b = ctypes.CDLL(None, use_errno=True), os.fsencode(one), os.fsencode(other)
    swap, here, exchange = 2, -100, 2
    if hasattr(library, "renameat2"):
        failed = library.renameat2(here, a, here, b, exchange)
    elif hasattr(library, "renamex_np"):
        failed = library.renamex_np(a, b, swap)
    else:
        return False
    reason = ctypes.get_errno()
    if failed and reason not in (errno.ENOSYS, errno.EINVAL, errno.ENOTSUP):
        raise OSError(reason, os.strerror(reason))
    return not failed
