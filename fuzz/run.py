"""Fuzz every parser in turn: ``python fuzz/run.py SECONDS``. Inputs that break one are kept among its seeds."""

import os
import re
import subprocess
import sys
import tempfile
from pathlib import Path

from targets import TARGETS

HERE = Path(__file__).parent


def run(target: str, seconds: int) -> bool:
    """Fuzz one parser; whether nothing was found."""
    seeds = HERE / "seeds" / target
    # Scratch files go to memory where the system has a place for it: a disk is slower than any parser.
    memory = Path("/dev/shm")
    with (
        tempfile.TemporaryDirectory() as found,
        tempfile.TemporaryDirectory() as corpus,
        tempfile.TemporaryDirectory(dir=memory if memory.is_dir() else None) as scratch,
    ):
        options = [f"-max_total_time={seconds}", "-rss_limit_mb=1024", "-timeout=5", "-max_len=65536", "-verbosity=1"]
        command = [sys.executable, str(HERE / "harness.py"), target, *options, f"-artifact_prefix={found}/", corpus, str(seeds)]
        result = subprocess.run(command, capture_output=True, text=True, check=False, env=os.environ | {"TMPDIR": scratch})
        broken = list(Path(found).iterdir())
        for path in broken:
            (seeds / path.name).write_bytes(path.read_bytes())
        counts = re.findall(r"Done (\d+) (?:runs|in)|stat::number_of_executed_units: (\d+)", result.stderr)
        runs = next((one or other for one, other in counts), "?")
        print(f"{target:12} {runs:>10} executions, {len(broken)} findings", flush=True)
        if broken or result.returncode:
            print(result.stderr[-4000:], flush=True)
        return not broken and not result.returncode


def main() -> None:
    seconds = max(1, int(sys.argv[1]) // len(TARGETS))
    results = [run(target, seconds) for target in TARGETS]
    sys.exit(0 if all(results) else 1)


if __name__ == "__main__":
    main()
