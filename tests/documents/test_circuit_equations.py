"""Document 000, section 1: the QK and OV circuits, on matrices as the document writes them (columns, ``W x``).

The document's ``W_E`` is ours transposed, and so are ``W_Q``, ``W_K``, ``W_V``, ``W_O`` and ``W_U``.
"""

import pytest
import torch

from headwater.circuits.tables import ov, qk
from headwater.model.config import Attention, ModelConfig
from headwater.model.record import record
from strategies import random_tokens, random_weights

CONFIG = ModelConfig(vocab=17, context=9, d_model=12, layers=1, attention=Attention(heads=3, d_head=4))
WEIGHTS = random_weights(CONFIG, 0)
W_E, W_U = WEIGHTS.W_E.T, WEIGHTS.W_U.T


def of_head(symbol, head):
    return getattr(WEIGHTS.blocks[0].attention, symbol)[head].T


def close(ours, theirs):
    torch.testing.assert_close(ours, theirs, rtol=1e-10, atol=1e-10)


@pytest.mark.parametrize("head", range(3))
def test_000_e3_the_qk_circuit_holds_the_scores_before_the_softmax(head):
    W_Q, W_K = of_head("W_Q", head), of_head("W_K", head)
    circuit = qk(WEIGHTS, (0, head))
    # What the document leaves to the reader: scores are divided by √d_k = 2.
    close(circuit.dense(), W_E.T @ W_Q.T @ W_K @ W_E / 2)
    assert circuit.shape == (17, 17)
    assert circuit.rank() <= 4
    text = random_tokens(CONFIG, 0, batch=1)
    scores = record(WEIGHTS, text)["L0.scores"][0, head]
    close(circuit.dense()[text[0]][:, text[0]].tril(), scores.masked_fill(scores.isinf(), 0))


@pytest.mark.parametrize("head", range(3))
def test_000_e4_the_ov_circuit_has_w_o_as_it_is(head):
    W_V, W_O = of_head("W_V", head), of_head("W_O", head)
    assert (W_O @ W_V).shape == (12, 12)
    with pytest.raises(RuntimeError, match="shapes cannot be multiplied"):
        W_O.T @ W_V  # as printed
    # From source to out: the document's columns are our rows.
    close(ov(WEIGHTS, (0, head)).dense().T, W_U @ W_O @ W_V @ W_E)


def test_000_e4_the_corrected_circuits_reproduce_the_logits():
    text = random_tokens(CONFIG, 0, batch=1)
    run = record(WEIGHTS, text)
    total = (W_U @ W_E).T[text[0]]
    for head in range(3):
        total = total + run["L0.pattern"][0, head] @ ov(WEIGHTS, (0, head)).dense()[text[0]]
    close(total, run.logits[0])
