"""Evaluation against the loop that it stands for, for predictors of every kind."""

import math

import hypothesis.strategies as st
import numpy as np
import pytest
import torch
from hypothesis import given

from headwater.errors import InputError
from headwater.model.config import Attention, ModelConfig, PreNorm
from headwater.model.forward import forward
from headwater.text.counts import entropy
from headwater.text.tokenizer import byte_tokenizer
from headwater.train.evaluate import bytes_of_tokens, conditional_entropy, evaluate, window_starts
from headwater.train.ngrams import Counted, KneserNey, count_ngrams
from headwater.train.predictors import Predictor, Transformer, Uniform, Unigram
from headwater.train.recurrent import Recurrent, RecurrentConfig, RecurrentModule
from strategies import models, random_weights

VOCAB = 11
CONFIG = ModelConfig(vocab=VOCAB, context=8, d_model=6, layers=1, attention=Attention(heads=2, d_head=3), norm=PreNorm())
IDS = (np.random.default_rng(0).random(101) ** 2 * VOCAB).astype(np.uint16)
NGRAMS = count_ngrams(IDS[:60], vocab=VOCAB, order=3)
PREDICTORS = [
    Uniform(VOCAB),
    Unigram(NGRAMS.levels[0].counts),
    Counted(NGRAMS, order=2, add=0.1),
    KneserNey(NGRAMS, order=3),
    Transformer(random_weights(CONFIG, 0)),
    Recurrent(RecurrentModule(RecurrentConfig(vocab=VOCAB, context=8, d_model=5, layers=2), seed=1)),
]
named = pytest.mark.parametrize("predictor", PREDICTORS, ids=lambda predictor: predictor.name)


def directly(predictor, ids, context):
    """One token at a time, with all that precedes it in its window and nothing that follows."""
    found = []
    for begin in range(0, len(ids) - 1, context):
        row = []
        for end in range(begin + 1, min(begin + context, len(ids) - 1) + 1):
            window = torch.from_numpy(ids[begin : end + 1].astype(np.int64))[None]
            row.append(float(predictor.nats(window)[0, -1]))
        found.append(row)
    return found


@named
@pytest.mark.parametrize("context", [1, 3, 8])
def test_an_evaluation_is_the_loop_over_all_tokens_but_the_first(predictor, context):
    assert isinstance(predictor, Predictor)
    rows = directly(predictor, IDS, context)
    evaluation = evaluate(predictor, IDS, context=context)
    every = [number for row in rows for number in row]
    assert evaluation.tokens == len(every) == len(IDS) - 1
    assert evaluation.nats == pytest.approx(sum(every) / len(every), rel=1e-6)
    assert evaluation.perplexity == pytest.approx(math.exp(sum(every) / len(every)), rel=1e-5)
    for position, mean in enumerate(evaluation.by_position):
        there = [row[position] for row in rows if len(row) > position]
        assert mean == pytest.approx(sum(there) / len(there), rel=1e-5)


@named
def test_later_tokens_change_nothing(predictor):
    windows = torch.from_numpy(np.stack([IDS[:9], IDS[20:29]]).astype(np.int64))
    changed = windows.clone()
    changed[:, 6:] = (changed[:, 6:] + 1) % VOCAB
    assert torch.allclose(predictor.nats(windows)[:, :5], predictor.nats(changed)[:, :5], rtol=1e-6, atol=0)
    assert not torch.allclose(predictor.nats(windows), predictor.nats(changed)) or predictor.name == "uniform"


@given(models(mask="causal"))
def test_a_transformers_nats_are_those_of_its_logits(member):
    weights, tokens = member
    if tokens.shape[1] < 2:
        return
    logits = forward(weights, tokens)[:, :-1]
    wanted = -logits.log_softmax(dim=-1).gather(2, tokens[:, 1:, None])[:, :, 0]
    assert torch.allclose(Transformer(weights).nats(tokens), wanted, atol=1e-10)


def test_the_standard_error_is_that_of_the_means_of_equal_windows():
    ids = IDS[:81]
    means = [sum(row) / len(row) for row in directly(PREDICTORS[1], ids, 8)]
    wanted = np.std(means, ddof=1) / math.sqrt(len(means))
    assert evaluate(PREDICTORS[1], ids, context=8).standard_error == pytest.approx(wanted)
    assert evaluate(PREDICTORS[1], ids, context=80).standard_error is None


