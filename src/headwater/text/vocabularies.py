"""Vocabularies as others store them, each turned into the ``tokenizer.json`` that says the same."""

import json
import math
import struct
from collections.abc import Sequence
from pathlib import Path
from typing import Any, TypeVar, cast

from headwater.errors import ModelFileError
from headwater.files import gguf
from headwater.files.plain import read_bytes, read_json
from headwater.text.schema import GPT2, LLAMA3, LLAMA_CPP, MOST_TOKENS, QWEN2

MOST_BYTES = 64 * 2**20
MOST_SCORED_LETTERS = 4 * 2**20
MOST_PIECE_LETTERS = 64

Table = dict[str, Any]
Item = TypeVar("Item")

_BYTE_LEVEL = {"type": "ByteLevel", "add_prefix_space": False, "trim_offsets": True}
_NORMAL, _CONTROL, _USER, _BYTE = 1, 3, 4, 6


def byte_letters() -> list[str]:
    """The printable letter that stands for each byte in GPT-2's kind of vocabulary.

    >>> byte_letters()[32], byte_letters()[65]
    ('Ġ', 'A')
    """
    plain = {*range(33, 127), *range(161, 173), *range(174, 256)}
    others = iter(range(256, 512))
    return [chr(byte) if byte in plain else chr(next(others)) for byte in range(256)]


def byte_level(vocab: Table, merges: Sequence[Any], *, splits: Sequence[Table] = (), **others: Any) -> Table:
    """A byte-level BPE tokenizer: GPT-2's, or with other ``splits`` of the text before it."""
    last = {**_BYTE_LEVEL, "use_regex": not splits}
    before = {"type": "Sequence", "pretokenizers": [*splits, last]} if splits else last
    model = {"type": "BPE", "ignore_merges": others.pop("ignore_merges", False), "vocab": vocab, "merges": list(merges)}
    return {"version": "1.0", "pre_tokenizer": before, "decoder": _BYTE_LEVEL, "model": model, **others}


def read_gpt2(path: Path) -> Table:
    """``vocab.json`` with the ``merges.txt`` beside it."""
    vocab = read_json(path)
    try:
        lines = read_bytes(path.parent / "merges.txt", MOST_BYTES).decode().splitlines()
    except UnicodeDecodeError:
        raise ModelFileError("merges.txt is not UTF-8", "texts in UTF-8", "fetch it again") from None
    merges = [line for line in lines if line and not line.startswith("#version")]
    end = "<|endoftext|>"
    added = [added_token(vocab[end], end, is_special=True)] if end in vocab else []
    return byte_level(vocab, merges, added_tokens=added)


def read_llama2c(path: Path) -> Table:
    """llama2.c's ``tokenizer.bin``: the longest length, then a score, a length and the bytes of each token."""
    data = read_bytes(path, MOST_SCORED_LETTERS)
    pieces: list[str] = []
    scores: list[float] = []
    position = 4
    try:
        while position < len(data):
            score, length = struct.unpack_from("<fI", data, position)
            piece = data[position + 8 : position + 8 + length]
            if len(piece) != length:
                raise ModelFileError("the file is cut short", "whole tokens", "fetch it again")
            pieces.append(piece.decode())
            scores.append(score)
            position += 8 + length
    except (struct.error, UnicodeDecodeError):
        raise ModelFileError("no llama2.c tokenizer", "scores and texts in UTF-8", "check that it is the right file") from None
    names = [f"<0x{byte:02X}>" for byte in range(256)]
    # Early files hold each byte as the letter of that number, later ones as its name.
    if len(pieces) < 259 or pieces[3:259] not in (names, [chr(byte) for byte in range(256)]):
        raise ModelFileError("tokens 3 to 258 are not the bytes", "a llama2.c tokenizer", "check that it is the right file")
    kinds = [_CONTROL] * 3 + [_BYTE] * 256 + [_NORMAL] * (len(pieces) - 259)
    table = _scored([*pieces[:3], *names, *pieces[259:]], scores, kinds, before=1)
    # The text <unk> is no token of its own to llama2.c, and a text cannot hold the odd spellings of the other two.
    table["added_tokens"] = [added_token(token, pieces[token], is_special=True) for token in (1, 2)]
    table["normalizer"] = {"type": "Prepend", "prepend": " "}
    return table


