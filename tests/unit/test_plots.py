import math

import pytest

from headwater.errors import InputError
from headwater.show.plots import MOST_TICKS, _draw, check_plot, draw
from headwater.show.values import Cloud, Disc, Line, Panel

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


CLOUD = Cloud(
    title="points",
    points=(12_345.0 + 1j, -3.0 + 0j, 5_000 - 7_000j),
    discs=(Disc("random over tokens", 800.0), Disc("random in the stream", 2_000.0)),
)


@pytest.fixture
def drawn():
    """The axes that a picture is drawn on, laid out."""
    from matplotlib.backends.backend_agg import FigureCanvasAgg
    from matplotlib.figure import Figure

    def run(picture):
        figure = Figure(figsize=(4.8, 3.6), layout="constrained")
        FigureCanvasAgg(figure)
        axes = figure.add_subplot()
        _draw(axes, picture)
        figure.draw_without_rendering()
        return axes

    return run


def test_a_cloud_shows_both_discs_with_dashes_and_names_of_their_own(drawn):
    axes = drawn(CLOUD)
    assert [disc.get_radius() for disc in axes.patches] == [800.0, 2_000.0]
    assert len({disc.get_linestyle() for disc in axes.patches}) == 2
    labels = [text.get_text() for text in axes.get_legend().get_texts()]
    assert labels == ["random over tokens", "random in the stream", "real part ≥ 0", "real part < 0"]


def test_a_cloud_has_few_ticks(drawn):
    axes = drawn(CLOUD)
    for ticks, (low, high) in ((axes.get_xticks(), axes.get_xlim()), (axes.get_yticks(), axes.get_ylim())):
        assert 2 <= sum(low <= tick <= high for tick in ticks) <= MOST_TICKS


def test_a_cloud_of_nothing_can_be_drawn(drawn):
    assert drawn(Cloud(title="none", points=(0j,), discs=(Disc("random", 0.0),))).get_xlim()[1] > 0


@pytest.mark.parametrize("picture", [CLOUD, PANEL], ids=["cloud", "panel"])
def test_names_do_not_stand_over_points(drawn, picture):
    axes = drawn(picture)
    assert not axes.get_legend().get_window_extent().overlaps(axes.get_window_extent())


def test_whole_numbers_get_whole_ticks(drawn):
    line = Line(label="values", x=(1.0, 2.0, 3.0), y=(3.0, 2.0, 1.0))
    axes = drawn(Panel(title="spectrum", x="direction", y="value", lines=(line,)))
    assert all(float(tick).is_integer() for tick in axes.get_xticks())


@pytest.mark.parametrize("name", ["curves", "curves.jpg", "curves.svg.gz", "nowhere/curves.svg"])
def test_a_place_that_no_plot_fits_is_refused(name, tmp_path):
    with pytest.raises(InputError, match="--plot"):
        check_plot(tmp_path / name)
