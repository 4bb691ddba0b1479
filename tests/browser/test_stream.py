"""A person's way through the screen of the stream: positions, tokens, stages, another order of norms beside it, all positions at once, files."""

import csv
import json
import math
import re
from pathlib import Path

import pytest
from playwright.sync_api import expect

import headwater as hw
from headwater.trace.view.shown import chance

pytestmark = pytest.mark.browser
TEXT = "for line in open("
LANGUAGES = pytest.mark.parametrize("language", ["en", "pt"])


@pytest.fixture(scope="module")
def run():
    return hw.load("block").record(TEXT)


def spoken(number, language):
    """A number that Python wrote, as the page writes it."""
    said = number.replace("-", "−")
    return said.translate(str.maketrans(".,", ",.")) if language == "pt" else said


def place(language="en", **choices):
    return "/stream?" + "&".join(f"{name}={value}" for name, value in {"model": "block", "lang": language, **choices}.items())


def opened(go, language="en", **choices):
    page = go(place(language, **choices))
    page.get_by_test_id("course").wait_for()
    page.get_by_test_id("overview-0").wait_for()
    return page


def field(page, stage, name, number=0):
    return page.get_by_test_id(f"course-{number}").get_by_test_id(f"stage-{stage}").locator(f"[data-field={name}]")


def settled(page):
    """Nothing is dimmed: all that was asked for is there."""
    expect(page.locator(".stale")).to_have_count(0)


def agrees(page, view, language, number=0):
    """Every stage's numbers are those that the library prints."""
    for row, stage in enumerate(view.stages):
        said = view.lenses[row]
        expected = {
            "length": f"{float(view.norm[row, 0]):.3g}",
            "probability": chance(float(said.chance[0])),
            "rank": f"{int(said.rank[0]):,}",
            "entropy": f"{float(said.entropy[0]):.2f}",
        }
        for name, value in expected.items():
            expect(field(page, stage.name, name, number)).to_have_text(spoken(value, language))


@LANGUAGES
def test_the_numbers_are_those_that_the_library_prints(go, run, language):
    page = opened(go, language)
    view = run.stream([-1])
    agrees(page, view, language)
    assert float(page.get_by_test_id("certificate").get_attribute("data-value")) == view.certificate
    page.get_by_test_id("all-numbers-0").locator("summary").click()
    for row, stage in enumerate(view.stages):
        cells = page.get_by_test_id(f"numbers-{stage.name}").locator("td").all_text_contents()
        cosines = [float(each[row, 0]) for each in (view.cosine_before, view.cosine_embed, view.cosine_final)]
        assert cells[3:6] == ["–" if math.isnan(each) else spoken(f"{each:+z.2f}", language) for each in cosines]
    for norm in view.norms:
        cells = page.get_by_test_id(f"norm-{norm.name}").locator("td").all_text_contents()
        lengths = [f"{float(each[0]):.3g}" for each in (norm.length_before, norm.length_after, norm.scale)]
        angles = [f"{float(each[0]):.1f}°" for each in (norm.angle, norm.angle_mean, norm.angle_gain, norm.angle_bias)]
        told = [*lengths, f"{float(norm.mean[0]):+z.2g}", f"{float(norm.lost[0]):.1%}", *angles]
        assert cells[2:] == [spoken(each, language) for each in told]


@LANGUAGES
def test_whatever_is_read_is_in_the_language_of_the_page(go, language):
    page = opened(go, language, other="~post")
    heads = page.locator("h2").all_text_contents()
    words = {"en": "The course", "pt": "O curso"}
    assert words[language] in heads
    assert words["pt" if language == "en" else "en"] not in heads
    assert {"en": "attention writes", "pt": "a atenção escreve"}[language] in page.get_by_test_id(
        "stage-L0.t2"
    ).first.text_content()
    note = {"en": "trained for the other order", "pt": "treinados para a outra ordem"}[language]
    assert note in page.get_by_test_id("beside").text_content()


def test_a_position_is_chosen_by_click_and_by_keys_and_the_way_back_leads_back(go, run):
    page = opened(go)
    page.get_by_test_id("position-1").click()
    page.wait_for_url(re.compile("position=1"))
    settled(page)
    agrees(page, run.stream([1]), "en")
    page.keyboard.press("ArrowRight")
    page.wait_for_url(re.compile("position=2"))
    settled(page)
    assert page.get_by_test_id("position-2").get_attribute("aria-pressed") == "true"
    assert page.evaluate("document.activeElement.dataset.testid") == "position-2"
    agrees(page, run.stream([2]), "en")
    page.go_back()
    page.wait_for_url(re.compile("position=1"))
    settled(page)
    agrees(page, run.stream([1]), "en")
    page.reload()
    page.get_by_test_id("course").wait_for()
    agrees(page, run.stream([1]), "en")