def test_bits_per_byte_divide_all_bits_by_all_bytes():
    sizes = np.arange(VOCAB)
    evaluation = evaluate(Uniform(VOCAB), IDS, context=8, token_bytes=sizes)
    bits = (len(IDS) - 1) * math.log2(VOCAB)
    assert evaluation.bits_per_byte == pytest.approx(bits / int(sizes[IDS[1:]].sum()))
    assert evaluate(Uniform(VOCAB), IDS, context=8).bits_per_byte is None
    text = np.frombuffer("naïve text".encode(), np.uint8).astype(np.int64)
    by_bytes = evaluate(Uniform(256), text, context=4, token_bytes=bytes_of_tokens(byte_tokenizer(), 256))
    assert by_bytes.bits_per_byte == pytest.approx(8.0)


def test_a_token_with_probability_zero_is_counted_and_costs_infinitely_much():
    counts = np.array([3, 1, 0])
    evaluation = evaluate(Unigram(counts, add=0.0), np.array([0, 2, 1, 2, 0]), context=2)
    assert (evaluation.nats, evaluation.impossible, evaluation.standard_error) == (math.inf, 2, None)


def test_a_loss_beyond_all_bounds_is_told_as_such_and_one_that_is_no_number_is_refused():
    weights = random_weights(CONFIG, 0)
    certain = Transformer(weights.changed({"unembed.W_U": 1e6 * weights.W_U}))
    assert evaluate(certain, IDS, context=8).perplexity == math.inf
    with pytest.raises(InputError, match="no number"):
        evaluate(Transformer(weights.changed({"unembed.W_U": math.nan * weights.W_U})), IDS, context=8)


@given(st.integers(2, 300), st.integers(1, 40), st.integers(1, 200))
def test_windows_are_different_within_the_text_and_no_more_than_asked(length, context, most):
    starts = window_starts(length, context, most)
    assert len(set(starts.tolist())) == len(starts)
    assert set(starts.tolist()) <= set(window_starts(length, context).tolist())
    assert len(starts) * context <= max(most, context)


def test_some_of_a_text_is_taken_from_all_of_it():
    evaluation = evaluate(PREDICTORS[1], IDS, context=4, most=20)
    rows = directly(PREDICTORS[1], IDS, 4)
    chosen = [rows[start // 4] for start in window_starts(len(IDS), 4, 20)]
    assert evaluation.tokens == 20
    assert evaluation.nats == pytest.approx(sum(map(sum, chosen)) / 20)


def test_progress_ends_with_everything_done():
    told = []
    evaluate(Uniform(VOCAB), np.tile(IDS, 300), context=8, progress=lambda done, tokens: told.append((done, tokens)))
    assert len(told) > 2
    assert told == sorted(told)
    assert told[-1] == (300 * len(IDS) - 1, 300 * len(IDS) - 1)


def test_entropies_are_those_of_a_loop():
    pairs = list(zip(IDS[:-1].tolist(), IDS[1:].tolist(), strict=True))
    conditional = -sum(math.log(pairs.count((a, b)) / sum(first == a for first, _ in pairs)) for a, b in pairs) / len(pairs)
    assert conditional_entropy(IDS) == pytest.approx(conditional)
    share = np.bincount(IDS) / len(IDS)
    assert entropy(np.bincount(IDS)) == pytest.approx(-sum(p * math.log(p) for p in share if p))


def test_what_cannot_be_evaluated_is_refused():
    with pytest.raises(InputError, match="1 tokens in windows of 4"):
        evaluate(Uniform(VOCAB), IDS[:1], context=4)
    with pytest.raises(InputError, match="windows of 9 tokens"):
        evaluate(Transformer(random_weights(CONFIG, 0)), IDS, context=9)
    with pytest.raises(InputError, match="token id"):
        evaluate(Transformer(random_weights(CONFIG, 0)), IDS + 5, context=8)
    full = ModelConfig(vocab=5, context=4, d_model=2, layers=1, attention=Attention(heads=1, d_head=2, mask="full"))
    with pytest.raises(InputError, match="later tokens"):
        Transformer(random_weights(full, 0))


def test_a_word_stands_for_the_blank_after_it():
    from headwater.text.training import word_tokenizer

    assert bytes_of_tokens(word_tokenizer(["the", "cats"]), 2).tolist() == [4, 5]
