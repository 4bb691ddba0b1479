"""Tokenizers made from text: pieces of words that it suggests, its words, or its characters."""

import json
import re
from collections.abc import Iterable, Iterator
from typing import Any, Literal

import tokenizers
from tokenizers import models, pre_tokenizers, trainers

from headwater.errors import InputError
from headwater.text.passages import ANYWHERE, texts
from headwater.text.schema import MOST_TOKENS
from headwater.text.sources import Planted, TextSource
from headwater.text.tokenizer import Tokenizer, byte_tokenizer
from headwater.text.vocabularies import added_token, byte_letters, byte_level, dump

TokenizerKind = Literal["bpe", "words", "characters", "bytes"]

END = "<|endoftext|>"
"""The special token that stands before every document of a corpus."""

LONGEST_PIECE = 128
LONGEST_WORD = 512

_OUTSIDE = "<|outside|>"
"""Named as the token for what is outside the vocabulary, but left out of it: so that such a text is refused, not changed."""

_WORDS = re.compile(r"[\S\x1c-\x1f]+")
_LONG = re.compile(rf"\S{{{LONGEST_WORD}}}|\s{{{LONGEST_WORD}}}")


def make_tokenizer(source: TextSource, kind: TokenizerKind, size: int) -> Tokenizer:
    """The tokenizer of this kind for a source: ``bpe`` learns ``size`` tokens; a planted language has its own words."""
    if isinstance(source, Planted):
        return source.language.tokenizer()
    match kind:
        case "bpe":
            return train_bpe(texts(source), size)
        case "words":
            return word_tokenizer(split_words(texts(source)))
        case "characters":
            return character_tokenizer(texts(source, ANYWHERE))
        case "bytes":
            return byte_tokenizer()


def train_bpe(texts: Iterable[str], size: int) -> Tokenizer:
    """Byte-level byte-pair encoding with GPT-2's splitting: ``<|endoftext|>`` is 0, the bytes are 1 to 256, then what the texts suggest.

    From there on each token joins the two neighbours that stand together most often. The same texts give the same tokenizer.

    >>> tokenizer = train_bpe(["low lower lowest"], 263)
    >>> [tokenizer.display(token) for token in range(257, 263)]
    ['lo', 'low', ' low', ' lowe', 'st', ' lower']
    """
    least = 1 + len(byte_letters())
    if not least <= size <= MOST_TOKENS:
        raise InputError(f"a vocabulary of {size:,}", f"{least} to {MOST_TOKENS:,} tokens", "change its size")
    inner: Any = tokenizers.Tokenizer(models.BPE())
    inner.pre_tokenizer = pre_tokenizers.ByteLevel(add_prefix_space=False)
    trainer = trainers.BpeTrainer(
        vocab_size=size,
        special_tokens=[END],
        initial_alphabet=byte_letters(),
        max_token_length=LONGEST_PIECE,
        show_progress=False,
    )
    inner.train_from_iterator((piece for text in texts for piece in _countable(text)), trainer)
    model = json.loads(inner.to_str())["model"]
    if len(model["vocab"]) < size:
        given = f"a text that gives {len(model['vocab']):,} tokens"
        raise InputError(given, f"{size:,} tokens", "give more text, or ask for a smaller vocabulary")
    return Tokenizer.parse(
        dump(byte_level(model["vocab"], model["merges"], added_tokens=[added_token(0, END, is_special=True)]))
    )


def _countable(text: str) -> Iterator[str]:
    """The text, with very long words cut: the time to learn from a word grows with the square of its length."""
    begin = 0
    for long in _LONG.finditer(text):
        yield text[begin : long.end()]
        begin = long.end()
    yield text[begin:]


def word_tokenizer(words: Iterable[str]) -> Tokenizer:
    """One token for each word: the first has id 0, the next new one 1, and so on; a text with any other word is refused.

    White space stands between words and is not kept. ``<|endoftext|>`` among the words is the special token.

    >>> tokenizer = word_tokenizer(["the", "cat", "the", "sat"])
    >>> tokenizer.encode("the cat sat"), tokenizer.decode([0, 2])
    ([0, 1, 2], 'the sat')
    """
    vocab = {word: token for token, word in enumerate(dict.fromkeys(words))}
    _check(vocab)
    for word in vocab:
        if not _WORDS.fullmatch(word):
            raise InputError(f"the word {word!r:.80}", "words without white space", "split the text into words first")
    model = {"type": "WordLevel", "vocab": vocab, "unk_token": _OUTSIDE}
    specials = [added_token(vocab[END], END, is_special=True)] if END in vocab else []
    return Tokenizer.parse(
        dump({"version": "1.0", "added_tokens": specials, "pre_tokenizer": {"type": "WhitespaceSplit"}, "model": model})
    )


def split_words(texts: Iterable[str]) -> Iterator[str]:
    """The words of some texts, as ``word_tokenizer`` tells them apart.

    >>> list(split_words(["the cat\\n sat,"]))
    ['the', 'cat', 'sat,']
    """
    return (word for text in texts for word in _WORDS.findall(text))


def character_tokenizer(texts: Iterable[str]) -> Tokenizer:
    """One token for each character of a text, or of several, in the order of their numbers; any other character is refused.

    >>> tokenizer = character_tokenizer("abracadabra")
    >>> tokenizer.encode("cab"), tokenizer.decode([2, 0, 1])
    ([2, 0, 1], 'cab')
    """
    characters: set[str] = set()
    for text in texts:
        characters.update(text)
    vocab = {character: token for token, character in enumerate(sorted(characters))}
    _check(vocab)
    # Byte-pair encoding without a single pair leaves every character alone.
    model: dict[str, Any] = {"type": "BPE", "vocab": vocab, "merges": [], "unk_token": _OUTSIDE}
    return Tokenizer.parse(dump({"version": "1.0", "decoder": {"type": "Fuse"}, "model": model}))


def _check(vocab: dict[str, int]) -> None:
    if not 0 < len(vocab) <= MOST_TOKENS:
        raise InputError(
            f"{len(vocab):,} different words", f"1 to {MOST_TOKENS:,}", "give another text, or use another tokenizer"
        )
    for word in vocab:
        if any("\ud800" <= letter <= "\udfff" for letter in word):
            raise InputError(f"half a surrogate pair in {word!r:.80}", "a text that can be written", "repair the text")
