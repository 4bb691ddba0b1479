import pytest

from headwater.cli.pictures import check_pictures, write_pictures
from headwater.errors import InputError
from headwater.show.values import Table
from shown import one_of_each_kind

TREE = one_of_each_kind()
TABLE = Table(title="tokens", columns=("token",), rows=(("‘ three’",),))


def test_a_page_has_tables_and_trees_and_a_drawing_the_trees(tmp_path, capsys):
    write_pictures([TREE, TABLE], "Why", html=tmp_path / "why.html", svg=tmp_path / "why.svg", remarks=["said below"])
    page, drawing = (tmp_path / "why.html").read_text(), (tmp_path / "why.svg").read_text()
    for word in ("<title>Why</title>", "L0H3", "tokens", "said below"):
        assert word in page
    assert "L0H3" in drawing
    assert "tokens" not in drawing
    told = capsys.readouterr()
    assert told.out == ""
    assert told.err.count("written to") == 2


def test_nothing_is_written_where_nothing_is_wanted(tmp_path, capsys):
    write_pictures([TREE], "Why")
    assert not list(tmp_path.iterdir())
    assert capsys.readouterr().err == ""


def test_nothing_is_written_when_one_of_the_places_is_wrong(tmp_path):
    with pytest.raises(InputError, match="--svg"):
        write_pictures([TREE], "Why", html=tmp_path / "why.html", svg=tmp_path / "why.html")
    with pytest.raises(InputError, match="something to draw"):
        write_pictures([TABLE], "Why", html=tmp_path / "why.html", svg=tmp_path / "why.svg")
    assert not list(tmp_path.iterdir())


def test_places_are_checked_before_the_work(tmp_path):
    check_pictures(None, None)
    check_pictures(tmp_path / "why.html", tmp_path / "why.svg")
    with pytest.raises(InputError, match="--html"):
        check_pictures(tmp_path / "why.svg", None)
