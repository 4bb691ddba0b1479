"""The frame around all screens: signing in, going from one to another, language and colours, in the address and back."""

import pytest

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


def test_the_token_does_not_stay_in_the_address_and_nobody_else_gets_in(page, served, chromium):
    assert "token" not in page.url
    stranger = chromium.new_context()
    tab = stranger.new_page()
    answer = tab.goto(served.address + "/river")
    assert answer.status == 401
    assert "headwater studio" in tab.content()
    stranger.close()
