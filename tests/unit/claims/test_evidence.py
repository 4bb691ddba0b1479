"""Verdicts follow from facts."""

import math

import pytest
from hypothesis import given
from hypothesis import strategies as st

from headwater.claims.evidence import (
    answered,
    beside,
    corrected,
    defined,
    drawn,
    found,
    outside,
    recalculated,
    reported,
    stated,
    verdict,
)

met, broken = {"within": 1.0}, {"within": 0.1}


@pytest.mark.parametrize(
    ("facts", "expected"),
    [
        ([stated("a", 0.5, **met)], "holds"),
        ([stated("a", 0.5, **met), outside("b", 0.5, **met)], "holds"),
        ([stated("a", 0.5, **met), outside("b", 0.5, **broken)], "conditions"),
        ([stated("a", 0.5, **met), outside("b", 0.5, **broken), outside("c", 0.5, **met)], "conditions"),
        ([stated("a", 0.5, **broken), corrected("b", 0.5, **met)], "false"),
        ([stated("a", 0.5, **met), stated("b", 0.5, **broken), corrected("c", 0.5, **met)], "false"),
        ([stated("a", 0.5, **broken)], "unsettled"),
        ([stated("a", 0.5, **broken), corrected("b", 0.5, **broken)], "unsettled"),
        ([stated("a", 0.5, **broken), outside("b", 0.5, **met)], "unsettled"),
        ([stated("a", 0.5, **met), corrected("b", 0.5, **broken)], "unsettled"),
        ([stated("a", 0.5, **met), outside("b", 0.5, **broken), corrected("c", 0.5, **met)], "conditions"),
        ([defined("a", 0.5, **met)], "definition"),
        ([defined("a", 0.5, **broken)], "unsettled"),
        ([defined("a", 0.5, **met), stated("b", 0.5, **broken)], "unsettled"),
        ([answered("a", 0.5, **met), answered("b", 0.5, **met)], "question"),
        ([answered("a", 0.5, **met), answered("b", 0.5, **broken)], "unsettled"),
        ([drawn("a", 0.5, **met)], "figure"),
        ([drawn("a", 0.5, **broken)], "unsettled"),
        ([reported("a", 0.5, above=0.2)], "empirical"),
        ([reported("a", 0.5, above=0.9)], "empirical"),
        ([reported("a", math.nan, above=0.9)], "unsettled"),
        ([reported("a", 0.5, above=0.2), stated("b", 0.5, **broken)], "unsettled"),
        ([beside("a", 0.5)], "unsettled"),
        ([], "unsettled"),
    ],
)
def test_the_verdict_follows_from_the_facts(facts, expected):
    assert verdict(facts) == expected


@given(st.floats(allow_nan=True), st.floats(-1e6, 1e6))
def test_a_fact_passes_where_its_number_is_on_the_right_side(measured, bound):
    finite = math.isfinite(measured)
    assert stated("a", measured, above=bound).passes == (finite and measured > bound)
    assert stated("a", measured, below=bound).passes == (finite and measured < bound)
    assert stated("a", measured, equal=bound).passes == (finite and measured == bound)
    assert stated("a", measured, within=bound).passes == (finite and abs(measured) <= bound)


def test_a_fact_has_one_bound():
    with pytest.raises(AssertionError, match="one bound"):
        stated("a", 1.0)
    with pytest.raises(AssertionError, match="one bound"):
        stated("a", 1.0, within=1.0, above=0.0)


def test_a_model_supports_a_statement_when_every_number_is_on_its_side():
    assert found(reported("a", 2, above=1), reported("b", 0, below=1)).supported is True
    finding = found(reported("a", 2, above=1), reported("b", 2, below=1))
    assert finding.supported is False
    assert finding.unsupported == {"b"}
    assert found(stated("a", 2, above=1)).supported is None


def test_a_condition_is_needless_where_the_statement_holds_without_it():
    holds, breaks, also = stated("a", 0.5, **met), outside("b", 0.5, **broken), outside("c", 0.5, **met)
    assert found(holds, breaks, also).needless == {"c"}
    assert not found(holds, breaks).needless
    assert not found(holds, also).needless


def test_the_fact_that_stands_for_all_is_the_one_that_decides():
    time = beside("time", 3.0)
    assert found(time, stated("a", 2.0, above=1)).leading.name == "a"
    assert found(time, stated("a", 2, above=1), stated("b", 2, below=1), corrected("c", 1, equal=1)).leading.name == "b"
    assert found(stated("a", 2, above=1), reported("b", 2, above=1)).leading.name == "b"


def test_a_worked_example_keeps_both_rows():
    fact = recalculated("t2", [1.0, 2.0], [1.0, 2.5], within=0.005)
    assert (fact.printed, fact.right, fact.measured, fact.passes) == ((1.0, 2.0), (1.0, 2.5), 0.5, False)
