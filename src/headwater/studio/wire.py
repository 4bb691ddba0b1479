"""One connection: how long it may take to say what it wants, and how many there may be."""

import asyncio
import time
from typing import Any, cast

from uvicorn.protocols.http.h11_impl import H11Protocol

from headwater.studio.errors import told
from headwater.studio.guard import HEADERS
from headwater.studio.limits import CONNECTIONS, HEAD_SECONDS


class Wire(H11Protocol):
    """As uvicorn has it, but nobody holds a place by sending half a request, and what is no HTTP is refused in our words."""

    since = 0.0
    """When it last said anything, or was answered."""
    _patience: asyncio.TimerHandle | None = None

    def connection_made(self, transport: asyncio.Transport) -> None:  # pyright: ignore[reportIncompatibleMethodOverride]
        """Somebody is there; where there are too many, whoever has been silent longest is not, any more."""
        super().connection_made(transport)
        self.since = time.monotonic()
        self._arm()
        if len(self.connections) > CONNECTIONS:
            every = cast(set[Wire], self.connections)
            min((each for each in every if each.is_idle), key=lambda each: each.since).transport.abort()

    def connection_lost(self, exc: Exception | None) -> None:
        """Nobody is there any more."""
        self._disarm()
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

    @property
    def is_idle(self) -> bool:
        """Whether nothing is being answered."""
        cycle = cast(Any, self.cycle)
        return cycle is None or cycle.response_complete

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

    def _arm(self) -> None:
        self._patience = self.loop.call_later(HEAD_SECONDS, self.transport.abort)

    def _disarm(self) -> None:
        if self._patience is not None:
            self._patience.cancel()
            self._patience = None
