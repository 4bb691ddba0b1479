# pyright: basic, reportMissingImports=false
# Peers carry no types.
"""The studio: how soon there is something to see, and what an answer over HTTP costs beyond the library's own call."""

import http.client
import json
import os
import re
import shutil
import signal
import subprocess
import sys
import tempfile
import threading
import time
from collections.abc import Generator
from contextlib import contextmanager
from itertools import count
from pathlib import Path
from urllib.parse import urlencode

from headwater.bench.contest import THREADS, Result, absent, close, contest
from headwater.bench.explain import model
from headwater.bench.forward import LENGTH, tokens
from headwater.bench.goals import Table, at_most, shown

TITLE = f"Studio: the first picture, and one logit's components over HTTP at GPT-2-small shape after {LENGTH:,} tokens"
ROUNDS = 3
BROWSER, LIBRARY, HTTP = (
    "from the printed address to the river of one-layer drawn in Chromium",
    "the library: record, explain",
    "GET /api/river",
)


def table(rounds: int) -> Table:
    with tempfile.TemporaryDirectory() as folder:
        model().save(Path(folder) / "gpt2")
        jobs = {LIBRARY: "studio:library", HTTP: f"studio:over_http:{folder}"}
        results = {BROWSER: first_picture(max(3, rounds)), **contest(jobs, rounds)}
    close("the logit", (results[LIBRARY], results[HTTP]), 1e-6)
    rows = [["", "seconds", "MB over the model"]]
    rows += [
        [name, shown(each.seconds), "" if name == BROWSER else shown(each.megabytes, 0)] for name, each in results.items()
    ]  # fmt: skip
    goals = [
        at_most("first picture", results[BROWSER].seconds, 2.0, unit="s"),
        at_most("over HTTP, times the library", results[HTTP].seconds / results[LIBRARY].seconds, 1.5),
    ]
    return Table(rows, goals, absent(results))


def chromium() -> str:
    """Where Chromium is: as the variable CHROMIUM says, else as systems call it."""
    named = (shutil.which(name) for name in ("chromium", "chromium-browser", "google-chrome"))
    return os.environ.get("CHROMIUM") or next(filter(None, named), "")


@contextmanager
def _started(folder: str) -> Generator[str]:
    """A studio of one-layer in a process of its own, and the address that it prints."""
    command = [sys.executable, "-m", "headwater", "studio", "one-layer", "--port", "0", "--no-browser"]
    threads = dict.fromkeys(("HEADWATER_THREADS", "OMP_NUM_THREADS"), str(THREADS))
    environment = {**os.environ, **threads, "PYTHONUNBUFFERED": "1"}
    told = {"stdout": subprocess.PIPE, "stderr": subprocess.STDOUT, "text": True}
    process = subprocess.Popen(command, cwd=folder, env=environment, **told)
    try:
        assert process.stdout is not None
        yield next(found[0] for line in process.stdout if (found := re.search(r"http://\S+/\?token=\S+", line)))
    finally:
        process.send_signal(signal.SIGINT)
        process.communicate(timeout=30)


def first_picture(times: int) -> Result:
    """The best time from the printed address to a drawn river with its certificate, in a browser that is open already; the model is loaded on the way."""
    try:
        from playwright.sync_api import sync_playwright
    except ModuleNotFoundError:
        return Result(missing="playwright")
    if not chromium():
        return Result(missing="chromium")
    with sync_playwright() as player:
        browser = player.chromium.launch(executable_path=chromium(), args=["--no-sandbox"])
        return Result(seconds=min(_drawn(browser) for _ in range(times)))


def _drawn(browser) -> float:
    with tempfile.TemporaryDirectory() as folder, _started(folder) as address:
        page = browser.new_page()
        began = time.perf_counter()
        page.goto(address)
        page.get_by_test_id("certificate").wait_for()
        page.get_by_test_id("band").first.wait_for()
        took = time.perf_counter() - began
        page.close()
    return took


def _texts():
    """Another text each time, the same ones for both: nothing is answered from what was kept."""
    ids = tokens()[0]
    return (ids.roll(shift) for shift in count())


def library():
    loaded, texts = model(), _texts()
    return lambda: float(loaded.record(next(texts)[None]).explain().value)


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
    client, texts = http.client.HTTPConnection(address.removeprefix("http://"), timeout=600), _texts()

    def run() -> float:
        asked = {"model": "gpt2", "text": "ids:" + ",".join(map(str, next(texts).tolist())), "auto": 0, "most": 12}
        client.request("GET", "/api/river?" + urlencode(asked), headers={"authorization": f"Bearer {token}"})
        answer = client.getresponse()
        assert answer.status == http.HTTPStatus.OK, answer.read()
        return float(json.loads(answer.read())["value"])

    return run
