import json
import os
import shutil
import subprocess
import sys
import tracemalloc
from functools import partial
from itertools import pairwise
from pathlib import Path

import numpy as np
import pytest

from headwater.errors import HeadwaterError, InputError, ModelFileError
from headwater.text import corpus
from headwater.text.corpus import FILES, build_corpus, open_corpus
from headwater.text.counts import RECORD, Counter
from headwater.text.passages import LONGEST
from headwater.text.planted import PlantedLanguage
from headwater.text.sources import Built, Files, Planted, StandardLibrary
from headwater.text.tokenizer import byte_tokenizer, read_tokenizer
from headwater.text.training import END, character_tokenizer, train_bpe, word_tokenizer

WORDS = ("the", "cat", "sat", "on", "a", "mat", "and", "slept")
BPE = train_bpe(["the cat sat on a mat and slept\n"] * 9, 275)


def random_text(seed, words):
    draws = np.random.default_rng(seed)
    return " ".join(draws.choice(WORDS, words))


def corpus_of(tmp_path, tokenizer, *texts, **options):
    for number, text in enumerate(texts):
        (tmp_path / f"{number:03}.txt").write_bytes(text if isinstance(text, bytes) else text.encode())
    return build_corpus(Files(paths=(f"{tmp_path}/*.txt",)), tokenizer, tmp_path / "corpus", **options)


@pytest.fixture(scope="module")
def built(tmp_path_factory):
    return corpus_of(tmp_path_factory.mktemp("text"), BPE, *(random_text(seed, 9000) for seed in range(5)), held_out=0.3)


def test_a_corpus_is_opened_as_it_was_built(built):
    opened = open_corpus(built.folder, verify=True)
    assert opened.manifest == built.manifest
    assert opened.tokenizer == BPE
    assert opened.vocab == 275
    assert sorted(path.name for path in built.folder.iterdir()) == sorted([*FILES, "manifest.json"])
    assert isinstance(opened.train, np.memmap)
    assert (opened.train.dtype, opened.unigrams.dtype) == (np.uint16, np.int64)
    assert (len(opened.train), len(opened.held_out)) == (opened.manifest.train.tokens, opened.manifest.held_out.tokens)
    assert opened.bigrams.count.sum() == len(opened.train) - 1
    assert not opened.train.flags.writeable


def test_the_held_out_share_is_about_what_was_asked_for(built):
    train, held_out = built.manifest.train, built.manifest.held_out
    assert 0.25 < held_out.bytes / (train.bytes + held_out.bytes) <= 0.3
    assert built.manifest.documents == 5


def test_the_split_depends_on_seed_and_content_and_nothing_else(tmp_path):
    texts = [random_text(seed, 6000) for seed in range(6)]
    folders = [tmp_path / name for name in ("one", "other", "third")]
    for folder in folders:
        folder.mkdir()
    one = corpus_of(folders[0], BPE, *texts, held_out=0.4)
    moved = corpus_of(folders[1], BPE, *texts[::-1], held_out=0.4)
    assert held_out_passages(one) == held_out_passages(moved)
    assert held_out_passages(corpus_of(folders[2], BPE, *texts, held_out=0.4, seed=1)) != held_out_passages(one)


def held_out_passages(corpus):
    cuts = [*np.flatnonzero(corpus.held_out == 0), len(corpus.held_out)]
    return {tuple(corpus.held_out[begin:end].tolist()) for begin, end in pairwise(cuts)}


def test_equal_documents_are_on_the_same_side(tmp_path):
    corpus = corpus_of(tmp_path, BPE, *(f"the cat {number % 10}" for number in range(200)), held_out=0.3)
    train, held_out = (
        {BPE.decode(part[begin:end].tolist()) for begin, end in pairwise([*np.flatnonzero(part == 0), len(part)])}
        for part in (corpus.train, corpus.held_out)
    )
    assert len(train) + len(held_out) == 10
    assert not train & held_out


def test_each_document_begins_with_the_end_of_the_one_before(tmp_path):
    corpus = corpus_of(tmp_path, BPE, "the cat", "", f"a {END} mat", held_out=0.0)
    (one, other) = BPE.encode_texts(["the cat", f"a {END} mat"])
    assert corpus.train.tolist() == [0, *one, 0, *other]
    assert corpus.manifest.documents == 2
    assert len(corpus.held_out) == 0


def test_a_tokenizer_without_an_end_just_goes_on(tmp_path):
    assert corpus_of(tmp_path, byte_tokenizer(), b"a\xff", b"\0b", held_out=0.0).train.tolist() == [97, 255, 0, 98]


def test_words_of_several_files_follow_each_other(tmp_path):
    corpus = corpus_of(tmp_path, word_tokenizer(WORDS), "the cat\nsat", " \n", "on a\r\nmat\n", held_out=0.0)
    assert corpus.tokenizer.decode(corpus.train.tolist()) == "the cat sat on a mat"


