"""The orders of a run add up to its logits, and each is the sum of its paths."""

from itertools import combinations, product

import pytest
import torch
from hypothesis import given, settings
from hypothesis import strategies as st

from headwater.circuits.head import Head, every_head
from headwater.circuits.paths import by_order, count
from headwater.errors import InputError
from headwater.model.config import Attention, LayerNorm, ModelConfig, NoNorm, PostNorm, PreNorm
from headwater.model.forward import forward
from headwater.model.record import record
from headwater.model.taps import Recorder
from headwater.model.weights import Weights
from headwater.trace.edits import Zero
from headwater.trace.places import Place
from headwater.trace.terms import orders, streams, study
from strategies import models


def close(found, truth, tolerance=1e-9):
    return float((found - truth).abs().max()) <= tolerance * max(1.0, float(truth.abs().max()))


@given(models())
def test_the_orders_of_a_run_add_up_to_its_logits(member):
    weights, tokens = member
    run = record(weights, tokens)
    found = orders(run)
    assert found.shape == (weights.config.layers + 1, *run.logits.shape)
    assert close(found.sum(dim=0), run.logits)


@given(models(layers=st.integers(0, 2)))
def test_each_order_is_the_sum_of_its_paths(member):
    weights, tokens = member
    run, twin = record(weights, tokens[:1]), Paths(weights, tokens)
    found = streams(run)
    for order in range(weights.config.layers + 1):
        parts = [twin.along(path) for path in twin.all() if len(path) == order]
        assert len(parts) == count(weights.config).by_order[order]
        assert close(found[order, 0], sum(parts)), order


class Paths:
    """Every path through at most one head of each layer, followed one after the other."""

    def __init__(self, weights, tokens):
        self.weights, self.config, self.tokens = weights, weights.config, tokens[0]
        watch = Recorder(["*"])
        forward(weights, tokens[:1], watch)
        self.positions = watch.kept.pop("positions", 0)
        self.seen = {site: value[0] for site, value in watch.kept.items()}

    def all(self):
        return [
            tuple(map(Head, layers, heads))
            for order in range(self.config.layers + 1)
            for layers in combinations(range(self.config.layers), order)
            for heads in product(range(self.config.heads), repeat=order)
        ]

    def along(self, path):
        """What reaches the unembedding along one path; biases are on it as long as no head is passed."""
        heads, x, passed = {head.layer: head.head for head in path}, self.weights.W_E[self.tokens] + self.positions, False
        for layer in range(self.config.layers):
            step = self.post_norm if isinstance(self.config.norm, PostNorm) else self.pre_norm
            x = step(layer, x, heads.get(layer), passed)
            passed = passed or layer in heads
        return self.norm("final", self.weights.norm_final, x, passed) if isinstance(self.config.norm, PreNorm) else x

    def pre_norm(self, layer, x, head, passed):
        block = self.weights.blocks[layer]
        through = head is not None
        if through:
            after = self.head(layer, head, self.norm(f"L{layer}.norm_1", block.norm_1, x, passed), passed)
        else:
            after = self.beside(layer, x, passed)
        if self.config.feed_forward is None:
            return after
        if self.config.feed_forward.reads == "after-attention":
            read = self.norm(f"L{layer}.norm_2", block.norm_2, after, passed or through)
            return after + self.feed_forward(layer, read, passed or through)
        # Beside attention nothing has been through its heads.
        if through:
            return after
        return after + self.feed_forward(layer, self.norm(f"L{layer}.norm_2", block.norm_2, x, passed), passed)

    def post_norm(self, layer, x, head, passed):
        block = self.weights.blocks[layer]
        x = self.beside(layer, x, passed) if head is None else self.head(layer, head, x, passed)
        passed = passed or head is not None
        x = self.norm(f"L{layer}.norm_1", block.norm_1, x, passed)
        if self.config.feed_forward is None:
            return x
        return self.norm(f"L{layer}.norm_2", block.norm_2, x + self.feed_forward(layer, x, passed), passed)

    def beside(self, layer, x, passed):
        bias = self.weights.blocks[layer].attention.b_O
        return x if passed or bias is None else x + bias

    def head(self, layer, head, x, passed):
        weights, key_head = self.weights.blocks[layer].attention, head // self.config.attention.group_size
        values = x @ weights.W_V[key_head]
        if weights.b_V is not None and not passed:
            values = values + weights.b_V[key_head]
        return self.seen[f"L{layer}.pattern"][head] @ values @ weights.W_O[head]

    def norm(self, place, weights, x, passed):
        if isinstance(self.config.norm, NoNorm):
            return x
        if isinstance(self.config.norm.norm, LayerNorm):
            x = x - x.mean(dim=-1, keepdim=True)
        x = x * self.seen[f"{place}.scale"][:, None] * (1 if weights.gain is None else weights.gain)
        return x if passed or weights.bias is None else x + weights.bias

    def feed_forward(self, layer, x, passed):
        weights = self.weights.blocks[layer].feed_forward
        hidden = x @ weights.W_in + (0 if passed or weights.b_in is None else weights.b_in)
        out = (self.seen[f"L{layer}.gates"] * hidden) @ weights.W_out
        return out if passed or weights.b_out is None else out + weights.b_out


