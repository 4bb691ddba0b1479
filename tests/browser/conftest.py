"""One real studio and one real browser for all tests of the page."""

import os
from pathlib import Path
from types import SimpleNamespace

import pytest

from studio_server import chromium_place, studio


@pytest.fixture(scope="session")
def shelf_folder(tmp_path_factory):
    """A folder with the one-layer model's atlas, as ``headwater demo`` leaves it, and a short training."""
    from headwater.atlas.build import build_atlas
    from headwater.train.own_text import Wanted, corpus_for
    from headwater.train.recipe import read_recipe
    from headwater.train.run import run_recipe
    from tiny import tiny_recipe

    folder = Path(os.environ.get("HEADWATER_STUDIO_FOLDER") or tmp_path_factory.mktemp("studio"))
    if (folder / "training" / "model").is_dir():
        # Built before: at a desk, nobody wants to wait for it each time.
        return folder
    with corpus_for(Path("one-layer"), Wanted([], None, held_out=0.05), lambda *_: None) as corpus:
        build_atlas("one-layer", folder / "models" / "one-layer" / "atlas", corpus=corpus)
    run_recipe(read_recipe(tiny_recipe(folder)), folder / "training")
    return folder


@pytest.fixture(scope="session")
def served(shelf_folder):
    """The studio, on our own models and a training."""
    with studio("one-layer", "two-layer", "block", shelf_folder / "training", folder=shelf_folder) as running:
        yield running


@pytest.fixture(scope="session")
def chromium():
    from playwright.sync_api import sync_playwright

    with sync_playwright() as playwright:
        # What comes from a name that is not this machine's own, came over a network for all that the browser knows.
        network = "--host-resolver-rules=MAP studio.test 127.0.0.1"
        browser = playwright.chromium.launch(executable_path=chromium_place(), args=["--no-sandbox", network])
        yield browser
        browser.close()


@pytest.fixture
def page(chromium, served):
    """A tab that is signed in; whatever it complains of, or asks of anybody else, fails the test."""
    context = chromium.new_context(viewport={"width": 1366, "height": 768}, accept_downloads=True, locale="en-GB")
    tab = context.new_page()
    heard = SimpleNamespace(errors=[], elsewhere=[])
    tab.on("console", lambda message: heard.errors.append(message.text) if message.type in ("error", "warning") else None)
    tab.on("pageerror", lambda error: heard.errors.append(str(error)))
    tab.on(
        "request",
        lambda asked: None if asked.url.startswith((served.address, "data:", "blob:")) else heard.elsewhere.append(asked.url),
    )
    tab.goto(served.door)
    tab.wait_for_url("**/")
    yield tab
    context.close()
    assert heard.elsewhere == []
    assert heard.errors == []


@pytest.fixture
def go(page, served):
    """Open an address of the studio."""

    def opened(path):
        page.goto(served.address + path)
        return page

    return opened
