"""What rounding may come to where large numbers cancel: it is theirs, and not that of what is left of them."""

import math

import pytest
import torch

from headwater.model.config import Attention, FeedForward, LearnedPositions, ModelConfig
from headwater.model.record import record
from headwater.trace.check import check
from headwater.trace.confluence import Asked, confluence
from headwater.trace.river import asked_for, logit_bound, river_told
from headwater.trace.run import Run
from headwater.trace.sizes import Sizes, logit_size, rounding
from strategies import random_weights

WIDE = 8


def turn(seed):
    return torch.linalg.qr(torch.randn(WIDE, WIDE, generator=torch.Generator().manual_seed(seed)))[0]


def noise(seed):
    return torch.randn(WIDE, WIDE, generator=torch.Generator().manual_seed(seed))


def two_layers(heads, **more):
    return ModelConfig(vocab=7, context=4, d_model=WIDE, layers=2, attention=Attention(heads=heads, d_head=WIDE), **more)


def everywhere_alike(weights):
    """Heads of the first layer look everywhere alike."""
    return {f"blocks.0.attn.{name}": torch.zeros_like(weights.tensors()[f"blocks.0.attn.{name}"]) for name in ("W_Q", "W_K")}


def what_is_taken_back_and_enlarged():
    """The first layer takes the embeddings away but for a ten-thousandth, which the second one makes as large as they were."""
    weights = random_weights(two_layers(1), 3, torch.float32)
    first, last = turn(0), turn(1)
    return weights.changed(
        everywhere_alike(weights)
        | {
            "blocks.0.attn.W_V": first[None],
            "blocks.0.attn.W_O": (first.T @ (-torch.eye(WIDE) + 1e-4 * noise(2)))[None],
            "blocks.1.attn.W_O": 1e4 * last[None],
        }
    ), [3, 3, 3, 3]


def heads_that_cancel():
    weights = random_weights(two_layers(2), 3, torch.float32)
    first, second, written = turn(0), turn(1), 1e3 * noise(2)
    return weights.changed(
        everywhere_alike(weights)
        | {
            "blocks.0.attn.W_V": torch.stack([first, first @ second]),
            "blocks.0.attn.W_O": torch.stack([written, -second.T @ written + 1e-3 * noise(3)]),
            "blocks.1.attn.W_O": 1e4 * weights.tensors()["blocks.1.attn.W_O"],
        }
    ), [1, 2, 3, 4]


def neurons_that_cancel():
    weights = random_weights(two_layers(1, feed_forward=FeedForward(d_mlp=4, activation="relu", bias=False)), 3, torch.float32)
    W_in, W_out = (weights.tensors()[f"blocks.0.mlp.{name}"] for name in ("W_in", "W_out"))
    return weights.changed(
        {
            "blocks.0.mlp.W_in": torch.cat([W_in[:, :2], 1.7 * W_in[:, :2]], dim=1),
            "blocks.0.mlp.W_out": 1e5 * torch.cat([W_out[:2], -W_out[:2] / 1.7]),
            "blocks.1.attn.W_O": 1e3 * weights.tensors()["blocks.1.attn.W_O"],
        }
    ), [1, 2, 3, 4]


def a_token_that_its_position_takes_back():
    config = ModelConfig(
        vocab=7, context=4, d_model=WIDE, layers=1, attention=Attention(heads=2, d_head=4), positions=LearnedPositions()
    )
    weights, large = random_weights(config, 3, torch.float32), 1000 * noise(1)[0]
    W_E, W_pos = (weights.tensors()[name].clone() for name in ("embed.W_E", "pos_embed.W_pos"))
    W_E[1] += large
    W_pos[0] -= large
    return weights.changed({"embed.W_E": W_E, "pos_embed.W_pos": W_pos}), [1, 2, 3, 4]


