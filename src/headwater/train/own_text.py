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

HELD_OUT = 0.05
"""The share of a text that is held out where nobody says otherwise."""


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


@dataclass(frozen=True)
class OwnText:
    """A model's own text: where it comes from, the share of it that is held out, and where it lies if it is still there in tokens."""

    source: "TextSource"
    held_out: float
    built: Path | None


@contextmanager
def corpus_for(model: Path, wanted: Wanted, progress: Callable[[str, float], None]) -> "Generator[Corpus]":
    """The text that is wanted, in the model's tokens; what has to be encoded is gone afterwards.

    A model's own text is what its recipe was trained on, split in the same way. Without a recipe, it is Python's standard library.
    """
    from headwater.text.corpus import build_corpus, open_corpus

    if wanted.text is not None and wanted.corpus is not None:
        raise InputError("both a text and a corpus", "one of them", "give --text FILE or --corpus DIR")
    chosen = own_text(model) if wanted.text is None else OwnText(text_source(wanted.text), wanted.held_out, None)
    tokenizer, vocab = _tokenizer(model)
    if (built := wanted.corpus or chosen.built) is not None:
        there = open_corpus(built)
        check_words(there.tokenizer, tokenizer, vocab, f"{built}")
        yield there
        return
    if tokenizer is None:
        raise InputError("a text for a model without a tokenizer", "a tokenizer.json beside the model", "give --corpus DIR")
    with tempfile.TemporaryDirectory(prefix="headwater-") as temporary:

        def tell(done: int, total: int | None) -> None:
            progress("reading", done / total if total else 0.0)

        yield build_corpus(chosen.source, tokenizer, Path(temporary) / "corpus", held_out=chosen.held_out, progress=tell)


def check_words(theirs: "Tokenizer", ours: "Tokenizer | None", vocab: int, place: str) -> None:
    """Ids mean the same to both: the same tokenizer, or, for a model that has none, as many tokens as it has at the most."""
    if ours is None and theirs.size <= vocab:
        return
    if theirs != ours:
        raise InputError(f"{place} was made with another tokenizer", "the model's own", "build or train it again with that one")


def own_text(model: Path) -> OwnText:
    """What a model's recipe was trained on; Python's standard library where there is no recipe."""
    from headwater.model.reference import reference_models
    from headwater.text.sources import Built, StandardLibrary
    from headwater.train.folder import RunFolder
    from headwater.train.recipe import read_recipe

    run = RunFolder(model if model.exists() else reference_models().get(str(model), model))
    if not run.recipe.exists():
        return OwnText(StandardLibrary(), HELD_OUT, None)
    text = read_recipe(run.recipe).text
    built = Path(text.source.folder) if isinstance(text.source, Built) else None
    return OwnText(text.source, text.held_out, run.corpus if run.corpus.is_dir() else built)


def _tokenizer(model: Path) -> "tuple[Tokenizer | None, int]":
    """A model's words, if it has any, and the size of its vocabulary."""
    from headwater.model.sources import look
    from headwater.text.tokenizer import read_tokenizer

    source = look(model)
    return read_tokenizer(source.words) if source.words else None, source.config.vocab
