"""The overview of heads holds for every member of the family, and says what the single functions say."""

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from headwater.circuits.chance import Draws
from headwater.circuits.composition import composition
from headwater.circuits.head import every_head
from headwater.circuits.overview import Choices, overview
from headwater.circuits.tables import ov, qk
from strategies import models


# Each example is some hundred of the laws of the single functions, which have their own examples.
@settings(max_examples=min(60, settings().max_examples))
@given(models(layers=st.integers(1, 3)), st.integers(1, 3))
def test_every_head_of_every_model_is_told(member, examples):
    weights, _ = member
    told, pairs = overview(weights, None, Choices(draws=Draws(4), examples=examples))
    assert [one.head for one in told] == every_head(weights.config)
    assert pairs.writers == composition(weights).writers
    for one in told:
        says, seeks = ov(weights, one.head), qk(weights, one.head)
        assert one.ov.norm == pytest.approx(says.norm(), rel=1e-6, abs=1e-12)
        assert one.qk.norm == pytest.approx(seeks.norm(), rel=1e-6, abs=1e-12)
        assert 1 <= len(one.says) <= examples
        assert float(one.says.values[0]) == pytest.approx(float(says.centred_rows().top(1).values[0]))
        assert len(set(one.seeks.columns.tolist())) == len(one.seeks)
        assert one.plain()["head"] == str(one.head)
