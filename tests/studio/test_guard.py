"""Who may ask: on every address there is, and on those that there are not."""

import re
from html import unescape
from urllib.parse import urljoin, urlsplit

import pytest

from headwater.studio.guard import HEADERS
from headwater.studio.limits import ADDRESS_BYTES, BODY_BYTES
from headwater.studio.page import FOLDER
from headwater.studio.shelf import Shelf
from studio_app import HOST, ORIGIN, TOKEN, Studio, is_endless, operations, target

METHODS = ("GET", "HEAD", "POST", "PUT", "PATCH", "DELETE", "OPTIONS", "TRACE", "CONNECT", "PROPFIND", "get", "X")
STATIC = sorted(f"/assets/{path.name}" for path in (FOLDER / "assets").glob("*"))[:2]
PAGES = (
    "/",
    "/river",
    "/favicon.svg",
    "/nothing",
    "/api",
    "/api/",
    "/api/nothing",
    "/api/openapi.json",
    "/assets/nothing.js",
    "/assets/",
    *STATIC,
)
ROUTES = [(method, target(path, parameters), asked) for method, path, parameters, asked in operations()]
EVERY = [*(("GET", page) for page in PAGES), *((method, place) for method, place, _ in ROUTES)]


@pytest.fixture(scope="module")
def studio():
    from collections import OrderedDict

    there = Studio(Shelf(OrderedDict(), OrderedDict(), OrderedDict(), {}))
    yield there
    there.close()


def check_sealed(answer):
    for name, value in HEADERS.items():
        assert answer.header(name) == value
    assert not [name for name, _ in answer.headers if name.lower().startswith(b"access-control-")]
    assert answer.header("server") is None
    assert TOKEN.encode() not in answer.body
    assert not [value for name, value in answer.headers if TOKEN.encode() in value]
    assert answer.header("location") is None


def check_error(answer, *statuses):
    assert answer.status in statuses, (answer.status, answer.body[:300])
    assert set(answer.json()) == {"given", "needed", "do"}
    check_sealed(answer)


@pytest.mark.parametrize("method", METHODS)
def test_no_address_answers_somebody_who_is_not_signed_in(studio, method):
    for _, place in EVERY:
        answer = studio.ask(place, method, signed=False)
        assert answer.status == 401, (method, place, answer.status)
        assert answer.header("set-cookie") is None
        check_sealed(answer)


@pytest.mark.parametrize(
    "host",
    [
        *(
            "evil.example",
            "evil.example:8321",
            "127.0.0.1",
            "127.0.0.1:80",
            "127.0.0.1:8322",
            "localhost:8321",
            "127.0.0.1.:8321",
            "127.0.0.1:8321.",
        ),
        *(
            "LOCALHOST:8321",
            "u@127.0.0.1:8321",
            "127.0.0.1:8321@evil.example",
            "127.0.0.1:8321 ",
            " 127.0.0.1:8321",
            "127.1:8321",
            "2130706433:8321",
        ),
        *(
            "[::1]:8321",
            "[::ffff:127.0.0.1]:8321",
            "127.0.0.1:08321",
            "127.0.0.1:8321,evil.example",
            "127.0.0.1:8321/",
            "0.0.0.0:8321",
            "",
            "\x00",
            "é",
        ),
    ],
)
def test_another_host_is_refused_before_the_token_is_looked_at(studio, host):
    for place in ("/", "/api/shelf", "/assets/x", f"/?token={TOKEN}"):
        answer = studio.ask(place, headers={"host": host})
        check_error(answer, 403)
        assert answer.header("set-cookie") is None


def test_no_host_and_two_hosts_are_refused(studio):
    signed = ("authorization", f"Bearer {TOKEN}")
    check_error(studio.ask("/api/shelf", headers=[signed]), 403)
    check_error(studio.ask("/api/shelf", headers=[signed, ("host", HOST), ("host", "evil.example")]), 403)
    check_error(studio.ask("/api/shelf", headers=[signed, ("host", HOST), ("host", HOST)]), 403)
    assert studio.ask("/api/shelf", headers=[signed, ("host", HOST)]).status == 200


