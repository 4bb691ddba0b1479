import json
import struct

import gguf as peer
import pytest
import tokenizers
from hypothesis import example, given
from hypothesis import strategies as st
from tokenizers import decoders, models, normalizers, pre_tokenizers, processors, trainers

from headwater.errors import InputError, ModelFileError
from headwater.text import schema, vocabularies
from headwater.text.tokenizer import Tokenizer, byte_tokenizer, read_tokenizer

TEXTS = ["the cat sat on the mat ", "hello, world! ", "né à là ☃ 123 4567\n", "it's  we'll   they've\t"] * 3


def trained(path, *, special="<|endoftext|>"):
    """A byte-level tokenizer as a Hugging Face folder has it."""
    inner = tokenizers.Tokenizer(models.BPE())
    inner.pre_tokenizer = pre_tokenizers.ByteLevel(add_prefix_space=False)
    inner.decoder = decoders.ByteLevel()
    alphabet = pre_tokenizers.ByteLevel.alphabet()
    inner.train_from_iterator(
        TEXTS, trainers.BpeTrainer(vocab_size=320, special_tokens=[special], initial_alphabet=alphabet, show_progress=False)
    )
    inner.save(str(path))
    return inner


@given(data=st.binary())
def test_the_byte_tokenizer_gives_back_any_bytes(data):
    tokenizer = BYTES
    assert tokenizer.encode_bytes(data) == list(data)
    assert tokenizer.decode_bytes(data) == data


@given(text=st.text())
def test_the_byte_tokenizer_gives_back_any_text(text):
    assert BYTES.encode(text) == list(text.encode())
    assert BYTES.decode(BYTES.encode(text)) == text


BYTES = byte_tokenizer()


@given(text=st.text(), data=st.binary())
def test_a_byte_level_tokenizer_agrees_with_its_library_and_gives_everything_back(tmp_path_factory, text, data):
    path = tmp_path_factory.getbasetemp() / "byte-level.json"
    inner = trained(path) if not path.exists() else tokenizers.Tokenizer.from_file(str(path))
    tokenizer = read_tokenizer(path)
    assert tokenizer.encode(text) == inner.encode(text).ids
    assert tokenizer.decode_bytes(tokenizer.encode_bytes(data)) == data
    if "<|endoftext|>" not in text:
        assert tokenizer.decode(tokenizer.encode(text)) == text
        assert tokenizer.decode_bytes(tokenizer.encode(text)).decode() == text


def test_saving_and_parsing_give_an_equal_tokenizer(tmp_path):
    inner = trained(tmp_path / "tokenizer.json")
    tokenizer = read_tokenizer(tmp_path / "tokenizer.json")
    again = Tokenizer.parse(tokenizer.to_json())
    assert again == tokenizer
    assert again != BYTES
    assert again.sha256 == tokenizer.sha256 != BYTES.sha256
    assert tokenizer.to_json() == (tmp_path / "tokenizer.json").read_bytes()
    assert tokenizer.size == inner.get_vocab_size()


def test_special_tokens_that_the_file_asks_for_are_put_around_a_text(tmp_path):
    path = tmp_path / "tokenizer.json"
    inner = trained(path)
    inner.post_processor = processors.TemplateProcessing(single="<|endoftext|> $A", special_tokens=[("<|endoftext|>", 0)])
    inner.save(str(path))
    tokenizer = read_tokenizer(path)
    assert tokenizer.encode("the")[0] == 0
    assert tokenizer.decode(tokenizer.encode("the")) == "the"
    assert tokenizer.token_bytes(0) == b"<|endoftext|>"


def test_padding_and_truncation_are_the_callers_business(tmp_path):
    path = tmp_path / "tokenizer.json"
    inner = trained(path)
    inner.enable_truncation(2)
    inner.enable_padding(length=50)
    inner.save(str(path))
    assert len(read_tokenizer(path).encode("hello, world")) not in (2, 50)


