"""Whatever stands in a question, of any route: an answer or the one kind of error, and nothing about this machine."""

import ast
import os
import re
import shlex

import pytest

from hostile_values import BYTES, SOME, TRAVERSALS
from studio_app import Studio, operations, quoted, shelf_of_all, target
from studio_fuzz import check, fuzz, try_all

ROUTES = operations()


@pytest.fixture(scope="module")
def studio(tmp_path_factory):
    there = Studio(shelf_of_all(tmp_path_factory.mktemp("shelf")))
    yield there
    there.close()


@pytest.mark.parametrize("route", ROUTES, ids=lambda route: f"{route[0]} {route[1]}")
def test_every_parameter_of_every_route_takes_anything(studio, route):
    try_all(studio, route, SOME)


COMMANDS = [";touch x;#", "'; touch here & `id` $(id) | -x > y #", "\x03touch here\n\u202e\x1b[201~"]
KINDS = ("{}", "contains:{}", "exact:{}", "ids:1{}", "#7{}", "L0H0{}", "-lift{}", "~post{}")
"""What a value begins with, to come further into a route."""
TELLING = [
    route for route in ROUTES if route[0] == "GET" and route[1] not in ("/api/training/live", "/api/documents/figure/data")
]


@pytest.mark.parametrize("route", TELLING, ids=lambda route: route[1])
def test_lines_say_nothing_but_what_was_asked(studio, route):
    _, path, parameters, _ = route
    free = [
        each["name"]
        for each in parameters
        if "enum" not in str(each["schema"]) and each["name"] not in ("model", "atlas", "training")
    ]
    changes = [{name: kind.format(value)} for name in free for kind in KINDS for value in COMMANDS]
    # All of them at once too: what one of them stops another may come by.
    changes += [dict.fromkeys(free, kind.format(value)) for kind in KINDS for value in COMMANDS]
    for changed in [{}, *changes]:
        answer = studio.ask(target(path, parameters, changed))
        if answer.status == 200 and answer.header("content-type") == "application/json" and "lines" in answer.json():
            check_lines(answer.json()["lines"])


def check_lines(lines):
    """Words, of which none is an operator or is made into something else; and what a terminal can show."""
    words = shlex.shlex(lines["shell"], posix=True, punctuation_chars=True)
    words.whitespace_split, words.commenters = True, ""
    assert not [word for word in words if set(word) <= set("();<>|&")], lines["shell"]
    bare = re.sub(r"'[^']*'|\"'\"", "", lines["shell"])
    assert re.fullmatch(r"[\w@%+=:,./ \n-]*", bare, re.ASCII), lines["shell"]
    ast.parse(lines["python"])
    for line in (*lines["shell"].split("\n"), *lines["python"].split("\n")):
        assert line.isprintable(), line


def test_a_slot_that_means_no_token_tells_lines_too(studio):
    asked = {"atlas": "tiny", "dest": "contains:zz\x03", "out": "exact:#7"}
    place = next(route for route in ROUTES if route[1] == "/api/atlas/search")
    told = studio.ask(target(place[1], place[2], {"source": "$(id) zz", "head": "L0H0,L0", "sort": "-score", **asked})).json()
    assert [each["slot"] for each in told["missing"]] == ["source", "dest", "out"]
    # A letter that no terminal shows is written by Python, which has a way to write it.
    assert shlex.split(told["lines"]["shell"])[:2] == ["python", "-c"]
    told = studio.ask(target(place[1], place[2], {"source": "$(id) zz", "sort": "-score", "out": "exact:#7"})).json()
    words = shlex.split(told["lines"]["shell"])
    options = dict(zip(words[4:-1:2], words[5:-1:2], strict=True))
    assert options == {
        "--source": "$(id) zz",
        "--dest": "e",
        "--out": "exact:#7",
        "--head": "L0H0",
        "--sort": "-score",
        "--limit": "100",
    }


