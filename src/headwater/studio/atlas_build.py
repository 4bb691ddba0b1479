"""Building an atlas from the page: in a process of its own, below the folder that the studio was started in."""

from typing import Any

from fastapi import APIRouter, Request
from fastapi.responses import StreamingResponse

from headwater.studio.asked import Answer, Lines, Named, memory, shelf
from headwater.studio.atlas_asked import lines
from headwater.studio.errands import Event, errand
from headwater.studio.errors import Refused
from headwater.studio.lines import path_in_shell

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
    there = shelf(request)
    place = there.atlas_place(model).relative_to(there.here).as_posix()
    name = there.models[model].name
    text = "--text standard-library " if there.card(model).has_words else ""
    command = f"headwater atlas build {path_in_shell(name)} {text}--out {path_in_shell(place)}"
    told = lines(f"hw.build_atlas({name!r}, {place!r})", command)
    return Buildable(model=model, place=place, building=model in memory(request).building, lines=told)


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
