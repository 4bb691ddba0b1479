"""A trained model, or a whole run, and the text that it is looked at with."""

import tempfile
from collections.abc import Callable, Generator, Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING

from headwater.errors import InputError

if TYPE_CHECKING:
    from headwater.model.config import ModelConfig
    from headwater.model.weights import Weights
    from headwater.text.corpus import Corpus
    from headwater.text.sources import Files, StandardLibrary
    from headwater.text.tokenizer import Tokenizer


@dataclass(frozen=True)
class Trained:
    """Models along a training, by their steps, and a text in their tokens."""

    places: list[tuple[int, Path]]
    corpus: "Corpus"

    @property
    def config(self) -> "ModelConfig":
        """What all of the models are made of."""
        from headwater.model.sources import look

        return look(self.places[-1][1]).config

    def snapshots(self) -> "Iterator[tuple[int, Weights]]":
        """The models, each loaded when it is asked for."""
        from headwater.api import load

        return ((step, load(place).weights) for step, place in self.places)


def text_source(text: list[str] | None) -> "Files | StandardLibrary":
    """Files, or the text that every machine has."""
    from headwater.text.sources import Files, StandardLibrary

    return Files(paths=tuple(text)) if text else StandardLibrary()


@contextmanager
def opened(
    model: Path, text: list[str] | None, corpus: Path | None, progress: Callable[[str, float], None]
) -> Generator[Trained]:
    """A run with its own text unless another one is given, or a model with a text that is encoded for as long as the block lasts."""
    from headwater.text.corpus import build_corpus, open_corpus
    from headwater.train.folder import RunFolder

    run = RunFolder(model)
    places = run.snapshots() or [(0, run.model if run.model.is_dir() else model)]
    if text is not None and corpus is not None:
        raise InputError("both a text and a corpus", "one of them", "give --text FILE or --corpus DIR")
    built = corpus or (run.corpus if run.corpus.is_dir() and text is None else None)
    tokenizer = _tokenizer(places[-1][1])
    if built is not None:
        there = open_corpus(built)
        if tokenizer is not None and tokenizer != there.tokenizer:
            raise InputError(f"{built} was made with another tokenizer", "the model's own", "give --text, or another --corpus")
        yield Trained(places, there)
        return
    if tokenizer is None:
        raise InputError("a text for a model without a tokenizer", "a tokenizer.json beside the model", "give --corpus DIR")
    with tempfile.TemporaryDirectory(prefix="headwater-") as temporary:
        folder = Path(temporary) / "corpus"

        def tell(done: int, total: int | None) -> None:
            progress("reading", done / total if total else 0.0)

        yield Trained(places, build_corpus(text_source(text), tokenizer, folder, held_out=0.0, progress=tell))


def _tokenizer(model: Path) -> "Tokenizer | None":
    from headwater.model.sources import look
    from headwater.text.tokenizer import read_tokenizer

    words = look(model).words
    return read_tokenizer(words) if words else None
