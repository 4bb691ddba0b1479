"""A person's way through the documents: reading, filtering, measuring, and playing with the figures; the numbers are the library's."""

import csv
import io
import json
import re
import time
from contextlib import suppress
from pathlib import Path

import pytest
from playwright.sync_api import expect

import headwater as hw
from headwater.claims.labels import VERDICT, number
from headwater.claims.registry import TITLES, all_claims
from headwater.trace.view.lookup import head_lookup

pytestmark = pytest.mark.browser
TEXT = "for line in open("
LANGUAGES = pytest.mark.parametrize("lang", ["en", "pt"])
SLOW = 60_000


def shown(value, digits, lang):
    """As the page prints it."""
    text = f"{value:.{digits}f}".replace("-", "−")
    return text.replace(".", ",") if lang == "pt" else text


@LANGUAGES
def test_a_document_is_opened_filtered_and_searched(go, lang):
    page = go(f"/documents?lang={lang}")
    page.get_by_test_id("document-004").click()
    page.get_by_test_id("text-of-004").wait_for()
    assert TITLES["004"][lang] in page.get_by_test_id("text-of-004").inner_text()
    mine = [claim for claim in all_claims().values() if claim.document == "004"]
    assert page.locator("article").count() == len(mine)
    page.get_by_test_id("verdict-false").click()
    false = [claim for claim in mine if claim.verdict == "false"]
    assert [each.get_attribute("id") for each in page.locator("article").all()] == [claim.id for claim in false]
    assert VERDICT[lang]["false"] in page.get_by_test_id(f"claim-{false[0].id}").inner_text()
    assert "verdict=false" in page.url
    page.reload()
    page.get_by_test_id(f"claim-{false[0].id}").wait_for()
    assert page.locator("article").count() == len(false)
    page.go_back()
    expect(page.locator("article")).to_have_count(len(mine), timeout=SLOW)
    page.get_by_test_id("find").fill("10.35")
    expect(page.locator("article")).not_to_have_count(len(mine), timeout=SLOW)
    assert "004-E10.35" in [each.get_attribute("id") for each in page.locator("article").all()]
    page.get_by_test_id("find").fill("no such words anywhere")
    page.get_by_test_id("empty").wait_for()
    page.get_by_test_id("empty").get_by_role("button").click()
    expect(page.locator("article")).to_have_count(len(mine), timeout=SLOW)


def test_the_list_goes_by_keyboard_and_formulas_are_mathml(go):
    page = go("/documents?lang=en&document=002")
    page.get_by_test_id("find").focus()
    page.keyboard.press("ArrowDown")
    page.keyboard.press("ArrowDown")
    page.keyboard.press("Enter")
    second = [claim.id for claim in all_claims().values() if claim.document == "002"][1]
    page.wait_for_url(f"**claim={second}*")
    assert "chosen" in page.get_by_test_id(f"claim-{second}").get_attribute("class")
    assert page.get_by_test_id("claim-002-E10.34").locator("math").count() > 0
    page.get_by_test_id(f"claim-{second}").locator(".related a").first.click()
    expect(page).not_to_have_url(re.compile(f"claim={second}(&|$)"), timeout=SLOW)
    page.go_back()
    page.wait_for_url(f"**claim={second}*")


@LANGUAGES
@pytest.mark.parametrize("id_", ["000-E4", "004-EX1"])
def test_a_claim_measured_now_shows_the_librarys_numbers(go, lang, id_):
    page = go(f"/documents?lang={lang}&document={id_[:3]}&claim={id_}")
    page.get_by_test_id(f"measure-{id_}").click()
    table = page.get_by_test_id(f"measured-{id_}")
    table.wait_for(timeout=SLOW)
    (answer,) = hw.measure(id_)
    facts = answer.finding.facts
    assert table.get_by_test_id("number").all_inner_texts() == [number(fact.measured, lang) for fact in facts]
    assert VERDICT[lang][answer.finding.verdict] in table.inner_text()
    if answer.finding.printed:
        assert "[" in page.get_by_test_id(f"printed-{id_}").inner_text()
    lines = table.get_by_test_id("line-python")
    table.get_by_test_id("reproduce").locator("summary").click()
    assert f'hw.measure("{id_}")' in lines.inner_text()


