import json
from dataclasses import replace

import pytest
import torch

from headwater.circuits.capacity import Rank, adjustments, bigram_ranks
from headwater.errors import InputError
from headwater.model.config import Attention, LayerNorm, ModelConfig, PostNorm, PreNorm, RMSNorm
from headwater.model.record import record
from strategies import random_tokens, random_weights


def one_layer(d_model, heads, d_head, vocab=17, **more):
    attention = Attention(heads=heads, d_head=d_head, **more)
    return ModelConfig(vocab=vocab, context=4, d_model=d_model, layers=1, attention=attention)


def test_named_heads_alone_adjust_in_fewer_directions():
    weights = random_weights(one_layer(12, 3, 2), 0)
    assert adjustments(weights).logits == Rank(6, 6)
    assert adjustments(weights, ["L0H1"]).logits == Rank(2, 2)
    assert adjustments(weights, ["L0H1", "L0H2", "l0h1"]).logits == Rank(4, 4)


def test_two_heads_that_write_the_same_directions_count_once():
    weights = random_weights(one_layer(12, 2, 3), 0)
    W_O = weights.blocks[0].attention.W_O
    twin = weights.changed({"blocks.0.attn.W_O": torch.stack([W_O[0], 2 * W_O[0]])})
    assert adjustments(twin).logits == Rank(3, 6)


def test_a_head_that_reads_little_writes_little():
    weights = random_weights(one_layer(12, 2, 3), 0)
    W_V = weights.blocks[0].attention.W_V.clone()
    W_V[0, :, 1:] = 0
    assert adjustments(weights.changed({"blocks.0.attn.W_V": W_V})).logits == Rank(4, 6)


def test_the_bias_of_values_is_a_value_too():
    weights = random_weights(one_layer(12, 1, 3, input_bias=True), 0)
    read_nothing = weights.changed({"blocks.0.attn.W_V": torch.zeros(1, 12, 3, dtype=torch.float64)})
    assert adjustments(read_nothing).logits == Rank(1, 3)


def test_grouped_values_are_read_by_the_heads_of_their_group():
    weights = random_weights(one_layer(12, 4, 2, group_size=2), 0)
    W_V = weights.blocks[0].attention.W_V.clone()
    W_V[1] = 0
    silent = weights.changed({"blocks.0.attn.W_V": W_V})
    assert [adjustments(silent, [f"L0H{head}"]).logits.measured for head in range(4)] == [2, 2, 0, 0]


def test_a_softmax_sees_one_direction_less_where_the_vocabulary_is_the_bound():
    found = adjustments(random_weights(one_layer(12, 6, 4, vocab=5), 0))
    assert (found.logits, found.probabilities, found.document_bound) == (Rank(5, 5), Rank(4, 4), 24)


@pytest.mark.parametrize(("norm", "dimensions"), [(LayerNorm(), 5), (RMSNorm(), 6)], ids=["layer-norm", "rms-norm"])
def test_the_last_norm_of_a_pre_norm_model_takes_its_mean_and_leaves_the_span(norm, dimensions):
    weights = random_weights(replace(one_layer(6, 3, 4), norm=PreNorm(norm=norm)), 0)
    tokens = random_tokens(weights.config, 0, batch=40)
    run = record(weights, tokens)
    written = run["L0.head_writes"].sum(dim=1) * run["final.scale"][..., None]
    written = written - written.mean(dim=-1, keepdim=True) if isinstance(norm, LayerNorm) else written
    moved = (written * weights.norm_final.gain) @ weights.W_U
    assert int(torch.linalg.matrix_rank(moved.flatten(0, 1), rtol=1e-9)) == dimensions
    assert adjustments(weights).logits == Rank(dimensions, 6)


def test_what_has_no_heads_or_no_fixed_unembedding_is_refused():
    with pytest.raises(InputError, match="no heads"):
        adjustments(random_weights(ModelConfig(vocab=5, context=2, d_model=4, layers=0), 0))
    with pytest.raises(InputError, match="post-norm"):
        adjustments(random_weights(replace(one_layer(6, 2, 3), norm=PostNorm()), 0))
    with pytest.raises(InputError, match="norms"):
        bigram_ranks(random_weights(replace(one_layer(6, 2, 3), norm=PreNorm()), 0))


def test_probabilities_are_looked_at_only_in_small_vocabularies():
    weights = random_weights(ModelConfig(vocab=40, context=2, d_model=3, layers=0), 0)
    assert bigram_ranks(weights, largest=39).probabilities is None
    assert bigram_ranks(weights, largest=40).probabilities.bound == 40
    assert bigram_ranks(weights, largest=39).logits == Rank(3, 3)


def test_the_bound_is_that_of_the_weights_and_not_only_of_the_width():
    weights = random_weights(ModelConfig(vocab=20, context=2, d_model=5, layers=0), 0)
    W_E = weights.W_E.clone()
    W_E[:, 4] = W_E[:, 0]
    found = bigram_ranks(weights.changed({"embed.W_E": W_E}))
    assert (found.embedding, found.unembedding) == (Rank(4, 5), Rank(5, 5))
    assert (found.logits, found.centred, found.log_probabilities) == (Rank(4, 4), Rank(4, 4), Rank(5, 5))


def test_answers_go_into_json():
    weights = random_weights(one_layer(6, 2, 3), 0)
    assert json.loads(json.dumps(adjustments(weights).plain()))["logits"] == {"measured": 6, "bound": 6}
    assert json.loads(json.dumps(bigram_ranks(weights, largest=1).plain()))["probabilities"] is None
