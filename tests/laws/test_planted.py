"""A planted language does what it says: held against a reader who knows the rules and nothing of how the text was written."""

import math

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from headwater.text import planted
from headwater.text.planted import Cause, Copying, PlantedLanguage, Reach, Repeats, Skips

SMALL = PlantedLanguage(
    seed=3,
    words=40,
    length=32,
    skips=Skips(count=9, sources=6, destinations=2),
    copying=Copying(words=3, after=2),
    reach=Reach(nearest=2, farthest=9, chance=0.7),
)
TEXT = planted.TEXTS * SMALL.length
MOST_SIGMAS = 6.0
"""Of a few thousand normal numbers none lies this far out but once in a hundred thousand samples."""


@st.composite
def languages(draw):
    return PlantedLanguage(
        seed=draw(st.integers(0, 2**63 - 1)),
        words=draw(st.integers(30, 50)),
        length=draw(st.integers(2, 24)),
        skips=Skips(count=draw(st.integers(0, 12)), sources=draw(st.integers(4, 6)), destinations=3),
        copying=Copying(words=draw(st.integers(0, 4)), after=draw(st.integers(0, 3))),
        reach=Reach(nearest=draw(st.integers(1, 3)), farthest=draw(st.integers(3, 12)), chance=draw(st.sampled_from([0.0, 0.6, 1.0]))),
        repeats=draw(st.sampled_from([None, Repeats(share=0.5, span=3)])),
    )  # fmt: skip


def able_rules(language, text):
    """Rules that can fire after a text, by its words alone."""
    rules = []
    for rule in language.skip_trigrams + language.copies:
        last = max((place for place, word in enumerate(text) if word == rule.source), default=None)
        if text[-1] == rule.dest and last is not None:
            distance = len(text) - 1 - last
            if language.reach.nearest <= distance <= language.reach.farthest:
                rules.append(rule)
    return rules


def next_word(language, text):
    """The distribution of the next word: the row of the last one, mixed with the outs of the rules that can fire."""
    p = language.bigrams[text[-1]].copy()
    rules = able_rules(language, text)
    if rules:
        p *= 1 - language.reach.chance
        for rule in rules:
            p[rule.out] += language.reach.chance / len(rules)
    return p


@given(languages(), st.integers(0, 2**32))
def test_every_word_has_the_probability_and_the_cause_that_the_rules_give_it(language, seed):
    sample = language.sample(12 * language.length, seed)
    texts, causes, nats = (part.reshape(-1, language.length) for part in (sample.ids.astype(int), sample.causes, sample.nats))
    for text, cause, nat in zip(texts, causes, nats, strict=True):
        assert (text[0], cause[0], nat[0]) == (0, Cause.OPENING, 0)
        for place in range(1, language.length):
            before, word = text[:place].tolist(), text[place]
            if cause[place] == Cause.REPEAT:
                assert language.repeats
                assert nat[place] == 0
                continue
            p = next_word(language, before)
            assert math.isclose(p.sum(), 1)
            assert math.isclose(nat[place], -math.log(p[word]), abs_tol=1e-12)
            fired = [rule for rule in able_rules(language, before) if rule.out == word]
            kinds = {Cause.COPYING if rule.out == rule.source else Cause.SKIP_TRIGRAM for rule in fired} | {Cause.BIGRAM}
            assert cause[place] in kinds


@given(languages(), st.integers(0, 2**32), st.data())
def test_a_longer_text_begins_with_the_shorter_one_however_it_is_cut(language, seed, data):
    size = planted.TEXTS * language.length
    many, few = data.draw(st.integers(0, 3 * size)), data.draw(st.integers(0, 3 * size))
    whole = language.sample(max(many, few), seed)
    chunks = list(language.chunks(min(many, few), seed))
    cut = np.concatenate([np.empty(0, np.uint16), *chunks])
    assert len(whole.ids) == max(many, few)
    assert len(cut) == min(many, few)
    np.testing.assert_array_equal(cut, whole.ids[: len(cut)])
    assert cut.dtype == np.uint16
    assert all(len(chunk) for chunk in chunks)


@given(languages(), st.integers(0, 2**32))
def test_a_text_is_a_function_of_language_and_seed(language, seed):
    first = language.sample(600, seed).ids
    planted._truth.cache_clear()
    np.random.default_rng(0).random(3)
    again = planted.PlantedLanguage(**{name: getattr(language, name) for name in language.__dataclass_fields__})
    np.testing.assert_array_equal(first, again.sample(600, seed).ids)
    if language.length > 4:
        assert (first != language.sample(600, seed + 1).ids).any()


