"""``headwater atlas timeline`` and ``headwater atlas diff``: what became of heads, over a training or between two atlases."""

from pathlib import Path
from typing import TYPE_CHECKING

from headwater.cli.terminal import Flag, Whole, note, say, show_json, show_table, use_cores, watched
from headwater.errors import InputError
from headwater.show.plots import check_plot, draw

if TYPE_CHECKING:
    from headwater.show.values import Result


def timeline(
    run: Path,
    /,
    *,
    every: Whole = 1,
    top: Whole = 3,
    json: Flag = False,
    plot: Path | None = None,
) -> None:
    """Follow every head through a training, from its weights alone: what it copies, where it looks, what it says most.

    At each snapshot: the copying score, attention to the position before, what share of the scores' variance positions explain, the induction
    score, the strongest composition, and the strongest skip-trigrams by lift, exactly. A head became what it is, induction,
    previous-token, copying or anti-copying, at the first snapshot from which on that stays the same.

    Parameters
    ----------
    run
        The folder of a training run.
    every
        Look at every n-th snapshot, the last one always.
    top
        How many skip-trigrams to tell of each head, of each source only the first; 0 for none, which is faster.
    json
        Print one JSON document instead of tables.
    plot
        Draw the curves to a file: .svg, .png or .pdf.
    """
    if every < 1:
        raise InputError(f"--every {every}", "a number from 1 on", "take every snapshot, every second, …")
    if top < 0:
        raise InputError(f"--top {top}", "a number from 0 on", "ask for none or for some")
    if plot is not None:
        check_plot(plot)
    use_cores()
    from headwater.atlas.timeline import timeline

    with watched("snapshots") as progress:
        found = timeline(run, every=every, top=top, progress=progress)
    if plot is not None:
        draw(found.curves(), plot)
    _tell(found, json=json)
    if found.given and not json:
        say(f"\ngiven {'; '.join(found.given)}")


def diff(
    before: Path,
    after: Path,
    /,
    *,
    head: str | None = None,
    limit: Whole = 20,
    json: Flag = False,
) -> None:
    """Compare two atlases over one vocabulary: which skip-trigrams appeared, which vanished, which changed most.

    Compared are the strongest skip-trigrams of each head. A lift that an atlas does not hold is told by its bound, ≤ or ≥, and rows stand by how much they have
    changed at least.

    Parameters
    ----------
    before
        The folder of an atlas.
    after
        The folder of another one, of another model or of another snapshot.
    head
        One head only, such as L0H3.
    limit
        How many rows to show of each kind.
    json
        Print one JSON document instead of tables.
    """
    if limit < 0:
        raise InputError(f"--limit {limit}", "a number from 0 on", "ask for none or for some")
    from headwater.atlas.atlas import open_atlas
    from headwater.atlas.diff import diff

    with open_atlas(before) as ours, open_atlas(after) as theirs:
        found = diff(ours, theirs, head, limit=limit)
    _tell(found, json=json)
    if not json and max(found.counts.values()) > limit:
        note(f"more of each kind: --limit {max(found.counts.values())}")


def _tell(result: "Result", *, json: bool) -> None:
    if json:
        show_json(result.plain())
        return
    for table in result.tables():
        show_table(table.columns, table.rows, title=table.title or None)