def test_claims_are_saved_as_csv_json_and_html(go):
    page = go("/documents?lang=en&document=004&claim=004-EX1")
    page.get_by_test_id("measure-004-EX1").click()
    page.get_by_test_id("measured-004-EX1").wait_for(timeout=SLOW)
    saved = {}
    for kind in ("CSV", "JSON", "HTML"):
        if not page.get_by_role("button", name=kind).is_visible():
            page.get_by_test_id("save").click()
        with page.expect_download() as download:
            page.get_by_role("button", name=kind).click()
        saved[kind] = download.value.path().read_text("utf-8-sig")
    rows = list(csv.DictReader(io.StringIO(saved["CSV"])))
    (answer,) = hw.measure("004-EX1")
    mine = [row for row in rows if row["id"] == "004-EX1"]
    assert [float(row["measured"]) for row in mine] == [fact.measured for fact in answer.finding.facts]
    assert {row["id"] for row in rows} == {claim.id for claim in all_claims().values() if claim.document == "004"}
    assert json.loads(saved["JSON"])["measured"]["004-EX1"]["verdict"] == answer.finding.verdict
    assert "004-EX1" in saved["HTML"]
    assert "<math" in saved["HTML"]
    assert not re.search(r'(src|href)="(/|http)', saved["HTML"]), "nothing of it is elsewhere"


def test_what_is_saved_is_what_is_shown_whatever_the_address_says(go):
    page = go("/documents?lang=en&document=004&verdict=nonsense")
    mine = [claim.id for claim in all_claims().values() if claim.document == "004"]
    expect(page.locator("article")).to_have_count(len(mine), timeout=SLOW)
    page.get_by_test_id("save").click()
    with page.expect_download() as download:
        page.get_by_role("button", name="CSV").click()
    rows = csv.DictReader(io.StringIO(download.value.path().read_text("utf-8-sig")))
    assert [row["id"] for row in rows] == mine


def test_what_came_of_a_document_is_told_of_that_one_alone(go):
    page = go("/documents?lang=en&document=004")
    done = {"asked": 3, "answered": 3, "as_recorded": 2, "refused": 0, "seconds": 1.0}
    page.route("**/api/documents/measure?*", lambda route: route.fulfill(body=f"data: {json.dumps({'done': done})}\n\n"))
    page.get_by_test_id("measure-all").click(timeout=SLOW)
    expect(page.get_by_test_id("tally")).to_contain_text("2 of 3", timeout=SLOW)
    page.get_by_test_id("document-002").click()
    page.get_by_test_id("text-of-002").wait_for()
    assert page.get_by_test_id("tally").count() == 0
    error = {"error": {"given": "a mistake", "needed": "none", "do": "something"}}
    page.route("**/api/documents/measure?*", lambda route: route.fulfill(body=f"data: {json.dumps(error)}\n\n"))
    page.get_by_test_id("measure-all").click()
    page.get_by_test_id("failure").wait_for(timeout=SLOW)
    page.get_by_test_id("on").select_option("block")
    page.get_by_test_id("failure").wait_for(state="detached")


@LANGUAGES
def test_a_figure_is_drawn_in_both_themes(go, lang):
    pictures = set()
    for theme in ("light", "dark"):
        page = go(f"/documents?lang={lang}&theme={theme}&document=001&claim=001-MER1")
        picture = page.get_by_test_id("figure-001-MER1").locator("img")
        picture.wait_for(timeout=SLOW)
        expect(picture).to_have_js_property("complete", value=True)
        assert picture.evaluate("each => each.naturalWidth") > 100
        assert picture.get_attribute("alt")
        pictures.add(picture.get_attribute("src"))
    assert len(pictures) == 2
    with page.expect_download() as download:
        page.get_by_test_id("figure-001-MER1").get_by_test_id("save-figure").click()
    assert "<svg" in download.value.path().read_text()


def children(process):
    """Errands that a studio has begun."""
    found = []
    for place in Path("/proc").glob("[0-9]*"):
        with suppress(FileNotFoundError, ProcessLookupError):
            parent = int((place / "stat").read_text().rpartition(")")[2].split()[1])
            if parent == process.pid and "headwater.studio.errand" in (place / "cmdline").read_text():
                found.append(int(place.name))
    return found


def wait_until(is_so, seconds=20):
    end = time.monotonic() + seconds
    while not is_so():
        assert time.monotonic() < end
        time.sleep(0.1)


