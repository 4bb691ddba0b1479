"""Circuits of a model, against loops over their entries, and what is refused."""

import inspect
from dataclasses import replace

import pytest
import torch

from headwater.circuits import bases
from headwater.circuits.bases import Reader
from headwater.circuits.norms import Scales, mean_scales, norms_between, passage
from headwater.circuits.tables import direct, ov, qk
from headwater.errors import InputError
from headwater.model.config import (
    Attention,
    FeedForward,
    GatedFeedForward,
    LayerNorm,
    LearnedPositions,
    ModelConfig,
    PostNorm,
    PreNorm,
    RMSNorm,
    RotaryPositions,
    SinusoidalPositions,
    Unembedding,
)
from headwater.model.record import record
from strategies import random_tokens, random_weights
from twins import forward_twin, norm_twin, rotary_twin

ATTENTION = Attention(heads=4, d_head=4, group_size=2, input_bias=True, output_bias=True)
PLAIN = ModelConfig(vocab=7, context=5, d_model=6, layers=1, attention=ATTENTION)
PRE = replace(PLAIN, norm=PreNorm(), layers=2, feed_forward=FeedForward(d_mlp=3))
ROTARY = replace(PLAIN, positions=RotaryPositions(dims=2))
PLACED = replace(PLAIN, positions=LearnedPositions())


def close(ours, theirs):
    torch.testing.assert_close(ours, theirs, rtol=1e-10, atol=1e-10)


def entry(*factors):
    """A row, matrices and a column multiplied out by loops."""
    row, *matrices, column = factors
    for matrix in matrices:
        row = [sum(float(row[i] * matrix[i, j]) for i in range(len(row))) for j in range(matrix.shape[1])]
    return sum(float(a * b) for a, b in zip(row, column, strict=True))


def table(size, of):
    return torch.tensor([[of(row, column) for column in range(size)] for row in range(size)], dtype=torch.float64)


def test_the_direct_path_goes_from_a_token_to_the_logits_it_brings():
    weights = random_weights(PLAIN, 0)
    close(direct(weights).dense(), table(7, lambda t, out: entry(weights.W_E[t], weights.W_U[:, out])))