def test_ids_and_texts_that_do_not_exist_are_refused():
    for token in (-1, 256, 10**12):
        for use in (
            BYTES.display,
            BYTES.token_bytes,
            lambda token: BYTES.decode([token]),
            lambda token: BYTES.decode_bytes([token]),
        ):
            with pytest.raises(InputError, match="ids from 0 to 255"):
                use(token)
    with pytest.raises(InputError, match="surrogate"):
        BYTES.encode("\ud800")


def test_what_cannot_be_seen_is_shown():
    pieces = [
        " the",
        "\n",
        "\t\0",
        "\x7f",
        "\ufeff",
        "\u200f",
        "\u00a0",
        "\u2028",
        "☃",
        "e\u0301",
        "\x85",
        "\u3164\u2800",
        "a\ufe0f",
    ]
    vocab = {piece: token for token, piece in enumerate(pieces)}
    tokenizer = Tokenizer.parse(json.dumps({"model": {"type": "WordLevel", "vocab": vocab, "unk_token": " the"}}).encode())
    shown = [" the", "␊", "␉␀", "␡", "<U+FEFF>", "<U+200F>", "<U+00A0>", "<U+2028>", "☃", "e\u0301", "<U+0085>"]
    shown += ["<U+3164><U+2800>", "a<U+FE0F>"]
    assert [tokenizer.display(token) for token in range(len(pieces))] == shown
    assert [BYTES.display(byte) for byte in (32, 65, 10, 0xE2, 0xFF)] == [" ", "A", "␊", "<E2>", "<FF>"]


def test_vocab_and_merges_make_the_tokenizer_of_gpt2(tmp_path):
    inner = trained(tmp_path / "tokenizer.json")
    model = json.loads((tmp_path / "tokenizer.json").read_text())["model"]
    (tmp_path / "vocab.json").write_text(json.dumps(model["vocab"]))
    (tmp_path / "merges.txt").write_text("#version: 0.2\n" + "\n".join(" ".join(pair) for pair in model["merges"]) + "\n")
    tokenizer = read_tokenizer(tmp_path / "vocab.json")
    for text in [*TEXTS, "<|endoftext|>the end", "  two  spaces\n\n"]:
        assert tokenizer.encode(text) == inner.encode(text).ids
        assert tokenizer.decode(inner.encode(text).ids) == inner.decode(inner.encode(text).ids)
    (tmp_path / "merges.txt").write_bytes(b"\xff \xff")
    with pytest.raises(ModelFileError, match="UTF-8"):
        read_tokenizer(tmp_path / "vocab.json")
    (tmp_path / "merges.txt").unlink()
    with pytest.raises(ModelFileError, match="is not there"):
        read_tokenizer(tmp_path / "vocab.json")


PIECES = [" ", "a", "b", "c", "é", " a", "ab", " ab", "bc", "abc", "  ", "   ", "    ", "ca", "cab"]
SCORES = [-1e9, -90.0, -91.0, -92.0, -93.0, -1.0, -2.0, -5.0, -3.0, -4.0, -1e9, -1e9, -1e9, -6.0, -7.0]


def llama2c_file(path, *, raw_bytes):
    letters = [chr(byte) if raw_bytes else f"<0x{byte:02X}>" for byte in range(256)]
    pieces = ["<unk>", "\n<s>\n", "\n</s>\n", *letters, *PIECES]
    data = [
        struct.pack("<fI", score, len(text)) + text
        for score, text in zip([0.0] * 259 + SCORES, map(str.encode, pieces), strict=True)
    ]
    path.write_bytes(struct.pack("<I", 6) + b"".join(data))