@pytest.mark.skipif(not Path("/proc").is_dir(), reason="looks at processes by /proc")
@LANGUAGES
def test_a_whole_document_is_measured_told_and_stopped(go, served, lang):
    page = go(f"/documents?lang={lang}&document=001")
    page.get_by_test_id("measure-all").click()
    page.get_by_test_id("progress").wait_for()
    wait_until(lambda: children(served.process))
    expect(page.get_by_test_id("progress")).to_contain_text("001-", timeout=2 * SLOW)
    page.locator("[data-testid^=measured-]").first.wait_for(timeout=SLOW)
    page.get_by_test_id("stop").click()
    page.get_by_test_id("stopped").wait_for()
    wait_until(lambda: not children(served.process))
    # Somebody who leaves stops it too.
    page.get_by_test_id("measure-all").click()
    wait_until(lambda: children(served.process))
    page.get_by_test_id("to-river").click()
    page.get_by_test_id("screen-river").wait_for()
    wait_until(lambda: not children(served.process))


@LANGUAGES
def test_the_slider_of_temperature_shows_the_librarys_numbers(go, lang):
    page = go(f"/documents?lang={lang}&figure=lookup&model=one-layer&head=L0H5")
    page.get_by_test_id("lookup").wait_for(timeout=SLOW)
    run = hw.load("one-layer").record(TEXT)
    pattern = run["L0.pattern"][0, 5, -1]

    def weights():
        return page.get_by_test_id("lookup").get_by_test_id("weight").all_text_contents()

    assert weights() == [shown(float(weight), 4, lang) for weight in pattern]
    for temperature in ("0.05", "0.25", "0.5", "2", "4", "1"):
        page.get_by_test_id(f"temperature-{temperature}").click()
        own = head_lookup(run, "L0H5", -1, [1 / float(temperature)])
        assert weights() == [shown(float(weight), 4, lang) for weight in own.weights[0]]
        assert page.get_by_test_id("of-best").text_content() == shown(1 - float(own.missing), 4, lang)
        assert page.get_by_test_id("distance").text_content() == shown(float(own.distance), 4, lang)
        expect(page.get_by_test_id("line-shell")).to_contain_text(f"--temperature {float(temperature)} ", timeout=SLOW)
        expect(page.get_by_test_id("line-python")).to_contain_text(f"[{1 / float(temperature)}]")
        assert ("beta=" in page.get_by_test_id("twin").get_attribute("href")) == (temperature != "1")
    page.get_by_test_id("temperature").focus()
    for _ in range(30):
        page.keyboard.press("ArrowLeft")
    temperature = float(re.search(r"temperature=([\d.]+)", page.url)[1])
    assert temperature < 1
    own = head_lookup(run, "L0H5", -1, [1 / temperature])
    assert weights() == [shown(float(weight), 4, lang) for weight in own.weights[0]]
    page.reload()
    page.get_by_test_id("lookup").wait_for()
    assert weights() == [shown(float(weight), 4, lang) for weight in own.weights[0]]


@LANGUAGES
def test_weights_and_values_are_revealed_step_by_step_and_changed_by_hand(go, lang):
    page = go(f"/documents?lang={lang}&figure=combination&model=one-layer&head=L0H5&step=1")
    figure = page.get_by_test_id("combination")
    figure.wait_for(timeout=SLOW)
    for step in (2, 3, 4):
        page.keyboard.press("ArrowRight")
        page.wait_for_url(f"**step={step}*")
        assert figure.get_attribute("data-step") == str(step)
    run = hw.load("one-layer").record(TEXT)
    mixed = run["L0.mixed"][0, 5, -1].double()
    assert shown(float(mixed.norm()), 3, lang) in page.get_by_test_id("sum-length").text_content()
    weights = run["L0.pattern"][0, 5, -1].double()
    page.get_by_test_id("certificate").wait_for()
    page.get_by_test_id("put-1").focus()
    page.keyboard.press("Space")
    page.wait_for_url("**off=1*")
    weights[1] = 0
    left = weights / weights.sum()
    assert figure.get_by_test_id("weight").all_text_contents() == [shown(float(weight), 4, lang) for weight in left]
    # What was changed by hand is not the model's, and has no certificate.
    assert page.get_by_test_id("certificate").count() == 0
    page.get_by_test_id("all-back").click()
    page.get_by_test_id("certificate").wait_for()
    assert shown(float(mixed.norm()), 3, lang) in page.get_by_test_id("sum-length").text_content()
    page.get_by_test_id("position-1").click()
    page.wait_for_url("**position=1*")
    # Here arrows go from token to token, and the figure stays at its step.
    page.keyboard.press("ArrowRight")
    page.wait_for_url("**position=2*")
    assert figure.get_attribute("data-step") == "4"
    expect(figure.get_by_test_id("weight")).to_have_count(3, timeout=SLOW)
    page.keyboard.press("Tab")
    assert page.evaluate("document.activeElement.closest('[role=toolbar]')") is None
    page.get_by_test_id("save").click()
    with page.expect_download() as download:
        page.get_by_role("button", name="SVG").click()
    assert "<svg" in download.value.path().read_text()


