"""Start the studio: a socket on this machine, a token for this start, and a browser."""

import secrets
import socket
import threading
import time
import webbrowser
from collections.abc import Callable
from dataclasses import dataclass
from ipaddress import ip_address

import uvicorn

from headwater.errors import InputError
from headwater.studio.app import studio
from headwater.studio.guard import Door
from headwater.studio.limits import ADDRESS_BYTES
from headwater.studio.shelf import Shelf

PORT = 8321
SHORTEST = 16
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
            given = f"--host {self.host}, which others can reach"
            raise InputError(given, "a token of your own", "set HEADWATER_TOKEN, or leave --host out")
        if self.token is not None and len(self.token) < SHORTEST:
            raise InputError(f"a token of {len(self.token)} letters", f"at least {SHORTEST}", "choose a longer one")


def _is_own(host: str) -> bool:
    try:
        return ip_address(host).is_loopback
    except ValueError:
        return host == "localhost"


def serve(shelf: Shelf, place: Place, ready: Callable[[str], bool], *, browse: bool = True) -> None:
    """Serve until interrupted; ``ready`` is told the address once it answers, and says whether to go on."""
    sockets = [_bound(place)]
    port = sockets[0].getsockname()[1]
    hosts = {f"127.0.0.1:{port}", f"localhost:{port}", *place.names}
    shown = "127.0.0.1" if place.host in ("0.0.0.0", "localhost") else place.host  # noqa: S104  (it is compared, not bound)
    hosts.add(f"{shown}:{port}")
    door = Door(frozenset(hosts), place.token or secrets.token_urlsafe(24), f"headwater-{port}")
    config = uvicorn.Config(
        studio(shelf, door),
        log_level="warning",
        access_log=False,
        http="h11",
        ws="none",
        lifespan="off",
        server_header=False,
        h11_max_incomplete_event_size=ADDRESS_BYTES,
        timeout_graceful_shutdown=2,
    )
    server = uvicorn.Server(config)
    address = f"http://{shown}:{port}/?token={door.token}"
    threading.Thread(target=_tell, args=(server, address, ready, browse), daemon=True).start()
    server.run(sockets)


def _bound(place: Place) -> socket.socket:
    """The socket; where the usual port is taken, any that is free."""
    family = socket.AF_INET6 if ":" in place.host else socket.AF_INET
    for port in dict.fromkeys((place.port, 0)):
        found = socket.socket(family, socket.SOCK_STREAM)
        found.setsockopt(socket.SOL_SOCKET, socket.SO_REUSEADDR, 1)
        try:
            found.bind((place.host, port))
        except OSError as reason:
            found.close()
            if port == 0 or place.port != PORT:
                raise InputError(
                    f"--host {place.host} --port {port} ({reason.strerror})", "a port that is free", "choose another"
                ) from None
            continue
        return found
    raise AssertionError("the last port is any that is free")


def _tell(server: uvicorn.Server, address: str, ready: Callable[[str], bool], browse: bool) -> None:  # noqa: FBT001  (a thread's target)
    while not server.started:
        time.sleep(0.01)
        if server.should_exit:
            return
    if not ready(address):
        server.should_exit = True
    elif browse:
        webbrowser.open(address)