def test_an_id_takes_two_bytes_where_they_suffice():
    assert [corpus._dtype(vocab).itemsize for vocab in (2, 65_536, 65_537)] == [2, 2, 4]


@pytest.mark.parametrize(
    ("tokenizer", "text", "told"),
    [
        (character_tokenizer("ab"), b"abba" * 5000 + b"\xc3", "000.txt is no UTF-8 at byte 20,000"),
        (word_tokenizer(["a", "é"]), "é a ".encode() * 2400 + b"\xff a", "000.txt is no UTF-8 at byte 12,000"),
        (character_tokenizer("aé"), "é".encode() * 9000 + b"x", "'x' at byte 18,000"),
        (word_tokenizer(["a", "é"]), "é a ".encode() * 2400 + b"cat", "'cat' at byte 12,000"),
    ],
)
def test_what_cannot_be_encoded_is_refused_with_its_place(tmp_path, tokenizer, text, told):
    with pytest.raises(InputError) as caught:
        corpus_of(tmp_path, tokenizer, text, held_out=0.0)
    assert told in str(caught.value)
    assert not (tmp_path / "corpus").exists()


@pytest.mark.parametrize("texts", [[""], [b"", b""]])
def test_no_text_is_refused(tmp_path, texts):
    with pytest.raises(InputError, match="without any text"):
        corpus_of(tmp_path, BPE, *texts)


def test_too_little_text_to_hold_some_out_is_refused(tmp_path):
    with pytest.raises(InputError, match="hold out a share of"):
        corpus_of(tmp_path, BPE, "the cat", "the cat", held_out=0.05)


def test_of_little_text_at_least_one_passage_is_held_out(tmp_path):
    corpus = corpus_of(tmp_path, BPE, "the cat", "a mat", held_out=0.01)
    assert (corpus.manifest.train.passages, corpus.manifest.held_out.passages) == (1, 1)


@pytest.mark.parametrize("options", [{"held_out": 1.0}, {"held_out": -0.1}, {"held_out": float("nan")}, {"seed": -1}])
def test_an_absurd_split_is_refused(tmp_path, options):
    with pytest.raises(InputError):
        corpus_of(tmp_path, BPE, "the cat", **options)


def test_a_corpus_is_no_text(built, tmp_path):
    with pytest.raises(InputError, match="corpus already"):
        build_corpus(Built(folder=str(built.folder)), BPE, tmp_path / "again")


def test_a_folder_that_is_there_is_replaced_only_when_asked(tmp_path):
    first = corpus_of(tmp_path, BPE, "the cat", held_out=0.0)
    with pytest.raises(InputError, match="already there"):
        corpus_of(tmp_path, BPE, "a mat", held_out=0.0)
    assert open_corpus(first.folder, verify=True).train.tolist() == first.train.tolist()
    assert len(corpus_of(tmp_path, BPE, "a mat", held_out=0.0, overwrite=True).train) > 0


@pytest.mark.timeout(120)
def test_a_word_of_a_megabyte_is_encoded_whole(tmp_path):
    text = "x" * 2**20 + " the cat " + "ab" * 2**19
    corpus = corpus_of(tmp_path, BPE, text, held_out=0.0)
    assert np.array_equal(corpus.train[1:], BPE.encode_texts([text])[0])


def test_a_text_that_cannot_be_cut_is_refused_with_its_place(tmp_path):
    with pytest.raises(InputError, match=r"000\.txt: more than 4,194,304 characters from byte 8,208 on"):
        corpus_of(tmp_path, BPE, "é" * 9 + "a" * 8190 + "\u3000\n" + "x" * (LONGEST + 1))


def test_one_token_for_each_character_can_be_cut_anywhere(tmp_path):
    corpus = corpus_of(tmp_path, character_tokenizer("acgt"), "acgt" * 2**12 + "aa" * 2**13, held_out=0.5)
    assert corpus.manifest.train.tokens + corpus.manifest.held_out.tokens == 2**15


def test_a_file_that_lost_its_end_is_refused_before_it_is_mapped(built, tmp_path):
    for name in FILES:
        folder = tmp_path / name
        shutil.copytree(built.folder, folder)
        os.truncate(folder / name, (folder / name).stat().st_size - RECORD.itemsize)
        with pytest.raises(ModelFileError, match=name):
            open_corpus(folder)


def test_a_changed_byte_is_found_when_asked_for(built, tmp_path):
    folder = tmp_path / "changed"
    shutil.copytree(built.folder, folder)
    data = bytearray((folder / "train.bin").read_bytes())
    data[1000] ^= 1
    (folder / "train.bin").write_bytes(data)
    open_corpus(folder)
    with pytest.raises(ModelFileError, match=r"train\.bin was changed"):
        open_corpus(folder, verify=True)


