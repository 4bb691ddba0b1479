import json
import math

import numpy as np
import pytest
import torch
from hypothesis import given
from hypothesis import strategies as st

from headwater.errors import InputError
from headwater.model.config import (
    Attention,
    FeedForward,
    LearnedPositions,
    ModelConfig,
    NoPositions,
    PreNorm,
    SinusoidalPositions,
)
from headwater.model.record import record
from headwater.model.weights import Weights
from headwater.text.planted import Copying, PlantedLanguage, Reach, Skips
from headwater.train.plan import Plan
from headwater.train.studies.planted import attention_to, findings, one_layer, output_table, recover, run, train_and_run
from strategies import random_weights, seeds

LANGUAGE = PlantedLanguage(
    words=64,
    length=64,
    skips=Skips(count=12, sources=10, destinations=2),
    copying=Copying(words=4, after=1),
    reach=Reach(farthest=10, chance=0.9),
)
TEXT = LANGUAGE.sample(10_000, seed=1)


INTO = "queries-and-keys"


@st.composite
def configs(draw):
    group_size, key_heads = draw(st.sampled_from([1, 2])), draw(st.integers(1, 3))
    return ModelConfig(
        vocab=draw(st.integers(3, 7)),
        context=draw(st.integers(3, 9)),
        d_model=2 * draw(st.integers(1, 4)),
        layers=1,
        attention=Attention(
            heads=group_size * key_heads,
            d_head=draw(st.integers(1, 4)),
            group_size=group_size,
            scaled=draw(st.booleans()),
            input_bias=draw(st.booleans()),
            output_bias=draw(st.booleans()),
        ),
        positions=draw(st.sampled_from([NoPositions(), SinusoidalPositions(into=INTO), LearnedPositions(into=INTO)])),
    )


@given(configs(), seeds, st.data())
def test_where_all_other_words_are_one_word_the_attention_is_that_of_the_model_itself(config, seed, data):
    weights = random_weights(config, seed)
    source, dest, other = (data.draw(st.integers(0, config.vocab - 1)) for _ in range(3))
    unigrams = torch.zeros(config.vocab, dtype=torch.float64)
    unigrams[other] = 1
    distances = data.draw(st.lists(st.integers(1, config.context - 1), min_size=1, max_size=3))
    patterns = []
    for distance in distances:
        tokens = torch.full((1, config.context), other)
        tokens[0, -1], tokens[0, -1 - distance] = dest, source
        patterns.append(record(weights, tokens)["L0.pattern"][0, :, -1, -1 - distance])
    expected = torch.stack(patterns).mean(dim=0)
    torch.testing.assert_close(attention_to(weights, dest, unigrams, distances)[:, source], expected, rtol=1e-9, atol=1e-12)


