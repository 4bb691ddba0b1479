"""``headwater check``: do the parts add up to what the model says, everywhere?"""

from pathlib import Path
from typing import TYPE_CHECKING, Annotated

from cyclopts import Parameter

from headwater.cli.pictures import check_pictures, write_pictures
from headwater.cli.terminal import Flag, Whole, say, show_json, show_table, use_cores, watched, working
from headwater.cli.texts import read_run
from headwater.errors import InputError

if TYPE_CHECKING:
    from headwater.trace.run import Run

LENGTH = 64
"""Random tokens where no text is given, or as many as the model has room for."""


def check(  # noqa: PLR0913  (each is one choice a person makes on the command line)
    model: Path,
    text: Annotated[str | None, Parameter(allow_leading_hyphen=True)] = None,
    /,
    *,
    ids: Annotated[str | None, Parameter(help="Token ids instead of a text: 12,7,33.")] = None,
    samples: Whole = 8,
    seed: Whole = 0,
    json: Flag = False,
    html: Path | None = None,
    svg: Path | None = None,
) -> int:
    """Add all parts up and compare with the model's own logits, at every position and over the whole vocabulary.

    Three sums are made: of all that the components wrote; of all paths from tokens, positions and biases, by order; and of the splits of some logits drawn
    at random, followed upstream to their ends. The largest difference is the certificate. Exit code 1 says that it is more than rounding.

    Parameters
    ----------
    model
        A model's file or folder, in any format that Headwater reads; a run's folder; the name of one of ours; or a file that explain --save wrote.
    text
        The text; - reads it from standard input. Without one, random tokens are taken.
    samples
        Logits to follow upstream.
    seed
        Of the random tokens and the sample.
    json
        Print one JSON document instead of a table.
    html
        Write a page, self-contained: .html.
    svg
        Draw the differences at each position to a file: .svg, .png or .pdf.
    """
    from headwater.model.record import check_finite
    from headwater.trace.check import check as add_up
    from headwater.trace.kept import is_run

    check_pictures(html, svg)
    if samples < 0:
        raise InputError(f"--samples {samples}", "a number from 0 on", "ask for none or for some")
    if not 0 <= seed < 2**63:
        raise InputError(f"--seed {seed}", "a whole number from 0 to 2⁶³ − 1", "change it")
    use_cores()
    is_bare = text is None and ids is None and not is_run(model)
    run = _random_run(model, seed) if is_bare else read_run(model, text, ids)
    check_finite(run)
    with watched("adding up") as progress:
        found = add_up(run, samples=samples, seed=seed, progress=progress)
    if json:
        show_json({"model": str(model), **found.plain()})
    else:
        for table in found.tables():
            show_table(table.columns, table.rows, title=table.title)
        say(f"\n{found.remark()}")
    if html is not None or svg is not None:
        title = f"do the parts of {model} add up?"
        write_pictures([*found.tables(), *found.curves()], title, html=html, svg=svg, remarks=[found.remark()])
    return 0 if found.ok else 1


def _random_run(model: Path, seed: int) -> "Run":
    import torch

    from headwater.api import load

    with working(f"reading {model}"):
        loaded = load(model)
    length = min(LENGTH, loaded.config.context)
    return loaded.record(torch.randint(loaded.config.vocab, (1, length), generator=torch.Generator().manual_seed(seed)))
