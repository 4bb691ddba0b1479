"""A studio for a long time, and under load: memory, clients that leave, files that go away, and its end."""

import contextlib
import os
import re
import shutil
import signal
import socket
import subprocess
import sys
import threading
import time
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path
from urllib.parse import urlsplit

import httpx
import pytest

import headwater
from headwater import Model
from headwater.model.config import Attention, FeedForward, ModelConfig, PreNorm
from headwater.model.weights import Weights
from studio_server import studio
from tiny_atlas import save_model

pytestmark = [pytest.mark.slow, pytest.mark.timeout(900), pytest.mark.xdist_group("load")]
LONG = 1_000
"""Tokens of a text that a large model takes seconds to read."""


@pytest.fixture(scope="module")
def folder(tmp_path_factory):
    """A tiny model, another one, and one that is slow."""
    place = tmp_path_factory.mktemp("load")
    save_model(place / "first")
    save_model(place / "other", seed=1)
    config = ModelConfig(
        vocab=2_000,
        context=1_024,
        d_model=512,
        layers=8,
        attention=Attention(heads=8, d_head=64),
        feed_forward=FeedForward(d_mlp=2_048),
        norm=PreNorm(),
    )
    Model(Weights.draw(config, seed=0)).save(place / "slow")
    return place


@pytest.fixture
def served(folder):
    with studio("first", "other", "slow", folder=folder) as running:
        yield running
    assert "Traceback" not in "".join(running.said)


def long_text(number):
    return "ids:" + ",".join(str((number + step) % 2_000) for step in range(LONG))


def patient(served):
    """Somebody who waits, however busy the machine is."""
    client = served.client()
    client.timeout = 600
    return client


def resident(process):
    return int(re.search(r"VmRSS:\s+(\d+)", Path(f"/proc/{process.pid}/status").read_text())[1]) * 1024


def timed(client, route, **query):
    began = time.monotonic()
    answer = client.get(route, params=query)
    return answer, time.monotonic() - began


def leave_soon(served, number, after):
    """Ask the slow model something, and go."""
    place = urlsplit(served.address)
    asked = f"GET /api/tokens?model=slow&count=0&text={long_text(number)} HTTP/1.1\r\nHost: {place.netloc}\r\nAuthorization: Bearer {served.token}\r\n\r\n"
    with socket.create_connection((place.hostname, place.port)) as connection:
        connection.sendall(asked.encode())
        time.sleep(after)


def test_who_leaves_is_not_computed_and_others_are_answered_meanwhile(served):
    with patient(served) as client:
        timed(client, "/api/tokens", model="slow", text="ids:1,2", count=0)
        answer, whole = timed(client, "/api/tokens", model="slow", text=long_text(0), count=0)
        assert answer.status_code == 200
        assert whole > 1.0, "slow enough to tell"
        # Running: stopped between layers. Queued: never begun.
        leave_soon(served, 1, whole / 4)
        answer, after = timed(client, "/api/tokens", model="first", text="line 7")
        assert answer.status_code == 200
        assert after < whole / 2, f"{after:.2f} s after one that takes {whole:.2f} s was given up"
        with ThreadPoolExecutor(8) as leaving:
            list(leaving.map(lambda number: leave_soon(served, number, 0.3), range(10, 18)))
        answer, after = timed(client, "/api/tokens", model="first", text="line 8")
        assert after < whole, f"{after:.2f} s after eight of {whole:.2f} s each were given up"


def test_other_questions_are_answered_while_a_slow_one_is_computed(served):
    with patient(served) as client, patient(served) as other, ThreadPoolExecutor(60) as asking:
        timed(client, "/api/tokens", model="slow", text="ids:1,2", count=0)
        slow = [
            asking.submit(timed, client, "/api/tokens", model="slow", text=long_text(number), count=0) for number in range(4)
        ]
        time.sleep(0.3)
        worst = max(timed(other, "/api/shelf")[1] for _ in range(10))
        # A tab of its own waits for the one that runs, and not for all of them.
        other.headers["x-tab"] = "another"
        answer, quick = timed(other, "/api/tokens", model="first", text="line 7")
        took = [each.result() for each in slow]
        assert answer.status_code == 200
        assert all(each.status_code == 200 for each, _ in took)
        assert max(worst, quick) < max(seconds for _, seconds in took) / 2


