"""``headwater atlas show``: what an atlas holds, and what it says of each head as a whole."""

import math
from pathlib import Path
from typing import TYPE_CHECKING, Any

from headwater.cli.terminal import Flag, note, say, show_json, show_table

if TYPE_CHECKING:
    from headwater.atlas.atlas import Atlas
    from headwater.atlas.manifest import Manifest


def show(atlas: Path, /, *, json: Flag = False) -> None:
    """Show the settings of an atlas, its tables, and one row for each head.

    Of a head: the copying score of its centred OV circuit and what that amounts to, the share of its scores' variance that positions explain, its strongest
    skip-trigram, and, where the atlas was held against a text, the rank correlation between lifts and what was measured.

    Parameters
    ----------
    atlas
        An atlas' folder.
    json
        Print one JSON document.
    """
    from headwater.atlas.atlas import open_atlas

    with open_atlas(atlas) as opened:
        heads = _heads(opened)
        if json:
            show_json({**_files(opened.manifest, atlas), "heads": heads, "given": opened.summary["given"]})
            return
        tell_files(opened.manifest, atlas, json=False)
        if heads:
            show_table(COLUMNS, [_told(row) for row in heads])
            _remark(opened, heads)


def tell_files(found: "Manifest", folder: Path, *, json: bool) -> None:
    """What has been written, and how."""
    plain = _files(found, folder)
    if json:
        show_json(plain)
        return
    settings = [[name, _setting(value)] for name, value in found.settings.items()]
    show_table(["setting", "value"], settings, title=f"{folder}: {len(found.heads)} heads, {found.vocab:,} tokens")
    rows = [
        [name, f"{table['rows']:,}" if table["rows"] else "", f"{table['bytes'] / 1e6:,.2f}"]
        for name, table in plain["tables"].items()
    ]
    show_table(["table", "rows#", "MB#"], rows)
    first = f"search {folder} --limit 20" if found.heads else f"export {folder} bigrams --out bigrams.csv"
    note(f"try: headwater atlas {first} · headwater atlas show {folder} · headwater atlas verify {folder}")


def _files(found: "Manifest", folder: Path) -> dict[str, Any]:
    tables: dict[str, dict[str, int]] = {}
    for file in found.files:
        table = tables.setdefault((file.table or file.path).split("/")[0], {"rows": 0, "bytes": 0})
        table["rows"] += file.rows or 0
        table["bytes"] += file.bytes
    model = {name: found.model[name] for name in ("name", "sha256")}
    return {"atlas": str(folder), "model": model, "settings": found.settings, "tables": tables}


def _setting(value: Any) -> str:
    return f"{len(value)} norms" if isinstance(value, list) else f"{value:,}" if isinstance(value, int) else str(value)  # pyright: ignore[reportUnknownArgumentType]


COLUMNS = ("head", "copying#", "verdict", "positions#", "strongest skip-trigram", "lift#", "rows#", "agrees#", "expected#")


def _heads(opened: "Atlas") -> list[dict[str, Any]]:
    """One row for each head."""
    agreed, rows = _agreements(opened), list[dict[str, Any]]()
    for one in opened.summary["heads"]:
        best = next(iter(opened.strongest(one["head"]).rows), None)
        row = {name: one[name] for name in ("head", "copying", "copying_centred", "verdict", "placement")}
        told = best and {**best, "shown": _shown(opened, best)}
        rows.append({**row, "strongest": told, "agreement": agreed.get(one["head"])})
    return rows


def _agreements(opened: "Atlas") -> dict[str, dict[str, Any]]:
    """How well lifts agree with what was measured, for heads of which that is known."""
    if "agreement" not in opened.tables:
        return {}
    columns = opened.relation("agreement").fetchnumpy()
    numbers = {name: column for name, column in columns.items() if name != "head"}
    return {
        opened.heads[head]: {name: _number(column[place]) for name, column in numbers.items()}
        for place, head in enumerate(columns["head"].tolist())
    }


def _number(value: Any) -> float | int | None:
    found = value.item()
    return None if isinstance(found, float) and math.isnan(found) else found


def _shown(opened: "Atlas", row: dict[str, Any]) -> str:
    source, dest, out = (opened.words(row[f"{slot}_id"]) for slot in ("source", "dest", "out"))
    return f"{source} … {dest} → {out}"


def _told(row: dict[str, Any]) -> list[str]:
    best, agreed = row["strongest"], row["agreement"]
    return [
        row["head"],
        f"{row['copying_centred']:+.2f}",
        row["verdict"],
        f"{row['placement']['positions']:.0%}",
        best["shown"] if best else "",
        f"{best['lift']:+.2f}" if best else "",
        f"{agreed['rows']:,}" if agreed else "",
        *(f"{agreed[name]:+.2f}" if agreed and agreed[name] is not None else "" for name in ("lift", "expected")),
    ]


def _remark(opened: "Atlas", heads: list[dict[str, Any]]) -> None:
    from headwater.atlas.about_heads import POSITIONAL

    mostly = [row["head"] for row in heads if row["placement"]["positions"] > POSITIONAL]
    say(
        "\npositions: the share of the variance of scores, within what one destination sees, that positions explain; lifts know tokens alone"
    )
    if mostly:
        say(f"mostly by position: {', '.join(mostly)}; read their skip-trigrams with care")
    if "agreement" in opened.tables:
        say(
            "agrees: Spearman's rank correlation between lift and measured contribution, over so many of the strongest rows with five places or more"
        )
        say("expected: the same with what as many sources as the text had should do together")
    if opened.summary["given"]:
        say(f"given {'; '.join(opened.summary['given'])}")
