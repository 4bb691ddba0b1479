"""The frame around all screens: signing in, going from one to another, language and colours, in the address and back."""

import socket

import pytest

from browser_page import download, signed_in
from studio_server import studio

pytestmark = pytest.mark.browser
SCREENS = ("river", "attention", "stream", "atlas", "training", "documents")


@pytest.mark.parametrize("language", ["en", "pt"])
def test_every_screen_opens_by_its_own_address_and_by_the_bar(go, language):
    page = go(f"/river?lang={language}")
    for screen in SCREENS[1:]:
        page.get_by_test_id(f"to-{screen}").click()
        page.get_by_test_id(f"screen-{screen}").wait_for()
        assert f"/{screen}?" in page.url
        assert f"lang={language}" in page.url
        page.reload()
        page.get_by_test_id(f"screen-{screen}").wait_for()
    page.go_back()
    page.get_by_test_id("screen-training").wait_for()


def test_language_and_colours_are_chosen_and_stay(go):
    page = go("/river?lang=en&theme=light")
    page.get_by_test_id("lang-pt").click()
    assert page.get_by_test_id("to-river").inner_text() == "Rio"
    page.get_by_test_id("theme").click()
    assert page.evaluate("document.documentElement.dataset.theme") == "dark"
    page.reload()
    page.get_by_test_id("screen-river").wait_for()
    assert page.evaluate("document.documentElement.lang") == "pt-BR"
    assert page.evaluate("document.documentElement.dataset.theme") == "dark"


@pytest.mark.parametrize(("screen", "subject"), [("river", "one-layer"), ("training", "training")])
def test_files_are_named_for_what_they_are_of(go, screen, subject):
    page = go(f"/{screen}?lang=en")
    assert download(page, "JSON").suggested_filename == f"headwater-{subject}-{screen}.json"


def test_another_text_takes_back_what_was_chosen_in_the_last_one(go):
    page = go("/attention?lang=en&model=two-layer&text=for%20line%20in%20open(&view=scores&head=L1H1&dest=4&source=1&open=q0")
    page.get_by_test_id("text").fill("def f")
    page.get_by_test_id("run").click()
    page.wait_for_url("**text=def+f**")
    assert {"view=scores", "head=L1H1"} <= set(page.url.split("?")[1].split("&"))
    assert not {"dest=4", "source=1", "open=q0"} & set(page.url.split("?")[1].split("&"))
    page.get_by_test_id("total").wait_for()
    page.get_by_test_id("model").select_option("one-layer")
    page.wait_for_url("**model=one-layer**")
    assert "head=" not in page.url
    page.get_by_test_id("total").wait_for()
    assert page.get_by_test_id("failure").count() == 0


def test_the_token_does_not_stay_in_the_address_and_nobody_else_gets_in(page, served, chromium):
    assert "token" not in page.url
    stranger = chromium.new_context()
    tab = stranger.new_page()
    answer = tab.goto(served.address + "/river")
    assert answer.status == 401
    assert "headwater studio" in tab.content()
    stranger.close()


@pytest.fixture
def over_a_network(chromium, tmp_path):
    """A tab that has the studio from another name, by http: a browser keeps much from such pages."""
    with socket.socket() as free:
        free.bind(("127.0.0.1", 0))
        port = free.getsockname()[1]
    name, context = f"studio.test:{port}", chromium.new_context(locale="en-GB")
    with studio("one-layer", folder=tmp_path, options=("--port", str(port), "--name", name)) as running:
        tab = context.new_page()
        signed_in(tab, f"http://{name}/?token={running.token}")
        assert not tab.evaluate("isSecureContext")
        yield tab
        context.close()


def test_the_page_starts_and_copies_without_https(over_a_network):
    page = over_a_network
    page.get_by_test_id("river").wait_for()
    page.get_by_test_id("reproduce").locator("summary").click()
    page.get_by_test_id("copy-shell").click()
    page.get_by_text("Copied", exact=True).wait_for()
    page.get_by_test_id("text").fill("")
    page.get_by_test_id("text").press("Control+V")
    assert page.get_by_test_id("text").input_value() == page.get_by_test_id("line-shell").inner_text()
