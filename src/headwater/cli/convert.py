"""``headwater convert``: a model in another format."""

from pathlib import Path
from typing import Literal

from headwater.cli.terminal import Flag, note, show_json, use_cores, working


def convert(
    model: Path,
    folder: Path,
    /,
    *,
    to: Literal["headwater", "hugging-face", "transformer-lens"] = "headwater",
    overwrite: Flag = False,
    json: Flag = False,
) -> None:
    """Write a model anew, as a Headwater checkpoint or for another library.

    No number changes. A format that cannot express the model is refused, with the reason.

    Parameters
    ----------
    model
        A model's file or folder, in any format that Headwater reads.
    folder
        Where to write it.
    to
        The format to write.
    overwrite
        Replace a folder that is already there.
    json
        Print one JSON document.
    """
    from headwater.api import load

    use_cores()
    with working(f"reading {model} and writing {folder}"):
        load(model).save(folder, to=to, overwrite=overwrite)
    if json:
        show_json({"path": str(folder), "format": to})
    else:
        note(f"written to {folder}")
