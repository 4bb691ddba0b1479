"""Who may ask: the outermost layer, before any route is looked at.

Every request, whatever it is for, passes here first: its ``Host`` must be one of ours, letter by letter (a page elsewhere that lets its own name point at
this machine fails here); what changes something must come from our own page (``Origin``); and it must carry the cookie that the token of this start was
exchanged for, or the token itself in ``Authorization``. Whatever is answered carries a policy under which a page can reach nothing but this server.
"""

import hmac
import re
import secrets
from dataclasses import dataclass, field
from http.cookies import CookieError, SimpleCookie
from urllib.parse import parse_qsl, urlencode

from starlette.datastructures import Headers, MutableHeaders
from starlette.responses import HTMLResponse, Response
from starlette.types import ASGIApp, Message, Receive, Scope, Send

from headwater.studio.errors import told
from headwater.studio.limits import BODY_BYTES

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
            return
        if scope["type"] != "http":
            # Nothing here speaks anything else: there is one way in.
            return
        headers = Headers(scope=scope)
        refusal = self._refusal(scope, headers)

        async def sealed(message: Message) -> None:
            if message["type"] == "http.response.start":
                MutableHeaders(scope=message).update(HEADERS)
            await send(message)

        if refusal is not None:
            await refusal(scope, receive, sealed)
        else:
            await self.app(scope, _bounded(receive), sealed)

    def _refusal(self, scope: Scope, headers: Headers) -> Response | None:
        """Why a request is not let in; None where it is."""
        hosts, method = headers.getlist("host"), scope["method"]
        if len(hosts) != 1 or hosts[0] not in self.door.hosts:
            return told(
                403, f"the host {' and '.join(hosts)!r:.80}", "this studio's own address", "open the address that it printed"
            )
        if method not in SAFE and headers.get("origin") not in self.door.origins:
            return told(
                403, f"a request from {headers.get('origin', 'nowhere')!r:.80}", "the studio's own page", "ask from there"
            )
        if headers.get("sec-fetch-site") == "cross-site" and scope["path"].startswith("/api"):
            return told(403, "a request from another site", "the studio's own page", "ask from there")
        length = headers.get("content-length", "0")
        if not re.fullmatch(r"\d{1,12}", length, re.ASCII) or int(length) > BODY_BYTES:
            return told(413, f"a body of {length:.20} bytes", f"at most {BODY_BYTES:,}", "send less")
        return self._sign_in(scope, headers)

    def _sign_in(self, scope: Scope, headers: Headers) -> Response | None:
        if _equal(_cookie(headers, self.door.cookie), self.door.session):
            return self._without_token(scope)
        if _equal(headers.get("authorization", "").removeprefix("Bearer "), self.door.token):
            return None
        return self._without_token(scope) or _please(scope)

    def _without_token(self, scope: Scope) -> Response | None:
        """The token in an address becomes a cookie, and the address loses it: it shall not stand in a history.

        Whatever else is called token there is one of a text, and none of ours.
        """
        asked = parse_qsl(scope["query_string"].decode("latin-1"), keep_blank_values=True)
        kept = [(name, value) for name, value in asked if not (name == "token" and _equal(value, self.door.token))]
        if scope["method"] != "GET" or len(kept) == len(asked):
            return None
        rest = urlencode(kept)
        # A path may not begin with two slashes, or it would be read as another host's.
        place = "/" + re.sub(r"[^\w/.~-]", "", scope["path"].lstrip("/")) + (f"?{rest}" if rest else "")
        # A page that goes on by itself, not a redirect: after a click elsewhere a strict cookie is not sent along with a redirect.
        answer = HTMLResponse(
            f'<!doctype html><meta http-equiv="refresh" content="0;url={_quoted(place)}"><title>Headwater</title><link rel="icon" href="data:,">'
        )
        answer.set_cookie(self.door.cookie, self.door.session, httponly=True, samesite="strict", path="/")
        answer.headers["cache-control"] = "no-store"
        return answer


def _please(scope: Scope) -> Response:
    if scope["path"].startswith("/api"):
        return told(401, "no sign of who asks", "the address with the token", "open the address that headwater studio printed")
    page = (
        "<!doctype html><html lang=en><meta charset=utf-8><title>Headwater</title><link rel=icon href=data:,><h1>Headwater</h1>"
        "<p>This studio is open to whoever started it. Open the address that <code>headwater studio</code> printed; it ends in a token."
        "<p lang=pt>Este estúdio está aberto a quem o iniciou. Abra o endereço que <code>headwater studio</code> imprimiu; termina com um token."
    )
    return HTMLResponse(page, status_code=401)


def _bounded(receive: Receive) -> Receive:
    """A body that does not say how long it is ends where it would be too long."""
    seen = 0

    async def counted() -> Message:
        nonlocal seen
        message = await receive()
        seen += len(message.get("body", b""))
        return message if seen <= BODY_BYTES else {"type": "http.disconnect"}

    return counted


def _cookie(headers: Headers, name: str) -> str:
    try:
        found = SimpleCookie(headers.get("cookie", "")).get(name)
    except CookieError:
        return ""
    return found.value if found else ""


def _equal(given: str, needed: str) -> bool:
    return hmac.compare_digest(given.encode(), needed.encode())


def _quoted(address: str) -> str:
    return address.replace("&", "&amp;").replace('"', "%22").replace("<", "%3C").replace(">", "%3E").replace("'", "%27")
