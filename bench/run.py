"""Every table of ``bench/``, measured in one run and written to REPORT.md and report.json."""

import argparse
import json
import os
import platform
from importlib.metadata import version
from pathlib import Path

import atlas
import composition
import explain
import forward
import search
import spectra
import studio
import topk
import training

HERE = Path(__file__).parent
TABLES = [forward, training, topk, spectra, composition, explain, atlas, search, studio]
PEERS = ["torch", "transformers", "transformer-lens", "faiss-cpu", "numba", "numpy"]


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


def section(table: dict[str, object]) -> list[str]:
    """One table with its ratios, as the report has it."""
    judged = [["ratio", "measured", "goal", "met"]]
    judged += [[str(g["name"]), f"{g['ratio']}×", *_judged(g)] for g in table["goals"]]
    turns = f"Best of {table['turns']} turns, jobs taking turns."
    return [f"## {table['title']}", "", turns, "", *markdown(table["rows"]), *markdown(judged)]


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--rounds", type=int, default=10, help="turns of each job; the best one counts")
    names = [table.__name__ for table in TABLES]
    parser.add_argument(
        "--only", nargs="+", choices=names, default=names, help="tables to measure; the others stay as they were"
    )
    chosen = parser.parse_args()
    before = json.loads((HERE / "report.json").read_text())["tables"] if chosen.only != names else []
    kept = {table["title"]: table for table in before}
    report = []
    for table in TABLES:
        if table.__name__ in chosen.only:
            rows, goals = table.table(chosen.rounds)
            report.append({"title": table.TITLE, "turns": chosen.rounds, "rows": rows, "goals": goals})
        elif table.TITLE in kept:
            report.append(kept[table.TITLE])
    versions = ", ".join(f"{name} {version(name)}" for name in PEERS)
    about = f"Made by `make bench` on {machine()}; {versions}."
    lines = ["# Benchmarks", "", about, "", *(line for table in report for line in section(table))]
    (HERE / "REPORT.md").write_text("\n".join(lines).rstrip() + "\n")
    (HERE / "report.json").write_text(
        json.dumps({"machine": machine(), "versions": versions, "tables": report}, indent=2) + "\n"
    )
    print("\n".join(lines))


if __name__ == "__main__":
    main()
