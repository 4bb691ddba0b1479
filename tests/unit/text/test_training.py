import subprocess
import sys

import pytest
from hypothesis import example, given
from hypothesis import strategies as st

from headwater.errors import HeadwaterError, InputError
from headwater.text.sources import Files
from headwater.text.tokenizer import Tokenizer, read_tokenizer
from headwater.text.training import (
    END,
    character_tokenizer,
    make_tokenizer,
    split_words,
    train_bpe,
    word_tokenizer,
)

TEXT = "the cat sat on the mat, and it's 1984: né à là ☃ they've slept\n" * 20
BPE = train_bpe([TEXT], 290)


@given(st.binary())
@example(b"<|endoftext|>")
@example("\ufeffa\r\nb\0é ☃".encode() + b"\xff\xc3")
def test_any_bytes_come_back_from_a_trained_tokenizer(data):
    assert BPE.decode_bytes(BPE.encode_bytes(data)) == data
    (ids,) = BPE.encode_texts([data.decode(errors="surrogateescape")])
    assert BPE.decode_bytes(ids) == data
    assert 0 not in ids


def test_the_end_is_token_0_then_come_the_bytes_then_what_stands_together():
    assert BPE.size == 290
    assert BPE.specials == {0}
    assert BPE.token_bytes(0) == END.encode()
    assert sorted(BPE.token_bytes(token) for token in range(1, 257)) == [bytes([byte]) for byte in range(256)]
    assert BPE.display(257) == "at"
    assert BPE.encode("the<|endoftext|>") == [*BPE.encode("the"), 0]


def test_a_tokenizer_survives_its_file(tmp_path):
    for tokenizer in (BPE, word_tokenizer(["a", END, "b"]), character_tokenizer("né\n")):
        (tmp_path / "tokenizer.json").write_bytes(tokenizer.to_json())
        again = read_tokenizer(tmp_path / "tokenizer.json")
        assert again == tokenizer == Tokenizer.parse(tokenizer.to_json())
        assert again.sha256 == tokenizer.sha256


def test_the_same_texts_give_the_same_bytes_in_another_process():
    code = f"from headwater.text.training import train_bpe; print(train_bpe([{TEXT!r}], 290).sha256)"
    told = [
        subprocess.run(
            [sys.executable, "-c", code],
            capture_output=True,
            text=True,
            check=True,
            env={"RAYON_NUM_THREADS": threads, "PYTHONHASHSEED": threads},
        ).stdout.strip()
        for threads in ("1", "3")
    ]
    assert told == [BPE.sha256, BPE.sha256]


def test_how_the_text_is_dealt_out_changes_nothing():
    lines = TEXT.splitlines(keepends=True)
    assert train_bpe(lines, 290) == train_bpe(iter(lines), 290) == BPE


@pytest.mark.parametrize(("size", "told"), [(256, "257 to"), (2**20, "257 to"), (400, "that gives"), (-1, "257 to")])
def test_a_vocabulary_that_cannot_be_had_is_refused(size, told):
    with pytest.raises(InputError, match=told):
        train_bpe(["a little text"], size)


def test_no_text_gives_the_bytes_and_no_more():
    assert train_bpe([], 257).size == 257
    with pytest.raises(InputError, match="gives 257 tokens"):
        train_bpe([""], 258)


@pytest.mark.timeout(60)
def test_a_word_of_a_megabyte_is_learned_from_and_encoded():
    word = "abcdefgh" * 2**17
    tokenizer = train_bpe([word, "x" * 2**20], 270)
    assert max(len(tokenizer.token_bytes(token)) for token in range(1, tokenizer.size)) <= 128
    assert tokenizer.decode_bytes(tokenizer.encode_texts([word])[0]) == word.encode()


@given(
    st.lists(
        st.text(st.characters(exclude_categories=["Cs", "Z"], exclude_characters="\t\n\r\v\f\x85"), min_size=1), min_size=1
    )
)
def test_words_have_the_ids_of_their_places(words):
    tokenizer = word_tokenizer(words)
    places = {word: place for place, word in enumerate(dict.fromkeys(words))}
    text = " ".join(words)
    assert tokenizer.encode(text) == [places[word] for word in words]
    assert tokenizer.decode([places[word] for word in words]) == text
    assert list(split_words([text])) == words


def test_white_space_only_separates_words():
    tokenizer = word_tokenizer(split_words(["one\u00a0two\u2003three\n", "\x1cfour\x1f five"]))
    assert tokenizer.encode(" one \r\n\ttwo\u3000three  \x1cfour\x1f") == [0, 1, 2, 3]
    assert tokenizer.encode(" \n") == []


def test_a_word_or_character_outside_the_vocabulary_is_refused():
    with pytest.raises(HeadwaterError):
        word_tokenizer(["a", "b"]).encode("a c")
    with pytest.raises(HeadwaterError):
        character_tokenizer("ab").encode("abc")


@pytest.mark.parametrize("words", [[], ["a b"], [""], ["a", "b\n"], ["\ud800"]])
def test_what_is_no_word_is_refused(words):
    with pytest.raises(InputError):
        word_tokenizer(words)


@given(st.text(min_size=1))
@example("\ufeff\r\n\0 é ☃")
def test_characters_are_numbered_in_order_and_any_text_of_them_comes_back(text):
    tokenizer = character_tokenizer(text)
    assert tokenizer.encode(text) == [sorted(set(text)).index(letter) for letter in text]
    assert tokenizer.decode_bytes(tokenizer.encode(text)) == text.encode()
    assert tokenizer.decode(tokenizer.encode(text)) == text
    assert character_tokenizer(list(text)) == tokenizer


def test_no_character_is_no_vocabulary():
    with pytest.raises(InputError):
        character_tokenizer("")


def test_a_tokenizer_is_made_from_a_source(tmp_path):
    (tmp_path / "a.txt").write_text("to be\nor not to be")
    source = Files(paths=(str(tmp_path),))
    assert make_tokenizer(source, "words", 0).size == 4
    assert make_tokenizer(source, "characters", 0) == character_tokenizer("\n benort")
    assert make_tokenizer(source, "bytes", 0).size == 256
    assert make_tokenizer(source, "bpe", 258) == train_bpe(["to be\nor not to be"], 258)
