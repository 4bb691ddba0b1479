"""Real Dask and Ray workers, some of them killed: the same bytes as threads here give."""

import os
import shutil
import signal
import subprocess
import sys
import threading
from contextlib import suppress
from pathlib import Path

import pytest

from headwater.atlas.build import build_atlas
from headwater.atlas.dask_engine import Dask
from headwater.atlas.engines import engine_named
from headwater.atlas.manifest import MANIFEST
from headwater.atlas.order import Order
from headwater.atlas.ray_engine import Ray
from headwater.atlas.tasks import Task, stages
from headwater.errors import InputError
from tiny_atlas import CHOSEN, begin, build_here, contents, save_corpus, save_model

pytestmark = [pytest.mark.engines, pytest.mark.timeout(600)]


@pytest.fixture(scope="module")
def place(tmp_path_factory):
    place = tmp_path_factory.mktemp("place")
    save_model(place / "model")
    save_corpus(place / "corpus")
    build_here(place, place / "whole")
    return place


@pytest.fixture(scope="module")
def whole(place):
    return contents(place / "whole")


@pytest.fixture
def order(place, tmp_path):
    return begin(place / "model", tmp_path / "atlas")


@pytest.fixture(autouse=True)
def ray_is_as_important_as_others(monkeypatch):
    """On a busy machine Ray's workers, left alone, would wait for all others."""
    monkeypatch.setenv("RAY_worker_niceness", "0")


class Killer:
    """Progress that kills a worker as soon as some tasks of a stage are done and others are being done."""

    def __init__(self, pids, at="seeks"):
        self.pids, self.at, self.killed = pids, at, []

    def __call__(self, what, share):
        if what == self.at and not self.killed:
            self.killed = self.pids()[:1]
            for pid in self.killed:
                os.kill(pid, signal.SIGKILL)


def dask_workers():
    import distributed

    return list(distributed.default_client().run(os.getpid).values())


def kill_a_ray_worker(killed, until):
    """Watch for a process of ours that does a task, and kill it."""
    import psutil

    while not (killed or until.is_set()):
        for process in psutil.Process().children(recursive=True):
            with suppress(psutil.Error):
                if "".join(process.cmdline()).startswith(("ray::says", "ray::own", "ray::seeks")):
                    process.kill()
                    killed.append(process.pid)
                    return


@pytest.fixture(scope="module")
def cluster():
    """A Dask cluster that is there already; of its two workers each does two tasks at once."""
    import distributed

    with distributed.LocalCluster(
        n_workers=2, threads_per_worker=2, dashboard_address="127.0.0.1:0", memory_limit=0
    ) as cluster:
        yield cluster.scheduler_address


def test_dask_here_with_a_worker_killed_gives_the_same_bytes(place, whole, tmp_path):
    killer = Killer(dask_workers)
    build_here(place, tmp_path / "atlas", engine=Dask(workers=2), progress=killer)
    assert len(killer.killed) == 1
    assert contents(tmp_path / "atlas") == whole


def test_a_dask_cluster_by_its_address_gives_the_same_bytes(place, whole, tmp_path, cluster):
    killer = Killer(dask_workers, at="said")
    build_here(place, tmp_path / "atlas", engine=engine_named("dask", cluster), progress=killer)
    assert len(killer.killed) == 1
    assert contents(tmp_path / "atlas") == whole


def test_dask_workers_notice_that_a_model_is_another_one_now(place, tmp_path, cluster):
    for seed in (0, 1):
        shutil.rmtree(tmp_path / "model", ignore_errors=True)
        save_model(tmp_path / "model", seed=seed)
        build_atlas(tmp_path / "model", tmp_path / f"{seed}", CHOSEN, engine=Dask(cluster))
        build_atlas(tmp_path / "model", tmp_path / f"{seed}-here", CHOSEN)
        assert contents(tmp_path / f"{seed}") == contents(tmp_path / f"{seed}-here")


def test_a_task_that_kills_every_worker_is_told_and_nothing_is_lost(place, whole, tmp_path):
    import dask

    killer = Killer(dask_workers)
    with dask.config.set({"distributed.scheduler.allowed-failures": 0}), pytest.raises(InputError, match="was lost"):
        build_here(place, tmp_path / "atlas", engine=Dask(workers=1), progress=killer)
    assert not (tmp_path / "atlas" / MANIFEST).exists()
    build_here(place, tmp_path / "atlas")
    assert contents(tmp_path / "atlas") == whole


def test_an_error_of_a_dask_worker_is_ours_and_ends_it(order, cluster):
    _ends_with_our_error(Dask(cluster), order)


def test_an_address_without_a_dask_cluster_is_refused_at_once():
    for address in ("tcp://127.0.0.1:1", "nonsense", "gopher://127.0.0.1:70"):
        with pytest.raises(InputError, match=f"no Dask scheduler answers at '{address}'"):
            engine_named("dask", address)


def test_a_dask_cluster_without_workers_is_refused():
    import distributed

    with (
        distributed.LocalCluster(n_workers=0, threads_per_worker=1, dashboard_address="127.0.0.1:0") as cluster,
        pytest.raises(InputError, match="no workers"),
    ):
        engine_named("dask", cluster.scheduler_address)


def test_ray_here_with_a_worker_killed_gives_the_same_bytes(place, whole, tmp_path):
    killed, until = [], threading.Event()
    killer = threading.Thread(target=kill_a_ray_worker, args=(killed, until))
    killer.start()
    try:
        build_here(place, tmp_path / "atlas", engine=engine_named("ray", None, 2))
    finally:
        until.set()
        killer.join()
    assert len(killed) == 1
    assert contents(tmp_path / "atlas") == whole


def test_an_error_of_a_ray_worker_is_ours_and_ends_it(order):
    _ends_with_our_error(Ray(workers=1), order)


def test_an_address_without_a_ray_cluster_is_refused_at_once():
    for address in ("127.0.0.1:1", "nonsense", "ray://127.0.0.1:1"):
        with pytest.raises(InputError, match=f"no Ray cluster answers at '{address}'"):
            engine_named("ray", address)


def test_the_command_builds_with_dask(place, whole, tmp_path):
    command = [sys.executable, "-m", "headwater", "atlas", "build", str(place / "model"), "--corpus", str(place / "corpus")]
    numbers = {"k": CHOSEN.k, "triples": CHOSEN.triples, "each": CHOSEN.each, "rows": CHOSEN.rows, "windows": CHOSEN.windows}
    options = [f"--{name}={value}" for name, value in numbers.items()]
    more = ["--out", str(tmp_path / "atlas"), "--engine", "dask", "--workers", "2"]
    done = subprocess.run([*command, *options, *more], capture_output=True, text=True, timeout=300, check=False)
    assert done.returncode == 0, done.stderr
    assert contents(tmp_path / "atlas") == whole


def _ends_with_our_error(engine, order: Order) -> None:
    first, *others = stages(order)[0]
    with engine.start(order) as do:
        assert list(do([first])) == [first]
        with pytest.raises(InputError) as told:
            list(do([Task("says", "L7H7"), *others]))
        assert type(told.value) is InputError
        assert "L7H7" in told.value.given
    assert first.is_done(order)
    assert not all(task.is_done(order) for task in others)


def test_nothing_of_ours_goes_on_afterwards():
    import psutil

    left = [process.cmdline() for process in psutil.Process().children(recursive=True) if process.is_running()]
    assert not [words for words in left if any("ray::" in word or "raylet" in Path(word).name for word in words)]
