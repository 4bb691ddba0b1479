"""``headwater attend``: why a head attends where it does, as a sum over what made its query and what made its key."""

from pathlib import Path
from typing import TYPE_CHECKING, Annotated

from cyclopts import Parameter

from headwater.cli.explain import document
from headwater.cli.pictures import check_pictures, write_pictures
from headwater.cli.terminal import Flag, Whole, note, say, show_json, show_table, use_cores, working
from headwater.cli.texts import read_run
from headwater.cli.trees import show_tree
from headwater.errors import InputError

if TYPE_CHECKING:
    from headwater.trace.attend import Attending


def attend(  # noqa: PLR0913  (each is one choice a person makes on the command line)
    model: Path,
    text: Annotated[str | None, Parameter(allow_leading_hyphen=True)] = None,
    /,
    *,
    head: str,
    ids: Annotated[str | None, Parameter(help="Token ids instead of a text: 12,7,33.")] = None,
    dest: Whole = -1,
    source: Whole | None = None,
    against: Whole | None = None,
    depth: Whole = 2,
    most: Whole = 6,
    json: Flag = False,
    html: Path | None = None,
    svg: Path | None = None,
) -> None:
    """Say why a head attends there: who gets its attention, and what its query and its key were made of, in parts that add up to the score.

    A score is a product of a query and a key. Each is a sum of what the embedding, positions, earlier heads and feed-forward layers put into it, so
    that the score is a table: one number for each part of the query and each part of the key. Below it stand both sides by themselves, each part with
    what it is made of further upstream. Lists are cut to the largest parts, the others are one exact remainder; the certificate is how far the sums
    are from the model's own score.

    The scales of norms and the patterns of earlier layers are held as the run measured them. The softmax sees differences of scores only: --against
    takes one apart.

    Parameters
    ----------
    model
        A model's file or folder, in any format that Headwater reads; a run's folder; the name of one of ours; or, without a text, a file that explain --save wrote.
    text
        The text; - reads it from standard input.
    head
        The head, such as L1H4.
    dest
        The position that looks: from 0, or from the end where it is negative; the last one unless said otherwise.
    source
        The position that is looked at; the one that gets most of the attention unless said otherwise.
    against
        Another position: take apart how far the score is above that one's.
    depth
        Levels of the trees.
    most
        Parts in each list, and rows and columns of the table.
    json
        Print one JSON document instead of tables and trees.
    html
        Write a page, self-contained: .html.
    svg
        Draw the table and the trees to a file: .svg, .png or .pdf.
    """
    check_pictures(html, svg)
    if depth < 1 or most < 1:
        raise InputError(f"--depth {depth} --most {most}", "numbers from 1 on", "ask for at least one")
    use_cores()
    run = read_run(model, text, ids)
    with working("taking the score apart"):
        why = run.attend(head, dest, source, against)
    if json:
        sides = {name: document(side.split(most=most), depth, most) for name, side in (("query", why.query), ("key", why.key))}
        show_json({"model": str(model), **why.plain(most), **sides})
    else:
        _tell(why, depth, most)
        _hint(why, str(model))
    if html is not None or svg is not None:
        write_pictures(why.sections(depth, most=most), why.words, html=html, svg=svg, remarks=why.remarks)


def _tell(why: "Attending", depth: int, most: int) -> None:
    say(why.words)
    for table in why.tables(most):
        show_table(table.columns, table.rows, title=f"\n{table.title}")
    for tree in why.trees(depth, most=most):
        say("")
        show_tree(tree)
    say("")
    for remark in why.remarks:
        say(remark)


def _hint(why: "Attending", model: str) -> None:
    """The strongest competitor, where none was named."""
    found = why.competition
    others = [number for number in range(len(found.positions)) if int(found.positions[number]) != why.source]
    if why.against is None and others:
        best = int(found.positions[max(others, key=lambda number: float(found.scores[number]))])
        note(f"further: headwater attend {model} … --head {why.head} --dest {why.dest} --source {why.source} --against {best}")
