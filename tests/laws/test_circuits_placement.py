"""Shares of the variance of scores: equal to loops over every token and position, whatever kind of positions a model has."""

from dataclasses import replace
from itertools import product

import pytest
import torch
from hypothesis import given
from hypothesis import strategies as st

import headwater
from headwater.circuits import placement
from headwater.circuits.behaviour import attending
from headwater.circuits.head import Head, every_head
from headwater.circuits.placement import placements
from headwater.circuits.tables import qk
from headwater.errors import InputError
from headwater.model.config import (
    Attention,
    LearnedPositions,
    ModelConfig,
    NoPositions,
    RotaryPositions,
    SinusoidalPositions,
)
from strategies import models, random_weights, seeds

KINDS = [
    NoPositions(),
    LearnedPositions(),
    LearnedPositions(into="queries-and-keys"),
    SinusoidalPositions(),
    SinusoidalPositions(into="queries-and-keys"),
    RotaryPositions(dims=4),
    RotaryPositions(dims=2, pairs="adjacent", base=100.0),
]


def kinds_of_lines(weights, head):
    """Tokens, and whatever else a head reads."""
    lines = ["tokens"]
    for kind in ("positions", "biases"):
        try:
            qk(weights, head, dest=kind, source=kind)
        except InputError:
            continue
        lines.append(kind)
    return lines


def every_score(weights, head):
    """``[B, i, A, j]``: the score of token A at j for token B at i, all of them."""
    config = weights.config
    scores = torch.zeros(config.vocab, config.context, config.vocab, config.context, dtype=torch.float64)
    is_rotary, full = isinstance(config.positions, RotaryPositions), config.attention.mask == "full"
    kinds = kinds_of_lines(weights, head)
    for dest, source in product(kinds, kinds):
        tables = {}
        for i, j in product(range(config.context), repeat=2):
            offset = i - j if is_rotary else None
            if full or j <= i:
                if offset not in tables:
                    tables[offset] = qk(weights, head, dest=dest, source=source, offset=offset).dense()
                rows = chosen(tables[offset], dest, i)
                scores[:, i, :, j] += chosen(rows.T, source, j).T
    return scores


def chosen(lines, kind, at):
    """The lines that count at a position: all tokens, this position, all biases together."""
    return {"tokens": lines, "positions": lines[at : at + 1], "biases": lines.sum(0, keepdim=True)}[kind]


def slow(weights, head, shares):
    """The definitions, number by number."""
    config, p = weights.config, shares.tolist()
    scores = every_score(weights, head).tolist()
    total = by_position = by_token = 0.0
    for i in range(config.context):
        seen = range(config.context) if config.attention.mask == "full" else range(i + 1)
        for b in range(config.vocab):
            row = scores[b][i]
            weight = p[b] / config.context
            mean = sum(p[a] * row[a][j] for a in range(config.vocab) for j in seen) / len(seen)
            total += weight * sum(p[a] * (row[a][j] - mean) ** 2 for a in range(config.vocab) for j in seen) / len(seen)
            of_positions = [sum(p[a] * row[a][j] for a in range(config.vocab)) for j in seen]
            of_tokens = [sum(row[a][j] for j in seen) / len(seen) for a in range(config.vocab)]
            by_position += weight * sum((value - mean) ** 2 for value in of_positions) / len(seen)
            by_token += weight * sum(p[a] * (of_tokens[a] - mean) ** 2 for a in range(config.vocab))
    return total, by_position, by_token


def assert_equal(found, twin):
    total, by_position, by_token = twin
    near = {"rel": 1e-9, "abs": 1e-12 * max(1.0, total)}
    assert found.variance == pytest.approx(total, **near)
    assert found.positions * found.variance == pytest.approx(by_position, **near)
    assert found.tokens * found.variance == pytest.approx(by_token, **near)
    assert found.positions + found.tokens + found.together == pytest.approx(1.0) or not found.variance


@pytest.mark.parametrize("mask", ["causal", "full"])
@pytest.mark.parametrize("positions", KINDS, ids=repr)
def test_shares_are_those_of_loops_for_every_kind_of_positions(positions, mask):
    attention = Attention(heads=2, d_head=5, mask=mask, input_bias=True)
    config = ModelConfig(vocab=4, context=4, d_model=6, layers=1, attention=attention, positions=positions)
    weights = random_weights(config, seed=3)
    shares = torch.tensor([0.4, 0.3, 0.3, 0.0], dtype=torch.float64)
    found = placements(weights, ["L0H1"], frequencies=10 * shares)
    assert_equal(found[0], slow(weights, "L0H1", shares))
    if not isinstance(positions, RotaryPositions):
        assert found[0].together == 0


@given(models(layers=st.integers(1, 2)), seeds, st.booleans())
def test_shares_are_those_of_loops_in_the_whole_family(member, seed, is_even):
    weights, _ = member
    config = replace(weights.config, context=min(weights.config.context, 3), vocab=min(weights.config.vocab, 4))
    weights = random_weights(config, member.seed)
    head = every_head(config)[seed % len(every_head(config))]
    drawn = torch.rand(config.vocab, generator=torch.Generator().manual_seed(seed), dtype=torch.float64) + 0.01
    shares = torch.full_like(drawn, 1 / len(drawn)) if is_even else drawn / drawn.sum()
    [found] = placements(weights, [head], frequencies=None if is_even else shares)
    assert_equal(found, slow(weights, head, shares))


@given(models(layers=st.integers(1, 2)), seeds)
def test_renaming_tokens_changes_nothing(member, seed):
    weights, _ = member
    order = torch.randperm(weights.config.vocab, generator=torch.Generator().manual_seed(seed))
    shares = torch.arange(1.0, weights.config.vocab + 1, dtype=torch.float64)
    renamed = replace(weights, W_E=weights.W_E[order])
    ours, theirs = placements(weights, frequencies=shares), placements(renamed, frequencies=shares[order])
    for one, other in zip(ours, theirs, strict=True):
        assert one.variance == pytest.approx(other.variance, rel=1e-9)
        assert one.positions == pytest.approx(other.positions, abs=1e-9)


def test_all_heads_are_told_alone_as_together():
    weights = headwater.load("two-layer").weights
    together = placements(weights)
    assert [one.head for one in together] == every_head(weights.config)
    assert placements(weights, ["L1H2", "L0H1"]) == (together[6], together[1])


def test_the_previous_token_head_is_explained_by_positions():
    weights = headwater.load("two-layer").weights
    found = {one.head: one for one in placements(weights)}
    previous = max(attending(weights), key=lambda one: one.previous).head
    assert previous == Head(0, 2)
    assert found[previous].positions == max(one.positions for one in found.values()) > 0.95


def test_scores_that_are_all_alike_have_no_shares():
    weights = headwater.load("two-layer").weights
    block = weights.blocks[0]
    attention = replace(block.attention, W_Q=torch.zeros_like(block.attention.W_Q))
    still = replace(weights, blocks=(replace(block, attention=attention), *weights.blocks[1:]))
    [found] = placements(still, ["L0H0"])
    assert (found.variance, found.positions, found.tokens, found.together) == (0, 0, 0, 0)


def test_a_long_context_is_cut_and_that_is_said(monkeypatch):
    weights = headwater.load("two-layer").weights
    monkeypatch.setattr(placement, "LONGEST", 16)
    [short] = placements(weights, ["L0H2"])
    assert short.given == ("the first 16 positions",)
    monkeypatch.undo()
    [whole] = placements(weights, ["L0H2"])
    assert whole.given == ()
    assert whole.variance != short.variance
