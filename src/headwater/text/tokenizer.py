"""``Tokenizer``: text to token ids and back, as a frozen value around the ``tokenizers`` library."""

import hashlib
import json
import re
from collections.abc import Generator, Iterable, Sequence
from contextlib import contextmanager
from dataclasses import dataclass, field
from functools import cached_property
from pathlib import Path
from typing import Any, cast

import tokenizers

from headwater.errors import InputError, ModelFileError
from headwater.files.plain import parse_json, read_bytes
from headwater.letters import visible
from headwater.text import schema, vocabularies

MOST_BYTES = 64 * 2**20


@dataclass(frozen=True, repr=False)
class Tokenizer:
    """A vocabulary and the way a text is cut into it. Two are equal when their files are.

    >>> tokenizer = byte_tokenizer()
    >>> tokenizer.encode("né")
    [110, 195, 169]
    >>> tokenizer.decode([110, 195, 169]), tokenizer.display(195), tokenizer.display(10)
    ('né', '<C3>', '␊')
    """

    _json: bytes
    _inner: Any = field(compare=False)

    @staticmethod
    def parse(data: bytes) -> "Tokenizer":
        """The tokenizer that the content of a ``tokenizer.json`` describes, once it is found harmless."""
        plain = parse_json(data, "tokenizer.json")
        schema.check(plain)
        # How a text is cut or filled up to a length is the caller's business; absurd lengths end the process.
        plain |= {"padding": None, "truncation": None}
        with _guarded("the tokenizer cannot be made"):
            inner = tokenizers.Tokenizer.from_str(json.dumps(plain, ensure_ascii=False))
        _check_ids(inner, plain)
        return Tokenizer(data, inner)

    def to_json(self) -> bytes:
        """The content of its ``tokenizer.json``; ``parse`` reads it back as an equal value."""
        return self._json

    @property
    def sha256(self) -> str:
        """The hash of its ``tokenizer.json``."""
        return hashlib.sha256(self._json).hexdigest()

    @cached_property
    def size(self) -> int:
        """How many tokens there are; their ids are 0 to ``size − 1``."""
        return self._inner.get_vocab_size(with_added_tokens=True)

    @cached_property
    def specials(self) -> frozenset[int]:
        """Tokens that stand for no text but for its beginning or end, or for a turn in a conversation."""
        added: list[dict[str, Any]] = self._plain.get("added_tokens") or []
        return frozenset(token["id"] for token in added if token.get("special"))

    def encode(self, text: str) -> list[int]:
        """The ids of a text, with the special tokens that the tokenizer puts around every text."""
        return self._encode(text, are_specials_wanted=True)

    def decode(self, ids: Iterable[int]) -> str:
        """The text of some ids, without special tokens; bytes that are no UTF-8 become �."""
        known = [self._known(token) for token in ids]
        with _guarded("the tokenizer cannot decode"):
            return self._inner.decode(known, skip_special_tokens=True)

    def encode_bytes(self, data: bytes) -> list[int]:
        """The ids of any bytes, without special tokens: what is no UTF-8 is spelled byte by byte."""
        ids: list[int] = []
        for run in _RUNS.findall(data.decode(errors="surrogateescape")):
            ids += self._escaped(run) or self._encode(run, are_specials_wanted=False)
        return ids

    def encode_texts(self, texts: Sequence[str]) -> list[list[int]]:
        """The ids of each text as it stands: nothing is put around it, and the name of a special token in it is ordinary text.

        A byte that is no UTF-8 stands in a text as Python's ``surrogateescape`` writes it. Several cores share the work.
        """
        runs = [_RUNS.findall(text) for text in texts]
        with _guarded("the tokenizer cannot encode"):
            clean = [run for each in runs for run in each if not _is_escaped(run)]
            encoded = iter(self._literal.encode_batch_fast(clean, add_special_tokens=False))
        return [[token for run in each for token in self._escaped(run) or next(encoded).ids] for each in runs]

    def decode_bytes(self, ids: Iterable[int]) -> bytes:
        """The bytes of some ids, one token after the other."""
        return b"".join(map(self.token_bytes, ids))

    def token_bytes(self, token: int) -> bytes:
        """The bytes that a token adds to a text; those of a special token are its name."""
        piece = cast(str, self._inner.id_to_token(self._known(token)))
        if token in self._added:
            return piece.encode()
        if self._is_byte_level:
            return b"".join(_BYTES.get(letter) or letter.encode() for letter in piece)
        if self._plain["model"].get("byte_fallback") and re.fullmatch(r"<0x[0-9A-F]{2}>", piece):
            return bytes.fromhex(piece[3:5])
        return piece.replace(self._space, " ").encode() if self._space else piece.encode()

    def display(self, token: int) -> str:
        """A token for people: its exact text, with what cannot be seen made visible.

        Control characters are shown by their pictures (``␊``), other invisible ones by number (``<U+FEFF>``), and a piece of a
        character as its bytes (``<E2><96>``).
        """
        data = self.token_bytes(token)
        try:
            return "".join(map(visible, data.decode()))
        except UnicodeDecodeError:
            return "".join(f"<{byte:02X}>" for byte in data)

    def __repr__(self) -> str:
        return f"Tokenizer({self.size:,} tokens, {self.sha256[:12]})"

    def _encode(self, text: str, *, are_specials_wanted: bool) -> list[int]:
        try:
            text.encode()
        except UnicodeEncodeError:
            raise InputError("a text with half a surrogate pair", "a text that can be written", "repair the text") from None
        with _guarded("the tokenizer cannot encode"):
            ids = cast(list[int], self._inner.encode(text, add_special_tokens=are_specials_wanted).ids)
        if ids and max(ids) >= self.size:
            raise ModelFileError(
                f"the tokenizer gives the id {max(ids)}", f"ids below {self.size}", "use the model's own tokenizer"
            )
        return ids

    def _escaped(self, run: str) -> list[int]:
        """The token of a byte that is no UTF-8, and nothing for other runs."""
        return [self._byte_ids[ord(run) - 0xDC00]] if _is_escaped(run) else []

    @cached_property
    def _literal(self) -> Any:
        """The same tokenizer, to which the names of special tokens are ordinary text."""
        inner = tokenizers.Tokenizer.from_str(self._inner.to_str())
        inner.encode_special_tokens = True
        return inner

    def _known(self, token: int) -> int:
        if not 0 <= token < self.size:
            raise InputError(f"token id {token}", f"ids from 0 to {self.size - 1}", "use ids of this tokenizer")
        return token

    @cached_property
    def _plain(self) -> dict[str, Any]:
        return json.loads(self._json)

    @cached_property
    def _added(self) -> set[int]:
        added: list[dict[str, Any]] = self._plain.get("added_tokens") or []
        return {token["id"] for token in added}

    @cached_property
    def _decoders(self) -> list[dict[str, Any]]:
        decoder: dict[str, Any] = self._plain.get("decoder") or {}
        return decoder.get("decoders", [decoder])

    @cached_property
    def _is_byte_level(self) -> bool:
        return any(part.get("type") == "ByteLevel" for part in self._decoders)

    @cached_property
    def _space(self) -> str:
        """The letter that stands for a space, where one does."""
        for part in self._decoders:
            if part.get("type") == "Metaspace":
                return part.get("replacement", "▁")
            if part.get("type") == "Replace" and part.get("content") == " ":
                return part["pattern"].get("String", "")
        return ""

    @cached_property
    def _byte_ids(self) -> list[int]:
        names = vocabularies.byte_letters() if self._is_byte_level else [f"<0x{byte:02X}>" for byte in range(256)]
        ids = [self._inner.token_to_id(name) for name in names]
        if None in ids:
            raise InputError("bytes that are no UTF-8", "a tokenizer that has every byte", "use a byte-level tokenizer")
        return ids