@LANGUAGES
def test_a_block_is_walked_through_by_keyboard(go, lang):
    page = go(f"/documents?lang={lang}&figure=block&model=block")
    page.get_by_test_id("walk").wait_for(timeout=SLOW)
    view = hw.load("block").record(TEXT).stream([-1], top=3)
    for number_, letter in enumerate(("t0", "t1", "t2", "t3", "t4", "t5", "h")):
        expect(page.get_by_test_id("stage")).to_have_attribute("data-step", letter, timeout=SLOW)
        length = float(view.norm[view.index(f"L0.{letter}"), 0])
        assert page.get_by_test_id("length").inner_text() == shown(length, 3, lang)
        assert page.get_by_test_id(f"box-{letter}").get_attribute("aria-pressed") == "true"
        assert page.get_by_test_id("stage").locator("math").count() > 0
        if number_ < 6:
            page.keyboard.press("ArrowRight")
    assert page.get_by_test_id("next").is_disabled()
    page.reload()
    page.get_by_test_id("walk").wait_for()
    assert page.get_by_test_id("stage").get_attribute("data-step") == "h"
    page.get_by_test_id("previous").click()
    assert page.get_by_test_id("stage").get_attribute("data-step") == "t5"
    page.get_by_test_id("box-t0").click()
    page.go_back()
    expect(page.get_by_test_id("stage")).to_have_attribute("data-step", "t5", timeout=SLOW)


def test_the_documents_own_block_is_post_norm_with_its_equations(go):
    page = go("/documents?lang=pt&figure=block&model=block&step=4")
    page.get_by_test_id("walk").wait_for(timeout=SLOW)
    page.get_by_test_id("of").select_option("document")
    expect(page.get_by_test_id("norms")).to_contain_text("post-norm, como", timeout=SLOW)
    page.get_by_test_id("step-3").click()
    assert "002-E10.34" in page.get_by_test_id("stage").inner_text()
    assert page.get_by_test_id("mean").inner_text() == "+0,000"


@LANGUAGES
def test_the_whole_model_ends_in_its_predictions_and_leads_to_other_screens(go, lang):
    page = go(f"/documents?lang={lang}&figure=overview&model=block")
    page.get_by_test_id("overview").wait_for(timeout=SLOW)
    run = hw.load("block").record(TEXT)
    told = page.get_by_test_id("probability").all_text_contents()
    assert told == [f"{shown(100 * p, 1, lang)}%" for _, p in run.top(-1, 5)]
    page.get_by_test_id("to-L1H0").click()
    page.get_by_test_id("screen-attention").wait_for()
    assert "head=L1H0" in page.url
    page.go_back()
    page.get_by_test_id("overview").wait_for()
    page.get_by_test_id("to-embedding").click()
    page.get_by_test_id("screen-stream").wait_for()
    page.go_back()
    page.get_by_test_id("to-logits").click()
    page.get_by_test_id("screen-river").wait_for()


def test_an_error_is_told_and_another_text_helps(chromium, served):
    """In a tab of its own: a browser complains of every answer that is an error."""
    context = chromium.new_context(viewport={"width": 1366, "height": 768})
    page = context.new_page()
    page.goto(served.door)
    page.wait_for_url("**/")
    page.goto(f"{served.address}/documents?figure=lookup&model=one-layer&head=L0H99&lang=en")
    page.get_by_test_id("failure").wait_for(timeout=SLOW)
    assert "L0H99" in page.get_by_test_id("failure").inner_text()
    page.goto(f"{served.address}/documents?document=000&claim=000-E4&on=block&lang=en")
    page.get_by_test_id("tab-interactive").click()
    page.get_by_test_id("combination").wait_for(timeout=SLOW)
    context.close()