@LANGUAGES
def test_a_token_is_followed_by_its_text_and_by_a_click(go, run, language):
    page = opened(go, language)
    page.get_by_test_id("token").fill("self")
    page.get_by_test_id("token").press("Enter")
    page.wait_for_url(re.compile("token=self"))
    settled(page)
    agrees(page, run.stream([-1], token="self"), language)
    assert page.get_by_test_id("followed").text_content() == "self"
    says = run.stream([-1]).lenses[-1].likeliest(0)[2][0]
    page.get_by_test_id("stage-final").locator(".chip").nth(2).click()
    page.wait_for_url(re.compile(f"token=%23{says}"))
    settled(page)
    agrees(page, run.stream([-1], token=says), language)
    page.get_by_test_id("token-back").click()
    settled(page)
    agrees(page, run.stream([-1]), language)


def test_what_is_no_token_is_told_kindly_and_can_be_taken_back(chromium, served):
    # A context of its own: Chromium complains of the answer that is expected here.
    context = chromium.new_context(viewport={"width": 1366, "height": 768}, locale="en-GB")
    page = context.new_page()
    page.goto(served.door)
    page.goto(served.address + place())
    page.get_by_test_id("course").wait_for()
    page.get_by_test_id("token").fill("no such token")
    page.get_by_test_id("token-go").click()
    told = page.get_by_test_id("failure")
    told.wait_for()
    assert "no such token" in told.text_content()
    assert "one token" in told.text_content()
    # What was there stays in sight.
    assert page.get_by_test_id("course").is_visible()
    page.get_by_test_id("forget-token").click()
    told.wait_for(state="detached")
    page.goto(served.address + place(other="~pre"))
    told.wait_for()
    page.get_by_test_id("forget-other").click()
    page.get_by_test_id("course").wait_for()
    context.close()


@LANGUAGES
def test_the_same_weights_in_the_other_order_stand_beside_it(go, run, language):
    page = opened(go, language)
    page.get_by_test_id("other").select_option("~post")
    page.wait_for_url(re.compile("other=%7Epost"))
    page.get_by_test_id("overview-1").wait_for()
    view = run.stream([-1])
    other = hw.load("block").reordered("post").record(TEXT).stream([-1], token=int(view.chosen[0]))
    agrees(page, view, language)
    agrees(page, other, language, number=1)
    ratio = float(other.norm[other.index("L1.h"), 0] / view.norm[view.index("L1.h"), 0])
    told = page.get_by_test_id("difference-L1.h").locator("[data-field=ratio]").text_content()
    assert told == spoken(f"×{ratio:.3g}", language)
    page.reload()
    page.get_by_test_id("course-1").wait_for()
    page.get_by_test_id("other").select_option("")
    page.get_by_test_id("course-1").wait_for(state="detached")


def test_another_model_stands_beside_it(go):
    page = opened(go, other="two-layer")
    assert "two-layer" in page.get_by_test_id("beside").text_content()
    agrees(page, hw.load("two-layer").record(TEXT).stream([-1], token="filename"), "en", number=1)


@LANGUAGES
def test_who_wrote_a_stage_is_listed_and_adds_up(go, run, language):
    page = opened(go, language)
    page.get_by_test_id("stage-L0.t3").click()
    page.wait_for_url(re.compile("stage=L0.t3"))
    listed = page.get_by_test_id("share-list")
    assert listed.get_attribute("data-stage") == "L0.t3"
    view = run.stream([-1])
    for name in ("embed", "positions", "L0H0", "L0.b_O"):
        share = float(view.shares[name][view.index("L0.t3"), 0])
        assert spoken(f"{share:+.3f}", language) in listed.get_by_test_id(f"share-{name}").text_content()
    assert page.get_by_test_id("share-sum").text_content() == spoken("+1.000", language)
    shares = page.get_by_test_id("shares").get_by_role("listbox")
    shares.focus()
    page.keyboard.press("ArrowRight")
    page.wait_for_url(re.compile("stage=L0.h"))
    chosen = page.locator(f"[id='{shares.get_attribute('aria-activedescendant')}']")
    assert chosen.get_attribute("aria-selected") == "true"
    share = float(view.shares["L0.feed_forward"][view.index("L0.h"), 0])
    assert spoken(f"feed_forward {share:+.3f}", language) in chosen.get_attribute("aria-label")
    page.keyboard.press("ArrowLeft")
    page.wait_for_url(re.compile("stage=L0.t3"))
    page.get_by_test_id("course").focus()
    page.keyboard.press("ArrowDown")
    page.wait_for_url(re.compile("stage=L0.t4"))
    page.get_by_test_id("shares").locator("rect.segment").first.hover()
    assert "embed" in page.get_by_test_id("share-told").text_content()


