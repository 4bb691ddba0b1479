"""A person's way through the atlas, in both languages: what is on the screen is what the library finds."""

import csv
import io
import json
import re
from dataclasses import replace
from types import SimpleNamespace

import pytest
import torch

from headwater import Model
from headwater.atlas.atlas import open_atlas
from headwater.atlas.bug_rows import bug_rows
from headwater.atlas.diff import diff
from headwater.atlas.reading import places
from headwater.atlas.search import Query
from headwater.model.config import Attention, ModelConfig
from strategies import random_weights
from studio_server import studio
from tiny_atlas import build_here, save_corpus, save_model

pytestmark = pytest.mark.browser
LANGUAGES = pytest.mark.parametrize("language", ["en", "pt"])


@pytest.fixture(scope="module")
def atlas(shelf_folder):
    with open_atlas(shelf_folder / "models" / "one-layer" / "atlas") as found:
        yield found


def written(value, digits=3, language="en", sign="+z"):
    """A number as the page writes it."""
    text = f"{value:{sign},.{digits}f}".replace("-", "−")
    if sign:
        text = text.replace(",", "")
    return text.translate(str.maketrans(",.", ".,")) if language == "pt" else text


def saved(page, kind):
    page.get_by_test_id("save").click()
    with page.expect_download() as got:
        page.get_by_role("button", name=kind).click()
    page.get_by_test_id("save").click()
    return got.value.path().read_text(encoding="utf-8-sig")


@LANGUAGES
def test_heads_by_measure_and_one_of_them(go, atlas, language):
    page = go(f"/atlas?lang={language}")
    summary = {one["head"]: one for one in atlas.summary["heads"]}
    for name, one in summary.items():
        square = page.get_by_test_id(f"head-{name}")
        assert square.locator(".value").text_content() == written(one["copying_centred"], 2, language)
    copying = sum(one["copying_panel"]["verdict"] == "copying" for one in summary.values())
    said = {"en": f"{copying} of 8 heads copy", "pt": f"{copying} de 8 cabeças copiam"}
    assert said[language] in page.get_by_test_id("facts").inner_text()
    page.get_by_test_id("measure").select_option("positions")
    assert "measure=positions" in page.url
    shown = page.get_by_test_id("head-L0H5").locator(".value").text_content()
    assert shown == written(summary["L0H5"]["placement"]["positions"], 2, language)
    assert saved(page, "SVG").startswith("<svg")
    rows = list(csv.reader(io.StringIO(saved(page, "CSV"))))
    assert [row[0] for row in rows[1:]] == list(atlas.heads)
    assert float(rows[6][rows[0].index("copying")]) == summary["L0H5"]["copying"]

    page.get_by_test_id("head-L0H0").focus()
    page.keyboard.press("ArrowRight")
    page.keyboard.press("Enter")
    page.locator("[data-testid=head-page][data-head=L0H1]").wait_for()
    page.get_by_test_id("head-after").click()
    page.locator("[data-testid=head-page][data-head=L0H2]").wait_for()
    dots = page.get_by_test_id("eigenvalues").locator("circle[data-real]")
    panel = summary["L0H2"]["copying_panel"]
    assert dots.count() == len(panel["centred"]["eigenvalues"])
    assert [float(dots.nth(0).get_attribute(f"data-{part}")) for part in ("real", "imaginary")] == panel["centred"][
        "eigenvalues"
    ][0]
    assert written(100 * panel["centred"]["positive"], 1, language, "") + "%" in page.get_by_test_id("eigen-say").inner_text()
    votes = page.get_by_test_id("verdict").first
    ranks, often = panel["ranks"], panel["ranks_by_frequency"]
    for definition, shown in {
        "mean rank": f"{written(ranks['mean'], 0, language, '')} / {written(panel['tokens'], 0, language, '')}",
        "most in top 10": f"{written(100 * ranks['top_10'], 1, language, '')}%",
        "most in top 10, by frequency": f"{written(100 * often['top_10'], 1, language, '')}%",
    }.items():
        assert votes.locator(f"[data-definition='{definition}'] .number").inner_text() == shown
    page.get_by_test_id("basis-raw").click()
    assert written(100 * panel["raw"]["positive"], 1, language, "") + "%" in page.get_by_test_id("eigen-say").inner_text()
    best = atlas.strongest("L0H2").rows[0]
    assert page.get_by_test_id("strongest-raising").get_by_test_id("lift").first.inner_text() == written(
        best["lift"], 3, language
    )
    page.reload()
    page.locator("[data-testid=head-page][data-head=L0H2]").wait_for()
    page.go_back()
    page.locator("[data-testid=head-page][data-head=L0H1]").wait_for()
    page.get_by_test_id("back-to-heads").click()
    page.get_by_test_id("head-grid").wait_for()


