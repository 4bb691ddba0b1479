"""The lines beside an answer, whatever the text: they run, say nothing but that text to Python and to a shell, and print the numbers of the answer."""

import json
import shlex
import subprocess
import sys
from contextlib import redirect_stdout
from io import StringIO

import pytest
import torch
from starlette.testclient import TestClient

import headwater as hw
from headwater.studio.app import studio
from headwater.studio.guard import Door
from headwater.studio.lines import command, path_in_shell, recorded, text_in_python, text_in_shell
from headwater.studio.shelf import fill
from headwater.text.tokenizer import byte_tokenizer
from strategies import random_weights

TEXTS = [
    "plain words",
    "it's \"quoted\" `id` $(id) ${HOME} $HOME \\ \\' !! ~ * ; & | > <",
    "'; touch here; '",
    "two\nlines\n",
    "-",
    "--help",
    "-x = 1",
    "a\0b",
    "\ttab\r\n",
    "\x1b[201~; touch here\n",
    "\u202eturned round, a no\xa0break",
    "ação 😀",
    "ids:1, 07 3",
    "id:1,2",
]


@pytest.fixture(scope="module")
def folder(tmp_path_factory):
    """A model that speaks in bytes, in a folder whose name is one to beware of."""
    place = tmp_path_factory.mktemp("models")
    config = hw.ModelConfig(vocab=256, context=256, d_model=8, layers=1, attention=hw.Attention(heads=2, d_head=4))
    hw.Model(random_weights(config, 0, torch.float32), byte_tokenizer()).save(place / "-it's `id`\n$(id)")
    return place


@pytest.fixture(scope="module")
def name(folder):
    return next(folder.iterdir()).name


@pytest.fixture(scope="module")
def model(folder, name):
    return hw.load(folder / name)


def run_of(model, text):
    return model.record([1, 7, 3] if text.startswith("ids:") else text)


@pytest.mark.parametrize("text", TEXTS, ids=ascii)
def test_a_text_is_itself_in_python_and_in_a_shell(model, name, text, tmp_path):
    run = run_of(model, text)
    ids = run.tokens[0].tolist()
    assert eval(text_in_python(text, run)) == (ids if text.startswith("ids:") else text)
    words = f"printf '%s\\0' {path_in_shell(name)} {text_in_shell(text, run)} end"
    said = subprocess.run(["sh", "-c", words], capture_output=True, check=True, cwd=tmp_path).stdout.decode().split("\0")
    given = ["--ids", ",".join(map(str, ids))] if said[1] == "--ids" else [text]
    assert said == [f"./{name}", *given, "end", ""]
    assert not list(tmp_path.iterdir()), "nothing else was done"
    # What a terminal would take for something to do never stands in a line.
    assert words.replace(path_in_shell(name), "").isprintable()
    assert not text.startswith(("-", "ids:")) or said[1] == "--ids"


@pytest.mark.parametrize("text", TEXTS, ids=ascii)
def test_what_is_recorded_is_the_same_run(model, name, text, folder, monkeypatch, headwater):
    monkeypatch.chdir(folder)
    run = run_of(model, text)
    again = eval(recorded(name, text, run), {"hw": hw})
    assert torch.equal(again.tokens, run.tokens)
    told = headwater(*shlex.split(command("explain", name, text, run, "--token '#5' --json"))[1:])
    assert json.loads(told.stdout)["value"] == run.explain(token=5).value


ROUTES = {
    "/api/river": {},
    "/api/attention": {},
    "/api/attention/why": {"head": "L0H1"},
    "/api/stream": {},
    "/api/documents/lookup": {"head": "L0H1"},
    "/api/documents/combination": {"head": "L0H1"},
    "/api/documents/block": {},
    "/api/documents/overview": {},
}


@pytest.fixture(scope="module")
def client(folder, name):
    # As somebody types it who has started the studio there.
    with pytest.MonkeyPatch.context() as patch:
        patch.chdir(folder)
        shelf = fill([name])
    door = Door(hosts=frozenset({"127.0.0.1:8000"}), token="secret", cookie="lines")
    return TestClient(studio(shelf, door), base_url="http://127.0.0.1:8000", headers={"authorization": "Bearer secret"})


@pytest.mark.parametrize("route", ROUTES)
def test_every_screen_tells_lines_that_run(client, route, folder, monkeypatch, headwater):
    monkeypatch.chdir(folder)
    (model,) = client.get("/api/shelf").json()["models"]
    for text in ("it's `id`\n$(id)", "-x\0"):
        answer = client.get(route, params={"model": model["id"], "text": text, **ROUTES[route]})
        assert answer.status_code == 200, answer.text
        lines, said = answer.json()["lines"], StringIO()
        with redirect_stdout(said):
            exec(lines["python"], {})
        assert said.getvalue()
        told = headwater(*shlex.split(lines["shell"])[1:])
        assert told.returncode == 0, told.stderr
        assert json.loads(told.stdout)


def test_a_shell_runs_one_command_and_nothing_else(client, folder, name):
    (model,) = client.get("/api/shelf").json()["models"]
    answer = client.get("/api/river", params={"model": model["id"], "text": "it's `touch here` $(touch here)"}).json()
    line = f"headwater() {{ '{sys.executable}' -m headwater \"$@\"; }}\n{answer['lines']['shell']}"
    told = subprocess.run(["sh", "-c", line], capture_output=True, text=True, check=True, cwd=folder)
    assert json.loads(told.stdout)["value"] == answer["value"]
    assert [each.name for each in folder.iterdir()] == [name]
