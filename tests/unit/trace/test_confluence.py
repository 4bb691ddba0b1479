"""A river says of each link what is so: the attention that was paid, and how the logit is taken apart."""

import re

import pytest
import torch

from headwater.model.config import Attention, FeedForward, LearnedPositions, ModelConfig, PreNorm
from headwater.model.record import record
from headwater.trace.confluence import Asked, confluence
from headwater.trace.patterns import why_told
from headwater.trace.river import asked_for
from headwater.trace.run import Run
from strategies import random_weights

CONFIG = ModelConfig(
    vocab=9,
    context=6,
    d_model=8,
    layers=3,
    attention=Attention(heads=2, d_head=4, input_bias=True, output_bias=True),
    feed_forward=FeedForward(d_mlp=6, activation="gelu"),
    norm=PreNorm(),
    positions=LearnedPositions(),
)


@pytest.fixture(scope="module")
def run():
    return Run.of(record(random_weights(CONFIG, 5), torch.tensor([[1, 2, 3, 4, 3, 5]])))


def test_what_a_head_took_from_one_place_has_the_attention_that_it_paid(run):
    found = 0
    for flow in confluence(run.explain(), asked_for("", budget=80)).flows:
        head, source = re.fullmatch(r"L(\d)H(\d)@(\d)", flow.target), re.fullmatch(r"(?:token|L\d)@(\d)", flow.source)
        if head and source:
            layer, number, dest = map(int, head.groups())
            paid = float(run[f"L{layer}.pattern"][0, number, dest, int(source[1])])
            assert flow.attention == pytest.approx(paid, abs=1e-12), flow
            found += 1
        elif flow.source in ("positions", "biases"):
            assert flow.attention is None
    assert found > 20


def test_from_several_destinations_no_one_attention_is_paid(run):
    head = run.explain()["L2H0"].split("head", most=None)["L1H1"]
    sources = [part for part in head.split("source", most=None).parts if part.kind == "source"]
    assert sources
    assert all("attention" not in part.facts and not part.note for part in sources)
    told = confluence(
        run.explain(), Asked(most=40, more={"L2H0@5": 1}, opened={"L2H0@5": "component", "L2H0@5/head L1H1": "source"})
    )
    inflows = [flow for flow in told.flows if flow.target == "L2H0@5/head L1H1"]
    assert inflows
    assert all(flow.attention is None for flow in inflows)


def test_of_a_difference_of_keys_none_is_told(run):
    alone, against = (why_told(run.attend("L1H0", 5, 3, against=other)) for other in (None, 1))
    for told, is_known in ((alone, True), (against, False)):
        sources = [part for column in told["columns"] if column["kind"] == "head" for part in column["parts"]]
        known = [part["attention"] is not None for part in sources if part["kind"] == "source"]
        assert known
        assert all(each is is_known for each in known)


@pytest.mark.parametrize("way", ["component", "head", "layer", "source", "token", "order", "path"])
def test_the_logit_is_told_by_the_way_that_it_was_taken_apart(run, way):
    split = run.explain().split(way)
    river = confluence(split, Asked())
    own = split if way != "path" else run.explain()
    assert river.joints[0].by == own.by
    assert river.main == own.certificate
    flows = sorted(flow.value for flow in river.flows if flow.target == "logit")
    parts = sum(part.value for part in own.split(own.by, most=None).parts)
    assert sum(flows) == pytest.approx(parts, abs=1e-12)
    kinds = {joint.kind for joint in river.joints} - {"logit"}
    assert ("order" in kinds) is (way == "order")


def test_another_way_has_its_own_certificate(run):
    river = confluence(run.explain(), Asked(opened={"logit": "order"}))
    assert river.main == run.explain().split("order", most=None).certificate
