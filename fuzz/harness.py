"""One fuzzing process: ``python fuzz/harness.py TARGET [options of libFuzzer] [folders of inputs]``."""

import json
import random
import sys
from typing import Any

import atheris

with atheris.instrument_imports(include=["headwater"]):
    import targets

JSON = {"config", "index", "tokenizer"}
ODD: list[Any] = [
    None, True, False, 0, 1, -1, 2, 7, 2**31, 2**63, 10**30, 0.0, -0.5, 1e-30, 1e300, "", "a", "A", " ", "▁", "\0", "x" * 5000,
    "Sequence", "ByteLevel", "../x", [], [1], [[]], {}, {"type": "Sequence"}, {"kind": "no-norm"},
]  # fmt: skip


def change_json(data: bytes, most: int, seed: int) -> bytes:
    """Change one value of a JSON text: random bytes alone would seldom leave it one."""
    chance = random.Random(seed)
    try:
        plain = json.loads(data)
        holders = [holder for holder in within(plain) if holder]
        if chance.random() < 0.2 or not holders:
            return atheris.Mutate(data, most)
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
        return json.dumps(plain).encode()[:most]
    except (ValueError, RecursionError):
        return atheris.Mutate(data, most)


def within(plain: Any) -> list[Any]:
    """All objects and lists of a JSON value."""
    if not isinstance(plain, dict | list):
        return []
    inner = plain.values() if isinstance(plain, dict) else plain
    return [plain, *(holder for value in inner for holder in within(value))]


def main() -> None:
    name = sys.argv.pop(1)
    mutator = {"custom_mutator": change_json} if name in JSON else {}
    atheris.Setup(sys.argv, lambda data: targets.survives(name, data), **mutator)
    atheris.Fuzz()


if __name__ == "__main__":
    main()
