"""A small atlas by the book: every statistic from dense arrays with loops, no code of ``headwater.atlas`` but the manifest's."""

import json
from dataclasses import dataclass
from itertools import product

import numpy as np
import torch
from safetensors.torch import save_file

from headwater.atlas.manifest import commit
from headwater.files.tables import write_table

TEXTS = [
    " keep",
    " in",
    " mind",
    " at",
    " bay",
    "keep",
    "def",
    " def",
    "self",
    " self",
    None,
    'a"b,\n',
    "é" + 40 * "a",
    "[bold]",
]
HEADS = ("L0H0", "L0H1", "L1H0")
K, TRIPLES, EACH, OTHERS = 5, 20, 3, 7


@dataclass(repr=False)
class Small:
    """The arrays that it was made from."""

    folder: object
    score: np.ndarray  # [head, dest, source]
    output: np.ndarray  # [head, source, out]
    attention: np.ndarray  # [head, dest, source]
    rows: list  # (head, source, dest, out), joined rows, once each
    evidence: dict

    def lift(self, head, source, dest, out):
        return self.attention[head, dest, source] * self.output[head, source, out]


def small_atlas(folder, *, seed=0, parts=2, corpus=True):
    lots = np.random.default_rng(seed)
    vocab = len(TEXTS)
    score = 2 * lots.normal(size=(len(HEADS), vocab, vocab))
    output = lots.normal(size=(len(HEADS), vocab, vocab))
    output -= output.mean(axis=2, keepdims=True)
    mass = np.log(np.exp(score).mean(axis=2))
    attention = 1 / (1 + np.exp(-(score - mass[:, :, None] - np.log(OTHERS))))
    small = Small(folder, score, output, attention, [], {})
    for name in ("says", "seeks", "sought", "said", "lines", *(f"trigrams/by_{slot}" for slot in ("source", "dest", "out"))):
        (folder / name).mkdir(parents=True, exist_ok=True)
    write_vocab(folder, lots)
    strongest = [write_head(folder, small, head) for head in range(len(HEADS))]
    write_bigrams(folder, lots)
    write_strongest(folder, small, strongest)
    for slot in ("source", "dest", "out"):
        write_joined(folder, small, slot, parts)
    if corpus:
        write_evidence(folder, small, strongest, lots)
    (folder / "plan.json").write_text("{}")
    (folder / "heads.json").write_text(json.dumps({"heads": [{"head": name} for name in HEADS]}))
    save_file({"log_normaliser": torch.zeros(vocab, dtype=torch.float64)}, folder / "lines" / "direct.safetensors")
    settings = {"k": K, "triples": TRIPLES, "each": EACH, "others": OTHERS}
    model = {"name": "small", "sha256": "0" * 64, "config": {"vocab": vocab}}
    commit(folder, model=model, settings=settings, plan={"parts": parts}, heads=HEADS, vocab=vocab)
    return small


def write_vocab(folder, lots):
    count = lots.integers(1, 50, len(TEXTS))
    shown = [f"#{number}" if text is None else f"‘{text}’" for number, text in enumerate(TEXTS)]
    ids = np.arange(len(TEXTS), dtype=np.uint32)
    write_table(
        folder / "vocab.parquet", {"id": ids, "text": TEXTS, "shown": shown, "count": count, "share": count / count.sum()}
    )


def write_bigrams(folder, lots):
    values = lots.normal(size=(len(TEXTS), len(TEXTS)))
    write_list(folder / "bigrams.parquet", ("token", "out"), values, {"output": values}, both=True)


def write_list(path, names, by, columns, *, both):
    """For every line its places by falling (and rising) ``by``."""
    line, place, other = [], [], []
    for number, row in enumerate(by):
        falling = sorted(range(len(row)), key=lambda each: (-row[each], each))[:K]
        rising = sorted(range(len(row)), key=lambda each: (row[each], each))[:K] if both else []
        for where, each in [*((-1 - i, e) for i, e in reversed(list(enumerate(rising)))), *enumerate(falling, 1)]:
            line.append(number), place.append(where), other.append(each)
    picked = {name: values[line, other] for name, values in columns.items()}
    ids = {names[0]: np.array(line, np.uint32), "place": np.array(place, np.int16), names[1]: np.array(other, np.uint32)}
    write_table(path, {**ids, **picked})


