"""The widgets in Chromium, as a notebook loads them: drawn, clicked, answered by the library, in both languages and colours, and asking nobody else."""

import pytest

import headwater as hw
from headwater.show.widgets import Drawing
from notebook_page import ADDRESS, Kernel, open_notebook
from shown import HOSTILE

pytestmark = pytest.mark.browser
TEXT = "for line in open("


@pytest.fixture(scope="module")
def run():
    return hw.load("one-layer").record(TEXT)


@pytest.fixture(scope="module")
def heads():
    return hw.load("two-layer").heads(quick=True)


@pytest.fixture(scope="module")
def atlas(shelf_folder):
    with hw.open_atlas(shelf_folder / "models" / "one-layer" / "atlas") as opened:
        yield opened


@pytest.fixture
def show(chromium):
    """Open a widget in a notebook's page; whatever it complains of, or asks of anybody else, fails the test."""
    contexts, errors, asked = [], [], []

    def opened(drawing, language="en", theme="light", **options):
        context = chromium.new_context(viewport={"width": 1200, "height": 900}, locale="en-GB", **options)
        context.on("console", lambda message: errors.append(message.text) if message.type in ("error", "warning") else None)
        context.on("weberror", lambda error: errors.append(str(error.error)))
        contexts.append(context)
        tab, requests = open_notebook(context, Kernel(drawing, language, theme))
        asked.append(requests)
        return tab

    yield opened
    for context in contexts:
        context.close()
    assert errors == []
    assert [url for requests in asked for url in requests if not url.startswith((ADDRESS, "data:"))] == []


def plain(text):
    """As Python writes it."""
    return text.replace("−", "-")


def cells(row):
    return [plain(cell) for cell in row.locator("[role=cell]").all_inner_texts()]


@pytest.fixture(params=[("en", "light"), ("pt", "dark")], ids="-".join)
def way(request):
    return request.param


def node(tab, key):
    return tab.locator(f'g[data-key="{key}"]')


def test_a_river_is_drawn_and_splits_where_it_is_clicked(show, run, way):
    why = run.explain(token="line")
    drawing, heard = why.drawing(), []

    def answer(request):
        heard.append(request)
        return drawing.answer(request)

    tab = show(Drawing(kind="river", data=drawing.data, answer=answer), *way)
    assert tab.locator(".headwater-widget").get_attribute("data-theme") == way[1]
    assert plain(tab.get_by_test_id("value").inner_text()) == f"{why.value:+.3f}".replace(".", "." if way[0] == "en" else ",")
    assert ("logit of ‘line’" if way[0] == "en" else "logit de ‘line’") in tab.get_by_test_id("title").inner_text()
    assert float(node(tab, "L0H5@4").get_attribute("data-value")) == pytest.approx(why["L0H5"].value, rel=1e-6)
    # Open by itself: a key closes it, a click opens it again.
    node(tab, "L0H5@4").focus()
    node(tab, "L0H5@4").press("Enter")
    tab.locator('g[data-key="L0H5@4"][aria-expanded="false"]').wait_for()
    node(tab, "L0H5@4").locator("text").first.click()
    tab.locator('g[data-key="L0H5@4"][aria-expanded="true"]').wait_for()
    assert heard == [{"ask": "river", "open": "-L0H5@4"}, {"ask": "river", "open": "L0H5@4"}]
    tab.locator("details.parts summary").click()
    part = tab.locator('[data-row$="L0H5@4<token@1"]')
    assert float(part.get_attribute("data-value")) == pytest.approx(why["L0H5"].split()["@1"].value, rel=1e-6)
    tab.get_by_test_id("reset").click()
    tab.get_by_test_id("reset").wait_for(state="detached")


def test_a_river_is_split_another_way(show, run):
    why = run.explain(token="line")
    tab = show(why.drawing())
    tab.get_by_test_id("by").select_option("token")
    by_token = why.split("token", most=None)
    largest = max((part for part in by_token.parts if part.kind == "token"), key=lambda part: abs(part.value))
    key = f"token@{largest.facts['position']}"
    tab.wait_for_function("document.querySelector('[data-testid=by]').value === 'token'")
    tab.wait_for_function("document.querySelectorAll('g[data-key^=\"L0H\"]').length === 0")
    assert float(node(tab, key).get_attribute("data-value")) == pytest.approx(largest.value, rel=1e-5)


