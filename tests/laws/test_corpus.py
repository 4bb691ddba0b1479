"""Laws of corpora: cutting changes no token, nothing is lost, and what is counted is what stands there."""

import json
import re
from collections import Counter as Tally
from itertools import pairwise
from pathlib import Path
from tempfile import TemporaryDirectory

import numpy as np
import pytest
import tokenizers
from hypothesis import example, given
from hypothesis import strategies as st
from tokenizers import normalizers

from headwater.text import schema
from headwater.text.corpus import build_corpus, open_corpus
from headwater.text.counts import RECORD, Counter, conditional_entropy, entropy
from headwater.text.passages import ANYWHERE, BEFORE_SPACE, PASSAGE, WORD_END, cut_places, passages
from headwater.text.sources import Document, Files
from headwater.text.tokenizer import Tokenizer, byte_tokenizer
from headwater.text.training import character_tokenizer, train_bpe, word_tokenizer
from headwater.text.vocabularies import added_token, byte_letters, byte_level, dump

SIGNS = " \n\t\r\u3000a1.'/é"


def joining(splits, *, words=True):
    """A byte-level tokenizer that joins any two bytes of ``SIGNS`` that its splitting leaves together, and some more."""
    letters = [byte_letters()[byte] for byte in sorted(set(SIGNS.encode()))]
    pairs = [(one, other) for one in letters for other in letters]
    longer = [(one + other, last) for one, other in pairs for last in letters[:4]]
    pieces = [*byte_letters(), *("".join(pair) for pair in [*pairs, *longer])]
    table = byte_level({piece: token for token, piece in enumerate(pieces)}, [*pairs, *longer], splits=splits)
    if not words:
        table["pre_tokenizer"]["use_regex"] = False
    return table


def split(pattern):
    return {"type": "Split", "pattern": {"Regex": pattern}, "behavior": "Isolated", "invert": False}


def parse(table):
    return Tokenizer.parse(dump(table))


PATTERNS = (schema.GPT2, schema.LLAMA3, schema.QWEN2, schema.TEKKEN)
TOKENIZERS = [
    (parse(joining([])), WORD_END),
    *((parse(joining([split(pattern)])), BEFORE_SPACE) for pattern in PATTERNS),
    (train_bpe(["aa a. 'a é1\n\n a \t\r\n"] * 9, 262), WORD_END),
    (byte_tokenizer(), ANYWHERE),
    (character_tokenizer(SIGNS), ANYWHERE),
]


@pytest.mark.parametrize(("tokenizer", "places"), TOKENIZERS)
@given(text=st.text(SIGNS, max_size=12))
@example("a\n  a")
@example("a.\n/a")
@example("a \u3000\n'a")
def test_a_text_can_be_cut_where_it_is_said_to(tokenizer, places, text):
    assert cut_places(tokenizer) == places
    (whole,) = tokenizer.encode_texts([text])
    for place in places.finditer(text):
        left, right = tokenizer.encode_texts([text[: place.start()], text[place.start() :]])
        assert left + right == whole


@given(st.lists(st.sampled_from(["a", "bb", " ", "\n", "\u3000", "\x1c"]), max_size=9).map("".join))
def test_a_text_of_words_can_be_cut_where_a_word_ends(text):
    tokenizer = word_tokenizer(re.findall(r"[\S\x1c]+", text) or ["a"])
    assert cut_places(tokenizer) == WORD_END
    for place in WORD_END.finditer(text):
        assert tokenizer.encode(text[: place.start()]) + tokenizer.encode(text[place.start() :]) == tokenizer.encode(text)


def test_what_python_calls_no_white_space_is_none_to_the_library():
    every = "".join(chr(number) for number in range(0x110000) if not 0xD800 <= number <= 0xDFFF)
    kept = normalizers.Replace(tokenizers.Regex(r"\s"), "").normalize_str(every)
    assert set(re.findall(r"[\S\x1c-\x1f]", every)) == set(kept)


@pytest.mark.parametrize(
    "change",
    [
        {"normalizer": {"type": "NFC"}},
        {"added_tokens": [added_token(99, "Z\nZ", is_special=False)]},
        {"pre_tokenizer": {"type": "ByteLevel", "add_prefix_space": True, "trim_offsets": True, "use_regex": True}},
        {"pre_tokenizer": {"type": "ByteLevel", "add_prefix_space": False, "trim_offsets": True, "use_regex": False}},
        {"pre_tokenizer": None},
        {"pre_tokenizer": {"type": "Metaspace", "replacement": "_", "prepend_scheme": "always", "split": True}},
    ],
)
def test_where_cutting_might_change_a_token_no_place_is_named(change):
    table = joining([])
    for token in change.get("added_tokens", []):
        token["id"] = len(table["model"]["vocab"])
    assert cut_places(parse(table | change)) is None