def encoded_as_run_c_does(text):
    """llama2.c's own loop: letters, or bytes of unknown letters, then the best pair again and again."""
    ids = {piece: 259 + place for place, piece in enumerate(PIECES)}
    tokens = [1] + ([ids[" "]] if text else [])
    for letter in text:
        tokens += [ids[letter]] if letter in ids else [byte + 3 for byte in letter.encode()]
    while True:
        best = (-1e10, -1, -1)
        for place in range(len(tokens) - 1):
            left, right = tokens[place], tokens[place + 1]
            joined = PIECES[left - 259] + PIECES[right - 259] if min(left, right) >= 259 else None
            if joined in ids and SCORES[ids[joined] - 259] > best[0]:
                best = (SCORES[ids[joined] - 259], place, ids[joined])
        if best[1] < 0:
            return tokens
        tokens[best[1] : best[1] + 2] = [best[2]]


@pytest.mark.parametrize("raw_bytes", [True, False])
@given(text=st.text(alphabet="abcé☃ \n<s>0x") | st.text())
@example(text=" " * 4)
@example(text=" " * 9 + "a" + " " * 5)
def test_the_words_of_llama2c_are_encoded_as_its_own_program_does(tmp_path_factory, text, raw_bytes):
    path = tmp_path_factory.getbasetemp() / f"{raw_bytes}.bin"
    if not path.exists():
        llama2c_file(path, raw_bytes=raw_bytes)
    tokenizer = read_tokenizer(path)
    if "\n<s>\n" in text or "\n</s>\n" in text:
        return
    assert tokenizer.encode(text) == encoded_as_run_c_does(text)
    assert tokenizer.decode(tokenizer.encode(text)) == text
    assert tokenizer.decode_bytes(tokenizer.encode(text)[1:]) == b" " * bool(text) + text.encode()


def test_pieces_that_could_be_cut_without_end_are_refused(tmp_path):
    llama2c_file(tmp_path / "tokenizer.bin", raw_bytes=False)
    with (tmp_path / "tokenizer.bin").open("ab") as file:
        file.writelines(struct.pack("<fI", -1.0, length) + b"a" * length for length in range(60, 70))
    with pytest.raises(ModelFileError, match="endless"):
        read_tokenizer(tmp_path / "tokenizer.bin")


def test_every_byte_of_llama2c_is_shown_as_a_byte(tmp_path):
    llama2c_file(tmp_path / "tokenizer.bin", raw_bytes=True)
    tokenizer = read_tokenizer(tmp_path / "tokenizer.bin")
    assert [tokenizer.token_bytes(3 + byte) for byte in range(256)] == [bytes([byte]) for byte in range(256)]
    assert tokenizer.display(3 + 0xE2) == "<E2>"
    assert tokenizer.display(264) == " a"


def gguf_file(path, tokens, kinds, *, model="gpt2", **fields):
    writer = peer.GGUFWriter(path, "llama")
    writer.add_tokenizer_model(model)
    writer.add_token_list(tokens)
    writer.add_token_types(kinds)
    for name, value in fields.items():
        getattr(writer, f"add_{name}")(value)
    writer.write_header_to_file()
    writer.write_kv_data_to_file()
    writer.close()
    return path


def byte_level_gguf(path, folder, **fields):
    trained(folder / "tokenizer.json")
    model = json.loads((folder / "tokenizer.json").read_text())["model"]
    tokens = sorted(model["vocab"], key=model["vocab"].get)
    return gguf_file(
        path, tokens, [3] + [1] * (len(tokens) - 1), token_merges=[" ".join(pair) for pair in model["merges"]], **fields
    )


def splits(pattern):
    return pre_tokenizers.Split(tokenizers.Regex(pattern), "isolated")


