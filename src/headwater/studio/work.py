"""How questions are computed: in a few threads, one tab after the other, and not at all once nobody waits for them.

The event loop never computes. A lane has threads of its own, so that a search in an atlas does not wait for a model, and within a lane the tabs that ask take
turns: one that has sent fifty questions does not keep another one waiting for all of them.
"""

import asyncio
import threading
from collections import OrderedDict, deque
from collections.abc import Callable
from concurrent.futures import Future
from dataclasses import dataclass, field
from typing import Any, Generic, TypeVar

from fastapi import Request

from headwater.studio.errors import Gone, Refused
from headwater.studio.limits import SECONDS, WAITING, WAITING_OF_TAB

Answer = TypeVar("Answer")


class Stop:
    """Asked between two steps: raises once whoever asked has gone, or once it has taken too long."""

    def __init__(self) -> None:
        self._set = threading.Event()

    def __call__(self, *_: object) -> None:
        """Do nothing, or end here; also as a listener of progress."""
        if self._set.is_set():
            raise Gone

    def now(self) -> None:
        """Let the next step be the last."""
        self._set.set()


@dataclass
class _Job(Generic[Answer]):
    compute: Callable[[Stop], Answer]
    stop: Stop = field(default_factory=Stop)
    future: "Future[Answer]" = field(default_factory=Future[Any])


class Lane:
    """Some threads, and the questions that wait for them, tab by tab."""

    def __init__(self, name: str, threads: int) -> None:
        self._waiting: OrderedDict[str, deque[_Job[Any]]] = OrderedDict()
        self._there = threading.Condition()
        for number in range(threads):
            threading.Thread(target=self._work, name=f"{name}-{number}", daemon=True).start()

    def put(self, tab: str, job: _Job[Any]) -> None:
        """Let a question wait its turn."""
        with self._there:
            if self._is_full(tab):
                self._forget_cancelled()
            if self._is_full(tab):
                raise Refused(429, "too many questions that wait already", "fewer at once", "wait for some answers")
            self._waiting.setdefault(tab, deque()).append(job)
            self._there.notify()

    def _is_full(self, tab: str) -> bool:
        return len(self._waiting.get(tab, ())) >= WAITING_OF_TAB or sum(map(len, self._waiting.values())) >= WAITING

    def _forget_cancelled(self) -> None:
        """Let go of those for whom nobody waits any more; their places are others'."""
        for tab, jobs in list(self._waiting.items()):
            left = deque(job for job in jobs if not job.future.cancelled())
            self._waiting[tab] = left
            if not left:
                del self._waiting[tab]

    def _next(self) -> _Job[Any]:
        with self._there:
            while not self._waiting:
                self._there.wait()
            tab, jobs = self._waiting.popitem(last=False)
            job = jobs.popleft()
            if jobs:
                # Behind all others: everyone has a turn before it has its second.
                self._waiting[tab] = jobs
            return job

    def _work(self) -> None:
        while True:
            job = self._next()
            if not job.future.set_running_or_notify_cancel():
                continue
            try:
                job.future.set_result(job.compute(job.stop))
            except BaseException as error:  # noqa: BLE001  (it is raised again where somebody waits)
                job.future.set_exception(_bearable(error))
            # Or the last answer would stay in memory until the next question comes.
            del job


def _bearable(error: BaseException) -> Exception:
    """An error as an event loop can hand it on: a thread's exit, or a panic of a library, ends an answer and not the server."""
    if isinstance(error, MemoryError) or (isinstance(error, RuntimeError) and "allocate memory" in str(error)):
        return Refused(503, "more memory than there is", "a smaller question", "ask about a shorter text, or a smaller model")
    if isinstance(error, Exception) and not isinstance(error, StopIteration):
        return error
    told = RuntimeError(f"{type(error).__name__}: {error}")
    told.__cause__ = error
    return told


async def _left(request: Request) -> None:
    """Ends when whoever asked has gone."""
    while (await request.receive())["type"] != "http.disconnect":
        pass


class Desk:
    """All lanes of a studio."""

    def __init__(self, seconds: float = SECONDS) -> None:
        self.seconds = seconds
        # Models use all cores by themselves; two at once would only get in each other's way.
        self._lanes = {"model": Lane("model", 1), "search": Lane("search", 2), "files": Lane("files", 2)}

    def ahead(self, lane: str, compute: Callable[[Stop], object]) -> None:
        """Work on something for which nobody waits yet; what goes wrong is told to whoever asks for it."""
        self._lanes[lane].put("", _Job(compute))

    async def answer(self, request: Request, lane: str, compute: Callable[[Stop], Answer]) -> Answer:
        """What ``compute`` finds; given up when whoever asked has gone."""
        job: _Job[Answer] = _Job(compute)
        self._lanes[lane].put(request.headers.get("x-tab", "")[:64], job)
        wrapped, gone = asyncio.wrap_future(job.future), asyncio.ensure_future(_left(request))
        try:
            await asyncio.wait([wrapped, gone], timeout=self.seconds, return_when=asyncio.FIRST_COMPLETED)
            if wrapped.done():
                return wrapped.result()
            if gone.done():
                raise Gone
            given = f"a question of more than {self.seconds:g} s"
            raise Refused(504, given, "a smaller one", "ask for less, or use the command line")
        finally:
            gone.cancel()
            if not wrapped.done():
                job.stop.now()
                wrapped.cancel()
