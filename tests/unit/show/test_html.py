import math
import re
from dataclasses import replace
from html.parser import HTMLParser

import pytest
from hypothesis import given

from headwater.errors import InputError
from headwater.show.html import MOST_CELLS, check_page, fragment, page, write_page
from headwater.show.rows import legible
from headwater.show.values import Branch, Cloud, Disc, Grid, Line, Panel, Table, Tree
from shown import HOSTILE, flat, one_of_each_kind, words

TREE = one_of_each_kind()
TABLE = Table(title="tokens", columns=("token", "logit#"), rows=(("‘ three’", "12.31"), ("<b>", "-1.20")))
PANEL = Panel(title="a <panel>", x="stage", y="norm", lines=(Line(label="‘$one$’", x=(0.0, 1.0), y=(1.0, 2.0)),))
CLOUD = Cloud(title="points", points=(1 + 1j,), discs=(Disc("random", 1.0),))
VOID = {"meta", "br"}


def grid(count, title="scores"):
    names = tuple(f"‘{number}’" for number in range(count))
    values = tuple(tuple(math.sin(row - 2 * column) for column in range(count)) for row in range(count))
    return Grid(title=title, rows=names, columns=names, values=values, x="source", y="destination", middle=0.0, reach=1.0)


class Read(HTMLParser):
    """What a browser sees: tags in the order of the text, what is in attributes, and text by the class around it."""

    def __init__(self, text):
        super().__init__()
        self.tags, self.attributes, self.within, self.stack, self.styles = [], [], [], [], []
        self.feed(text)
        self.close()
        assert not self.stack, "a tag is left open"

    def handle_starttag(self, tag, attrs):
        self.tags.append(tag)
        self.attributes += attrs
        if tag not in VOID:
            self.stack.append((tag, dict(attrs).get("class") or ""))
        self.within.append([tag, dict(attrs), ""])

    def handle_startendtag(self, tag, attrs):
        self.tags.append(tag)
        self.attributes += attrs

    def handle_endtag(self, tag):
        assert self.stack.pop()[0] == tag

    def handle_data(self, data):
        if self.stack and self.stack[-1][0] == "style":
            self.styles.append(data)
        elif self.within:
            self.within[-1][2] += data

    def texts(self, name):
        """The text of each element of a class, as far as its first inner element holds it."""
        return [
            self.within[number + 1][2] if self.within[number + 1 :][:1] and self.within[number + 1][0] == "bdi" else text
            for number, (_, attrs, text) in enumerate(self.within)
            if attrs.get("class") == name
        ]


KNOWN = {
    "html",
    "head",
    "meta",
    "title",
    "style",
    "body",
    "main",
    "h1",
    "div",
    "figure",
    "figcaption",
    "details",
    "summary",
    "span",
    "i",
    "bdi",
    "p",
    "br",
}


@pytest.mark.parametrize("write", [lambda tree: page(tree.title, [tree]), fragment], ids=["page", "fragment"])
def test_hostile_words_are_shown_as_words(write):
    read = Read(write(flat(list(HOSTILE))))
    assert set(read.tags) <= KNOWN
    assert read.texts("hw-label") == [legible(label) for label in (HOSTILE[0], *HOSTILE)]
    assert [note.removesuffix("\n") for note in read.texts("hw-note")[1:-1]] == [legible(label) for label in HOSTILE[:-1]]
    assert not any(name.startswith("on") for name, _ in read.attributes)


@given(words)
def test_any_words_make_a_page_that_says_them(labels):
    table = Table(title=labels[0], columns=(labels[-1],), rows=tuple((label,) for label in labels))
    names = tuple(labels)
    square = Grid(
        title="", rows=names, columns=names, values=((0.5,) * len(names),) * len(names), x="", y="", middle=0.0, reach=1.0
    )
    read = Read(page(labels[0], [flat(labels), table, square], labels))
    assert set(read.tags) <= KNOWN | {"table", "caption", "thead", "tbody", "tr", "th", "td"}
    assert read.texts("hw-label") == [legible(label) for label in (labels[0], *labels)]


@pytest.mark.parametrize("sections", [[TREE, TABLE, grid(4), PANEL, CLOUD], [grid(1 + math.isqrt(MOST_CELLS))]])
def test_a_page_needs_nothing_from_elsewhere_and_runs_nothing(sections):
    text = page("all", sections)
    read = Read(text)
    assert not {"script", "link", "iframe", "object", "base", "form"} & set(read.tags)
    for name, value in read.attributes:
        if name in ("src", "href", "xlink:href"):
            assert value.startswith(("#", "data:"))
    assert not re.search(r"@import|url\((?!#)|@font-face", text)
    assert "default-src 'none'" in text


