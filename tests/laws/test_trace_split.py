"""Every split adds up to what it splits, at every level, in every way, for every member of the family."""

from collections import defaultdict

import pytest
import torch
from hypothesis import given
from hypothesis import strategies as st

from headwater.model.forward import forward
from headwater.model.record import record
from headwater.model.taps import Tap
from headwater.trace.run import Run
from strategies import models

numbers = st.integers(0, 100)
NO_END = 10**6


def run_of(weights, tokens):
    return Run.of(record(weights, tokens[:1]))


def adds_up(split):
    size = 1 + sum(abs(part.value) for part in split.parts) + abs(split.value)
    assert split.certificate <= 1e-9 * size, (split.label, split.by, split.certificate)


@given(models(), numbers, numbers, st.data())
def test_every_split_adds_up_at_every_level_in_every_way(member, at, which, data):
    weights, tokens = member
    run = run_of(weights, tokens)
    why = run.explain(at % tokens.shape[1], which % weights.config.vocab)
    assert why.value == pytest.approx(float(run.logits[0, why.facts["position"], why.facts["id"]]), rel=1e-12)
    adds_up(why)
    for way in why.node.ways:
        adds_up(why.split(way, most=data.draw(st.sampled_from([0, 1, 3, None]))))
    split = why
    for _ in range(4):
        deeper = [part for part in split.parts if part.ways]
        if not deeper:
            break
        part = data.draw(st.sampled_from(deeper))
        split = part.split(data.draw(st.sampled_from(part.ways)), most=data.draw(st.sampled_from([2, None])))
        adds_up(split)


@given(models(), numbers, numbers, numbers)
def test_differences_and_centred_logits_add_up_too(member, at, which, other):
    weights, tokens = member
    run, vocab = run_of(weights, tokens), weights.config.vocab
    position, token, against = at % tokens.shape[1], which % vocab, other % vocab
    said = run.logits[0, position].log_softmax(dim=-1)
    difference = run.explain(position, token, against)
    adds_up(difference)
    assert difference.value == pytest.approx(float(said[token] - said[against]), abs=1e-9)
    centred = run.explain(position, token, centred=True)
    adds_up(centred)
    assert centred.value == pytest.approx(float(said[token] - said.mean()), abs=1e-9)


@given(models(layers=st.integers(0, 2)), numbers, numbers)
def test_paths_walked_to_their_ends_are_the_totals_of_the_sweep(member, at, which):
    weights, tokens = member
    run = run_of(weights, tokens)
    why = run.explain(at % tokens.shape[1], which % weights.config.vocab)
    walked = why.walk(share=1.0, budget=NO_END, most=NO_END)
    adds_up(walked)
    assert walked.facts["resolved"] == 1.0
    by_token, by_position, by_order = defaultdict(float), defaultdict(float), defaultdict(float)
    for path in walked.parts:
        if path.facts["name"] in ("embed", "positions"):
            (by_token if path.facts["name"] == "embed" else by_position)[path.facts["position"]] += path.value
            by_order[sum("H" in step for step in path.facts["steps"][1:])] += path.value
    totals = run.totals(why.facts["position"], why.facts["id"])
    size = 1e-9 * (1 + sum(abs(path.value) for path in walked.parts))
    for position in range(tokens.shape[1]):
        assert float(totals.tokens[0, position]) == pytest.approx(by_token[position], abs=size)
        if totals.positions is not None:
            assert float(totals.positions[0, position]) == pytest.approx(by_position[position], abs=size)
    for order, value in enumerate(totals.orders[0]):
        assert float(value) == pytest.approx(by_order[order], abs=size)


@given(models(), numbers)
def test_totals_of_all_positions_at_once_are_those_of_each(member, which):
    weights, tokens = member
    run, token = run_of(weights, tokens), which % weights.config.vocab
    together = run.totals(None, token)
    size = 1e-9 * (1 + float(together.tokens.abs().sum()) + sum(float(value.abs().sum()) for value in together.biases.values()))
    assert together.certificate <= size
    for position in range(tokens.shape[1]):
        alone = run.totals(position, token)
        assert torch.allclose(together.tokens[position], alone.tokens[0], atol=size)
        assert torch.allclose(together.orders[position], alone.orders[0], atol=size)
        for kind in ("biases", "writes", "layers"):
            for name, values in getattr(together, kind).items():
                assert float(values[position]) == pytest.approx(float(getattr(alone, kind)[name][0]), abs=size), name


