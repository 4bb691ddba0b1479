"""A person's way through River: type, see, choose, split, compare, save, reload and go back; and every number is the library's own."""

import csv
import io
import json
import math
import re
from dataclasses import replace
from urllib.parse import quote

import pytest

import headwater as hw
from studio_server import studio

pytestmark = pytest.mark.browser
TEXT = "for line in open("
NEXT = {"one-layer": "L0H5", "two-layer": "L1H3"}


def shown(value, language, digits=3):
    """A number as the page writes it."""
    written = f"{value:+z.{digits}f}".replace("-", "−")
    return written.replace(".", ",") if language == "pt" else written


@pytest.fixture(scope="module")
def runs():
    return {name: hw.load(name).record(TEXT) for name in ("one-layer", "two-layer", "block")}


@pytest.fixture
def river(go):
    """Open a river, and wait until it is drawn and has come to rest."""

    def opened(model="one-layer", text=TEXT, **choices):
        asked = {"model": model, "text": text, "lang": "en", "theme": "light", **choices}
        page = go("/river?" + "&".join(f"{name}={quote(str(value), safe='')}" for name, value in asked.items()))
        page.get_by_test_id("river").wait_for()
        page.get_by_test_id("totals").wait_for()
        return page

    return opened


def drawn(page, key):
    return page.locator(f'g[data-key="{key}"]')


def row(page, key, depth=1):
    return page.locator(f'tr[data-key="{key}"][data-depth="{depth}"]')


def below(page, key, depth=1):
    """The values of the rows right below one."""
    rows = page.get_by_test_id("part")
    all_rows = rows.evaluate_all("rows => rows.map(row => [row.dataset.key, +row.dataset.depth, +row.dataset.value])")
    start = next(n for n, (name, deep, _) in enumerate(all_rows) if name == key and deep == depth)
    found = []
    for _, deep, value in all_rows[start + 1 :]:
        if deep <= depth:
            break
        if deep == depth + 1:
            found.append(value)
    return found


@pytest.mark.parametrize("language", ["en", "pt"])
@pytest.mark.parametrize("model", ["one-layer", "two-layer"])
def test_the_numbers_on_the_screen_are_the_librarys(river, runs, model, language):
    run, page = runs[model], river(model, lang=language)
    why, totals = run.explain(), run.totals()
    assert page.get_by_test_id("value").inner_text() == shown(why.value, language)
    percent = f"{100 * why.facts['probability']:.2f}%"
    assert (percent.replace(".", ",") if language == "pt" else percent) in page.get_by_test_id("probability").inner_text()
    for part in why.parts:
        if part.kind == "head":
            cells = row(page, f"{part.label.split()[0]}@4").locator("td").all_inner_texts()
            assert cells[1] == shown(part.value, language), part
    head = NEXT[model]
    assert shown(why[head].value, language, 2) in drawn(page, f"{head}@4").text_content()
    for at, total in enumerate(totals.tokens[0].tolist()):
        assert shown(total, language) in page.get_by_test_id(f"token-{at}").inner_text()
    first, probability = run.top(-1, 1)[0]
    likeliest = page.get_by_test_id(f"next-{first}").inner_text()
    assert f"{100 * probability:.1f}%".replace(".", "," if language == "pt" else ".") in likeliest
    page.get_by_test_id("writes").locator("summary").click()
    assert page.get_by_test_id(f"write-{head}").inner_text() == shown(float(totals.writes[head][0]), language)
    words = {"en": ("Likeliest next", "heads of layer 0"), "pt": ("Mais prováveis a seguir", "cabeças da camada 0")}[language]
    assert words[0] in page.get_by_test_id("likely").inner_text()
    assert words[1] in page.get_by_test_id("river").text_content()
    assert re.search(r"\d[.,]\d", page.get_by_test_id("certificates").inner_text())[0][1] == {"en": ".", "pt": ","}[language]


def test_the_certificate_is_in_sight_and_within_its_bound(river, served):
    page = river("block")
    told = served.get("/api/river", model="block", text=TEXT)
    assert float(page.get_by_test_id("certificate").get_attribute("data-value")) == told["certificate"] <= told["bound"]
    said = page.get_by_test_id("certificate").inner_text()
    assert "✓" in said
    assert "within its bound" in said, "who does not see colours is told"


