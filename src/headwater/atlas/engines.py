"""Who does the tasks of an atlas: threads here, or workers elsewhere. The files are the same."""

from collections.abc import Sequence
from concurrent.futures import ThreadPoolExecutor
from dataclasses import dataclass
from typing import Protocol, runtime_checkable

from headwater.atlas.order import Order
from headwater.atlas.tasks import Task, perform
from headwater.circuits.streamed.scan import Progress


@runtime_checkable
class Engine(Protocol):
    """Somebody who does tasks that do not need each other, in any order."""

    def run(self, order: Order, tasks: Sequence[Task], progress: Progress) -> None:
        """Do all of them; ``progress`` is told the share that is done."""
        ...


@dataclass(frozen=True)
class Local:
    """Threads of this process, each with a task; within a task, torch's own."""

    workers: int = 1

    def run(self, order: Order, tasks: Sequence[Task], progress: Progress) -> None:
        """Do all of them."""
        pool = ThreadPoolExecutor(self.workers)
        try:
            for number, _ in enumerate(pool.map(lambda task: perform(order, task), tasks)):
                progress((number + 1) / len(tasks))
        finally:
            pool.shutdown(cancel_futures=True)
