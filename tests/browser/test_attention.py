"""A person looks at where heads look: chooses one, a view, a cell, asks why, compares, saves; the numbers are the library's."""

import csv
import io
import json
from urllib.parse import quote

import pytest

import headwater as hw
from browser_page import download, saved, tab_of, written
from studio_server import studio

pytestmark = pytest.mark.browser
TEXT = "for line in open("
LONG = [7 * number % 400 for number in range(96)]
WORDS = {
    "en": {"looks": "looks at", "why": "Why L1H1 looks there", "weighted": "Value-weighted", "none": "This model has no heads"},
    "pt": {"looks": "olha para", "why": "Por que L1H1 olha ali", "weighted": "Ponderada pelos values", "none": "Este modelo não tem cabeças"},
}  # fmt: skip


def at(text, language="en", **choices):
    asked = "".join(f"&{name}={quote(str(value))}" for name, value in choices.items())
    return f"/attention?lang={language}&text={quote(text)}{asked}"


def settled(page):
    """Wait until nothing on the page is being asked for anew."""
    page.get_by_test_id("multiples").wait_for()
    page.get_by_test_id("total").wait_for()
    page.get_by_test_id("facts").wait_for()
    page.wait_for_timeout(150)
    page.locator(".stale").first.wait_for(state="detached")


def point_at(page, row, column, count):
    canvas = page.get_by_test_id("pattern").locator("canvas")
    cell = canvas.bounding_box()["width"] / count
    canvas.click(position={"x": (column + 0.5) * cell, "y": (row + 0.5) * cell})


def click_cell(page, dest, source, count):
    point_at(page, dest, source, count)
    page.wait_for_url(f"**dest={dest}&source={source}**")
    settled(page)


def check_why(page, why, language):
    """Sentence, competition and table say what the library says, to the printed digits."""
    sentence = page.get_by_test_id("sentence").inner_text()
    assert WORDS[language]["looks"] in sentence
    assert written(why.score, language) in sentence
    assert written(why.attention, language, ".1%") in sentence
    sources = why.competition.plain()["sources"]
    for row in (sources[number] for number in why.competition.cut(8)[0]):
        cells = page.get_by_test_id(f"source-{row['position']}").locator("td").all_inner_texts()
        assert cells[1] == written(row["score"], language)
        assert cells[3] == written(row["attention"], language, ".4f")
    grid = why.grid(8)
    for row, values in enumerate(grid.values):
        for column, value in enumerate(values):
            assert page.get_by_test_id(f"cell-{row}-{column}").inner_text() == written(value, language)
        assert page.get_by_test_id(f"row-sum-{row}").inner_text() == written(sum(values), language)
    assert page.get_by_test_id("total").inner_text() == written(why.value, language)
    certificate = float(page.get_by_test_id("certificate").get_attribute("data-value"))
    assert certificate == why.certificate
    assert "good" in page.get_by_test_id("certificate").get_attribute("class")


@pytest.mark.parametrize("language", ["en", "pt"])
def test_a_person_chooses_a_head_a_cell_and_asks_why(go, language):
    page, run = go(at(TEXT, language, model="two-layer")), hw.load("two-layer").record(TEXT)
    settled(page)
    # Without a choice: the first head, at the last token, where it looks at most.
    check_why(page, run.attend("L0H0"), language)
    page.get_by_test_id("head-L1H1").click()
    page.wait_for_url("**head=L1H1**")
    settled(page)
    assert page.get_by_role("heading", name=WORDS[language]["why"]).is_visible()
    told = next(each for each in run.survey().heads if str(each.head) == "L1H1")
    facts = page.get_by_test_id("facts").inner_text()
    for value in (told.previous, told.own, told.first, told.entropy, told.longest):
        assert written(value, language, ".3f") in facts
    click_cell(page, 3, 2, 5)
    check_why(page, run.attend("L1H1", 3, 2), language)
    pattern = float(run["L1.pattern"][0, 1, 3, 2])
    assert page.get_by_test_id("readout").inner_text().endswith(f"@2: {written(pattern, language, '.4f')}")
    # Against another source, by a click on it; and none again by another.
    page.get_by_test_id("source-0").locator("button").first.click()
    page.wait_for_url("**against=0**")
    settled(page)
    check_why(page, run.attend("L1H1", 3, 2, 0), language)
    page.reload()
    settled(page)
    check_why(page, run.attend("L1H1", 3, 2, 0), language)
    page.go_back()
    settled(page)
    check_why(page, run.attend("L1H1", 3, 2), language)
    page.go_back()
    settled(page)
    check_why(page, run.attend("L1H1"), language)


