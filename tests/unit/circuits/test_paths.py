import json
from dataclasses import replace
from itertools import islice

import pytest
import torch

from headwater.circuits.head import Head
from headwater.circuits.paths import Path, by_order, circuit, contribution, count, find_path, origins, paths
from headwater.errors import InputError
from headwater.model.config import Attention, FeedForward, LearnedPositions, ModelConfig, PostNorm, PreNorm, Unembedding
from headwater.model.presets import named
from headwater.model.record import record
from strategies import random_weights

CONFIG = ModelConfig(
    vocab=7,
    context=5,
    d_model=6,
    layers=2,
    attention=Attention(heads=4, d_head=3, group_size=2, input_bias=True, output_bias=True),
    positions=LearnedPositions(),
    unembedding=Unembedding(bias=True),
)
PLAIN = ModelConfig(vocab=7, context=5, d_model=6, layers=2, attention=Attention(heads=2, d_head=3))


def test_a_path_prints_as_its_route():
    assert str(Path((Head(0, 3), Head(1, 4)))) == "embed → L0H3 → L1H4 → logits"
    assert str(Path()) == "embed → logits"
    assert str(Path((Head(1, 0),), "L0.b_O")) == "L0.b_O → L1H0 → logits"


@pytest.mark.parametrize("text", ["embed → L0H3 → L1H2 → logits", "L0H3 L1H2", "l0h3->l1h2", " L0H3 → L1H2 → logits "])
def test_a_path_may_be_written_in_several_ways(text):
    assert find_path(text, CONFIG) == Path((Head(0, 3), Head(1, 2)))


@pytest.mark.parametrize("text", ["direct", "embed → logits", "embed -> logits", "embed"])
def test_the_direct_path_has_no_heads(text):
    assert find_path(text, CONFIG) == Path()


@pytest.mark.parametrize(
    ("text", "given"),
    [
        ("", "an empty path"),
        ("L1H0 L0H0", "a path through L1H0 and then L0H0"),
        ("L0H0 L0H1", "a path through L0H0 and then L0H1"),
        ("L0H9", "no head is called L0H9"),
        ("L0H0 → nonsense", "'nonsense' as a head"),
        ("L1.b_O → L1H0", "a path from L1.b_O through L1H0"),
        ("L7.b_O", "a path from 'L7.b_O'"),
        ("b_U → L0H0", "a path from b_U through L0H0"),
        ("b_V", "a path from b_V through no head"),
    ],
)
def test_what_is_no_path_is_refused(text, given):
    with pytest.raises(InputError) as error:
        find_path(text, CONFIG)
    assert error.value.given == given


def test_a_path_from_a_bias_that_the_model_has_not_is_refused():
    assert origins(PLAIN) == ["embed"]
    with pytest.raises(InputError, match="a path from 'b_V'"):
        find_path("b_V → L0H0 → logits", PLAIN)
    with pytest.raises(InputError, match="paths from 'positions'"):
        count(PLAIN, origin="positions")


def test_the_paths_of_gpt_2_are_counted_and_begun_at_once():
    config = named("gpt2-small")
    counted = count(config)
    assert counted.total == 13**12
    assert counted.by_order[:3] == (1, 144, 66 * 144)
    assert set(counted.by_head.values()) == {13**11}
    assert set(counted.by_layer) == {12 * 13**11}
    assert count(config, through=["L3H1", "L7H0"]).total == 13**10
    assert [str(path) for path in islice(paths(config), 3)] == [
        "embed → logits",
        "embed → L0H0 → logits",
        "embed → L0H1 → logits",
    ]
    deepest = next(paths(config, order=12))
    assert deepest.heads == tuple(Head(layer, 0) for layer in range(12))
    assert json.loads(json.dumps(counted.plain()))["by_head"]["L11H11"] == 13**11


def test_two_heads_of_one_layer_are_on_no_path():
    assert list(paths(PLAIN, through=["L0H0", "L0H1"])) == []
    assert count(PLAIN, through=["L0H0", "L0H1"]).total == 0
    assert set(count(PLAIN, through=["L0H0", "L0H1"]).by_head.values()) == {0}


def test_an_order_that_there_is_not_has_no_paths():
    assert list(paths(PLAIN, order=3)) == list(paths(PLAIN, order=-1)) == []


def test_a_zero_layer_model_has_one_path():
    config = named("zero-layer")
    assert list(paths(config)) == [Path()]
    assert count(config).plain() == {"total": 1, "by_order": [1], "by_layer": [], "by_head": {}}


def test_every_origin_starts_as_many_paths_as_heads_can_still_read_it():
    assert {origin: count(CONFIG, origin=origin).total for origin in origins(CONFIG)} == {
        "embed": 25,
        "positions": 25,
        "b_V": 24,
        "L0.b_O": 5,
        "L1.b_O": 1,
        "b_U": 1,
    }


def test_circuits_are_as_thin_as_their_narrowest_place():
    weights = random_weights(CONFIG, 0)
    inner = {name: circuit(weights, name).inner for name in ("direct", "L0H3", "L0H3 L1H0", "b_V L1H1", "L0.b_O L1H1", "b_U")}
    assert inner == {"direct": 6, "L0H3": 3, "L0H3 L1H0": 3, "b_V L1H1": 1, "L0.b_O L1H1": 1, "b_U": 1}
    assert circuit(weights, "positions → L0H0").shape == (5, 7)
    assert circuit(weights, "b_V L1H1").shape == (1, 7)
    # Heads that are wider than the stream.
    wide = random_weights(replace(PLAIN, d_model=2), 0)
    assert circuit(wide, "L0H0 L1H1").inner == 2


@pytest.mark.parametrize("norm", [PreNorm(), PostNorm()], ids=["pre", "post"])
def test_norms_are_refused_where_matrices_are_multiplied_and_not_where_paths_are_counted(norm):
    config = replace(PLAIN, norm=norm)
    weights, tokens = random_weights(config, 0), torch.tensor([[1, 2]])
    run = record(weights, tokens)
    patterns = [run["L0.pattern"], run["L1.pattern"]]
    assert count(config).total == 9
    for ask in (
        lambda: circuit(weights, "L0H0"),
        lambda: contribution(weights, "L0H0", patterns, tokens),
        lambda: by_order(weights, patterns, tokens),
    ):
        with pytest.raises(InputError, match="norms"):
            ask()


def test_feed_forward_layers_are_refused_where_a_sum_would_be_complete_and_not_for_single_paths():
    config = replace(PLAIN, layers=1, feed_forward=FeedForward(d_mlp=4))
    weights, tokens = random_weights(config, 0), torch.tensor([[1, 2]])
    run = record(weights, tokens)
    with pytest.raises(InputError, match="feed-forward"):
        by_order(weights, [run["L0.pattern"]], tokens)
    heads = sum(contribution(weights, path, [run["L0.pattern"]], tokens) for path in paths(config))
    assert torch.allclose(heads + run["L0.feed_forward"] @ weights.W_U, run.logits, atol=1e-12)


def test_patterns_that_do_not_fit_the_text_are_refused():
    weights, tokens = random_weights(PLAIN, 0), torch.tensor([[1, 2, 3]])
    run = record(weights, tokens)
    patterns = [run["L0.pattern"], run["L1.pattern"]]
    with pytest.raises(InputError, match="patterns of the shapes"):
        contribution(weights, "L0H0", patterns[:1], tokens)
    with pytest.raises(InputError, match="patterns of the shapes"):
        by_order(weights, patterns, tokens[:, :2])
    with pytest.raises(InputError, match="token id 7"):
        by_order(weights, patterns, torch.tensor([[1, 2, 7]]))
