"""The real server, over real connections: what never reaches the application is refused there too, and nobody keeps others waiting."""

import json
import re
import resource
import socket
import stat
import threading
import time
import webbrowser
from concurrent.futures import ThreadPoolExecutor
from contextlib import suppress
from pathlib import Path
from types import SimpleNamespace
from urllib.parse import urlsplit

import pytest
import uvicorn
from uvicorn.protocols.http.flow_control import FlowControl
from uvicorn.server import ServerState

from headwater.errors import InputError
from headwater.studio import wire as wires
from headwater.studio.guard import HEADERS
from headwater.studio.limits import ADDRESS_BYTES, HEAD_SECONDS
from headwater.studio.serve import PORT, Place, _bound, _Server, _tell
from headwater.studio.wire import Wire
from headwater.studio.work import Desk
from studio_server import studio
from tiny_atlas import save_model


@pytest.fixture(scope="module")
def served(tmp_path_factory):
    folder = tmp_path_factory.mktemp("served")
    save_model(folder / "first")
    save_model(folder / "other", seed=1)
    with studio("first", "other", folder=folder) as running:
        yield running
    assert running.process.returncode in (0, 130)
    printed = "".join(running.said)
    assert printed.count(running.token) == 1, "once, where it tells its address"
    assert "Traceback" not in printed


def connected(served):
    place = urlsplit(served.address)
    return socket.create_connection((place.hostname, place.port), timeout=20)


def raw(served, request):
    """What comes back for some bytes: status, headers, body."""
    with connected(served) as connection:
        connection.sendall(request)
        data, needed = b"", None
        while (needed is None or len(data) < needed) and (piece := connection.recv(65536)):
            data += piece
            length = re.search(rb"\r\ncontent-length: (\d+)\r\n(.*\r\n)?\r\n", data, re.DOTALL | re.IGNORECASE)
            if length:
                needed = data.index(b"\r\n\r\n") + 4 + int(length[1])
    # What follows is the answer to whatever stood behind the request.
    head, _, body = data[:needed].partition(b"\r\n\r\n")
    lines = head.decode("latin-1").split("\r\n")
    headers = [tuple(line.split(": ", 1)) for line in lines[1:]]
    return int(lines[0].split()[1]), headers, body


def check_refused(answer, *statuses):
    status, headers, body = answer
    assert status in statuses, (status, body)
    found = {name.lower(): value for name, value in headers}
    assert found.items() >= HEADERS.items()
    assert "server" not in found
    if found["content-type"] == "application/json":
        assert set(json.loads(body)) == {"given", "needed", "do"}


def signed(served, line="GET /api/shelf HTTP/1.1", *more, host=None):
    host = urlsplit(served.address).netloc if host is None else host
    lines = [line, f"Host: {host}", f"Authorization: Bearer {served.token}", "Connection: close", *more, "", ""]
    return "\r\n".join(lines).encode("latin-1")


@pytest.mark.parametrize(
    "request_",
    [
        b"\r\n\r\n\x00\x01\x02 nothing like HTTP\r\n\r\n",
        b"GET / HTTP/1.1\r\nno colon\r\n\r\n",
        b"GET / HTTP/1.1\r\nHost: a\r\nHost: b\r\n\r\n",
        b"GET / HTTP/9.9\r\nHost: a\r\n\r\n",
        b"GET /\xff HTTP/1.1\r\nHost: a\r\n\r\n",
        b"GET / HTTP/1.1\r\nHost: a\r\nContent-Length: 1\r\nContent-Length: 2\r\n\r\n",
        b"GET / HTTP/1.1\r\nHost: a\r\nX: a\x00b\r\n\r\n",
        b"GET / HTTP/1.1\r\n\r\n",
        b"\x16\x03\x01\x02\x00\x01\x00\x01\xfc\x03\x03\r\n\r\n",
        b"PRI * HTTP/2.0\r\n\r\nSM\r\n\r\n",
    ],
)
def test_what_is_no_request_is_refused_in_our_words(served, request_):
    check_refused(raw(served, request_), 400, 403)


