"""One fuzzing process: ``python fuzz/harness.py TARGET [options of libFuzzer] [folders of inputs]``."""

import json
import random
import sys
import tomllib
from typing import Any

import atheris
import tomli_w

with atheris.instrument_imports(include=["headwater"]):
    import targets

JSON = {"config", "index", "tokenizer", "manifest", "corpus"}
TOML = {"recipe"}
ODD: list[Any] = [
    None, True, False, 0, 1, -1, 2, 7, 2**31, 2**63, 10**30, 0.0, -0.5, 1e-30, 1e300, "", "a", "A", " ", "▁", "\0", "x" * 5000,
    "Sequence", "ByteLevel", "../x", [], [1], [[]], {}, {"type": "Sequence"}, {"kind": "no-norm"},
]  # fmt: skip


def change_json(data: bytes, most: int, seed: int) -> bytes:
    """Change one value of a JSON text: random bytes alone would seldom leave it one."""
    try:
        plain = json.loads(data)
        if (changed := change(plain, random.Random(seed))) is not None:
            return json.dumps(changed).encode()[:most]
    except (ValueError, RecursionError):
        pass
    return atheris.Mutate(data, most)


def change_toml(data: bytes, most: int, seed: int) -> bytes:
    """The same with TOML, which has no word for nothing."""
    try:
        plain = tomllib.loads(data.decode())
        if (changed := change(plain, random.Random(seed))) is not None:
            return tomli_w.dumps(changed).encode()[:most]
    except (ValueError, TypeError, RecursionError):
        pass
    return atheris.Mutate(data, most)


def change(plain: Any, chance: random.Random) -> Any:
    """One value replaced, removed or put elsewhere; now and then nothing, so that bytes are changed."""
    holders = [holder for holder in within(plain) if holder]
    if chance.random() < 0.2 or not holders:
        return None
    holder = chance.choice(holders)
    key = chance.choice(list(holder) if isinstance(holder, dict) else range(len(holder)))
    match chance.randrange(4):
        case 0:
            del holder[key]
        case 1 if isinstance(holder, dict):
            other = chance.choice(holders)
            holder[chance.choice(list(other)) if isinstance(other, dict) else "x"] = holder[key]
        case 2:
            holder[key] = json.loads(json.dumps(chance.choice(holders)))
        case _:
            holder[key] = chance.choice(ODD)
    return plain


def within(plain: Any) -> list[Any]:
    """All objects and lists of a JSON value."""
    if not isinstance(plain, dict | list):
        return []
    inner = plain.values() if isinstance(plain, dict) else plain
    return [plain, *(holder for value in inner for holder in within(value))]


def main() -> None:
    name = sys.argv.pop(1)
    changes = dict.fromkeys(JSON, change_json) | dict.fromkeys(TOML, change_toml)
    mutator = {"custom_mutator": changes[name]} if name in changes else {}
    atheris.Setup(sys.argv, lambda data: targets.survives(name, data), **mutator)
    atheris.Fuzz()


if __name__ == "__main__":
    main()