@pytest.mark.parametrize("section", [TREE, TABLE, grid(4), PANEL, CLOUD], ids=lambda section: type(section).__name__)
def test_no_rule_of_a_fragment_reaches_beyond_it(section):
    read = Read(fragment(section))
    assert len(read.styles) == 1
    style = re.sub(r"@container[^{]*\{(.*?\})\s*\}", r"\1", read.styles[0], flags=re.DOTALL)
    selectors = [part.strip() for rule in re.findall(r"([^{}]+)\{", style) for part in rule.split(",")]
    assert len(selectors) > 20
    assert all(selector.startswith(".headwater") for selector in selectors)
    assert not [value for name, value in read.attributes if name == "id" and value.startswith(("figure", "axes", "text"))]


def test_a_tree_shows_its_numbers_with_signs_and_bars_on_their_sides():
    text = fragment(TREE)
    read = Read(text)
    assert read.texts("hw-number") == ["+3.25", "+1.50", "+1.75", "−0.50", "+0.25", "+2.00", "−0.25"]
    bars = re.findall(r'<i class="hw-(plus|minus)" style="width:([\d.]+)%">', text)
    assert bars[0] == ("plus", "50.00")
    assert [side for side, _ in bars] == ["plus", "plus", "plus", "minus", "plus", "plus", "minus"]
    assert [float(width) for _, width in bars] == pytest.approx(
        [50 * abs(value) / 3.25 for value in (3.25, 1.5, 1.75, 0.5, 0.25, 2, 0.25)], abs=0.01
    )
    assert text.count("hw-row hw-remainder") == 2


def test_the_first_levels_of_a_tree_are_open_and_the_others_closed():
    deep = Branch(label="x", value=1.0)
    for _ in range(4):
        deep = Branch(label="x", value=1.0, branches=(deep,))
    assert re.findall("<details( open)?>", fragment(Tree(title="", root=deep))) == [" open", " open", "", ""]


def test_numbers_of_a_table_stand_to_the_right():
    text = fragment(TABLE)
    assert text.count('class="hw-right"') == 3
    assert '<td class="hw-right"><bdi>12.31</bdi></td>' in text
    assert ">logit#<" not in text


def test_a_cell_of_a_grid_says_its_row_column_and_value_and_on_which_side_it_is():
    values = ((0.5, -0.25), (math.nan, 0.0))
    text = fragment(replace(grid(2), values=values))
    assert '<td style="--away:40%" title="‘0’, ‘0’: 0.5">0.50</td>' in text
    assert '<td class="hw-below" style="--away:20%" title="‘0’, ‘1’: -0.25">−0.25</td>' in text
    assert 'title="‘1’, ‘0’: none"></td>' in text


def test_a_grid_that_is_too_large_for_cells_is_one_image():
    read = Read(fragment(grid(1 + math.isqrt(MOST_CELLS))))
    assert "td" not in read.tags
    assert {"svg", "image"} <= set(read.tags)


def test_a_drawing_takes_the_colour_of_the_words_around_it():
    text = fragment(PANEL)
    assert "currentColor" in text[text.index("<svg") :]
    assert "#000000" not in text
    assert "a &lt;panel&gt;" in text
    assert "‘$one$’" in text


def test_what_a_page_is_called_is_said_once():
    read = Read(page(TREE.title, [TREE]))
    assert "figcaption" not in read.tags
    assert "figcaption" in Read(page("another title", [TREE])).tags


def test_the_same_answer_is_the_same_page():
    assert page("x", [TREE, PANEL]) == page("x", [TREE, PANEL])


def test_a_page_is_written_whole_and_nothing_else(tmp_path):
    write_page(tmp_path / "page.html", "‘\ud800’", [TREE])
    assert (tmp_path / "page.html").read_text().endswith("</html>\n")
    assert len(list(tmp_path.iterdir())) == 1


@pytest.mark.parametrize("name", ["page", "page.svg", "nowhere/page.html", "folder.html"])
def test_a_place_that_no_page_fits_is_refused(name, tmp_path):
    (tmp_path / "folder.html").mkdir()
    with pytest.raises(InputError, match="--html"):
        check_page(tmp_path / name)
