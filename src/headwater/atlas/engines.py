"""Who does the tasks of an atlas: threads here, or workers elsewhere. The files are the same.

Whoever does a task does it with one thread of torch's: in which order numbers are added up, and so the last bit of their sum, depends on
how many there are. Several tasks at once use several processors.
"""

import functools
import importlib
import platform
import time
from collections.abc import Callable, Generator, Iterator, Sequence
from concurrent.futures import ThreadPoolExecutor, as_completed
from contextlib import AbstractContextManager, contextmanager
from dataclasses import dataclass
from typing import Any, Protocol, TypeAlias, runtime_checkable

import torch

from headwater.atlas.manifest import PLAN, libraries
from headwater.atlas.order import Order
from headwater.atlas.tasks import Task, perform
from headwater.errors import InputError, did_you_mean

Doing: TypeAlias = Callable[[Sequence[Task]], Iterator[Task]]
"""Does tasks that do not need each other, and yields each when it is done. The first error ends it, and no further task is begun."""
NAMES = ("local", "dask", "ray")
PATIENCE = 90.0
"""Seconds: NFS clients may believe for a minute that a file is not there."""


@runtime_checkable
class Engine(Protocol):
    """Somebody who does tasks."""

    def start(self, order: Order) -> AbstractContextManager[Doing]:
        """Be ready for the tasks of an order until the block ends."""
        ...


@dataclass(frozen=True)
class Local:
    """Threads of this process, each with a task."""

    workers: int | None = None
    """As many as torch has threads, if nothing is said."""

    @contextmanager
    def start(self, order: Order) -> Generator[Doing]:
        """Be ready until the block ends."""
        threads = torch.get_num_threads()
        pool = ThreadPoolExecutor(self.workers or threads, initializer=torch.set_num_threads, initargs=(1,))

        def do(tasks: Sequence[Task]) -> Iterator[Task]:
            given = {pool.submit(perform, order, task): task for task in tasks}
            for done in as_completed(given):
                done.result()
                yield given[done]

        try:
            yield do
        except BaseException:
            # A task cannot be stopped, and need not be waited for: what it writes is whole or not there.
            pool.shutdown(wait=False, cancel_futures=True)
            raise
        else:
            pool.shutdown()
        finally:
            # Threads that are made later would take it from those of the pool.
            torch.set_num_threads(threads)


def engine_named(name: str, address: str | None = None, workers: int | None = None) -> Engine:
    """The engine that a person asks for; one that cannot work is refused before anything is begun."""
    if name not in NAMES:
        raise InputError(f"an engine called {name!r:.80}", f"one of {', '.join(NAMES)}", did_you_mean(name, NAMES))
    if workers is not None and workers < 1:
        raise InputError(f"{workers} workers", "at least one", "ask for more, or leave it out")
    if name == "local":
        if address is not None:
            raise InputError(
                f"the address {address!r:.80} for threads of this process", "an engine that has one", "use dask or ray"
            )
        return Local(workers)
    if address is not None and workers is not None:
        raise InputError(f"{workers} workers at {address!r:.80}", "a cluster that has its own", "leave one of them out")
    # Neither library is asked for before it is needed.
    from headwater.atlas.dask_engine import Dask
    from headwater.atlas.ray_engine import Ray

    engine = (Dask if name == "dask" else Ray)(address, workers)
    engine.check()
    return engine


def library(name: str) -> Any:
    """The library that an engine is made with."""
    try:
        return importlib.import_module(name)
    except ImportError:
        raise InputError(
            f"{name} is not installed here", "the library of this engine", "pip install 'headwater[engines]'"
        ) from None


def perform_away(task: Task, order: Order) -> None:
    """What a worker does with a task that came over the network; the result is files."""
    here = platform.node()
    if not order.path(PLAN).exists():
        given = f"{order.folder} is not there on {here}"
        raise InputError(given, "a folder that all workers share", "build on shared storage, under the same path everywhere")
    others = sorted(set(order.plan.libraries) - set(_libraries()))
    if others:
        given = f"{here} does not have {', '.join(others)}"
        raise InputError(
            given, "the same versions on every machine", "install them there, and on whatever machine begins a build"
        )
    torch.set_num_threads(1)
    perform(order, task)


def until_seen(order: Order, tasks: Sequence[Task]) -> None:
    """Wait for the files of tasks that were done elsewhere: a network's file system may take its time to show them here."""
    deadline = time.monotonic() + PATIENCE
    while missing := [task for task in tasks if not task.is_done(order)]:
        if time.monotonic() > deadline:
            given = f"{missing[0].files(order)[0]} was written, but not to {order.folder} as it is seen here"
            raise InputError(
                given, "a folder that all machines share", "build on shared storage, under the same path everywhere"
            )
        time.sleep(0.1)


@functools.cache
def _libraries() -> list[str]:
    return [f"{name} {version}" for name, version in libraries().items()]


def worker_lost(task: Task, words: str) -> InputError:
    """A task whose workers died, one after the other."""
    given = f"{task.kind} of {task.name} from {task.first} on: every worker that began it was lost ({words:.160})"
    return InputError(
        given, "workers with enough memory that stay", "build with fewer --rows or fewer workers; the same command goes on"
    )