@pytest.mark.parametrize("name", ["gpt-2", "smollm", "llama-bpe", "qwen2", "default"])
def test_a_byte_level_vocabulary_in_gguf_cuts_as_its_pre_tokenizer_says(tmp_path, name):
    tokenizer = read_tokenizer(byte_level_gguf(tmp_path / "model.gguf", tmp_path, tokenizer_pre=name))
    inner = tokenizers.Tokenizer.from_file(str(tmp_path / "tokenizer.json"))
    before = {
        "gpt-2": [],
        "smollm": [pre_tokenizers.Digits(individual_digits=True)],
        "llama-bpe": [splits(schema.LLAMA3)],
        "qwen2": [splits(schema.QWEN2)],
        "default": [splits(pattern) for pattern in (schema.LLAMA_CPP[0], schema.GPT2, *schema.LLAMA_CPP[1:])],
    }[name]
    is_own = name in ("gpt-2", "smollm")
    inner.pre_tokenizer = pre_tokenizers.Sequence([*before, pre_tokenizers.ByteLevel(add_prefix_space=False, use_regex=is_own)])
    for text in [*TEXTS, "<|endoftext|>it's 12345, né…\n\n"]:
        assert tokenizer.encode(text) == inner.encode(text).ids
        assert tokenizer.decode(tokenizer.encode(text)) == text.replace("<|endoftext|>", "")


def test_tokens_before_and_after_a_text_are_added_when_gguf_asks(tmp_path):
    path = byte_level_gguf(tmp_path / "model.gguf", tmp_path, tokenizer_pre="gpt-2", bos_token_id=0, add_bos_token=True)
    assert read_tokenizer(path).encode("the")[0] == 0
    path = byte_level_gguf(tmp_path / "model.gguf", tmp_path, tokenizer_pre="gpt-2", eos_token_id=0, add_eos_token=True)
    assert read_tokenizer(path).encode("the")[-1] == 0
    path = byte_level_gguf(tmp_path / "model.gguf", tmp_path, tokenizer_pre="gpt-2", bos_token_id=0)
    assert 0 not in read_tokenizer(path).encode("the")
    path = byte_level_gguf(tmp_path / "model.gguf", tmp_path, tokenizer_pre="gpt-2", bos_token_id=999, add_bos_token=True)
    with pytest.raises(ModelFileError, match="bos_token_id is 999"):
        read_tokenizer(path)


@pytest.mark.parametrize("prefix", [True, False])
def test_a_scored_vocabulary_in_gguf_is_encoded_by_score(tmp_path, prefix):
    pieces = [
        "<unk>",
        "<s>",
        "</s>",
        *(f"<0x{byte:02X}>" for byte in range(256)),
        *(piece.replace(" ", "▁") for piece in PIECES),
    ]
    kinds = [2, 3, 3] + [6] * 256 + [1] * len(PIECES)
    more = {"token_scores": [0.0] * 259 + SCORES, "bos_token_id": 1, "add_space_prefix": prefix}
    tokenizer = read_tokenizer(gguf_file(tmp_path / "model.gguf", pieces, kinds, model="llama", **more))
    for text in ["abc cab  é", "☃", "a    b"]:
        assert tokenizer.decode(tokenizer.encode(text)) == text
        assert (tokenizer.encode(text) == encoded_as_run_c_does(text)) == prefix
    assert tokenizer.encode("<s>a")[:2] == [1, 1]


@pytest.mark.parametrize(
    ("field", "reason"),
    [
        ({"model": "t5"}, "kind 't5'"),
        ({"model": "bert"}, "kind 'bert'"),
        ({"tokenizer_pre": "odd"}, "pre-tokenizer 'odd'"),
        ({}, "merges"),
        ({"model": "llama"}, "scores"),
    ],
)
def test_other_vocabularies_are_refused_by_name(tmp_path, field, reason):
    with pytest.raises(ModelFileError, match=r"model\.gguf") as caught:
        read_tokenizer(gguf_file(tmp_path / "model.gguf", ["a", "b"], [1, 1], **field))
    assert reason in str(caught.value)


