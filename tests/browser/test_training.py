"""A person's way through the training screen, and a real training that runs while somebody looks."""

import csv
import io
import json
import os
import re
import subprocess
import sys
from contextlib import contextmanager

import pytest
from playwright.sync_api import expect

from browser_page import quiet_tab, saved
from headwater.atlas.timeline import timeline
from headwater.train.history import corpus_of, entropies, read_history
from headwater.train.studies import bigram
from studio_server import studio
from tiny import tiny_recipe

pytestmark = pytest.mark.browser
WAIT = 60_000
WORDS = {
    "en": {
        "finished": "finished",
        "live": "live",
        "loss": "training loss",
        "none": "No training here",
        "begin": "No update yet",
    },
    "pt": {
        "finished": "terminado",
        "live": "ao vivo",
        "loss": "perda de treinamento",
        "none": "Nenhum treinamento aqui",
        "begin": "Ainda não há atualizações",
    },
}


def number(text):
    """A number as the page writes it, in either language."""
    found = re.search(r"[+−]?\d[\d.,]*", text)[0].replace("−", "-")
    point = max(found.rfind("."), found.rfind(","))
    return float(found if point < 0 else re.sub(r"[.,]", "", found[:point]) + "." + found[point + 1 :])


@pytest.fixture
def run(shelf_folder):
    return shelf_folder / "training"


def log(run):
    return [json.loads(line) for line in (run / "log.jsonl").read_text().splitlines()]


@pytest.mark.parametrize("language", ["en", "pt"])
def test_the_loss_against_what_it_is_held_against(go, run, language):
    page = go(f"/training?lang={language}")
    page.get_by_test_id("loss-chart").wait_for(timeout=WAIT)
    badge = page.get_by_test_id("badge")
    assert badge.get_attribute("data-phase") == "finished"
    assert WORDS[language]["finished"] in badge.inner_text()
    assert WORDS[language]["loss"] in page.get_by_test_id("loss-chart").inner_text()
    known = entropies(corpus_of(run, read_history(run).recipe))
    for kind in ("uniform", "unigram", "bigram"):
        text = page.get_by_test_id(f"level-{kind}").text_content()
        assert number(text) == round(getattr(known, kind), 4)
    gap = log(run)[-1]["held_out"] - known.bigram
    assert float(page.get_by_test_id("gap").get_attribute("data-gap")) == pytest.approx(gap, abs=1e-9)
    written = f"{abs(gap):.4f}"
    assert (written if language == "en" else written.replace(".", ",")) in page.get_by_test_id("gap").inner_text()


def test_the_readout_has_the_logs_digits_by_pointer_and_by_keys(go, run):
    page = go("/training?lang=en")
    chart = page.get_by_test_id("loss-chart")
    chart.wait_for(timeout=WAIT)
    lines = log(run)
    drawing = chart.locator("svg")
    drawing.focus()
    page.keyboard.press("ArrowRight")
    assert "update 1" in page.get_by_test_id("loss-chart-readout").inner_text()
    assert float(page.get_by_test_id("read-loss").inner_text()) == lines[0]["loss"]
    # Before the first evaluation there is none to read.
    assert page.get_by_test_id("read-held_out").count() == 0
    for _ in range(4):
        page.keyboard.press("ArrowRight")
    assert float(page.get_by_test_id("read-loss").inner_text()) == lines[4]["loss"]
    assert float(page.get_by_test_id("read-held_out").inner_text()) == lines[3]["held_out"]
    page.keyboard.press("End")
    assert float(page.get_by_test_id("read-loss").inner_text()) == lines[-1]["loss"]
    page.keyboard.press("Escape")
    assert page.get_by_test_id("loss-chart-readout").count() == 0
    box = drawing.bounding_box()
    drawing.hover(position={"x": 70, "y": box["height"] / 2})
    assert float(page.get_by_test_id("read-loss").inner_text()) == lines[0]["loss"]