def scores_that_tie():
    """Large scores that are all alike: attention is as uncertain as they are."""
    config = ModelConfig(vocab=7, context=6, d_model=WIDE, layers=1, attention=Attention(heads=1, d_head=WIDE, scaled=False))
    weights, along = random_weights(config, 3, torch.float32), turn(0)[0]
    W_E, only = weights.tensors()["embed.W_E"], torch.outer(along, along)
    return weights.changed(
        {
            "embed.W_E": W_E + (1 - W_E @ along)[:, None] * along,
            "blocks.0.attn.W_Q": 1e5 * only[None],
            "blocks.0.attn.W_K": only[None],
        }
    ), [1, 2, 3, 4, 5, 6]


@pytest.mark.parametrize(
    "made",
    [
        what_is_taken_back_and_enlarged,
        heads_that_cancel,
        neurons_that_cancel,
        a_token_that_its_position_takes_back,
        scores_that_tie,
    ],
)
def test_what_cancels_is_no_error(made):
    weights, tokens = made()
    run = Run.of(record(weights, torch.tensor([tokens])))
    why = run.explain()
    river, totals = confluence(why, Asked()), run.totals(-1, why.facts["id"])
    assert 0 < river.certificate <= logit_bound(run, why, river.size)
    assert 0 < totals.certificate <= logit_bound(run, why, float(totals.size[0]))
    assert check(run).ok
    # The size of what is left would not do.
    assert max(river.certificate, totals.certificate) > rounding(run, abs(why.value))


def test_the_mean_of_all_logits_is_rounded_too():
    config = ModelConfig(vocab=50, context=4, d_model=WIDE, layers=1, attention=Attention(heads=2, d_head=4))
    weights = random_weights(config, 3, torch.float32)
    W_U = weights.tensors()["unembed.W_U"] + 1
    W_U[:, 7] = 0
    run = Run.of(record(weights.changed({"unembed.W_U": W_U}), torch.tensor([[3, 1, 2, 9]])))
    river = river_told(run.explain(-1, 7, centred=True), asked_for(""))
    assert 0 < river["certificate"] <= river["bound"]
    assert logit_size(run.frozen, 3, [7]) == 0 < logit_size(run.frozen, 3, [7], centred=True)


def test_sizes_are_those_of_the_formula():
    """One layer by hand: the embedding, the head's products, ``W_U``."""
    config = ModelConfig(vocab=7, context=4, d_model=WIDE, layers=1, attention=Attention(heads=2, d_head=3))
    run = Run.of(record(random_weights(config, 3), torch.tensor([[1, 2, 3]])))
    mixed, W_O = run["L0.mixed"][0, :, -1], run.weights.blocks[0].attention.W_O
    written = float(run["embed"][0, -1].square().sum() + (mixed[..., None] * W_O).square().sum())
    assert float(Sizes(run.frozen).upto(torch.tensor([2]))[-1]) == pytest.approx(written)
    column = float(run.weights.W_U[:, 5].norm())
    assert logit_size(run.frozen, 2, [5]) == pytest.approx(column * math.sqrt(written))
    assert logit_size(run.frozen, 2, [5, 5]) == pytest.approx(2 * column * math.sqrt(written))
    unit, tiny = torch.finfo(torch.float64).eps, torch.finfo(torch.float64).tiny
    assert rounding(run, 1.0) == pytest.approx(2 * math.sqrt(WIDE * 3) * (unit + tiny))


def test_a_river_whose_numbers_are_none_does_not_add_up():
    """Logits are finite, and a question about what a head read is not."""
    config = ModelConfig(vocab=5, context=4, d_model=4, layers=1, attention=Attention(heads=2, d_head=4))
    weights = random_weights(config, 1, torch.float32)
    large = {"embed.W_E": 1e-25, "blocks.0.attn.W_V": 1e20, "blocks.0.attn.W_O": 1e20, "blocks.0.attn.W_Q": 0.0}
    run = Run.of(
        record(
            weights.changed({name: by * weights.tensors()[name] for name, by in large.items()}), torch.tensor([[0, 1, 2, 3]])
        )
    )
    assert run.logits.isfinite().all()
    river = confluence(run.explain(), asked_for("L0H0@3:token"))
    assert any(not math.isfinite(joint.value) for joint in river.joints)
    assert river.certificate == math.inf