@given(models(norm=st.just(NoNorm())))
def test_without_norms_orders_are_those_of_the_circuits(member):
    weights, tokens = member
    if weights.config.feed_forward is not None:
        return
    run = record(weights, tokens)
    patterns = [run[f"L{layer}.pattern"] for layer in range(weights.config.layers)]
    assert close(orders(run), by_order(weights, patterns, tokens))


def loss(logits, targets):
    """Mean nats of the targets."""
    return -float(logits.log_softmax(dim=-1).gather(-1, targets[..., None]).mean())


def near(value):
    return pytest.approx(value, rel=1e-9, abs=1e-9)


@settings(max_examples=15)
@given(models(layers=st.integers(0, 2)))
def test_what_orders_layers_and_heads_are_worth_is_what_their_paths_are(member):
    weights, tokens = member
    config = weights.config
    if tokens.shape[1] < 2:
        return
    inputs, targets = tokens[:, :-1], tokens[:, 1:]
    twins = [Paths(weights, text[None]) for text in inputs]

    along = [{path: twin.along(path) for path in twin.all()} for twin in twins]

    def nats(paths):
        read = torch.stack([sum((each[path] for path in paths), torch.zeros_like(each[()])) for each in along])
        return loss(read @ weights.W_U + (0 if weights.b_U is None else weights.b_U), targets)

    every, found = twins[0].all(), study(weights, tokens)
    whole = nats(every)
    assert found.loss == near(whole)
    assert found.certificate < 1e-9 * max(1.0, float(forward(weights, inputs).abs().max()))
    below = float(torch.tensor(config.vocab, dtype=torch.float64).log())
    for row in found.by_order:
        up_to = nats([path for path in every if len(path) <= row.order])
        assert (row.loss, row.gain) == (near(up_to), near(below - up_to))
        assert row.missed == near(nats([path for path in every if len(path) != row.order]) - whole)
        below = up_to
    groups = [[Head(layer, head) for head in range(config.heads)] for layer in range(config.layers)]
    groups += [[head] for head in every_head(config)]
    assert [row.name for row in found.by_head] == [str(head) for head in every_head(config)]
    for row, heads in zip([*found.by_layer, *found.by_head], groups, strict=True):
        single = [(head,) for head in heads]
        few = [path for path in every if len(path) <= 1]
        assert row.beside_direct == near(nats([()]) - nats([(), *single]))
        assert row.among_single == near(nats([path for path in few if path not in single]) - nats(few))
        assert row.single == near(nats([path for path in every if path not in single]) - whole)
        assert row.frozen == near(nats([path for path in every if not set(path) & set(heads)]) - whole)
        assert row.free == near(loss(forward(silenced(weights, heads), inputs), targets) - whole)


def silenced(weights, heads):
    """The model in which some heads have a W_O of zeros."""
    changed = weights
    for head in heads:
        name = f"blocks.{head.layer}.attn.W_O"
        W_O = changed.tensors()[name].clone()
        W_O[head.head] = 0
        changed = changed.changed({name: W_O})
    return changed


def test_windows_are_taken_in_pieces_of_any_size(monkeypatch):
    config = ModelConfig(vocab=7, context=6, d_model=4, layers=2, attention=Attention(heads=2, d_head=2))
    weights = Weights.draw(config, seed=0, dtype=torch.float64)
    windows = torch.randint(7, (5, 6), generator=torch.Generator().manual_seed(0))
    at_once = study(weights, windows)
    monkeypatch.setattr("headwater.trace.terms.LOGITS_AT_ONCE", 2 * 6 * 7)
    told = []
    in_pieces = study(weights, windows, progress=lambda what, share: told.append(share))
    assert told == sorted(told)
    assert told[-1] == 1.0
    for a, b in zip(at_once.by_head, in_pieces.by_head, strict=True):
        assert (a.frozen, a.free, a.single) == (near(b.frozen), near(b.free), near(b.single))


def test_a_run_that_was_intervened_in_and_windows_of_nothing_are_refused():
    config = ModelConfig(vocab=7, context=6, d_model=4, layers=1, attention=Attention(heads=2, d_head=2))
    weights = Weights.draw(config, seed=0)
    with pytest.raises(InputError, match="intervened"):
        orders(record(weights, torch.tensor([[1, 2]]), tap=Zero(Place("L0.attention"))))
    with pytest.raises(InputError, match="at least two tokens"):
        study(weights, torch.tensor([[1]]))
