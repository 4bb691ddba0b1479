"""What is disturbed: a training, an atlas, a corpus and a conversion, each by the command that people use, in a process of its own."""

import ctypes
import hashlib
import json
import multiprocessing
import os
import shutil
import signal
import sys
import time
from collections.abc import Callable
from dataclasses import dataclass
from multiprocessing.process import BaseProcess
from pathlib import Path

from tiny import tiny_recipe
from tiny_atlas import save_corpus, save_model

STEPS = ["training.steps=120", "keeping.checkpoint_every=7", "keeping.evaluate_every=20", "training.pieces=1"]
PRELOAD = ["jobs", "headwater.cli.main", "headwater.cli.train", "headwater.cli.atlas", "headwater.cli.corpus"]
PRELOAD += ["headwater.cli.convert", "headwater.train.run", "headwater.atlas.build", "duckdb", "numba"]
"""What takes its time to be imported: a process that has it loaded hands out copies of itself, and a disaster can come early."""
GONE_WELL, REFUSED, INTERRUPTED, TERMINATED = 0, 2, 130, 143
OPEN, WRITE, SYNC, RENAME = 1, 2, 3, 4
"""As faults.c counts them."""


@dataclass(frozen=True)
class Fault:
    """The n-th call of a kind in the folder that a job writes its own into goes wrong, once or from then on."""

    kind: int
    at: int
    error: int
    stays: bool


@dataclass(frozen=True)
class Job:
    """Something that leaves files in a folder, and can be asked for again whatever has happened to it."""

    name: str
    arguments: tuple[str, ...]
    """Of the command; ``OUT`` stands for the folder."""
    before: Path | None = None
    """What lies in the folder before: a result of other input, which is to be replaced as a whole or to stay."""

    def prepare(self, out: Path) -> None:
        """The folder as it is before the job."""
        shutil.rmtree(out, ignore_errors=True)
        if self.before:
            shutil.copytree(self.before, out)

    def start(self, out: Path, fault: Fault | None = None) -> BaseProcess:
        """The command, begun."""
        _beside(out, "begun").unlink(missing_ok=True)
        arguments = [str(out) if word == "OUT" else word for word in self.arguments]
        process = _processes().Process(target=_command, args=(arguments, out, fault))
        process.start()
        return process

    def finish(self, out: Path) -> int | None:
        """The command, undisturbed; its exit code."""
        process = self.start(out)
        process.join()
        return process.exitcode


def new_place(place: Path, name: str) -> Path:
    """A folder that is not there yet, in one that holds nothing else."""
    (place / name / "in").mkdir(parents=True)
    return place / name / "in" / "out"


def _beside(out: Path, name: str) -> Path:
    """What is noted of a process lies where no fault is."""
    return out.parents[1] / name


def wait_until_begun(process: BaseProcess, out: Path) -> None:
    """Until the command itself runs: what comes before is Python's own start."""
    while process.exitcode is None and not _beside(out, "begun").exists():
        time.sleep(0.002)


def said(out: Path) -> str:
    """All that the last command printed."""
    return _beside(out, "said").read_text(errors="replace")


def faults_counted(out: Path) -> tuple[int, bool]:
    """How many calls of the armed kind there were, and whether one went wrong."""
    count, happened = json.loads(_beside(out, "faults").read_text())
    return count, bool(happened)


def contents(folder: Path) -> dict[str, str]:
    """The hash of every file, but for who held the lock, and for times in a log."""
    return {
        path.relative_to(folder).as_posix(): _hash(path)
        for path in sorted(folder.rglob("*"))
        if path.is_file() and path.name != "lock"
    }


def _hash(path: Path) -> str:
    if path.name != "log.jsonl":
        return hashlib.sha256(path.read_bytes()).hexdigest()
    lines = [json.loads(line) for line in path.read_text().splitlines()]
    kept = [{key: value for key, value in line.items() if key != "seconds"} for line in lines]
    return hashlib.sha256(json.dumps(kept).encode()).hexdigest()


def make_jobs(place: Path) -> dict[str, Job]:
    """What they need, written to a folder, and the jobs."""
    recipe = tiny_recipe(place)
    save_model(place / "model")
    save_model(place / "other", seed=1)
    save_corpus(place / "corpus")
    settings = [word for step in STEPS for word in ("--set", step)]
    small = ["--k", "6", "--triples", "30", "--each", "3", "--rows", "150", "--windows", "8", "--workers", "1"]
    return {
        job.name: job
        for job in (
            Job("training", ("train", str(recipe), "--out", "OUT", "--resume", *settings)),
            Job("atlas", ("atlas", "build", str(place / "model"), "--out", "OUT", "--corpus", str(place / "corpus"), *small)),
            Job(
                "corpus",
                ("corpus", "build", str(place / "text.txt"), "--bytes", "--out", "OUT", "--overwrite"),
                place / "corpus",
            ),
            Job("model", ("convert", str(place / "model"), "OUT", "--overwrite"), place / "other"),
        )
    }


def _processes() -> multiprocessing.context.BaseContext:
    context = multiprocessing.get_context("forkserver")
    context.set_forkserver_preload(PRELOAD)
    return context


def _command(arguments: list[str], out: Path, fault: Fault | None) -> None:
    """In the new process: what ``headwater …`` does, with what it prints in a file."""
    from headwater.cli.main import main

    printed = os.open(_beside(out, "said"), os.O_WRONLY | os.O_CREAT | os.O_TRUNC)
    os.dup2(printed, 1)
    os.dup2(printed, 2)
    os.environ |= {"HEADWATER_THREADS": "1", "COLUMNS": "200"}
    sys.argv = ["headwater", *arguments]
    # Whoever is started in the background of a shell's script is told to ignore Ctrl-C, and so are all that it starts.
    signal.signal(signal.SIGINT, signal.default_int_handler)
    library: Callable[..., int] | None = None
    if fault:
        library = ctypes.CDLL(None)
        library.fault_arm(os.fsencode(out.parent), fault.kind, fault.at, fault.error, int(fault.stays))
    _beside(out, "begun").touch()
    try:
        main()
    finally:
        if library:
            _beside(out, "faults").write_text(json.dumps([library.fault_count(), library.fault_happened()]))