def test_choices_stand_in_the_address_and_come_back(go):
    page = go("/training?lang=en")
    page.get_by_test_id("loss-chart").wait_for(timeout=WAIT)
    page.get_by_test_id("log-x").click()
    assert "x=log" in page.url
    page.get_by_test_id("shows").select_option("learning_rate")
    assert "shows=learning_rate" in page.url
    page.get_by_test_id("curve-learning_rate").wait_for(state="attached")
    assert page.get_by_test_id("level-bigram").count() == 0
    page.reload()
    page.get_by_test_id("curve-learning_rate").wait_for(state="attached", timeout=WAIT)
    assert page.get_by_test_id("log-x").get_attribute("aria-pressed") == "true"
    page.go_back()
    page.get_by_test_id("level-bigram").wait_for()
    page.go_back()
    assert page.get_by_test_id("log-x").get_attribute("aria-pressed") == "false"


def test_n_grams_are_counted_when_they_are_asked_for(go, served):
    page = go("/training?lang=en")
    page.get_by_test_id("ngrams").click(timeout=WAIT)
    page.get_by_test_id("level-held-trigram").wait_for(timeout=WAIT)
    told = served.get("/api/training/baselines", training="training")["baselines"]
    for each in told:
        assert number(page.get_by_test_id(f"level-held-{each['kind']}").text_content().replace("5-gram", "")) == round(
            each["nats"], 4
        )
    page.reload()
    page.get_by_test_id("level-held-trigram").wait_for(timeout=WAIT)
    page.get_by_test_id("ngrams").click()
    page.get_by_test_id("level-held-trigram").wait_for(state="detached")


@pytest.mark.parametrize("language", ["en", "pt"])
def test_bigrams_along_the_snapshots(go, run, language):
    page = go(f"/training?lang={language}")
    said = page.get_by_test_id("bigrams-say")
    said.wait_for(timeout=WAIT)
    study = bigram.of_training(run)
    assert float(said.get_attribute("data-excess")) == study.fits[-1].excess
    assert number(said.inner_text()) == round(study.fits[-1].excess, 4)
    chart = page.get_by_test_id("bigrams-chart")
    assert number(chart.get_by_test_id("level-entropy").text_content().split(")")[1]) == round(study.entropy, 4)
    page.locator("[data-testid=bigrams-chart] circle[cx]").nth(6).wait_for(timeout=WAIT)
    chart.locator("svg").focus()
    page.keyboard.press("Home")
    assert number(chart.get_by_test_id("read-loss").inner_text()) == round(study.fits[0].loss, 4)
    page.get_by_test_id("bigrams-distance").click()
    assert "bigrams=distance" in page.url
    chart.locator("svg").focus()
    page.keyboard.press("End")
    assert number(chart.get_by_test_id("read-excess").inner_text()) == round(study.fits[-1].excess, 4)


@pytest.mark.parametrize("language", ["en", "pt"])
def test_a_head_is_chosen_by_pointer_and_keys_and_followed(go, run, language):
    page = go(f"/training?lang={language}")
    grid = page.get_by_test_id("heads-grid")
    grid.wait_for(timeout=WAIT)
    found = timeline(run, top=0)
    page.locator("[data-testid=head-L0H1] .value").nth(5).wait_for(timeout=WAIT)
    moments = {head: [moment for moment in found.moments if str(moment.head) == head] for head in ("L0H0", "L0H1")}
    shown = page.locator("[data-testid=head-L0H1] .value").all_text_contents()
    assert [number(each) for each in shown] == [round(moment.copying, 2) for moment in moments["L0H1"]]
    page.get_by_test_id("head-L0H1").locator("text.head").click(force=True)
    page.get_by_test_id("one-head").wait_for()
    assert "head=L0H1" in page.url
    chart = page.get_by_test_id("head-chart")
    chart.locator("svg").focus()
    page.keyboard.press("End")
    assert number(chart.get_by_test_id("read-positions").inner_text()) == round(moments["L0H1"][-1].positions, 4)
    grid.focus()
    page.keyboard.press("ArrowUp")
    assert "head=L0H0" in page.url
    page.keyboard.press("ArrowLeft")
    assert "step=8" in page.url
    page.get_by_test_id("measure").select_option("positions")
    shown = page.locator("[data-testid=head-L0H0] .value").all_text_contents()
    assert [number(each) for each in shown] == [round(moment.positions, 2) for moment in moments["L0H0"]]
    page.get_by_test_id("said").wait_for(timeout=WAIT)
    page.reload()
    page.get_by_test_id("one-head").wait_for(timeout=WAIT)
    assert page.get_by_test_id("measure").input_value() == "positions"
    page.get_by_test_id("measure").select_option("induction")
    page.get_by_test_id("no-measure").wait_for()
    page.get_by_test_id("head-to-attention").click()
    page.get_by_test_id("screen-attention").wait_for()
    assert "head=L0H0" in page.url
    assert "model=training" in page.url
    page.go_back()
    page.get_by_test_id("one-head").wait_for(timeout=WAIT)


