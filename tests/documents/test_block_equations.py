"""Equations 10.32 to 10.37 on the documents' own worked examples, printed numbers beside right ones.

The documents give some steps outright (attention's ``t1``, in places ``t4``) and compute the rest. A tap puts the given steps into the
one forward pass of a post-norm block; every other step is what Headwater computes.
"""

import math

import pytest
import torch

from headwater.model.config import Attention, FeedForward, LayerNorm, ModelConfig, PostNorm
from headwater.model.forward import Block, forward, normalise, post_norm
from headwater.model.positions import Placed
from headwater.model.taps import NOBODY, POST_NORM_STEPS, Look, Recorder, Tap
from headwater.model.weights import Weights
from strategies import random_weights

CONFIG = ModelConfig(
    vocab=3,
    context=3,
    d_model=4,
    layers=1,
    attention=Attention(heads=1, d_head=4),
    feed_forward=FeedForward(d_mlp=4),
    # The documents calculate without eps, gain and bias.
    norm=PostNorm(norm=LayerNorm(eps=1e-14, gain=False, bias=False)),
)
# Document 004 multiplies columns from the left, W_1 t; rows multiply from the left here, t W_in, hence the transposes.
W_1 = [[0.1, 0.2, -0.1, 0.3], [-0.2, 0.1, 0.4, -0.1], [0.3, -0.1, 0.2, 0.1], [0.1, 0.4, -0.2, 0.2]]
W_2 = [[0.2, -0.1, 0.3, -0.2], [0.1, 0.3, -0.1, 0.2], [-0.2, 0.1, 0.2, 0.3], [0.3, -0.2, 0.1, -0.1]]
FEED_FORWARD = {
    "blocks.0.mlp.W_in": torch.tensor(W_1, dtype=torch.float64).T,
    "blocks.0.mlp.b_in": torch.tensor([0.1, 0.2, 0.1, 0.0], dtype=torch.float64),
    "blocks.0.mlp.W_out": torch.tensor(W_2, dtype=torch.float64).T,
    "blocks.0.mlp.b_out": torch.tensor([0.0, 0.1, 0.2, 0.0], dtype=torch.float64),
}


class Given(Tap):
    """Steps that a document states instead of computing them."""

    def __init__(self, **steps):
        self.steps = {POST_NORM_STEPS[step]: torch.tensor(value, dtype=torch.float64) for step, value in steps.items()}
        self.seen = {}

    def wants(self, site):
        return True

    def __call__(self, site, value):
        name = site.removeprefix("L0.")
        value = self.steps[name].expand_as(value) if name in self.steps else value
        self.seen[name] = value
        return value

    def __getitem__(self, step):
        return self.seen[POST_NORM_STEPS.get(step, step)][0, -1]


def run_block(x, **steps):
    weights = Weights.assemble(CONFIG, {**random_weights(CONFIG, 0).tensors(), **FEED_FORWARD})
    given = Given(**steps)
    look = Look(given, "L0.")
    stream = torch.tensor(x, dtype=torch.float64).expand(1, 1, 4)
    look("out", post_norm(Block(CONFIG, weights.blocks[0], Placed(), look), stream, look))
    return given


def agrees(step, right):
    return torch.allclose(step, torch.tensor(right, dtype=torch.float64), atol=5.1e-5)


X_2, X_4 = [1.0, 0.5, -0.2, 0.8], [0.5, 0.2, -0.1, 0.3]
T_1 = [0.2, -0.1, 0.3, 0.1]

