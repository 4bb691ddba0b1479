"""Jobs side by side: each in a process of its own, taking turns, best of several; the machine's noise hits all alike.

A job is named ``module:function``, or ``module:function:word`` where the function takes a word; the function prepares and returns
a callable that does the work once. Between turns a process sleeps, so only one works at a time.
"""

import ctypes
import gc
import importlib
import json
import os
import re
import subprocess
import sys
import time
from dataclasses import dataclass
from pathlib import Path

THREADS = len(os.sched_getaffinity(0)) if hasattr(os, "sched_getaffinity") else os.cpu_count() or 1


@dataclass(frozen=True)
class Result:
    """The best time, the most memory a turn took beyond what was there after preparing, and the last turn's number, if any."""

    seconds: float
    megabytes: float
    resident: float
    answer: float | None


def contest(jobs: dict[str, str], rounds: int) -> dict[str, Result]:
    """Every job in every round, in turn."""
    workers = {name: _start(job) for name, job in jobs.items()}
    turns: dict[str, list[Result]] = {name: [] for name in jobs}
    try:
        for number in range(rounds + 1):
            for name, worker in workers.items():
                turn = _ask(name, worker)
                # The first round warms caches and allocators up and does not count.
                if number:
                    turns[name].append(turn)
    finally:
        for worker in workers.values():
            worker.kill()
            worker.wait()
    return {name: _best(results) for name, results in turns.items()}


def _best(results: list[Result]) -> Result:
    seconds, megabytes = min(r.seconds for r in results), max(r.megabytes for r in results)
    return Result(seconds, megabytes, results[0].resident, results[-1].answer)


def _start(job: str) -> subprocess.Popen[str]:
    environment = {**os.environ, "OMP_NUM_THREADS": str(THREADS), "HF_HUB_OFFLINE": "1", "TRANSFORMERS_VERBOSITY": "error"}
    command = [sys.executable, "-W", "ignore", __file__, job]
    return subprocess.Popen(command, stdin=subprocess.PIPE, stdout=subprocess.PIPE, text=True, env=environment)


def _ask(name: str, worker: subprocess.Popen[str]) -> Result:
    assert worker.stdin is not None
    assert worker.stdout is not None
    worker.stdin.write("go\n")
    worker.stdin.flush()
    for line in worker.stdout:
        if line.startswith("turn "):
            return Result(**json.loads(line.removeprefix("turn ")))
    raise RuntimeError(f"{name} ended with exit code {worker.wait()}")


def _memory(field: str) -> float:
    return int(re.findall(rf"{field}:\s+(\d+)", Path("/proc/self/status").read_text())[0]) / 1024


def _work(job: str) -> None:
    import torch

    torch.set_num_threads(THREADS)
    module, function, *words = job.split(":")
    sys.path.insert(0, str(Path(__file__).parent))
    run = getattr(importlib.import_module(module), function)(*words)
    # What preparing has freed would hide as much of what a turn takes.
    gc.collect()
    ctypes.CDLL(None).malloc_trim(0)
    resident = _memory("VmRSS")
    for _ in sys.stdin:
        Path("/proc/self/clear_refs").write_text("5")  # starts the high-water mark anew
        before = time.perf_counter()
        result = run()
        seconds = time.perf_counter() - before
        peak = _memory("VmHWM")
        answer = result if isinstance(result, float) else None
        del result
        turn = {"seconds": seconds, "megabytes": peak - resident, "resident": resident, "answer": answer}
        print("turn " + json.dumps(turn), flush=True)


if __name__ == "__main__":
    _work(sys.argv[1])
