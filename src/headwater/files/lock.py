"""A folder that one process works in and no other."""

import os
import time
from collections.abc import Generator
from contextlib import contextmanager
from pathlib import Path
from stat import S_ISREG
from typing import IO

from headwater.errors import InputError

NAME = "lock"
TRIES, PAUSE = 10, 0.01
"""How often a folder is tried before it counts as in use: whoever only looks whether it is holds it for a moment too."""


@contextmanager
def held(folder: Path, needed: str) -> Generator[None]:
    """Keep every other process out of a folder until the block ends, however it ends; ``needed`` says why, to whoever comes second."""
    import fcntl

    folder.mkdir(parents=True, exist_ok=True)
    with (folder / NAME).open("a+") as file:
        if not any(_taken(file, fcntl.LOCK_EX, pause) for pause in (0.0, *(TRIES - 1) * (PAUSE,))):
            file.seek(0)
            given = f"{folder} is in use by process {file.read().strip() or 'unknown'}"
            raise InputError(given, needed, "wait for it, or give another --out")
        file.truncate(0)
        file.write(str(os.getpid()))
        file.flush()
        yield


def is_held(folder: Path) -> bool:
    """Whether a process that lives keeps others out of a folder; what one that was killed has left there does not count."""
    import fcntl

    try:
        # A pipe in its place would be waited for until somebody writes into it.
        number = os.open(folder / NAME, os.O_RDONLY | os.O_NONBLOCK)
        with os.fdopen(number) as file:
            return S_ISREG(os.fstat(number).st_mode) and not _taken(file, fcntl.LOCK_SH)
    except OSError:
        return False


def _taken(file: IO[str], how: int, pause: float = 0.0) -> bool:
    """Whether the lock could be had at once, after a pause; it is let go of when the file is closed."""
    import fcntl

    time.sleep(pause)
    try:
        fcntl.flock(file, how | fcntl.LOCK_NB)
    except BlockingIOError:
        return False
    return True
