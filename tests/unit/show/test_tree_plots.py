import io
from xml.etree import ElementTree

import pytest
from hypothesis import example, given, settings

from headwater.errors import InputError
from headwater.show import plots
from headwater.show.plots import check_plot, draw, drawing
from headwater.show.rows import legible
from headwater.show.tree_plots import LINE, MINUS, MOST_OF_A_LABEL, PLUS, draw_tree, layout
from headwater.show.values import Branch, Line, Panel, Tree
from shown import HOSTILE, flat, one_of_each_kind, words

TREE = one_of_each_kind()
PANEL = Panel(title="norms", x="stage", y="norm", lines=(Line(label="‘one’", x=(0.0, 1.0), y=(1.0, 2.0)),))


def texts(data):
    return [element.text or "" for element in ElementTree.fromstring(data).iter("{http://www.w3.org/2000/svg}text")]


@pytest.fixture
def drawn():
    from matplotlib.backends.backend_agg import FigureCanvasAgg
    from matplotlib.figure import Figure

    def run(tree):
        plan = layout(tree)
        figure = Figure(figsize=(plan.width, plan.height))
        FigureCanvasAgg(figure)
        axes = figure.add_axes((0, 0, 1, 1))
        draw_tree(axes, tree)
        figure.draw_without_rendering()
        return axes

    return run


def test_a_drawing_of_a_tree_says_everything_in_words():
    found = texts(drawing([TREE]))
    assert found[0] == "Why ‘ three’"
    assert found[-1] == "Adds up within 4.8e-07."
    for word in ("‘ three’", "L0H3", "‘one’@0", "5 smaller parts", "+3.25", "−0.50", "41 %", "none above 0.1"):
        assert word in found


@given(words)
@example(list(HOSTILE))
@settings(max_examples=15)
def test_any_words_make_a_drawing_that_says_them(labels):
    found = texts(drawing([flat(labels)]))
    assert {legible(label) for label in labels if label.strip()} <= set(found)


def test_bars_are_as_long_as_their_numbers_on_the_side_of_their_sign(drawn):
    from matplotlib.colors import to_hex

    bars = drawn(TREE).patches
    assert [round(bar.get_width() / bars[0].get_width() * 3.25, 6) for bar in bars] == [3.25, 1.5, 1.75, -0.5, 0.25, 2.0, -0.25]
    assert len({bar.get_x() for bar in bars}) == 1
    assert [to_hex(bar.get_edgecolor()) for bar in bars] == [PLUS if bar.get_width() > 0 else MINUS for bar in bars]
    assert [bool(bar.get_hatch()) for bar in bars] == [False, False, False, False, True, False, True]
    assert [bar.get_facecolor()[3] for bar in bars] == [0, 0, 1, 1, 0, 1, 0]


@pytest.mark.filterwarnings("ignore:Glyph")
@pytest.mark.parametrize("label", ["W" * MOST_OF_A_LABEL, "三" * 40, "i", "x" * 5000], ids=["wide", "eastern", "short", "long"])
def test_words_stand_beside_each_other_and_inside_the_drawing(drawn, label):
    root = Branch(label=label, value=-12345.0, note=label, branches=(Branch(label=label, value=-12345.0),))
    axes = drawn(Tree(title="A long title of many words " * 8, root=root, remarks=("and so on " * 40,)))
    boxes = [text.get_window_extent() for text in axes.texts if text.get_text()]
    page = axes.get_window_extent()
    bars = [bar.get_window_extent() for bar in axes.patches]
    assert all(page.x0 <= box.x0 and box.x1 <= page.x1 and page.y0 <= box.y0 and box.y1 <= page.y1 for box in boxes)
    assert not any(one.overlaps(other) for number, one in enumerate(boxes) for other in [*boxes[:number], *bars])


def test_a_drawing_grows_with_its_rows():
    many = (Branch(label="x", value=1.0),) * 100
    one, tall = (
        layout(Tree(title="", root=root)).height for root in (many[0], Branch(label="all", value=100.0, branches=many))
    )
    assert tall - one == pytest.approx(100 * LINE)


def test_a_png_that_would_have_too_many_pixels_is_coarser(monkeypatch):
    from matplotlib.image import imread

    monkeypatch.setattr(plots, "MOST_PIXELS", 300)
    assert max(imread(io.BytesIO(drawing([TREE], "png"))).shape) == 300


@pytest.mark.parametrize(("suffix", "begin"), [("svg", b"<?xml"), ("png", b"\x89PNG"), ("pdf", b"%PDF")])
def test_trees_and_curves_share_a_file_and_the_same_ones_give_the_same_bytes(suffix, begin, tmp_path):
    one, other = tmp_path / f"one.{suffix}", tmp_path / f"other.{suffix}"
    for path in (one, other):
        draw([PANEL, flat(["三 $x$"]), TREE], path)
    assert one.read_bytes().startswith(begin)
    assert one.read_bytes() == other.read_bytes()


def test_a_tree_of_one_number_without_words_can_be_drawn():
    assert texts(drawing([Tree(title="", root=Branch(label="", value=0.0))])) == ["+0.00"]


def test_the_option_that_named_a_place_is_in_the_refusal(tmp_path):
    with pytest.raises(InputError, match=r"--svg tree\.txt"):
        check_plot(tmp_path / "tree.txt", "--svg")


def test_a_png_is_on_white_and_a_clear_one_on_nothing():
    from matplotlib.image import imread

    corner = [imread(io.BytesIO(drawing([TREE], "png", is_clear=clear)))[0, 0, 3] for clear in (False, True)]
    assert corner == [1.0, 0.0]