@pytest.mark.parametrize("method", ["GET", "POST"])
def test_addresses_that_are_none(studio, method):
    for value in [*TRAVERSALS, *BYTES]:
        for begin in ("/", "/api/", "/assets/", "/api/model/", "/assets/../", "/api/../"):
            check(studio.ask(begin + quoted(value), method), value, [value])
            plain = value if isinstance(value, str) else value.decode("latin-1")
            if plain.isascii() and plain.isprintable():
                check(studio.ask(begin + plain, method), value, [value])


def test_files_of_the_page_are_those_of_its_folder_only(studio, tmp_path, monkeypatch):
    from headwater.studio import page

    (tmp_path / "page" / "assets" / "below").mkdir(parents=True)
    (tmp_path / "page" / "index.html").write_text("page")
    (tmp_path / "secret.txt").write_text("a secret")
    assets = tmp_path / "page" / "assets"
    (assets / "a-1.js").write_text("1")
    (assets / "out.js").symlink_to(tmp_path / "secret.txt")
    (assets / "folder").symlink_to(tmp_path)
    os.mkfifo(assets / "pipe.js")
    monkeypatch.setattr(page, "FOLDER", tmp_path / "page")
    there = Studio(studio.shelf)
    assert there.ask("/assets/a-1.js").body == b"1"
    hidden = [
        "out.js",
        "folder/secret.txt",
        "folder",
        "below",
        "",
        "pipe.js",
        "../index.html",
        "..%2f..%2fsecret.txt",
        "%2e%2e/%2e%2e/secret.txt",
        str(tmp_path / "secret.txt"),
        "a-1.js/x",
        "a-1.js%00",
    ]
    for name in hidden:
        answer = there.ask("/assets/" + name)
        assert 400 <= answer.status < 500, (name, answer.status)
        assert b"secret" not in answer.body.replace(b"secret.txt", b"")
        check(answer, name, [name])
    for ranges in ("bytes=0-", "bytes=5-1", "bytes=" + "0-0," * 5_000, "bytes=-99999999999999999999", "lines=1"):
        assert there.ask("/assets/a-1.js", headers={"range": ranges}).status < 500
    there.close()


def test_bodies_of_any_kind(studio):
    deep = b'{"a":' * 20_000
    bodies = [
        b"{",
        b"[" * 60_000,
        deep,
        b"\xff\xfe",
        b'"\\ud800"',
        b"NaN",
        b"1" * 5_000,
        b"{}" * 100,
        b"a=b&c=" + b"d" * 1_000,
        b"\x00" * 1_000,
    ]
    kinds = [
        "application/json",
        "application/x-www-form-urlencoded",
        "multipart/form-data; boundary=x",
        "multipart/form-data",
        "text/plain",
        "application/json; charset=utf-16",
        "\xff",
    ]
    posts = [(path, parameters, asked) for method, path, parameters, asked in ROUTES if method == "POST"]
    assert posts
    for path, parameters, _ in posts:
        # Of a thing that is not there: nothing shall begin.
        missing = {
            each["name"]: "nothing"
            for each in parameters
            if any(
                kind.get("type") == "string" and "enum" not in kind for kind in each["schema"].get("anyOf", [each["schema"]])
            )
        }
        for kind in kinds:
            for body in bodies:
                answer = studio.ask(
                    target(path, parameters, missing),
                    "POST",
                    {"content-type": kind, "content-length": str(len(body))},
                    [body],
                    leave=5,
                )
                check(answer, (path, kind, body[:40]))


def test_nothing_takes_sql_or_a_path(studio):
    named = {(path, each["name"]) for _, path, parameters, _ in ROUTES for each in parameters}
    assert not {
        (path, name) for path, name in named if name in ("sql", "query", "path", "file", "folder", "dir", "url", "filename")
    }


def test_answers_are_what_the_description_says(studio):
    seen = fuzz(studio, 4)
    assert {200, 422} <= seen.statuses
    assert "/api/tokens" in seen.routes, "ids that are there were asked about"