def test_a_person_types_a_text_and_explains_what_comes_next(river, page):
    river()
    page.get_by_test_id("text").fill("import os\nimport ")
    page.get_by_test_id("text").press("Enter")
    run = hw.load("one-layer").record("import os\nimport ")
    page.locator(f'[data-testid="token-{run.tokens.shape[1] - 1}"].chosen').wait_for()
    page.get_by_text(shown(run.explain().value, "en"), exact=True).first.wait_for()
    second = run.top(-1, 2)[1][0]
    page.get_by_test_id(f"next-{second}").click()
    page.get_by_text(shown(run.explain(token=second).value, "en"), exact=True).first.wait_for()
    assert "token=%23" in page.url


def test_a_click_splits_a_part_reload_keeps_it_and_back_undoes_it(river, runs):
    page = river("one-layer", open="-L0H5@4")
    assert drawn(page, "L0H5@4").get_attribute("aria-expanded") == "false"
    asked = []
    page.on("request", lambda request: asked.extend(re.findall(r"/api/([\w/]+)", request.url)))
    drawn(page, "L0H5@4").click()
    page.locator('g[data-key="L0H5@4"][aria-expanded="true"]').wait_for()
    assert asked == ["river"], "the rest is as it was"
    split = runs["one-layer"].explain()["L0H5"].split()
    values = below(page, "L0H5@4")
    assert sorted(values) == pytest.approx(sorted(part.value for part in split.parts), abs=1e-9)
    assert math.fsum(values) == pytest.approx(split.value, abs=1e-5)
    page.reload()
    page.locator('g[data-key="L0H5@4"][aria-expanded="true"]').wait_for()
    page.go_back()
    page.locator('g[data-key="L0H5@4"][aria-expanded="false"]').wait_for()


def test_what_is_drawn_adds_up_everywhere_in_a_deeper_model(river):
    page = river("two-layer")
    bands = page.get_by_test_id("band").evaluate_all(
        "bands => bands.map(b => [...b.dataset.band.split('>'), +b.dataset.value])"
    )
    nodes = dict(page.get_by_test_id("node").evaluate_all("nodes => nodes.map(n => [n.dataset.key, +n.dataset.value])"))
    opened = page.locator('g[data-testid="node"][aria-expanded="true"]').evaluate_all("some => some.map(n => n.dataset.key)")
    assert {"logit", "L1H3@4", "L1@4", "L0H0@4"} <= set(opened)
    for key in opened:
        assert math.fsum(value for _, target, value in bands if target == key) == pytest.approx(nodes[key], abs=1e-5)
    rests = {key for key in nodes if key.startswith("…")}
    for key in set(nodes) - {"logit"} - rests:
        own = math.fsum(value for source, _, value in bands if source == key)
        assert own == pytest.approx(nodes[key], abs=1e-9)
    # The remainders of a column are drawn as one.
    own = math.fsum(value for source, _, value in bands if source.endswith("…"))
    assert rests
    assert own == pytest.approx(math.fsum(nodes[key] for key in rests), abs=1e-9)


@pytest.mark.parametrize("size", [(1000, 768), (1366, 768), (1920, 1080)])
@pytest.mark.parametrize("model", ["one-layer", "two-layer", "block"])
def test_labels_never_overlap(river, page, model, size):
    page.set_viewport_size({"width": size[0], "height": size[1]})
    river(model)
    page.wait_for_timeout(900)
    boxes = page.locator('g[data-testid="node"] text.name').evaluate_all(
        "texts => texts.map(t => { const b = t.getBoundingClientRect(); return [b.left, b.top, b.right, b.bottom, t.textContent]; })"
    )
    for number, (left, top, right, bottom, text) in enumerate(boxes):
        for other in boxes[number + 1 :]:
            apart = right <= other[0] or other[2] <= left or bottom <= other[1] + 1 or other[3] <= top + 1
            assert apart, (text, other[4])