def test_targets_hosts_and_upgrades_on_the_wire(served):
    own = urlsplit(served.address).netloc
    assert raw(served, signed(served))[0] == 200
    check_refused(raw(served, signed(served, "GET http://evil.example/api/shelf HTTP/1.1")), 400)
    check_refused(raw(served, signed(served, f"GET http://{own}/api/shelf HTTP/1.1", host="evil.example")), 400, 403)
    check_refused(raw(served, signed(served, "CONNECT evil.example:443 HTTP/1.1")), 400)
    check_refused(raw(served, signed(served, "OPTIONS * HTTP/1.1")), 400)
    check_refused(raw(served, b"GET /api/shelf HTTP/1.0\r\n\r\n"), 403)
    for host in ("evil.example", own.upper().replace("127", "localhost"), own + ".", f"u@{own}", own.split(":")[0]):
        check_refused(raw(served, signed(served, host=host)), 403)
    upgrade = (
        "Connection: Upgrade",
        "Upgrade: websocket",
        "Sec-WebSocket-Key: dGhlIHNhbXBsZSBub25jZQ==",
        "Sec-WebSocket-Version: 13",
    )
    answer = raw(served, signed(served, "GET /api/nothing HTTP/1.1", *upgrade))
    check_refused(answer, 404)
    unsigned = "\r\n".join(["GET /api/shelf HTTP/1.1", f"Host: {own}", *upgrade, "", ""]).encode()
    check_refused(raw(served, unsigned), 401)


def test_bodies_on_the_wire(served):
    own = f"Origin: {served.address}"
    post = "POST /api/model/first/reopen HTTP/1.1"
    assert raw(served, signed(served, post, own, "Content-Length: 0"))[0] == 200
    piece = b"1000\r\n" + b" " * 4096 + b"\r\n"
    check_refused(raw(served, signed(served, post, own, "Transfer-Encoding: chunked") + piece * 17), 413)
    check_refused(raw(served, signed(served, post, own, "Content-Length: 99999999")), 413)
    both = (
        signed(served, post, own, "Transfer-Encoding: chunked", "Content-Length: 4")
        + b"0\r\n\r\nGET /api/shelf HTTP/1.1\r\n\r\n"
    )
    status, _, body = raw(served, both)
    assert status in (200, 400)
    assert body.count(b"HTTP/1.1") == 0, "what is smuggled behind a request is none of its own"
    check_refused(raw(served, signed(served, f"GET /{'a' * ADDRESS_BYTES} HTTP/1.1")), 400, 414)
    check_refused(raw(served, signed(served, "GET / HTTP/1.1", f"X: {'a' * ADDRESS_BYTES}")[: ADDRESS_BYTES + 100]), 400)


def test_half_requests_and_silent_connections_keep_nobody_waiting(served):
    half = [connected(served) for _ in range(100)]
    for number, connection in enumerate(half):
        connection.sendall(
            (
                b"GET /api/shelf HTTP/1.1\r\nHost:",
                b"",
                signed(served, "POST /api/model/first/reopen HTTP/1.1", f"Origin: {served.address}", "Content-Length: 9"),
            )[number % 3]
        )
    with served.client() as client:
        for _ in range(5):
            answer = client.get("/api/tokens", params={"model": "first", "text": "line 7"})
            assert answer.status_code == 200
            assert answer.elapsed.total_seconds() < HEAD_SECONDS, "answered before the others are given up"
    for connection in half:
        connection.close()


def test_more_connections_than_there_may_be_close_the_silent_ones_and_not_the_next(served):
    from headwater.studio.limits import CONNECTIONS

    silent = [connected(served) for _ in range(CONNECTIONS + 20)]
    assert served.get("/api/shelf")["models"]
    silent[0].settimeout(10)
    with suppress(ConnectionResetError):
        assert silent[0].recv(1) == b""
    for connection in silent:
        connection.close()