def test_memory_does_not_grow(served):
    def one(number):
        text = "".join(chr(97 + (number * 7 + step * step) % 26) for step in range(10)) + str(number)
        asked = {"model": ("first", "other")[number % 2], "text": text}
        answer = client.get("/api/tokens", params=asked, headers={"x-tab": f"tab {number % 20}"})
        assert answer.status_code == 200
        assert client.get("/api/tokens", params={"model": "first", "text": "\x00" * 10 + str(number)}).status_code == 200
        assert client.get("/api/tokens", params={"model": "none", "text": "a" * 5_000}).status_code == 404

    with patient(served) as client, ThreadPoolExecutor(50) as asking:
        sizes = []
        for turn in range(8):
            list(asking.map(one, range(turn * 150, turn * 150 + 150)))
            sizes.append(resident(served.process))
    # The first rounds fill what is kept on purpose: runs of tiny texts, up to their bound.
    assert sizes[-1] - sizes[3] < 20e6, [f"{size / 1e6:.0f} MB" for size in sizes]


def test_runs_that_stay_at_hand_stay_within_their_bound(folder):
    from headwater.studio.limits import RUNS_BYTES

    with studio("slow", folder=folder) as running, patient(running) as client:
        timed(client, "/api/tokens", model="slow", text="ids:1,2", count=0)
        before = resident(running.process)
        one = 8 * 5 * LONG * 512 * 4
        for number in range(int(4 * RUNS_BYTES / one)):
            assert client.get("/api/tokens", params={"model": "slow", "text": long_text(number), "count": 0}).status_code == 200
        # And the one that was made last, while the others were still there.
        assert resident(running.process) - before < 1.35 * RUNS_BYTES + one


def test_half_requests_are_given_up(served):
    from headwater.studio.limits import HEAD_SECONDS

    place = urlsplit(served.address)
    waiting = [socket.create_connection((place.hostname, place.port), timeout=HEAD_SECONDS + 10) for _ in range(30)]
    for number, connection in enumerate(waiting):
        connection.sendall((b"", b"GET / HT", b"GET /api/shelf HTTP/1.1\r\nHost: x\r\n")[number % 3])
    began = time.monotonic()
    while time.monotonic() - began < HEAD_SECONDS - 3:
        # A letter now and then does not help.
        for connection in waiting[1::3]:
            connection.sendall(b"a")
        assert served.get("/api/shelf")["models"]
        time.sleep(1)
    for connection in waiting:
        with contextlib.suppress(ConnectionResetError):
            assert connection.recv(10) == b""
        connection.close()


@pytest.mark.parametrize("sign", [signal.SIGINT, signal.SIGTERM])
@pytest.mark.parametrize("busy", [False, True])
def test_it_ends_when_it_is_told_to(folder, sign, busy):
    with studio("first", "slow", folder=folder) as running:
        threads = []
        if busy:
            running.get("/api/tokens", model="slow", text="ids:1,2", count=0)
            for number in range(5):
                threads.append(threading.Thread(target=_asks_until_the_end, args=(running, long_text(number))))
                threads[-1].start()
            time.sleep(1)
        running.process.send_signal(sign)
        status = running.process.wait(12)
        for thread in threads:
            thread.join(20)
    assert status in ((0, 130) if sign is signal.SIGINT else (0, 143, -signal.SIGTERM)), (status, running.said)
    printed = "".join(running.said)
    assert not re.search("Traceback|terminate called|Fatal|core dumped", printed), printed


