"""``headwater atlas bugs``: what a head raises although the text never shows it."""

from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any

from cyclopts import Parameter

from headwater.cli.terminal import WHOLE, note, say, show_json, show_table
from headwater.errors import InputError

if TYPE_CHECKING:
    from headwater.atlas.manifest import Manifest


def bugs(
    atlas: Path,
    /,
    *,
    head: str | None = None,
    limit: Annotated[int, WHOLE] = 20,
    json: Annotated[bool, Parameter(negative="")] = False,
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
    from headwater.atlas.manifest import read_manifest

    if limit < 0:
        raise InputError(f"--limit {limit}", "a number from 0 on", "ask for none or for some")
    manifest = read_manifest(atlas)
    rows = _rows(atlas, manifest, head)
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
    say(f"{total:,} bugs, {cost:,.3f} nats in all on held-out text")
    if total > limit:
        note(f"the others: --limit {total}")


def _rows(atlas: Path, manifest: "Manifest", head: str | None) -> list[dict[str, Any]]:
    """Bugs as programs get them, the costliest first."""
    from headwater.files.tables import read_table

    if "bugs" not in manifest.tables:
        raise InputError(f"{atlas}, which was held against no text", "an atlas with evidence", "build it with --corpus")
    found, vocabulary = read_table(atlas / "bugs.parquet"), read_table(atlas / "vocab.parquet", ["text", "shown"])
    if head is not None:
        own = found["head"] == _number(manifest, head)
        found = {name: column[own] for name, column in found.items()}
    names, lists = list(found), [column.tolist() for column in found.values()]
    plain = (dict(zip(names, row, strict=True)) for row in zip(*lists, strict=True))
    return [_plain(row, manifest.heads, vocabulary) for row in plain]


def _number(manifest: "Manifest", head: str) -> int:
    names = [name.lower() for name in manifest.heads]
    if head.strip().lower() not in names:
        needed = f"heads from {manifest.heads[0]} to {manifest.heads[-1]}" if names else "a model with heads"
        raise InputError(f"no head is called {head!r:.40}", needed, "choose one of these")
    return names.index(head.strip().lower())


def _plain(row: dict[str, Any], heads: tuple[str, ...], vocabulary: dict[str, Any]) -> dict[str, Any]:
    """One bug, with the texts of its tokens beside their ids."""

    def token(name: str, number: int) -> dict[str, Any]:
        texts = {name: vocabulary["text"][number], f"{name}_id": number}
        return {**texts, f"{name}_shown": vocabulary["shown"][number]}

    parents = [
        {**token("dest", dest), **token("out", out), "occurs": row[f"{side}_parent_occurs"]}
        for side, dest, out in (("dest", row["dest"], row["dest_parent_out"]), ("out", row["out_parent_dest"], row["out"]))
    ]
    tokens = {**token("source", row["source"]), **token("dest", row["dest"]), **token("out", row["out"])}
    numbers = ("attention", "output", "lift", "chances", "expected", "places", "measured", "cost")
    return {"head": heads[row["head"]], **tokens, **{name: row[name] for name in numbers}, "parents": parents}


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
