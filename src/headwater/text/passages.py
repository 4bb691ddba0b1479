"""Documents of any size, cut into passages at places where that changes no token."""

import codecs
import json
import re
from collections.abc import Iterator
from dataclasses import dataclass
from hashlib import blake2b
from typing import Any

from headwater.errors import InputError
from headwater.text.schema import GPT2, LLAMA3, QWEN2, TEKKEN
from headwater.text.sources import Document, TextSource, documents
from headwater.text.tokenizer import Tokenizer

PASSAGE = 2**13
"""Characters after which a passage ends, at the next place where it can."""

LONGEST = 2**22
"""Characters that may pass without such a place."""

LOTS = 2**16

ANYWHERE = re.compile(r"(?s)(?=.)")
WORD_END = re.compile(r"(?<=\S)(?=[^\S\x1c-\x1f])")
BEFORE_SPACE = re.compile(r"(?<=\S)(?= )")

Table = dict[str, Any]

_NO_UTF8 = re.compile(r"[\udc80-\udcff]")


@dataclass(frozen=True)
class Passage:
    """A stretch of a document that is trained on or held out as a whole."""

    document: str
    offset: int
    """Where it begins in the document, in bytes."""
    text: str
    """A byte that is no UTF-8 stands here as ``surrogateescape`` writes it."""
    data: bytes

    @property
    def no_utf8(self) -> int | None:
        """Where in the document the first byte is that is no UTF-8."""
        bad = _NO_UTF8.search(self.text)
        return self.offset + len(self.text[: bad.start()].encode()) if bad else None

    def lot(self, seed: int) -> int:
        """A number below ``LOTS``, drawn from the content alone: equal passages have equal lots, wherever they stand."""
        return int.from_bytes(blake2b(self.data, digest_size=2, key=str(seed).encode()).digest(), "big")


def passages(document: Document, places: re.Pattern[str] | None) -> Iterator[Passage]:
    """The passages of a document, which make it up without a gap; ``places`` match where it may be cut."""
    decoder = codecs.getincrementaldecoder("utf-8")("surrogateescape")
    offset, waiting = 0, ""

    def passage(text: str) -> Passage:
        nonlocal offset
        data = text.encode(errors="surrogateescape")
        offset += len(data)
        return Passage(document.name, offset - len(data), text, data)

    for chunk in document.chunks():
        waiting += decoder.decode(chunk)
        begin = 0
        while places and (place := places.search(waiting, begin + PASSAGE)):
            yield passage(waiting[begin : place.start()])
            begin = place.start()
        waiting = waiting[begin:]
        if len(waiting) > LONGEST:
            needed = (
                "a blank or a line break now and then" if places else "documents that can be encoded whole by this tokenizer"
            )
            given = f"{document.name}: more than {LONGEST:,} characters from byte {offset:,} on that cannot be cut"
            raise InputError(given, needed, "break the text there, or leave it out")
    waiting += decoder.decode(b"", final=True)
    if waiting:
        yield passage(waiting)


def texts(source: TextSource, places: re.Pattern[str] = WORD_END) -> Iterator[str]:
    """All that can be read in a source, in pieces of whole words: what a tokenizer is made from."""
    for document in documents(source):
        for passage in passages(document, places):
            yield from _NO_UTF8.split(passage.text)


def cut_places(tokenizer: Tokenizer) -> re.Pattern[str] | None:
    r"""Where a text can be cut so that the tokens of its pieces are the tokens of the whole; ``None`` where that is not known.

    GPT-2's way of splitting never joins a character to white space after it, and looks ahead from white space only: so before
    white space that follows anything else, the text may be cut. Other ways may join a line break to what precedes it.
    """
    plain: Table = json.loads(tokenizer.to_json())
    first: Table = plain.get("pre_tokenizer") or {}
    parts: list[Table] = first.get("pretokenizers", [first])
    added: list[Table] = plain.get("added_tokens") or []
    if plain.get("normalizer") or not all(token.get("special") for token in added):
        return None
    if any(part.get("add_prefix_space", part.get("type") == "ByteLevel") for part in parts):
        return None
    match [_name(part) for part in parts]:
        case ["WhitespaceSplit"] | ["ByteLevel with GPT-2's"]:
            return WORD_END
        case [pattern, "ByteLevel"] if pattern in (GPT2, LLAMA3, QWEN2, TEKKEN):
            return BEFORE_SPACE
        case ["" | "ByteLevel"] if _is_one_by_one(plain["model"]):
            return ANYWHERE
        case _:
            return None


def _name(part: Table) -> str:
    kind: str = part.get("type", "")
    if kind == "ByteLevel" and part.get("use_regex", True):
        return "ByteLevel with GPT-2's"
    if kind == "Split" and part.get("behavior") == "Isolated" and not part.get("invert"):
        return part["pattern"].get("Regex", kind)
    return kind


def _is_one_by_one(model: Table) -> bool:
    """Whether every character, or byte, is a token of its own."""
    knows_unknown = model.get("unk_token") in model["vocab"]
    return model.get("type", "BPE") == "BPE" and not (model.get("merges") or model.get("ignore_merges") or knows_unknown)