@pytest.mark.parametrize(
    "change",
    [
        {"format": "headwater-corpus/2"},
        {"vocab": 276},
        {"tokenizer": "0" * 64},
        {"train": {"tokens": 3, "bytes": 3, "passages": 1}},
        {"files": []},
        {"sauce": "unknown"},
        {"source": "somewhere"},
    ],
)
def test_a_manifest_that_does_not_fit_its_files_is_refused(built, tmp_path, change):
    folder = tmp_path / "changed"
    shutil.copytree(built.folder, folder)
    manifest = json.loads((folder / "manifest.json").read_text())
    (folder / "manifest.json").write_text(json.dumps(manifest | change))
    with pytest.raises(HeadwaterError):
        open_corpus(folder)


def test_what_is_no_corpus_is_refused(tmp_path):
    with pytest.raises(ModelFileError, match="not there"):
        open_corpus(tmp_path)


def test_a_planted_text_is_what_its_language_says(tmp_path):
    language = PlantedLanguage(seed=2)
    source = Planted(language=language, tokens=70_000)
    corpus = build_corpus(source, language.tokenizer(), tmp_path / "corpus", held_out=0.1)
    assert np.array_equal(corpus.train, language.sample(70_000, seed=0).ids)
    assert len(corpus.held_out) == 7000
    assert not np.array_equal(corpus.held_out, corpus.train[:7000])
    assert open_corpus(corpus.folder, verify=True).manifest.source == source
    with pytest.raises(InputError, match="another tokenizer"):
        build_corpus(source, BPE, tmp_path / "other")


def test_the_standard_library_names_its_python(tmp_path, monkeypatch):
    library = tmp_path / "library"
    library.mkdir()
    for number in range(30):
        (library / f"module_{number}.py").write_text(random_text(number, 50))
    monkeypatch.setattr("headwater.text.sources._library", lambda: library)
    corpus = build_corpus(StandardLibrary(), BPE, tmp_path / "corpus", held_out=0.3)
    assert corpus.manifest.python == ".".join(map(str, sys.version_info[:3]))
    assert corpus.manifest.documents == 30


def test_progress_goes_up_to_the_size_of_the_text(tmp_path):
    told = []
    corpus_of(tmp_path, BPE, random_text(0, 5000), "a mat", held_out=0.0, progress=lambda *state: told.append(state))
    done = [state[0] for state in told]
    size = sum(path.stat().st_size for path in tmp_path.glob("*.txt"))
    assert done == sorted(done)
    assert told[-1] == (size, size)


def test_memory_does_not_grow_with_the_text(tmp_path, monkeypatch):
    for name, value in {"encoding.BATCH": 2**14, "sources.CHUNK": 2**14, "counts.MOST_RUNS": 4}.items():
        monkeypatch.setattr(f"headwater.text.{name}", value)
    monkeypatch.setattr("headwater.text.corpus.Counter", partial(Counter, most_waiting=2**12))
    peaks = []
    for words in (20_000, 160_000):
        path = tmp_path / f"{words}.txt"
        path.write_text(random_text(0, words))
        tracemalloc.start()
        build_corpus(Files(paths=(str(path),)), BPE, tmp_path / f"{words}", held_out=0.1)
        peaks.append(tracemalloc.get_traced_memory()[1])
        tracemalloc.stop()
    assert peaks[1] < 1.2 * peaks[0]


def test_a_build_that_is_killed_leaves_no_corpus(tmp_path):
    (tmp_path / "text.txt").write_text(random_text(0, 50_000))
    (tmp_path / "tokenizer.json").write_bytes(BPE.to_json())
    code = f"""
import os, signal
from pathlib import Path
from headwater.text.corpus import build_corpus
from headwater.text.sources import Files
from headwater.text.tokenizer import read_tokenizer
folder = Path({str(tmp_path)!r})
kill = lambda done, total: done > 100_000 and os.kill(os.getpid(), signal.SIGKILL)
build_corpus(Files(paths=(str(folder / "text.txt"),)), read_tokenizer(folder / "tokenizer.json"), folder / "corpus", progress=kill)
"""
    assert subprocess.run([sys.executable, "-c", code], check=False).returncode == -9
    assert not (tmp_path / "corpus").exists()
    tokenizer = read_tokenizer(tmp_path / "tokenizer.json")
    assert build_corpus(Files(paths=(str(tmp_path / "text.txt"),)), tokenizer, tmp_path / "corpus", held_out=0.2).train.size


def test_an_interrupted_build_leaves_nothing(tmp_path):
    def stop(done, total):
        raise KeyboardInterrupt

    with pytest.raises(KeyboardInterrupt):
        corpus_of(tmp_path, BPE, random_text(0, 100), held_out=0.0, progress=stop)
    assert [path.name for path in Path(tmp_path).iterdir()] == ["000.txt"]
