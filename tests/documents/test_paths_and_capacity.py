"""Documents 000 and 001 on paths and dimensions: Kronecker form, path expansion, and the ranks that bound what a model can say.

The documents multiply columns, ``W_U W_OV W_E t``; rows multiply from the left here, hence the transposes.
"""

from dataclasses import replace

import numpy as np
import pytest
import torch

from headwater.circuits.capacity import adjustments, bigram_ranks
from headwater.circuits.paths import by_order, circuit, contribution, count, paths
from headwater.model.config import Attention, ModelConfig, PreNorm
from headwater.model.forward import forward
from headwater.model.record import record
from strategies import random_tokens, random_weights


def attention_only(*, layers=1, d_model=12, heads=3, d_head=4, vocab=17):
    attention = Attention(heads=heads, d_head=d_head)
    return ModelConfig(vocab=vocab, context=9, d_model=d_model, layers=layers, attention=attention)


CONFIG = attention_only()


def run_of(config, seed=0, dtype=torch.float64):
    weights, tokens = random_weights(config, seed, dtype), random_tokens(config, seed, batch=1)
    run = record(weights, tokens)
    return weights, tokens, run.logits, [run[f"L{layer}.pattern"] for layer in range(config.layers)]


def kronecker_parts(weights, patterns):
    """``W_E``, ``W_U`` and for each head ``A`` and ``W_OV``, as the document's columns have them."""
    block = weights.blocks[0].attention
    heads = [
        (patterns[0][0, head].numpy(), (block.W_V[head] @ block.W_O[head]).T.numpy()) for head in range(weights.config.heads)
    ]
    return weights.W_E.T.numpy(), weights.W_U.T.numpy(), heads


def one_hot(tokens, vocab):
    return torch.nn.functional.one_hot(tokens[0], vocab).double().numpy().flatten()


def test_000_e1_the_kronecker_product_applied_to_the_text_is_the_forward_pass():
    weights, tokens, logits, patterns = run_of(CONFIG)
    W_E, W_U, heads = kronecker_parts(weights, patterns)
    n, d = tokens.shape[1], CONFIG.d_model
    middle = np.eye(n * d) + sum(np.kron(A, W_OV) for A, W_OV in heads)
    T = np.kron(np.eye(n), W_U) @ middle @ np.kron(np.eye(n), W_E)
    said = (T @ one_hot(tokens, CONFIG.vocab)).reshape(n, CONFIG.vocab)
    assert np.abs(said - logits[0].numpy()).max() <= 1e-10
    # T is linear only for the patterns of this one text: those of another give other logits.
    other = forward(weights, tokens.flip(1))[0].numpy()
    assert np.abs((T @ one_hot(tokens.flip(1), CONFIG.vocab)).reshape(n, CONFIG.vocab) - other).max() > 1e-3


def test_000_e2_and_l1_the_product_expands_into_the_direct_path_and_one_path_for_each_head():
    weights, tokens, _, patterns = run_of(CONFIG)
    W_E, W_U, heads = kronecker_parts(weights, patterns)
    n, d = tokens.shape[1], CONFIG.d_model
    factored = np.kron(np.eye(n), W_U) @ (np.eye(n * d) + sum(np.kron(A, W_OV) for A, W_OV in heads)) @ np.kron(np.eye(n), W_E)
    expanded = np.kron(np.eye(n), W_U @ W_E) + sum(np.kron(A, W_U @ W_OV @ W_E) for A, W_OV in heads)
    assert np.abs(factored - expanded).max() <= 1e-10
    # The terms are the circuits of the paths.
    direct, *through = [circuit(weights, path).dense().T.numpy() for path in paths(CONFIG)]
    assert np.abs(direct - W_U @ W_E).max() <= 1e-12
    assert len(through) == CONFIG.heads
    for table, (_, W_OV) in zip(through, heads, strict=True):
        assert np.abs(table - W_U @ W_OV @ W_E).max() <= 1e-12


@pytest.mark.parametrize(("dtype", "tolerance"), [(torch.float64, 1e-10), (torch.float32, 1e-5)], ids=["float64", "float32"])
def test_000_l1_end_to_end_paths_add_up(dtype, tolerance):
    weights, tokens, logits, patterns = run_of(CONFIG, dtype=dtype)
    total = sum(contribution(weights, path, patterns, tokens) for path in paths(CONFIG))
    assert float((total - logits).abs().max()) <= tolerance * float(logits.abs().max())


def test_000_l1_before_a_last_norm_terms_add_up_only_at_its_frozen_scale():
    weights = random_weights(replace(CONFIG, norm=PreNorm()), 0)
    run = record(weights, random_tokens(CONFIG, 0, batch=1))
    gain, bias = weights.norm_final.gain, weights.norm_final.bias
    terms = [run["embed"], *run["L0.head_writes"].unbind(dim=1)]
    centred = [term - term.mean(dim=-1, keepdim=True) for term in terms]
    frozen = sum(term * run["final.scale"][..., None] * gain for term in centred) + bias
    naive = sum(torch.nn.functional.layer_norm(term, term.shape[-1:], gain, None) for term in terms) + bias
    assert float((frozen @ weights.W_U - run.logits).abs().max()) <= 1e-10
    assert float((naive @ weights.W_U - run.logits).abs().max()) > 0.1


