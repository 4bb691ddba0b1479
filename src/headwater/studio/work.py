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
from headwater.studio.limits import SECONDS, WAITING

Answer = TypeVar("Answer")
EVERY = 0.05
"""Seconds between two looks at whether somebody is still there."""


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
            if sum(map(len, self._waiting.values())) >= WAITING:
                raise Refused(429, f"{WAITING} questions that wait already", "fewer at once", "wait for some answers")
            self._waiting.setdefault(tab, deque()).append(job)
            self._there.notify()

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
                job.future.set_exception(error)
            # Or the last answer would stay in memory until the next question comes.
            del job


class Desk:
    """All lanes of a studio."""

    def __init__(self, seconds: float = SECONDS) -> None:
        self.seconds = seconds
        # Models use all cores by themselves; two at once would only get in each other's way.
        self._lanes = {"model": Lane("model", 1), "search": Lane("search", 2), "files": Lane("files", 2)}

    async def answer(self, request: Request, lane: str, compute: Callable[[Stop], Answer]) -> Answer:
        """What ``compute`` finds; given up when whoever asked has gone."""
        job: _Job[Answer] = _Job(compute)
        self._lanes[lane].put(request.headers.get("x-tab", "")[:64], job)
        wrapped = asyncio.wrap_future(job.future)
        deadline = asyncio.get_running_loop().time() + self.seconds
        try:
            while not wrapped.done():
                await asyncio.wait([wrapped], timeout=EVERY)
                if not wrapped.done() and await request.is_disconnected():
                    raise Gone
                if not wrapped.done() and asyncio.get_running_loop().time() > deadline:
                    raise Refused(
                        504,
                        f"a question of more than {self.seconds:g} s",
                        "a smaller one",
                        "ask for less, or use the command line",
                    )
            return wrapped.result()
        finally:
            if not wrapped.done():
                job.stop.now()
                wrapped.cancel()
