"""Every table of ``bench/``, measured in one run and written to REPORT.md and report.json."""

import argparse
import json
import os
import platform
from importlib.metadata import version
from pathlib import Path

import forward
import training

HERE = Path(__file__).parent
TABLES = [forward, training]
PEERS = ["torch", "transformers", "transformer-lens", "numpy"]


def machine() -> str:
    cpu = Path("/proc/cpuinfo")
    names = (
        [line.split(":")[1].strip() for line in cpu.read_text().splitlines() if line.startswith("model name")]
        if cpu.exists()
        else []
    )
    return f"{os.cpu_count()} cores ({names[0] if names else platform.processor()}), Python {platform.python_version()}"


def markdown(rows: list[list[str]]) -> list[str]:
    head, *body = rows
    return ["| " + " | ".join(head) + " |", "|" + "---|" * len(head), *("| " + " | ".join(row) + " |" for row in body), ""]


def _judged(goal: dict[str, object]) -> list[str]:
    """A ratio without a goal is there to read the others by."""
    return [f"{goal['goal']}×", "yes" if goal["met"] else "**no**"] if goal["goal"] else ["", ""]


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--rounds", type=int, default=10, help="turns of each job; the best one counts")
    rounds = parser.parse_args().rounds
    versions = ", ".join(f"{name} {version(name)}" for name in PEERS)
    lines = [
        "# Benchmarks",
        "",
        f"Made by `make bench` on {machine()}; {versions}. Best of {rounds} turns, jobs taking turns.",
        "",
    ]
    report = []
    for table in TABLES:
        rows, goals = table.table(rounds)
        judged = [["ratio", "measured", "goal", "met"]]
        judged += [[str(g["name"]), f"{g['ratio']}×", *_judged(g)] for g in goals]
        lines += [f"## {table.TITLE}", "", *markdown(rows), *markdown(judged)]
        report.append({"title": table.TITLE, "rows": rows, "goals": goals})
    (HERE / "REPORT.md").write_text("\n".join(lines).rstrip() + "\n")
    (HERE / "report.json").write_text(
        json.dumps({"machine": machine(), "versions": versions, "tables": report}, indent=2) + "\n"
    )
    print("\n".join(lines))


if __name__ == "__main__":
    main()
