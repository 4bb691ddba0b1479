"""The loss without all logits is the loss with all logits, in value and in gradients."""

from contextlib import contextmanager

import pytest
import torch
from hypothesis import given
from hypothesis import strategies as st
from torch.nn import functional

from headwater.train import loss
from headwater.train.loss import cross_entropy, nats
from strategies import seeds

sizes = st.fixed_dictionaries(
    {"tokens": st.integers(1, 40), "d_model": st.integers(1, 9), "vocab": st.integers(1, 40), "bias": st.booleans()}
)


def draw(seed, *, tokens, d_model, vocab, bias, tied=False, spread=1.0):
    """A stream, an unembedding, perhaps a bias, and targets; a tied unembedding is a transposed view of the leaf beside it."""
    draws = torch.Generator().manual_seed(seed)

    def leaf(*shape):
        return (spread * torch.randn(shape, generator=draws, dtype=torch.float64)).requires_grad_()

    stream = leaf(tokens, d_model)
    W = leaf(vocab, d_model) if tied else leaf(d_model, vocab)
    b = leaf(vocab) if bias else None
    targets = torch.randint(0, vocab, (tokens,), generator=draws)
    leaves = [stream, W] if b is None else [stream, W, b]
    return (stream, W.T if tied else W, b, targets), leaves


def plain(stream, W_U, b_U, targets):
    return functional.cross_entropy(stream @ W_U if b_U is None else stream @ W_U + b_U, targets)


chunks = st.integers(1, 50)


@contextmanager
def in_chunks_of(tokens):
    """So few tokens at a time that small examples have several chunks, and a last one that is shorter."""
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(loss, "tokens_at_once", lambda vocab: tokens)
        yield


@given(sizes, chunks, seeds, st.booleans(), st.floats(0.1, 10))
def test_value_and_gradients_are_those_of_all_logits_at_once(sizes, chunk, seed, tied, factor):
    inputs, leaves = draw(seed, **sizes, tied=tied)
    with in_chunks_of(chunk):
        ours, theirs = factor * cross_entropy(*inputs), factor * plain(*inputs)
    torch.testing.assert_close(ours, theirs, rtol=1e-12, atol=1e-12)
    gradients = zip(torch.autograd.grad(ours, leaves), torch.autograd.grad(theirs, leaves), strict=True)
    for mine, expected in gradients:
        torch.testing.assert_close(mine, expected, rtol=1e-12, atol=1e-12)


@given(sizes, chunks, seeds, st.booleans())
def test_each_targets_nats_are_those_of_all_logits_at_once(sizes, chunk, seed, tied):
    (stream, W, b, targets), _ = draw(seed, **sizes, tied=tied)
    logits = stream @ W if b is None else stream @ W + b
    expected = functional.cross_entropy(logits, targets, reduction="none")
    with in_chunks_of(chunk):
        torch.testing.assert_close(nats(stream, W, b, targets), expected.detach(), rtol=1e-12, atol=1e-12)


@given(sizes, chunks, seeds)
def test_logits_of_any_size_are_exact(sizes, chunk, seed):
    inputs, leaves = draw(seed, **sizes, spread=100.0)
    with in_chunks_of(chunk):
        ours, theirs = cross_entropy(*inputs), plain(*inputs)
    torch.testing.assert_close(ours, theirs, rtol=1e-12, atol=1e-9)
    gradients = zip(torch.autograd.grad(ours, leaves), torch.autograd.grad(theirs, leaves), strict=True)
    for mine, expected in gradients:
        torch.testing.assert_close(mine, expected, rtol=1e-12, atol=1e-10)


@pytest.mark.parametrize("bias", [False, True])
@pytest.mark.parametrize("tied", [False, True])
def test_the_gradients_are_those_of_small_differences(tied, bias):
    (stream, W, b, targets), _ = draw(3, tokens=5, d_model=3, vocab=4, bias=bias, tied=tied)
    inputs = (stream, W) if b is None else (stream, W, b)
    with in_chunks_of(2):
        assert torch.autograd.gradcheck(lambda x, W, b=None: cross_entropy(x, W, b, targets), inputs)
