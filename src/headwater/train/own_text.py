"""The text that a trained model is looked at with: its own, or what somebody gives instead."""

import tempfile
from collections.abc import Callable, Generator
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING

from headwater.errors import InputError

if TYPE_CHECKING:
    from headwater.text.corpus import Corpus
    from headwater.text.sources import Files, StandardLibrary, TextSource
    from headwater.text.tokenizer import Tokenizer


def text_source(text: list[str] | None) -> "Files | StandardLibrary":
    """Files, or the text that every machine has."""
    from headwater.text.sources import Files, StandardLibrary

    return Files(paths=tuple(text)) if text else StandardLibrary()


@dataclass(frozen=True)
class Wanted:
    """Which text a model is looked at with: files, a corpus, or neither, which means its own."""

    text: list[str] | None
    corpus: Path | None
    held_out: float
    """The share of the files that is held out."""


@contextmanager
def corpus_for(model: Path, wanted: Wanted, progress: Callable[[str, float], None]) -> "Generator[Corpus]":
    """The text that is wanted, in the model's tokens; what has to be encoded is gone afterwards.

    A model's own text is what its recipe was trained on, split in the same way. Without a recipe, it is Python's standard library.
    """
    from headwater.text.corpus import build_corpus, open_corpus
    from headwater.text.sources import Built

    if wanted.text is not None and wanted.corpus is not None:
        raise InputError("both a text and a corpus", "one of them", "give --text FILE or --corpus DIR")
    source, share, built = _own_text(model) if wanted.text is None else (text_source(wanted.text), wanted.held_out, None)
    built = wanted.corpus or built or (Path(source.folder) if isinstance(source, Built) else None)
    tokenizer, vocab = _tokenizer(model)
    if built is not None:
        there = open_corpus(built)
        check_words(there.tokenizer, tokenizer, vocab, f"{built}")
        yield there
        return
    if tokenizer is None:
        raise InputError("a text for a model without a tokenizer", "a tokenizer.json beside the model", "give --corpus DIR")
    with tempfile.TemporaryDirectory(prefix="headwater-") as temporary:

        def tell(done: int, total: int | None) -> None:
            progress("reading", done / total if total else 0.0)

        yield build_corpus(source, tokenizer, Path(temporary) / "corpus", held_out=share, progress=tell)


def check_words(theirs: "Tokenizer", ours: "Tokenizer | None", vocab: int, place: str) -> None:
    """Ids mean the same to both: the same tokenizer, or, for a model that has none, as many tokens as it has at the most."""
    if ours is None and theirs.size <= vocab:
        return
    if theirs != ours:
        raise InputError(f"{place} was made with another tokenizer", "the model's own", "build or train it again with that one")


def _own_text(model: Path) -> "tuple[TextSource, float, Path | None]":
    """Where a model's own text comes from, the share of it that is held out, and where it lies if it is still there."""
    from headwater.model.reference import reference_models
    from headwater.text.sources import StandardLibrary
    from headwater.train.folder import RunFolder
    from headwater.train.recipe import read_recipe

    run = RunFolder(model if model.exists() else reference_models().get(str(model), model))
    if not run.recipe.exists():
        return StandardLibrary(), 0.05, None
    recipe = read_recipe(run.recipe)
    return recipe.text.source, recipe.text.held_out, run.corpus if run.corpus.is_dir() else None


def _tokenizer(model: Path) -> "tuple[Tokenizer | None, int]":
    """A model's words, if it has any, and the size of its vocabulary."""
    from headwater.model.sources import look
    from headwater.text.tokenizer import read_tokenizer

    source = look(model)
    return read_tokenizer(source.words) if source.words else None, source.config.vocab
