"""Who may ask: the outermost layer, before any route is looked at.

Every request, whatever it is for, passes here first: its ``Host`` must be one of ours, letter by letter (a page elsewhere that lets its own name point at
this machine fails here); what changes something must come from our own page (``Origin``); and it must carry the cookie that the token of this start was
exchanged for, or the token itself in ``Authorization``. Whatever is answered carries a policy under which a page can reach nothing but this server.
"""

import asyncio
import hmac
import re
import secrets
from dataclasses import dataclass, field
from html import escape
from urllib.parse import parse_qsl, urlencode

from starlette.datastructures import Headers, MutableHeaders
from starlette.responses import HTMLResponse, Response
from starlette.types import ASGIApp, Message, Receive, Scope, Send

from headwater.studio.errors import told
from headwater.studio.limits import ADDRESS_BYTES, BODY_BYTES, BODY_SECONDS
from headwater.studio.page import SCREENS

POLICY = (
    "default-src 'none'; script-src 'self'; style-src 'self'; style-src-attr 'unsafe-inline'; img-src 'self' data: blob:; connect-src 'self'; "
    "base-uri 'none'; form-action 'none'; frame-ancestors 'none'"
)
"""Attributes may set a style, as widths of bars do; nothing else stands in the page itself."""
HEADERS = {
    "content-security-policy": POLICY,
    "x-content-type-options": "nosniff",
    "x-frame-options": "DENY",
    "referrer-policy": "no-referrer",
    "cross-origin-opener-policy": "same-origin",
    "cross-origin-resource-policy": "same-origin",
    "permissions-policy": "camera=(), microphone=(), geolocation=()",
}
SAFE = frozenset({"GET", "HEAD"})
NEAR = frozenset({"same-origin", "none"})
"""Where a browser may say that a question comes from: our page, or a person who typed the address. Another port of this machine is neither."""
PLACES = frozenset({"/", *(f"/{screen}" for screen in SCREENS)})
"""Where somebody who signs in may have wanted to go."""
FIELDS = 100
"""Of an address that are looked through for the token, before it is known who asks."""


@dataclass(frozen=True)
class Door:
    """Which names this server goes by, and the secrets of this start."""

    hosts: frozenset[str]
    """Exactly as a browser writes them: ``127.0.0.1:8321``."""
    token: str
    cookie: str
    """The cookie's name: of its own for each port, since cookies do not know of ports."""
    session: str = field(default_factory=lambda: secrets.token_urlsafe(32))
    """What the token is exchanged for."""

    @property
    def origins(self) -> frozenset[str]:
        """Where our own page comes from."""
        return frozenset(f"http://{host}" for host in self.hosts)


class Guard:
    """The layer itself."""

    def __init__(self, app: ASGIApp, door: Door) -> None:
        self.app, self.door = app, door

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        """Let a request in, or answer it here."""
        if scope["type"] == "lifespan":
            await self.app(scope, receive, send)
        elif scope["type"] == "http":
            await self._answer(scope, receive, _sealed(scope, send))
        else:
            # Nothing here speaks anything else: there is one way in.
            await send({"type": "websocket.close", "code": 1008})

    async def _answer(self, scope: Scope, receive: Receive, send: Send) -> None:
        refusal = self._refusal(scope, Headers(scope=scope))
        if refusal is None:
            try:
                body = await asyncio.wait_for(_body(receive), BODY_SECONDS)
            except TimeoutError:
                refusal = told(408, "a request without an end", f"all of it within {BODY_SECONDS:g} s", "send it again")
            else:
                if body is not None:
                    await self.app(scope, _again(body, receive), send)
                    return
                refusal = told(413, "a body without an end", f"at most {BODY_BYTES:,} bytes", "send less")
        if refusal.status_code >= 400:
            # Whoever is not let in keeps no place either.
            refusal.headers["connection"] = "close"
        await refusal(scope, receive, send)

    def _refusal(self, scope: Scope, headers: Headers) -> Response | None:
        """Why a request is not let in; None where it is."""
        hosts, origins = headers.getlist("host"), headers.getlist("origin")
        if not scope["path"].startswith("/"):
            return told(400, "the address of another server", "one that begins with a slash", "ask the other server")
        if len(hosts) != 1 or hosts[0] not in self.door.hosts:
            return told(
                403, f"the host {' and '.join(hosts)!r:.80}", "this studio's own address", "open the address that it printed"
            )
        if scope["method"] not in SAFE and not (len(origins) == 1 and origins[0] in self.door.origins):
            return told(
                403, f"a request from {' and '.join(origins) or 'nowhere'!r:.80}", "the studio's own page", "ask from there"
            )
        if scope["path"].startswith("/api") and not NEAR.issuperset(headers.getlist("sec-fetch-site")):
            return told(403, "a request from another site", "the studio's own page", "ask from there")
        return _too_long(scope, headers) or self._sign_in(scope, headers)

    def _sign_in(self, scope: Scope, headers: Headers) -> Response | None:
        bearer = [each.removeprefix("Bearer ") for each in headers.getlist("authorization") if each.startswith("Bearer ")]
        is_known = _among(self.door.session, _cookies(headers, self.door.cookie)) or _among(self.door.token, bearer)
        return self._exchanged(scope) or (None if is_known else _please(scope))

    def _exchanged(self, scope: Scope) -> Response | None:
        """The token in a page's address becomes a cookie, and the address loses it: it shall not stand in a history.

        Whatever else is called token there is a token of a text, and none of ours.
        """
        if scope["method"] != "GET" or scope["path"].startswith("/api") or b"token=" not in scope["query_string"]:
            return None
        try:
            asked = parse_qsl(scope["query_string"].decode("latin-1"), keep_blank_values=True, max_num_fields=FIELDS)
        except ValueError:
            return None
        rest = [(name, value) for name, value in asked if not (name == "token" and _among(self.door.token, [value]))]
        if len(rest) == len(asked):
            return None
        place = scope["path"] if scope["path"] in PLACES else "/"
        address = escape(f"{place}?{urlencode(rest)}" if rest else place)
        # A page that goes on by itself, not a redirect: after a click elsewhere a strict cookie is not sent along with a redirect.
        answer = HTMLResponse(
            f'<!doctype html><meta http-equiv="refresh" content="0;url={address}"><title>Headwater</title><link rel="icon" href="data:,">'
        )
        answer.set_cookie(self.door.cookie, self.door.session, httponly=True, samesite="strict", path="/")
        return answer


