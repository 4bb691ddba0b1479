"""The application: routes of all screens behind one door."""

from fastapi import FastAPI
from starlette.types import ASGIApp

from headwater.studio import atlas, attention, documents, page, river, shared, stream, training
from headwater.studio.errors import RESPONSES, answer_errors
from headwater.studio.guard import Door, Guard
from headwater.studio.memory import Memory
from headwater.studio.shelf import Shelf
from headwater.studio.work import Desk
from headwater.version import __version__

SCREENS = (shared, river, attention, stream, atlas, training, documents)


def describe() -> FastAPI:
    """The routes alone, as their description has them; nothing is served and nobody is kept out."""
    app = FastAPI(
        title="Headwater studio",
        version=__version__,
        docs_url=None,
        redoc_url=None,
        openapi_url="/api/openapi.json",
        redirect_slashes=False,
    )
    for screen in SCREENS:
        app.include_router(screen.router, prefix="/api", responses=RESPONSES)
    answer_errors(app)
    return app


def studio(shelf: Shelf, door: Door, desk: Desk | None = None) -> ASGIApp:
    """Everything that a shelf holds, to whoever has the token."""
    app = describe()
    app.state.shelf, app.state.desk, app.state.memory = shelf, desk or Desk(), Memory()
    page.serve_files(app)
    app.include_router(page.router)
    return Guard(app, door)