@pytest.mark.parametrize("place", ["http://evil.example/api/shelf", f"http://{HOST}/api/shelf", "*", "evil.example:443", ""])
def test_only_targets_that_are_paths_are_answered(studio, place):
    check_error(studio.ask(place), 400)


@pytest.mark.parametrize(
    "origin",
    [
        *(
            None,
            "null",
            "",
            "http://evil.example",
            f"https://{HOST}",
            "http://127.0.0.1",
            "http://127.0.0.1:8322",
            "http://127.0.0.1:83210",
            f"{ORIGIN}/",
        ),
        *(
            f"{ORIGIN}.evil.example",
            f"{ORIGIN}@evil.example",
            f"http://evil.example#{HOST}",
            f"{ORIGIN} ",
            ORIGIN.upper(),
            HOST,
            "http://localhost:8321",
            "file://",
        ),
    ],
)
@pytest.mark.parametrize("method", ["POST", "PUT", "PATCH", "DELETE", "OPTIONS", "TRACE", "PROPFIND"])
def test_what_may_change_something_comes_from_our_own_page(studio, method, origin):
    for place in ("/api/model/model/reopen", "/", "/api/nothing"):
        check_error(studio.ask(place, method, {"origin": origin}), 403)


def test_two_origins_are_refused_and_our_own_is_let_in(studio):
    headers = [("host", HOST), ("authorization", f"Bearer {TOKEN}"), ("origin", ORIGIN)]
    check_error(studio.ask("/api/model/model/reopen", "POST", [*headers, ("origin", "http://evil.example")]), 403)
    check_error(studio.ask("/api/model/model/reopen", "POST", headers), 404)


@pytest.mark.parametrize("site", ["cross-site", "same-site", "same-origin ", "nonsense", ""])
def test_a_browser_that_says_it_comes_from_elsewhere_gets_no_answer(studio, site):
    # Another port of this machine is the same site, and is sent our cookie.
    for method, place, _ in ROUTES:
        check_error(studio.ask(place, method, {"sec-fetch-site": site}), 403)
    check_error(
        studio.ask(
            "/api/shelf",
            headers=[
                ("host", HOST),
                ("authorization", f"Bearer {TOKEN}"),
                ("sec-fetch-site", "none"),
                ("sec-fetch-site", site),
            ],
        ),
        403,
    )
    assert studio.ask("/api/shelf", headers={"sec-fetch-site": "same-origin"}).status == 200


@pytest.mark.parametrize("method", METHODS)
def test_every_answer_to_somebody_signed_in_carries_the_policy(studio, method):
    for own, place in EVERY:
        if method not in (own, "POST"):
            answer = studio.ask(place, method, leave=5)
            check_sealed(answer)
            assert answer.status < 500 or not (FOLDER / "index.html").is_file(), (method, place, answer.body)
            if answer.status >= 400 and answer.body:
                assert set(answer.json()) == {"given", "needed", "do"}, (method, place, answer.body)
    for own, place, asked in ROUTES:
        if own == method == "GET":
            answer = studio.ask(place, leave=5 if is_endless(asked) else None)
            check_sealed(answer)
            assert answer.header("cache-control") in ("no-store", "no-cache"), place


def test_the_policy_lets_nothing_in_from_elsewhere_and_no_script_in_the_page():
    said = dict(part.strip().split(" ", 1) for part in HEADERS["content-security-policy"].split(";"))
    assert said["default-src"] == said["base-uri"] == said["form-action"] == said["frame-ancestors"] == "'none'"
    assert said["script-src"] == said["style-src"] == said["connect-src"] == "'self'"
    assert not re.search(r"unsafe-eval|https?:|\*|ws:", HEADERS["content-security-policy"])
    assert "script-src-attr" not in said