@given(configs(), seeds)
def test_what_a_head_writes_for_a_source_is_its_logits_less_their_mean(config, seed):
    weights = random_weights(config, seed)
    heads, table = weights.blocks[0].attention, output_table(weights)
    for head in range(config.heads):
        for source in range(config.vocab):
            values = weights.W_E[source] @ heads.W_V[head // config.attention.group_size]
            logits = values @ heads.W_O[head] @ weights.W_U
            torch.testing.assert_close(table[head, source], logits - logits.mean(), rtol=1e-9, atol=1e-12)


def config_of(language, **changed):
    sizes = {"vocab": language.words, "context": 24, "d_model": language.words, "layers": 1}
    sizes |= {"attention": Attention(heads=1, d_head=language.words)}
    return ModelConfig(**(sizes | changed))


def planted_weights(language):
    """One head, written by hand: dest asks for its sources, a source writes its outs."""
    looks, writes = torch.zeros(2, language.words, language.words)
    for rule in language.skip_trigrams + language.copies:
        looks[rule.dest, rule.source] = 40.0
        writes[rule.source, rule.out] = 5.0
    eye = torch.eye(language.words)
    tensors = {
        "embed.W_E": eye,
        "blocks.0.attn.W_Q": looks[None],
        "blocks.0.attn.W_K": eye[None],
        "blocks.0.attn.W_V": eye[None],
        "blocks.0.attn.W_O": writes[None],
        "unembed.W_U": eye,
    }
    return Weights.assemble(config_of(language), tensors)


def test_rules_written_into_weights_are_found_and_of_a_fork_both_outputs_come_first():
    found = findings(planted_weights(LANGUAGE), LANGUAGE, LANGUAGE.skip_trigrams + LANGUAGE.copies, TEXT)
    assert [(rule.rank, rule.head) for rule in found] == [(1, "L0H0")] * len(found)
    assert all(0 < rule.lift < 5 and 0 < rule.attention < 1 for rule in found)


def test_a_rule_that_is_written_elsewhere_is_not_found():
    weights = planted_weights(LANGUAGE)
    rule = LANGUAGE.skip_trigrams[-3]
    writes = weights.blocks[0].attention.W_O.clone()
    writes[0, rule.source] = 0
    writes[0, rule.source, [3, 5, 7, 9]] = 5.0
    moved = findings(weights.changed({"blocks.0.attn.W_O": writes}), LANGUAGE, [rule], TEXT)
    assert rule.out not in (3, 5, 7, 9)
    assert (moved[0].rank, moved[0].is_found) == (5, False)


def test_a_model_that_has_the_table_loses_what_the_language_loses():
    language = PlantedLanguage(
        words=9, length=16, skips=Skips(count=0, sources=0, destinations=0), copying=Copying(words=0, after=0)
    )
    logs = torch.tensor(np.log(np.maximum(language.bigrams, 1e-30)))
    weights = planted_weights(language).to(dtype=torch.float64).changed({"unembed.W_U": logs})
    recovery = recover(weights, language, language.sample(5000, seed=1))
    assert recovery.loss == pytest.approx(recovery.truth, abs=1e-9)
    assert recovery.kl == pytest.approx(0, abs=1e-9)
    assert recovery.direct_kl == pytest.approx(0, abs=1e-9)
    assert recovery.skip_trigrams is None


def test_a_uniform_model_loses_the_logarithm_of_the_vocabulary():
    weights = planted_weights(LANGUAGE).changed({"unembed.W_U": torch.zeros(LANGUAGE.words, LANGUAGE.words)})
    recovery = recover(weights, LANGUAGE, TEXT)
    assert recovery.loss == pytest.approx(math.log(LANGUAGE.words), abs=1e-6)
    rows, dests = LANGUAGE.bigrams, {rule.dest for rule in LANGUAGE.skip_trigrams + LANGUAGE.copies}
    logs = np.log(rows, where=rows > 0, out=np.zeros_like(rows))
    entropies = -(rows * logs).sum(axis=1)
    last = (len(TEXT.ids) - 1) // 24 * 24
    present = [int(word) for word, cause in zip(TEXT.ids[:last], TEXT.causes[1:], strict=False) if cause and word not in dests]
    assert recovery.kl == pytest.approx(math.log(LANGUAGE.words) - entropies[present].mean(), abs=1e-6)


@pytest.fixture(scope="module")
def study():
    sizes = {"vocab": LANGUAGE.words, "context": 32, "d_model": 64, "layers": 1}
    config = ModelConfig(**sizes, attention=Attention(heads=4, d_head=16), positions=SinusoidalPositions(into=INTO))
    return train_and_run(LANGUAGE, config, Plan(steps=150, batch=32, learning_rate=2e-2, warmup=20), tokens=200_000)


def test_a_one_layer_model_finds_what_was_planted_by_training(study):
    first, last = study.steps[0], study.steps[-1]
    assert (first.step, last.step) == (0, 150)
    assert last.skip_trigrams >= 0.95
    assert last.copies >= 0.95
    assert study.untrained.skip_trigrams < 0.3
    assert last.truth < last.loss < first.loss
    assert last.kl < first.kl


def test_a_study_is_told_to_people_programs_and_plots(study):
    summary, skips, copies = study.tables()
    assert summary.rows[-1][0] == "untrained"
    assert len(skips.rows) == 12
    assert len(copies.rows) == 4
    plain = json.loads(json.dumps(study.plain(), allow_nan=False))
    assert plain["study"] == "planted"
    assert plain["steps"][-1]["skip_trigrams"] == study.steps[-1].skip_trigrams
    assert [line.label for line in study.curves()[0].lines] == ["skip-trigrams", "copying"]


@pytest.mark.parametrize(
    ("changed", "given"),
    [
        ({"vocab": 63}, "63 tokens"),
        ({"layers": 2}, "2 layers"),
        ({"layers": 0, "attention": None}, "0 layers"),
        ({"norm": PreNorm()}, "norms"),
        ({"feed_forward": FeedForward(d_mlp=4)}, "a feed-forward layer"),
        ({"positions": LearnedPositions()}, "positions in the stream"),
        ({"context": 2}, "a context of 2"),
    ],
)
def test_models_whose_tables_would_not_be_exact_are_refused(changed, given):
    weights = Weights.draw(config_of(LANGUAGE, **changed), seed=0)
    with pytest.raises(InputError, match=given):
        recover(weights, LANGUAGE, TEXT)


def test_no_model_at_all_is_refused():
    with pytest.raises(InputError, match="no model"):
        run([], LANGUAGE, tokens=100)


def test_the_usual_model_fits_the_usual_language():
    language = PlantedLanguage()
    assert one_layer(language).vocab == language.words
    assert one_layer(language).context > language.reach.farthest
