"""What a ``tokenizer.json`` may ask for.

The tokenizer library trusts its files: some crafted ones make it panic, some make a text grow without end, and a regular
expression can run for ever. So a file may only use the parts listed here, with values in the ranges listed here.
"""

from collections.abc import Callable
from typing import Any, cast

from headwater.errors import ModelFileError, did_you_mean

MOST_TOKENS = 2**19
MOST_TOKEN_LETTERS = 4096
MOST_ADDED = 10_000
MOST_PARTS = 16

GPT2 = r"'s|'t|'re|'ve|'m|'ll|'d| ?\p{L}+| ?\p{N}+| ?[^\s\p{L}\p{N}]+|\s+(?!\S)|\s+"
LLAMA3 = (
    r"(?i:'s|'t|'re|'ve|'m|'ll|'d)|[^\r\n\p{L}\p{N}]?\p{L}+|\p{N}{1,3}"
    r"| ?[^\s\p{L}\p{N}]+[\r\n]*|\s*[\r\n]+|\s+(?!\S)|\s+"
)
QWEN2 = LLAMA3.replace(r"\p{N}{1,3}", r"\p{N}")
TEKKEN = (
    r"[^\r\n\p{L}\p{N}]?[\p{Lu}\p{Lt}\p{Lm}\p{Lo}\p{M}]*[\p{Ll}\p{Lm}\p{Lo}\p{M}]+"
    r"|[^\r\n\p{L}\p{N}]?[\p{Lu}\p{Lt}\p{Lm}\p{Lo}\p{M}]+[\p{Ll}\p{Lm}\p{Lo}\p{M}]*"
    r"|\p{N}| ?[^\s\p{L}\p{N}]+[\r\n/]*|\s*[\r\n]+|\s+(?!\S)|\s+"
)
LLAMA_CPP = (r"[\p{P}\$\+<=>\^~\|]+", r"\p{N}+", r"[0-9][0-9][0-9]")
PATTERNS = {GPT2, LLAMA3, QWEN2, TEKKEN, *LLAMA_CPP}
"""The regular expressions that are run: those of GPT-2, Llama 3, Qwen 2, Mistral and llama.cpp's default."""

Table = dict[str, Any]
Check = Callable[[Any], bool]


def check(plain: Table) -> None:
    """Refuse a parsed ``tokenizer.json`` that asks for anything not listed here."""
    known = ("version", "truncation", "padding", "added_tokens", "model", *_PARTS)
    for name in plain:
        if name not in known:
            raise ModelFileError(f"an unknown key {name!r:.80}", "known keys only", did_you_mean(name, known))
    _check_model(plain.get("model"))
    _check_added(plain.get("added_tokens") or [])
    for place, parts in _PARTS.items():
        if plain.get(place) is not None and not _is_part(plain[place], place, [MOST_PARTS]):
            given = f"the {place} {plain[place]!r:.120}"
            raise ModelFileError(given, f"made of {', '.join(parts)} with ordinary values", "use a common tokenizer")


def _check_model(model: Any) -> None:
    table = _table(model)
    kind = table.get("type", "BPE")
    checks = {"BPE": _BPE, "WordLevel": _WORD_LEVEL}.get(kind) if type(kind) is str else None
    if checks is None:
        raise ModelFileError(f"a tokenizer model of type {kind!r:.40}", "BPE or WordLevel", "use a common tokenizer")
    for name, value in table.items():
        if name != "type" and not (name in checks and checks[name](value)):
            raise ModelFileError(f"model.{name:.80} is {value!r:.80}", "an ordinary value", "use a common tokenizer")
    vocab = table.get("vocab")
    if vocab is None:
        raise ModelFileError("no model.vocab", "a vocabulary", "use a common tokenizer")
    for merge in cast(list[Any], table.get("merges", [])):
        pair: list[Any] = merge.split(" ") if type(merge) is str else merge
        if len(pair) != 2 or not all(type(piece) is str for piece in pair) or not {*pair, "".join(pair)} <= vocab.keys():
            raise ModelFileError(f"the merge {merge!r:.80}", "two tokens that make a third", "write the tokenizer again")


