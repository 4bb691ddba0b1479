"""An atlas that takes a second: a random model over bytes, some text, several heads and several ranges of lines."""

from contextlib import AbstractContextManager
from pathlib import Path

import pytest
import torch

from headwater import Model
from headwater.atlas.build import AtlasChoices, build_atlas
from headwater.atlas.engines import Doing
from headwater.atlas.manifest import Manifest
from headwater.atlas.order import Order
from headwater.model.config import Attention, ModelConfig, PreNorm, SinusoidalPositions
from headwater.text.corpus import Corpus, build_corpus, open_corpus
from headwater.text.sources import Files
from headwater.text.tokenizer import byte_tokenizer
from strategies import random_weights
from tiny import TEXT

CONFIG = ModelConfig(
    vocab=256,
    context=16,
    d_model=8,
    layers=1,
    attention=Attention(heads=3, d_head=4),
    positions=SinusoidalPositions(into="queries-and-keys"),
    norm=PreNorm(),
)
CHOSEN = AtlasChoices(k=6, triples=30, each=3, rows=150, windows=8)
TASKS = 4 * 2 + 4 + 3 * 2 + 3 * 2 + 3 * 2 + 3 + 3
"""says, own, seeks, sought, said, trigrams, merge."""


PRELOAD = ["pytest", "hypothesis.strategies", "headwater.atlas.build", "headwater.api", "duckdb", "numba"]
"""What takes its time to be imported: a process that has it loaded hands out copies of itself, and a kill can come early in a build."""


def save_model(folder: Path, *, seed: int = 0) -> Path:
    Model(random_weights(CONFIG, seed, torch.float32), byte_tokenizer()).save(folder)
    return folder


def save_corpus(folder: Path) -> Path:
    text = folder.with_suffix(".txt")
    text.write_text(TEXT[:20_000])
    build_corpus(Files(paths=(str(text),)), byte_tokenizer(), folder, held_out=0.3)
    return folder


def build_here(place: Path, folder: Path, *, with_text: bool = True, **ways) -> Manifest:
    """Of the model and the corpus in a folder."""
    corpus: Corpus | None = open_corpus(place / "corpus") if with_text else None
    return build_atlas(place / "model", folder, CHOSEN, corpus=corpus, **ways)


def contents(folder: Path) -> dict[str, bytes]:
    """Every byte of an atlas."""
    return {path.relative_to(folder).as_posix(): path.read_bytes() for path in sorted(folder.rglob("*")) if path.is_file()}


class AskedError(Exception):
    """Somebody was to do the tasks of an order."""


class Nobody:
    """An engine that does nothing."""

    def start(self, order: Order) -> AbstractContextManager[Doing]:
        raise AskedError(order)


def begin(model: Path, folder: Path) -> Order:
    """The order of a build, whose folder has been begun."""
    with pytest.raises(AskedError) as asked:
        build_atlas(model, folder, CHOSEN, engine=Nobody())
    return asked.value.args[0]