BPE = {"type": "BPE", "vocab": {"<s>": 0, "a": 1, "b": 2, "ab": 3}, "merges": [["a", "b"]], "unk_token": "<s>"}
FLAGS = dict.fromkeys(["single_word", "lstrip", "rstrip", "normalized", "special"], False)
TEMPLATE = [{"SpecialToken": {"id": "<s>", "type_id": 0}}, {"Sequence": {"id": "A", "type_id": 0}}]
SPECIALS = {"<s>": {"id": "<s>", "ids": [0], "tokens": ["<s>"]}}
PROCESS = {"type": "TemplateProcessing", "single": TEMPLATE, "pair": TEMPLATE, "special_tokens": SPECIALS}


def nested(levels):
    return {"type": "Sequence", "normalizers": [nested(levels - 1)]} if levels else {"type": "NFC"}


@pytest.mark.parametrize(
    "change",
    {
        "no model": {"model": None},
        "another model": {"model": {"type": "Unigram", "vocab": [["a", 0.0]]}},
        "no vocabulary": {"model": {"type": "BPE", "merges": []}},
        "an empty vocabulary": {"model": BPE | {"vocab": {}, "merges": []}},
        "an id that is text": {"model": BPE | {"vocab": {"a": "0"}, "merges": []}},
        "a negative id": {"model": BPE | {"vocab": {"a": -1}, "merges": []}},
        "a giant id": {"model": BPE | {"vocab": {"<s>": 2**32}, "merges": []}},
        "an id twice": {"model": BPE | {"vocab": {"<s>": 0, "a": 0}, "merges": []}},
        "a gap": {"model": BPE | {"vocab": {"<s>": 0, "a": 2}, "merges": []}},
        "an empty token": {"model": BPE | {"vocab": {"<s>": 0, "": 1}, "merges": []}},
        "an endless token": {"model": BPE | {"vocab": {"<s>": 0, "x" * 5000: 1}, "merges": []}},
        "a merge of nothing": {"model": BPE | {"merges": [["a"]]}},
        "a merge of unknown tokens": {"model": BPE | {"merges": ["a c"]}},
        "a merge into nothing": {"model": BPE | {"merges": [["ab", "ab"]]}},
        "a merge of numbers": {"model": BPE | {"merges": [[1, 2]]}},
        "merges that are a number": {"model": BPE | {"merges": 3}},
        "chance": {"model": BPE | {"dropout": 0.5}},
        "a prefix": {"model": BPE | {"continuing_subword_prefix": "##"}},
        "a suffix": {"model": BPE | {"end_of_word_suffix": "</w>"}},
        "an added token beyond the vocabulary": {"added_tokens": [{"id": 9, "content": "<x>", **FLAGS}]},
        "an added token in another's place": {"added_tokens": [{"id": 1, "content": "<x>", **FLAGS}]},
        "an added token under another id": {"added_tokens": [{"id": 2, "content": "a", **FLAGS}]},
        "an empty added token": {"added_tokens": [{"id": 4, "content": "", **FLAGS}]},
        "an added token without flags": {"added_tokens": [{"id": 0, "content": "<s>"}]},
        "added tokens that are a number": {"added_tokens": 7},
        "a template that names no token": {"post_processor": PROCESS | {"special_tokens": {}}},
        "a template with a giant id": {"post_processor": PROCESS | {"special_tokens": {"<s>": {"id": "<s>", "ids": [2**32], "tokens": ["<s>"]}}}},
        "a template that doubles its text": {"post_processor": PROCESS | {"single": TEMPLATE[1:] * 2}},
        "a template of a list": {"post_processor": PROCESS | {"single": [{"SpecialToken": {"id": [], "type_id": 0}}]}},
        "an endless normaliser": {"normalizer": nested(20)},
        "a broad normaliser": {"normalizer": {"type": "Sequence", "normalizers": [{"type": "NFC"}] * 20}},
        "a growing normaliser": {"normalizer": {"type": "Replace", "pattern": {"String": "a"}, "content": "a" * 100}},
        "an empty pattern": {"normalizer": {"type": "Replace", "pattern": {"String": ""}, "content": "a"}},
        "a damaged table of letters": {"normalizer": {"type": "Precompiled", "precompiled_charsmap": "AAAA"}},
        "a regular expression that never ends": {"pre_tokenizer": {"type": "Split", "pattern": {"Regex": "(a|a)*b"}, "behavior": "Isolated", "invert": False}},
        "chunks of nothing": {"pre_tokenizer": {"type": "FixedLength", "length": 0}},
        "an unknown behaviour": {"pre_tokenizer": {"type": "Punctuation", "behavior": "Odd"}},
        "an unknown part": {"decoder": {"type": "CTC"}},
        "a decoder that cuts too much": {"decoder": {"type": "Strip", "content": "a", "start": 9, "stop": 9}},
        "a decoder that is a list": {"decoder": [1]},
        "an unknown key": {"more": 1},
    }.values(),
    ids=lambda change: str(change)[:60],
)  # fmt: skip
def test_a_crafted_tokenizer_is_refused(change):
    table = {"version": "1.0", "model": BPE}
    assert Tokenizer.parse(json.dumps(table).encode()).encode("ab") == [3]
    with pytest.raises(ModelFileError):
        Tokenizer.parse(json.dumps(table | change).encode())