def test_ov_goes_from_source_to_out_through_the_value_of_the_right_group():
    weights = random_weights(PLAIN, 0)
    layer = weights.blocks[0].attention
    for head in range(4):
        W_V, W_O = layer.W_V[head // 2], layer.W_O[head]
        close(ov(weights, (0, head)).dense(), table(7, lambda s, o: entry(weights.W_E[s], W_V, W_O, weights.W_U[:, o])))  # noqa: B023


def test_qk_goes_from_dest_to_source_through_the_key_of_the_right_group_scaled():
    weights = random_weights(PLAIN, 0)
    layer, W_E = weights.blocks[0].attention, weights.W_E
    for head in range(4):
        W_Q, W_K = layer.W_Q[head], layer.W_K[head // 2]
        # √4 = 2
        close(qk(weights, (0, head)).dense(), table(7, lambda d, s: entry(W_E[d], W_Q, W_K.T, W_E[s]) / 2))  # noqa: B023


@pytest.mark.parametrize("pairs", ["halves", "adjacent"])
@pytest.mark.parametrize(("dims", "offset"), [(2, 0), (2, 3), (4, 1)])
def test_rotary_scores_depend_on_how_far_the_source_lies_behind(pairs, dims, offset):
    rotary = RotaryPositions(dims=dims, pairs=pairs)
    weights = random_weights(replace(ROTARY, positions=rotary), 0)
    layer, W_E = weights.blocks[0].attention, weights.W_E
    circuit = qk(weights, "L0H3", offset=offset)
    assert circuit.given == (f"offset {offset}",)
    queries, keys = W_E @ layer.W_Q[3], W_E @ layer.W_K[1]
    for dest_position in (offset, offset + 1):
        turned = torch.stack([rotary_twin(rotary, q, dest_position) for q in queries])
        behind = torch.stack([rotary_twin(rotary, k, dest_position - offset) for k in keys])
        close(circuit.dense(), turned @ behind.T / 2)


def test_where_attention_looks_ahead_an_offset_may_be_negative():
    weights = random_weights(replace(ROTARY, attention=replace(ATTENTION, mask="full")), 0)
    layer, W_E = weights.blocks[0].attention, weights.W_E
    ahead = torch.stack([rotary_twin(ROTARY.positions, k, 2) for k in W_E @ layer.W_K[0]])
    close(qk(weights, "L0H0", offset=-2).dense(), W_E @ layer.W_Q[0] @ ahead.T / 2)
    with pytest.raises(InputError, match="offset=-2"):
        qk(random_weights(ROTARY, 0), "L0H0", offset=-2)


@pytest.mark.parametrize("norm", [LayerNorm(), RMSNorm()])
def test_layer_0_of_a_pre_norm_model_has_every_token_at_its_own_scale(norm):
    weights = random_weights(replace(PRE, norm=PreNorm(norm=norm)), 0)
    bare = replace(weights.blocks[0].norm_1, bias=None)
    read = torch.stack([norm_twin(norm, bare, x) for x in weights.W_E])
    layer = weights.blocks[0].attention
    circuit = qk(weights, "L0H1", scales="exact")
    close(circuit.dense(), read @ layer.W_Q[1] @ layer.W_K[0].T @ read.T / 2)
    assert circuit.given == ()


def test_a_deeper_layer_says_which_scale_it_was_given():
    weights = random_weights(PRE, 0)
    assert qk(weights, "L1H0").given == ("a scale of 1 at L1.norm_1",)
    assert ov(weights, "L1H0").given == ("a scale of 1 at L1.norm_1", "a scale of 1 at final")
    scales = Scales("the corpus' mean scale", {"L1.norm_1.scale": 0.5, "final.scale": 0.25})
    assert repr(ov(weights, "L1H0", scales=scales)) == (
        "Circuit(L1H0 OV: tokens 7 → tokens 7, inner 4; "
        "given the corpus' mean scale at L1.norm_1 (0.5), the corpus' mean scale at final (0.25))"
    )
    close(ov(weights, "L1H0", scales=scales).dense(), ov(weights, "L1H0").dense() / 8)
    close(qk(weights, "L1H0", scales=scales).dense(), qk(weights, "L1H0").dense() / 4)


def test_biases_are_rows_with_names():
    weights = random_weights(replace(PRE, unembedding=Unembedding(bias=True)), 0)
    heads = [f"L{layer}H{head}.{name}" for layer in (0, 1) for head in range(4) for name in ("b_V", "norm_1.bias")]
    circuit = direct(weights, source="biases")
    expected = [*heads[:8], "L0.b_O", "L0.b_out", *heads[8:], "L1.b_O", "L1.b_out", "final.bias", "b_U"]
    assert list(circuit.row_side.names) == expected
    close(circuit.dense()[-1], weights.b_U)
    close(circuit.dense()[-2], weights.norm_final.bias @ weights.W_U)
    layer, final = weights.blocks[0].attention, weights.norm_final
    centred = layer.b_V[1] @ layer.W_O[3] - (layer.b_V[1] @ layer.W_O[3]).mean()
    close(circuit.dense()[expected.index("L0H3.b_V")], centred * final.gain @ weights.W_U)
    assert qk(weights, "L0H3", dest="biases").row_side.names == ("L0.norm_1.bias", "b_Q")
    assert qk(weights, "L0H3", source="biases").column_side.names == ("L0.norm_1.bias", "b_K")
    close(ov(weights, "L0H3", source="biases", out="stream").dense()[-1], layer.b_V[1] @ layer.W_O[3])


def test_a_model_without_biases_has_no_such_circuits():
    weights = random_weights(replace(PLAIN, attention=Attention(heads=1, d_head=2)), 0)
    for circuit in (lambda: direct(weights, source="biases"), lambda: qk(weights, "L0H0", dest="biases")):
        with pytest.raises(InputError, match="biases that"):
            circuit()


def test_positions_are_rows_where_the_model_adds_them():
    weights = random_weights(PLACED, 0)
    W_pos, layer = weights.W_pos, weights.blocks[0].attention
    close(ov(weights, "L0H2", source="positions").dense(), W_pos @ layer.W_V[1] @ layer.W_O[2] @ weights.W_U)
    close(direct(weights, source="positions").dense(), W_pos @ weights.W_U)
    circuit = qk(weights, "L0H2", dest="positions", source="tokens")
    assert circuit.shape == (5, 7)
    assert (circuit.row_side.kind, circuit.column_side.kind) == ("positions", "tokens")


@pytest.mark.parametrize("positions", [LearnedPositions(into="queries-and-keys"), SinusoidalPositions(into="queries-and-keys")])
def test_positions_that_only_queries_and_keys_read_pass_no_norm_and_reach_no_value(positions):
    weights = random_weights(replace(PRE, positions=positions), 0)
    assert qk(weights, "L1H0", dest="positions", source="positions", scales="exact").given == ()
    for circuit in (lambda: ov(weights, "L0H0", source="positions"), lambda: direct(weights, source="positions")):
        with pytest.raises(InputError, match="only queries and keys read"):
            circuit()


def test_positions_that_are_no_vectors_are_refused():
    with pytest.raises(InputError, match="rotary"):
        qk(random_weights(ROTARY, 0), "L0H0", dest="positions")
    with pytest.raises(InputError, match="a model without any"):
        ov(random_weights(PLAIN, 0), "L0H0", source="positions")


@pytest.mark.parametrize("offset", [-1, 5])
def test_an_offset_outside_the_context_is_refused(offset):
    with pytest.raises(InputError, match="from 0 to 4"):
        qk(random_weights(ROTARY, 0), "L0H0", offset=offset)


def test_an_offset_without_rotary_positions_is_refused():
    with pytest.raises(InputError, match="without rotary positions"):
        qk(random_weights(PLAIN, 0), "L0H0", offset=0)


@pytest.mark.parametrize(
    "config",
    [
        PRE,
        replace(PRE, norm=PostNorm()),
        replace(PRE, feed_forward=GatedFeedForward(d_mlp=3, bias=True, reads="beside-attention")),
        replace(PRE, feed_forward=FeedForward(d_mlp=3, reads="beside-attention")),
    ],
)
def test_effective_tokens_are_one_block_whose_attention_writes_nothing(config, monkeypatch):
    monkeypatch.setattr(bases, "ROWS_AT_ONCE", 3)
    weights = random_weights(replace(config, layers=1), 0)
    silent = {"blocks.0.attn.W_O": torch.zeros(4, 4, 6).double(), "blocks.0.attn.b_O": torch.zeros(6).double()}
    weights = weights.changed(silent)
    logits = forward_twin(weights, torch.arange(7)[:, None])[:, 0]
    final = 0 if isinstance(config.norm, PostNorm) else weights.norm_final.bias @ weights.W_U
    close(direct(weights, source="effective-tokens").dense(), logits - final)


def test_effective_tokens_name_what_is_left_out():
    weights = random_weights(replace(PRE, positions=LearnedPositions(), layers=3), 0)
    left_out = ("block 0's attention left out", "positions left out")
    assert qk(weights, "L1H0", dest="effective-tokens", source="effective-tokens").given == left_out
    given = qk(weights, "L2H0", dest="effective-tokens", source="effective-tokens").given
    assert given == (*left_out, "a scale of 1 at L2.norm_1")


@pytest.mark.parametrize(("config", "head"), [(PRE, "L0H0"), (replace(PRE, feed_forward=None), "L1H0")])
def test_effective_tokens_need_a_feed_forward_layer_before_the_reader(config, head):
    with pytest.raises(InputError, match="effective tokens in"):
        ov(random_weights(config, 0), head, source="effective-tokens")


def test_post_norm_contributions_pass_every_later_norm():
    config = replace(PRE, norm=PostNorm(), positions=LearnedPositions())
    assert norms_between(config, "embed", "L0.attention") == []
    assert norms_between(config, "L0.attention", "L1.attention") == ["L0.norm_1.scale", "L0.norm_2.scale"]
    assert norms_between(config, "L0.feed_forward", "L1.feed_forward") == ["L0.norm_2.scale", "L1.norm_1.scale"]
    weights = random_weights(config, 0)
    assert qk(weights, "L0H0", scales="exact").given == ()
    assert ov(weights, "L1H0").given == tuple(f"a scale of 1 at L{layer}.norm_{n}" for layer in (0, 1) for n in (1, 2))
    way, eye = passage(weights, "embed", "unembed"), torch.eye(6).double()
    close(way.push(eye), way.pull(eye))
    assert (way.push(eye) - replace(way, gains=way.gains[::-1]).push(eye)).abs().max() > 0.01
    centred = passage(weights, "L1.feed_forward", "unembed").push(torch.ones(2, 6).double())
    close(centred, torch.zeros(2, 6).double())


def test_mean_scales_are_those_of_the_run():
    weights, tokens = random_weights(PRE, 0), random_tokens(PRE, 0)
    scales = mean_scales(weights, tokens, words="the mean scale of ten tokens")
    assert set(scales.values) == {f"L{layer}.norm_{n}.scale" for layer in (0, 1) for n in (1, 2)} | {"final.scale"}
    assert scales.values["final.scale"] == pytest.approx(float(record(weights, tokens)["final.scale"].mean()), rel=1e-12)
    assert ov(weights, "L1H0", scales=scales).given[-1].startswith("the mean scale of ten tokens at final (")


def test_scales_that_are_none_or_missing_are_refused():
    with pytest.raises(InputError, match=r"a scale of 0\.0"):
        Scales("none", {"final.scale": 0.0})
    with pytest.raises(InputError, match="no scale for final"):
        ov(random_weights(PRE, 0), "L0H0", scales=Scales("half of them", {"L0.norm_1.scale": 1.0}))


def test_an_unknown_side_is_refused():
    # Past the check of types, which only tests have.
    basis = inspect.unwrap(Reader.basis)
    with pytest.raises(InputError, match="did you mean tokens"):
        basis(Reader(random_weights(PLAIN, 0), "unembed"), "token")


@pytest.mark.parametrize("dtype", [torch.float16, torch.bfloat16, torch.float32])
def test_half_precision_is_widened(dtype):
    weights = random_weights(PRE, 0, dtype)
    for circuit in (direct(weights), ov(weights, "L1H3"), qk(weights, "L1H3")):
        assert circuit.dtype == torch.float32
    wide = ov(weights.to(dtype=torch.float64), "L1H3").dense()
    # Within float32's rounding, far below that of half precision.
    torch.testing.assert_close(ov(weights, "L1H3").dense(), wide.float())


def test_the_inner_dimension_is_the_smallest_there_is():
    weights = random_weights(PLAIN, 0)
    assert (direct(weights).inner, ov(weights, "L0H0").inner, qk(weights, "L0H0").inner) == (6, 4, 4)


def test_rotary_positions_leave_only_changes_that_commute_with_the_turn():
    config = replace(ROTARY, attention=Attention(heads=1, d_head=2))
    weights = random_weights(config, 0)
    layer = weights.blocks[0].attention

    def changed(R):
        return weights.changed({"blocks.0.attn.W_Q": layer.W_Q @ R, "blocks.0.attn.W_K": layer.W_K @ torch.linalg.inv(R).mT})

    turn = torch.tensor([[0.6, 0.8], [-0.8, 0.6]], dtype=torch.float64)
    stretch = torch.tensor([[2.0, 0.0], [0.0, 1.0]], dtype=torch.float64)
    before = qk(weights, "L0H0", offset=1).dense()
    close(qk(changed(turn), "L0H0", offset=1).dense(), before)
    assert (qk(changed(stretch), "L0H0", offset=1).dense() - before).abs().max() > 0.01
    close(qk(changed(stretch), "L0H0", offset=0).dense(), qk(weights, "L0H0", offset=0).dense())
