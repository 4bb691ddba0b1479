"""The benchmark report: tables measured or kept, a summary of all goals, and profiles of those that are missed; as values, Markdown and JSON."""

import importlib
import json
import time
from collections.abc import Callable, Iterator, Sequence
from pathlib import Path
from typing import Any, TypeAlias

from headwater.bench import machine
from headwater.bench.contest import contest
from headwater.bench.goals import Goal, Table
from headwater.errors import InputError, did_you_mean
from headwater.files.atomic import write_file
from headwater.files.plain import read_json

TABLES = (
    "forward", "generation", "training", "topk", "spectra", "composition", "explain", "atlas", "one_layer", "search", "claims", "studio",
    "growth",
)  # fmt: skip
"""Each a module beside this one, with a TITLE, a number of ROUNDS and a function ``table``."""
FORMAT = 2
JSON, MARKDOWN = "report.json", "REPORT.md"

Document: TypeAlias = dict[str, Any]
"""The report for programs: ``format``, ``machine`` and ``tables``."""


def check(names: Sequence[str], rounds: int | None) -> None:
    """Refuse tables that there are not, and no rounds at all."""
    for name in names:
        if name not in TABLES:
            raise InputError(f"the table {name!r:.40}", "one that there is", did_you_mean(name, TABLES))
    if rounds is not None and rounds < 1:
        raise InputError(f"{rounds} rounds", "a whole number from 1 up", "change it, or leave it out")


def report_in(folder: Path, *, is_needed: bool) -> list[Document]:
    """The tables of the report that lies in a folder, if there is one; where they are needed, one of another version is refused."""
    if not (folder / JSON).exists():
        return []
    found = read_json(folder / JSON)
    if found.get("format") != FORMAT:
        if not is_needed:
            return []
        raise InputError(
            f"{folder / JSON} is of another version", f"format {FORMAT}", "measure all tables, or choose another folder"
        )
    return found["tables"]


def measure(
    names: Sequence[str], rounds: int | None, before: Sequence[Document], tell: Callable[[str, float], None]
) -> Iterator[Document]:
    """A report with these tables measured, the others as they were: anew after each, so that whoever stops it keeps what there is."""
    kept = {table["name"]: table for table in before}
    tell("machine", 0.0)
    here = machine.about()
    for number, name in enumerate(names):
        tell(name, number / len(names))
        kept[name] = _measured(name, rounds)
        yield {"format": FORMAT, "machine": here, "tables": [kept[name] for name in TABLES if name in kept]}


def _measured(name: str, rounds: int | None) -> Document:
    began, module = time.perf_counter(), importlib.import_module(f"headwater.bench.{name}")
    rounds = rounds or module.ROUNDS
    table: Table = module.table(rounds)
    document = {
        "name": name,
        "title": module.TITLE,
        "rounds": rounds,
        "rows": table.rows,
        "goals": [goal.plain() for goal in table.goals],
        "why": profiles(table.goals),
        "notes": table.notes,
    }
    return {**document, "seconds": round(time.perf_counter() - began, 1)}


def profiles(goals: Sequence[Goal]) -> list[Document]:
    """Where the time goes, for every goal that is missed and has a job that says so; each job once."""
    missed: dict[str, list[str]] = {}
    for goal in goals:
        if goal.met is False and goal.why:
            missed.setdefault(goal.why, []).append(goal.name)
    # One after the other: they would share the processor while they prepare.
    found = {job: contest({job: job}, 1)[job] for job in missed}
    return [{"goals": missed[job], "seconds": result.phases} for job, result in found.items() if result.phases]


def write(document: Document, folder: Path) -> None:
    """Both files, each whole or not at all."""
    folder.mkdir(parents=True, exist_ok=True)
    write_file(folder / JSON, (json.dumps(document, indent=2, ensure_ascii=False, allow_nan=False) + "\n").encode())
    write_file(folder / MARKDOWN, markdown(document).encode())