# id, the block's input, given steps, asked step, printed in the document, right
EXAMPLES = [
    ("002-EX1", X_2, {"t1": T_1}, "t2", [1.2, 0.4, 0.1, 0.9], [1.2, 0.4, 0.1, 0.9]),
    ("002-EX2", X_2, {"t1": T_1}, "t3", [0.8, -0.2, 0.5, 0.2], [1.2875, -0.5852, -1.2875, 0.5852]),
    ("002-EX3", X_2, {"t1": T_1, "t3": [0.8, -0.2, 0.5, 0.2], "t4": [0.1, -0.4, 0.2, -0.1]}, "t5", [0.9, -0.6, 0.7, 0.1], [0.9, -0.6, 0.7, 0.1]),
    ("002-EX3", X_2, {"t1": T_1, "t3": [0.8, -0.2, 0.5, 0.2], "t4": [0.1, -0.4, 0.2, -0.1]}, "h", [0.3, -0.9, 0.5, 0.3], [1.0689, -1.4965, 0.7269, -0.2993]),
    ("002-EX1..3", X_2, {"t1": T_1, "t4": [0.1, -0.4, 0.2, -0.1]}, "t5", None, [1.3875, -0.9852, -1.0875, 0.4852]),
    ("002-EX1..3", X_2, {"t1": T_1, "t4": [0.1, -0.4, 0.2, -0.1]}, "h", None, [1.3858, -0.9016, -1.0002, 0.5160]),
    ("004-EX1", X_2, {"t3": [0.8, -0.2, 0.5, 0.2]}, "hidden", [0.11, 0.19, 0.21, 0.05], [0.15, 0.20, 0.48, -0.06]),
    ("004-EX1", X_2, {"t3": [0.8, -0.2, 0.5, 0.2]}, "neurons", [0.11, 0.19, 0.21, 0.05], [0.15, 0.20, 0.48, 0.0]),
    ("004-EX1", X_2, {"t3": [0.8, -0.2, 0.5, 0.2]}, "t4", [0.05, 0.18, 0.24, 0.04], [0.154, 0.127, 0.286, 0.053]),
    ("004-EX3", X_2, {"t1": T_1}, "t3", [1.25, -0.57, -1.25, 0.57], [1.2875, -0.5852, -1.2875, 0.5852]),
    ("004-EX4", X_4, {"t1": T_1}, "t2", [0.7, 0.1, 0.2, 0.4], [0.7, 0.1, 0.2, 0.4]),
    ("004-EX4", X_4, {"t1": T_1}, "t3", [1.25, -0.7, -0.3, 0.1], [1.5275, -1.0911, -0.6547, 0.2182]),
    ("004-EX4", X_4, {"t1": T_1}, "t4", [0.1, -0.3, 0.2, -0.1], [0.2006, 0.0607, 0.2786, 0.1055]),
    ("004-EX4", X_4, {"t3": [1.25, -0.7, -0.3, 0.1], "t4": [0.1, -0.3, 0.2, -0.1]}, "t5", [1.35, -1.0, -0.1, 0.0], [1.35, -1.0, -0.1, 0.0]),
    ("004-EX4", X_4, {"t3": [1.25, -0.7, -0.3, 0.1], "t4": [0.1, -0.3, 0.2, -0.1]}, "h", [1.4, -1.1, -0.2, 0.1], [1.5342, -1.2661, -0.1936, -0.0745]),
    ("004-EX4", X_4, {"t1": T_1, "t4": [0.1, -0.3, 0.2, -0.1]}, "h", None, [1.5082, -1.2468, -0.3921, 0.1307]),
    ("004-EX4", X_4, {"t1": T_1}, "t5", None, [1.7281, -1.0304, -0.3761, 0.3237]),
    ("004-EX4", X_4, {"t1": T_1}, "h", None, [1.5308, -1.1644, -0.5251, 0.1586]),
]  # fmt: skip

PRINTED_RIGHT = {("002-EX1", "t2"), ("002-EX3", "t5"), ("004-EX4", "t2"), ("004-EX4", "t5")}


@pytest.mark.parametrize(
    ("claim", "x", "steps", "asked", "printed", "right"), EXAMPLES, ids=lambda value: value if isinstance(value, str) else ""
)
def test_a_worked_example_gives_the_right_number_and_tells_whether_the_printed_one_was(claim, x, steps, asked, printed, right):
    measured = run_block(x, **steps)[asked]
    assert agrees(measured, right), f"{claim}: {asked} is {measured.tolist()}"
    if printed is not None:
        assert agrees(measured, printed) == ((claim, asked) in PRINTED_RIGHT)


def test_the_standard_deviation_of_004_ex3_is_the_biased_one():
    norm = LayerNorm(eps=1e-14, gain=False, bias=False)
    recorder = Recorder(["scale"])
    t2 = torch.tensor([[[1.2, 0.4, 0.1, 0.9]]], dtype=torch.float64)
    normalise(norm, random_weights(CONFIG, 0).norm_final, t2, Look(recorder), "scale")
    assert float(1 / recorder.kept["scale"]) == pytest.approx(math.sqrt(0.1825), abs=1e-12)


def test_the_six_equations_hold_between_the_steps_of_a_random_post_norm_block():
    config = ModelConfig(
        vocab=7,
        context=5,
        d_model=6,
        layers=1,
        attention=Attention(heads=2, d_head=3),
        feed_forward=FeedForward(d_mlp=5),
        norm=PostNorm(),
    )
    weights, recorder = random_weights(config, 1), Recorder(["*"])
    forward(weights, torch.tensor([[1, 2, 3, 4]]), recorder)
    x = recorder.kept["L0.in"]
    t1, t2, t3, t4, t5, h = (recorder.kept[f"L0.{site}"] for site in POST_NORM_STEPS.values())
    block = weights.blocks[0]
    nobody = Look(NOBODY)
    parts = Block(config, block, Placed(), nobody)
    assert torch.allclose(t1, parts.attend(x), atol=1e-12)
    assert torch.equal(t2, t1 + x)
    assert torch.allclose(t3, normalise(config.norm.norm, block.norm_1, t2, nobody, ""), atol=1e-12)
    assert torch.allclose(
        t4,
        torch.relu(t3 @ block.feed_forward.W_in + block.feed_forward.b_in) @ block.feed_forward.W_out
        + block.feed_forward.b_out,
    )
    assert torch.equal(t5, t4 + t3)
    assert torch.allclose(h, normalise(config.norm.norm, block.norm_2, t5, nobody, ""), atol=1e-12)
