"""The corpus commands as a person runs them."""

import json

import pytest

from headwater.text.corpus import open_corpus
from headwater.text.tokenizer import byte_tokenizer

TEXT = "".join(f"{number} green bottles hanging on the wall\n" for number in range(4000))


@pytest.fixture
def text(tmp_path):
    (tmp_path / "text.txt").write_text(TEXT)
    return tmp_path / "text.txt"


@pytest.mark.parametrize(
    ("options", "vocab"),
    [
        (["--vocab", 300], 300),
        (["--bytes"], 256),
        (["--characters"], len(set(TEXT))),
        (["--words"], len(set(TEXT.split()))),
    ],
)
def test_a_corpus_is_built_and_shown(headwater, text, tmp_path, options, vocab):
    result = headwater("corpus", "build", text, "--out", tmp_path / "corpus", "--held-out", 0.2, *options, "--json")
    assert result.returncode == 0, result.stderr
    told = json.loads(result.stdout)
    assert told["vocabulary"] == vocab == open_corpus(tmp_path / "corpus", verify=True).vocab
    assert told["counts"]["train"]["bytes"] + told["counts"]["held_out"]["bytes"] == len(TEXT)
    assert told["source"] == {"kind": "files", "paths": [str(text)]}
    assert 0 < told["entropy"]["bigrams"] < told["entropy"]["unigrams"]
    shown = headwater("corpus", "show", tmp_path / "corpus", "--verify", "--json")
    assert json.loads(shown.stdout) == told


def test_a_person_sees_counts_and_what_is_frequent(headwater, text, tmp_path):
    result = headwater("corpus", "build", text, "--out", tmp_path / "corpus", "--held-out", "0.2", "--vocab", "300")
    assert result.returncode == 0, result.stderr
    assert "written to" in result.stderr
    assert "held out" in result.stdout
    shown = headwater("corpus", "show", tmp_path / "corpus", "--top", 3)
    assert shown.returncode == 0
    assert " bottles    hanging " in shown.stdout
    assert shown.stdout.count("\n") < result.stdout.count("\n")


def test_standard_input_is_learned_from_and_then_encoded(headwater, tmp_path):
    result = headwater(
        "corpus", "build", "-", "--out", tmp_path / "corpus", "--held-out", 0, "--vocab", 300, stdin=TEXT.encode()
    )
    assert result.returncode == 0, result.stderr
    assert open_corpus(tmp_path / "corpus").manifest.train.bytes == len(TEXT)


def test_a_tokenizer_can_be_given(headwater, text, tmp_path):
    (tmp_path / "tokenizer.json").write_bytes(byte_tokenizer().to_json())
    out = tmp_path / "corpus"
    result = headwater("corpus", "build", text, "--out", out, "--held-out", 0, "--tokenizer", tmp_path / "tokenizer.json")
    assert result.returncode == 0, result.stderr
    assert bytes(open_corpus(out).train.astype("u1")) == TEXT.encode()


@pytest.mark.parametrize(
    ("arguments", "told"),
    [
        ([], "no source"),
        (["-", "a.txt"], "one kind of source"),
        (["nothing.txt"], "nothing.txt is not there"),
        (["--vocabulary"], "'--vocabulary'"),
        (["TEXT", "--words", "--bytes"], "several tokenizers"),
        (["TEXT", "--vocab", "100"], "257 to"),
        (["TEXT", "--held-out", "1.5"], "held_out is 1.5"),
        (["TEXT", "--tokenizer", "nothing.json"], "nothing.json is not there"),
    ],
)
def test_a_wrong_choice_is_told_in_two_lines(headwater, text, tmp_path, arguments, told):
    given = [str(text) if argument == "TEXT" else argument for argument in arguments]
    result = headwater("corpus", "build", *given, "--out", tmp_path / "corpus")
    assert result.returncode == 2
    assert told in result.stderr
    assert not (tmp_path / "corpus").exists()


def test_what_is_no_corpus_is_not_shown(headwater, tmp_path):
    assert headwater("corpus", "show", tmp_path).returncode == 2