def read_tokenizer(path: Path) -> Tokenizer:
    """The tokenizer in a ``tokenizer.json``, a ``vocab.json`` with ``merges.txt`` beside it, a ``tokenizer.bin`` or a GGUF model."""
    try:
        match path.suffix:
            case ".gguf":
                return Tokenizer.parse(vocabularies.dump(vocabularies.read_gguf(path)))
            case ".bin":
                return Tokenizer.parse(vocabularies.dump(vocabularies.read_llama2c(path)))
            case _ if path.name == "vocab.json":
                return Tokenizer.parse(vocabularies.dump(vocabularies.read_gpt2(path)))
            case _:
                return Tokenizer.parse(read_bytes(path, MOST_BYTES))
    except ModelFileError as error:
        raise error.within(path.name) from None


def byte_tokenizer() -> Tokenizer:
    """256 tokens, one for each byte: the id of a byte is its value.

    >>> byte_tokenizer().encode_bytes(b"\\xff A")
    [255, 32, 65]
    """
    vocab = {letter: byte for byte, letter in enumerate(vocabularies.byte_letters())}
    table = vocabularies.byte_level(vocab, [])
    table["pre_tokenizer"]["use_regex"] = False
    return Tokenizer.parse(vocabularies.dump(table))


_RUNS = re.compile(r"[\udc80-\udcff]|[^\udc80-\udcff]+")
"""A byte that is no UTF-8, as ``surrogateescape`` writes it, or a run of characters."""


def _is_escaped(run: str) -> bool:
    return "\udc80" <= run <= "\udcff"


_BYTES = {letter: bytes([byte]) for byte, letter in enumerate(vocabularies.byte_letters())}


@contextmanager
def _guarded(what: str) -> Generator[None]:
    """The library's errors and panics, which are no ordinary exceptions, told as a fault of the tokenizer's file."""
    try:
        yield
    except (KeyboardInterrupt, SystemExit, GeneratorExit, MemoryError):
        raise
    except BaseException as reason:  # noqa: BLE001  # a panic in Rust is no Exception
        raise ModelFileError(f"{what} ({reason!s:.120})", "a tokenizer that works", "use the model's own tokenizer") from None


def _check_ids(inner: Any, plain: dict[str, Any]) -> None:
    """Ids from zero up without gaps, and added tokens under the ids that the file gives them."""
    ids = cast(dict[str, int], inner.get_vocab(with_added_tokens=True))
    added: list[dict[str, Any]] = plain.get("added_tokens") or []
    for token in added:
        if ids.get(token["content"]) != token["id"]:
            raise ModelFileError(
                f"the added token {token['content']!r:.80}", f"the id {token['id']}, which is taken", "renumber it"
            )
    if sorted(ids.values()) != list(range(len(ids))):
        raise ModelFileError("token ids with gaps", f"the ids 0 to {len(ids) - 1}", "renumber the tokens")
