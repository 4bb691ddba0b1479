"""``--html FILE`` and ``--svg FILE``: what a verb has said, as a page and as a drawing."""

from collections.abc import Sequence
from pathlib import Path

from headwater.cli.terminal import note
from headwater.errors import InputError
from headwater.show.html import check_page, write_page
from headwater.show.plots import check_plot, draw
from headwater.show.values import Section, Table


def check_pictures(html: Path | None, svg: Path | None) -> None:
    """Refuse places that no picture can be written to, before the work is done."""
    if html is not None:
        check_page(html)
    if svg is not None:
        check_plot(svg, "--svg")


def write_pictures(
    sections: Sequence[Section], title: str, *, html: Path | None = None, svg: Path | None = None, remarks: Sequence[str] = ()
) -> None:
    """Write a page with all the sections, and a drawing of those that are no tables; each only where one is wanted."""
    check_pictures(html, svg)
    drawn = [section for section in sections if not isinstance(section, Table)]
    if svg is not None and not drawn:
        raise InputError(f"--svg {svg} of tables alone", "something to draw", "write --html, which shows tables too")
    if html is not None:
        write_page(html, title, sections, remarks)
        note(f"written to {html}")
    if svg is not None:
        draw(drawn, svg)
        note(f"written to {svg}")
