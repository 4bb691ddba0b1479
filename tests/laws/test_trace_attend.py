"""An attention score is the sum of what each part of the query and each part of the key make of each other, for every member of the family."""

import math

import pytest
import torch
from hypothesis import given
from hypothesis import strategies as st

import headwater as hw
from headwater.errors import InputError
from headwater.model.config import LayerNorm, NoNorm, PreNorm, RotaryPositions
from headwater.model.forward import forward
from headwater.model.positions import for_each_head
from headwater.model.record import record
from headwater.model.taps import Tap
from headwater.trace.run import Run
from headwater.trace.sweep import sweep
from strategies import models, norms
from twins import rotary_twin, sinusoid_twin

numbers = st.integers(0, 100)
deep = models(layers=st.integers(1, 3))


def asked(member, which, other=None):
    """A run, and a head, destination and source of it that the mask allows."""
    weights, tokens = member
    run, config, length = Run.of(record(weights, tokens[:1])), weights.config, tokens.shape[1]
    layer, head, dest = which % config.layers, which % config.heads, which % length
    last = dest if config.attention.mask == "causal" else length - 1
    source = (which // 7) % (last + 1)
    against = None if other is None or not last else (source + 1 + other % last) % (last + 1)
    return run, run.attend((layer, head), dest, source, against)


def adds_up(split):
    size = 1 + sum(abs(part.value) for part in split.parts) + abs(split.value)
    assert split.certificate <= 1e-9 * size, (split.label, split.by, split.certificate)


def descend(split, data):
    """Adds up however it is taken apart, at each level of one way down."""
    for _ in range(4):
        adds_up(split)
        deeper = [part for part in split.parts if part.ways]
        if not deeper:
            return
        part = data.draw(st.sampled_from(deeper))
        split = part.split(data.draw(st.sampled_from(part.ways)), most=data.draw(st.sampled_from([2, None])))


@given(deep, numbers, st.one_of(st.none(), numbers))
def test_the_table_adds_up_to_the_models_score_and_its_rows_and_columns_to_both_sides(member, which, other):
    run, why = asked(member, which, other)
    scores = run[f"L{why.head.layer}.scores"][0, why.head.head, why.dest]
    truth = float(scores[why.source]) - (0.0 if why.against is None else float(scores[why.against]))
    size = 1e-9 * (1 + float(why.table.abs().sum()))
    assert why.value == pytest.approx(truth, abs=size)
    assert why.score == pytest.approx(float(scores[why.source]), abs=size)
    assert float(why.table.sum()) == pytest.approx(truth, abs=size)
    assert why.certificate <= size
    assert why.table.sum(dim=1).tolist() == pytest.approx([part.value for part in why.query_parts], abs=size)
    assert why.table.sum(dim=0).tolist() == pytest.approx([part.value for part in why.key_parts], abs=size)


@given(deep)
def test_every_score_that_the_mask_allows_is_explained_and_no_other(member):
    weights, tokens = member
    run, config, length = Run.of(record(weights, tokens[:1])), weights.config, min(tokens.shape[1], 3)
    for layer in range(config.layers):
        scores, head = run[f"L{layer}.scores"][0], layer % config.heads
        for dest in range(length):
            for source in range(length):
                if math.isinf(float(scores[head, dest, source])):
                    with pytest.raises(InputError, match="as a source of"):
                        run.attend((layer, head), dest, source)
                else:
                    why = run.attend((layer, head), dest, source)
                    size = 1e-9 * (1 + float(why.table.abs().sum()))
                    assert float(why.table.sum()) == pytest.approx(float(scores[head, dest, source]), abs=size)


@given(deep, numbers, st.one_of(st.none(), numbers), st.data())
def test_both_sides_add_up_at_every_level_in_every_way(member, which, other, data):
    _, why = asked(member, which, other)
    side = getattr(why, data.draw(st.sampled_from(["query", "key", "by_query", "by_key"])))
    adds_up(side)
    way = data.draw(st.sampled_from(side.node.ways))
    adds_up(side.split(way, most=data.draw(st.sampled_from([0, 1, 3, None]))))
    descend(side, data)


@given(deep, numbers, st.one_of(st.none(), numbers), st.data())
def test_one_part_of_a_side_held_fixed_is_a_row_or_a_column_of_the_table(member, which, other, data):
    _, why = asked(member, which, other)
    size = 1e-9 * (1 + float(why.table.abs().sum()))
    sides = [
        (why.given_query, why.query_parts, why.key_parts, why.table),
        (why.given_key, why.key_parts, why.query_parts, why.table.T),
    ]
    given_part, fixed, met, table = data.draw(st.sampled_from(sides))
    row = data.draw(st.integers(0, len(fixed) - 1))
    split = given_part(fixed[row].label)
    assert split.value == fixed[row].value
    expected = dict(zip([part.label for part in met], table[row].tolist(), strict=True))
    assert {part.label: part.value for part in split.split(most=None).parts} == pytest.approx(expected, abs=size)
    descend(split, data)


@given(deep, numbers, numbers, st.integers(0, 4))
def test_a_cut_table_still_adds_up(member, which, other, most):
    _, why = asked(member, which, other)
    grid = why.grid(most)
    size = 1e-9 * (1 + float(why.table.abs().sum()))
    assert math.fsum(value for row in grid.values for value in row) == pytest.approx(why.value, abs=size)
    assert len(grid.rows) <= most + 1
    assert len(grid.columns) <= most + 1
    assert math.fsum(part["value"] for part in why.plain(most)["parts"]) == pytest.approx(why.value, abs=size)


@given(deep, numbers, st.one_of(st.none(), numbers))
def test_the_competition_is_the_models_pattern(member, which, other):
    run, why = asked(member, which, other)
    pattern = run[f"L{why.head.layer}.pattern"][0, why.head.head, why.dest]
    seen, found = why.competition.positions, why.competition
    assert torch.allclose(found.attention, pattern[seen], atol=1e-12)
    assert float(found.attention.sum()) == pytest.approx(1)
    assert why.attention == pytest.approx(float(pattern[why.source]))
    odds = (pattern[why.source] / pattern[seen]).log()
    assert torch.allclose(found.log_odds, odds, atol=1e-8)
    assert 1 - 1e-9 <= found.effective <= len(seen) + 1e-9
    if why.against is not None:
        assert why.value == pytest.approx(float((pattern[why.source] / pattern[why.against]).log()), abs=1e-8)


class FrozenBelow(Tap):
    """The model with everything held fixed that a run measured; embeddings can be differentiated, queries and keys are kept."""

    def __init__(self, run):
        self.run, self.embed, self.made = run, run["embed"].clone().requires_grad_(), {}

    def wants(self, site):
        return site == "embed" or site.endswith(("pattern", "scale", "gates", "queries", "keys"))

    def __call__(self, site, value):
        if site.endswith(("queries", "keys")):
            self.made[site] = value
            return value
        return self.embed if site == "embed" else self.run[site]


@given(deep, numbers, st.one_of(st.none(), numbers))
def test_each_side_is_the_gradient_of_the_frozen_model_in_which_the_other_side_is_fixed(member, which, other):
    run, why = asked(member, which, other)
    frozen, config, site = FrozenBelow(run), run.config, f"L{why.head.layer}."
    forward(run.weights, run.tokens, frozen)
    q, k = frozen.made[f"{site}queries"][0], for_each_head(frozen.made[f"{site}keys"], config.heads)[0]
    query, key = q[why.head.head, why.dest], k[why.head.head, why.source]
    key = key if why.against is None else key - k[why.head.head, why.against]
    for side, score in [(why.query, query @ key.detach()), (why.key, query.detach() @ key)]:
        (gradient,) = torch.autograd.grad(config.attention.scale * score, frozen.embed, retain_graph=True)
        size = 1e-9 * (1 + float(gradient.abs().max()))
        assert torch.allclose(sweep(run, side.node.question).q[0], gradient[0], rtol=1e-9, atol=size)
        tokens = {part.facts["position"]: part.value for part in side.split("token", most=None).parts if part.kind == "token"}
        for position, value in tokens.items():
            truth = float(gradient[0, position] @ run["embed"][0, position])
            assert value == pytest.approx(truth, rel=1e-9, abs=1e-9 * (1 + float(why.table.abs().sum())))


def written_twin(run, layer, position):
    """Every write to the stream that a layer's heads read at one position, by its name."""
    writes = {"embed": run["embed"][0, position]}
    if "positions" in run:
        writes["positions"] = run["positions"][position]
    for below in range(layer):
        block = run.weights.blocks[below]
        for head in range(run.config.heads):
            writes[f"L{below}H{head}"] = run[f"L{below}.head_writes"][0, head, position]
        if block.attention.b_O is not None:
            writes[f"L{below}.b_O"] = block.attention.b_O
        if block.feed_forward is not None:
            bias = block.feed_forward.b_out
            writes[f"L{below}.feed_forward"] = run[f"L{below}.feed_forward"][0, position] - (0 if bias is None else bias)
            if bias is not None:
                writes[f"L{below}.b_out"] = bias
    return writes


def side_twin(run, head, position, letter):
    """What every write put into a query or a key, one after the other."""
    config, weights = run.config, run.weights.blocks[head.layer]
    number = head.head if letter == "Q" else head.head // config.attention.group_size
    W, b = (getattr(weights.attention, f"{kind}_{letter}") for kind in "Wb")
    read = {}
    for name, write in written_twin(run, head.layer, position).items():
        x = write
        if isinstance(config.norm, PreNorm):
            x = x - x.mean() if isinstance(config.norm.norm, LayerNorm) else x
            x = x * run[f"L{head.layer}.norm_1.scale"][0, position]
            x = x if weights.norm_1.gain is None else x * weights.norm_1.gain
        read[name] = x @ W[number]
    if weights.norm_1.bias is not None:
        read[f"L{head.layer}.norm_1.bias"] = weights.norm_1.bias @ W[number]
    if getattr(config.positions, "into", None) == "queries-and-keys":
        learned = run.weights.W_pos
        mark = sinusoid_twin(config.d_model, config.positions.base, position) if learned is None else learned[position]
        read["positions"] = mark @ W[number]
    if b is not None:
        read[f"{head}.b_{letter}"] = b[number]
    if isinstance(config.positions, RotaryPositions):
        return {name: rotary_twin(config.positions, x, position) for name, x in read.items()}
    return read


@given(models(layers=st.integers(1, 3), norm=st.one_of(st.just(NoNorm()), st.builds(PreNorm, norm=norms))), numbers)
def test_loops_over_writes_give_the_same_table(member, which):
    run, why = asked(member, which)
    queries, keys = side_twin(run, why.head, why.dest, "Q"), side_twin(run, why.head, why.source, "K")
    assert {part.facts["name"] for part in why.query_parts} == set(queries)
    assert {part.facts["name"] for part in why.key_parts} == set(keys)
    size = 1e-9 * (1 + float(why.table.abs().sum()))
    for row, query in enumerate(why.query_parts):
        for column, key in enumerate(why.key_parts):
            q, k = queries[query.facts["name"]], keys[key.facts["name"]]
            expected = run.config.attention.scale * sum(float(a * b) for a, b in zip(q, k, strict=True))
            assert float(why.table[row, column]) == pytest.approx(expected, abs=size), (query.label, key.label)


def test_the_induction_head_matches_tokens_with_what_the_previous_token_head_wrote():
    model = hw.load("two-layer")
    won = []
    for seed in range(4):
        half = torch.randint(0, model.config.vocab, (24,), generator=torch.Generator().manual_seed(seed)).tolist()
        run = model.record(half + half)
        for dest in range(30, 47, 4):
            why = run.attend("L1H1", dest)
            assert why.source == dest - 24 + 1, "where the token stood before, one further"
            assert why.attention > 0.5
            row, column = divmod(int(why.table.argmax()), len(why.key_parts))
            assert (why.query_parts[row].kind, why.key_parts[column].label) == ("embedding", "L0H2")
            # It is the token before the source that the previous-token head brought there: the same as at the destination.
            brought = max(why.given_query("embed")["L0H2"].split("source").parts, key=lambda part: part.value)
            assert (brought.facts["position"], brought.facts["id"]) == (why.source - 1, int(run.tokens[0, dest]))
            won.append(why.key.parts[0].label == "L0H2" and why.key.parts[0].value > 0.4 * why.score)
    assert sum(won) >= 0.9 * len(won)