class Slow:
    """A transport and a loop in one: how much is left to send, and what is to be done later."""

    def __init__(self):
        self.left, self.later, self.is_aborted = 1_000, [], False

    def get_write_buffer_size(self):
        return self.left

    def abort(self):
        self.is_aborted = True

    def call_later(self, seconds, look):
        self.later.append(look)
        return SimpleNamespace(cancel=lambda: self.later.remove(look))


def test_whoever_takes_an_answer_slowly_is_waited_for_and_whoever_takes_none_is_not():
    slow = Slow()
    wire = Wire(uvicorn.Config(None), ServerState(), {}, slow)
    wire.transport, wire.flow = slow, FlowControl(slow)
    wire.pause_writing()
    assert wire.is_full
    for _ in range(3):
        slow.left -= 1
        slow.later.pop()()
        assert len(slow.later) == 1
        assert not slow.is_aborted
    slow.later[0]()
    assert slow.is_aborted
    wire.resume_writing()
    assert not wire.is_full
    assert slow.later == []


def test_those_who_take_no_answer_lock_nobody_out(monkeypatch):
    monkeypatch.setattr("headwater.studio.wire.room", lambda: 5)

    async def much(scope, receive, send):
        body = bytes(0 if scope["path"] == "/little" else 2**25)
        await send({"type": "http.response.start", "status": 200, "headers": [(b"content-length", str(len(body)).encode())]})
        await send({"type": "http.response.body", "body": body})
        # As one who has asked for several things at once: the next answer waits for the first.
        await receive()

    config = uvicorn.Config(much, http=Wire, ws="none", lifespan="off", log_level="error")
    server = uvicorn.Server(config)
    with _bound(Place(port=0)) as listening:
        serving = threading.Thread(target=server.run, args=([listening],))
        serving.start()
        there = listening.getsockname()
        greedy = [socket.create_connection(there) for _ in range(5)]
        for connection in greedy:
            connection.sendall(b"GET / HTTP/1.1\r\nHost: a\r\n\r\n" * 3)
            assert connection.recv(4)
        while not all(wire.is_full and not wire.is_idle for wire in server.server_state.connections):
            time.sleep(0.01)
        for _ in range(3):
            with socket.create_connection(there, timeout=20) as one:
                one.sendall(b"GET /little HTTP/1.1\r\nHost: a\r\nConnection: close\r\n\r\n")
                assert one.recv(12) == b"HTTP/1.1 200"
        for connection in greedy:
            connection.close()
        server.should_exit = True
        serving.join()


@pytest.mark.parametrize(("files", "most"), [((256, 256), 128), ((256, 4_096), 400), ((256, -1), 400), ((-1, -1), 400)])
def test_connections_leave_files_for_others(monkeypatch, files, most):
    given = []
    monkeypatch.setattr(resource, "getrlimit", lambda _: files)
    monkeypatch.setattr(resource, "setrlimit", lambda _, limits: given.append(limits))
    assert wires.room.__wrapped__() == most
    assert given == ([(1_600, files[1])] if files in ((256, 4_096), (256, -1)) else [])


def test_whoever_is_not_let_in_keeps_no_place(served):
    own = urlsplit(served.address).netloc
    with connected(served) as connection:
        connection.sendall(f"GET /api/shelf HTTP/1.1\r\nHost: {own}\r\n\r\n".encode() * 3)
        data = b""
        with suppress(ConnectionResetError):
            while piece := connection.recv(65536):
                data += piece
    assert data.count(b"HTTP/1.1 401") == 1


