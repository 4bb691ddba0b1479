"""Jobs side by side: each in a process of its own, taking turns, best of several; the machine's noise hits all alike.

A job is named ``module:function``, or ``module:function:word`` where the function takes a word; the function prepares and returns
a callable that does the work once. Between turns a process sleeps, so only one works at a time. A job that needs a library that is not
installed is left out: its numbers are nan, and every number that is made of them.
"""

import ctypes
import gc
import importlib
import json
import math
import os
import re
import subprocess
import sys
import time
from collections.abc import Callable, Iterable, Mapping
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

THREADS = len(os.sched_getaffinity(0)) if hasattr(os, "sched_getaffinity") else os.cpu_count() or 1
LONG = 10.0
"""Seconds of a turn from which on nothing needs warming up: the first one counts, too."""
PATIENCE = 20.0
"""Seconds that a process has for its end."""
PEERS = {
    **dict.fromkeys(("transformers", "transformer_lens", "faiss"), "pip install headwater[peers]"),
    "numba": "pip install headwater[fast]",
    "playwright": "pip install playwright",
    "chromium": "install it, or say CHROMIUM=/path/to/it",
}
"""What may be missing, and what to do then."""


@dataclass(frozen=True)
class Result:
    """The best time, the most memory a turn took beyond what was there after preparing, and the last turn's answer, if any."""

    seconds: float = math.nan
    megabytes: float = math.nan
    resident: float = math.nan
    answer: float = math.nan
    phases: dict[str, float] = field(default_factory=dict[str, float])
    """Seconds of each part of the work, where the job gives them."""
    missing: str = ""
    """The library that is not installed."""


def contest(jobs: Mapping[str, str], rounds: int, *, equal: bool = False) -> dict[str, Result]:
    """Every job in every round, in turn; ``equal``: as many turns for each, however long they are, since each goes on where it was."""
    workers = {name: _start(job) for name, job in jobs.items()}
    try:
        # All prepare at the same time; nobody is asked while another is still at it.
        ready = {name: _told(name, worker) for name, worker in workers.items()}
        turns = {name: [told] if told.missing else [] for name, told in ready.items()}
        for number in range(rounds + 1):
            for name, worker in workers.items():
                if any(turn.missing for turn in turns[name]) or len(turns[name]) >= rounds:
                    continue
                turn = _ask(name, worker)
                # The first round warms caches and allocators up and does not count.
                if number or turn.missing or (turn.seconds >= LONG and not equal):
                    turns[name].append(turn)
    finally:
        for worker in workers.values():
            _end(worker)
    return {name: _best(results) for name, results in turns.items()}


def absent(results: Mapping[str, Result]) -> list[str]:
    """A line for each library that was not there: what was left out, and what to install."""
    names = dict.fromkeys(result.missing for result in results.values() if result.missing)
    lines: list[str] = []
    for library in names:
        left_out = "; ".join(name for name, result in results.items() if result.missing == library)
        lines.append(f"{library} is not installed ({PEERS[library]}). Left out: {left_out}")
    return lines


def close(name: str, results: Iterable[Result], relative: float) -> None:
    """A peer that says something else was asked something else."""
    first, *others = (result.answer for result in results if not result.missing)
    for other in others:
        if not math.isclose(first, other, rel_tol=relative):
            raise RuntimeError(f"{name}: one says {first}, another {other}")


def _best(results: list[Result]) -> Result:
    fastest = min(results, key=lambda turn: turn.seconds)
    most = max(turn.megabytes for turn in results)
    return Result(fastest.seconds, most, results[0].resident, results[-1].answer, fastest.phases, results[0].missing)


def _start(job: str) -> subprocess.Popen[str]:
    threads = dict.fromkeys(("OMP_NUM_THREADS", "HEADWATER_THREADS"), str(THREADS))
    environment = {**os.environ, **threads, "HF_HUB_OFFLINE": "1", "TRANSFORMERS_VERBOSITY": "error", "KINETO_LOG_LEVEL": "99"}
    command = [sys.executable, "-W", "ignore", "-m", "headwater.bench.contest", job]
    return subprocess.Popen(command, stdin=subprocess.PIPE, stdout=subprocess.PIPE, text=True, env=environment)


def _end(worker: subprocess.Popen[str]) -> None:
    """Nothing more is asked, so that it ends by itself and tidies up; unless it takes too long."""
    try:
        worker.communicate(timeout=PATIENCE)
    except subprocess.TimeoutExpired:
        worker.kill()
        worker.communicate()


def _ask(name: str, worker: subprocess.Popen[str]) -> Result:
    asked = worker.stdin
    assert asked is not None
    asked.write("go\n")
    asked.flush()
    return _told(name, worker)


def _told(name: str, worker: subprocess.Popen[str]) -> Result:
    """Of a turn; before the first one, that it is ready, or what is missing."""
    told = worker.stdout
    assert told is not None
    for line in told:
        if line.startswith("turn "):
            return Result(**json.loads(line.removeprefix("turn ")))
    raise RuntimeError(f"{name} ended with exit code {worker.wait()}")


def _memory(field: str) -> float:
    """Of this process, in MB; nan where the system does not say."""
    status = Path("/proc/self/status")
    found = re.findall(rf"{field}:\s+(\d+)", status.read_text()) if status.exists() else []
    return int(found[0]) / 1024 if found else math.nan


def _forget_peak() -> None:
    """The high-water mark starts anew."""
    mark = Path("/proc/self/clear_refs")
    if mark.exists():
        mark.write_text("5")


def _trim() -> None:
    """What preparing has freed would hide as much of what a turn takes."""
    gc.collect()
    trim = getattr(ctypes.CDLL(None), "malloc_trim", None)
    if trim is not None:
        trim(0)


def _prepared(job: str) -> Callable[[], Any]:
    import torch

    torch.set_num_threads(THREADS)
    module, function, *words = job.split(":")
    found: Any = importlib.import_module(module if "." in module else f"headwater.bench.{module}")
    return getattr(found, function)(*words)


def _turn(run: Callable[[], Any], resident: float) -> dict[str, Any]:
    _forget_peak()
    before = time.perf_counter()
    result: Any = run()
    seconds = time.perf_counter() - before
    turn = {"seconds": seconds, "megabytes": _memory("VmHWM") - resident, "resident": resident}
    if isinstance(result, float):
        turn["answer"] = result
    return {**turn, "phases": result} if isinstance(result, dict) else turn


def _tell(turn: dict[str, Any]) -> None:
    sys.stdout.write(f"turn {json.dumps(turn)}\n")
    sys.stdout.flush()


def _work(job: str) -> None:
    try:
        run = _prepared(job)
        _trim()
        resident = _memory("VmRSS")
        _tell({"resident": resident})
        for _ in sys.stdin:
            _tell(_turn(run, resident))
    except ModuleNotFoundError as error:
        library = (error.name or "").partition(".")[0]
        if library not in PEERS:
            raise
        _tell({"missing": library})


if __name__ == "__main__":
    _work(sys.argv[1])
