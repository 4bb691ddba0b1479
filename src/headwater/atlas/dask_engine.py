"""Tasks of an atlas, done by Dask's workers: those of a cluster that is there, or processes on this machine."""

from collections.abc import Generator, Iterator, Sequence
from contextlib import contextmanager
from dataclasses import dataclass
from functools import partial
from typing import Any

import torch

from headwater.atlas.engines import Doing, library, perform_away, until_seen, worker_lost
from headwater.atlas.order import Order
from headwater.atlas.tasks import Task
from headwater.errors import InputError

WAIT = "5s"
"""For a scheduler to answer."""


@dataclass(frozen=True)
class Dask:
    """The cluster whose scheduler has an address, such as ``tcp://10.0.0.1:8786``; without one, a cluster of processes that ends with the build.

    A worker that dies is no loss: its task is given to another, until three have died of the same one.
    """

    address: str | None = None
    workers: int | None = None
    """Of a cluster on this machine; as many as torch has threads, if nothing is said."""

    def check(self) -> None:
        """Refuse an address at which no cluster can work."""
        library("distributed")
        if self.address is not None:
            with self._client():
                pass

    @contextmanager
    def start(self, order: Order) -> Generator[Doing]:
        """Be ready until the block ends."""
        with self._client() as client:
            yield partial(_do, client, order)

    @contextmanager
    def _client(self) -> Generator[Any]:
        distributed = library("distributed")
        if self.address is not None:
            with self._connected(distributed, self.address) as client:
                if not client.scheduler_info(n_workers=-1)["workers"]:
                    raise InputError(
                        f"the Dask cluster at {self.address} has no workers", "at least one", "start some: dask worker"
                    )
                yield client
            return
        processes = self.workers or torch.get_num_threads()
        # Dask would stop workers that take more than their share of memory; what a task takes is for the whole machine to bear.
        with (
            distributed.LocalCluster(
                n_workers=processes, threads_per_worker=1, dashboard_address="127.0.0.1:0", memory_limit=0
            ) as cluster,
            distributed.Client(cluster) as client,
        ):
            yield client

    @staticmethod
    def _connected(distributed: Any, address: str) -> Any:
        try:
            return distributed.Client(address, timeout=WAIT)
        except (OSError, ValueError, TypeError) as reason:
            given = f"no Dask scheduler answers at {address!r:.80} ({str(reason).splitlines()[0]:.120})"
            raise InputError(
                given, "an address such as tcp://10.0.0.1:8786", "start one: dask scheduler; or leave it out"
            ) from None


def _do(client: Any, order: Order, tasks: Sequence[Task]) -> Iterator[Task]:
    distributed = library("distributed")
    futures = client.map(perform_away, tasks, order=order, key=[task.key(order) for task in tasks])
    given = dict(zip(futures, tasks, strict=True))
    try:
        for done in distributed.as_completed(futures):
            try:
                done.result()
            except distributed.KilledWorker as lost:
                raise worker_lost(given[done], str(lost)) from None
            except distributed.CancelledError:
                raise InputError("the Dask cluster has gone", "one that stays", "the same command goes on") from None
            yield given[done]
        until_seen(order, tasks)
    finally:
        client.cancel(futures)
