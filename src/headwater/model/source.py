"""A model on disk that has been recognised and checked, but whose numbers have not been read yet."""

from collections.abc import Callable
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING

from headwater.files.entries import TensorEntry
from headwater.model.config import ModelConfig

if TYPE_CHECKING:
    from torch import Tensor


@dataclass(frozen=True, kw_only=True)
class Source:
    """What ``headwater inspect`` shows, and how to read the rest. Making one imports no tensor library."""

    path: Path
    format: str
    """In words: ``Headwater``, ``Hugging Face GPT2LMHeadModel``, ``llama2.c`` …"""
    config: ModelConfig
    entries: tuple[TensorEntry, ...]
    """The tensors as the file lists them, under its own names."""
    read: "Callable[[], dict[str, Tensor]]"
    """All tensors under Headwater's names, numbers unchanged, all in one number format."""
    files: tuple[Path, ...]
    """All that the model and its words are read from, and what would be read instead if it were there: once one of them changes, so may the model."""
    words: Path | None = None
    """The file that holds the tokenizer, where there is one."""