@pytest.mark.parametrize("language", ["en", "pt"])
def test_views_are_switched_and_numbers_in_cells_are_the_librarys(go, language):
    page = go(at(TEXT, language, model="two-layer", head="L0H2", dest=4, source=3))
    run = hw.load("two-layer").record(TEXT)
    for view, form in (("pattern", ".4f"), ("weighted", ".4f"), ("scores", "+z.3f")):
        page.get_by_test_id(f"view-{view}").click()
        settled(page)
        found = run.looks("L0H2", view)
        assert page.get_by_test_id("readout").inner_text().endswith(f"@3: {written(float(found[4, 3]), language, form)}")
        shown = page.get_by_test_id("pattern").locator("svg.numbers text").all_text_contents()
        cells = [(dest, source) for dest in range(5) for source in range(dest + 1)]
        expected = [written(float(found[cell]), language, "+z.2f" if view == "scores" else ".2f") for cell in cells]
        assert shown == expected, view
    assert page.get_by_test_id("view-weighted").inner_text() == WORDS[language]["weighted"]
    assert "view=scores" in page.url


def test_what_made_a_part_opens_one_step_upstream(go):
    repeated = "one red two blue three green one red two"
    page, run = go(at(repeated, model="two-layer", head="L1H1")), hw.load("two-layer").record(repeated)
    settled(page)
    why = run.attend("L1H1")
    names = [part.label for part in why.cells(8).columns]
    page.get_by_test_id(f"key-{names.index('L0H2')}").click()
    page.wait_for_url(f"**open=k{names.index('L0H2')}")
    made = page.get_by_test_id("made").inner_text()
    for part in why.cells(8).columns[names.index("L0H2")].split(most=5).parts:
        assert written(part.value, "en") in made
    page.reload()
    assert page.get_by_test_id("made").inner_text() == made


def test_keys_go_from_head_to_head_and_from_cell_to_cell(go):
    page = go(at(TEXT, model="two-layer", dest=2, source=1))
    settled(page)
    page.get_by_test_id("head-L0H0").focus()
    for key, head in (("ArrowRight", "L0H1"), ("ArrowDown", "L1H1"), ("End", "L1H3"), ("ArrowRight", "L1H3"), ("Home", "L1H0")):
        page.keyboard.press(key)
        page.wait_for_timeout(50)
        assert page.evaluate("document.activeElement.dataset.head") == head
    assert "head=L1H0" in page.url
    assert page.get_by_test_id("head-L1H0").get_attribute("aria-pressed") == "true"
    page.get_by_test_id("pattern").get_by_role("application").focus()
    page.keyboard.press("ArrowDown")
    page.wait_for_url("**dest=3&source=1**")
    for _ in range(4):
        page.keyboard.press("ArrowRight")
    # A causal head never looks ahead.
    page.wait_for_url("**dest=3&source=3**")
    settled(page)
    check_why(page, hw.load("two-layer").record(TEXT).attend("L1H0", 3, 3), "en")


def test_over_the_text_a_token_shows_where_it_looks(go):
    page = go(at(TEXT, model="one-layer", head="L0H1", shape="over"))
    settled(page)
    run = hw.load("one-layer").record(TEXT)
    row = run["L0.pattern"][0, 1, 3]
    page.get_by_test_id("over-3").hover()
    for source in range(5):
        said = page.get_by_test_id(f"over-{source}").locator("sub")
        expected = [written(float(row[source]), "en", ".0%")] if source <= 3 and float(row[source]) >= 0.05 else []
        assert said.all_inner_texts() == expected
    page.get_by_test_id("over-3").click()
    page.wait_for_url(f"**dest=3&source={int(row.argmax())}**")
    settled(page)
    check_why(page, run.attend("L0H1", 3), "en")
    page.keyboard.press("ArrowLeft")
    page.wait_for_url("**dest=2&**")
    page.get_by_test_id("backwards").click()
    page.reload()
    page.get_by_test_id("over-0").hover()
    seen = [float(run["L0.pattern"][0, 1, dest, 0]) for dest in range(5)]
    shown = [page.get_by_test_id(f"over-{dest}").locator("sub").all_inner_texts() for dest in range(5)]
    assert shown == [[written(value, "en", ".0%")] if value >= 0.05 else [] for value in seen]


