"""``headwater bench``: side-by-side timings, peers in the same run."""

import sys
from pathlib import Path
from typing import Annotated

from cyclopts import Parameter

from headwater.cli.terminal import Flag, Whole, note, show_json, watched


def bench(
    *,
    only: Annotated[list[str] | None, Parameter(negative="", consume_multiple=True)] = None,
    rounds: Whole | None = None,
    out: Path | None = None,
    json: Flag = False,
) -> None:
    """Measure how fast Headwater is and how much memory it takes, beside its peers, and say which goals are met.

    Every job runs in a process of its own, and they take turns. All tables together take about three quarters of an hour on two cores. Peers come with
    pip install headwater[peers]; what needs one that is not installed is left out, and said so.

    Parameters
    ----------
    only
        Tables to measure: forward, generation, training, topk, spectra, composition, explain, atlas, one_layer, search, claims, studio,
        growth. The others stay as they are in the report that lies in --out.
    rounds
        Turns of each job, of which the best counts; each table has its own number unless told otherwise.
    out
        A folder to write REPORT.md and report.json to. Without it the report is only printed.
    json
        Print one JSON document.
    """
    from headwater.bench import report

    names = only or list(report.TABLES)
    report.check(names, rounds)
    kept = report.report_in(out, is_needed=bool(only)) if out is not None else []
    document: report.Document = {}
    with watched("bench") as tell:
        for document in report.measure(names, rounds, kept, tell):
            if out is not None:
                report.write(document, out)
    for table in document["tables"]:
        if table["name"] in names:
            for line in table["notes"]:
                note(line)
    if out is not None:
        note(f"written to {out / report.MARKDOWN} and {out / report.JSON}")
    if json:
        show_json(document)
    else:
        sys.stdout.write(report.markdown(document))
