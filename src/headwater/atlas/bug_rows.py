"""The bugs of an atlas, as programs get them."""

from pathlib import Path
from typing import Any

from headwater.atlas.manifest import Manifest
from headwater.errors import InputError
from headwater.files.tables import read_table


def bug_rows(folder: Path, manifest: Manifest, head: str | None) -> list[dict[str, Any]]:
    """Bugs as programs get them, the costliest first."""
    manifest.check_evidence(folder, "bugs")
    found, vocabulary = read_table(folder / "bugs.parquet"), read_table(folder / "vocab.parquet", ["text", "shown"])
    if head is not None:
        own = found["head"] == _number(manifest, head)
        found = {name: column[own] for name, column in found.items()}
    names, lists = list(found), [column.tolist() for column in found.values()]
    plain = (dict(zip(names, row, strict=True)) for row in zip(*lists, strict=True))
    return [_plain(row, manifest.heads, vocabulary) for row in plain]


def _number(manifest: Manifest, head: str) -> int:
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
