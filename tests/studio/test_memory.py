"""What a studio keeps between questions: bounded in bytes, its own, and gone with what it was about."""

import gc
import weakref

import numpy as np
import pytest
import torch

from headwater.studio.memory import Known, bytes_of
from headwater.studio.work import Stop
from studio_app import Studio, filled
from tiny_atlas import save_model


class Growing:
    """Works out more of itself once it is asked."""

    def __init__(self):
        self.first = np.zeros(100)

    def grow(self):
        self.second = np.zeros(1000)


def test_a_value_is_as_large_as_all_that_it_holds():
    table = torch.zeros(100, dtype=torch.float64)
    assert bytes_of(table) == 800
    assert 800 < bytes_of({"one": [table, table], "more": (table,)}) < 1600, "each thing once"
    value = Growing()
    before = bytes_of(value)
    value.grow()
    assert bytes_of(value) >= before + 8000
    value.itself = value
    assert bytes_of(value) > 0, "no end is no end"


def test_what_was_asked_for_longest_ago_makes_room():
    known, made = Known(3_000), []

    def ask(key):
        return known.get(key, lambda: made.append(key) or np.zeros(100))

    for key in "abc":
        ask(key)
    ask("a")
    ask("d")
    assert [key for key in "abcd" if key in known] == ["a", "c", "d"]
    assert ask("a") is ask("a")
    assert made == list("abcd")
    known.get("whole", lambda: np.zeros(10_000))
    assert "whole" in known, "the last stays, however large"
    assert len(known) == 1


def test_what_grows_is_measured_again():
    known, value = Known(3_000), Growing()
    known.get("small", lambda: np.zeros(10))
    known.get("grows", lambda: value)
    assert len(known) == 2
    value.grow()
    assert known.get("grows", Growing) is value
    assert "small" not in known


@pytest.fixture
def studio(tmp_path):
    save_model(tmp_path / "first")
    there = Studio(filled(tmp_path, "first"))
    yield there
    there.close()


def test_studios_share_nothing(studio, tmp_path):
    other = Studio(filled(tmp_path, "first"))
    try:
        assert studio.ask("/api/attention?model=first&text=line+7").status == 200
        memories = [each.app.app.state.memory for each in (studio, other)]
        assert [len(memory.surveys) for memory in memories] == [1, 0]
    finally:
        other.close()


def test_surveys_hold_no_run(studio):
    studio.ask("/api/attention?model=first&text=line+7")
    held = weakref.ref(studio.shelf.run("first", "line 7", Stop()))
    studio.shelf.reopen("model", "first")
    gc.collect()
    assert held() is None


def test_the_shelf_keeps_the_same_weights_with_norms_elsewhere_and_lets_them_go(studio):
    own, other = (studio.shelf.run("first", "line 7", Stop(), order) for order in (None, "post"))
    assert studio.shelf.run("first", "line 7", Stop(), "post") is other is not own
    assert other.weights.W_E is own.weights.W_E
    studio.shelf.reopen("model", "first")
    assert studio.shelf.run("first", "line 7", Stop(), "post") is not other
