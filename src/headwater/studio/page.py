"""The built page: one HTML file, which every screen's address answers with, and files whose names hold a hash of what is in them."""

from pathlib import Path

from fastapi import APIRouter, FastAPI
from fastapi.responses import FileResponse, HTMLResponse, Response
from fastapi.staticfiles import StaticFiles

import headwater
from headwater.studio.errors import told

SCREENS = ("river", "attention", "stream", "atlas", "training", "documents")
FOLDER = Path(headwater.__file__).parent / "page"
router = APIRouter(include_in_schema=False)


@router.get("/")
@router.get("/{screen}")
async def page(screen: str = "river") -> Response:
    """The page; which screen it is of, it sees in its own address."""
    if screen == "favicon.svg" and (FOLDER / screen).is_file():
        return FileResponse(FOLDER / "favicon.svg", media_type="image/svg+xml")
    if screen not in SCREENS:
        return told(404, f"the address /{screen:.60}", f"one of {', '.join(SCREENS)}", "begin at /")
    if not (FOLDER / "index.html").is_file():
        return told(503, "a studio whose page has not been built", "src/headwater/page/index.html", "run make page")
    return HTMLResponse((FOLDER / "index.html").read_bytes(), headers={"cache-control": "no-cache"})


def serve_files(app: FastAPI) -> None:
    """The page's scripts and styles."""
    if (FOLDER / "assets").is_dir():
        app.mount("/assets", StaticFiles(directory=FOLDER / "assets", follow_symlink=False))