def _too_long(scope: Scope, headers: Headers) -> Response | None:
    if len(scope["path"]) + len(scope["query_string"]) > ADDRESS_BYTES:
        return told(414, "an address that is too long", f"at most {ADDRESS_BYTES:,} bytes", "ask for less")
    length = headers.get("content-length", "0")
    if not re.fullmatch(r"\d{1,12}", length, re.ASCII) or int(length) > BODY_BYTES:
        return told(413, f"a body of {length:.20} bytes", f"at most {BODY_BYTES:,}", "send less")
    return None


def _sealed(scope: Scope, send: Send) -> Send:
    """Whatever is sent, under the policy; and kept by nobody, unless it is a file of the page."""

    async def sealed(message: Message) -> None:
        if message["type"] == "http.response.start":
            headers = MutableHeaders(scope=message)
            headers.update(HEADERS)
            if not scope["path"].startswith("/assets/") or message["status"] >= 400:
                headers.setdefault("cache-control", "no-store")
        await send(message)

    return sealed


def _please(scope: Scope) -> Response:
    if scope["path"].startswith("/api"):
        return told(401, "no sign of who asks", "the address with the token", "open the address that headwater studio printed")
    page = (
        "<!doctype html><html lang=en><meta charset=utf-8><title>Headwater</title><link rel=icon href=data:,><h1>Headwater</h1>"
        "<p>This studio is open to whoever started it. Open the address that <code>headwater studio</code> printed; it ends in a token."
        "<p lang=pt>Este estúdio está aberto a quem o iniciou. Abra o endereço que <code>headwater studio</code> imprimiu; termina com um token."
    )
    return HTMLResponse(page, status_code=401)


async def _body(receive: Receive) -> bytes | None:
    """What is sent along, also where it does not say how long it is; None where that is too long."""
    seen = bytearray()
    while len(seen) <= BODY_BYTES:
        message = await receive()
        if message["type"] == "http.disconnect":
            # Half of a request asks for nothing.
            return None
        seen += message.get("body", b"")
        if not message.get("more_body", False):
            return bytes(seen) if len(seen) <= BODY_BYTES else None
    return None


def _again(body: bytes, receive: Receive) -> Receive:
    """Hand over a body that has been read, and then whatever comes."""
    waiting: list[Message] = [{"type": "http.request", "body": body, "more_body": False}]

    async def received() -> Message:
        return waiting.pop() if waiting else await receive()

    return received


def _cookies(headers: Headers, name: str) -> list[str]:
    """All cookies of a name. Other servers of this machine set theirs too, in whatever spelling: none of them hides ours."""
    pairs = (each.strip().partition("=") for line in headers.getlist("cookie") for each in line.split(";"))
    return [value for key, _, value in pairs if key == name]


def _among(needed: str, given: list[str]) -> bool:
    """Whether one of these is it; how long the answer takes tells nothing about how nearly."""
    return any([hmac.compare_digest(each.encode(), needed.encode()) for each in given])  # noqa: C419  (all of them, always)
