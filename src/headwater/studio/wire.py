"""One connection: how long it may take to say what it wants, and how many there may be."""

import asyncio
import sys
import time
from contextlib import suppress
from functools import cache
from typing import Any, cast

from uvicorn.protocols.http.h11_impl import H11Protocol

from headwater.studio.errors import told
from headwater.studio.guard import HEADERS
from headwater.studio.limits import CONNECTIONS, DRAIN_SECONDS, HEAD_SECONDS


@cache
def room() -> int:
    """How many connections there may be. Each is a file to the system, of which a process has so many: half of them are for others."""
    try:
        import resource
    except ImportError:
        return CONNECTIONS
    limits = resource.getrlimit(resource.RLIMIT_NOFILE)
    soft, hard = (sys.maxsize if each == resource.RLIM_INFINITY else each for each in limits)
    wanted = min(4 * CONNECTIONS, hard)
    if soft < wanted:
        with suppress(OSError, ValueError):
            resource.setrlimit(resource.RLIMIT_NOFILE, (wanted, limits[1]))
            soft = wanted
    return min(CONNECTIONS, soft // 2)


class Wire(H11Protocol):
    """As uvicorn has it, but nobody holds a place by sending half a request or by taking no answer, and what is no HTTP is refused in our words."""

    since = 0.0
    """When it last said anything, or was answered."""
    is_let_go = False
    """Whether its place is another's already: that it is closed is noticed a moment later."""
    _patience: asyncio.TimerHandle | None = None
    _full: float | None = None
    """Since when more waits to be sent than there is room for."""
    _drain: asyncio.TimerHandle | None = None

    def connection_made(self, transport: asyncio.Transport) -> None:  # pyright: ignore[reportIncompatibleMethodOverride]
        """Somebody is there; where there are too many, whoever has been silent longest is not, any more."""
        super().connection_made(transport)
        self.since = time.monotonic()
        self._arm()
        every = [each for each in cast(set[Wire], self.connections) if not each.is_let_go]
        if len(every) > room():
            least = min((each for each in every if each.is_idle or each.is_full), key=lambda each: each.quiet)
            least.is_let_go = True
            least.transport.abort()

    def connection_lost(self, exc: Exception | None) -> None:
        """Nobody is there any more."""
        self._disarm()
        self._drained()
        super().connection_lost(exc)

    def data_received(self, data: bytes) -> None:
        """A piece of a request; once all of its head is there, it is somebody's turn to answer."""
        super().data_received(data)
        self.since = time.monotonic()
        if not self.is_idle:
            self._disarm()
        elif self._patience is None:
            self._arm()

    def on_response_complete(self) -> None:
        """An answer has been sent."""
        self.since = time.monotonic()
        super().on_response_complete()

    def pause_writing(self) -> None:
        """There is no room for more of an answer until somebody takes some of it."""
        super().pause_writing()
        self._full = time.monotonic()
        self._wait_for_less_than(self.transport.get_write_buffer_size())

    def resume_writing(self) -> None:
        """Somebody has."""
        self._drained()
        super().resume_writing()

    @property
    def is_idle(self) -> bool:
        """Whether nothing is being answered."""
        cycle = cast(Any, self.cycle)
        return cycle is None or cycle.response_complete

    @property
    def is_full(self) -> bool:
        """Whether an answer waits for somebody to take it."""
        return self._full is not None

    @property
    def quiet(self) -> float:
        """Since when nothing is heard from the other side."""
        return self.since if self._full is None else self._full

    def send_400_response(self, msg: str) -> None:
        """What is no HTTP, or too long: refused as everything else is."""
        import h11

        answer = told(400, f"no request ({msg})", "HTTP/1.1 within its limits", "ask for less, or otherwise")
        named = {**HEADERS, "content-type": "application/json", "cache-control": "no-store", "connection": "close"}
        headers = [(name.encode(), value.encode()) for name, value in named.items()]
        if self.conn.our_state is h11.IDLE or self.conn.our_state is h11.SEND_RESPONSE:
            for event in (
                h11.Response(status_code=400, headers=headers, reason=b"Bad Request"),
                h11.Data(data=bytes(answer.body)),
                h11.EndOfMessage(),
            ):
                self.transport.write(self.conn.send(event) or b"")
        self.transport.close()

    def _unsupported_upgrade_warning(self) -> None:
        """Nothing: another protocol is answered as if it had not been asked for, and whoever asks shall not fill a terminal."""

    def _wait_for_less_than(self, left: int) -> None:
        """Some patience with whoever takes an answer slowly, and none with whoever takes nothing of it."""

        def look() -> None:
            now = self.transport.get_write_buffer_size()
            if now < left:
                self._wait_for_less_than(now)
            else:
                self.transport.abort()

        self._drain = self.loop.call_later(DRAIN_SECONDS, look)

    def _drained(self) -> None:
        self._full = None
        if self._drain is not None:
            self._drain.cancel()
            self._drain = None

    def _arm(self) -> None:
        self._patience = self.loop.call_later(HEAD_SECONDS, self.transport.abort)

    def _disarm(self) -> None:
        if self._patience is not None:
            self._patience.cancel()
            self._patience = None
