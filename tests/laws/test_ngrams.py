"""What holds for n-grams of any text: they are distributions, they are the textbook's, and they never look ahead."""

from collections import Counter, defaultdict
from fractions import Fraction
from math import inf, log

import hypothesis.strategies as st
import numpy as np
import pytest
import torch
from hypothesis import given

from headwater.errors import InputError
from headwater.text.counts import entropy
from headwater.train.evaluate import conditional_entropy, evaluate
from headwater.train.ngrams import Counted, KneserNey, count_ngrams, discounts


@st.composite
def streams(draw):
    """A vocabulary and a text in it; a skewed one, so that counts of one, two, three and four all occur."""
    vocab = draw(st.integers(1, 9))
    length = draw(st.integers(5, 200))
    generator = np.random.default_rng(draw(st.integers(0, 2**32)))
    ids = (generator.random(length) ** draw(st.sampled_from([1, 3])) * vocab).astype(draw(st.sampled_from(["uint16", "int64"])))
    return vocab, ids


orders = st.sampled_from([1, 2, 3, 5])


def grams(ids, n):
    return [tuple(map(int, ids[i : i + n])) for i in range(len(ids) - n + 1)]


class Textbook:
    """Chen and Goodman's modified Kneser-Ney, interpolated, as it is written down: dictionaries and loops."""

    def __init__(self, ids, vocab, order):
        self.vocab, self.order = vocab, order
        self.raw = {n: Counter(grams(ids, n)) for n in range(1, order + 1)}
        self.continuation = {}
        for n in range(1, order):
            before = defaultdict(set)
            for longer in grams(ids, n + 1):
                before[longer[1:]].add(longer[0])
            self.continuation[n] = {gram: len(tokens) for gram, tokens in before.items()}

    def discount(self, table, count):
        n1, n2, n3, n4 = (sum(1 for c in table.values() if c == j) for j in (1, 2, 3, 4))
        fallback = {0: 0.0, 1: 0.5, 2: 1.0, 3: 1.5}
        if 0 in (n1, n2, n3, n4):
            return fallback[min(count, 3)]
        y = Fraction(n1, n1 + 2 * n2)
        found = {0: 0, 1: 1 - 2 * y * n2 / n1, 2: 2 - 3 * y * n3 / n2, 3: 3 - 4 * y * n4 / n3}
        return float((found if min(found.values()) >= 0 else fallback)[min(count, 3)])

    def probability(self, token, context, *, is_highest=True):
        """``context`` is as long as the window allows, at most order − 1."""
        n = len(context) + 1
        table = self.raw[n] if is_highest else self.continuation[n]
        shorter = self.probability(token, context[1:], is_highest=False) if context else 1 / self.vocab
        followers = [table.get((*context, other), 0) for other in range(self.vocab)]
        if sum(followers) == 0:
            return shorter
        count = table.get((*context, token), 0)
        saved = sum(self.discount(table, c) for c in followers)
        return max(count - self.discount(table, count), 0) / sum(followers) + saved / sum(followers) * shorter


def all_continuations(context, vocab):
    return torch.tensor([[*context, token] for token in range(vocab)])


@given(streams(), orders, st.data())
def test_the_probabilities_after_any_context_add_up_to_one(stream, order, data):
    vocab, ids = stream
    ngrams = count_ngrams(ids, vocab=vocab, order=order)
    context = data.draw(st.lists(st.integers(0, vocab - 1), min_size=1, max_size=7))
    windows = all_continuations(context, vocab)
    for predictor in (KneserNey(ngrams, order=order), Counted(ngrams, order=order, add=0.3)):
        p = predictor.nats(windows).neg().exp()[:, -1]
        assert abs(float(p.sum()) - 1) < 1e-12
        assert float(p.min()) > 0


@given(streams(), orders, st.data())
def test_kneser_ney_is_the_textbooks(stream, order, data):
    vocab, ids = stream
    window = data.draw(st.lists(st.integers(0, vocab - 1), min_size=2, max_size=8))
    window += [int(token) for token in ids[: data.draw(st.integers(0, 6))]]
    nats = KneserNey(count_ngrams(ids, vocab=vocab, order=order), order=order).nats(torch.tensor([window]))[0]
    twin = Textbook(ids, vocab, order)
    for i in range(1, len(window)):
        context = tuple(window[max(0, i - order + 1) : i]) if order > 1 else ()
        assert float(nats[i - 1]) == pytest.approx(-log(twin.probability(window[i], context)), abs=1e-12)