def test_twenty_tabs_and_fifty_questions_at_once_are_all_answered(served):
    expected = {
        text: served.get("/api/tokens", model="first", text=text) for text in ("line 1", "line 2", "a", "of a small text")
    }

    def one(number):
        text = list(expected)[number % len(expected)]
        answer = client.get("/api/tokens", params={"model": "first", "text": text}, headers={"x-tab": f"tab {number % 20}"})
        assert answer.status_code == 200, answer.text
        return answer.json() == expected[text]

    with served.client() as client, ThreadPoolExecutor(50) as asking:
        assert all(asking.map(one, range(150)))


def test_a_client_that_leaves_is_no_error(served):
    for number in range(20):
        with connected(served) as connection:
            connection.sendall(signed(served, f"GET /api/tokens?model=first&text={'ab' * 400}{number} HTTP/1.1"))
    assert served.get("/api/shelf")["models"]


def test_the_door_gives_a_cookie_of_this_port(served):
    port = urlsplit(served.address).port
    with served.client() as client:
        client.headers.pop("authorization")
        answer = client.get(f"/?token={served.token}")
        assert list(client.cookies) == [f"headwater-{port}"]
        assert re.search(r"httponly", answer.headers["set-cookie"], re.IGNORECASE)
        assert client.get("/api/shelf").status_code == 200
        assert client.get("/api/shelf", headers={"host": f"localhost:{port}"}).status_code == 200


def test_a_browser_is_sent_there_without_being_told_the_token(monkeypatch):
    address, opened = f"http://127.0.0.1:8321/?token={'t' * 24}", []
    server = _Server(uvicorn.Config(None), Desk())
    server.started = True

    def browse(place):
        path = Path(urlsplit(place).path)
        opened.append((place, path, stat.S_IMODE(path.stat().st_mode), path.read_text()))
        server.should_exit = True

    monkeypatch.setattr(webbrowser, "open", browse)
    _tell(server, address, lambda told: told == address, browse=True)
    [(place, path, mode, page)] = opened
    assert "t" * 24 not in place
    assert mode == 0o600
    assert f'content="0;url={address}"' in page
    assert not path.exists()


def test_an_answer_goes_at_once_and_does_not_wait_for_its_beginning_to_be_acknowledged():
    nodelay = []

    async def answer(scope, receive, send):
        [wire] = server.server_state.connections
        nodelay.append(wire.transport.get_extra_info("socket").getsockopt(socket.IPPROTO_TCP, socket.TCP_NODELAY))
        await send({"type": "http.response.start", "status": 204, "headers": []})
        await send({"type": "http.response.body"})

    server = uvicorn.Server(uvicorn.Config(answer, http=Wire, ws="none", lifespan="off", log_level="error"))
    with _bound(Place(port=0)) as listening:
        serving = threading.Thread(target=server.run, args=([listening],))
        serving.start()
        with socket.create_connection(listening.getsockname(), timeout=20) as one:
            one.sendall(b"GET / HTTP/1.1\r\nHost: a\r\nConnection: close\r\n\r\n")
            assert one.recv(12) == b"HTTP/1.1 204"
        server.should_exit = True
        serving.join()
    assert nodelay[0]


def test_a_port_that_is_taken_is_another_one_unless_it_was_asked_for():
    with socket.socket() as taken:
        taken.bind(("127.0.0.1", 0))
        taken.listen()
        port = taken.getsockname()[1]
        with pytest.raises(InputError, match="free"):
            _bound(Place(port=port))
    holder = socket.socket()
    try:
        holder.bind(("127.0.0.1", PORT))
        holder.listen()
    except OSError:
        pass  # somebody else has it: so much the better
    with holder, _bound(Place()) as found:
        assert found.getsockname()[0] == "127.0.0.1"
        assert found.getsockname()[1] != PORT


def test_two_that_start_at_once_do_not_get_the_same_port():
    # Both may ask before either listens: one of them must be told.
    found, together = [], threading.Barrier(8)

    def start():
        together.wait()
        found.append(_bound(Place()))

    threads = [threading.Thread(target=start) for _ in range(8)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    assert len({each.getsockname()[1] for each in found}) == 8
    for each in found:
        each.close()
