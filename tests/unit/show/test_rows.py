import math
import unicodedata

import pytest
from hypothesis import given
from hypothesis import strategies as st

from headwater.show.rows import Measure, legible, rows_of
from headwater.show.values import Branch, Tree

LEAF = Branch(label="leaf", value=1.0)
TREE = Tree(title="", root=Branch(label="all", value=2.0, branches=(Branch(label="one", value=1.0, branches=(LEAF,)), LEAF)))


@given(st.text() | st.text(st.characters(categories=["Cc", "Cf", "Cs", "Co", "Zl", "Zp"])))
def test_everything_in_a_legible_text_can_be_seen_and_written(text):
    shown = legible(text)
    shown.encode()
    assert all(unicodedata.category(letter)[0] not in "CZ" or letter in " \u2068\u2069" for letter in shown)
    assert legible(shown) == shown
    assert len(shown.splitlines()) <= 1


def test_rows_come_from_the_top_and_know_where_they_stand():
    rows = rows_of(TREE)
    assert [(row.label, row.depth, row.lasts, row.is_open) for row in rows] == [
        ("all", 0, (), True),
        ("one", 1, (False,), True),
        ("leaf", 2, (False, True), False),
        ("leaf", 1, (True,), False),
    ]


@pytest.mark.parametrize(
    ("reach", "value", "number"),
    [
        (4.0, -0.001, "+0.00"),
        (123.456, 123.456, "+123.46"),
        (0.5, -0.25, "-0.250"),
        (0.0123, 0.001, "+0.0010"),
        (3e-7, -1e-7, "-1.00e-07"),
        (2e9, 2e9, "+2.00e+09"),
        (0.0, -0.0, "+0.00"),
        (1.0, math.nan, "+nan"),
    ],
)
def test_a_number_has_a_sign_and_enough_digits(reach, value, number):
    assert Measure(reach).number(value) == number


@given(st.lists(st.floats(), min_size=1))
def test_no_bar_is_longer_than_its_room_and_each_is_on_the_side_of_its_sign(values):
    measure = Measure.of(values)
    for value in values:
        share = measure.share(value)
        assert -1 <= share <= 1
        assert share * value >= 0 or not math.isfinite(value)