def test_a_table_has_pythons_digits_and_sorts_and_continues(show, atlas, way):
    found = atlas.search(source=" try", limit=30)
    tab = show(found.drawing(), *way)
    rows = tab.get_by_test_id("rows").locator("[role=row]")
    comma = way[0] == "pt"
    table = found.table()
    numbers = [at for at, name in enumerate(table.columns) if name.endswith("#")]

    def told(text):
        return text.translate(str.maketrans(".,", ",.")) if comma else text

    for number in range(5):
        shown = cells(rows.nth(number + 1))
        assert [shown[at] for at in numbers] == [told(table.rows[number][at]) for at in numbers]
    tab.get_by_test_id("more").click()
    tab.wait_for_function(r"/\b130\b/.test(document.querySelector('[data-testid=count]').innerText)")
    tab.get_by_test_id("sort-attention").click()
    tab.locator('[role=columnheader][aria-sort="descending"]:has([data-testid=sort-attention])').wait_for()
    again = atlas.search(source=" try", sort="attention", limit=1).table()
    assert cells(rows.nth(1))[6] == told(again.rows[0][6])
    tab.get_by_test_id("sort-head").click()
    heads = [cells(rows.nth(number))[0] for number in (1, 2, 3)]
    assert heads == sorted(heads, reverse=True)


def test_rows_are_chosen_by_keys_and_copied(show, atlas):
    found = atlas.search(source=" try", limit=200)
    tab = show(found.drawing(), permissions=["clipboard-read", "clipboard-write"])
    # Not a safe place in the browser's eyes: the way around the clipboard is taken, and it is the same for readers.
    tab.get_by_test_id("rows").focus()
    for _ in range(3):
        tab.keyboard.press("ArrowDown")
    assert tab.locator('[role=row][aria-selected="true"]').get_attribute("aria-rowindex") == "3"
    tab.keyboard.press("End")
    tab.locator('[role=row][aria-rowindex="200"]').wait_for()
    assert tab.get_by_test_id("rows").locator("[role=row]").count() < 60, "only rows in sight are there"
    tab.get_by_test_id("copy").click()
    tab.get_by_text("Copied").wait_for()


def test_heads_are_walked_by_keys_and_told_in_full(show, heads, way):
    tab = show(heads.drawing(), *way)
    tab.get_by_test_id("head-L0H0").focus()
    tab.keyboard.press("ArrowDown")
    tab.keyboard.press("ArrowRight")
    told = tab.get_by_test_id("head-told")
    assert told.locator("h2").inner_text() == "L1H1"
    one = heads["L1H1"]
    score = f"{one.induction.score:+.2f}"
    assert (score if way[0] == "en" else score.replace(".", ",")) in plain(told.inner_text())
    tab.get_by_test_id("entries").click()
    tab.wait_for_function("document.querySelectorAll('[data-testid=says] li').length === 20")
    value = next(iter(one.says))[2]
    first = plain(tab.get_by_test_id("says").locator("li").first.inner_text())
    assert (f"{value:+.3g}" if way[0] == "en" else f"{value:+.3g}".replace(".", ",")) in first
    tab.get_by_test_id("measure").select_option("ov")
    assert (
        f"{one.ov.norm:,.0f}".translate(str.maketrans(",", "." if way[0] == "pt" else ","))
        in tab.get_by_test_id("head-L1H1").inner_text()
    )
    told.get_by_role("button").filter(has_text="L0H2→L1H1.K").click()
    assert told.locator("h2").inner_text() == "L0H2"


def test_attention_is_looked_at_head_by_head_and_explained(show, run, way):
    tab = show(run.patterns().drawing(), *way)
    tab.get_by_test_id("head-L0H5").click()
    tab.locator('[data-testid=large][data-head="L0H5"]').wait_for()
    canvas = tab.get_by_test_id("pattern").locator("canvas")
    box = canvas.bounding_box()
    canvas.click(position={"x": box["width"] * 1.5 / 5, "y": box["height"] * 4.5 / 5})
    sentence = tab.get_by_test_id("sentence")
    sentence.wait_for()
    why = run.attend("L0H5", 4, 1)
    words = plain(sentence.inner_text())
    for number in (f"{why.attention:.1%}", f"{why.score:+.3f}"):
        assert (number if way[0] == "en" else number.replace(".", ",")) in words
    assert float(tab.get_by_test_id("certificate").get_attribute("data-value")) == why.certificate
    tab.get_by_test_id("view-scores").click()
    tab.wait_for_timeout(50)
    looked = f"{float(run.looks('L0H5', 'scores')[4, 1]):+.3f}"
    shown = looked if way[0] == "en" else looked.replace(".", ",")
    tab.wait_for_function(
        "(text) => document.querySelector('[data-testid=readout]').innerText.replace('−','-').includes(text)", arg=shown
    )


