"""What is to be built, for whoever does a piece of it: small, plain, and the same on every machine."""

import hashlib
import json
import threading
from dataclasses import dataclass
from functools import cached_property, lru_cache
from pathlib import Path
from typing import Literal

import torch

from headwater.atlas.settings import Settings
from headwater.atlas.subject import Subject
from headwater.errors import InputError
from headwater.files.safetensors import hash_tensors
from headwater.files.tables import read_table
from headwater.model.sources import load_weights, look
from headwater.model.weights import Weights
from headwater.settings import setting, to_plain

_ONE_AT_A_TIME = threading.Lock()
"""A model is read by one thread, and others have it from there."""
PART = 2**21
"""Joined rows of a part, about: what a search may have to open."""


@setting
class CorpusUse:
    """The text that an atlas was held against."""

    tokenizer: str
    tokens: int
    sha256: str
    """Of its training and its held-out text, one after the other."""
    part: Literal["held-out", "train"]
    """Which part of it the evidence is from."""
    windows: int
    """How many windows of that."""
    searched: int
    """How many windows of training text bugs are looked for in."""
    window: int
    """Their length."""


@setting
class Plan:
    """What an atlas is made of: all that its bytes depend on, but for the machine and its libraries."""

    format: str
    model: str
    """The hash of the configuration and of every tensor, whatever file they are in."""
    words: str | None = None
    """The hash of the tokenizer."""
    vocab: int
    heads: tuple[str, ...]
    settings: Settings
    corpus: CorpusUse | None = None
    libraries: tuple[str, ...]
    """Names and versions of what numbers and bytes may depend on."""

    @property
    def sha256(self) -> str:
        """One number for all of it."""
        return hashlib.sha256(json.dumps(to_plain(self), sort_keys=True).encode()).hexdigest()


@dataclass(frozen=True)
class Order:
    """A plan, where the model lies, and where the atlas is to be: what travels to a worker."""

    plan: Plan
    model: str
    folder: str
    device: str = "cpu"

    @cached_property
    def sha256(self) -> str:
        """One number for all of it."""
        return hashlib.sha256(json.dumps([self.plan.sha256, self.model, self.folder, self.device]).encode()).hexdigest()

    @property
    def settings(self) -> Settings:
        """How the tables are made."""
        return self.plan.settings

    def path(self, name: str) -> Path:
        """A file of the atlas."""
        return Path(self.folder) / name

    @property
    def starts(self) -> list[int]:
        """The first line of each task."""
        return list(range(0, self.plan.vocab, self.settings.rows))

    def part(self, table: str, name: str, first: int, ending: str = "parquet") -> str:
        """The file of some lines of a table: ``says/L0H3.parquet``, or several with the number of their first line."""
        number = f".{first:05d}" if len(self.starts) > 1 else ""
        return f"{table}/{name}{number}.{ending}"

    def parts(self, table: str, name: str, ending: str = "parquet") -> list[Path]:
        """All files of a table."""
        return [self.path(self.part(table, name, first, ending)) for first in self.starts]

    @property
    def edges(self) -> list[int]:
        """The ids at which joined rows are cut into parts, so that a search opens one of them."""
        vocab, rows = self.plan.vocab, 6 * self.settings.each * self.plan.vocab * len(self.plan.heads)
        count = min(vocab, max(1, -(-rows // PART)))
        return [vocab * part // count for part in range(count + 1)]


def model_hash(weights: Weights) -> str:
    """What a model is, whatever file it lies in: its configuration and its numbers."""
    return hash_tensors(weights.tensors(), json.dumps(to_plain(weights.config), sort_keys=True))


@lru_cache(maxsize=1)
def weights_at(model: str) -> Weights:
    """A model's weights, read once by each process; half precision is widened to calculate with."""
    weights = load_weights(look(model))
    half = weights.dtype in (torch.float16, torch.bfloat16)
    return weights.to(dtype=torch.float32) if half else weights


def subject_of(order: Order) -> Subject:
    """The model of an order, held against its hash, as the atlas looks at it; how often tokens occur is read from the atlas' vocabulary."""
    with _ONE_AT_A_TIME:
        return _subject_of(order)


@lru_cache(maxsize=1)
def _subject_of(order: Order) -> Subject:
    weights = weights_at(order.model)
    if model_hash(weights) != order.plan.model:
        # A worker that has been there for longer may remember what lay there before.
        weights_at.cache_clear()
        weights = weights_at(order.model)
    if model_hash(weights) != order.plan.model:
        given = f"{order.model} has other weights here than where the atlas was begun"
        raise InputError(given, "the same model on every machine", "copy it to all of them, or put it on shared storage")
    shares = torch.from_numpy(read_table(order.path("vocab.parquet"), ["share"])["share"])
    return Subject(weights.to(device=order.device), shares.to(order.device), order.settings)
