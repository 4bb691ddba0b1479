"""What is said beside the numbers: names of paths, orders, attention, activations; and totals that are made in pieces."""

import pytest
import torch

from headwater.model.config import Attention, FeedForward, LearnedPositions, ModelConfig, PreNorm, Unembedding
from headwater.model.record import record
from headwater.trace import totals
from headwater.trace.run import Run
from strategies import random_weights

CONFIG = ModelConfig(
    vocab=7,
    context=5,
    d_model=6,
    layers=2,
    attention=Attention(heads=2, d_head=3, input_bias=True),
    feed_forward=FeedForward(d_mlp=4, activation="gelu"),
    norm=PreNorm(),
    positions=LearnedPositions(),
    unembedding=Unembedding(bias=True),
)
RUN = Run.of(record(random_weights(CONFIG, 2), torch.tensor([[5, 1, 3, 1]])))
ALL = 10**6


def test_a_path_names_everything_it_passes_and_where_unless_that_is_where_it_ends():
    config = ModelConfig(vocab=7, context=5, d_model=6, layers=2, attention=Attention(heads=1, d_head=3))
    run = Run.of(record(random_weights(config, 2), torch.tensor([[5, 1]])))
    assert {path.label for path in run.explain(token=2).walk(share=1.0, budget=ALL, most=ALL).parts} == {
        "#1@1 → logit",
        "#5@0 → L0H0 → logit",
        "#1@1 → L0H0 → logit",
        "#5@0 → L1H0 → logit",
        "#1@1 → L1H0 → logit",
        "#5@0 → L0H0@0 → L1H0 → logit",
        "#5@0 → L0H0 → L1H0 → logit",
        "#1@1 → L0H0 → L1H0 → logit",
    }


def test_no_two_paths_from_a_token_have_one_name():
    paths = RUN.explain(token=2).walk(share=1.0, budget=ALL, most=ALL).parts
    labels = [path.label for path in paths if path.facts["name"] in ("embed", "positions")]
    assert len(set(labels)) == len(labels)


def test_orders_count_heads_from_the_answer_on_wherever_a_part_is():
    orders = RUN.explain(token=2)["L1H0"].split("order").parts
    assert [part.facts["order"] for part in orders if part.kind == "order"] == [1, 2]
    feeding = RUN.explain(token=2)["L1.feed_forward"].split("order").parts
    assert [part.facts["order"] for part in feeding if part.kind == "order"] == [0, 1, 2]


@pytest.mark.parametrize("head", [0, 1])
def test_a_source_tells_its_heads_attention(head):
    sources = RUN.explain(1, 2)[f"L1H{head}"].split("source", most=None).parts
    told = {part.facts["position"]: part.facts["attention"] for part in sources if part.kind == "source"}
    assert told == pytest.approx({source: float(RUN["L1.pattern"][0, head, 1, source]) for source in (0, 1)})


def test_a_neuron_tells_its_activation():
    neurons = RUN.explain(2, 2)["L0.feed_forward"].split("neuron", most=None).parts
    told = {part.facts["neuron"]: part.facts["activation"] for part in neurons}
    assert told == pytest.approx(dict(enumerate(RUN["L0.neurons"][0, 2].tolist())))


@pytest.mark.parametrize("against", [None, 4])
def test_totals_in_pieces_are_those_of_one_sweep(against, monkeypatch):
    whole = RUN.totals(None, against=against)
    monkeypatch.setattr(totals, "AT_ONCE", 2 * 3 * 4 * 6)
    pieces = RUN.totals(None, against=against)
    assert pieces.certificate < 1e-12
    for name in ("at", "ids", "values", "tokens", "positions", "orders"):
        assert torch.allclose(getattr(whole, name), getattr(pieces, name), atol=1e-12), name
    for name in ("biases", "writes", "layers"):
        ours, theirs = getattr(whole, name), getattr(pieces, name)
        assert list(ours) == list(theirs)
        assert all(torch.allclose(ours[key], theirs[key], atol=1e-12) for key in ours), name


def test_each_question_has_its_own_token_to_compare_with_in_pieces_too(monkeypatch):
    monkeypatch.setattr(totals, "AT_ONCE", 2 * 3 * 4 * 6)
    at, ids, against = [0, 1, 2, 3], [1, 2, 3, 4], [6, 5, 0, 2]
    found = totals.totals(RUN.frozen, at, ids, against)
    for row, (position, token, other) in enumerate(zip(at, ids, against, strict=True)):
        one = RUN.totals(position, token, other)
        assert float(found.values[row]) == pytest.approx(float(one.values[0]))
        assert torch.allclose(found.tokens[row], one.tokens[0], atol=1e-12)
        assert float(found.biases["b_U"][row]) == pytest.approx(float(one.biases["b_U"][0]))


@pytest.mark.parametrize("layer", [0, 1])
def test_every_neuron_is_made_of_what_opened_it(layer):
    for neuron in RUN.explain(2, 2)[f"L{layer}.feed_forward"].split("neuron", most=None).parts:
        for way in neuron.ways:
            assert neuron.split(way).certificate < 1e-12, (neuron.label, way)


@pytest.mark.parametrize("budget", [2, 5, 9])
def test_a_walk_says_which_share_it_has_followed(budget):
    walked = RUN.explain(token=2).walk(share=1.0, budget=budget, most=ALL)
    *ended, rest = walked.parts
    closed = sum(abs(path.value) for path in ended)
    unfollowed = sum(abs(part.value) for some in rest.split(most=None).parts for part in some.split(most=None).parts)
    assert walked.facts["resolved"] == pytest.approx(closed / (closed + unfollowed))
    assert walked.facts["expanded"] == budget