def long_text(seed, size):
    """Random words, and here and there a byte that is no UTF-8."""
    draws = np.random.default_rng(seed)
    return b"".join(
        draws.choice([b"abba ", b"ba\n", b". ", b"\xe9", "é ".encode()], size // 3, p=[0.5, 0.3, 0.19, 0.005, 0.005])
    )


documents = st.lists(
    st.one_of(
        st.binary(max_size=40),
        st.text(SIGNS, max_size=40).map(str.encode),
        st.builds(long_text, st.integers(0, 2**32), st.integers(PASSAGE, 2 * PASSAGE)),
    ),
    min_size=1,
    max_size=3,
)


def in_chunks(data, size):
    return Document("text", len(data), lambda: (data[begin : begin + size] for begin in range(0, len(data), size)))


@pytest.mark.parametrize("places", [ANYWHERE, WORD_END, BEFORE_SPACE, None])
@given(datas=documents, size=st.integers(1, 20_000))
def test_passages_make_up_a_document_however_it_is_read(datas, size, places):
    for data in datas:
        told = list(passages(in_chunks(data, max(size, len(data) // 50)), places))
        assert b"".join(passage.data for passage in told) == data
        assert told == list(passages(in_chunks(data, len(data) + 1), places))
        assert [passage.offset for passage in told] == [
            sum(len(one.data) for one in told[:place]) for place in range(len(told))
        ]
        assert all(len(passage.text) >= PASSAGE for passage in told[:-1])


def build(datas, tokenizer, folder, **options):
    for number, data in enumerate(datas):
        (Path(folder) / f"{number:03}.txt").write_bytes(data)
    return build_corpus(Files(paths=(f"{folder}/*.txt",)), tokenizer, Path(folder) / "corpus", **options)


BPE = train_bpe(["ab .a\n b. ba <|endoftext|>\n"] * 9, 270)
SPELLED = [BPE.token_bytes(token) for token in range(BPE.size)]


def stretches(ids):
    """What stands between the ends of texts, in bytes."""
    cuts = [*np.flatnonzero(ids == 0), len(ids)]
    return [b"".join(SPELLED[token] for token in ids[begin + 1 : stop].tolist()) for begin, stop in pairwise(cuts)]


@given(documents.filter(any), st.integers(0, 9))
@example([b"<|endoftext|>", b"", b"\xef\xbb\xbfa\r\nb\0"], 0)
def test_both_parts_together_give_back_every_byte(datas, seed):
    with TemporaryDirectory() as folder:
        corpus = build(datas, BPE, folder, held_out=0.0, seed=seed)
        assert stretches(corpus.train) == [data for data in datas if data]
        assert (corpus.manifest.documents, corpus.manifest.train.bytes) == (sum(map(bool, datas)), sum(map(len, datas)))


@given(st.integers(0, 2**32), st.integers(0, 99), st.floats(0.2, 0.8))
def test_a_split_text_can_be_put_together_again(number, seed, share):
    draws = np.random.default_rng(number)
    datas = [long_text(number, 5 * PASSAGE), *(draws.bytes(30) for _ in range(20))]
    with TemporaryDirectory() as folder:
        corpus = build(datas, BPE, folder, held_out=share, seed=seed)
        train, held_out = (stretches(part) for part in (corpus.train, corpus.held_out))
        assert not set(train) & set(held_out)
        for data in datas:
            rest = data
            while rest:
                part = next(part for part in (train, held_out) if part and rest.startswith(part[0]))
                rest = rest.removeprefix(part.pop(0))
        assert (train, held_out) == ([], [])


@given(documents.filter(any))
def test_counts_are_those_of_a_loop_over_the_training_part(datas):
    with TemporaryDirectory() as folder:
        corpus = build(datas, BPE, folder, held_out=0.0)
        ids = corpus.train.tolist()
        tally = Tally(ids)
        assert corpus.unigrams.tolist() == [tally[token] for token in range(BPE.size)]
        assert listed(corpus.bigrams) == sorted((*pair, count) for pair, count in Tally(pairwise(ids)).items())


def listed(bigrams):
    return list(zip(bigrams.first.tolist(), bigrams.second.tolist(), bigrams.count.tolist(), strict=True))


@given(
    st.lists(st.lists(st.integers(0, 4), max_size=20), max_size=200),
    st.integers(1, 30),
    st.sampled_from([5, 70_000]),
)
def test_how_much_is_held_in_memory_changes_no_count(parts, most, vocab):
    parts = [[vocab - 1 - token for token in part] for part in parts]
    with TemporaryDirectory() as folder:
        counter = Counter(vocab, Path(folder), most_waiting=most)
        for part in parts:
            counter.add(np.array(part, np.uint32))
        counter.write_bigrams(Path(folder) / "bigrams")
        records = np.fromfile(Path(folder) / "bigrams", RECORD)
        assert [path.name for path in Path(folder).iterdir()] == ["bigrams"]
    ids = [token for part in parts for token in part]
    assert records.tolist() == sorted((*pair, count) for pair, count in Tally(pairwise(ids)).items())
    assert counter.unigrams.tolist() == [ids.count(token) for token in range(vocab)]


@given(st.lists(st.integers(0, 3), min_size=2, max_size=60))
def test_entropies_are_those_of_their_definitions(ids):
    pairs = Tally(pairwise(ids))
    rows = sorted((*pair, count) for pair, count in pairs.items())
    first, _, count = (np.array(column) for column in zip(*rows, strict=True))
    alone = Tally(ids[:-1])
    expected = -sum(many / (len(ids) - 1) * np.log(many / alone[one]) for (one, _), many in pairs.items())
    assert conditional_entropy(first, count) == pytest.approx(expected, abs=1e-12)
    assert entropy(np.array(list(alone.values()))) == pytest.approx(
        -sum(many / (len(ids) - 1) * np.log(many / (len(ids) - 1)) for many in alone.values()), abs=1e-12
    )


@given(documents.filter(any), st.integers(1, 5))
def test_how_much_is_encoded_together_changes_nothing(datas, batch):
    with TemporaryDirectory() as one, TemporaryDirectory() as other, pytest.MonkeyPatch.context() as change:
        first = build(datas, BPE, one, held_out=0.0)
        change.setattr("headwater.text.encoding.BATCH", batch * 1000)
        change.setattr("headwater.text.sources.CHUNK", batch * 777)
        change.setattr("headwater.text.counts.MOST_WAITING", batch * 10)
        second = build(datas, BPE, other, held_out=0.0)
        assert first.manifest.files == second.manifest.files
        assert json.loads((second.folder / "manifest.json").read_text())["train"]["tokens"] == len(first.train)
        assert open_corpus(second.folder, verify=True).manifest == second.manifest