def test_a_token_that_a_stage_would_say_is_followed_by_keys(go, run):
    page = opened(go, stage="L0.t3")
    course = page.get_by_test_id("course")
    course.focus()
    for key in ("ArrowRight", "ArrowRight", "ArrowLeft"):
        page.keyboard.press(key)
    at = page.locator(f"[id='{course.get_attribute('aria-activedescendant')}']")
    view = run.stream([-1], top=1)
    token = view.lenses[view.index("L0.t3")].likeliest(0)[0][0]
    assert at.get_attribute("role") == "gridcell"
    page.keyboard.press("Enter")
    page.wait_for_url(re.compile(f"token=%23{token}(&|$)"))
    assert "stage=L0.t3" in page.url


def test_a_cell_of_the_map_leads_to_its_position_and_stage(go, run):
    page = opened(go, measure="cosine_before")
    view = run.stream()
    canvas = page.get_by_test_id("overview-0").locator("canvas")
    canvas.scroll_into_view_if_needed()
    box = canvas.bounding_box()
    row, column = view.index("L1.t2"), 1
    x = box["x"] + (column + 0.5) * box["width"] / len(view.positions)
    y = box["y"] + (row + 0.5) * box["height"] / len(view.stages)
    page.mouse.move(x, y)
    value = page.get_by_test_id("overview-value-0")
    expect(value).to_have_text(spoken(f"{float(view.cosine_before[row, column]):+z.2f}", "en"))
    page.mouse.click(x, y)
    page.wait_for_url(re.compile("position=1.*stage=L1.t2|stage=L1.t2.*position=1"))
    settled(page)
    agrees(page, run.stream([1]), "en")
    page.mouse.move(0, 0)
    page.get_by_role("application").focus()
    page.keyboard.press("ArrowRight")
    page.wait_for_url(re.compile("position=2"))
    settled(page)
    for measure, name in (("probability", "chance"), ("rank", "rank"), ("entropy", "entropy")):
        page.get_by_test_id("measure").select_option(measure)
        page.wait_for_url(re.compile(f"measure={measure}"))
        settled(page)
        number = float(getattr(view.lenses[row], name)[2])
        written = {"probability": chance(number), "rank": f"{number:,.0f}", "entropy": f"{number:.2f}"}[measure]
        expect(page.get_by_test_id("overview-value-0")).to_have_text(spoken(written, "en"))


def test_it_is_saved_in_every_form(go, run):
    page = opened(go, other="~post")
    page.get_by_test_id("save").click()
    view = run.stream([-1])
    for form in ("SVG", "PNG", "CSV", "JSON", "HTML"):
        with page.expect_download() as download:
            page.get_by_role("button", name=re.compile(f"^{form}")).click()
        path = Path(download.value.path())
        if form == "SVG":
            drawn = path.read_text()
            assert "L1.t5" in drawn
            assert "<script" not in drawn
        elif form == "PNG":
            assert path.read_bytes().startswith(b"\x89PNG")
        elif form == "CSV":
            rows = list(csv.DictReader(path.read_text(encoding="utf-8-sig").splitlines()))
            first = [row for row in rows if row["order"] == "pre-norm"]
            assert [row["stage"] for row in first] == [stage.name for stage in view.stages]
            assert float(first[-1]["length"]) == pytest.approx(float(view.norm[-1, 0]), rel=1e-12)
            assert {row["order"] for row in rows} == {"pre-norm", "post-norm"}
        elif form == "JSON":
            assert json.loads(path.read_text())["one"]["certificate"] == view.certificate
        else:
            assert "headwater stream block" in path.read_text()


@pytest.mark.parametrize("model", ["one-layer", "two-layer"])
def test_models_without_norms_have_a_course_too(go, model):
    page = opened(go, model=model)
    agrees(page, hw.load(model).record(TEXT).stream([-1]), "en")
    assert page.get_by_test_id("norms").count() == 0
    page.get_by_test_id("other").select_option("~pre")
    page.get_by_test_id("course-1").wait_for()
    assert "trained without norms" in page.get_by_test_id("beside").text_content()


def test_a_long_text_scrolls_and_hostile_tokens_are_text(go):
    page = opened(go)
    page.get_by_test_id("text").fill("</script><b>x" + " \u202eabc" * 12)
    page.get_by_test_id("text").press("Enter")
    page.wait_for_url(re.compile("text="))
    settled(page)
    page.get_by_test_id("position-20").wait_for()
    assert page.locator("b", has_text="x").count() == 0
    assert page.evaluate("document.documentElement.scrollWidth <= innerWidth")
