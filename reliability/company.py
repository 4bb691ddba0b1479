"""Several processes that are given one folder at the same moment: one does the work, the others are told, and the result is whole."""

import tempfile
from pathlib import Path

from jobs import GONE_WELL, REFUSED, Job, contents, make_jobs, new_place, said
from tally import Tally

PROCESSES = 2


def company(rounds: int) -> list[Tally]:
    """Every job, so many times."""
    with tempfile.TemporaryDirectory() as place:
        return [_together(job, Path(place), rounds) for job in make_jobs(Path(place)).values()]


def _together(job: Job, place: Path, rounds: int) -> Tally:
    tally = Tally(f"{PROCESSES} processes in one folder: {job.name}")
    alone, shared = new_place(place, f"{job.name}-alone"), new_place(place, f"{job.name}-together")
    job.prepare(alone)
    assert job.finish(alone) == 0, said(alone)
    expected, ends = contents(alone), list[str]()
    for _ in range(rounds):
        job.prepare(shared)
        processes = [job.start(shared) for _ in range(PROCESSES)]
        for process in processes:
            process.join()
        codes = sorted(process.exitcode or 0 for process in processes)
        ends.append("+".join(map(str, codes)))
        tally.count(_complaint(codes, shared, expected))
    tally.notes.append("exit codes: " + ", ".join(f"{each} {ends.count(each)} times" for each in sorted(set(ends))))
    return tally


def _complaint(codes: list[int], out: Path, expected: dict[str, str]) -> str | None:
    if codes[0] != GONE_WELL or not set(codes) <= {GONE_WELL, REFUSED} or "Traceback" in said(out):
        return f"ended with {codes}: {said(out)[-300:]}"
    return None if contents(out) == expected else "the result is another one"
