"""``headwater study`` as a person runs it."""

import json

import pytest

from headwater.api import load
from headwater.text.corpus import open_corpus
from headwater.text.counts import conditional_entropy
from headwater.train.recipe import read_recipe
from headwater.train.run import run_recipe
from headwater.train.studies import bigram
from headwater.train.studies.pairs import Pairs
from tiny import TEXT

RECIPE = """
name = "tiny"
[text]
source = {{ kind = "files", paths = ["{text}"] }}
tokenizer = "bytes"
held_out = 0.2
[model]
vocab = 256
context = 16
d_model = 8
layers = 0
[training]
steps = 5
batch = 4
learning_rate = 1e-2
warmup = 2
"""


@pytest.fixture(scope="module")
def trained(tmp_path_factory):
    """A run of a zero-layer model and its text."""
    folder = tmp_path_factory.mktemp("study")
    text, recipe = folder / "text.txt", folder / "tiny.toml"
    text.write_text(TEXT)
    recipe.write_text(RECIPE.format(text=text))
    run_recipe(read_recipe(recipe), folder / "run")
    return folder


def test_a_run_is_followed_along_its_snapshots(headwater, trained):
    result = headwater("study", "bigram", trained / "run", "--often", 100, "--json")
    assert result.returncode == 0, result.stderr
    document = json.loads(result.stdout)
    assert [fit["step"] for fit in document["fits"]] == [0, 1, 2, 4, 5]
    corpus = open_corpus(trained / "run" / "corpus")
    assert document["entropy"] == pytest.approx(conditional_entropy(corpus.bigrams.first, corpus.bigrams.count))
    counts = corpus.bigrams
    wanted = bigram.fit(
        load(trained / "run" / "model").weights,
        Pairs.sparse(256, counts.first, counts.second, counts.count),
        step=5,
        often=100,
    )
    assert document["fits"][-1]["excess"] == wanted.excess
    assert document["fits"][-1]["mean_kl"] == wanted.mean_kl


def test_a_model_is_held_against_a_text(headwater, trained):
    (trained / "other.txt").write_text("abababab" * 10)
    result = headwater("study", "bigram", trained / "run" / "model", "--text", trained / "other.txt", "--json")
    assert result.returncode == 0, result.stderr
    document = json.loads(result.stdout)
    assert document["entropy"] == pytest.approx(0, abs=0.1)
    assert len(document["fits"]) == 1


def test_without_a_model_one_is_trained_and_drawn(headwater, trained):
    plot = trained / "curves.svg"
    result = headwater("study", "bigram", "--text", trained / "text.txt", "--steps", 4, "--plot", plot)
    assert result.returncode == 0, result.stderr
    assert "W_E W_U, all of it" in result.stdout
    assert "along the training" in result.stdout
    assert "<svg" in plot.read_text()


def test_widths_are_compared(headwater, trained):
    plot = trained / "curves.png"
    result = headwater("study", "rank", "--text", trained / "text.txt", "--steps", 4, "--widths", 1, 2, "--plot", plot)
    assert result.returncode == 0, result.stderr
    assert "rank limit" in result.stdout
    assert "2.5e-06" in result.stdout
    assert plot.read_bytes().startswith(b"\x89PNG")


def test_what_cannot_be_studied_is_refused_in_words(headwater, trained):
    for arguments, told in [
        (("gradients", trained / "run"), "a model without layers"),
        (("induction", trained / "run" / "model"), "a model of 0 layers"),
        (("planted", trained / "run"), "a text that was not planted"),
        (("bigram", trained / "run", "--plot", trained / "curves.bmp"), "curves.bmp"),
        (("bigram", "--plot", trained / "nowhere" / "curves.svg"), "a folder that is there"),
        (("bigram", trained / "nothing"), "nothing is there"),
        (("bigram", trained / "run", "--text", trained / "text.txt", "--corpus", trained), "both a text and a corpus"),
    ]:
        result = headwater("study", *arguments)
        assert result.returncode == 2, arguments
        assert told in result.stderr
        assert not result.stdout