def test_one_explained_score_shows_its_cell_and_asks_for_the_others(show, run):
    why = run.attend("L0H5", 4, 1)
    tab = show(why.drawing())
    assert f"{why.attention:.1%}" in tab.get_by_test_id("sentence").inner_text()
    assert tab.get_by_test_id("multiples").count() == 0
    tab.get_by_test_id("survey").click()
    tab.get_by_test_id("head-L0H7").wait_for()
    tab.get_by_test_id("head-L0H7").click()
    tab.wait_for_function("document.querySelector('[data-testid=sentence]').innerText.includes('L0H7')")


def test_hostile_tokens_stay_text(show):
    columns = [
        {"name": name, "kind": kind, "form": None, "sorts": False} for name, kind in (("source", "token"), ("text", "text"))
    ]
    page = {
        "title": HOSTILE[0], "columns": columns, "rows": [[[text, number], text] for number, text in enumerate(HOSTILE)], "total": len(HOSTILE),
        "offset": 0, "start": 0, "has_more": False, "sort": None, "remarks": [], "limits": {}, "beyond": None, "sign": None,
    }  # fmt: skip
    tab = show(Drawing(kind="table", data=page))
    shown = tab.get_by_test_id("rows").locator("[role=cell]").all_inner_texts()
    assert HOSTILE[0] in shown
    assert tab.locator(".headwater-widget script, .headwater-widget style, .headwater-widget b").count() == 0
    assert not any("\u202e" in text for text in shown)


def test_a_refusal_is_told_in_three_parts_and_the_picture_stays(show, atlas):
    from headwater.errors import InputError

    def refuse(request):
        raise InputError("what was given", "what is needed", "what to do")

    tab = show(Drawing(kind="table", data=atlas.search(source=" try", limit=5).drawing().data, answer=refuse))
    tab.get_by_test_id("more").click()
    told = tab.get_by_test_id("refused").inner_text()
    assert all(part in told for part in ("what was given", "what is needed", "what to do"))
    assert tab.get_by_test_id("rows").locator("[role=row]").count() == 6


def test_a_kernel_that_is_gone_is_told(show, atlas):
    drawing = atlas.search(source=" try", limit=5).drawing()
    tab = show(drawing)
    tab.evaluate("model.send = () => undefined")
    tab.get_by_test_id("more").click()
    tab.get_by_test_id("silent").wait_for(timeout=10_000)


SURROUNDINGS = {
    "jupyterlab": "document.body.dataset.jpThemeLight = {light}",
    "vscode": "document.body.className = {light} ? 'vscode-light' : 'vscode-dark'",
    "marimo": "document.body.className = {light} ? 'light' : 'dark'",
    "colab": "document.documentElement.setAttribute('theme', {light} ? 'light' : 'dark')",
}


@pytest.mark.parametrize("where", SURROUNDINGS)
def test_colours_follow_the_notebook(show, heads, where):
    tab = show(heads.drawing(), theme="auto")
    widget = tab.locator(".headwater-widget")
    assert widget.get_attribute("data-theme") == "light"
    dark = tab.locator('.headwater-widget[data-theme="dark"]')
    tab.evaluate(SURROUNDINGS[where].format(light="false"))
    dark.wait_for()
    assert widget.evaluate("(it) => getComputedStyle(it).backgroundColor") == "rgb(23, 30, 37)"
    tab.evaluate(SURROUNDINGS[where].format(light="true"))
    dark.wait_for(state="detached")


def test_without_a_word_the_system_and_the_browser_decide(show, heads):
    tab = show(heads.drawing(), "auto", "auto", color_scheme="dark")
    assert tab.locator(".headwater-widget").get_attribute("data-theme") == "dark"
    assert tab.locator(".headwater-widget").get_attribute("lang") == "en"
    tab.evaluate("model.set('language', 'pt')")
    tab.get_by_text("8 cabeças").wait_for()


def test_a_widget_that_is_taken_away_leaves_nothing(show, heads):
    tab = show(heads.drawing())
    tab.evaluate("end()")
    assert tab.locator("#place > *").count() == 0
    assert tab.evaluate("Object.values(ears).flat().length") == 0


def test_styles_end_at_the_border(show, heads):
    tab = show(heads.drawing())
    tab.evaluate(
        "document.body.insertAdjacentHTML('beforeend', '<button id=own>own</button><table id=of><tr><td>x</td></tr></table>')"
    )
    assert tab.evaluate("getComputedStyle(document.getElementById('own')).borderRadius") == "0px"
    assert tab.evaluate("getComputedStyle(document.documentElement).getPropertyValue('--ink')") == ""