def test_pointing_at_a_part_shows_its_course_and_its_exact_number(river, runs):
    page = river()
    drawn(page, "L0H4@4").locator(".bar").hover()
    tip = page.get_by_test_id("tip")
    assert shown(runs["one-layer"].explain()["L0H4"].value, "en", 6) in tip.inner_text()
    assert "dim" in drawn(page, "L0H5@4").get_attribute("class")
    assert "dim" not in drawn(page, "logit").get_attribute("class")
    # Whatever lies over it: only the band itself is meant.
    page.locator('g[data-band="token@3>L0H4@4"]').dispatch_event("pointermove", {"clientX": 400, "clientY": 500})
    source = runs["one-layer"].explain()["L0H4"].split()["@3"]
    assert f"{source.facts['attention']:.3f}" in tip.inner_text()
    assert "96.6%" in tip.inner_text()


def test_pointing_at_a_token_shows_what_the_model_expected_there(river, runs):
    page = river()
    page.get_by_test_id("token-1").hover()
    tip = page.get_by_test_id("expected")
    tip.wait_for()
    token, probability = runs["one-layer"].top(1, 1)[0]
    assert f"{100 * probability:.1f}%" in tip.inner_text()
    assert hw.load("one-layer").tokenizer.decode([token]).strip() in tip.inner_text()


def test_a_difference_and_a_centred_logit(river, runs):
    run, page = runs["one-layer"], river()
    first, other = (token for token, _ in run.top(-1, 2))
    page.get_by_test_id(f"against-{other}").click()
    value = page.get_by_test_id("value")
    page.get_by_test_id("no-against").wait_for()
    assert value.inner_text() == shown(run.explain(token=first, against=other).value, "en")
    page.get_by_test_id("no-against").click()
    page.get_by_test_id("no-against").wait_for(state="detached")
    page.get_by_test_id("centred").click()
    page.locator('[data-testid="centred"][aria-pressed="true"]').wait_for()
    assert value.inner_text() == shown(run.explain(centred=True).value, "en")
    third = run.top(-1, 3)[2][0]
    page.get_by_test_id(f"next-{third}").click(modifiers=["Shift"])
    page.get_by_test_id("no-against").wait_for()
    assert value.inner_text() == shown(run.explain(token=first, against=third).value, "en")


@pytest.mark.parametrize(("language", "words"), [("en", "is 6 tokens"), ("pt", "são 6 tokens")])
def test_a_token_that_is_none_is_refused_kindly_and_its_pieces_offered(river, runs, language, words):
    page = river(lang=language)
    field = page.get_by_test_id("token-field")
    field.fill("notatokenreally")
    field.press("Enter")
    assert words in page.get_by_test_id("token-wrong").inner_text()
    pieces = hw.load("one-layer").tokenizer.encode("notatokenreally")
    page.get_by_test_id(f"token-offer-{pieces[0]}").click()
    page.get_by_text(shown(runs["one-layer"].explain(token=pieces[0]).value, language), exact=True).first.wait_for()
    field.fill("#12")
    field.press("Enter")
    page.get_by_text(shown(runs["one-layer"].explain(token=12).value, language), exact=True).first.wait_for()


def test_an_address_with_a_wrong_token_says_so_and_the_rest_stays(chromium, served):
    """In a context of its own: the browser writes each refused question to its console."""
    context = chromium.new_context()
    page = context.new_page()
    page.goto(served.door)
    page.wait_for_url("**/")
    page.goto(f"{served.address}/river?model=one-layer&text=a%20b&token=notatokenreally&lang=en")
    page.get_by_test_id("failure").wait_for()
    assert "notatokenreally" in page.get_by_test_id("failure").inner_text()
    page.get_by_test_id("token-0").wait_for()
    context.close()


def summed(page):
    """The line below the text: what it adds up, and what it says that comes to."""
    said = page.get_by_test_id("totals").inner_text().replace("−", "-")
    *parts, whole = (float(number) for number in re.findall(r"[+-]\d+\.\d+", said))
    return math.fsum(parts), whole


def test_numbers_of_two_questions_never_stand_together(river, runs):
    page, run = river("block"), runs["block"]
    held = []

    def hold(route):
        held.append(route)

    page.route(re.compile(r"/api/river\?"), hold)
    with page.expect_response("**/api/river/totals**"):
        page.get_by_test_id("token-1").click()
    page.get_by_text(shown(run.explain(1).value, "en"), exact=True).first.wait_for()
    parts, whole = summed(page)
    assert parts == pytest.approx(whole, abs=0.003)
    assert whole == pytest.approx(run.explain(1).value, abs=0.001)
    # The river is still that of the question before.
    assert page.get_by_test_id("value").inner_text() == shown(run.explain().value, "en")
    for old in (page.get_by_test_id("value"), page.get_by_test_id("certificate"), page.get_by_test_id("river")):
        assert old.locator("xpath=ancestor::*[contains(@class, 'stale')]").count() == 1
    assert page.locator('[data-testid^="against-"]:enabled').count() == 0
    held[0].continue_()
    page.get_by_test_id("title").filter(has_text="@1").wait_for()
    page.locator(".stale").first.wait_for(state="detached")


