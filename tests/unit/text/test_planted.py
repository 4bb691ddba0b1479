import numpy as np
import pytest

from headwater.errors import ConfigError
from headwater.settings import from_plain, to_plain
from headwater.text.planted import Cause, Copying, PlantedLanguage, Reach, Repeats, Skips


def test_a_language_comes_back_from_its_plain_settings():
    language = PlantedLanguage(seed=5, repeats=Repeats(span=8))
    again = from_plain(PlantedLanguage, to_plain(language))
    assert again == language
    assert again.skip_trigrams == language.skip_trigrams


def test_words_are_different_and_the_first_is_the_full_stop():
    words = PlantedLanguage(words=1000).vocabulary
    assert words[0] == "."
    assert len(set(words)) == len(words) == 1000
    assert all(len(word) == 4 and word.isascii() and word.islower() for word in words[1:])


def test_a_text_goes_through_the_tokenizer_and_comes_back():
    language = PlantedLanguage()
    ids = language.sample(500, seed=0).ids.tolist()
    tokenizer = language.tokenizer()
    assert tokenizer.size == language.words
    assert tokenizer.encode(" ".join(language.vocabulary[word] for word in ids)) == ids
    assert tokenizer.decode(ids[:3]) == " ".join(language.vocabulary[word] for word in ids[:3])


def test_the_truth_has_the_sizes_that_were_asked_for_and_each_word_one_part_in_it():
    language = PlantedLanguage(skips=Skips(count=48, sources=40, destinations=6), copying=Copying(words=12, after=2))
    trigrams, copies = language.skip_trigrams, language.copies
    sources, dests, outs = (set(words) for words in zip(*trigrams, strict=True))
    copied, after = {rule.source for rule in copies}, {rule.dest for rule in copies}
    assert (len(trigrams), len(sources), len(dests), len(outs)) == (48, 40, 6, 48)
    assert (len(copies), len(copied), len(after)) == (24, 12, 2)
    assert all(rule.out == rule.source for rule in copies)
    groups = [sources, dests, outs, copied, after, {0}]
    assert len(set().union(*groups)) == sum(map(len, groups))


def test_a_source_with_two_destinations_has_another_output_for_each():
    trigrams = PlantedLanguage().skip_trigrams
    forks = {rule.source: [other for other in trigrams if other.source == rule.source] for rule in trigrams}
    assert sum(len(rules) == 2 for rules in forks.values()) == 8
    assert len({(rule.source, rule.dest) for rule in trigrams}) == len(trigrams)


def test_several_sources_share_a_destination_so_that_bigrams_cannot_tell_the_output():
    trigrams = PlantedLanguage().skip_trigrams
    counts = np.unique([rule.dest for rule in trigrams], return_counts=True)[1]
    assert counts.min() >= 7


def test_each_row_of_the_table_is_a_distribution_that_never_leads_to_the_full_stop():
    bigrams = PlantedLanguage().bigrams
    np.testing.assert_allclose(bigrams.sum(axis=1), 1, rtol=1e-12)
    assert (bigrams[:, 0] == 0).all()
    assert (bigrams[:, 1:] > 0).all()
    with pytest.raises(ValueError, match="read-only"):
        bigrams[0, 0] = 1


def test_another_seed_gives_another_language():
    one, other = PlantedLanguage(seed=0), PlantedLanguage(seed=1)
    assert one.vocabulary != other.vocabulary
    assert one.skip_trigrams != other.skip_trigrams
    assert (one.bigrams != other.bigrams).any()


def test_rules_and_repeats_make_up_a_good_part_of_the_text():
    sample = PlantedLanguage(length=200, repeats=Repeats(share=0.3, span=10)).sample(100_000, seed=0)
    late = sample.causes.reshape(-1, 200)[:, 100:]
    share = np.bincount(late.ravel(), minlength=len(Cause)) / late.size
    assert share[Cause.OPENING] == 0
    assert share[Cause.SKIP_TRIGRAM] > 0.02
    assert share[Cause.COPYING] > 0.01
    assert share[Cause.REPEAT] == pytest.approx(0.3, abs=0.01)


def test_a_language_without_rules_is_its_table():
    language = PlantedLanguage(
        words=2, length=4, skips=Skips(count=0, sources=0, destinations=0), copying=Copying(words=0, after=0)
    )
    assert language.sample(8, seed=0).ids.tolist() == [0, 1, 1, 1, 0, 1, 1, 1]
    assert language.sample(0, seed=0).ids.tolist() == []


@pytest.mark.parametrize(
    ("kind", "settings", "given"),
    [
        (PlantedLanguage, {"words": 5}, "5 words, of which the rules use 109"),
        (PlantedLanguage, {"words": 5000}, "5000 words"),
        (PlantedLanguage, {"seed": -1}, "seed is -1"),
        (PlantedLanguage, {"length": 1}, "length is 1"),
        (Skips, {"count": 7, "sources": 3, "destinations": 2}, "skips.count is 7"),
        (Skips, {"count": 1, "sources": -1, "destinations": -1}, "skips.sources is -1"),
        (Copying, {"words": -1}, "copying.words is -1"),
        (Reach, {"nearest": 5, "farthest": 4}, "reach.nearest is 5"),
        (Reach, {"farthest": 40_000}, "reach.farthest is 40000"),
        (Reach, {"chance": 1.5}, "reach.chance is 1.5"),
        (Repeats, {"share": 1.0}, "repeats.share is 1.0"),
        (Repeats, {"span": 0}, "repeats.span is 0"),
    ],
)
def test_settings_that_describe_no_language_are_refused(kind, settings, given):
    with pytest.raises(ConfigError, match=given):
        kind(**settings)


def test_a_negative_seed_of_a_text_is_refused():
    with pytest.raises(ConfigError, match="seed is -1"):
        next(PlantedLanguage().chunks(10, seed=-1))
