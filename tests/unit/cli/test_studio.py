"""``headwater studio``: what it refuses before it listens."""

import pytest

from headwater.errors import InputError
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
