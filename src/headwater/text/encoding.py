"""A source's text on its way into a corpus: which part it belongs to, and its ids."""

import re
from collections.abc import Iterator
from dataclasses import dataclass
from typing import NamedTuple

import numpy as np
from jaxtyping import UInt32
from numpy import ndarray

from headwater.errors import HeadwaterError, InputError
from headwater.text.passages import ANYWHERE, LOTS, Passage, cut_places, passages
from headwater.text.sources import Planted, TextSource, documents
from headwater.text.tokenizer import Tokenizer
from headwater.text.training import END

BATCH = 2**19
"""Characters that are encoded together."""


class Division(NamedTuple):
    """Which passages of a text are held out: those whose lots, drawn with ``seed``, are below ``limit``."""

    seed: int
    limit: int
    bytes: int
    """Of the whole text."""


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


def divide(source: TextSource, tokenizer: Tokenizer, share: float, seed: int) -> Division:
    """Read a text through, and hold out the passages with the least lots: up to a share of its bytes, but one at least."""
    bytes_by_lot = np.zeros(LOTS, np.int64)
    for passage in _passages(source, tokenizer):
        bytes_by_lot[passage.lot(seed)] += len(passage.data)
    drawn = np.flatnonzero(bytes_by_lot)
    within = drawn[bytes_by_lot[drawn].cumsum() <= share * bytes_by_lot.sum()]
    last = int(within[-1] if len(within) else drawn[0]) if share and len(drawn) else -1
    return Division(seed, last + 1, int(bytes_by_lot.sum()))


def _passages(source: TextSource, tokenizer: Tokenizer) -> Iterator[Passage]:
    places = cut_places(tokenizer)
    return (passage for document in documents(source) for passage in passages(document, places))


def pieces(source: TextSource, tokenizer: Tokenizer, division: Division) -> Iterator[Piece]:
    """The whole of a text, in order. What does not go on where its part stopped begins with ``<|endoftext|>``, where there is one."""
    batch: list[_Lot] = []
    waiting = 0
    for lot in _lots(_passages(source, tokenizer), division):
        batch.append(lot)
        waiting += len(lot.passage.text)
        if waiting >= BATCH:
            yield from _encode(batch, tokenizer)
            batch, waiting = [], 0
    yield from _encode(batch, tokenizer)


def _lots(all_passages: Iterator[Passage], division: Division) -> Iterator[_Lot]:
    before = False
    for passage in all_passages:
        begins = passage.offset == 0
        is_held_out = passage.lot(division.seed) < division.limit
        yield _Lot(passage, is_held_out, begins=begins, follows=not begins and before == is_held_out)
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
    for word in re.finditer(r"(?s)." if cut_places(tokenizer) is ANYWHERE else r"\S+", passage.text):
        try:
            tokenizer.encode_texts([word[0]])
        except HeadwaterError:
            offset = passage.offset + len(passage.text[: word.start()].encode())
            given = f"{passage.document} holds {word[0]!r:.80} at byte {offset:,}"
            raise InputError(given, "text that is in the vocabulary", "use the tokenizer that was made for this text") from None


def planted_pieces(source: Planted, tokenizer: Tokenizer, share: float, seed: int) -> Iterator[Piece]:
    """Two texts of a planted language, drawn apart from each other: so many tokens, and that share of them to hold out."""
    if tokenizer != source.language.tokenizer():
        raise InputError("another tokenizer than the planted language's", "its words", "use the language's tokenizer()")
    # A word takes its letters and a blank.
    sizes = np.array([len(tokenizer.token_bytes(token)) + 1 for token in range(tokenizer.size)])
    for is_held_out, tokens in ((False, source.tokens), (True, round(source.tokens * share))):
        for number, ids in enumerate(source.language.chunks(tokens, 2 * seed + is_held_out)):
            yield Piece(ids.astype(np.uint32), int(sizes[ids].sum()), is_held_out, begins=number == 0)