def test_the_tables_of_a_head(go, atlas):
    page = go("/atlas?lang=en&head=L0H5")
    first = page.get_by_test_id("commonest").get_by_role("button").first
    first.wait_for()
    spaces = [text is not None and not text.strip() for text in atlas.words.texts]
    commonest = max((count, -token) for token, count in enumerate(atlas.words.count.tolist()) if not spaces[token])
    first.click()
    word = atlas.words.texts[-commonest[1]]
    assert page.get_by_test_id("field-token").input_value() == word
    page.get_by_test_id("entry").first.wait_for()
    page.get_by_test_id("field-token").fill("")
    page.get_by_test_id("commonest").wait_for()
    page.get_by_test_id("field-token").press_sequentially(" self")
    for table, other, column in (
        ("says", "out", "output"),
        ("seeks", "source", "score"),
        ("sought", "dest", "score"),
        ("said", "source", "lift"),
    ):
        page.get_by_test_id(f"table-{table}").click()
        page.get_by_test_id(f"list-{table}").wait_for()
        first = page.get_by_test_id("entry").first
        row = getattr(atlas.head("L0H5"), table)(" self").rows[0]
        page.locator(f"[data-testid=entry][data-token='{row[f'{other}_id']}']").first.wait_for()
        assert first.get_attribute("data-token") == str(row[f"{other}_id"])
        assert first.locator(f"[data-column={column}]").inner_text() == written(row[column])
    page.get_by_test_id("field-token").fill("no such token")
    page.get_by_test_id("missing").wait_for()


