"""What claims are measured on: the reference models or a given one, their text, models drawn for the purpose, and small runs that
several checks share.
"""

import shutil
import tempfile
import weakref
from collections.abc import Callable
from functools import cached_property
from pathlib import Path
from types import TracebackType
from typing import Any, Literal, TypeAlias, TypeVar, cast

import torch
from jaxtyping import Float
from torch import Tensor

from headwater.api import Model, load
from headwater.errors import InputError
from headwater.model.config import Attention, ModelConfig, NoNorm
from headwater.model.layout import tensor_shapes
from headwater.model.weights import Weights
from headwater.shapes import Tokens
from headwater.text.corpus import Corpus, build_corpus
from headwater.text.sources import StandardLibrary
from headwater.text.tokenizer import Tokenizer
from headwater.train.evaluate import window_starts

Family: TypeAlias = Literal["zero-layer", "one-layer", "two-layer", "block"]
Value = TypeVar("Value")
SMALL = ModelConfig(vocab=17, context=16, d_model=12, layers=1, attention=Attention(heads=3, d_head=4))
"""What identities are tried on: small enough to write out every matrix, and no two sizes equal."""

LONGEST = 256
"""Tokens of a window, where a model can take more: as many as the reference models can."""


class Given:
    """The models by family, float64 throughout; one of them may be somebody's own.

    ``called`` is what that one is called in findings, where it is not the path that it is read from. What is made once is kept: a corpus, a training, a table. Everything is drawn from fixed seeds.

    >>> with Given() as given:
    ...     given.drawn().logits([1, 2, 3]).shape
    torch.Size([1, 3, 17])
    """

    def __init__(self, own: str | None = None, *, called: str | None = None) -> None:
        called = own if called is None else called
        self._own: tuple[Family, str] | None = None
        self._kept: dict[str, Any] = {}
        if own is not None and called is not None:
            model = load(own)
            self._own = family_of(model.config), called
            if model.tokenizer is None:
                raise InputError(f"{called} has no tokenizer", "a model that reads text", "put its tokenizer.json beside it")
            if model.config.context < 2:
                raise InputError(f"{called} has a context of 1", "a model that reads two tokens at least", "use another model")
            self._kept[self._own[0]] = Model(model.weights.to(dtype=torch.float64), model.tokenizer)

    def __enter__(self) -> "Given":
        return self

    def __exit__(self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None) -> None:
        self._kept.clear()
        if "_folder" in vars(self):
            shutil.rmtree(self._folder, ignore_errors=True)

    @cached_property
    def _folder(self) -> Path:
        folder = Path(tempfile.mkdtemp(prefix="headwater-claims-"))
        # It goes with what it belongs to: a studio keeps that for as long as it is there, and nobody closes it.
        weakref.finalize(self, shutil.rmtree, folder, ignore_errors=True)
        return folder

    def once(self, name: str, make: Callable[[], Value]) -> Value:
        """What ``make`` makes, made the first time that anybody asks under this name."""
        if name not in self._kept:
            self._kept[name] = make()
        return cast(Value, self._kept[name])

    def listen(self) -> None:
        """Called now and then while something is made that takes long: whoever looks after it may end it here by an error."""

    def model(self, family: Family) -> Model:
        """The trained model of a family: the given one where it belongs there, or the one that comes with Headwater."""
        return self.once(family, lambda: _in_double(load(family)))

    def name(self, family: Family) -> str:
        """What that model is called, for a finding's ``on``."""
        return self._own[1] if self._own and self._own[0] == family else family

    @property
    def has_own(self) -> bool:
        """Whether one of the models is somebody's own."""
        return self._own is not None

    def is_own(self, name: str) -> bool:
        """Whether a model of this name is somebody's own."""
        return self._own is not None and self._own[1] == name

    def corpus(self, family: Family) -> Corpus:
        """The text that the reference models were trained on, this Python's standard library, in that model's tokens."""
        words = cast(Tokenizer, self.model(family).tokenizer)
        name = f"corpus {words.to_json()}"

        def make() -> Corpus:
            place = self._folder / f"{len(self._kept)}"
            return build_corpus(StandardLibrary(), words, place, progress=lambda _, __: self.listen())

        return self.once(name, make)

    def unigrams(self, family: Family) -> Float[Tensor, " vocab"]:
        """How often each of the model's tokens is in that text; a vocabulary may hold tokens that no text has."""
        counted, vocab = torch.from_numpy(self.corpus(family).unigrams.astype("float64")), self.model(family).config.vocab
        return torch.cat([counted, counted.new_zeros(vocab - len(counted))])

    def windows(self, family: Family, count: int = 16, *, length: int | None = None) -> Tokens:
        """``count`` windows at even distances over held-out text, each with the token after it: ``[count, length + 1]``.

        Without a length they are as long as the model can take, and ``LONGEST`` at the most.
        """
        ids, context = self.corpus(family).held_out, self.model(family).config.context
        size = min(length or LONGEST, context)
        starts = window_starts(len(ids) - size, size, count * size)
        return torch.stack([torch.from_numpy(ids[start : start + size + 1].astype("int64")) for start in starts.tolist()])

    @staticmethod
    def drawn(config: ModelConfig = SMALL, seed: int = 0) -> Model:
        """A model whose every number is drawn, biases and gains too, so that no term is nothing by accident."""
        generator = torch.Generator().manual_seed(seed)
        tensors = {
            name: torch.randn(shape, generator=generator, dtype=torch.float64) * _spread(name, shape)
            for name, shape in tensor_shapes(config).items()
        }
        return Model(Weights.assemble(config, tensors))

    @staticmethod
    def ids(config: ModelConfig = SMALL, seed: int = 0, *, length: int = 9, batch: int = 1) -> Tokens:
        """Tokens drawn at random."""
        return torch.randint(config.vocab, (batch, length), generator=torch.Generator().manual_seed(seed))


def _spread(name: str, shape: tuple[int, ...]) -> float:
    """Matrices are divided by √fan-in, so that scores stay within reach of a softmax."""
    return shape[-2] ** -0.5 if len(shape) > 1 and not name.endswith(("W_E", "W_pos")) else 1.0


def _in_double(model: Model) -> Model:
    return Model(model.weights.to(dtype=torch.float64), model.tokenizer)


def family_of(config: ModelConfig) -> Family:
    """Which claims a model can be asked about."""
    plain = isinstance(config.norm, NoNorm) and config.feed_forward is None
    if plain and config.layers <= 1:
        return "zero-layer" if config.layers == 0 else "one-layer"
    if plain:
        return "two-layer"
    if config.feed_forward is not None and not isinstance(config.norm, NoNorm):
        return "block"
    raise InputError(
        "a model of no family that the documents speak of",
        "attention only without norms, or blocks with norms and feed-forward layers",
        "leave --model out to see the reference models",
    )
