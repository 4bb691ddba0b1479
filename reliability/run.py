"""What is done to Headwater, and what was lost: ``make reliability`` writes REPORT.md and report.json, and fails where anything was.

Every section is done in a process of its own, two at a time, each on one core; the load on the studio comes first and alone.
"""

import argparse
import json
import os
import platform
import subprocess
import sys
import time
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path
from typing import Any

from headwater.files.atomic import write_file

HERE = Path(__file__).parent
ALONE = {"load": "studio.load(50, 300)"}
SECTIONS = {
    "laws": "laws.laws('deep', 1)",
    "parsers": "parsers.parsers(1800)",
    "kills": "kills.kills(100, 50)",
    "signals": "kills.signals(10)",
    "faults": "faults.faults(4)",
    "company": "company.company(10)",
    "flips": "flips.flips(200, 200)",
    "files": "studio.changing_files(3)",
}
"""In the order in which they are begun: the longest first."""
ONE = "import json, sys, {module}\nif __name__ == '__main__': print('\\n' + json.dumps([tally.plain() for tally in {call}]))"


def section(name: str) -> dict[str, Any]:
    """One section in a process of its own; one that breaks has lost."""
    call = (ALONE | SECTIONS)[name]
    begin = time.monotonic()
    code = ONE.format(module=call.split(".")[0], call=call)
    places = [str(HERE), *(str(HERE.parent / folder) for folder in ("tests", "src"))]
    environment = {**os.environ, "OMP_NUM_THREADS": "1", "PYTHONPATH": os.pathsep.join(places)}
    done = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, env=environment, check=False)
    broken = [{"what": name, "tried": 1, "survived": 0, "lost": [(done.stdout + done.stderr)[-3000:]], "notes": []}]
    rows = broken if done.returncode else json.loads(done.stdout.splitlines()[-1])
    took = time.monotonic() - begin
    print(
        f"{name}: {sum(row['tried'] for row in rows):,} tried, {sum(len(row['lost']) for row in rows)} lost, {took:.0f} s",
        flush=True,
    )
    return {"call": call, "commit": commit(), "minutes": round(took / 60, 1), "rows": rows}


def commit() -> str:
    """Of the code that was tried."""
    told = subprocess.run(["git", "describe", "--always", "--dirty"], cwd=HERE, capture_output=True, text=True, check=False)
    return told.stdout.strip() or "unknown"


def markdown(report: dict[str, Any]) -> str:
    """One table: tried, survived, lost; and what else was measured."""
    rows = [row for part in report["sections"].values() for row in part["rows"]]
    lost = sum(len(row["lost"]) for row in rows)
    lines = ["# Reliability", "", f"Made by `make reliability` on {report['machine']}.", ""]
    lines += [f"**{sum(row['tried'] for row in rows):,} tried, {lost:,} lost.**", ""]
    lines += ["| | tried | survived | lost |", "|---|---|---|---|"]
    lines += [f"| {row['what']} | {row['tried']:,} | {row['survived']:,} | {len(row['lost'])} |" for row in rows]
    lines += [
        "",
        "Survived is what was told as it should be, with an exit code and without a traceback, and lost nothing: asked again, every byte is that of an undisturbed run.",
        "",
    ]
    lines += [f"- {row['what']}: {note}." for row in rows for note in row["notes"]]
    lines += ["", "| section | call | minutes | code |", "|---|---|---|---|"]
    lines += [
        f"| {name} | `{part['call']}` | {part['minutes']} | {part['commit']} |" for name, part in report["sections"].items()
    ]
    lines += ["", *(f"- **lost**: {row['what']}: {each}" for row in rows for each in row["lost"])]
    return "\n".join(lines).rstrip() + "\n"


def main() -> None:
    """Some sections or all; the others stay as the last report has them."""
    parser = argparse.ArgumentParser(description=__doc__)
    names = [*ALONE, *SECTIONS]
    parser.add_argument("--only", nargs="+", choices=names, default=names)
    chosen = parser.parse_args().only
    file = HERE / "report.json"
    kept = json.loads(file.read_text())["sections"] if file.exists() else {}
    with ThreadPoolExecutor(1) as alone:
        kept |= zip(found := [name for name in ALONE if name in chosen], alone.map(section, found), strict=True)
    with ThreadPoolExecutor(2) as pair:
        kept |= zip(found := [name for name in SECTIONS if name in chosen], pair.map(section, found), strict=True)
    machine = f"{os.cpu_count()} cores, Python {platform.python_version()}, {platform.system()}"
    report = {"machine": machine, "sections": {name: kept[name] for name in names if name in kept}}
    write_file(file, json.dumps(report, indent=1, ensure_ascii=False).encode() + b"\n")
    write_file(HERE / "REPORT.md", markdown(report).encode())
    print(markdown(report))
    sys.exit(any(row["lost"] for part in report["sections"].values() for row in part["rows"]))


if __name__ == "__main__":
    main()