@LANGUAGES
def test_search_while_typing(go, atlas, language):
    page = go(f"/atlas?lang={language}&view=search")
    total = page.get_by_test_id("total")
    total.wait_for()
    assert int(total.get_attribute("data-total")) == atlas.search(limit=0).total
    page.get_by_test_id("field-source").press_sequentially("retur")
    page.get_by_test_id("suggestion").first.wait_for()
    assert "retur" not in atlas.words.texts
    page.get_by_test_id("missing").wait_for()
    page.get_by_test_id("field-source").fill("self")
    option = page.get_by_test_id("suggestion").filter(has_text="·self").first
    option.wait_for()
    option.click()
    found = atlas.search(source=" self", limit=300)
    page.locator(f"[data-testid=total][data-total='{found.total}']").wait_for()
    lifts = page.get_by_test_id("found").locator("[data-column=lift]")
    assert lifts.first.inner_text() == written(found.rows[0]["lift"], 3, language)
    remarks = page.get_by_test_id("remarks").inner_text()
    assert written(found.beyond[0], 3, language) in remarks
    # The next page comes as the end comes near.
    page.get_by_test_id("found").first.evaluate(
        "row => { const list = row.closest('.rows'); list.scrollTop = list.scrollHeight; }"
    )
    page.wait_for_timeout(300)
    page.get_by_test_id("found").first.evaluate("row => { const list = row.closest('.rows'); list.scrollTop = 150 * 34; }")
    row = page.locator("[data-testid=found][data-number='150']")
    row.wait_for()
    assert row.locator("[data-column=lift]").inner_text() == written(found.rows[150]["lift"], 3, language)
    # A row that is opened leaves the list, and who reads it, where they are.
    row.get_by_test_id("unfold").click()
    page.get_by_test_id("opened").first.wait_for()
    row.wait_for()
    row.get_by_test_id("unfold").click()
    page.get_by_test_id("sign-lowering").click()
    low = atlas.search(source=" self", sign="lowering", limit=1)
    page.locator(f"[data-testid=total][data-total='{low.total}']").wait_for()
    page.get_by_test_id("sort-attention").click()
    heads = page.get_by_role("table").get_by_role("columnheader")
    page.locator("[role=columnheader][aria-sort=descending]").get_by_test_id("sort-attention").wait_for()
    assert heads.count() == page.get_by_test_id("found").first.get_by_role("cell").count()
    page.get_by_test_id("search-heads").select_option("L0H7")
    wanted = atlas.search(source=" self", sign="lowering", sort="attention", head="L0H7", limit=3)
    page.locator(f"[data-testid=total][data-total='{wanted.total}']").wait_for()
    page.reload()
    page.locator(f"[data-testid=total][data-total='{wanted.total}']").wait_for()
    shown = page.get_by_test_id("found").first.locator("[data-column=attention]").inner_text()
    assert shown == written(wanted.rows[0]["attention"], 3, language, "")
    document = json.loads(saved(page, "JSON"))
    assert [each["lift"] for each in document["rows"][:3]] == [each["lift"] for each in wanted.rows]
    page.get_by_test_id("reproduce").locator("summary").click()
    assert "--source ' self'" in page.get_by_test_id("line-shell").inner_text()


def to_the_end(page):
    page.get_by_test_id("found").first.evaluate(
        "row => { const list = row.closest('.rows'); list.scrollTop = list.scrollHeight; }"
    )


def test_a_list_has_rows_of_one_question_alone(go, atlas):
    page = go("/atlas?lang=en&view=search&source=%20self")
    total = atlas.search(source=" self", limit=0).total
    page.locator(f"[data-testid=total][data-total='{total}']").wait_for()
    held = []

    def hold(route):
        held.append(route)

    page.route(re.compile(r"/api/atlas/search\?(?!.*offset)"), hold, times=1)
    page.get_by_test_id("field-source").fill(" def")
    while not held:
        page.wait_for_timeout(50)
    # Another question is on its way; what is in sight is continued as what it is.
    with page.expect_response(re.compile("offset=100")) as coming:
        to_the_end(page)
    assert "source=+self" in coming.value.url
    held[0].continue_()
    found = atlas.search(source=" def", limit=200)
    page.locator(f"[data-testid=total][data-total='{found.total}']").wait_for()
    document = json.loads(saved(page, "JSON"))
    assert [row["lift"] for row in document["rows"]] == [row["lift"] for row in found.rows][: len(document["rows"])]


def test_a_page_that_did_not_come_can_be_asked_for_again(chromium, served, atlas):
    """In a tab of its own: a browser complains of every answer that is an error."""
    context = chromium.new_context(viewport={"width": 1366, "height": 768})
    page = context.new_page()
    page.goto(served.door)
    page.wait_for_url("**/")
    page.goto(f"{served.address}/atlas?lang=en&view=search&source=%20self")
    page.route(re.compile("offset=100"), lambda route: route.fulfill(status=503, body="{}"), times=1)
    page.get_by_test_id("found").first.wait_for()
    to_the_end(page)
    page.get_by_test_id("failure").get_by_role("button").click()
    page.get_by_test_id("failure").wait_for(state="detached")
    page.locator("[data-testid=found][data-number='100']").wait_for()
    context.close()