def _check_added(added: Any) -> None:
    if not isinstance(added, list) or len(cast(list[Any], added)) > MOST_ADDED:
        raise ModelFileError("added_tokens is no list, or too long a one", f"up to {MOST_ADDED:,} tokens", "write it again")
    flags = {"single_word", "lstrip", "rstrip", "normalized", "special"}
    for token in cast(list[Any], added):
        table = _table(token)
        if not (
            {"id", "content"} <= set(table) <= {"id", "content", *flags}
            and _is_id(table["id"])
            and _is_token(table["content"])
            and all(_is_flag(table[flag]) for flag in flags & set(table))
        ):
            raise ModelFileError(f"the added token {token!r:.120}", "an id, a content and flags", "write the tokenizer again")


def _table(value: Any) -> Table:
    """A JSON object as it is, and anything else as an empty one."""
    return cast(Table, value) if type(value) is dict else {}


def _only(value: Any) -> tuple[str, Any]:
    """The one pair of a JSON object that has just one."""
    table = _table(value)
    return next(iter(table.items())) if len(table) == 1 else ("", None)


def _is_flag(value: Any) -> bool:
    return type(value) is bool


def _is_id(value: Any) -> bool:
    return type(value) is int and 0 <= value < MOST_TOKENS


def _is_token(value: Any) -> bool:
    return type(value) is str and 0 < len(value) <= MOST_TOKEN_LETTERS


def _is_short(value: Any) -> bool:
    # Each replacement may make a text longer, and there can be several.
    return type(value) is str and len(value) <= 4


def _is_letter(value: Any) -> bool:
    return type(value) is str and len(value) == 1


def _is_nothing(value: Any) -> bool:
    return value in (None, "", 0)


def _is_small(value: Any) -> bool:
    return type(value) is int and 0 <= value <= 8


def _is_word(value: Any) -> bool:
    return type(value) is str and value.isidentifier() and len(value) < 40


def _is_vocabulary(value: Any) -> bool:
    if type(value) is not dict or not 0 < len(cast(Table, value)) <= MOST_TOKENS:
        return False
    ids = list(cast(Table, value).values())
    return all(map(_is_id, ids)) and len(set(ids)) == len(ids) and all(map(_is_token, cast(Table, value)))


def _are_merges(value: Any) -> bool:
    return type(value) is list and all(type(merge) in (str, list) for merge in cast(list[Any], value))


def _is_pattern(value: Any) -> bool:
    kind, pattern = _only(value)
    return (kind == "String" and _is_short(pattern) and pattern != "") or (
        kind == "Regex" and type(pattern) is str and pattern in PATTERNS
    )


def _is_template(value: Any) -> bool:
    """A list of special tokens around one text (or two): ``[{"SpecialToken": …}, {"Sequence": …}]``."""
    if type(value) is not list or len(cast(list[Any], value)) > MOST_PARTS:
        return False
    kinds: list[str] = []
    for piece in cast(list[Any], value):
        kind, inner = _only(piece)
        if (
            kind not in ("SpecialToken", "Sequence")
            or _table(inner).keys() != {"id", "type_id"}
            or type(inner["id"]) is not str
        ):
            return False
        kinds.append(kind if kind == "SpecialToken" else inner["id"])
    return kinds.count("A") <= 1 and kinds.count("B") <= 1


def _are_specials(value: Any) -> bool:
    if type(value) is not dict or len(cast(Table, value)) > MOST_PARTS:
        return False
    for name, special in cast(Table, value).items():
        table = _table(special)
        ids = table.get("ids")
        if set(table) != {"id", "ids", "tokens"} or table["id"] != name or type(ids) is not list:
            return False
        if not 0 < len(cast(list[Any], ids)) <= MOST_PARTS or not all(map(_is_id, cast(list[Any], ids))):
            return False
    return True