class WithoutLayer(Tap):
    """The frozen model in which one layer writes nothing at all."""

    def __init__(self, run, layer):
        self.run, self.writes = run, (f"L{layer}.attention", f"L{layer}.feed_forward")

    def wants(self, site):
        return site in self.writes or site.endswith(("pattern", "scale", "gates"))

    def __call__(self, site, value):
        return torch.zeros_like(value) if site in self.writes else self.run[site]


@given(models(layers=st.integers(1, 3)), numbers, numbers)
def test_a_layers_total_is_what_the_frozen_model_loses_without_it(member, at, which):
    weights, tokens = member
    run = run_of(weights, tokens)
    position, token = at % tokens.shape[1], which % weights.config.vocab
    totals = run.totals(position, token)
    for layer in range(weights.config.layers):
        with torch.no_grad():
            without = forward(weights, tokens[:1], WithoutLayer(run, layer))
        fell = float(run.logits[0, position, token] - without[0, position, token])
        assert float(totals.layers[f"L{layer}"][0]) == pytest.approx(fell, rel=1e-8, abs=1e-8)


@given(models(layers=st.integers(1, 2)), numbers, numbers)
def test_a_heads_sources_are_its_attention_times_what_their_values_say(member, at, which):
    """A slow twin: only the last block's heads, whose writes reach the logits along the stream alone."""
    weights, tokens = member
    run, layer = run_of(weights, tokens), weights.config.layers - 1
    position, token = at % tokens.shape[1], which % weights.config.vocab
    why = run.explain(position, token)
    pattern, values = run[f"L{layer}.pattern"][0], run[f"L{layer}.values"][0]
    attention = weights.blocks[layer].attention
    group = len(attention.W_O) // len(attention.W_V)
    for head in range(weights.config.heads):
        part = why.split(most=None)[f"L{layer}H{head}"]
        told = {
            source.facts["position"]: source.value
            for source in part.split("source", most=None).parts
            if source.kind == "source"
        }
        q = part.node.q[0]
        for source, value in told.items():
            v = values[head // group, source]
            if attention.b_V is not None:
                v = v - attention.b_V[head // group]
            expected = sum(float(pattern[head, position, source] * v[e] * attention.W_O[head, e] @ q) for e in range(len(v)))
            assert value == pytest.approx(expected, rel=1e-8, abs=1e-9)
        assert set(told) >= {s for s in range(tokens.shape[1]) if float(pattern[head, position, s]) > 0}


@given(models(layers=st.integers(1, 2)), numbers, numbers)
def test_the_rows_that_a_question_needs_are_those_of_the_whole_pass(member, at, which):
    weights, tokens = member
    run, length = run_of(weights, tokens), tokens.shape[1]
    rows = torch.tensor(sorted({at % length, which % length}))
    for layer in range(weights.config.layers):
        assert torch.allclose(run.frozen.pattern(layer, rows), run[f"L{layer}.pattern"][0][:, rows], atol=1e-12)
        if weights.config.feed_forward:
            assert torch.allclose(run.frozen.gates(layer, rows), run[f"L{layer}.gates"][0, rows], atol=1e-12)
            assert torch.allclose(run.frozen.neurons(layer, rows), run[f"L{layer}.neurons"][0, rows], atol=1e-12)


@given(models(layers=st.integers(1, 2)), numbers)
def test_a_walk_resolves_what_it_says(member, which):
    weights, tokens = member
    run = run_of(weights, tokens)
    why = run.explain(-1, which % weights.config.vocab)
    for budget in (1, 3, 10):
        walked = why.walk(share=1.0, budget=budget, most=5)
        adds_up(walked)
        assert walked.facts["expanded"] <= budget
        assert 0 <= walked.facts["resolved"] <= 1
        values = [abs(path.value) for path in walked.parts if path.kind == "path"]
        assert values == sorted(values, reverse=True)
        assert all(path.label.endswith(" → logit") for path in walked.parts if path.kind == "path")