def test_figures_and_numbers_are_saved(go, run):
    page = go("/training?lang=en&theme=light")
    page.get_by_test_id("heads-grid").wait_for(timeout=WAIT)
    page.locator("[data-testid=head-L0H1] .value").nth(5).wait_for(timeout=WAIT)
    table = list(csv.DictReader(io.StringIO(saved(page, "CSV").decode("utf-8-sig"))))
    assert [float(row["loss"]) for row in table[:12]] == [line["loss"] for line in log(run)]
    drawing = saved(page, "SVG").decode()
    assert drawing.startswith("<svg")
    assert "bigram entropy" in drawing
    assert saved(page, "PNG")[:4] == b"\x89PNG"
    assert json.loads(saved(page, "JSON"))["training"]["curve"]["step"] == list(range(1, 13))
    assert b"bigram entropy" in saved(page, "HTML")
    of_heads = page.get_by_test_id("screen-training-heads")
    heads = list(csv.DictReader(io.StringIO(saved(page, "CSV", of_heads).decode("utf-8-sig"))))
    assert [float(row["copying"]) for row in heads] == [
        moment.copying for moment in sorted(timeline(run, top=0).moments, key=lambda moment: (moment.head, moment.step))
    ]
    assert "L0H1" in saved(page, "SVG", of_heads).decode()


@contextmanager
def opened(chromium, *models, folder):
    """A studio of its own in a signed-in tab, which may not complain."""
    with studio(*models, folder=folder) as running, quiet_tab(chromium, running) as tab:
        yield running, tab


@pytest.mark.parametrize("language", ["en", "pt"])
def test_without_a_training_it_is_told_how_to_get_one(chromium, tmp_path, language):
    with opened(chromium, "one-layer", folder=tmp_path) as (running, page):
        page.goto(f"{running.address}/training?lang={language}")
        empty = page.get_by_test_id("empty")
        empty.wait_for(timeout=WAIT)
        assert WORDS[language]["none"] in empty.inner_text()
        assert "headwater train one-layer --out runs/one-layer" in empty.inner_text()


