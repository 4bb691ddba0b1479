"""A training's log: read once, and on from where it ended, for everybody who asks about the training."""

import os
import sys
import threading
from collections.abc import Callable
from dataclasses import dataclass
from typing import IO, TYPE_CHECKING

from headwater.files.plain import open_file
from headwater.studio.errors import Refused
from headwater.studio.limits import LOG_BYTES
from headwater.studio.stamps import Stamp, stamp
from headwater.train.folder import log_lines
from headwater.train.history import Point, points_of, timed, tokens_of_an_update
from headwater.train.recipe import read_recipe

if TYPE_CHECKING:
    from headwater.train.folder import RunFolder
    from headwater.train.recipe import Recipe

PIECE = 4 * 2**20
"""Bytes that are read at a time; a line that is longer is none of a training."""
TAIL = 256
"""Bytes before the place that was read up to: where they are others, so is the log."""
POINT_BYTES = 300
"""That a point takes in memory, about."""


@dataclass(frozen=True)
class LogRead:
    """What a log has told by now."""

    recipe: "Recipe"
    points: tuple[Point, ...]
    """In the order of their steps."""
    beginnings: int
    """How often it has begun anew: another one was put in its place, or it was taken back."""
    is_whole: bool
    """Whether it was read to its end."""


class Log:
    """One log, for any number of threads."""

    __slots__ = ("_beginnings", "_inode", "_is_within", "_lock", "_points", "_read", "_recipe", "_stamp", "_tail", "folder")

    def __init__(self, folder: "RunFolder") -> None:
        self.folder = folder
        self._lock = threading.Lock()
        self._beginnings = 0
        self._recipe: Recipe | None = None
        self._stamp: Stamp = ()
        self._forget(None)

    def __sizeof__(self) -> int:
        """With all points, which are too many to ask each."""
        return object.__sizeof__(self) + POINT_BYTES * len(self._points)

    def read_on(self, pause: Callable[[], object] = lambda: None, most: int = sys.maxsize) -> LogRead:
        """Read what is new, at most so many pieces of it; ``pause`` is called after each, and may end it by an error."""
        for _ in range(most):
            with self._lock:
                recipe, has_more = self._settings(), self._piece()
                found = LogRead(recipe, self._points, self._beginnings, is_whole=not has_more)
            if not has_more:
                return found
            pause()
        return found  # pyright: ignore[reportPossiblyUnboundVariable]  (at least one piece is asked for)

    def _settings(self) -> "Recipe":
        """The recipe, read anew where it is another: the speeds of all points follow from it."""
        now = stamp([self.folder.recipe])
        if self._recipe is None or now != self._stamp:
            self._recipe, self._stamp = read_recipe(self.folder.recipe), now
            self._begin_anew(None)
        return self._recipe

    def _piece(self) -> bool:
        """Read some of it; whether there is more."""
        if not self.folder.log.exists():
            self._begin_anew(None)
            return False
        with open_file(self.folder.log) as file:
            state = os.fstat(file.fileno())
            if state.st_size > LOG_BYTES:
                given = f"a log of {state.st_size:,} bytes"
                raise Refused(413, given, f"at most {LOG_BYTES:,}", "read it by headwater.train.history")
            if state.st_ino != self._inode or state.st_size < self._read or not self._is_followed_by(file):
                self._begin_anew(state.st_ino)
            file.seek(self._read)
            data: bytes = file.read(PIECE)
        # What follows the last end of a line is not whole yet; where there is none in so much, it is none of ours.
        end = data.rfind(b"\n") + 1 or (PIECE if len(data) == PIECE else 0)
        self._take(data[:end])
        return len(data) == PIECE

    def _is_followed_by(self, file: IO[bytes]) -> bool:
        file.seek(self._read - len(self._tail))
        return file.read(len(self._tail)) == self._tail

    def _take(self, data: bytes) -> None:
        if data:
            lines = data[data.find(b"\n") + 1 :] if self._is_within else data
            self._is_within = not data.endswith(b"\n")
            self._read, self._tail = self._read + len(data), data[-TAIL:]
            self._add(points_of(log_lines(b"" if self._is_within else lines)))

    def _add(self, points: tuple[Point, ...]) -> None:
        assert self._recipe is not None, "it is read first"
        tokens, last = tokens_of_an_update(self._recipe), self._points[-1:]
        if points and last and points[0].step <= last[0].step:
            # Not in the order of their steps: the last of each step counts, and every speed may be another.
            every = {point.step: point for point in (*self._points, *points)}
            self._points = timed([every[step] for step in sorted(every)], tokens)
        elif points:
            self._points = (*self._points, *timed((*last, *points), tokens)[len(last) :])

    def _begin_anew(self, inode: int | None) -> None:
        self._beginnings += self._inode is not None
        self._forget(inode)

    def _forget(self, inode: int | None) -> None:
        self._inode = inode
        self._read, self._tail, self._is_within = 0, b"", False
        self._points: tuple[Point, ...] = ()
