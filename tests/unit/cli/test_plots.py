import math

import pytest

from headwater.cli.plots import check_plot, draw
from headwater.errors import InputError
from headwater.train.studies.result import Line, Panel

LINES = (
    Line(label="falling", x=(1.0, 10.0, 100.0), y=(1.0, 0.1, 0.0)),
    Line(label="rising", x=(1.0, 10.0, 100.0), y=(1.0, math.inf, 3.0)),
    Line(label="a bound", x=(1.0, 100.0), y=(0.5, 0.5), kind="bound"),
)
PANEL = Panel(title="One <&> two", x="step", y="nats", lines=LINES, x_scale="log", y_scale="log")


@pytest.mark.parametrize(("suffix", "begin"), [("svg", b"<?xml"), ("png", b"\x89PNG"), ("PDF", b"%PDF")])
def test_curves_are_written_in_the_format_of_the_name_and_the_same_ones_to_the_same_bytes(suffix, begin, tmp_path):
    one, other = tmp_path / f"one.{suffix}", tmp_path / f"other.{suffix}"
    for path in (one, other):
        draw([PANEL], path)
    assert one.read_bytes().startswith(begin)
    assert one.read_bytes() == other.read_bytes()
    assert sorted(tmp_path.iterdir()) == [one, other]


def test_the_words_of_a_panel_are_in_the_picture(tmp_path, monkeypatch):
    import matplotlib as mpl

    monkeypatch.setitem(mpl.rcParams, "svg.fonttype", "none")
    draw([PANEL] * 4, tmp_path / "curves.svg")
    text = (tmp_path / "curves.svg").read_text()
    for word in ("One &lt;&amp;&gt; two", "step", "nats", "falling", "rising", "a bound"):
        assert text.count(word) == 4


@pytest.mark.parametrize("name", ["curves", "curves.jpg", "curves.svg.gz", "nowhere/curves.svg"])
def test_a_place_that_no_plot_fits_is_refused(name, tmp_path):
    with pytest.raises(InputError, match="--plot"):
        check_plot(tmp_path / name)
