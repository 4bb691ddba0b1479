"""A folder that one process works in and no other."""

import os
from collections.abc import Generator
from contextlib import contextmanager
from pathlib import Path

from headwater.errors import InputError

NAME = "lock"


@contextmanager
def held(folder: Path, needed: str) -> Generator[None]:
    """Keep every other process out of a folder until the block ends, however it ends; ``needed`` says why, to whoever comes second."""
    import fcntl

    folder.mkdir(parents=True, exist_ok=True)
    with (folder / NAME).open("a+") as file:
        try:
            fcntl.flock(file, fcntl.LOCK_EX | fcntl.LOCK_NB)
        except BlockingIOError:
            file.seek(0)
            given = f"{folder} is in use by process {file.read().strip() or 'unknown'}"
            raise InputError(given, needed, "wait for it, or give another --out") from None
        file.truncate(0)
        file.write(str(os.getpid()))
        file.flush()
        yield
