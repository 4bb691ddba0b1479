"""What tests of the page have in common: tabs that are signed in, numbers as the page writes them, files that it saves."""

import re
from contextlib import contextmanager


def signed_in(tab, door):
    """Go through a studio's door and wait for what is behind it: the door goes on by itself, and would take another address' place."""
    tab.goto(door)
    tab.wait_for_url("**/")


@contextmanager
def tab_of(browser, running):
    """A tab of its own on a studio; it may complain, as a browser does of every answer that is an error."""
    with _new_tab(browser) as tab:
        signed_in(tab, running.door)
        yield tab


@contextmanager
def quiet_tab(browser, running, asked=None):
    """A tab of its own on a studio; whatever it complains of fails the test. Addresses that it asks for are added to a list."""
    complaints = []
    with _new_tab(browser) as tab:
        if asked is not None:
            tab.on("request", lambda request: asked.append(request.url))
        tab.on("console", lambda message: complaints.append(message.text) if message.type in ("error", "warning") else None)
        tab.on("pageerror", lambda error: complaints.append(str(error)))
        signed_in(tab, running.door)
        yield tab
    assert complaints == []


@contextmanager
def _new_tab(browser):
    context = browser.new_context(viewport={"width": 1366, "height": 768}, accept_downloads=True, locale="en-GB")
    try:
        yield context.new_page()
    finally:
        context.close()


def spoken(number, language):
    """A number that Python wrote, as the page writes it: with a true minus sign, and a comma in Portuguese."""
    said = number.replace("-", "−")
    return said.translate(str.maketrans(".,", ",.")) if language == "pt" else said


def written(value, language="en", form="+z.3f"):
    """A number as the page writes it."""
    return spoken(format(value, form), language)


def download(page, kind, menu=None):
    """What the page's menu of files gives, or that of one part of it."""
    menu = menu or page
    menu.get_by_test_id("save").first.click()
    with page.expect_download() as got:
        menu.get_by_role("button", name=re.compile(f"^{kind} ")).first.click()
    menu.get_by_test_id("save").first.click()
    return got.value


def saved(page, kind, menu=None):
    """The bytes of what the menu gives."""
    return download(page, kind, menu).path().read_bytes()