def test_000_n2_paths_are_counted_and_add_up_in_two_layers():
    for layers, number in ((1, 13), (2, 169), (3, 2197)):
        assert count(attention_only(layers=layers, heads=12)).total == number
    config = attention_only(layers=2)
    weights, tokens, logits, patterns = run_of(config)
    listed = list(paths(config))
    assert len(listed) == 16
    total = sum(contribution(weights, path, patterns, tokens) for path in listed)
    assert float((total - logits).abs().max()) <= 1e-10
    assert float((by_order(weights, patterns, tokens).sum(dim=0) - logits).abs().max()) <= 1e-10


# d, heads, d_head, the dimension that is measured, the document's bound h · min(d, d_head)
LEMMA_2 = [(12, 2, 3, 6, 6), (12, 3, 4, 12, 12), (12, 6, 4, 12, 24), (24, 3, 4, 12, 12)]


@pytest.mark.parametrize(("d_model", "heads", "d_head", "right", "document"), LEMMA_2)
def test_000_l2_the_space_of_adjustments_has_the_tight_bound_as_its_dimension(d_model, heads, d_head, right, document):
    config = attention_only(d_model=d_model, heads=heads, d_head=d_head, vocab=40)
    weights = random_weights(config, 0)
    found = adjustments(weights)
    assert right == min(d_model, config.vocab, heads * d_head)
    assert (found.logits.measured, found.logits.bound, found.document_bound) == (right, right, document)
    # From many texts: what attention adds to the logits is what is left without the direct path.
    tokens = random_tokens(config, 0, batch=60)
    adjusted = (forward(weights, tokens) - weights.W_E[tokens] @ weights.W_U).flatten(0, 1)
    assert int(torch.linalg.matrix_rank(adjusted, rtol=1e-9)) == right


def test_000_l2_after_the_constant_is_taken_out_the_vocabulary_bounds_by_one_less():
    config = attention_only(vocab=7)
    weights = random_weights(config, 0)
    tokens = random_tokens(config, 0, batch=60)
    adjusted = (forward(weights, tokens) - weights.W_E[tokens] @ weights.W_U).flatten(0, 1)
    centred = adjusted - adjusted.mean(dim=1, keepdim=True)
    ranks = [int(torch.linalg.matrix_rank(table, rtol=1e-9)) for table in (adjusted, centred)]
    found = adjustments(weights)
    assert ranks == [found.logits.measured, found.probabilities.measured] == [7, 6]


def test_000_l2_bounds_dimensions_and_not_sizes():
    config = attention_only()
    weights = random_weights(config, 0)
    louder = weights.changed({"blocks.0.attn.W_O": 1000 * weights.blocks[0].attention.W_O})
    assert adjustments(louder) == adjustments(weights)
    tokens = random_tokens(config, 0)
    changes = [(forward(each, tokens) - weights.W_E[tokens] @ weights.W_U).abs().max() for each in (weights, louder)]
    assert float(changes[1] / changes[0]) == pytest.approx(1000)


@pytest.mark.parametrize("d_model", [1, 2, 4])
def test_001_t1_bounds_logits_and_not_probabilities(d_model):
    weights = random_weights(ModelConfig(vocab=50, context=2, d_model=d_model, layers=0), 0)
    found = bigram_ranks(weights)
    log_p = forward(weights, torch.arange(50)[:, None])[:, 0].log_softmax(dim=1)
    centred = log_p - log_p.mean(dim=1, keepdim=True)
    assert [int(torch.linalg.matrix_rank(table, rtol=1e-10)) for table in (centred, log_p)] == [d_model, d_model + 1]
    measured = (found.logits, found.centred, found.log_probabilities)
    assert [rank.measured for rank in measured] == [rank.bound for rank in measured] == [d_model, d_model, d_model + 1]
    # Read on the probabilities the statement is wrong: their rank is far above d.
    assert int(torch.linalg.matrix_rank(log_p.exp(), rtol=1e-8)) == found.probabilities.measured > 2 * d_model + 1


@pytest.mark.parametrize(("rank_e", "rank_u"), [(3, 5), (5, 2), (5, 5)])
def test_001_e8_the_rank_of_a_product_is_at_most_that_of_its_factors(rank_e, rank_u):
    weights = random_weights(ModelConfig(vocab=20, context=2, d_model=5, layers=0), 0)
    W_E, W_U = weights.W_E.clone(), weights.W_U.clone()
    W_E[:, rank_e:] = W_E[:, :1]
    W_U[rank_u:] = W_U[:1]
    found = bigram_ranks(weights.changed({"embed.W_E": W_E, "unembed.W_U": W_U}))
    assert (found.embedding.measured, found.unembedding.measured) == (rank_e, rank_u)
    assert found.logits.bound == min(rank_e, rank_u) <= 5
    assert found.logits.measured == int(torch.linalg.matrix_rank(W_E @ W_U, rtol=1e-10)) <= found.logits.bound
