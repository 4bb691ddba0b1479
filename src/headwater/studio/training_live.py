"""News of a training while it trains: its folder is looked at a few times a second, and what is new is told."""

import asyncio
from bisect import bisect_right
from collections.abc import AsyncGenerator, Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

from fastapi import Request
from fastapi.responses import Response, StreamingResponse
from starlette.types import Receive, Scope, Send

from headwater.errors import HeadwaterError
from headwater.studio.asked import Answer, memory
from headwater.studio.errors import Refused
from headwater.studio.limits import FOLLOWERS
from headwater.studio.training_told import Curve, StateTold
from headwater.studio.training_work import history

if TYPE_CHECKING:
    from headwater.studio.training_log import Log
    from headwater.train.history import History, Point

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
    """One log, and how much of it is known to whoever follows it."""

    log: "Log"
    after: int
    """The last step that is."""
    is_whole: bool = False
    """Whether the log was read to its end when it was last looked at."""
    _beginnings: int | None = None
    _snapshots: tuple[int, ...] | None = None
    _state: StateTold | None = None

    def look(self) -> News | None:
        """What is new, or None: also while a long log is still being read, some of it at each look."""
        found, log = history(self.log, lambda: None, most=1)
        self.is_whole = log.is_whole
        if not log.is_whole:
            return None
        last = found.points[-1].step if found.points else -1
        # The log is no longer the one that the news would follow; or somebody knows more than there is.
        rewound = self.after > last if self._beginnings is None else log.beginnings != self._beginnings
        self._beginnings = log.beginnings
        first = bisect_right(found.points, self.after, key=lambda point: point.step)
        self.after = last if rewound else max(self.after, last)
        return self._news(found, () if rewound else found.points[first:], rewound=rewound)

    def _news(self, found: "History", points: "Sequence[Point]", *, rewound: bool) -> News | None:
        from headwater.train.history import thinned

        state = StateTold.of(found.state)
        new = found.snapshots if found.snapshots != self._snapshots else None
        if state == self._state and not points and new is None and not rewound:
            return None
        self._state, self._snapshots = state, found.snapshots
        curve = Curve.of(thinned(points, AT_ONCE)) if points else None
        ended = state.phase == "finished"
        return News(state=state, curve=curve, snapshots=None if new is None else list(new), rewound=rewound, ended=ended)


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
        await asyncio.sleep(EVERY if follower.is_whole else 0)


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


def followed(request: Request, log: "Log", after: int) -> Response:
    """News of a training, for as long as somebody listens and it has not ended."""
    if memory(request).followers >= FOLLOWERS:
        raise Refused(429, f"{FOLLOWERS} that follow a training already", "fewer at once", "close some of them")
    return _Seated(request, _events(request, Follower(log, after)))