def _asks_until_the_end(running, text):
    with running.client() as client, contextlib.suppress(httpx.HTTPError):
        client.get("/api/tokens", params={"model": "slow", "text": text, "count": 0})


def test_two_studios_beside_each_other_do_not_share_a_door(folder):
    with studio("first", folder=folder) as one, studio("first", folder=folder) as two:
        assert one.address != two.address
        with httpx.Client() as browser:
            for each in (one, two):
                assert browser.get(each.door).status_code == 200
            assert len(browser.cookies) == 2
            for each in (one, two):
                assert browser.get(each.address + "/api/shelf").status_code == 200
                assert browser.get(each.address + "/api/shelf", headers={"origin": one.address}).status_code == 200
            assert httpx.get(two.address + "/api/shelf", headers={"authorization": f"Bearer {one.token}"}).status_code == 401
            stolen = {"cookie": "; ".join(f"{name}={value}" for name, value in reversed(list(browser.cookies.items())))}
            assert httpx.get(two.address + "/api/shelf", headers=stolen).status_code == 200


def _truncate(path):
    os.truncate(path, path.stat().st_size // 3)


def _overwrite(path):
    data = path.read_bytes()
    with path.open("r+b") as file:
        file.write(data[:-4_000] + bytes(4_000))


def _replace(path):
    """By another whole model, file by file, as a download does it."""
    for each in (path.parents[1] / "other").iterdir():
        shutil.copy(each, path.with_name("new"))
        path.with_name("new").replace(path.with_name(each.name))


@pytest.mark.parametrize("damage", [_truncate, _overwrite, _replace, Path.unlink, Path.touch], ids=lambda each: each.__name__)
def test_files_that_change_under_load_give_errors_or_right_numbers(folder, tmp_path, damage):
    for name in ("first", "other"):
        shutil.copytree(folder / name, tmp_path / name)
    weights = next((tmp_path / "first").glob("*.safetensors"))
    run = headwater.load(tmp_path / "first").record("line 7")
    right = list(run.top(-1, 5))
    changed, answers = threading.Event(), []

    def ask(number):
        if number == 60:
            damage(weights)
            changed.set()
        was_changed = changed.is_set()
        with running.client() as client:
            answers.append((was_changed, client.get("/api/tokens", params={"model": "first", "text": "line 7"})))

    with studio("first", "other", folder=tmp_path) as running:
        with ThreadPoolExecutor(8) as asking:
            list(asking.map(ask, range(160)))
        for was_changed, answer in answers:
            if answer.status_code == 200:
                assert not was_changed, "an answer after the files changed"
                told = [(each["token"]["id"], each["probability"]) for each in answer.json()["tokens"][-1]["next"]]
                assert told == right
            else:
                assert answer.status_code in (409, 503)
                assert set(answer.json()) == {"given", "needed", "do"}
        assert {answer.status_code for _, answer in answers} >= {200, 409}
        assert running.process.poll() is None
        with running.client() as client:
            posted = client.post("/api/model/first/reopen", headers={"origin": running.address})
            assert posted.status_code == 200
            again = client.get("/api/tokens", params={"model": "first", "text": "line 7"})
            assert again.status_code == (200 if damage in (_replace, Path.touch) else 409)


def test_the_usual_port_is_taken(folder):
    with studio("first", folder=folder, options=()) as one, studio("first", folder=folder, options=()) as two:
        assert one.address != two.address
        assert one.get("/api/shelf")["models"] == two.get("/api/shelf")["models"]


def test_a_port_that_was_asked_for_and_is_taken_is_told(folder):
    with socket.socket() as taken:
        taken.bind(("127.0.0.1", 0))
        taken.listen()
        port = str(taken.getsockname()[1])
        ended = subprocess.run(
            [sys.executable, "-m", "headwater", "studio", "first", "--no-browser", "--port", port],
            cwd=folder,
            capture_output=True,
            text=True,
            check=False,
        )
    assert ended.returncode == 2
    assert port in ended.stderr
