"""A disk that is full, broken, forbidden or writes less than asked, at every kind of call and at random ones of them (see faults.c)."""

import errno
import os
import random
import shutil
import subprocess
import tempfile
from pathlib import Path

from jobs import GONE_WELL, OPEN, REFUSED, RENAME, SYNC, WRITE, Fault, Job, contents, faults_counted, make_jobs, new_place, said
from tally import Tally

SHORT = -1
FAULTS = {
    "no space left": (errno.ENOSPC, (OPEN, WRITE, SYNC, RENAME), True),
    "no rights": (errno.EACCES, (OPEN, RENAME), False),
    "input/output error": (errno.EIO, (OPEN, WRITE, SYNC, RENAME), False),
    "short writes": (SHORT, (WRITE,), False),
}
"""What goes wrong, in which calls, and whether it stays so until the process ends."""


def faults(places: int) -> list[Tally]:
    """Each fault at so many places of each kind of call in each job. Needs a C compiler, and a system that can preload."""
    with tempfile.TemporaryDirectory() as place:
        library = Path(place) / "libfaults.so"
        source = Path(__file__).with_suffix(".c")
        subprocess.run(["cc", "-shared", "-fPIC", "-O1", "-o", library, source, "-ldl"], check=True)
        # The process that hands out copies of itself is started with it; so this must be the first that asks for one.
        os.environ["LD_PRELOAD"] = str(library)
        try:
            jobs = make_jobs(Path(place))
            return [_faulted(job, Path(place), places) for job in jobs.values()]
        finally:
            del os.environ["LD_PRELOAD"]


def _faulted(job: Job, place: Path, places: int) -> Tally:
    tally, out, lots = Tally(f"faults of the disk: {job.name}"), new_place(place, f"{job.name}-faults"), random.Random(0)
    job.prepare(out)
    assert job.finish(out) == 0, said(out)
    expected = contents(out)
    there = {kind: _calls(job, out, kind) for kind in (OPEN, WRITE, SYNC, RENAME)}
    for name, (error, kinds, stays) in FAULTS.items():
        for kind in kinds:
            for at in lots.sample(range(there[kind]), min(places, there[kind])):
                tally.count(_once(job, out, expected, Fault(kind, at, error, stays), name))
    words = zip(("open", "write", "fsync", "rename"), there.values(), strict=True)
    tally.notes.append("calls that could fail: " + ", ".join(f"{count:,} {word}" for word, count in words))
    return tally


def _calls(job: Job, out: Path, kind: int) -> int:
    """How many calls of a kind an undisturbed run makes."""
    job.prepare(out)
    process = job.start(out, Fault(kind, 1 << 30, 0, stays=False))
    process.join()
    return faults_counted(out)[0]


def _once(job: Job, out: Path, expected: dict[str, str], fault: Fault, name: str) -> str | None:
    job.prepare(out)
    before = contents(out) if job.before else None
    process = job.start(out, fault)
    process.join(120)
    wrong = _end(process.exitcode, out, fault) or _state(process.exitcode, out, before, expected)
    if not wrong and (job.finish(out) or contents(out) != expected):
        wrong = f"asked again it is not as it should be: {said(out)[-300:]}"
    left = [path for path in out.parent.iterdir() if path.name.endswith(".part")]
    for path in left:
        shutil.rmtree(path) if path.is_dir() else path.unlink()
    wrong = wrong or (f"{left[0].name} was left" if left else None)
    return f"{job.name}: {name} at call {fault.at} of kind {fault.kind}: {wrong}" if wrong else None


def _end(code: int | None, out: Path, fault: Fault) -> str | None:
    """What is wrong with how it ended: done, or refused with the reason."""
    told = said(out)
    if not faults_counted(out)[1]:
        return "it never came"
    if code not in (GONE_WELL, REFUSED) or "Traceback" in told:
        return f"ended with {code}: {told[-400:]}"
    if code == REFUSED and os.strerror(fault.error) not in told:
        return f"the reason is not told: {told[-400:]}"
    return None


def _state(code: int | None, out: Path, before: dict[str, str] | None, expected: dict[str, str]) -> str | None:
    """What is wrong with the files that it left."""
    now = contents(out) if out.exists() else {}
    if code == GONE_WELL and now != expected:
        return "said to be done, and is not"
    if before is not None and now not in (before, expected):
        return "neither what was there nor what was to be"
    return None
