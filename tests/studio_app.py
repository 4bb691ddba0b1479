"""The studio's application in this process, spoken to byte by byte: any method, target and header, streams that do not end, clients that leave."""

import asyncio
import os
import re
import threading
from dataclasses import dataclass, field
from datetime import timedelta
from pathlib import Path
from urllib.parse import quote, unquote

import httpx

from headwater.studio.app import describe, studio
from headwater.studio.guard import Door
from headwater.studio.shelf import fill

HOST = "127.0.0.1:8321"
TOKEN = "a-token-of-the-tests"
ORIGIN = f"http://{HOST}"


def shelf_of_all(folder):
    """A model with words and an atlas, one without words, and a training: everything that routes can be asked about."""
    import torch

    from headwater import Model
    from headwater.train.recipe import read_recipe
    from headwater.train.run import run_recipe
    from strategies import random_weights
    from tiny import tiny_recipe
    from tiny_atlas import CONFIG, build_here, save_corpus, save_model

    own = folder / "tiny"
    own.mkdir()
    save_model(own / "model")
    save_corpus(own / "corpus")
    build_here(own, own / "atlas")
    Model(random_weights(CONFIG, 1, torch.float32)).save(folder / "wordless")
    run_recipe(read_recipe(tiny_recipe(folder)), folder / "training")
    return filled(folder, "tiny/model", "wordless", "training")


def filled(folder, *models, atlases=()):
    """A shelf as a studio has it that was started in a folder."""
    before = Path.cwd()
    os.chdir(folder)
    try:
        return fill(models, atlases)
    finally:
        os.chdir(before)


@dataclass
class Told:
    """An answer."""

    status: int = 0
    headers: list = field(default_factory=list)
    body: bytes = b""
    is_whole: bool = False
    """Whether it came to its end."""
    raised: BaseException | None = None

    def header(self, name):
        found = [value.decode("latin-1") for key, value in self.headers if key.decode("latin-1").lower() == name]
        assert len(found) <= 1, f"{name} twice"
        return found[0] if found else None

    @property
    def httpx(self):
        request = httpx.Request("GET", f"http://{HOST}/")
        response = httpx.Response(self.status, headers=self.headers, content=self.body, request=request)
        response.elapsed = timedelta(0)
        return response

    def json(self):
        return self.httpx.json()


class Studio:
    """An application with a loop of its own."""

    def __init__(self, shelf, desk=None):
        self.shelf = shelf
        self.door = Door(frozenset({HOST}), TOKEN, "headwater-8321")
        self.app = studio(shelf, self.door, desk)
        self.loop = asyncio.new_event_loop()
        self.thread = threading.Thread(target=self.loop.run_forever, daemon=True)
        self.thread.start()

    def close(self):
        self.loop.call_soon_threadsafe(self.loop.stop)
        self.thread.join()
        self.loop.close()

    def ask(self, target, method="GET", headers=None, body=(b"",), *, leave=None, signed=True):
        """An answer. ``headers`` are changes to those of somebody who is signed in, or as a list all of them. Whoever asks leaves after ``leave`` seconds."""
        return self.begin(target, method, headers, body, leave=leave, signed=signed).result(60)

    def begin(self, target, method="GET", headers=None, body=(b"",), *, leave=None, signed=True):
        """The same, not waited for."""
        sent = {"host": HOST, **({"authorization": f"Bearer {TOKEN}"} if signed else {})}
        if method not in ("GET", "HEAD"):
            sent["origin"] = ORIGIN
        lines = headers if isinstance(headers, list) else list({**sent, **(headers or {})}.items())
        asked = self._ask(method, target, lines, list(body), leave)
        return asyncio.run_coroutine_threadsafe(asked, self.loop)

    async def _ask(self, method, target, headers, body, leave):
        path, _, query = target.encode("latin-1").partition(b"?")
        scope = {
            "type": "http",
            "asgi": {"version": "3.0"},
            "http_version": "1.1",
            "method": method,
            "scheme": "http",
            "path": unquote(path.decode("latin-1")),
            "raw_path": path,
            "query_string": query,
            "root_path": "",
            "headers": [
                (name.lower().encode("latin-1"), value.encode("latin-1")) for name, value in headers if value is not None
            ],
            "server": ("127.0.0.1", 8321),
            "client": ("127.0.0.1", 50000),
        }
        told, over = Told(), asyncio.Event()

        async def receive():
            if body:
                piece = body.pop(0)
                return {"type": "http.request", "body": piece, "more_body": bool(body)}
            await over.wait()
            return {"type": "http.disconnect"}

        async def send(message):
            if message["type"] == "http.response.start":
                told.status, told.headers = message["status"], list(message["headers"])
                return
            told.body += message.get("body", b"")
            told.is_whole = not message.get("more_body", False)
            if told.is_whole:
                over.set()

        task = asyncio.ensure_future(self.app(scope, receive, send))
        await asyncio.wait([task], timeout=leave)
        over.set()
        _, running = await asyncio.wait([task], timeout=60)
        assert not running, f"{method} {target[:200]} goes on after whoever asked has left"
        told.raised = task.exception()
        return told


def operations():
    """Every route of the description: method, path, parameters, what it answers with."""
    described = describe().openapi()
    return [
        (method.upper(), path, asked.get("parameters", []), asked)
        for path, methods in described["paths"].items()
        for method, asked in methods.items()
    ]


def is_endless(asked):
    """Whether a route answers with events for as long as somebody listens."""
    return "text/event-stream" in asked["responses"].get("200", {}).get("content", {})


USUAL = {
    "model": "tiny",
    "atlas": "tiny",
    "training": "training",
    "text": "line 7",
    "head": "L0H0",
    "token": "e",
    "kind": "model",
    "name": "tiny",
    "other": "tiny",
    "source": "e",
    "dest": "e",
    "out": "e",
}
"""Values by which a route is likely to have something to tell."""


def good(parameter):
    """A value of a parameter as it may be; None where it may be left out."""
    schema = parameter["schema"]
    schema = next((each for each in schema.get("anyOf", [schema]) if each.get("type") != "null"), schema)
    if "enum" in schema or "const" in schema:
        return schema.get("const") or schema["enum"][0]
    if parameter["name"] in USUAL and schema.get("type") == "string":
        return USUAL[parameter["name"]]
    if not parameter.get("required"):
        return None
    numbers = {"integer": str(max(0, schema.get("minimum", 0))), "number": str(schema.get("minimum", 0.5)), "boolean": "true"}
    return numbers.get(schema.get("type"), "L0H0" if "pattern" in schema else "a")


def target(path, parameters, changed=None):
    """The address of a route with usual values, apart from some."""
    values = {each["name"]: good(each) for each in parameters} | (changed or {})
    places = {each["name"] for each in parameters if each["in"] == "path"}
    filled_in = re.sub(r"\{(\w+)[^}]*\}", lambda found: quoted(values.get(found[1], "a") or "a"), path)
    query = "&".join(
        f"{quoted(name)}={quoted(value)}" for name, value in values.items() if name not in places and value is not None
    )
    return f"{filled_in}?{query}" if query else filled_in


def quoted(value):
    """In an address; bytes as they are."""
    return value.decode("latin-1") if isinstance(value, bytes) else quote(value, safe="", errors="surrogatepass")
