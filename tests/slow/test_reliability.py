"""The sections of ``make reliability``, each with a few tries: what the report says can be said again."""

import json
import os
import subprocess
import sys
from pathlib import Path

import pytest

RELIABILITY = Path(__file__).parents[2] / "reliability"
FEW = {
    "kills": ("kills.kills(10, 6)", 16),
    "signals": ("kills.signals(2)", 8),
    "faults": ("faults.faults(1)", 4 * 11),
    "company": ("company.company(2)", 8),
    "flips": ("flips.flips(30, 60)", 90),
    "files": ("studio.changing_files(1)", 8),
    "load": ("studio.load(20, 15)", 20),
}
"""What is called, and how many tries it has at the least."""


def rows_of(call):
    """In a process of its own, as ``reliability/run.py`` does it: a fault is preloaded, and copies are handed out by a process that must be new."""
    sys.path.insert(0, str(RELIABILITY))
    from run import ONE

    code = ONE.format(module=call.split(".")[0], call=call)
    paths = os.pathsep.join([str(RELIABILITY), str(RELIABILITY.parent / "tests")])
    done = subprocess.run(
        [sys.executable, "-c", code],
        capture_output=True,
        text=True,
        check=False,
        env={**os.environ, "PYTHONPATH": paths, "OMP_NUM_THREADS": "1"},
    )
    assert done.returncode == 0, done.stderr
    return json.loads(done.stdout.splitlines()[-1])


@pytest.mark.slow
@pytest.mark.timeout(900)
@pytest.mark.parametrize("section", FEW)
def test_nothing_is_lost(section):
    call, least = FEW[section]
    rows = rows_of(call)
    assert [row["lost"] for row in rows] == [[]] * len(rows)
    assert sum(row["tried"] for row in rows) >= least


@pytest.mark.slow
def test_a_loss_would_be_told(tmp_path):
    """A table that cannot say no says nothing: here a folder in which nothing is put back."""
    sys.path[:0] = [str(RELIABILITY), str(RELIABILITY.parent / "tests")]
    from flips import _flipped
    from run import markdown
    from tally import Tally

    (tmp_path / "a.txt").write_text("whole")
    tally = _flipped("a file", tmp_path, 5, lambda: True)
    assert (tally.tried, tally.survived, len(tally.lost)) == (5, 0, 5)
    assert _flipped("a file", tmp_path, 5, lambda: False).lost == []
    told = {"machine": "this", "sections": {"flips": {"call": "-", "minutes": 0, "commit": "-", "rows": [tally.plain()]}}}
    assert "5 tried, 5 lost" in markdown(told)
    assert Tally("nothing").plain()["survived"] == 0