def read_gguf(path: Path) -> Table:
    """The vocabulary inside a GGUF model."""
    metadata = gguf.look(path).metadata
    own = {
        name.removeprefix("tokenizer.ggml."): value for name, value in metadata.items() if name.startswith("tokenizer.ggml.")
    }
    tokens = _listed(own, "tokens", str)
    kinds = _listed(own, "token_type", int) if "token_type" in own else [_NORMAL] * len(tokens)
    if not len(kinds) == len(tokens) == len(set(tokens)) <= MOST_TOKENS:
        raise ModelFileError(
            "tokens that stand twice or lack a type", "each token once, with a type", "convert the model again"
        )
    match own.get("model"):
        case "gpt2":
            table = _gguf_byte_level(tokens, own)
        case "llama":
            table = _gguf_scored(tokens, kinds, own)
        case other:
            raise ModelFileError(f"a vocabulary of kind {other!r:.40}", "gpt2 or llama", "use the model's own tokenizer.json")
    special = {_CONTROL: True, _USER: False}
    table["added_tokens"] = [
        added_token(token, text, is_special=special[kind])
        for token, (text, kind) in enumerate(zip(tokens, kinds, strict=True))
        if kind in special
    ]
    before = _end(own, "bos", asked=own.get("add_bos_token", own["model"] == "llama"), size=len(tokens))
    after = _end(own, "eos", asked=own.get("add_eos_token", False), size=len(tokens))
    return table | _template(tokens, before, after)


def _gguf_byte_level(tokens: list[str], own: Table) -> Table:
    name = own.get("pre", "default")
    splits = {
        "gpt-2": [],
        "smollm": [{"type": "Digits", "individual_digits": True}, _split(GPT2)],
        "llama-bpe": [_split(LLAMA3)],
        "qwen2": [_split(QWEN2)],
        "default": [_split(pattern) for pattern in (LLAMA_CPP[0], GPT2, *LLAMA_CPP[1:])],
    }
    if not isinstance(name, str) or name not in splits:
        given, do = f"the pre-tokenizer {name!r:.40}", "use the model's own tokenizer.json"
        raise ModelFileError(given, f"one of {', '.join(splits)}", do)
    vocab = {text: token for token, text in enumerate(tokens)}
    table = byte_level(vocab, _listed(own, "merges", str), splits=splits[name], ignore_merges=name == "llama-bpe")
    return table | {"normalizer": {"type": "NFC"}} if name == "qwen2" else table


def _gguf_scored(tokens: list[str], kinds: list[int], own: Table) -> Table:
    scores = _listed(own, "scores", float)
    if len(scores) != len(tokens):
        raise ModelFileError(f"{len(scores):,} scores", "a score for each token", "convert the model again")
    prefix = own.get("add_space_prefix", True) is not False
    # A space is written ▁ in these vocabularies, and a ▁ in a text is taken for one.
    table = _scored([token.replace("▁", " ") for token in tokens], scores, kinds, before=int(prefix))
    steps: list[Table] = [{"type": "Prepend", "prepend": " "}] if prefix else []
    replace = {"type": "Replace", "pattern": {"String": "▁"}, "content": " "}
    return table | {"normalizer": {"type": "Sequence", "normalizers": [*steps, replace]}}


