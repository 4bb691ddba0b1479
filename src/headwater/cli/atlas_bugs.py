"""``headwater atlas bugs``: what a head raises although the text never shows it."""

from pathlib import Path
from typing import Any

from headwater.cli.terminal import Flag, Whole, note, say, show_json, show_table
from headwater.errors import InputError


def bugs(
    atlas: Path,
    /,
    *,
    head: str | None = None,
    limit: Whole = 20,
    json: Flag = False,
) -> None:
    """Show skip-trigrams that a head raises only because it raises two others, and what they cost.

    A head that raises keep … in → mind and keep … at → bay raises keep … in → bay too. Listed are such crossed skip-trigrams that never occur in the
    text that was searched, while both parents are common in it; the costliest in nats on held-out text first.

    Parameters
    ----------
    atlas
        The folder of an atlas that was built with a corpus.
    head
        One head only, such as L0H3.
    limit
        How many to show.
    json
        Print one JSON document.
    """
    from headwater.atlas.bug_rows import bug_rows
    from headwater.atlas.manifest import read_manifest

    if limit < 0:
        raise InputError(f"--limit {limit}", "a number from 0 on", "ask for none or for some")
    manifest = read_manifest(atlas)
    rows = bug_rows(atlas, manifest, head)
    total, cost = len(rows), sum(row["cost"] for row in rows)
    if json:
        show_json({"atlas": str(atlas), "total": total, "cost": cost, "bugs": rows[:limit]})
        return
    columns = [
        "head",
        "bug",
        "lift#",
        "measured#",
        "cost in nats#",
        "places#",
        "expected#",
        "parents, and how often they occur",
    ]
    show_table(columns, [_told(row) for row in rows[:limit]])
    say(f"{total:,} bugs, {cost:,.3f} nats in all on {manifest.read_in}")
    if total > limit:
        note(f"the others: --limit {total}")


def _told(row: dict[str, Any]) -> list[str]:
    source = row["source_shown"]
    bug = f"{source} … {row['dest_shown']} → {row['out_shown']}"
    parents = (f"… {parent['dest_shown']} → {parent['out_shown']} ({parent['occurs']:,})" for parent in row["parents"])
    numbers = [
        f"{row['lift']:+.2f}",
        f"{row['measured']:+.2f}",
        f"{row['cost']:.4f}",
        f"{row['places']:,}",
        f"{row['expected']:.1f}",
    ]
    return [row["head"], bug, *numbers, ", ".join(parents)]