def test_what_a_refused_question_leaves_on_the_screen_fades(chromium, served):
    """In a context of its own: the browser writes each refused question to its console."""
    context = chromium.new_context(locale="en-GB")
    page = context.new_page()
    page.goto(served.door)
    page.wait_for_url("**/")
    page.goto(f"{served.address}/river?model=one-layer&text=a%20b&lang=en")
    page.get_by_test_id("totals").wait_for()
    page.route(
        re.compile(r"/api/river(/totals)?\?"),
        lambda route: route.fulfill(status=422, json={"given": "no", "needed": "", "do": ""}),
    )
    page.get_by_test_id("token-0").click()
    page.get_by_test_id("failure").wait_for()
    for name in ("value", "certificate", "river", "totals", "certificates", "reproduce"):
        page.get_by_test_id(name).locator("xpath=ancestor-or-self::*[contains(@class, 'stale')]").wait_for()
    context.close()


def test_everything_can_be_done_by_keyboard(river, runs):
    run, page = runs["two-layer"], river("two-layer")
    page.locator('[data-testid="token-4"]').focus()
    page.keyboard.press("ArrowLeft")
    page.get_by_text(shown(run.explain(3).value, "en"), exact=True).first.wait_for()
    assert page.evaluate("document.activeElement.dataset.position") == "3"
    page.keyboard.press("End")
    page.get_by_text(shown(run.explain().value, "en"), exact=True).first.wait_for()
    drawn(page, "logit").focus()
    page.keyboard.press("ArrowLeft")
    assert page.evaluate("document.activeElement.dataset.key") == "L1H3@4"
    page.keyboard.press("Enter")
    page.locator('g[data-key="L1H3@4"][aria-expanded="false"]').wait_for()
    assert page.evaluate("document.activeElement.dataset.key") == "L1H3@4"
    row(page, "L1H3@4").focus()
    page.keyboard.press("ArrowRight")
    page.locator('tr[data-key="L1H3@4"][aria-expanded="true"]').wait_for()
    assert math.fsum(below(page, "L1H3@4")) == pytest.approx(run.explain()["L1H3"].value, abs=1e-5)
    page.keyboard.press("ArrowLeft")
    page.locator('tr[data-key="L1H3@4"][aria-expanded="false"]').wait_for()


def test_another_way_to_split_and_back_to_the_beginning(river, runs):
    page = river("two-layer")
    page.get_by_test_id("by").select_option("token")
    page.get_by_test_id("reset").wait_for()
    split = runs["two-layer"].explain().split("token", most=None)
    row(page, "token@4").wait_for()
    drawn(page, "L1H3@4").wait_for(state="detached")
    assert sorted(below(page, "logit", 0)) == pytest.approx(sorted(part.value for part in split.parts), abs=1e-9)
    page.get_by_test_id("reset").click()
    drawn(page, "L1H3@4").wait_for()


def save(page, name):
    page.get_by_test_id("save").click()
    with page.expect_download() as got:
        page.get_by_role("button", name=name).click()
    content = got.value.path().read_bytes()
    page.get_by_test_id("save").click()
    return content


