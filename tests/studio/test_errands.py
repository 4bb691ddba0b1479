"""Errands: lines of a process become events; it ends when nobody follows it, with whatever it has started."""

import asyncio
import json
import os
import tempfile
import time
from pathlib import Path
from types import SimpleNamespace

import pytest
from fastapi import Request

from headwater.studio import errands
from headwater.studio.errands import errand
from headwater.studio.errors import Refused
from headwater.studio.memory import Memory

TESTS = Path(__file__).parent.parent


@pytest.fixture(autouse=True)
def ours(monkeypatch):
    monkeypatch.setattr(errands, "MODULE", "errand_of_tests")
    monkeypatch.setenv("PYTHONPATH", os.pathsep.join(filter(None, [str(TESTS), os.environ.get("PYTHONPATH")])))


def asking():
    return Request({"type": "http", "app": SimpleNamespace(state=SimpleNamespace(memory=Memory()))})


def follow(*arguments, until=None, request=None, **ways):
    """What is sent, until the end, or until the client leaves after ``until`` is true."""
    sent, ended = [], []
    request = request or asking()

    async def send(message):
        sent.append(message)

    async def receive():
        while until is None or not until():
            await asyncio.sleep(0.02)
        return {"type": "http.disconnect"}

    answer = errand(request, list(arguments), ended=lambda: ended.append(True), **ways)
    asyncio.run(answer({"type": "http"}, receive, send))
    assert ended == [True]
    assert request.app.state.memory.errands == set()
    return b"".join(message.get("body", b"") for message in sent).decode()


def events(text):
    return [json.loads(event.removeprefix("data: ")) for event in text.split("\n\n") if event.startswith("data: ")]


def test_lines_become_events_and_what_is_told_may_be_another():
    told = events(follow("done", "/a/place", told=lambda event: {"done": "an-id"} if "done" in event else event))
    assert told == [{"what": "begun", "share": 0.0}, {"done": "an-id"}]


@pytest.mark.parametrize(("how", "word"), [("crash", "code 3"), ("noise", "no JSON")])
def test_whatever_goes_wrong_is_an_event_of_three_parts(how, word):
    last = events(follow(how))[-1]
    assert set(last["error"]) == {"given", "needed", "do"}
    assert word in last["error"]["given"]


def test_a_refusal_while_it_is_told_is_an_event():
    def refuse(event):
        raise Refused(409, "this", "that", "other")

    assert events(follow("done", "x", told=refuse))[0] == {"error": {"given": "this", "needed": "that", "do": "other"}}


def test_silence_is_broken_by_comments(monkeypatch):
    monkeypatch.setattr(errands, "HEARTBEAT", 0.1)
    text = follow("quiet")
    assert ": still here\n\n" in text
    assert events(text)[-1] == {"done": "late"}


def test_whoever_leaves_ends_the_process_and_what_it_started(tmp_path):
    place = tmp_path / "pids"
    follow("forever", str(place), until=lambda: place.exists() and len(place.read_text().split()) == 3)
    *pids, aside = place.read_text().split()
    assert Path(aside) != Path(tempfile.gettempdir()), "a place of its own"
    assert not Path(aside).exists()
    deadline = time.time() + 5
    while any(map(is_alive, pids)):
        assert time.time() < deadline
        time.sleep(0.05)


def test_code_that_lies_where_the_studio_was_started_is_not_run(tmp_path, monkeypatch):
    import numpy as np

    for name in ("numpy", "json", "errand_of_tests"):
        (tmp_path / f"{name}.py").write_text("raise SystemExit('planted')")
    monkeypatch.chdir(tmp_path)
    assert events(follow("imports"))[-1] == {"done": [np.__file__, np.__file__]}


def test_an_errand_that_ends_while_the_studio_goes_on_ends_well(monkeypatch, capfd):
    monkeypatch.setattr(errands, "MODULE", "headwater.studio.errand")
    last = events(follow("nothing like it"))[-1]
    assert "one of atlas, claims" in last["error"]["needed"]
    assert capfd.readouterr().err == ""


def is_alive(pid):
    try:
        return Path(f"/proc/{pid}/stat").read_text().split()[2] != "Z"
    except FileNotFoundError:
        return False


def test_a_few_at_a_time():
    request = asking()
    request.app.state.memory.errands = {object() for _ in range(errands.AT_ONCE)}
    ended = []
    with pytest.raises(Refused) as refused:
        errand(request, ["done", "x"], ended=lambda: ended.append(True))
    assert (refused.value.status, ended) == (429, [True])