def sigmas(count, n, p):
    """How many standard deviations a count of successes is from what is expected, where enough are."""
    is_enough = n * p * (1 - p) >= 25
    return ((count - n * p) / np.sqrt(np.where(is_enough, n * p * (1 - p), 1)))[is_enough]


@pytest.mark.parametrize("repeats", [None, Repeats(share=0.3, span=5)])
def test_where_no_rule_fires_words_follow_the_table_of_bigrams(repeats):
    language = PlantedLanguage(
        **{name: getattr(SMALL, name) for name in ("words", "length", "skips", "copying")}, repeats=repeats
    )
    sample = language.sample(30 * TEXT, seed=0)
    is_drawn = sample.causes[1:] == Cause.BIGRAM
    counts = np.zeros(language.bigrams.shape)
    np.add.at(counts, (sample.ids[:-1][is_drawn], sample.ids[1:][is_drawn]), 1)
    far = sigmas(counts, counts.sum(axis=1, keepdims=True), language.bigrams)
    assert len(far) > 1000
    assert np.abs(far).max() < MOST_SIGMAS
    # The mean of n squares of normal numbers is 1 ± √(2/n).
    assert abs(np.mean(far**2) - 1) < MOST_SIGMAS * math.sqrt(2 / len(far))
    assert (counts[language.bigrams == 0] == 0).all()


def test_every_planted_rule_fires_as_often_as_it_says():
    sample = SMALL.sample(4 * TEXT, seed=0)
    rules = {rule: [0, 0] for rule in SMALL.skip_trigrams + SMALL.copies}
    for text in sample.ids.reshape(-1, SMALL.length).tolist():
        for place in range(2, SMALL.length):
            if text[place - 1] in DESTS:
                able = able_rules(SMALL, text[:place])
                if len(able) == 1:
                    rules[able[0]][0] += 1
                    rules[able[0]][1] += text[place] == able[0].out
    times, fired = np.array(list(rules.values())).T
    p = np.array([SMALL.reach.chance + (1 - SMALL.reach.chance) * SMALL.bigrams[rule.dest, rule.out] for rule in rules])
    assert times.min() > 100
    assert (np.abs(fired - times * p) < MOST_SIGMAS * np.sqrt(times * p * (1 - p))).all()
    assert abs((fired - times * p).sum()) < MOST_SIGMAS * math.sqrt((times * p * (1 - p)).sum())


DESTS = {rule.dest for rule in SMALL.skip_trigrams + SMALL.copies}


def test_the_languages_own_loss_is_the_mean_entropy_of_its_next_word():
    sample = SMALL.sample(100 * SMALL.length, seed=1)
    texts = sample.ids.reshape(-1, SMALL.length).tolist()
    laws = [next_word(SMALL, text[:place]) for text in texts for place in range(1, SMALL.length)]
    logs = [np.log(p, where=p > 0, out=np.zeros_like(p)) for p in laws]
    entropies = np.array([-(p @ log) for p, log in zip(laws, logs, strict=True)])
    variances = np.array([p @ log**2 for p, log in zip(laws, logs, strict=True)]) - entropies**2
    drawn = sample.nats.reshape(-1, SMALL.length)[:, 1:].sum()
    assert abs(drawn - entropies.sum()) < MOST_SIGMAS * math.sqrt(variances.sum())


@given(languages(), st.integers(0, 2**32))
def test_a_repeat_writes_a_whole_segment_once_more(language, seed):
    if language.repeats is None:
        return
    span = language.repeats.span
    sample = language.sample(100 * language.length, seed)
    texts, causes = (part.reshape(-1, language.length) for part in (sample.ids, sample.causes))
    for text, cause in zip(texts, causes, strict=True):
        runs = np.split(np.arange(language.length), np.flatnonzero(np.diff(cause == Cause.REPEAT)) + 1)
        for run in runs:
            if cause[run[0]] == Cause.REPEAT:
                assert len(run) % span == 0 or run[-1] == language.length - 1
                for begin in range(run[0], run[-1] + 1, span):
                    segment = text[begin : begin + span]
                    earlier = [text[place : place + len(segment)] for place in range(1, begin - span + 1)]
                    assert any((segment == other).all() for other in earlier)
