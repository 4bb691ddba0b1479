"""Every law with many more examples than in the tests of every day: hypothesis' deep profile."""

import os
import re
import subprocess
import sys
import tempfile
from pathlib import Path
from xml.etree import ElementTree

from tally import Tally

ROOT = Path(__file__).parents[1]
EXAMPLES = re.compile(r"- (\d+) passing, (\d+) failing, and")


def laws(profile: str, workers: int, where: str = "tests/laws") -> list[Tally]:
    """A line for all of them: tried are the tests, and how many examples they had is told beside."""
    with tempfile.TemporaryDirectory() as place:
        told = Path(place) / "junit.xml"
        options = ["-n", str(workers), "--hypothesis-show-statistics", f"--junitxml={told}", "-o", "timeout=1800", where]
        environment = {**os.environ, "HEADWATER_PROFILE": profile, "OMP_NUM_THREADS": "1"}
        command = [sys.executable, "-m", "pytest", *options]
        done = subprocess.run(command, cwd=ROOT, env=environment, check=False, capture_output=True, text=True)
        cases = list(ElementTree.parse(told).iter("testcase"))
    tally = Tally(f"laws, profile {profile}", len(cases))
    for case in cases:
        for bad in [*case.iter("failure"), *case.iter("error")]:
            tally.lost.append(f"{case.get('classname')}.{case.get('name')}: {(bad.text or '')[-1500:]}")
    tally.notes.append(f"{sum(int(number) for number, _ in EXAMPLES.findall(done.stdout)):,} examples in {len(cases)} tests")
    return [tally]
