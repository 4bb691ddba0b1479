"""The studio: how soon there is something to see, and what an answer over HTTP costs beyond the library's own call."""

import math
import sys
import tempfile
import threading
import time
from itertools import count
from pathlib import Path

import httpx

from contest import THREADS, contest
from explain import _at_most, _model
from forward import LENGTH, tokens

TITLE = f"Studio: the first picture, and one logit's components over HTTP at GPT-2-small shape after {LENGTH:,} tokens"
SECONDS = 2.0
"""After which a first picture should be there."""
TEXT = "for line in open("


def table(rounds: int) -> tuple[list[list[str]], list[dict[str, object]]]:
    """Rows for people, and the goals with whether they are met."""
    first = min(first_picture() for _ in range(max(3, rounds // 2)))
    with tempfile.TemporaryDirectory() as folder:
        _model().save(Path(folder) / "gpt2")
        jobs = {"the library: record, explain": "studio:library", "GET /api/river": f"studio:over_http:{folder}"}
        results = contest(jobs, rounds)
    plain, ours = results.values()
    assert plain.answer is not None
    assert ours.answer is not None
    if not math.isclose(plain.answer, ours.answer, rel_tol=1e-6):
        raise RuntimeError(f"the logit is {plain.answer} by the library and {ours.answer} over HTTP")
    rows = [
        ["", "seconds", "MB over the model"],
        ["from the printed address to the river of one-layer drawn in Chromium", f"{first:.2f}", ""],
    ]
    rows += [[name, f"{each.seconds:.2f}", f"{each.megabytes:,.0f}"] for name, each in results.items()]
    goals = [
        {"name": f"first picture, times {SECONDS:g} s", "ratio": round(first / SECONDS, 2), "goal": "at most 1.0", "met": first <= SECONDS},
        _at_most("over HTTP, times the library", ours, plain, "seconds", 1.5),
    ]  # fmt: skip
    return rows, goals


def first_picture() -> float:
    """Seconds from the printed address to a drawn river with its certificate, in a browser that is open already; the model is loaded on the way."""
    sys.path.append(str(Path(__file__).parents[1] / "tests"))
    from playwright.sync_api import sync_playwright

    from studio_server import chromium_place, studio

    with tempfile.TemporaryDirectory() as folder, sync_playwright() as player:
        browser = player.chromium.launch(executable_path=chromium_place(), args=["--no-sandbox"])
        page = browser.new_page()
        with studio(
            "one-layer", folder=Path(folder), environment=dict.fromkeys(("HEADWATER_THREADS", "OMP_NUM_THREADS"), str(THREADS))
        ) as running:
            began = time.perf_counter()
            page.goto(running.door)
            page.get_by_test_id("certificate").wait_for()
            page.get_by_test_id("band").first.wait_for()
            return time.perf_counter() - began


def _texts():
    """Another text each time, the same ones for both: nothing is answered from what was kept."""
    ids = tokens()[0]
    return (ids.roll(shift) for shift in count())


def library():
    model, texts = _model(), _texts()
    return lambda: float(model.record(next(texts)[None]).explain().value)


def over_http(folder):
    """The same model, saved in a folder, behind the real server in this process; the answer is read as JSON."""
    from headwater.studio.serve import Place, serve
    from headwater.studio.shelf import fill

    ready, told = threading.Event(), []
    shelf = fill([Path(folder) / "gpt2"])
    shelf.model("gpt2")
    threading.Thread(
        target=serve,
        args=(shelf, Place(port=0), lambda address: (told.append(address), ready.set())),
        kwargs={"browse": False},
        daemon=True,
    ).start()
    ready.wait()
    address, token = told[0].split("/?token=")
    client = httpx.Client(base_url=address, headers={"authorization": f"Bearer {token}"}, timeout=600)
    texts = _texts()

    def run() -> float:
        asked = {"model": "gpt2", "text": "ids:" + ",".join(map(str, next(texts).tolist())), "auto": 0, "most": 12}
        answer = client.get("/api/river", params=asked)
        answer.raise_for_status()
        return float(answer.json()["value"])

    return run
