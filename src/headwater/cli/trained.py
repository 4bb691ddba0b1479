"""A trained model, or a whole run, and the text that it is looked at with."""

from collections.abc import Callable, Generator, Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING

from headwater.train.own_text import Wanted, corpus_for

if TYPE_CHECKING:
    from headwater.model.config import ModelConfig
    from headwater.model.weights import Weights
    from headwater.text.corpus import Corpus


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


@contextmanager
def opened(
    model: Path, text: list[str] | None, corpus: Path | None, progress: Callable[[str, float], None]
) -> Generator[Trained]:
    """A run with its snapshots, or a model alone, and a text to look at it with."""
    from headwater.train.folder import RunFolder

    places = RunFolder(model).snapshots() or [(0, model)]
    with corpus_for(model, Wanted(text, corpus, held_out=0.0), progress) as there:
        yield Trained(places, there)