@given(streams(), orders)
def test_a_shorter_model_is_the_same_whatever_else_was_counted(stream, order):
    vocab, ids = stream
    alone, among = count_ngrams(ids, vocab=vocab, order=order), count_ngrams(ids, vocab=vocab, order=5)
    windows = torch.from_numpy(ids[None, :20].astype("int64"))
    assert torch.equal(KneserNey(alone, order=order).nats(windows), KneserNey(among, order=order).nats(windows))
    assert KneserNey(alone, order=order).parameters == KneserNey(among, order=order).parameters


@given(streams(), orders, st.sampled_from([0.0, 0.5]))
def test_counts_are_those_of_a_loop(stream, order, add):
    vocab, ids = stream
    window = [int(token) for token in ids[-12:]]
    nats = Counted(count_ngrams(ids, vocab=vocab, order=order), order=order, add=add).nats(torch.tensor([window]))[0]
    for i in range(1, len(window)):
        context = tuple(window[max(0, i - order + 1) : i]) if order > 1 else ()
        table = Counter(grams(ids, len(context) + 1))
        total = sum(count for gram, count in table.items() if gram[:-1] == context) + add * vocab
        p = (table[(*context, window[i])] + add) / total
        assert float(nats[i - 1]) == pytest.approx(-log(p), abs=1e-12)


@given(streams(), st.integers(1, 30))
def test_counts_of_pairs_lose_the_conditional_entropy_of_the_text_they_were_counted_on(stream, context):
    vocab, ids = stream
    ngrams = count_ngrams(ids, vocab=vocab, order=2)
    lost = evaluate(Counted(ngrams, order=2, add=0.0), ids, context=context).nats
    assert lost == pytest.approx(conditional_entropy(ids), abs=1e-12)
    assert lost <= entropy(np.bincount(ids[1:])) + 1e-12


@given(streams(), orders, st.data())
def test_later_tokens_change_nothing(stream, order, data):
    vocab, ids = stream
    ngrams = count_ngrams(ids, vocab=vocab, order=order)
    window = torch.tensor([data.draw(st.lists(st.integers(0, vocab - 1), min_size=3, max_size=9))])
    cut = data.draw(st.integers(2, window.shape[1]))
    for predictor in (KneserNey(ngrams, order=order), Counted(ngrams, order=order, add=1.0)):
        assert torch.equal(predictor.nats(window)[:, : cut - 1], predictor.nats(window[:, :cut]))


@given(st.lists(st.integers(0, 8), min_size=1, max_size=60))
def test_discounts_leave_something_of_every_count(counts):
    found = discounts(np.array(counts))
    assert all(0 <= found[count] <= count for count in range(4))


def test_a_pair_that_was_never_counted_costs_infinitely_much_by_counts_alone():
    ngrams = count_ngrams(np.array([0, 1, 0, 1]), vocab=3, order=2)
    windows = torch.tensor([[0, 0, 1], [2, 1, 0]])
    assert Counted(ngrams, order=2, add=0.0).nats(windows).tolist() == [[inf, 0.0], [inf, 0.0]]


def test_what_cannot_be_counted_is_refused():
    with pytest.raises(InputError, match="order 5 on 3 tokens"):
        count_ngrams(np.array([0, 1, 0]), vocab=2, order=5)
    with pytest.raises(InputError, match="token ids 0 to 7"):
        count_ngrams(np.array([0, 7]), vocab=2, order=1)
    ngrams = count_ngrams(np.array([0, 1, 0]), vocab=2, order=2)
    with pytest.raises(InputError, match="order 3"):
        KneserNey(ngrams, order=3)
    with pytest.raises(InputError, match="ids from 0 to 1"):
        KneserNey(ngrams, order=2).nats(torch.tensor([[0, 2]]))


def test_a_large_vocabulary_at_a_high_order_has_no_two_ngrams_under_one_key():
    generator = np.random.default_rng(0)
    vocab, ids = 50_257, generator.integers(50_000, 50_257, 3_000)
    ngrams = count_ngrams(ids, vocab=vocab, order=6)
    for n, level in enumerate(ngrams.levels[1:], start=2):
        assert sorted(level.counts) == sorted(Counter(grams(ids, n)).values())