@pytest.mark.parametrize("screen", ["/", "/river", "/atlas"])
def test_the_token_is_exchanged_for_a_cookie_that_scripts_and_other_sites_do_not_see(studio, screen):
    answer = studio.ask(f"{screen}?lang=pt&token={TOKEN}&text=a%26b%22%3C", signed=False)
    check_sealed(answer)
    assert (answer.status, answer.header("cache-control")) == (200, "no-store")
    name, *rest = [part.strip() for part in answer.header("set-cookie").split(";")]
    assert {part.lower() for part in rest} == {"httponly", "samesite=strict", "path=/"}
    assert name == f"headwater-8321={studio.door.session}"
    assert TOKEN not in name
    assert onwards(answer) == f"{screen}?lang=pt&text=a%26b%22%3C"
    signed = {"authorization": None, "cookie": f"a=b; {name}; headwater-9000=x"}
    assert studio.ask("/api/shelf", headers=signed).status == 200


def onwards(answer):
    return unescape(re.search(rb'content="0;url=([^"]*)"', answer.body)[1].decode())


@pytest.mark.parametrize(
    "path",
    [
        *(
            "//evil.example",
            "///evil.example",
            "/\\evil.example",
            "/\\/evil.example",
            "/%5c/evil.example",
            "/%2f/evil.example",
            "/%2f%2fevil.example",
        ),
        *(
            "/..//evil.example",
            "/%0d%0aLocation:%20http://evil.example",
            "/\t/evil.example",
            "/%09//evil.example",
            "/%EF%BC%8F/evil.example",
            "/%E2%80%AE//evil",
        ),
        *(
            "/river//evil.example",
            '/"><script>',
            "/;url=//evil.example",
            "/javascript:alert(1)",
            "/@evil.example",
            "/assets/../..//evil.example",
        ),
    ],
)
def test_signing_in_leads_nowhere_else(studio, path):
    answer = studio.ask(f"{path}?token={TOKEN}", signed=False)
    check_sealed(answer)
    place = onwards(answer)
    assert urlsplit(urljoin(f"http://{HOST}/", place)).netloc == HOST
    assert place == "/"
    assert answer.body.count(b"<") == 5


def test_what_stands_beside_the_token_stays_text(studio):
    answer = studio.ask(f"/river?token={TOKEN}&%0d%0aset-cookie:x=1&text=%22%3E%3Cscript%3E&a=%0d%0a%0d%0a", signed=False)
    check_sealed(answer)
    assert b"<script" not in answer.body
    assert answer.body.count(b'"') == 8
    assert len([name for name, _ in answer.headers if name == b"set-cookie"]) == 1


@pytest.mark.parametrize("method", ["GET", "HEAD", "POST", "OPTIONS"])
@pytest.mark.parametrize(
    "given", ["", "a", TOKEN[:-1], TOKEN + "x", TOKEN.upper(), "%00", "%ff", "é", TOKEN.replace("-", "%2D") + "%00"]
)
def test_another_token_opens_nothing(studio, method, given):
    for place in ("/", "/river", "/api/shelf"):
        answer = studio.ask(f"{place}?token={given}", method, signed=False)
        assert (answer.status, answer.header("set-cookie")) == (401, None)
    for scheme in ("", "Bearer", "Basic ", "bearer ", "Bearer  "):
        assert studio.ask("/api/shelf", headers={"authorization": scheme + (given if "%" not in given else "x")}).status == 401


def test_answers_are_asked_for_with_the_cookie_or_a_header_only(studio):
    # An address stands in histories and logs: the token opens pages there, and nothing else.
    check_error(studio.ask(f"/api/shelf?token={TOKEN}", signed=False), 401)
    assert studio.ask("/", "HEAD", {"authorization": None, "cookie": f"headwater-8321={TOKEN}"}).status == 401


def test_a_token_of_a_text_is_none_of_ours(studio):
    cookie = {"authorization": None, "cookie": f"headwater-8321={studio.door.session}"}
    page = studio.ask("/river?model=m&token=%20the", headers=cookie)
    assert b"http-equiv" not in page.body
    assert studio.ask("/api/shelf?token=%20the", headers=cookie).json()["models"] == []
    both = studio.ask(f"/river?token=%20the&token={TOKEN}", signed=False)
    assert onwards(both) == "/river?token=+the"


