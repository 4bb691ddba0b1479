"""The documents' figures, drawn from real tensors, and the numbers that they are drawn from."""

from typing import Annotated, Any

from fastapi import APIRouter, Query, Request, Response
from pydantic import JsonValue

from headwater.claims.claim import Language
from headwater.claims.figures.drawings import Drawing, drawing_of
from headwater.claims.registry import chosen
from headwater.show.looks import Look, Theme
from headwater.studio.asked import Answer, Lines, memory, worked
from headwater.studio.documents_measured import given
from headwater.studio.errors import Refused
from headwater.studio.plain_data import plain
from headwater.studio.work import Stop

router = APIRouter()
FigureId = Annotated[str, Query(min_length=1, max_length=40, description="Such as 003-FIG5.")]
SVG: dict[int | str, dict[str, Any]] = {
    200: {
        "description": "A drawing.",
        "content": {"image/svg+xml": {"schema": {"type": "string", "format": "binary"}}},
    }
}


class FigureData(Answer):
    """The numbers behind a figure; arrays that are too large for JSON are told by their shape."""

    id: str
    data: JsonValue
    lines: Lines


@router.get("/documents/figure", responses=SVG, response_class=Response)
async def figure(request: Request, id: FigureId, lang: Language = "en", theme: Theme = "light") -> Response:  # noqa: A002  (its name in the address)
    """A figure as SVG."""
    drawing = await worked(request, "files", lambda stop: _drawing(id))
    data = await worked(request, "model", lambda stop: _drawn(request, drawing, Look(lang, theme), stop))
    return Response(data, media_type="image/svg+xml", headers={"cache-control": "private, max-age=600"})


@router.get("/documents/figure/data")
async def figure_data(request: Request, id: FigureId) -> FigureData:  # noqa: A002  (its name in the address)
    """What a figure is drawn from."""
    drawing = await worked(request, "files", lambda stop: _drawing(id))

    def compute(stop: Stop) -> FigureData:
        lines = Lines.of(
            "from headwater.claims.figures.drawings import drawing_of\nfrom headwater.claims.given import Given\n"
            f'with Given() as given:\n    print(drawing_of("{drawing.id}").data(given))',
            f"headwater claims {drawing.id} --figures figures",
        )
        return FigureData(id=drawing.id, data=plain(drawing.data(given(request, None, stop))), lines=lines)

    return await worked(request, "model", compute)


def _drawing(name: str) -> Drawing:
    (claim,) = chosen([name])
    if claim.verdict != "figure":
        raise Refused(404, f"the figure {claim.id}", "a claim that asks for a figure", "such as 003-FIG1")
    return drawing_of(claim.id)


def _drawn(request: Request, drawing: Drawing, look: Look, stop: Stop) -> bytes:
    """Drawn once for each look."""
    return memory(request).figures.get((drawing.id, look), lambda: drawing.file(given(request, None, stop), look))
