"""The page for those who come from TransformerLens: its rows, and what their right column is run with."""

import re
from pathlib import Path
from typing import NamedTuple

import torch

import headwater as hw
from headwater.circuits.composition import composition
from headwater.model import fold
from headwater.train.predictors import Transformer

DOCS = Path(__file__).parents[1] / "docs"
PAGE, PAGE_PT = DOCS / "from-transformer-lens.md", DOCS / "pt" / "from-transformer-lens.md"
SECTIONS = (
    *("differs", "loading", "processing", "text", "values", "other models"),
    *("stream", "edits", "patching", "weights", "circuits", "configuration", "missing"),
)
"""In the order of the page, whatever its language."""
TEXT = "abcab"


class Row(NamedTuple):
    section: str
    theirs: str
    ours: str


def rows(page: Path) -> list[Row]:
    """The rows with a line of code on both sides."""
    parts = page.read_text().split("\n## ")[1:]
    pair = re.compile(r"^\| `([^`]+)` \| `([^`]+)` \|.*\|$", re.MULTILINE)
    return [Row(name, *found) for name, part in zip(SECTIONS, parts, strict=True) for found in pair.findall(part)]


def is_setting(code: str) -> bool:
    """``norm=hw.NoNorm()``: arguments, and no expression."""
    return re.match(r"\w+=[^=]", code) is not None


def settings(code: str, **known) -> dict:
    """The arguments that such a cell writes down."""
    return eval(f"dict({code})", known)


def named(model: hw.Model) -> dict:
    """What the right column calls by name."""
    tokens = model.tokens(TEXT)
    corrupted = torch.tensor([[99, 98, 97, 98, 99]])
    clean = model.record(tokens)
    generator = torch.Generator().manual_seed(1)
    A, B = (torch.randn(shape, generator=generator, dtype=torch.float64) for shape in ((7, 3), (3, 7)))
    direction = torch.randn(model.config.d_model, generator=generator, dtype=torch.float64)
    folding = {name: getattr(fold, name) for name in ("fold_norms", "centre_writes", "centre_unembed", "fold_value_bias")}
    return {
        "hw": hw,
        "torch": torch,
        "model": model,
        "run": clean,
        "tokens": tokens,
        "text": TEXT,
        "bos": 0,
        "A": A,
        "B": B,
        "direction": direction,
        "nats": Transformer(model.weights).nats,
        "composition": composition,
        "clean": clean,
        "layers": range(model.config.layers),
        "heads": range(model.config.heads),
        "positions": range(len(TEXT)),
        "length": len(TEXT),
        "corrupted": corrupted,
        "metric": metric,
        "weights": model.weights,
        "device": "cpu",
        **folding,
        "patched": lambda place: metric(model.record(corrupted, tap=hw.Patch.of(model.place(place), clean)).logits),
    }


def metric(logits):
    """What patching is measured by: a difference of two logits at the end."""
    return logits[0, -1, 3] - logits[0, -1, 8]
