"""Trees in the terminal: at any width, in pipes, and with any words."""

import io
import sys

import pytest
from hypothesis import HealthCheck, example, given, settings
from rich.cells import cell_len
from rich.console import Console

from headwater.cli import terminal, trees
from headwater.cli.trees import show_tree
from headwater.show.rows import legible
from headwater.show.text import LEAST, MOST
from headwater.show.values import Branch, Tree
from shown import HOSTILE, flat, one_of_each_kind, words


@pytest.fixture
def shown(monkeypatch):
    """The lines of a tree where there is so much room."""

    def run(tree, room=200):
        monkeypatch.setattr(terminal, "PIPED", room)
        written = io.StringIO()
        monkeypatch.setattr(sys, "stdout", written)
        show_tree(tree)
        return written.getvalue().splitlines()

    return run


def test_a_tree_has_guides_bars_around_one_line_and_numbers_in_one_column(shown):
    assert shown(one_of_each_kind(), 62) == [
        "Why ‘ three’",
        "‘ three’                      │━━━━━━━  +3.25",
        "├─ L0H3                       │━━━      +1.50",
        "│  ├─ ‘one’@0                 │████     +1.75  41 %",
        "│  ├─ ‘ two’@1               █│         -0.50",
        "│  └─ 5 smaller parts         │░        +0.25  none above 0.1",
        "├─ embedding ‘,’              │████▌    +2.00",
        "└─ 137 smaller parts         ░│         -0.25",
        "",
        "Adds up within 4.8e-07.",
    ]


@pytest.mark.parametrize("room", [80, 100, 200])
def test_a_tree_fits_the_terminal(shown, room):
    branch = Branch(label="‘ two’@1 → L0H3 → L1H1", value=-0.25, note="what is said beside it, which is rather long for a note")
    tree = Tree(title="", root=Branch(label="all", value=-1.0, branches=(branch,) * 4))
    lines = shown(tree, room)
    assert max(map(cell_len, lines)) <= room
    assert " ".join(" ".join(lines).split()).count("-0.25") == 4
    for word in branch.note.split():
        assert "\n".join(lines).count(word) >= 4


def test_bars_are_longer_where_there_is_room_and_never_vanish(shown):
    tree = Tree(title="", root=Branch(label="all", value=1000.0, branches=(Branch(label="a", value=-0.5),)))
    wide, narrow = shown(tree, 200), shown(tree, 20)
    assert wide[0].count("━") == MOST
    assert narrow[0].count("━") == LEAST
    assert "▐│" in wide[1]
    assert "▐│" in narrow[1]


def test_a_number_that_is_zero_or_none_has_no_bar(shown):
    tree = Tree(title="", root=Branch(label="all", value=float("nan"), branches=(Branch(label="a", value=-0.0),)))
    lines = shown(tree)
    assert [line.split()[-1] for line in lines] == ["+nan", "+0.00"]
    assert not any(set(line) & set("█▌▐━╸╺") for line in lines)


@given(words)
@example(list(HOSTILE))
@settings(suppress_health_check=[HealthCheck.function_scoped_fixture])
def test_any_words_are_said_on_one_line_each_and_nothing_is_out_of_line(shown, labels):
    tree = flat(labels)
    lines = shown(tree, 2000)
    rows = [line for line in lines if line][1 if legible(tree.title) else 0 :][: len(labels) + 1]
    assert len(lines) == len(labels) + 1 + bool(tree.title) + (1 + len(labels))
    for row, label in zip(rows, (labels[0], *labels), strict=True):
        assert legible(label).rstrip() in row
    assert "\x1b" not in "".join(lines)


@given(words)
@settings(suppress_health_check=[HealthCheck.function_scoped_fixture])
def test_zero_stands_in_one_column_whatever_the_words(shown, labels):
    parts = tuple(Branch(label=label, value=(-1.0) ** i * (i + 1)) for i, label in enumerate(labels))
    lines = shown(Tree(title="", root=Branch(label="all", value=1.0, branches=parts)), 100)
    assert len({cell_len(line[: line.rindex("│")]) for line in lines}) == 1


def test_signs_have_colours_in_a_terminal_that_has_them(monkeypatch):
    written = io.StringIO()
    monkeypatch.setattr(trees, "Screen", lambda **_: Console(file=written, force_terminal=True, color_system="256", width=80))
    show_tree(one_of_each_kind())
    plus, minus = "\x1b[38;5;32m", "\x1b[38;5;166m"
    for line in written.getvalue().splitlines()[1:8]:
        assert (plus in line) == ("+" in line)
        assert (minus in line) == ("-0" in line)
