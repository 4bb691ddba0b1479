"""SIGKILL, Ctrl-C and SIGTERM at random moments, again and again, each time taken up: always the same files in the end."""

import os
import random
import signal
import tempfile
import time
from pathlib import Path

from jobs import INTERRUPTED, TERMINATED, Job, contents, make_jobs, new_place, said, wait_until_begun
from tally import Tally


def kills(training: int, atlases: int) -> list[Tally]:
    """SIGKILL."""
    with tempfile.TemporaryDirectory() as place:
        jobs = make_jobs(Path(place))
        return [
            _disturbed(jobs[name], Path(place), [signal.SIGKILL] * times)
            for name, times in (("training", training), ("atlas", atlases))
        ]


def signals(times: int) -> list[Tally]:
    """Ctrl-C and SIGTERM in turn."""
    with tempfile.TemporaryDirectory() as place:
        jobs = make_jobs(Path(place))
        return [_disturbed(jobs[name], Path(place), [signal.SIGINT, signal.SIGTERM] * times) for name in ("training", "atlas")]


def _disturbed(job: Job, place: Path, disasters: list[signal.Signals]) -> Tally:
    names = " and ".join(dict.fromkeys("Ctrl-C" if each is signal.SIGINT else each.name for each in disasters))
    tally = Tally(f"{names} at random moments: {job.name}")
    whole, out = new_place(place, f"{job.name}-undisturbed"), new_place(place, f"{job.name}-disturbed")
    for _ in range(2):  # The first one compiles and reads what is kept for the next.
        job.prepare(whole)
        begin = time.perf_counter()
        assert job.finish(whole) == 0, said(whole)
        duration = time.perf_counter() - begin
    expected, lots, ends, left = contents(whole), random.Random(0), 0, set[int]()
    job.prepare(out)
    while tally.tried < len(disasters):
        # By the clock most would come while Python starts; so every other one comes after so much more has been written.
        by_clock, by_progress = lots.uniform(0, 1.1 * duration), lots.randrange(1, _progress(whole))
        moment = by_clock if lots.random() < 0.5 else by_progress
        complaint = _once(job, out, disasters[tally.tried], moment)
        if complaint == "ended":
            ends += 1
            wrong = "" if contents(out) == expected else f"after {tally.tried} the result is another one"
            job.prepare(out)
            if wrong:
                tally.count(wrong)
            continue
        left.add(_progress(out))
        tally.count(complaint)
    if job.finish(out) or contents(out) != expected:
        tally.lost.append(f"the last taking up: {said(out)[-300:]}")
    tally.notes.append(f"{ends} runs reached their end in between, all of them with the same bytes")
    tally.notes.append(f"there were {len(left)} different amounts of files and lines when it came")
    return tally


def _progress(out: Path) -> int:
    """How much has been written: files, and lines of a log."""
    log = out / "log.jsonl"
    lines = log.read_bytes().count(b"\n") if log.exists() else 0
    # Not rglob: folders come and go meanwhile.
    return lines + sum(len(files) for _, _, files in os.walk(out))


def _once(job: Job, out: Path, disaster: signal.Signals, moment: float | int) -> str | None:
    """Disturb a run after so many seconds, or so much progress: what is wrong with how it ended; ``ended`` when it was faster."""
    process = job.start(out)
    if disaster is not signal.SIGKILL:
        wait_until_begun(process, out)
    if isinstance(moment, float):
        process.join(moment)
    goal = _progress(out) + moment if isinstance(moment, int) else 0
    while process.exitcode is None and _progress(out) < goal:
        time.sleep(0.002)
    if process.exitcode is None and process.pid is not None:
        os.kill(process.pid, disaster)
        process.join(60)
    code = process.exitcode
    if code == 0:
        return "ended"
    right = {
        signal.SIGKILL: (-signal.SIGKILL,),
        signal.SIGINT: (INTERRUPTED,),
        signal.SIGTERM: (TERMINATED, -signal.SIGTERM),
    }
    if code not in right[disaster] or "Traceback" in said(out):
        return f"{disaster.name} ended with {code}: {said(out)[-300:]}"
    return None