def test_a_row_opens_to_places_in_the_text_and_leads_to_the_river(go, atlas):
    row = next(row for row in atlas.search(sort="measured", limit=5).rows if row["fires"])
    page = go("/atlas?lang=en&view=search&sort=measured")
    key = f"{row['head']}.{row['source_id']}.{row['dest_id']}.{row['out_id']}"
    line = page.locator(f"[data-testid=found][data-key='{key}']")
    line.get_by_test_id("unfold").click()
    page.get_by_test_id("place").first.wait_for()
    found = places(atlas, Query(source=row["source_id"], dest=row["dest_id"], out=row["out_id"], head=row["head"]))
    shown = [float(each.get_attribute("data-measured")) for each in page.get_by_test_id("place").all()]
    assert shown == pytest.approx([each.measured for each in found])
    assert page.get_by_test_id("place").first.locator(".number").first.inner_text() == written(found[0].measured)
    assert f"open={key}" in page.url
    page.get_by_test_id("to-passage").first.click()
    page.get_by_test_id("screen-river").wait_for()
    assert "text=" in page.url
    page.go_back()
    page.get_by_test_id("place").first.wait_for()


@LANGUAGES
def test_bugs_bigrams_and_a_single_layer(go, atlas, language):
    page = go(f"/atlas?lang={language}&view=bugs")
    rows = bug_rows(atlas.folder, atlas.manifest, None)
    total = page.get_by_test_id("bugs-total")
    total.wait_for()
    assert int(total.get_attribute("data-total")) == len(rows)
    assert written(sum(row["cost"] for row in rows), 3, language, "") in total.inner_text()
    cost = page.get_by_test_id("bug").first.locator("[data-column=cost]").inner_text()
    assert cost == written(rows[0]["cost"], 4, language, "")
    own = [row for row in rows if row["head"] == "L0H7"]
    page.get_by_test_id("bugs-head").select_option("L0H7")
    page.locator(f"[data-testid=bugs-total][data-total='{len(own)}']").wait_for()
    page.get_by_test_id("view-bigrams").click()
    page.get_by_test_id("field-token").press_sequentially(" self")
    best = atlas.bigrams(" self").rows[0]
    page.locator(f"[data-testid=entry][data-token='{best['out_id']}']").wait_for()
    shown = page.get_by_test_id("entry").first.locator("[data-column=output]").inner_text()
    assert shown == written(best["output"], 3, language)
    page.get_by_test_id("view-composition").click()
    page.get_by_test_id("one-layer").wait_for()


LAYERS = ModelConfig(vocab=40, context=8, d_model=24, layers=12, attention=Attention(heads=12, d_head=2))


@pytest.fixture(scope="module")
def others(tmp_path_factory):
    """A studio in a folder of its own: two small atlases over one vocabulary, one of 12 × 12 heads, and a model without one."""
    from headwater.atlas.build import AtlasChoices, build_atlas

    folder = tmp_path_factory.mktemp("others")
    for name, seed in (("a", 0), ("b", 1)):
        (folder / name).mkdir()
        save_model(folder / name / "model", seed=seed)
        save_corpus(folder / name / "corpus")
        build_here(folder / name, folder / name / "atlas")
    Model(random_weights(LAYERS, 3, torch.float32)).save(folder / "deep" / "model")
    build_atlas(folder / "deep" / "model", folder / "deep" / "atlas", AtlasChoices(k=4, triples=10, each=2))
    Model(random_weights(replace(LAYERS, layers=2, attention=Attention(heads=2, d_head=4)), 4, torch.float32)).save(
        folder / "bare"
    )
    with studio("bare", "a/model", folder=folder, atlases=("b/atlas", "deep/atlas")) as running:
        yield SimpleNamespace(running=running, folder=folder)


@pytest.fixture
def elsewhere(chromium, others):
    context = chromium.new_context(viewport={"width": 1366, "height": 768}, accept_downloads=True, locale="en-GB")
    tab = context.new_page()
    heard = []
    tab.on("console", lambda message: heard.append(message.text) if message.type in ("error", "warning") else None)
    tab.on("pageerror", lambda error: heard.append(str(error)))
    tab.goto(others.running.door)
    tab.wait_for_url("**/")

    def opened(path):
        tab.goto(others.running.address + path)
        return tab

    yield opened
    context.close()
    assert heard == []


