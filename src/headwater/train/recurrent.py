"""A recurrent network (LSTM) as a baseline: its sizes, the module that is trained, its files, and the predictor around it."""

import hashlib
import json
from collections.abc import Mapping
from dataclasses import dataclass
from math import prod
from pathlib import Path
from typing import Any

import torch
from jaxtyping import Float, Int
from torch import Tensor, nn
from torch.nn.functional import embedding

from headwater.errors import ConfigError, InputError, ModelFileError
from headwater.files.atomic import new_folder, write_file
from headwater.files.plain import read_json
from headwater.files.safetensors import read_header, read_tensors, write_tensors
from headwater.model.config import ModelConfig, Unembedding
from headwater.model.layout import Shape, check_names_and_shapes, parameter_count
from headwater.settings import from_plain, setting, to_plain
from headwater.shapes import Stream
from headwater.text.tokenizer import Tokenizer, read_tokenizer
from headwater.train.loss import cross_entropy, nats

FORMAT = "headwater-recurrent/1"
TENSORS, WORDS, CONFIG = "model.safetensors", "tokenizer.json", "config.json"
MOST = 2**24


@setting
class RecurrentConfig:
    """An embedding, ``layers`` LSTMs of width ``d_model`` one upon the other, and an unembedding."""

    vocab: int
    context: int
    """How many tokens it is trained on at a time; it could read on for ever."""
    d_model: int
    layers: int = 1
    unembedding: Unembedding = Unembedding()

    def __post_init__(self) -> None:
        for name in ("vocab", "context", "d_model", "layers"):
            if not 1 <= getattr(self, name) <= MOST:
                raise ConfigError(f"{name}={getattr(self, name)}", f"a whole number from 1 to {MOST}", f"change {name}")

    def shapes(self) -> dict[str, Shape]:
        """Every tensor. The four gates (input, forget, cell, output) of a layer stand in one, below each other.

        >>> RecurrentConfig(vocab=5, context=4, d_model=2).shapes()
        {'W_E': (5, 2), 'lstm.weight_ih_l0': (8, 2), 'lstm.weight_hh_l0': (8, 2), 'lstm.bias_ih_l0': (8,), 'lstm.bias_hh_l0': (8,), 'W_U': (2, 5)}
        """
        shapes: dict[str, Shape] = {"W_E": (self.vocab, self.d_model)}
        for layer in range(self.layers):
            shapes |= {f"lstm.weight_{of}_l{layer}": (4 * self.d_model, self.d_model) for of in ("ih", "hh")}
            shapes |= {f"lstm.bias_{of}_l{layer}": (4 * self.d_model,) for of in ("ih", "hh")}
        if not self.unembedding.tied:
            shapes["W_U"] = (self.d_model, self.vocab)
        if self.unembedding.bias:
            shapes["b_U"] = (self.vocab,)
        return shapes

    @property
    def parameters(self) -> int:
        """How many numbers it learns."""
        return sum(map(prod, self.shapes().values()))


def equal_in_size(config: ModelConfig, *, layers: int = 1) -> RecurrentConfig:
    """The network whose parameters are as many as a transformer's, as nearly as a width allows.

    >>> from headwater.model.presets import named
    >>> one_layer = named("one-layer")
    >>> equal_in_size(one_layer).d_model, parameter_count(one_layer), equal_in_size(one_layer).parameters
    (234, 2359296, 2356848)
    """
    wanted = parameter_count(config)

    def of_width(d_model: int) -> RecurrentConfig:
        return RecurrentConfig(
            vocab=config.vocab, context=config.context, d_model=d_model, layers=layers, unembedding=config.unembedding
        )

    low, high = 1, 2
    while of_width(high).parameters < wanted:
        low, high = high, 2 * high
    while high - low > 1:
        middle = (low + high) // 2
        low, high = (middle, high) if of_width(middle).parameters <= wanted else (low, middle)
    return min((of_width(low), of_width(high)), key=lambda network: abs(network.parameters - wanted))