def test_the_river_is_saved_as_drawing_table_numbers_and_page(river, runs):
    page, why = river("two-layer"), runs["two-layer"].explain()
    page.wait_for_timeout(700)
    svg = save(page, "SVG").decode()
    assert svg.startswith("<svg")
    assert "url(" in svg
    assert "stop-color: rgb(0, 114, 178)" in svg.replace("stop-color:rgb", "stop-color: rgb")
    assert shown(why.value, "en") in svg
    assert "<script" not in svg
    assert save(page, "PNG").startswith(b"\x89PNG")
    rows = list(csv.DictReader(io.StringIO(save(page, "CSV").decode("utf-8-sig"))))
    assert float(rows[0]["value"]) == why.value
    own = [float(each["value"]) for each in rows if each["depth"] == "1"]
    assert math.fsum(own) == pytest.approx(why.value, abs=1e-5)
    assert float(next(each for each in rows if each["part"] == "L1H3")["value"]) == why["L1H3"].value
    numbers = json.loads(save(page, "JSON"))
    assert numbers["value"] == why.value
    html = save(page, "HTML").decode()
    assert shown(why.value, "en") in html
    assert "headwater explain two-layer" in html
    kept = json.loads(re.search(r'<script type="application/json" id="data">(.*?)</script>', html, re.S)[1])
    assert kept["value"] == why.value
    assert html.count("<script") == 1


def test_hostile_tokens_are_text_and_nothing_else(river):
    page = river("one-layer", text="</script><b>x</b>\u202e\u0000 <img src=x onerror=alert(1)>")
    assert page.locator("main b:text-is('x'), main img").count() == 0
    assert "script" in page.get_by_test_id("strip").inner_text()


@pytest.fixture(scope="module")
def long_text(tmp_path_factory):
    """A model without words that reads 1,100 tokens, and one without layers."""
    from headwater.model.presets import named
    from headwater.model.weights import Weights

    folder = tmp_path_factory.mktemp("long")
    config = replace(named("one-layer"), vocab=300, context=1100, d_model=32, layers=2)
    hw.Model(Weights.draw(config, seed=1)).save(folder / "long")
    with studio(folder / "long", "zero-layer", folder=folder) as running:
        yield running


@pytest.fixture
def tab(chromium, long_text):
    context = chromium.new_context(viewport={"width": 1366, "height": 768}, locale="en-GB")
    page = context.new_page()
    wrong = []
    page.on("console", lambda message: wrong.append(message.text) if message.type == "error" else None)
    page.on("pageerror", lambda error: wrong.append(str(error)))
    page.goto(long_text.door)
    page.wait_for_url("**/")
    yield page
    context.close()
    assert wrong == []


def test_a_text_of_1024_tokens_stays_fluid(tab, long_text):
    ids = [(7 * number * number + 3) % 300 for number in range(1024)]
    tab.goto(f"{long_text.address}/river?model=long&lang=en&text=ids:{','.join(map(str, ids))}")
    tab.get_by_test_id("river").wait_for()
    tab.get_by_test_id("totals").wait_for()
    assert tab.locator('[data-testid="strip"] button').count() == 1024
    assert tab.get_by_test_id("node").count() <= 70
    # The strip scrolls, and frames keep coming while it does.
    worst = tab.evaluate(
        """async () => {
            const strip = document.querySelector('[data-testid=strip]');
            let worst = 0, last = performance.now();
            for (let step = 0; step < 40; step += 1) {
                strip.scrollTop = (step / 40) * strip.scrollHeight;
                await new Promise(requestAnimationFrame);
                const now = performance.now();
                worst = Math.max(worst, now - last);
                last = now;
            }
            return worst;
        }"""
    )
    assert worst < 700, worst
    tab.get_by_test_id("token-700").click()
    tab.locator('[data-testid="token-700"].chosen').wait_for()
    tab.get_by_test_id("title").filter(has_text="@700").wait_for()
    told = long_text.get("/api/river", model="long", text="ids:" + ",".join(map(str, ids)), position=700)
    assert tab.get_by_test_id("value").inner_text() == shown(told["value"], "en")
    assert f"#{ids[700]}" in tab.get_by_test_id("title").inner_text()


@pytest.mark.parametrize("language", ["en", "pt"])
def test_a_bigram_machine_is_a_river_of_one_band(tab, long_text, language):
    tab.goto(f"{long_text.address}/river?model=zero-layer&lang={language}&text={quote(TEXT)}")
    tab.get_by_test_id("river").wait_for()
    assert tab.get_by_test_id("band").count() == 1
    value = hw.load("zero-layer").record(TEXT).explain().value
    assert tab.get_by_test_id("value").inner_text() == shown(value, language)


def test_a_text_of_two_tokens(river, runs):
    page = river("two-layer", text="def f")
    assert page.get_by_test_id("node").count() > 4
    value = hw.load("two-layer").record("def f").explain().value
    assert page.get_by_test_id("value").inner_text() == shown(value, "en")
