"""News of a training while it trains: its folder is looked at a few times a second, and what is new is told."""

import asyncio
import os
from collections.abc import AsyncGenerator
from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Any

from fastapi import Request
from fastapi.responses import Response, StreamingResponse
from starlette.types import Receive, Scope, Send

from headwater.errors import HeadwaterError
from headwater.studio.asked import Answer, memory
from headwater.studio.errors import Refused
from headwater.studio.limits import FOLLOWERS
from headwater.studio.training_told import Curve, StateTold

if TYPE_CHECKING:
    from headwater.train.folder import RunFolder
    from headwater.train.history import History, Point
    from headwater.train.recipe import Recipe

EVERY = 0.3
"""Seconds between two looks at a folder."""
HEARTBEAT = 15.0
"""Seconds after which something is sent, so that whatever stands in between does not take the connection for dead."""
LONGEST = 3_600.0
"""Seconds that one connection lasts at the most; whoever still wants to know asks again."""
AT_ONCE = 2_000
"""Points in one piece of news."""
LIVE: dict[int | str, dict[str, Any]] = {
    200: {
        "description": "Server-sent events, each with data in JSON: where the training stands (state), and what is new: points of the curve, "
        "steps of snapshots, whether the log was rewound, whether it has ended.",
        "content": {"text/event-stream": {"schema": {"type": "string"}}},
    }
}


class News(Answer):
    """What is new since the last news."""

    state: StateTold
    curve: Curve | None
    """New points."""
    snapshots: list[int] | None
    """All of them, where there are new ones."""
    rewound: bool
    """The log is another one: what was known of it has to be asked for anew."""
    ended: bool
    """Nothing more will come."""


@dataclass
class Follower:
    """One folder, and how much of it is known."""

    folder: "RunFolder"
    after: int
    _inode: int | None = None
    _read: int = 0
    """Bytes of the log that have been read."""
    _recent: "tuple[Point, ...]" = ()
    _snapshots: tuple[int, ...] | None = None
    _state: StateTold | None = None
    _recipe: "Recipe | None" = field(default=None)

    def look(self) -> News | None:
        """What is new, or None."""
        from headwater.train.history import LATELY, History

        running, has_model = self.folder.is_running(), self.folder.model.is_dir()
        points, rewound = self._points()
        self._recent = (*self._recent, *points)[-LATELY:]
        snapshots = tuple(step for step, _ in self.folder.snapshots())
        found = History(recipe=self._settings(), points=self._recent, running=running, has_model=has_model, snapshots=snapshots)
        return self._news(found, [point for point in points if point.step > self.after], rewound=rewound)

    def _news(self, found: "History", points: "list[Point]", *, rewound: bool) -> News | None:
        from headwater.train.history import thinned

        state = StateTold.of(found.state)
        new = found.snapshots if found.snapshots != self._snapshots else None
        if state == self._state and not points and new is None and not rewound:
            return None
        self._state, self._snapshots = state, found.snapshots
        self.after = max([-1 if rewound else self.after, *(point.step for point in points)])
        curve = Curve.of(thinned(points, AT_ONCE)) if points and not rewound else None
        ended = state.phase == "finished"
        return News(state=state, curve=curve, snapshots=None if new is None else list(new), rewound=rewound, ended=ended)

    def _points(self) -> "tuple[tuple[Point, ...], bool]":
        """Points that have been written since, and whether the log is no longer the one that they would have followed."""
        from headwater.train.folder import log_lines
        from headwater.train.history import points_of, timed, tokens_of_an_update

        try:
            with self.folder.log.open("rb") as file:
                state = os.fstat(file.fileno())
                replaced = self._inode is not None and (state.st_ino != self._inode or state.st_size < self._read)
                first = self._inode is None
                if replaced:
                    self._read, self._recent, self.after, self._recipe = 0, (), -1, None
                self._inode = state.st_ino
                file.seek(self._read)
                data = file.read(state.st_size - self._read)
        except FileNotFoundError:
            gone, self._inode, self._read = self._inode is not None, None, 0
            self._recent = () if gone else self._recent
            return (), gone
        whole = data[: data.rfind(b"\n") + 1]
        self._read += len(whole)
        points = points_of(log_lines(whole))
        behind = first and self.after > (points[-1].step if points else -1)
        before = self._recent[-1:]
        points = timed((*before, *points), tokens_of_an_update(self._settings()))[len(before) :]
        return points, replaced or behind

    def _settings(self) -> "Recipe":
        from headwater.train.recipe import read_recipe

        if self._recipe is None:
            self._recipe = read_recipe(self.folder.recipe)
        return self._recipe


async def _events(request: Request, follower: Follower) -> AsyncGenerator[str]:
    clock = asyncio.get_running_loop().time
    said, end = clock(), clock() + LONGEST
    while clock() < end and not await request.is_disconnected():
        try:
            news = await asyncio.to_thread(follower.look)
        except (HeadwaterError, OSError):
            # The folder has gone, or is no longer a training: whoever asks again is told so.
            return
        if news is not None:
            yield f"data: {news.model_dump_json()}\n\n"
            said = clock()
            if news.ended:
                return
        elif clock() - said > HEARTBEAT:
            yield ": still here\n\n"
            said = clock()
        await asyncio.sleep(EVERY)


class _Seated(StreamingResponse):
    """Gives its seat back however it ends, also where nobody has read a word of it."""

    media_type = "text/event-stream"

    def __init__(self, request: Request, content: AsyncGenerator[str]) -> None:
        super().__init__(content, headers={"cache-control": "no-store", "x-accel-buffering": "no"})
        self._memory = memory(request)
        self._memory.followers += 1

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        try:
            await super().__call__(scope, receive, send)
        finally:
            self._memory.followers -= 1


def followed(request: Request, folder: "RunFolder", after: int) -> Response:
    """News of a training, for as long as somebody listens and it has not ended."""
    if memory(request).followers >= FOLLOWERS:
        raise Refused(429, f"{FOLLOWERS} that follow a training already", "fewer at once", "close some of them")
    return _Seated(request, _events(request, Follower(folder, after)))
