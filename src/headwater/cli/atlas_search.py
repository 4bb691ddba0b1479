"""``headwater atlas search``, ``export`` and ``verify``: an atlas, once it is there."""

from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Literal

from cyclopts import Parameter

from headwater.cli.terminal import Flag, Whole, note, say, show_json, show_table, watched, working
from headwater.errors import InputError

if TYPE_CHECKING:
    from headwater.atlas.export import Format

if TYPE_CHECKING:
    from headwater.atlas.found import Found

TOKEN = Parameter(allow_leading_hyphen=True)


def search(  # noqa: PLR0913  (each is one choice a person makes on the command line)
    atlas: Path,
    /,
    *,
    source: Annotated[str | None, TOKEN] = None,
    dest: Annotated[str | None, TOKEN] = None,
    out: Annotated[str | None, TOKEN] = None,
    head: Annotated[list[str] | None, Parameter(negative="", consume_multiple=True)] = None,
    sort: Annotated[str, TOKEN] = "lift",
    sign: Literal["both", "raising", "lowering"] = "both",
    limit: Whole = 50,
    offset: Whole = 0,
    json: Flag = False,
) -> None:
    """Find skip-trigrams [source] … [dest] → [out] by their tokens and heads.

    Parameters
    ----------
    atlas
        An atlas' folder.
    source
        The earlier token that is attended to: its exact text (many begin with a space: " keep"), its id (#17), or several of them: prefix:de,
        contains:elf, regex:^ self (RE2's syntax, at most 200 letters); exact:#17 is the text #17.
    dest
        The token that attends, written likewise.
    out
        The token whose logit is changed, written likewise.
    head
        Heads (L0H3) or layers (L0).
    sort
        lift, score, output, attention, the largest first; -lift the smallest first. Of an atlas that was built with a text also chances, occurs, fires,
        expected, measured and nats.
    sign
        Only what raises an output, or only what lowers one.
    limit
        How many rows to show.
    offset
        How many to pass over before.
    json
        Print one JSON document.
    """
    from headwater.atlas.atlas import open_atlas
    from headwater.atlas.patterns import read_pattern

    patterns = [None if text is None else read_pattern(text) for text in (source, dest, out)]
    with open_atlas(atlas) as opened:
        found = opened.search(
            source=patterns[0],
            dest=patterns[1],
            out=patterns[2],
            head=_heads(head),
            sort=sort,
            sign=sign,
            limit=limit,
            offset=offset,
        )
    _tell(found, json=json)


def _heads(given: list[str] | None) -> list[str] | None:
    """The heads that are asked for, whether spaces or commas stand between them."""
    heads = None if given is None else [name for each in given for name in each.split(",")]
    if heads == []:
        raise InputError("--head without heads", "at least one", "name some, such as --head L0H3 L1")
    return heads


def _tell(found: "Found", *, json: bool) -> None:
    """Rows, and what is left out of them."""
    if json:
        show_json(found.plain())
        return
    table = found.table()
    show_table(table.columns, table.rows, title=table.title)
    for number, line in enumerate(found.notes()):
        say("\n" * (not number) + line)


def quote(  # noqa: PLR0913  (each is one choice a person makes on the command line)
    atlas: Path,
    /,
    *,
    source: Annotated[str | None, TOKEN] = None,
    dest: Annotated[str | None, TOKEN] = None,
    out: Annotated[str | None, TOKEN] = None,
    head: Annotated[list[str] | None, Parameter(negative="", consume_multiple=True)] = None,
    limit: Whole = 20,
    offset: Whole = 0,
    json: Flag = False,
) -> None:
    """Read places in held-out text where skip-trigrams fire: the text around source and dest, and what came next.

    Tokens are given as in headwater atlas search.

    Parameters
    ----------
    atlas
        The folder of an atlas that was built with a corpus.
    source
        The earlier token that is attended to.
    dest
        The token that attends.
    out
        The token whose logit is changed.
    head
        Heads (L0H3) or layers (L0).
    limit
        How many lines to show.
    offset
        How many to pass over before.
    json
        Print one JSON document.
    """
    from headwater.atlas.atlas import open_atlas
    from headwater.atlas.patterns import read_pattern
    from headwater.atlas.reading import read_places
    from headwater.atlas.search import Query

    patterns = [None if text is None else read_pattern(text) for text in (source, dest, out)]
    query = Query(source=patterns[0], dest=patterns[1], out=patterns[2], head=_heads(head), limit=limit, offset=offset)
    with open_atlas(atlas) as opened:
        found = read_places(opened, query)
    _tell(found, json=json)


def export(
    atlas: Path,
    table: str = "trigrams",
    /,
    *,
    out: Path,
    format: Literal["parquet", "csv", "json"] | None = None,  # noqa: A002
    json: Flag = False,
) -> None:
    """Write a table for other programs: tokens as exact texts with their ids, heads by name.

    Parameters
    ----------
    atlas
        An atlas' folder.
    table
        trigrams, strongest, bigrams, vocab; says, seeks, sought, said of all heads, or of one (says/L0H3); evidence, lines_of_text, bugs.
    out
        The file to write. Afterwards it is there as a whole, or as it was before.
    format
        parquet, csv, or json (one object in each line); by default what the file's name ends in.
    json
        Print one JSON document about what was written.
    """
    from headwater.atlas.atlas import open_atlas
    from headwater.atlas.export import export as write

    endings: dict[str, Format] = {".parquet": "parquet", ".csv": "csv", ".json": "json", ".jsonl": "json", ".ndjson": "json"}
    kind = format or endings.get(out.suffix.lower())
    if kind is None:
        raise InputError(f"--out {out.name}", "a format", "add --format parquet, csv or json")
    with open_atlas(atlas) as opened, working(f"writing {out}"):
        rows = write(opened, table, out, kind)
    if json:
        show_json(
            {"atlas": str(atlas), "table": table, "path": str(out), "format": kind, "rows": rows, "bytes": out.stat().st_size}
        )
    else:
        note(f"{rows:,} rows of {table} written to {out}, {out.stat().st_size:,} bytes")


def verify(atlas: Path, /, *, json: Flag = False) -> int:
    """Read every byte of an atlas and find whatever has changed, gone, come or been swapped. Exit code 1 says that something has.

    Parameters
    ----------
    atlas
        An atlas' folder.
    json
        Print one JSON document.
    """
    from headwater.atlas.verify import verify as look

    with watched("reading") as tell:
        found = look(atlas, tell)
    if json:
        show_json(found.plain())
    else:
        table = found.table()
        say(table.title)
        if table.rows:
            show_table(table.columns, table.rows)
            say(
                "\nwhat a build left out or a disk lost can be built again: headwater atlas build, with the same model and --overwrite"
            )
    return 0 if found.ok else 1
