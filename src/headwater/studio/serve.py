"""Start the studio: a socket on this machine, a token for this start, and a browser."""

import logging
import os
import re
import secrets
import socket
import sys
import tempfile
import threading
import time
import traceback
import webbrowser
from collections.abc import Callable
from dataclasses import dataclass
from html import escape
from ipaddress import ip_address
from pathlib import Path
from urllib.parse import quote

import uvicorn

from headwater.errors import InputError
from headwater.studio.app import studio
from headwater.studio.guard import Door
from headwater.studio.limits import ADDRESS_BYTES
from headwater.studio.shelf import Shelf
from headwater.studio.wire import Wire
from headwater.studio.work import Desk

PORT = 8321
BACKLOG = 128
"""Connections that wait to be taken."""
REST_SECONDS = 3.0
"""For work to come to a step at which it can end."""
OPENING_SECONDS = 60.0
"""For a browser to start, and to read where it is to go."""
SHORTEST = 16
LONGEST = 200
"""Letters of a token that somebody chose."""


@dataclass(frozen=True, kw_only=True)
class Place:
    """Where a studio listens."""

    host: str = "127.0.0.1"
    port: int = PORT
    token: str | None = None
    """None: one of this start's own."""
    names: tuple[str, ...] = ()
    """Further names that it may be called by, with their ports."""

    def __post_init__(self) -> None:
        if not _is_own(self.host) and self.token is None:
            raise _open_to_all(self.host)
        if self.token is not None and not re.fullmatch(rf"[!-~]{{{SHORTEST},{LONGEST}}}", self.token):
            needed = f"{SHORTEST} to {LONGEST} letters, digits or signs of ASCII, without a blank"
            raise InputError(f"a token of {len(self.token)} letters", needed, "choose another one")
        if not 0 <= self.port < 2**16:
            raise InputError(f"--port {self.port}", "a number from 0 to 65535", "choose another")
        odd = next((name for name in self.names if not re.fullmatch(r"[a-z0-9.\[\]:-]+", name)), None)
        if odd is not None:
            raise InputError(f"--name {odd}", "a name as browsers write it, with its port", "write lab.example:8321")


def _open_to_all(host: str) -> InputError:
    return InputError(
        f"--host {host}, which others can reach", "a token of your own", "set HEADWATER_TOKEN, or leave --host out"
    )


def _is_own(host: str) -> bool:
    try:
        return ip_address(host).is_loopback
    except ValueError:
        return host == "localhost"


class _Server(uvicorn.Server):
    """As uvicorn has it, but who waits for an answer when it ends is told so, and does not hold it up."""

    def __init__(self, config: uvicorn.Config, desk: Desk) -> None:
        super().__init__(config)
        self._desk = desk
        self.failed: Exception | None = None
        """What went wrong with whoever was told the address."""
        self.note: Path | None = None
        """Where a browser reads the address."""

    async def shutdown(self, sockets: list[socket.socket] | None = None) -> None:
        """End."""
        self._desk.close()
        await super().shutdown(sockets)


def serve(shelf: Shelf, place: Place, ready: Callable[[str], bool], *, browse: bool = True) -> None:
    """Serve until interrupted; ``ready`` is told the address once it answers, and says whether to go on. What it raises ends it, and is raised here."""
    sockets = [_bound(place)]
    port = sockets[0].getsockname()[1]
    shown = _written("127.0.0.1" if place.host in ("", "0.0.0.0", "localhost") else place.host)  # noqa: S104  (it is compared, not bound)
    hosts = {f"{name}{end}" for name in ("127.0.0.1", "localhost", shown) for end in _endings(port)}
    door = Door(frozenset({*hosts, *place.names}), place.token or secrets.token_urlsafe(24), f"headwater-{port}")
    desk = Desk()
    config = uvicorn.Config(
        studio(shelf, door, desk),
        log_level="error",
        access_log=False,
        http=Wire,
        ws="none",
        lifespan="off",
        server_header=False,
        proxy_headers=False,
        h11_max_incomplete_event_size=ADDRESS_BYTES,
        timeout_graceful_shutdown=2,
    )
    server = _Server(config, desk)
    address = f"http://{shown}:{port}/?token={quote(door.token, safe='')}"
    threading.Thread(target=_tell, args=(server, address, ready, browse), daemon=True).start()
    if shelf.models:
        # While the browser starts: who comes first does not wait for it.
        desk.ahead("model", lambda stop: shelf.model(next(iter(shelf.models))))
    # Whoever is cut off at the end is no error.
    logging.getLogger("uvicorn.error").addFilter(lambda _: not server.should_exit)
    try:
        server.run(sockets)
    finally:
        if server.note is not None:
            server.note.unlink(missing_ok=True)
        if not desk.rest(REST_SECONDS):
            if server.failed is not None:
                traceback.print_exception(server.failed)
            sys.stdout.flush()
            os._exit(130)
    if server.failed is not None:
        raise server.failed


def _written(host: str) -> str:
    """An address as it stands in another one."""
    return {"::": "[::1]"}.get(host, f"[{host}]" if ":" in host else host)


def _endings(port: int) -> tuple[str, ...]:
    """How a browser writes a port: not at all where it is the usual one."""
    return ("", ":80") if port == 80 else (f":{port}",)


def _bound(place: Place) -> socket.socket:
    """The socket, already listening; where the usual port is taken, any that is free."""
    for port in dict.fromkeys((place.port, 0)):
        family = socket.AF_INET6 if ":" in place.host else socket.AF_INET
        # By name: asyncio lets an answer's last bytes go at once on sockets that say they are TCP. On others they wait 40 ms for an acknowledgement.
        found = socket.socket(family, socket.SOCK_STREAM, socket.IPPROTO_TCP)
        found.setsockopt(socket.SOL_SOCKET, socket.SO_REUSEADDR, 1)
        try:
            found.bind((place.host, port))
            # Now, not later: until one of them listens, two studios that start at once could have the same port.
            found.listen(BACKLOG)
        except OSError as reason:
            found.close()
            if port == 0 or place.port != PORT:
                given = f"--host {place.host} --port {port} ({reason.strerror})"
                raise InputError(given, "an address of this machine, and a port that is free there", "choose another") from None
            continue
        if place.token is None and not ip_address(found.getsockname()[0]).is_loopback:
            found.close()
            raise _open_to_all(place.host)
        return found
    raise AssertionError("the last port is any that is free")


def _tell(server: _Server, address: str, ready: Callable[[str], bool], browse: bool) -> None:  # noqa: FBT001  (a thread's target)
    while not server.started:
        time.sleep(0.01)
        if server.should_exit:
            return
    goes_on = False
    try:
        goes_on = ready(address)
    except Exception as error:  # noqa: BLE001  (it is raised again where the server ends)
        server.failed = error
    if not goes_on:
        server.should_exit = True
    elif browse:
        _open(server, address)


def _open(server: _Server, address: str) -> None:
    """Send a browser there, by a file that nobody else can read: everybody on this machine sees what a browser was started with, and the address has the token in it."""
    number, name = tempfile.mkstemp(prefix="headwater-", suffix=".html")
    server.note, there = Path(name), escape(address)
    with os.fdopen(number, "w") as file:
        file.write(
            f'<!doctype html><meta http-equiv="refresh" content="0;url={there}"><title>Headwater</title><a href="{there}">Headwater</a>'
        )
    webbrowser.open(server.note.as_uri())
    deadline = time.monotonic() + OPENING_SECONDS
    while time.monotonic() < deadline and not server.should_exit:
        time.sleep(0.1)
    server.note.unlink(missing_ok=True)