def _scored(pieces: list[str], scores: list[float], kinds: list[int], *, before: int) -> Table:
    """A BPE tokenizer that joins the neighbours whose union has the highest score, with bytes for unknown letters.

    ``before`` is how many spaces of a text's beginning were put there by the tokenizer.
    """
    _check_pieces(pieces, scores)
    vocab = {piece: token for token, piece in enumerate(pieces)}
    normal = {piece: scores[token] for piece, token in vocab.items() if kinds[token] == _NORMAL}
    cuts = ((piece[:at], piece[at:]) for piece in normal for at in range(1, len(piece)))
    merges = [pair for pair in cuts if pair[0] in normal and pair[1] in normal]
    # Runs of spaces share one score: the leftmost pair wins there, and that is the one with the longest left side.
    merges.sort(key=lambda pair: (-normal[pair[0] + pair[1]], -len(pair[0])))
    model = {"type": "BPE", "unk_token": pieces[0], "fuse_unk": True, "byte_fallback": True, "vocab": vocab, "merges": merges}
    strip = [{"type": "Strip", "content": " ", "start": before, "stop": 0}] if before else []
    decoder = {"type": "Sequence", "decoders": [{"type": "ByteFallback"}, {"type": "Fuse"}, *strip]}
    return {"version": "1.0", "decoder": decoder, "model": model, **_template(pieces, [1], [])}


def _check_pieces(pieces: list[str], scores: list[float]) -> None:
    # Each place where a piece can be cut may be a merge: what makes a long piece harmless elsewhere does not here.
    if len(set(pieces)) != len(pieces) or not all(0 < len(piece) <= MOST_PIECE_LETTERS for piece in pieces):
        raise ModelFileError("tokens that are empty, endless or stand twice", "each token once", "fetch the tokenizer again")
    if not all(map(math.isfinite, scores)) or sum(map(len, pieces)) > MOST_SCORED_LETTERS:
        raise ModelFileError(
            "scores that are not finite, or too long a vocabulary", "finite scores", "fetch the tokenizer again"
        )


def _template(tokens: list[str], before: list[int], after: list[int]) -> Table:
    """The post-processor that puts tokens before and after each text."""
    if not before and not after:
        return {"post_processor": None}
    around = {tokens[token]: {"id": tokens[token], "ids": [token], "tokens": [tokens[token]]} for token in before + after}
    text: Table = {"Sequence": {"id": "A", "type_id": 0}}
    pieces = [[{"SpecialToken": {"id": tokens[token], "type_id": 0}} for token in ids] for ids in (before, after)]
    template = [*pieces[0], text, *pieces[1]]
    return {"post_processor": {"type": "TemplateProcessing", "single": template, "pair": template, "special_tokens": around}}


def _end(own: Table, name: str, *, asked: Any, size: int) -> list[int]:
    """The token that begins or ends every text, where the file asks for it."""
    if asked is not True:
        return []
    token = own.get(f"{name}_token_id")
    if type(token) is not int or not 0 <= token < size:
        raise ModelFileError(f"{name}_token_id is {token!r:.40}", "the id of a token", "convert the model again")
    return [token]


def _split(pattern: str) -> Table:
    return {"type": "Split", "pattern": {"Regex": pattern}, "behavior": "Isolated", "invert": False}


def added_token(token: Any, content: str, *, is_special: bool) -> Table:
    """The entry of a token that stands for itself, whatever the text around it."""
    flags = {"single_word": False, "lstrip": False, "rstrip": False, "normalized": False, "special": is_special}
    return {"id": token, "content": content, **flags}


def _listed(own: Table, name: str, kind: type[Item]) -> list[Item]:
    values: Any = own.get(name)
    if type(values) is not list or not all(type(value) is kind for value in cast(list[Any], values)):
        raise ModelFileError(f"an unfit tokenizer.ggml.{name}", f"a list of {kind.__name__}", "convert the model again")
    return cast(list[Item], values)


def dump(table: Table) -> bytes:
    """The ``tokenizer.json`` of a table."""
    return json.dumps(table, ensure_ascii=False).encode()
