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
EXAMPLES = re.compile(r"- (\d+) passing examples, (\d+) failing examples")


def laws(profile: str, workers: int) -> list[Tally]:
    """A line for all of them: tried are the examples, and tests that have none count one."""
    with tempfile.TemporaryDirectory() as place:
        told = Path(place) / "junit.xml"
        options = ["-q", "-n", str(workers), f"--junitxml={told}", "-o", "timeout=1800", "tests/laws"]
        environment = {**os.environ, "HEADWATER_PROFILE": profile, "OMP_NUM_THREADS": "1"}
        subprocess.run([sys.executable, "-m", "pytest", *options], cwd=ROOT, env=environment, check=False, capture_output=True)
        cases = list(ElementTree.parse(told).iter("testcase"))
    tally = Tally(f"laws, profile {profile}")
    for case in cases:
        tally.tried += max(1, _examples(case))
        for bad in [*case.iter("failure"), *case.iter("error")]:
            tally.lost.append(f"{case.get('classname')}.{case.get('name')}: {(bad.text or '')[-1500:]}")
    tally.notes.append(f"{len(cases)} tests")
    return [tally]


def _examples(case: ElementTree.Element) -> int:
    """As hypothesis counted them for this test, where it is one of its."""
    told = "".join(
        each.get("value", "") for each in case.iter("property") if each.get("name", "").startswith("hypothesis-statistics")
    )
    return sum(int(number) for number, _ in EXAMPLES.findall(told))