_BPE: dict[str, Check] = {
    "dropout": _is_nothing, "continuing_subword_prefix": _is_nothing, "end_of_word_suffix": _is_nothing,
    "unk_token": lambda value: value is None or type(value) is str,
    "fuse_unk": _is_flag, "byte_fallback": _is_flag, "ignore_merges": _is_flag,
    "vocab": _is_vocabulary, "merges": _are_merges,
}  # fmt: skip
_WORD_LEVEL: dict[str, Check] = {"vocab": _is_vocabulary, "unk_token": _is_token}

_BYTE_LEVEL: dict[str, Check] = {"add_prefix_space": _is_flag, "trim_offsets": _is_flag, "use_regex": _is_flag}
_REPLACE: dict[str, Check] = {"pattern": _is_pattern, "content": _is_short}
_METASPACE: dict[str, Check] = {
    "replacement": _is_letter, "str_rep": _is_letter, "prepend_scheme": _is_word, "split": _is_flag, "add_prefix_space": _is_flag,
}  # fmt: skip

_PARTS: dict[str, dict[str, dict[str, Check]]] = {
    "normalizer": {
        "NFC": {}, "NFD": {}, "NFKC": {}, "NFKD": {}, "Lowercase": {},
        "Strip": {"strip_left": _is_flag, "strip_right": _is_flag},
        "Prepend": {"prepend": _is_short},
        "Replace": _REPLACE,
        "Sequence": {},
    },
    "pre_tokenizer": {
        "ByteLevel": _BYTE_LEVEL, "Metaspace": _METASPACE, "Whitespace": {}, "WhitespaceSplit": {},
        "Digits": {"individual_digits": _is_flag},
        "Punctuation": {"behavior": _is_word},
        "Split": {"pattern": _is_pattern, "behavior": _is_word, "invert": _is_flag},
        "Sequence": {},
    },
    "post_processor": {
        "ByteLevel": _BYTE_LEVEL,
        "TemplateProcessing": {"single": _is_template, "pair": _is_template, "special_tokens": _are_specials},
        "Sequence": {},
    },
    "decoder": {
        "ByteLevel": _BYTE_LEVEL, "Metaspace": _METASPACE, "ByteFallback": {}, "Fuse": {},
        "Replace": _REPLACE,
        "Strip": {"content": _is_letter, "start": _is_small, "stop": _is_small},
        "Sequence": {},
    },
}  # fmt: skip
"""For each place in the file: the parts it may be made of, and how each of their fields is checked."""

_LISTS = {"normalizer": "normalizers", "pre_tokenizer": "pretokenizers", "post_processor": "processors", "decoder": "decoders"}


def _is_part(value: Any, place: str, left: list[int]) -> bool:
    """Whether ``value`` is one of the parts of its place; ``left`` counts down how many more there may be."""
    left[0] -= 1
    kind = _table(value).get("type")
    if left[0] < 0 or type(kind) is not str or kind not in _PARTS[place]:
        return False
    fields = {name: inner for name, inner in _table(value).items() if name != "type"}
    if kind == "Sequence":
        inner = fields.get(_LISTS[place])
        return len(fields) == 1 and type(inner) is list and all(_is_part(each, place, left) for each in cast(list[Any], inner))
    checks = _PARTS[place][kind]
    if not all(name in checks and checks[name](inner) for name, inner in fields.items()):
        return False
    return kind != "TemplateProcessing" or _names_its_specials(fields)


def _names_its_specials(fields: Table) -> bool:
    pieces = [piece for each in ("single", "pair") for piece in fields.get(each, [])]
    used = {piece["SpecialToken"]["id"] for piece in pieces if "SpecialToken" in piece}
    return used <= fields.get("special_tokens", {}).keys()