@pytest.mark.parametrize("language", ["en", "pt"])
def test_a_training_that_runs_is_followed_until_it_ends(chromium, tmp_path, language):
    recipe, run = tiny_recipe(tmp_path), tmp_path / "run"
    run.mkdir()
    # As a training's folder is when it has only just been made.
    (run / "recipe.toml").write_text(recipe.read_text().replace("steps = 12", "steps = 600"))
    words = WORDS[language]
    with opened(chromium, run, "one-layer", folder=tmp_path) as (running, page):
        page.goto(f"{running.address}/training?lang={language}")
        page.get_by_test_id("no-log").wait_for(timeout=WAIT)
        assert words["begin"] in page.get_by_test_id("no-log").inner_text()
        page.evaluate("window.notReloaded = true")
        command = [sys.executable, "-m", "headwater", "train", recipe, "--out", run]
        settings = ["training.steps=600", "keeping.log_every=2", "keeping.evaluate_every=100", "keeping.checkpoint_every=200"]
        environment = {**os.environ, "HEADWATER_THREADS": "1", "OMP_NUM_THREADS": "1"}
        process = subprocess.Popen(
            [*map(str, command), *(part for each in settings for part in ("--set", each))],
            env=environment, stdout=subprocess.DEVNULL, stderr=subprocess.PIPE, text=True,
        )  # fmt: skip
        try:
            live = page.locator("[data-testid=badge][data-phase=running]")
            live.wait_for(timeout=WAIT)
            assert words["live"] in live.inner_text()
            curve = page.get_by_test_id("loss-chart").get_by_test_id("curve-loss")
            curve.wait_for(state="attached", timeout=WAIT)
            first = curve.get_attribute("d").count("L")
            page.get_by_test_id("remaining").wait_for(timeout=WAIT)
            for _ in range(300):
                if curve.get_attribute("d").count("L") > first + 10:
                    break
                page.wait_for_timeout(200)
            grown = curve.get_attribute("d").count("L")
            assert grown > first + 10
            assert process.poll() is None, "it was to be seen while it runs"
            page.locator("[data-testid=badge][data-phase=finished]").wait_for(timeout=2 * WAIT)
            assert process.wait(30) == 0, process.stderr.read()
        finally:
            process.kill()
            process.wait()
            process.stderr.close()
        assert page.evaluate("window.notReloaded") is True
        lines = log(run)
        page.get_by_test_id("loss-chart").locator("svg").focus()
        page.keyboard.press("End")
        chart = page.get_by_test_id("loss-chart")
        assert number(chart.get_by_test_id("read-loss").inner_text()) == lines[-1]["loss"]
        assert number(chart.get_by_test_id("read-held_out").inner_text()) == lines[-1]["held_out"]
        assert curve.get_attribute("d").count("L") + 1 == len(lines)
        assert re.sub(r"\D", "", page.get_by_test_id("progress").inner_text()) == "600600"
        # Snapshots that were not there when the page was opened have been looked at.
        page.locator("[data-testid=head-L0H1] .value").nth(len(read_history(run).snapshots) - 1).wait_for(timeout=2 * WAIT)


def written(run, *steps, **more):
    with (run / "log.jsonl").open("a") as file:
        file.writelines(json.dumps({"step": step, "loss": 3.0, "seconds": step / 2, **more}) + "\n" for step in steps)


def until_points(page, count):
    curve = page.get_by_test_id("loss-chart").get_by_test_id("curve-loss")
    expect(curve).to_have_attribute("d", re.compile(f"^[^L]*(L[^L]*){{{count - 1}}}$"), timeout=WAIT)


def test_what_is_written_while_an_answer_is_on_its_way_is_not_lost(chromium, tmp_path):
    run, asked, held = tmp_path / "run", [], []
    run.mkdir()
    (run / "recipe.toml").write_text(tiny_recipe(tmp_path).read_text())
    written(run, 1, 2)
    with opened(chromium, run, folder=tmp_path) as (running, page):
        page.on("request", lambda one: asked.append(one.url) if "/api/training?" in one.url else None)
        page.goto(f"{running.address}/training?lang=en")
        until_points(page, 2)
        for step in range(3, 7):
            written(run, step)
            until_points(page, step)
        # There is no text, and a line of the log does not change that.
        assert len(asked) == 1
        page.route("**/api/training?*", lambda route: held.append((route, route.fetch())), times=1)
        written(run, 7, held_out=3.0)
        while not held:
            page.wait_for_timeout(50)
        written(run, 8)
        until_points(page, 8)
        route, answer = held.pop()
        assert answer.json()["curve"]["step"][-1] == 7
        route.fulfill(response=answer)
        written(run, 9)
        until_points(page, 9)