@pytest.mark.parametrize(
    "cookie",
    [
        *("{}", "headwater-8321=wrong; {}", '{}; x={{"a": "b"}}; y=@é', "x=a,b c; [z]=1;;=;{}", "{}; headwater-8321=wrong"),
        'broken="unclosed; {}',
    ],
)
def test_cookies_of_others_on_this_machine_do_not_hide_ours(studio, cookie):
    ours = cookie.format(f"headwater-8321={studio.door.session}")
    assert studio.ask("/api/shelf", headers={"authorization": None, "cookie": ours}).status == 200


def test_the_cookie_of_another_port_opens_nothing(studio):
    for name in ("headwater-8322", "headwater", "Headwater-8321", "headwater-8321 x"):
        assert (
            studio.ask("/api/shelf", headers={"authorization": None, "cookie": f"{name}={studio.door.session}"}).status == 401
        )


def test_secrets_are_compared_in_constant_time(studio, monkeypatch):
    import hmac

    compared = []
    monkeypatch.setattr(hmac, "compare_digest", lambda a, b: compared.append((a, b)) or False)
    studio.ask("/?token=x", headers={"authorization": "Bearer y", "cookie": "headwater-8321=z"})
    assert {given for given, _ in compared} == {b"x", b"y", b"z"}
    assert {needed for _, needed in compared} == {TOKEN.encode(), studio.door.session.encode()}


@pytest.mark.parametrize("length", [str(BODY_BYTES + 1), "9" * 13, "-1", "1e3", "0x10", "", "١"])
def test_a_body_that_says_it_is_too_long_is_refused(studio, length):
    check_error(
        studio.ask(
            "/api/model/model/reopen",
            "POST",
            [("host", HOST), ("authorization", f"Bearer {TOKEN}"), ("origin", ORIGIN), ("content-length", length)]
            if length.isascii()
            else {"content-length": "\xb2"},
        ),
        413,
    )


def test_a_body_that_does_not_say_how_long_it_is_ends_where_it_is_too_long(studio):
    piece = b" " * 4096
    fits, exceeds = BODY_BYTES // len(piece), BODY_BYTES // len(piece) + 1
    check_error(studio.ask("/api/model/model/reopen", "POST", body=[piece] * exceeds), 413)
    check_error(studio.ask("/api/shelf", "GET", body=[piece] * exceeds), 413)
    check_error(studio.ask("/api/model/model/reopen", "POST", body=[piece] * fits), 404)


def test_a_body_that_does_not_come_is_not_waited_for(studio, monkeypatch):
    from headwater.studio import guard

    monkeypatch.setattr(guard, "BODY_SECONDS", 0.05)
    check_error(studio.ask("/api/model/model/reopen", "POST", body=[]), 408)


def test_an_address_that_is_too_long_is_refused_and_the_longest_text_is_not(studio):
    check_error(studio.ask("/api/tokens?model=m&text=" + "a" * ADDRESS_BYTES), 414)
    check_error(studio.ask("/api/tokens?model=m&text=" + "%F0%9F%8C%8A" * 40_000), 404)
    check_error(studio.ask("/api/tokens?model=m&text=" + "%F0%9F%8C%8A" * 40_001), 422)


def test_nothing_but_http_is_spoken(studio):
    import asyncio

    async def knock():
        sent = []

        async def send(message):
            sent.append(message)

        async def receive():
            return {"type": "websocket.connect"}

        headers = [(b"host", HOST.encode()), (b"authorization", f"Bearer {TOKEN}".encode()), (b"origin", ORIGIN.encode())]
        await studio.app({"type": "websocket", "path": "/api/shelf", "query_string": b"", "headers": headers}, receive, send)
        return sent

    assert [message["type"] for message in asyncio.run(knock())] == ["websocket.close"]
