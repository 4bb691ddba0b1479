"""A source's text on its way into a corpus: which part it belongs to, and its ids."""

import re
from collections.abc import Iterator
from dataclasses import dataclass
from typing import NamedTuple

import numpy as np
from jaxtyping import UInt32
from numpy import ndarray

from headwater.errors import HeadwaterError, InputError
from headwater.text.passages import Passage, cut_places, passages
from headwater.text.sources import Planted, TextSource, documents
from headwater.text.tokenizer import Tokenizer
from headwater.text.training import END

BATCH = 2**19
"""Characters that are encoded together."""


class Split(NamedTuple):
    """The share of the text that is held out, and what the lots are drawn with."""

    share: float
    seed: int


@dataclass(frozen=True)
class Piece:
    """Some text in tokens."""

    ids: UInt32[ndarray, " some"]
    bytes: int
    is_held_out: bool
    begins: bool
    """Whether a document begins with it."""


class _Lot(NamedTuple):
    passage: Passage
    is_held_out: bool
    begins: bool
    follows: bool
    """Whether it goes on where its part of the corpus stopped."""


def pieces(source: TextSource, tokenizer: Tokenizer, split: Split) -> Iterator[Piece]:
    """The whole of a source, in order. What does not go on where its part stopped begins with ``<|endoftext|>``, where there is one."""
    if isinstance(source, Planted):
        yield from _planted(source, tokenizer, split)
        return
    batch: list[_Lot] = []
    for lot in _lots(source, cut_places(tokenizer), split):
        batch.append(lot)
        if sum(len(waiting.passage.text) for waiting in batch) >= BATCH:
            yield from _encode(batch, tokenizer)
            batch = []
    yield from _encode(batch, tokenizer)


def _lots(source: TextSource, places: re.Pattern[str] | None, split: Split) -> Iterator[_Lot]:
    for document in documents(source):
        before: bool | None = None
        for passage in passages(document, places):
            is_held_out = passage.is_held_out(*split)
            yield _Lot(passage, is_held_out, begins=before is None, follows=before == is_held_out)
            before = is_held_out


def _encode(batch: list[_Lot], tokenizer: Tokenizer) -> Iterator[Piece]:
    try:
        encoded = tokenizer.encode_texts([lot.passage.text for lot in batch])
    except HeadwaterError:
        for lot in batch:
            _check(lot.passage, tokenizer)
        raise
    end = [token for token in tokenizer.specials if tokenizer.token_bytes(token) == END.encode()]
    for lot, ids in zip(batch, encoded, strict=True):
        opened = ids if lot.follows else end + ids
        yield Piece(np.array(opened, np.uint32), len(lot.passage.data), lot.is_held_out, lot.begins)


def _check(passage: Passage, tokenizer: Tokenizer) -> None:
    """Say what in a passage cannot be encoded, and where it stands."""
    if passage.no_utf8 is not None:
        given = f"{passage.document} is no UTF-8 at byte {passage.no_utf8:,}"
        raise InputError(given, "UTF-8, or a tokenizer that has every byte", "repair the text, or use a byte-level tokenizer")
    for word in re.finditer(r"\S+|\s", passage.text):
        try:
            tokenizer.encode_texts([word[0]])
        except HeadwaterError:
            offset = passage.offset + len(passage.text[: word.start()].encode())
            given = f"{passage.document} holds {word[0]!r:.80} at byte {offset:,}"
            raise InputError(given, "text that is in the vocabulary", "use the tokenizer that was made for this text") from None


def _planted(source: Planted, tokenizer: Tokenizer, split: Split) -> Iterator[Piece]:
    """Two texts of the language, drawn apart from each other."""
    if tokenizer != source.language.tokenizer():
        raise InputError("another tokenizer than the planted language's", "its words", "use the language's tokenizer()")
    # A word takes its letters and a blank.
    sizes = np.array([len(tokenizer.token_bytes(token)) + 1 for token in range(tokenizer.size)])
    held_out = round(source.tokens * split.share)
    for is_held_out, tokens in ((False, source.tokens), (True, held_out)):
        for number, ids in enumerate(source.language.chunks(tokens, 2 * split.seed + is_held_out)):
            yield Piece(ids.astype(np.uint32), int(sizes[ids].sum()), is_held_out, begins=number == 0)
