"""Building an atlas from the page: in a process of its own, below the folder that the studio was started in."""

from typing import Any

from fastapi import APIRouter, Request
from fastapi.responses import StreamingResponse

from headwater.studio.asked import Answer, Lines, Named, memory, shelf, worked
from headwater.studio.atlas_asked import lines
from headwater.studio.errands import Event, errand
from headwater.studio.errors import Refused
from headwater.studio.lines import path_in_shell
from headwater.studio.shelf import Shelf
from headwater.text.sources import Files, StandardLibrary
from headwater.train.own_text import HELD_OUT, OwnText, own_text

router = APIRouter()
EVENTS: dict[int | str, dict[str, Any]] = {
    200: {
        "description": "Server-sent events: {what, share} while it goes on, then {done: the atlas' id} or {error: {given, needed, do}}.",
        "content": {"text/event-stream": {"schema": {"type": "string"}}},
    }
}


class Buildable(Answer):
    """How an atlas of a model is had."""

    model: str
    place: str
    """Where it is written, below the folder that the studio was started in."""
    building: bool
    lines: Lines


@router.get("/atlas/build")
async def how(request: Request, model: Named) -> Buildable:
    """How the atlas of a model is built without the studio, and whether it is being built now."""
    there, building = shelf(request), model in memory(request).building
    place = there.atlas_place(model).relative_to(there.here).as_posix()
    told = await worked(request, "files", lambda stop: _lines(there, model, place))
    return Buildable(model=model, place=place, building=building, lines=told)


def _lines(there: Shelf, model: str, place: str) -> Lines:
    """What builds the same as the errand does: against the model's own text, if it has words to read one in."""
    name = there.models[model].name
    command, out = f"headwater atlas build {path_in_shell(name)}", f"--out {path_in_shell(place)}"
    if not there.card(model).has_words:
        return lines(f"hw.build_atlas({name!r}, {place!r})", f"{command} {out}")
    python = (
        "from pathlib import Path; from headwater.train.own_text import HELD_OUT, Wanted, corpus_for\n"
        f"with corpus_for(Path({name!r}), Wanted(None, None, HELD_OUT), lambda *_: None) as corpus:\n"
        f"    hw.build_atlas({name!r}, {place!r}, corpus=corpus)"
    )
    text = _text_in_shell(there, own_text(there.models[model].path))
    return lines(python, text and f"{command} {text} {out}")


def _text_in_shell(there: Shelf, text: OwnText) -> str | None:
    """The options that mean a model's own text; none where no option does, and Python has to be used."""
    if text.built is not None:
        inside = text.built.is_relative_to(there.here)
        return f"--corpus {path_in_shell(str(text.built.relative_to(there.here) if inside else text.built))}"
    if text.held_out != HELD_OUT:
        return None
    match text.source:
        case StandardLibrary():
            return "--text standard-library"
        case Files(paths=paths):
            return f"--text {' '.join(map(path_in_shell, paths))}"
        case _:
            return None


@router.post("/atlas/build", response_class=StreamingResponse, responses=EVENTS)
async def build(request: Request, model: Named) -> StreamingResponse:
    """Build the atlas of a model, held against its own text. Whoever leaves ends it; asked again, it goes on where it was."""
    there, building = shelf(request), memory(request).building
    place = there.atlas_place(model)
    if building:
        which = there.models[next(iter(building))].name
        raise Refused(409, f"an atlas of {which} that is being built", "one at a time", "wait until it is done")
    building.add(model)

    def told(event: Event) -> Event:
        return {"done": there.add_atlas(model)} if "done" in event else event

    arguments = ["atlas", str(there.models[model].path), str(place)]
    return errand(request, arguments, told=told, ended=lambda: building.discard(model))
