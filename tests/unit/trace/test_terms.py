import json

import pytest
import torch

from headwater.api import load
from headwater.trace.terms import study

TEXT = """import os


class Reader:
    def __init__(self, path, mode="r"):
        self.path = path
        self.mode = mode

    def read(self):
        with open(self.path, self.mode) as file:
            return file.read()
"""


@pytest.fixture(scope="module")
def model():
    return load("two-layer")


@pytest.fixture(scope="module")
def found(model):
    return study(model.weights, model.tokens(TEXT))


def test_every_order_of_the_trained_model_is_worth_something_and_heads_alone_most(found):
    direct, single, double = found.by_order
    assert [order.paths for order in found.by_order] == [1, 8, 16]
    assert single.gain > double.gain > 0
    assert single.gain_per_path > 4 * double.gain_per_path
    assert direct.gain > 0
    assert double.loss == pytest.approx(found.loss, abs=1e-5)
    assert single.gain_per_path == single.gain / 8
    assert found.certificate < 1e-4


def test_the_last_layer_is_the_same_frozen_and_free(found):
    """Nobody attends after it: what is frozen does not depend on it."""
    assert found.by_layer[1].frozen == pytest.approx(found.by_layer[1].free, abs=1e-5)
    for head in found.by_head[4:]:
        assert head.frozen == pytest.approx(head.free, abs=1e-5), head.name


def test_the_first_layer_is_worth_more_by_the_patterns_that_it_makes(found):
    assert found.by_layer[0].free > 2 * found.by_layer[0].frozen > 0


def test_a_study_is_tables_curves_and_plain_data(found):
    text, orders, layers, heads = found.tables()
    assert all(len(row) == len(table.columns) for table in found.tables() for row in table.rows)
    assert "25 paths" in text.rows[0][1]
    assert (len(orders.rows), len(layers.rows), len(heads.rows)) == (3, 2, 8)
    assert heads.rows[0][0] == max(found.by_head, key=lambda head: head.free).name
    plain = json.loads(json.dumps(found.plain(), allow_nan=False))
    assert plain["study"] == "terms"
    assert plain["by_order"][1]["gain_per_path"] == found.by_order[1].gain_per_path
    assert [head["name"] for head in plain["by_head"]][:2] == ["L0H0", "L0H1"]
    assert all(len(line.x) == len(line.y) for panel in found.curves() for line in panel.lines)


def test_a_model_without_layers_has_the_direct_path_alone():
    model = load("zero-layer")
    found = study(model.weights, torch.tensor([[5, 6, 7, 8]]))
    assert [order.paths for order in found.by_order] == [1]
    assert len(found.tables()) == 2
    assert len(found.curves()) == 1
    assert found.by_order[0].loss == pytest.approx(found.loss, abs=1e-5)