class RecurrentModule(nn.Module):
    """An LSTM that can be trained, and whose answer is its loss.

    >>> module = RecurrentModule(RecurrentConfig(vocab=11, context=4, d_model=3), seed=0)
    >>> loss = module(torch.tensor([[5, 7, 5, 7]]))  # mean nats of predicting 7, 5, 7
    >>> loss.backward()
    """

    def __init__(self, config: RecurrentConfig, *, seed: int = 0) -> None:
        super().__init__()
        self.config = config
        self.W_E = nn.Parameter(torch.empty(config.vocab, config.d_model))
        self.lstm = nn.LSTM(config.d_model, config.d_model, config.layers, batch_first=True)
        if not config.unembedding.tied:
            self.W_U = nn.Parameter(torch.empty(config.d_model, config.vocab))
        if config.unembedding.bias:
            self.b_U = nn.Parameter(torch.empty(config.vocab))
        self._draw(torch.Generator().manual_seed(seed))

    @torch.no_grad()
    def _draw(self, generator: torch.Generator) -> None:
        """Matrices with variance ``1/d_model``; no biases, but that of the forget gate is one, so that memory lasts at first."""
        for name, tensor in self.named_parameters():
            if tensor.ndim > 1:
                tensor.normal_(std=self.config.d_model**-0.5, generator=generator)
            else:
                tensor.zero_()
            if name.startswith("lstm.bias_ih"):
                tensor[self.config.d_model : 2 * self.config.d_model] = 1.0

    def forward(self, windows: Int[Tensor, "batch window"]) -> Float[Tensor, ""]:
        """The mean cross-entropy, in nats, of each token of the windows but the first."""
        return cross_entropy(self.stream(windows[:, :-1]).flatten(0, 1), *self._unembedding(), windows[:, 1:].flatten())

    @torch.no_grad()
    def nats(self, windows: Int[Tensor, "batch pos_plus_1"]) -> Float[Tensor, "batch pos"]:
        """The same for each token by itself."""
        found = nats(self.stream(windows[:, :-1]).flatten(0, 1), *self._unembedding(), windows[:, 1:].flatten())
        return found.reshape(len(windows), -1)

    def stream(self, tokens: Int[Tensor, "batch pos"]) -> Stream:
        """The state of the last layer after each token; it begins at zero with each text."""
        return self.lstm(embedding(tokens, self.W_E))[0]

    def _unembedding(self) -> tuple[Tensor, Tensor | None]:
        unembedding = self.config.unembedding
        return self.W_E.T if unembedding.tied else self.W_U, self.b_U if unembedding.bias else None


@dataclass(frozen=True)
class Recurrent:
    """A trained LSTM as a predictor."""

    module: RecurrentModule
    name: str = "recurrent"

    @property
    def parameters(self) -> int:
        """The numbers in its tensors."""
        return self.module.config.parameters

    def nats(self, windows: Int[Tensor, "batch pos_plus_1"]) -> Float[Tensor, "batch pos"]:
        """From the beginning of each window, whatever its length."""
        vocab = self.module.config.vocab
        low, high = int(windows.min()), int(windows.max())
        if low < 0 or high >= vocab:
            raise InputError(
                f"token ids {low} to {high}", f"ids from 0 to {vocab - 1}", "use the tokenizer that it was trained with"
            )
        return self.module.nats(windows.to(self.module.W_E.device))


@dataclass(frozen=True)
class Subject:
    """An LSTM to be trained by a recipe: how it begins and what it leaves."""

    config: RecurrentConfig
    seed: int
    tokenizer: Tokenizer

    def draw(self) -> nn.Module:
        """With its first parameters."""
        return RecurrentModule(self.config, seed=self.seed)

    def save(self, tensors: Mapping[str, Tensor], folder: Path) -> None:
        """Over whatever an earlier attempt left there."""
        save(self.config, tensors, folder, self.tokenizer)


def save(config: RecurrentConfig, tensors: Mapping[str, Tensor], folder: Path, tokenizer: Tokenizer) -> None:
    """Write a network, whole or not at all, and over one that is there: sizes, tensors, the words it speaks, and hashes of them."""
    with new_folder(folder, overwrite=True, ours=(TENSORS, WORDS, CONFIG)) as temporary:
        write_tensors(temporary / TENSORS, tensors)
        write_file(temporary / WORDS, tokenizer.to_json())
        plain: dict[str, Any] = {
            "format": FORMAT,
            "model": to_plain(config),
            "tensors": hashlib.sha256((temporary / TENSORS).read_bytes()).hexdigest(),
            "words": tokenizer.sha256,
        }
        write_file(temporary / CONFIG, json.dumps(plain | {"sha256": _hash(plain)}, indent=2).encode() + b"\n")


def load(folder: Path) -> tuple[RecurrentModule, Tokenizer]:
    """The network in a folder and the words it speaks; a changed bit anywhere is found."""
    plain = read_json(folder / CONFIG)
    if plain.get("format") != FORMAT:
        raise ModelFileError(
            f"{folder / CONFIG} has the format {plain.get('format')!r:.80}", FORMAT, "give the folder of a recurrent network"
        )
    if plain.pop("sha256", None) != _hash(plain) or set(plain) != {"format", "model", "tensors", "words"}:
        raise ModelFileError(f"{folder / CONFIG} has changed since it was saved", "the file as it was", "restore it")
    config, tokenizer = from_plain(RecurrentConfig, plain["model"], "model"), read_tokenizer(folder / WORDS)
    if tokenizer.sha256 != plain["words"]:
        raise ModelFileError(f"{folder / WORDS} has changed since it was saved", "the file as it was", "restore it")
    shapes = {entry.name: entry.shape for entry in read_header(folder / TENSORS).entries}
    check_names_and_shapes(config.shapes(), shapes)
    module = RecurrentModule(config)
    module.load_state_dict(read_tensors(folder / TENSORS, sha256=plain["tensors"]))
    return module, tokenizer


def _hash(plain: dict[str, Any]) -> str:
    return hashlib.sha256(json.dumps(plain, sort_keys=True, separators=(",", ":")).encode()).hexdigest()