def write_head(folder, small, head):
    """One head's tables; returns its strongest skip-trigrams, raising and lowering."""
    name, vocab = HEADS[head], len(TEXTS)
    score, attention, output = small.score[head], small.attention[head], small.output[head]
    best = attention.max(axis=0)
    columns = {"score": score, "attention": attention}
    write_list(folder / "says" / f"{name}.parquet", ("source", "out"), output, {"output": output}, both=True)
    write_list(folder / "seeks" / f"{name}.parquet", ("dest", "source"), score, columns, both=False)
    turned = {key: value.T for key, value in columns.items()}
    write_list(folder / "sought" / f"{name}.parquet", ("source", "dest"), attention.T, turned, both=False)
    lift = (best[:, None] * output).T
    write_list(folder / "said" / f"{name}.parquet", ("out", "source"), lift, {"output": output.T, "lift": lift}, both=True)
    every = sorted(product(range(vocab), repeat=3), key=lambda row: -small.lift(head, *row))
    found, bounds = set(), np.zeros((2, vocab))
    for sign, rows in ((0, every), (1, every[::-1])):
        found.update(rows[:TRIPLES])
        for slot in range(3):
            for each in range(vocab):
                mine = [row for row in rows if row[slot] == each]
                found.update(mine[:EACH])
                if slot == 0:
                    bounds[sign, each] = abs(small.lift(head, *mine[EACH - 1]))
    small.rows += [(head, *row) for row in sorted(found)]
    dense = {"bound": bounds[0], "bound_lowering": bounds[1], "best_attention": best, "own_rank": np.zeros(vocab, np.int64)}
    save_file({key: torch.from_numpy(value) for key, value in dense.items()}, folder / "lines" / f"{name}.safetensors")
    return every[:TRIPLES], every[: -TRIPLES - 1 : -1]


def numbers(small, rows, dtype):
    head, source, dest, out = np.array(rows).T
    values = {"score": small.score[head, dest, source], "output": small.output[head, source, out]}
    values["attention"] = small.attention[head, dest, source]
    values["lift"] = values["attention"] * values["output"]
    ids = {key: column.astype(np.uint32) for key, column in zip(("source", "dest", "out"), (source, dest, out), strict=True)}
    return {"head": head.astype(np.uint16), **ids, **{key: value.astype(dtype) for key, value in values.items()}}


def write_strongest(folder, small, strongest):
    rows, place = [], []
    for head, (raising, lowering) in enumerate(strongest):
        rows += [(head, *row) for row in [*lowering[::-1], *raising]]
        place += [*range(-len(lowering), 0), *range(1, len(raising) + 1)]
    columns = numbers(small, rows, np.float64)
    in_model = np.zeros(len(rows), np.int32)
    for sign in (1, -1):
        order = sorted((n for n in range(len(rows)) if place[n] * sign > 0), key=lambda n: -sign * columns["lift"][n])[:TRIPLES]
        in_model[order] = sign * np.arange(1, len(order) + 1)
    head = columns.pop("head")
    first = {"head": head, "place": np.array(place, np.int32), "in_model": np.ma.masked_equal(in_model, 0)}
    write_table(folder / "strongest.parquet", {**first, **columns})


def write_joined(folder, small, slot, parts):
    columns = numbers(small, small.rows, np.float32)
    keys = [columns[name] for name in ("out", "dest", "source", "head")]
    order = np.lexsort((*keys, -np.abs(columns["lift"]), columns[slot]))
    for part in range(parts):
        first, end = (len(TEXTS) * each // parts for each in (part, part + 1))
        chosen = [n for n in order if first <= columns[slot][n] < end]
        write_table(
            folder / "trigrams" / f"by_{slot}" / f"{part:03}.parquet", {key: value[chosen] for key, value in columns.items()}
        )


def write_evidence(folder, small, strongest, lots):
    rows = sorted({(head, *row) for head, both in enumerate(strongest) for some in both for row in some})
    ids = {key: column for key, column in numbers(small, rows, np.float64).items() if column.dtype.kind == "u"}
    chances = lots.integers(0, 4, len(rows))
    measured = np.where(chances > 0, lots.normal(size=len(rows)), np.nan)
    columns = {
        "chances": chances,
        "occurs": chances // 2,
        "fires": chances // 3,
        "expected": measured / 2,
        "measured": measured,
    }
    columns["nats"] = lots.normal(size=len(rows))
    small.evidence = {row: {key: value[n] for key, value in columns.items()} for n, row in enumerate(rows)}
    write_table(folder / "evidence.parquet", {**ids, **columns})