def markdown(document: Document) -> str:
    """The report for people."""
    lines = ["# Benchmarks", "", f"Made by `make bench` on {machine.sentence(document['machine'])}", ""]
    lines += _summary(document["tables"])
    for table in document["tables"]:
        lines += _section(table)
    return "\n".join(lines).rstrip() + "\n"


def _summary(tables: Sequence[Document]) -> list[str]:
    """Every goal in one table, with a link to where it was measured."""
    rows = [["goal", "measured", "asked for", "met", "limit here", "table"]]
    for table in tables:
        heading = _heading(table["title"])[0]
        link = f"[{heading}](#{heading.lower().replace(' ', '-')})"
        rows += [[*_judged(goal), link] for goal in table["goals"] if goal["goal"] is not None]
    met = [row[3] for row in rows[1:]]
    count = f"{met.count('yes')} of {len(met)} goals are met, {met.count('**no**')} missed"
    left = len(met) - met.count("yes") - met.count("**no**")
    about = "A limit is what it would be if only the products of matrices were counted that it cannot do without, as fast as this machine does them, measured in the same run; a missed goal has its reason and its profile in its section."
    return ["## Summary", "", f"{count}{f', {left} not measured' if left else ''}. {about}", "", *_table(rows)]


def _section(table: Document) -> list[str]:
    """One table with its ratios, and where the time goes where a goal is missed."""
    heading, rest = _heading(table["title"])
    turns = f"Best of {table['rounds']} turn{'s' * (table['rounds'] > 1)}, jobs taking turns{_took(table['seconds'])}."
    lines = [f"## {heading}", "", f"{rest[:1].upper()}{rest[1:]}. {turns}" if rest else turns, ""]
    lines += [line for note in table["notes"] for line in (note, "")]
    lines += _table(table["rows"])
    if table["goals"]:
        lines += _table([["", "measured", "asked for", "met", "limit here"], *map(_judged, table["goals"])])
    for because, names in _reasons(table["goals"]).items():
        lines += [f"**Missed: {'; '.join(names)}.** {because}", ""]
    for profile in table["why"]:
        whole = sum(profile["seconds"].values())
        lines += [f"Where the time goes ({'; '.join(profile['goals'])}):", ""]
        parts = [[name, f"{seconds:.3f}", f"{seconds / whole:.0%}"] for name, seconds in profile["seconds"].items()]
        lines += _table([["", "seconds", "share"], *parts])
    return lines


def _reasons(goals: Sequence[Document]) -> dict[str, list[str]]:
    """What keeps goals from being met, each with the goals that it keeps."""
    found: dict[str, list[str]] = {}
    for goal in goals:
        if goal["because"]:
            found.setdefault(goal["because"], []).append(goal["name"])
    return found


def _judged(goal: Document) -> list[str]:
    asked = "" if goal["goal"] is None else f"at {'most' if goal['at_most'] else 'least'} {_number(goal['goal'], goal['unit'])}"
    met = {True: "yes", False: "**no**", None: ""}[goal["met"]]
    measured = "not measured" if goal["measured"] is None else _number(goal["measured"], goal["unit"])
    limit = "" if goal["limit"] is None else _number(goal["limit"], goal["unit"])
    return [goal["name"], measured, asked, met, limit]


def _number(value: float, unit: str) -> str:
    """To four digits, as it is read best."""
    digits = f"{value:,.0f}" if abs(value) >= 1000 else f"{value:.3g}"
    return f"{digits}{unit}" if unit == "×" else f"{digits} {unit}"


def _took(seconds: float | None) -> str:
    return "" if seconds is None else f"; {seconds:,.0f} s in all"


def _heading(title: str) -> tuple[str, str]:
    heading, _, rest = title.partition(": ")
    return heading, rest


def _table(rows: Sequence[Sequence[str]]) -> list[str]:
    head, *body = [[cell.replace("|", "\\|") for cell in row] for row in rows]
    return ["| " + " | ".join(head) + " |", "|" + "---|" * len(head), *("| " + " | ".join(row) + " |" for row in body), ""]
