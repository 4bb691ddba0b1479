"""atheris over every parser, by ``fuzz/run.py``."""

import re
import subprocess
import sys
from pathlib import Path

from tally import Tally

FUZZ = Path(__file__).parents[1] / "fuzz" / "run.py"


def parsers(seconds: int) -> list[Tally]:
    """So many seconds in all, a share for each."""
    done = subprocess.run([sys.executable, FUZZ, str(seconds)], capture_output=True, text=True, check=False)
    tallies = [
        Tally(f"fuzzed: {name}", int(tried), [f"{findings} findings, kept among the seeds"] * int(findings))
        for name, tried, findings in re.findall(r"^(\w+) +(\d+) executions, (\d+) findings", done.stdout, re.MULTILINE)
    ]
    if done.returncode and not any(tally.lost for tally in tallies):
        tallies.append(Tally("fuzzing as a whole", 1, [(done.stdout + done.stderr)[-2000:]]))
    return tallies