def test_a_template_that_gives_ids_beyond_the_vocabulary_is_found_at_the_latest_when_it_is_used():
    beyond = PROCESS | {"special_tokens": {"<s>": {"id": "<s>", "ids": [2**18], "tokens": ["<s>"]}}}
    tokenizer = Tokenizer.parse(json.dumps({"model": BPE, "post_processor": beyond}).encode())
    with pytest.raises(ModelFileError, match="gives the id 262144"):
        tokenizer.encode("ab")


def test_a_panic_of_the_library_becomes_an_error_and_an_interruption_does_not(monkeypatch):
    inner = tokenizers.Tokenizer(models.BPE(vocab={"a": 0}, merges=[]))
    broken = PROCESS | {"special_tokens": {}}
    # Straight into the library, past our own checks: this is what they keep from happening.
    crafted = json.loads(inner.to_str()) | {"post_processor": broken}
    tokenizer = Tokenizer(b"{}", tokenizers.Tokenizer.from_str(json.dumps(crafted)))
    with pytest.raises(ModelFileError, match="cannot encode"):
        tokenizer.encode("a")

    class Interrupted:
        def get_vocab_size(self, **_):
            return 1

        def decode(self, *_, **__):
            raise KeyboardInterrupt

    with pytest.raises(KeyboardInterrupt):
        Tokenizer(b"{}", Interrupted()).decode([0])


def test_normalisers_of_common_tokenizers_are_accepted(tmp_path):
    inner = trained(tmp_path / "tokenizer.json")
    inner.normalizer = normalizers.Sequence([normalizers.NFC(), normalizers.Prepend("▁"), normalizers.Replace(" ", "▁")])
    inner.decoder = decoders.Sequence(
        [decoders.Replace("▁", " "), decoders.ByteFallback(), decoders.Fuse(), decoders.Strip(" ", 1, 0)]
    )
    inner.save(str(tmp_path / "tokenizer.json"))
    assert read_tokenizer(tmp_path / "tokenizer.json").size == inner.get_vocab_size()


def test_bytes_need_a_tokenizer_that_has_them():
    tokenizer = Tokenizer.parse(json.dumps({"model": BPE}).encode())
    assert tokenizer.encode_bytes(b"ab") == [3]
    with pytest.raises(InputError, match="every byte"):
        tokenizer.encode_bytes(b"\xff")


def test_the_letters_of_bytes_are_those_of_the_library():
    assert sorted(vocabularies.byte_letters()) == sorted(pre_tokenizers.ByteLevel.alphabet())
    assert len(set(vocabularies.byte_letters())) == 256
