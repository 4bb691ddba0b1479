"""What a summary says of heads, held against the circuits that it was made from."""

import pytest
import torch

from headwater.atlas.about_heads import behaviours, links
from headwater.circuits.composition import composition
from headwater.model.config import Attention, ModelConfig
from strategies import random_weights

CONFIG = ModelConfig(vocab=40, context=8, d_model=16, layers=3, attention=Attention(heads=3, d_head=4))


@pytest.mark.parametrize("kind", ["Q", "K", "V", None])
def test_links_are_those_above_chance_the_strongest_first(kind):
    pairs = composition(random_weights(CONFIG, 5, torch.float64))
    found = links({"composition": pairs.plain()}, kind)
    wanted = [link for link in pairs.top(10_000) if link.excess > 0 and (kind is None or link.reader.endswith(f".{kind}"))]
    assert wanted
    assert [(link.writer, link.reader) for link in found] == [(link.writer, link.reader) for link in wanted]
    assert [link.score for link in found] == pytest.approx([link.score for link in wanted])


def test_links_of_a_large_model_are_those_that_its_summary_lists():
    pairs = composition(random_weights(CONFIG, 5, torch.float64))
    told = {"chance": pairs.chance, "strongest": [link.plain() for link in pairs.top(4)]}
    assert links({"composition": told}) == list(pairs.top(4))


def test_nothing_is_said_that_a_summary_does_not_tell():
    assert links({"composition": None}) == []
    assert behaviours({"head": "L0H0"}) == ()
    assert behaviours({"head": "L0H0", "attending": None, "induction": None, "placement": {"positions": None}}) == ()


def test_a_head_may_do_several_things():
    one = {
        "induction": {"score": 0.9},
        "attending": {"previous": 0.2, "own": 0.6, "first": 0.0},
        "placement": {"positions": 0.6},
    }
    assert behaviours({**one, "self_match_panel": {"verdict": "self-matching"}}) == (
        "induction",
        "own",
        "positional",
        "self-matching",
    )
