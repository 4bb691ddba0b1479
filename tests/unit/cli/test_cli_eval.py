"""``headwater eval`` as a person runs it."""

import json

import numpy as np
import pytest
import torch

from headwater.api import Model
from headwater.model.config import Attention, ModelConfig, PreNorm
from headwater.text.corpus import build_corpus
from headwater.text.sources import Files
from headwater.text.tokenizer import byte_tokenizer
from headwater.text.training import character_tokenizer
from headwater.train.baselines import count_baselines
from headwater.train.evaluate import bytes_of_tokens, conditional_entropy, evaluate
from headwater.train.predictors import Transformer
from headwater.train.recurrent import RecurrentConfig, RecurrentModule, save
from strategies import random_weights

CONFIG = ModelConfig(vocab=256, context=32, d_model=8, layers=1, attention=Attention(heads=2, d_head=4), norm=PreNorm())
COLUMNS = {"name", "parameters", "nats", "standard_error", "perplexity", "bits_per_byte", "excess", "impossible", "by_position"}


@pytest.fixture(scope="module")
def place(tmp_path_factory):
    """A small model, a text of many documents, and a corpus of it."""
    folder = tmp_path_factory.mktemp("eval")
    Model(random_weights(CONFIG, 0, torch.float32), byte_tokenizer()).save(folder / "model")
    words = np.array(["the river", "a mountain", "rises", "falls", "and then", "slowly"])
    generator = np.random.default_rng(0)
    (folder / "texts").mkdir()
    for number in range(60):
        (folder / "texts" / f"{number}.txt").write_text(" ".join(generator.choice(words, 30)) + f" {number}.")
    build_corpus(Files(paths=(str(folder / "texts"),)), byte_tokenizer(), folder / "corpus", held_out=0.2)
    return folder


def test_the_rows_are_what_the_library_measures_and_the_best_stands_first(headwater, place):
    from headwater.text.corpus import open_corpus

    result = headwater("eval", place / "model", "--corpus", place / "corpus", "--json")
    assert result.returncode == 0, result.stderr
    document = json.loads(result.stdout)
    corpus = open_corpus(place / "corpus")
    rows = {row["name"]: row for row in document["rows"]}
    sizes = bytes_of_tokens(corpus.tokenizer, corpus.vocab)
    weights = random_weights(CONFIG, 0, torch.float32)
    for predictor in [Transformer(weights, "the model"), *count_baselines(corpus.train, vocab=256)]:
        found, row = evaluate(predictor, corpus.held_out, context=32, token_bytes=sizes), rows.pop(predictor.name)
        assert set(row) == COLUMNS
        assert row["parameters"] == predictor.parameters
        if found.impossible:
            assert (row["nats"], row["excess"], row["impossible"]) == (None, None, found.impossible)
        else:
            assert row["nats"] == pytest.approx(found.nats)
            assert row["bits_per_byte"] == pytest.approx(found.bits_per_byte)
            assert row["excess"] == pytest.approx(found.nats - conditional_entropy(corpus.train))
            assert row["by_position"] == pytest.approx(found.by_position, rel=1e-5)
    assert not rows
    losses = [row["nats"] for row in document["rows"] if row["nats"] is not None]
    assert losses == sorted(losses)
    assert document["tokens"] == len(corpus.held_out) - 1
    assert document["counted"] == len(corpus.train)


def test_longer_contexts_help_on_this_text_and_the_order_is_that_of_knowledge(headwater, place):
    arguments = ["--against", "uniform", "unigram", "bigram", "5-gram", "--json"]
    document = json.loads(headwater("eval", place / "model", "--corpus", place / "corpus", *arguments).stdout)
    names = [row["name"] for row in document["rows"] if row["name"] != "the model"]
    assert names == ["5-gram, Kneser-Ney", "bigram, Kneser-Ney", "unigram, add 1", "uniform"]


def test_files_are_split_for_the_occasion_and_people_get_tables_and_a_plot(headwater, place, tmp_path):
    plot = tmp_path / "loss.svg"
    arguments = ["--text", place / "texts", "--most", 200, "--context", 16, "--plot", plot]
    result = headwater("eval", place / "model", *arguments)
    assert result.returncode == 0, result.stderr
    assert "held-out tokens, in windows of 16" in result.stdout
    assert "trigram, Kneser-Ney" in result.stdout
    assert "H(X2|X1)" in result.stdout
    assert "loss by position" in plot.read_text()


def test_a_trained_network_stands_beside_the_model(headwater, place, tmp_path):
    config = RecurrentConfig(vocab=256, context=32, d_model=4)
    tensors = dict(RecurrentModule(config).named_parameters())
    save(config, tensors, tmp_path / "run" / "model", byte_tokenizer())
    arguments = ["eval", place / "model", "--corpus", place / "corpus", "--against", "uniform", "--json"]
    for folder in (tmp_path / "run", tmp_path / "run" / "model"):
        document = json.loads(headwater(*arguments, "--recurrent", folder).stdout)
        assert {row["name"]: row["parameters"] for row in document["rows"]}["recurrent"] == config.parameters
    save(config, tensors, tmp_path / "other", character_tokenizer("abc"))
    refused = headwater(*arguments, "--recurrent", tmp_path / "other")
    assert refused.returncode == 2
    assert "another tokenizer" in refused.stderr


@pytest.mark.parametrize(
    ("arguments", "told"),
    [
        (["--text", "x", "--corpus", "y"], "both a text and a corpus"),
        (["--text", "nowhere.txt"], "is not there"),
        (["--corpus", "{corpus}", "--context", "33"], "1 to 32"),
        (["--corpus", "{corpus}", "--against", "trigam"], "did you mean trigram"),
        (["--corpus", "{corpus}", "--plot", "loss.txt"], ".svg"),
        (["--corpus", "{corpus}", "--most", "0"], "at least"),
        (["--corpus", "{corpus}", "--recurrent", "nowhere"], "is not there"),
    ],
)
def test_what_cannot_be_done_is_told_in_two_lines(headwater, place, arguments, told):
    filled = [argument.format(corpus=place / "corpus") for argument in arguments]
    result = headwater("eval", place / "model", *filled)
    assert result.returncode == 2
    assert told in result.stderr
    assert not result.stdout


def test_a_corpus_of_other_words_is_refused(headwater, place, tmp_path):
    letters = character_tokenizer("".join(path.read_text() for path in (place / "texts").iterdir()))
    build_corpus(Files(paths=(str(place / "texts"),)), letters, tmp_path / "letters", held_out=0.2)
    result = headwater("eval", place / "model", "--corpus", tmp_path / "letters")
    assert result.returncode == 2
    assert "another tokenizer" in result.stderr