def test_everything_can_be_saved(go):
    page, run = go(at(TEXT, model="two-layer", head="L1H1", dest=4, source=0)), hw.load("two-layer").record(TEXT)
    settled(page)
    for kind in ("svg", "png", "csv", "json", "html"):
        assert download(page, kind.upper()).suggested_filename == f"headwater-two-layer-attention.{kind}"
    drawn = saved(page, "SVG").decode()
    assert "data:image/png" in drawn
    assert all(word in drawn for word in (">for<", ">·open<", ">0.93<"))
    assert saved(page, "PNG").startswith(b"\x89PNG")
    rows = list(csv.reader(io.StringIO(saved(page, "CSV").decode("utf-8-sig"))))
    assert rows[0] == ["position", "dest", "for", " line", " in", " open", "("]
    assert [float(each) for each in rows[5][2:]] == pytest.approx(run["L1.pattern"][0, 1, 4].tolist(), abs=1e-6)
    told = json.loads(saved(page, "JSON"))
    assert told["score"] == run.attend("L1H1", 4, 0).score
    document = saved(page, "HTML").decode()
    assert written(run.attend("L1H1", 4, 0).score, "en") in document
    assert "<script src" not in document
    assert "headwater attend two-layer" in document


def test_a_long_text_is_shown_whole_close_up_and_by_its_chosen_row(go):
    text = "ids:" + ",".join(map(str, LONG))
    page, run = go(at(text, model="two-layer", head="L0H2", dest=80, source=79)), hw.load("two-layer").record(LONG)
    settled(page)
    value = written(float(run["L0.pattern"][0, 2, 80, 79]), "en", ".4f")
    assert page.get_by_test_id("readout").inner_text().endswith(f"@79: {value}")
    page.get_by_test_id("shape-near").click()
    settled(page)
    assert page.get_by_test_id("readout").inner_text().endswith(f"@79: {value}")
    assert "80" not in page.get_by_test_id("pattern").locator("svg.axes text").all_text_contents(), "tokens, not numbers"
    # The close-up begins 12 before the chosen cell on each side; near the end of the text, with its last 24.
    point_at(page, 80 - min(68, 96 - 24), 10, 24)
    page.wait_for_url("**dest=80&source=77**")
    settled(page)
    check_why(page, run.attend("L0H2", 80, 77), "en")
    rows = list(csv.reader(io.StringIO(saved(page, "CSV").decode("utf-8-sig"))))
    assert len(rows) == 1 + len(LONG)
    assert float(rows[80][2]) == pytest.approx(float(run["L0.pattern"][0, 2, 80, 79]), abs=1e-6)
    # Many heads in quick succession: what is shown in the end is the last one.
    page.get_by_test_id("head-L0H2").focus()
    for key in ("ArrowRight", "ArrowDown", "ArrowLeft", "ArrowLeft"):
        page.keyboard.press(key)
    page.wait_for_url("**head=L1H1**")
    settled(page)
    check_why(page, run.attend("L1H1", 80, 77), "en")


@pytest.fixture
def elsewhere(chromium, tmp_path):
    """A tab of another studio, which may complain."""
    with studio("zero-layer", "one-layer", folder=tmp_path) as running, tab_of(chromium, running) as tab:
        yield lambda path: (tab.goto(running.address + path), tab)[1]


def test_without_heads_refused_and_hostile_texts(elsewhere):
    for language in ("en", "pt"):
        page = elsewhere(at(TEXT, language, model="zero-layer"))
        assert WORDS[language]["none"] in page.get_by_test_id("empty").inner_text()
    page = elsewhere(at(TEXT, model="one-layer", head="L0H1", dest=1, source=3))
    assert "as a source of" in page.get_by_test_id("why").get_by_test_id("failure").inner_text()
    page.get_by_test_id("head-L0H2").wait_for()
    page = elsewhere(at(TEXT, model="one-layer", head="L7H1"))
    assert "L7H1" in page.get_by_test_id("failure").first.inner_text()
    hostile = "</script><img src=x onerror=alert(1)>\u202egnp.\u0000 =1+1"
    page = elsewhere(at(hostile, model="one-layer", head="L0H1"))
    settled(page)
    assert page.locator("main img").count() == 0
    assert page.get_by_test_id("total").is_visible()
