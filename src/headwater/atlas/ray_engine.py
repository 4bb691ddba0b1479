"""Tasks of an atlas, done by Ray's workers: those of a cluster that is there, or processes on this machine."""

import logging
import re
import socket
from collections.abc import Generator, Iterator, Sequence
from contextlib import contextmanager
from dataclasses import dataclass
from functools import partial
from typing import Any

import torch

from headwater.atlas.engines import Doing, library, perform_away, until_seen, worker_lost
from headwater.atlas.order import Order
from headwater.atlas.tasks import Task
from headwater.errors import HeadwaterError, InputError

WAIT = 5.0
"""Seconds for a cluster to answer."""
TRIES = 3
"""How often a task is begun again whose worker died."""
AT_ONCE = 1000
"""Tasks that Ray is told of before some of them are done."""
STORE = 80 * 2**20
"""Bytes for values that workers share: Ray's least, since results are files."""


@dataclass(frozen=True)
class Ray:
    """The cluster at an address, such as ``10.0.0.1:6379``, ``ray://10.0.0.1:10001`` or ``auto``; without one, processes that end with the build."""

    address: str | None = None
    workers: int | None = None
    """On this machine; as many as torch has threads, if nothing is said."""

    def check(self) -> None:
        """Refuse an address at which nobody answers."""
        library("ray")
        if self.address is None or self.address == "auto":
            return
        place = re.fullmatch(r"(?:ray://)?([^:/]+):([0-9]{1,5})", self.address)
        try:
            if place is None:
                raise OSError("no such address")
            socket.create_connection((place[1], int(place[2])), WAIT).close()
        except (OSError, OverflowError) as reason:
            given = f"no Ray cluster answers at {self.address!r:.80} ({reason})"
            raise InputError(
                given, "an address such as 10.0.0.1:6379", "start one: ray start --head; or leave it out"
            ) from None

    @contextmanager
    def start(self, order: Order) -> Generator[Doing]:
        """Be ready until the block ends."""
        ray, mine = library("ray"), self.address is None
        size = {"num_cpus": self.workers or torch.get_num_threads(), "object_store_memory": STORE} if mine else {}
        try:
            context = ray.init(
                self.address or "local", include_dashboard=False if mine else None,
                log_to_driver=False, logging_level=logging.ERROR, **size,
            )  # fmt: skip
        except (ConnectionError, ValueError, RuntimeError) as reason:
            given = f"Ray does not start ({str(reason).splitlines()[0]:.160})"
            raise InputError(given, "a cluster that this machine is part of, or none", "check the address") from None
        with context:
            yield partial(_do, ray, order)


def _do(ray: Any, order: Order, tasks: Sequence[Task]) -> Iterator[Task]:
    gpus = 0 if order.device == "cpu" else 1
    worker, shared = ray.remote(max_retries=TRIES, num_cpus=1, num_gpus=gpus)(perform_away), ray.put(order)
    waiting, given = list(reversed(tasks)), dict[Any, Task]()
    try:
        while waiting or given:
            while waiting and len(given) < AT_ONCE:
                task = waiting.pop()
                given[worker.options(name=task.key(order)).remote(task, shared)] = task
            for done in ray.wait(list(given))[0]:
                task = given.pop(done)
                _result(ray, done, task)
                yield task
        until_seen(order, tasks)
    finally:
        for each in given:
            ray.cancel(each)


def _result(ray: Any, done: Any, task: Task) -> None:
    try:
        ray.get(done)
    except ray.exceptions.RayTaskError as error:
        # What Ray raises is a class of its own, made from ours.
        raise (error.cause if isinstance(error.cause, HeadwaterError | OSError) else error) from None
    except ray.exceptions.RayError as error:
        raise worker_lost(task, str(error).splitlines()[0]) from None
