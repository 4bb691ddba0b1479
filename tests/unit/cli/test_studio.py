"""``headwater studio``: what it refuses before it listens, and how it ends; and the demo, which asks one for a picture."""

import threading

import pytest

from headwater.cli import demo
from headwater.errors import HeadwaterError, InputError
from headwater.studio.serve import SHORTEST, Place

pytestmark = pytest.mark.studio

LONG = "x" * SHORTEST


@pytest.mark.parametrize(
    ("arguments", "token", "said"),
    [
        (["no-such-model"], None, "no-such-model"),
        (["/etc/passwd"], None, "/etc/passwd"),
        (["one-layer", "--atlas", "nowhere"], None, "--atlas nowhere"),
        (["one-layer", "--host", "0.0.0.0"], None, "HEADWATER_TOKEN"),
        (["one-layer", "--host", "::"], None, "HEADWATER_TOKEN"),
        (["one-layer", "--host", ""], None, "HEADWATER_TOKEN"),
        (["one-layer", "--host", "192.0.2.1"], None, "HEADWATER_TOKEN"),
        (["one-layer", "--host", "localhost.evil.example"], None, "HEADWATER_TOKEN"),
        (["one-layer", "--host", "192.0.2.1"], LONG, "--host 192.0.2.1"),
        (["one-layer"], "short", "a token of 5 letters"),
        (["one-layer"], "", "a token of 0 letters"),
        (["one-layer"], LONG + " ", "without a blank"),
        (["one-layer"], "é" * SHORTEST, "without a blank"),
        (["one-layer", "--port", "65536"], None, "--port 65536"),
        (["one-layer", "--port", "-1"], None, "--port -1"),
        (["one-layer", "--port", "http"], None, "http"),
        (["one-layer", "--port", "1.5"], None, "whole"),
        (["one-layer", "--name", "http://lab.example/"], None, "--name"),
        (["one-layer", "--name", "*"], None, "--name"),
        (["one-layer", "--nonsense"], None, "nonsense"),
    ],
)
def test_what_cannot_be_served_is_refused_at_once(headwater, monkeypatch, tmp_path, arguments, token, said):
    monkeypatch.chdir(tmp_path)
    monkeypatch.delenv("HEADWATER_TOKEN", raising=False)
    if token is not None:
        monkeypatch.setenv("HEADWATER_TOKEN", token)
    result = headwater("studio", *arguments, "--no-browser")
    assert result.returncode == 2
    assert said in result.stderr
    assert token is None or not token or token not in result.stderr + result.stdout
    assert "Traceback" not in result.stderr


@pytest.mark.parametrize("host", ["127.0.0.1", "127.8.9.1", "::1", "localhost"])
def test_this_machines_own_addresses_need_no_token(host):
    assert Place(host=host).token is None


def test_an_address_that_others_reach_takes_a_token_of_ones_own(monkeypatch):
    assert Place(host="0.0.0.0", token=LONG).token == LONG
    with pytest.raises(InputError, match="others can reach"):
        Place(host="0.0.0.0")


def test_a_name_that_leads_elsewhere_is_found_out_when_it_is_bound(monkeypatch):
    """``localhost`` is what a table says it is."""
    from headwater.studio import serve

    class Elsewhere:
        def __init__(self, *_):
            self.is_closed = False

        def setsockopt(self, *_):
            pass

        bind = listen = setsockopt

        def getsockname(self):
            return ("192.0.2.1", 8321)

        def close(self):
            self.is_closed = True

    monkeypatch.setattr(serve.socket, "socket", Elsewhere)
    with pytest.raises(InputError, match="others can reach"):
        serve._bound(Place(host="localhost"))


@pytest.mark.parametrize(
    ("host", "port", "written"),
    [("127.0.0.1", 8321, "127.0.0.1"), ("::1", 8321, "[::1]"), ("::", 8321, "[::1]"), ("lab", 80, "lab")],
)
def test_an_address_is_written_as_browsers_write_it(host, port, written):
    from headwater.studio.serve import _endings, _written

    assert _written(host) == written
    assert ("" in _endings(port)) == (port == 80)


def served(monkeypatch, tmp_path, ready):
    """What becomes of a studio whose address is told to ``ready``; it ends by itself, or the test fails."""
    from headwater.studio.serve import serve
    from headwater.studio.shelf import fill

    monkeypatch.chdir(tmp_path)
    found = []

    def start():
        try:
            serve(fill(["zero-layer"]), Place(port=0), ready, browse=False)
            found.append(None)
        except Exception as error:  # noqa: BLE001  (whatever it is)
            found.append(error)

    thread = threading.Thread(target=start, daemon=True)
    thread.start()
    thread.join(60)
    assert found, "it goes on for ever"
    return found[0]


def test_a_studio_whose_listener_fails_ends_and_says_why(monkeypatch, tmp_path):
    wrong = OSError("nobody answers")

    def ready(address):
        raise wrong

    assert served(monkeypatch, tmp_path, ready) is wrong
    assert served(monkeypatch, tmp_path, lambda address: False) is None


def test_the_demos_picture_is_asked_for_with_patience_that_ends(monkeypatch, tmp_path):
    """Of a model that is not there: the studio refuses, and the demo does not take that for an answer."""
    monkeypatch.setattr(demo, "NAME", "nobody")
    found = served(monkeypatch, tmp_path, demo._first_picture)
    assert isinstance(found, HeadwaterError)
    assert "404" in found.given


@pytest.mark.parametrize(("pictures", "passes"), [([], False), ([True], True), ([False], False)])
def test_the_demo_passes_only_where_the_first_picture_was_looked_at(monkeypatch, tmp_path, pictures, passes):
    def serve(shelf, place, ready, *, browse):
        assert not browse
        for _ in pictures:
            assert not ready("http://127.0.0.1:8321/?token=x"), "it is ended again"

    monkeypatch.chdir(tmp_path)
    monkeypatch.setattr("headwater.studio.serve.serve", serve)
    monkeypatch.setattr(demo, "_first_picture", lambda address: pictures[0])
    assert demo._studio(browser=False) is passes
