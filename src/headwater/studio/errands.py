"""Work that takes minutes: a process of its own, whose lines become server-sent events, and which ends when nobody follows it.

The work stands in ``headwater.studio.errand``. Each line of JSON that it prints is one event; its last is ``{"done": …}``, or ``{"error": {given, needed, do}}``.
"""

import asyncio
import contextlib
import json
import os
import shutil
import signal
import sys
import tempfile
from asyncio.subprocess import PIPE, Process
from collections.abc import AsyncGenerator, Callable
from pathlib import Path
from typing import Any, TypeAlias

from fastapi import Request
from fastapi.responses import StreamingResponse
from starlette.types import Receive, Scope, Send

from headwater.errors import HeadwaterError
from headwater.studio.asked import memory
from headwater.studio.errors import Refused, nowhere, places_of

MODULE = "headwater.studio.errand"
AT_ONCE = 3
"""Errands of all kinds; each takes a core."""
HEARTBEAT = 15.0
"""Seconds of silence after which a comment is sent, so that nobody in between takes the connection for dead."""
LINE = 2**22
"""Bytes of one event."""
Event: TypeAlias = dict[str, Any]


def errand(
    request: Request,
    arguments: list[str],
    *,
    told: Callable[[Event], Event] = lambda event: event,
    ended: Callable[[], None] = lambda: None,
) -> StreamingResponse:
    """``python -P -m headwater.studio.errand ARGUMENTS``, followed: one event for each line.

    ``told`` makes of an event what is sent, as one that says where something was written becomes one that says by which id it is found. ``ended`` is called
    once, however it ends.
    """
    running = memory(request).errands
    if len(running) >= AT_ONCE:
        ended()
        raise Refused(429, f"{AT_ONCE} errands that are being done", "one that ends", "wait for it")
    places = places_of(request)
    return _Followed(running, arguments, lambda event: _nowhere(told(event), places), ended)


class _Followed(StreamingResponse):
    """An answer that holds a process, and lets go of it whatever becomes of the answer."""

    def __init__(
        self, running: set[object], arguments: list[str], told: Callable[[Event], Event], ended: Callable[[], None]
    ) -> None:
        super().__init__(self._events(), media_type="text/event-stream", headers={"cache-control": "no-store"})
        self._arguments, self._told, self._ended, self._running = arguments, told, ended, running
        self._process: Process | None = None
        self._folder: str | None = None
        """What it puts aside while it works: none of it outlives it, however it ends."""
        running.add(self)

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        """Send what is told, for as long as somebody is there."""
        sent, left = asyncio.ensure_future(self.stream_response(send)), asyncio.ensure_future(_gone(receive))
        try:
            await asyncio.wait({sent, left}, return_when=asyncio.FIRST_COMPLETED)
            if sent.done():
                sent.result()
        finally:
            for each in (sent, left):
                each.cancel()
            await _end(self._process)
            if self._folder is not None:
                await asyncio.to_thread(shutil.rmtree, self._folder, ignore_errors=True)
            self._running.discard(self)
            self._ended()

    async def _events(self) -> AsyncGenerator[str]:
        self._folder = tempfile.mkdtemp(prefix="headwater-errand-")
        self._process = await _started(self._arguments, self._folder)
        assert self._process.stdout is not None, "it is a pipe"
        last: Event = {}
        line = asyncio.ensure_future(self._process.stdout.readline())
        try:
            while True:
                if not (await asyncio.wait({line}, timeout=HEARTBEAT))[0]:
                    yield ": still here\n\n"
                    continue
                text = line.result()
                if not text:
                    break
                last = self._said(text)
                yield f"data: {json.dumps(last, ensure_ascii=False)}\n\n"
                line = asyncio.ensure_future(self._process.stdout.readline())
        finally:
            line.cancel()
        code = await self._process.wait()
        if not {"done", "error"} & last.keys():
            yield f"data: {json.dumps(_failed(f'work that ended before it was done (code {code})'))}\n\n"

    def _said(self, text: bytes) -> Event:
        try:
            found: Any = json.loads(text)
            return self._told(found)
        except HeadwaterError as error:
            return {"error": {"given": error.given, "needed": error.needed, "do": error.do}}
        except ValueError:
            return _failed("a line that is no JSON")


def _nowhere(event: Event, places: list[tuple[Path, str]]) -> Event:
    """An event whose error names no place of this machine."""
    return event if "error" not in event else {"error": {name: nowhere(said, places) for name, said in event["error"].items()}}


def _failed(given: str) -> Event:
    do = "see what it said where the studio was started, and try again"
    return {"error": {"given": given, "needed": "work that ends well", "do": do}}


async def _gone(receive: Receive) -> None:
    """Wait until whoever asked has left."""
    while (await receive())["type"] != "http.disconnect":
        pass


async def _started(arguments: list[str], folder: str) -> Process:
    """The process, in a group of its own. It says what is wrong on the studio's own stderr, and ends when the studio does: its stdin closes then.

    Neither it nor what it starts takes code from the folder that the studio was started in, where somebody else's files may lie.
    """
    import torch

    threads = str(torch.get_num_threads())
    environment = {**os.environ, "OMP_NUM_THREADS": threads, "PYTHONSAFEPATH": "1", "TMPDIR": folder}
    command = (sys.executable, "-P", "-m", MODULE, *arguments)
    return await asyncio.create_subprocess_exec(
        *command, stdin=PIPE, stdout=PIPE, env=environment, limit=LINE, start_new_session=True
    )


async def _end(process: Process | None) -> None:
    """The process and whatever it started; what it has begun, it takes up again another time."""
    if process is None:
        return
    with contextlib.suppress(ProcessLookupError, PermissionError):
        if hasattr(os, "killpg"):
            # Also when the first of the group has ended: others may still be there.
            os.killpg(process.pid, signal.SIGKILL)
        elif process.returncode is None:
            process.kill()
    await process.wait()
