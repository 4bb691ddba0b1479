"""How questions are computed: in a few threads, one tab after the other, and not at all once nobody waits for them.

The event loop never computes. A lane has threads of its own, so that a search in an atlas does not wait for a model, and within a lane the tabs that ask take
turns: one that has sent fifty questions does not keep another one waiting for all of them.
"""

import asyncio
import threading
import time
from collections import OrderedDict, deque
from collections.abc import Callable, Generator
from concurrent.futures import Future
from contextlib import contextmanager
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
        self._lock = threading.Lock()
        self._ends: list[Callable[[], object]] = []

    def __call__(self, *_: object) -> None:
        """Do nothing, or end here; also as a listener of progress."""
        if self._set.is_set():
            raise Gone

    def now(self) -> None:
        """Let the next step be the last."""
        self._set.set()
        with self._lock:
            for end in self._ends:
                end()

    @contextmanager
    def calling(self, end: Callable[[], object]) -> Generator[None]:
        """Have ``end`` called too, while this lasts: for a library that takes long and asks nobody whether it should go on."""
        with self._lock:
            self._ends.append(end)
        try:
            self()
            yield
        except Exception:
            # What has been ended fails in its own words; nobody is left to read them.
            self()
            raise
        finally:
            with self._lock:
                self._ends.remove(end)


@dataclass(eq=False)
class _Job(Generic[Answer]):
    compute: Callable[[Stop], Answer]
    stop: Stop = field(default_factory=Stop)
    future: "Future[Answer]" = field(default_factory=Future[Any])


class Lane:
    """Some threads, and the questions that wait for them, tab by tab."""

    def __init__(self, name: str, threads: int) -> None:
        self._waiting: OrderedDict[str, deque[_Job[Any]]] = OrderedDict()
        self._running: list[_Job[Any]] = []
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
            self._running.append(job)
            return job

    def _work(self) -> None:
        while True:
            job = self._next()
            if job.future.set_running_or_notify_cancel():
                try:
                    job.future.set_result(job.compute(job.stop))
                except BaseException as error:  # noqa: BLE001  (it is raised again where somebody waits)
                    job.future.set_exception(_bearable(error))
            with self._there:
                self._running.remove(job)
                self._there.notify_all()
            # Or the last answer would stay in memory until the next question comes.
            del job

    def rest(self, deadline: float) -> bool:
        """Begin nothing more, and end what can be ended; whether nothing is being worked on by then."""
        with self._there:
            self._waiting.clear()
            for job in self._running:
                job.stop.now()
            return self._there.wait_for(lambda: not self._running, max(0.0, deadline - time.monotonic()))


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
        self.seconds, self.is_closed = seconds, False
        self._asking: set[asyncio.Future[None]] = set()
        # Models use all cores by themselves; two at once would only get in each other's way.
        self._lanes = {"model": Lane("model", 1), "search": Lane("search", 2), "files": Lane("files", 2)}

    def ahead(self, lane: str, compute: Callable[[Stop], object]) -> None:
        """Work on something for which nobody waits yet; what goes wrong is told to whoever asks for it."""
        self._lanes[lane].put("", _Job(compute))

    async def answer(self, request: Request, lane: str, compute: Callable[[Stop], Answer]) -> Answer:
        """What ``compute`` finds; given up when whoever asked has gone."""
        if self.is_closed:
            raise _closed()
        job: _Job[Answer] = _Job(compute)
        self._lanes[lane].put(request.headers.get("x-tab", "")[:64], job)
        wrapped, gone = asyncio.wrap_future(job.future), asyncio.ensure_future(_left(request))
        self._asking.add(gone)
        try:
            await asyncio.wait([wrapped, gone], timeout=self.seconds, return_when=asyncio.FIRST_COMPLETED)
            if wrapped.done():
                return wrapped.result()
            if gone.done():
                raise _closed() if self.is_closed else Gone
            given = f"a question of more than {self.seconds:g} s"
            raise Refused(504, given, "a smaller one", "ask for less, or use the command line")
        finally:
            self._asking.discard(gone)
            gone.cancel()
            if not wrapped.done():
                job.stop.now()
                wrapped.cancel()

    def close(self) -> None:
        """Tell everybody who waits that the studio ends; in the event loop's own thread."""
        self.is_closed = True
        for gone in list(self._asking):
            gone.cancel()

    def rest(self, seconds: float) -> bool:
        """End all work; whether none is left after some seconds. Python must not end under a library that computes: that is a crash."""
        deadline = time.monotonic() + seconds
        return all([lane.rest(deadline) for lane in self._lanes.values()])  # noqa: C419  (every one, also after one that does not)


def _closed() -> Refused:
    return Refused(503, "a studio that is being ended", "one that runs", "start it again")