@LANGUAGES
def test_two_atlases_side_by_side(elsewhere, others, language):
    page = elsewhere(f"/atlas?lang={language}&model=a&view=compare")
    page.get_by_test_id("other").select_option("b")
    page.get_by_test_id("compared").wait_for()
    with open_atlas(others.folder / "a" / "atlas") as before, open_atlas(others.folder / "b" / "atlas") as after:
        found = diff(before, after, limit=3)
    for kind in ("appeared", "vanished", "changed"):
        number = page.get_by_test_id(f"changes-{kind}").locator("[data-total]").get_attribute("data-total")
        assert int(number) == found.counts[kind]
    least = page.get_by_test_id("changes-appeared").locator("[data-column=least]").first.inner_text()
    assert least == written(found.appeared[0].least, 3, language, "")
    cells = page.get_by_test_id("heads-both").locator("tr[data-head=L0H0] td").all_inner_texts()
    was, now = found.heads[0].numbers["centred"]
    assert f"{written(was, 2, language)} → {written(now, 2, language)}" in [cell.strip() for cell in cells]


def test_composition_of_many_heads(elsewhere, others):
    page = elsewhere("/atlas?lang=en&atlas=deep&view=composition")
    page.get_by_test_id("link").first.wait_for()
    told = others.running.get("/api/atlas/composition", atlas="deep", kind="K")
    # To begin with, as many as can be read.
    assert 0 < page.get_by_test_id("link").count() <= 80
    page.get_by_test_id("above").fill("0")
    page.wait_for_function("document.querySelectorAll('[data-testid=link]').length > 80")
    assert page.get_by_test_id("link").count() == len(told["links"]) <= 400 < told["total"]
    page.get_by_test_id("above").fill("60")
    most = max(link["excess"] for link in told["links"])
    few = [link for link in told["links"] if link["excess"] >= 0.6 * most]
    page.wait_for_function(f"document.querySelectorAll('[data-testid=link]').length === {len(few)}")
    assert written(few[0]["score"], 3, sign="") in page.get_by_test_id("link-row").first.inner_text()
    # One stop of the Tab key; arrows go from head to head.
    assert page.get_by_test_id("graph").locator("[tabindex='0']").count() == 1
    page.get_by_test_id("graph").locator("[data-head=L0H0]").focus()
    page.keyboard.press("ArrowRight")
    page.keyboard.press("ArrowDown")
    page.keyboard.press("Enter")
    page.wait_for_url("**head=L1H1**")
    assert page.get_by_test_id("graph").locator("[aria-pressed=true]").get_attribute("data-head") == "L1H1"
    page.keyboard.press("Enter")
    page.get_by_test_id("graph").locator("[aria-pressed=true]").wait_for(state="detached")
    page.get_by_test_id("kind-Q").click()
    page.wait_for_url("**kind=Q**")
    page.go_back()
    page.wait_for_function(f"document.querySelectorAll('[data-testid=link]').length === {len(few)}")
    assert saved(page, "SVG").count("<path") == len(few)


def test_an_atlas_is_built_from_the_page(elsewhere, others):
    page = elsewhere("/atlas?lang=pt&model=bare")
    assert page.get_by_test_id("build").inner_text() == "Construir agora"
    page.get_by_test_id("lang-en").click()
    assert page.get_by_test_id("build-command").inner_text() == "headwater atlas build bare --out models/bare/atlas"
    page.get_by_test_id("build").click()
    page.get_by_test_id("building").wait_for()
    page.get_by_test_id("stop").click()
    page.get_by_test_id("stopped").wait_for()
    assert not others.running.get("/api/atlas/build", model="bare")["building"]
    page.get_by_test_id("build").click()
    page.get_by_test_id("head-grid").wait_for(timeout=240_000)
    assert (others.folder / "models" / "bare" / "atlas" / "manifest.json").is_file()
