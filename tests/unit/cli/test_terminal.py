"""Tables for people at any width, what is told where, and the number of threads."""

import os
import subprocess
import sys

import pytest
import torch

from headwater.cli import terminal
from headwater.cli.terminal import say, show_table, use_cores, watched, working

PAIRS = ["‘ one’→‘␊       ’ +1.2  ‘ two’→‘ three words here’ −3.4  ‘ four’→‘ five’ +5.6"]


@pytest.fixture
def shown(capsys, monkeypatch):
    """The lines of a table where there is so much room."""

    def run(columns, rows, room, title=None):
        monkeypatch.setattr(terminal, "PIPED", room)
        show_table(columns, rows, title=title)
        return [line.rstrip() for line in capsys.readouterr().out.splitlines()]

    return run


def test_short_words_and_headers_never_fold_however_narrow_the_terminal_is(shown):
    row = ["L10H11", "anti-copying", "-0.12", "L10H11→L11H10.K 0.206"]
    lines = shown(["head", "verdict", "self-match#", "composes with"], [row], 20)
    assert lines == [
        "head    verdict       self-match  composes with",
        "L10H11  anti-copying       -0.12  L10H11→L11H10.K 0.206",
    ]


def test_a_table_comes_closer_together_before_it_folds(shown):
    row = ["a" * 20, "b" * 20]
    assert shown(["x", "y"], [row], 43)[1] == "a" * 20 + "   " + "b" * 20
    assert shown(["x", "y"], [row], 42)[1] == "a" * 20 + "  " + "b" * 20


def test_a_long_text_folds_between_words_and_the_table_fits(shown):
    lines = shown(["name", "text"], [["short", " ".join(["word"] * 40)]], 60)
    assert max(map(len, lines)) <= 60
    assert len(lines) > 3
    assert set(" ".join(lines[1:]).split()) == {"short", "word"}


@pytest.mark.parametrize("room", [40, 50, 60, 80])
def test_a_text_folds_between_pairs_and_never_inside_quotes(shown, room):
    whole = "\n".join(shown(["", "says"], [["L0H0", *PAIRS]], room))
    for piece in PAIRS[0].split("  ‘")[1:]:
        assert piece.split(" +")[0].split(" −")[0] in whole


def test_an_indented_line_keeps_its_indent_when_it_folds(shown):
    lines = shown(["", ""], [["it says", "for\n        # " + "words " * 20]], 60)
    assert lines[1].startswith(" " * 8 + " " * 10 + "# words")


def test_a_text_without_spaces_folds_where_it_must_and_nothing_is_lost(shown):
    lines = shown(["", "text"], [["L0H0", "x" * 100]], 50)
    assert sum(line.count("x") for line in lines[1:]) == 100


def test_a_title_does_not_fold_to_the_width_of_its_table(shown):
    title = "the largest entries, each row's mean taken out, and more words than there is room for"
    assert shown(["a"], [["1"]], 20, title)[0] == title


def test_names_of_two_lines_stand_over_their_numbers(shown):
    lines = shown(["", "measured#", "chance\nover tokens#"], [["score", "+0.1", "-0.2 … +0.2"]], 80)
    assert lines == ["                        chance", "        measured   over tokens", "score       +0.1   -0.2 … +0.2"]


def test_markup_in_a_cell_is_text(shown):
    assert "[bold]" in shown(["a"], [["[bold]"]], 80)[1]


def test_nothing_is_written_where_nobody_watches(capfd):
    with watched("heads") as tell, working("reading"):
        tell("L0H0", 0.5)
    assert capfd.readouterr() == ("", "")


def test_a_line_of_the_result_is_on_stdout_and_never_folded(capfd):
    say("given " + "words " * 100)
    told = capfd.readouterr()
    assert told.err == ""
    assert len(told.out.splitlines()) == 1


@pytest.mark.parametrize(
    ("ours", "openmp", "threads"),
    [("5", "3", 5), (None, "3", 3), (None, "3,1", 3), ("nonsense", "3", 3), (None, "0", None), (None, None, None)],
)
def test_threads_are_ours_then_openmps_then_one_for_each_core(monkeypatch, ours, openmp, threads):
    for name, value in (("HEADWATER_THREADS", ours), ("OMP_NUM_THREADS", openmp)):
        monkeypatch.delenv(name, raising=False)
        if value is not None:
            monkeypatch.setenv(name, value)
    before = torch.get_num_threads()
    try:
        use_cores()
        assert torch.get_num_threads() == (threads or len(os.sched_getaffinity(0)))
    finally:
        torch.set_num_threads(before)


@pytest.mark.parametrize("arguments", ["inspect two-layer", "inspect two-layer --json", "--help", "inspect --help"])
def test_a_reader_that_has_gone_ends_a_verb_with_141(arguments):
    # The reader ends before anything is written, or the whole text would fit into the pipe.
    command = f"{{ sleep 0.2; {sys.executable} -m headwater.cli.main {arguments}; echo $? >&2; }} | true"
    told = subprocess.run(["bash", "-c", command], capture_output=True, text=True, check=False)
    assert told.stderr == "141\n"
