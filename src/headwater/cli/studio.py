"""``headwater studio``: the same answers in a browser."""

import os
from pathlib import Path
from typing import Annotated

from cyclopts import Parameter

from headwater.cli.terminal import Whole, note, say, use_cores, working

OURS = ("one-layer", "two-layer", "block", "zero-layer")
"""What is served where nothing is named."""


def studio(
    *models: Path,
    atlas: Annotated[list[Path] | None, Parameter(negative="", consume_multiple=True)] = None,
    port: Whole | None = None,
    host: str = "127.0.0.1",
    name: Annotated[list[str] | None, Parameter(negative="", consume_multiple=True)] = None,
    browser: bool = True,
) -> None:
    """Open the studio: a logit as a river, attention, the stream, the atlas, trainings and the documents, in a browser, from your own models.

    Everything stays on this machine. The address that is printed holds a token, new at each start: whoever has it may look, nobody else.
    Ctrl-C ends it.

    Parameters
    ----------
    models
        Models' files or folders, in any format that Headwater reads; folders of trainings, also while they train; names of ours. Without any, ours.
        An atlas in the folder atlas inside or beside a model, or in models/NAME/atlas below the current folder, is opened with it.
    atlas
        Further atlases, to look into and to compare.
    port
        Where it listens; 8321 unless told otherwise, or any that is free where that is taken.
    host
        The address it listens at. Any but this machine's own needs a token of your own in HEADWATER_TOKEN.
    name
        Further names that browsers may call it by, with the port, such as lab.example:8321.
    browser
        Open a browser.
    """
    use_cores()
    with working("reading models"):
        from headwater.studio.serve import PORT, Place, serve
        from headwater.studio.shelf import fill

        place = Place(
            host=host, port=PORT if port is None else port, token=os.environ.get("HEADWATER_TOKEN"), names=tuple(name or ())
        )
        shelf = fill(models or OURS, atlas or ())

    serve(shelf, place, tell, browse=browser)


def tell(address: str) -> bool:
    """Say where the studio is; it goes on."""
    say(f"the studio is at {address}")
    note("Ctrl-C ends it")
    return True
