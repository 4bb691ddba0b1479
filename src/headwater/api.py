"""A model together with the words it speaks: what ``headwater.load`` returns."""

import operator
from collections.abc import Iterable, Iterator, Sequence
from dataclasses import dataclass
from functools import cached_property
from pathlib import Path
from typing import TYPE_CHECKING, Any, Literal, TypeAlias

import torch

from headwater.circuits import tables
from headwater.circuits.all_heads import AllHeads
from headwater.circuits.bases import Kind
from headwater.circuits.head import HeadName
from headwater.circuits.norms import Scaling
from headwater.circuits.overview import Choices, overview
from headwater.circuits.tables import Circuit
from headwater.errors import InputError, ModelFileError, did_you_mean
from headwater.model import checkpoint, export, generate
from headwater.model.config import ModelConfig
from headwater.model.foreign.spellings import MODEL_WORDS
from headwater.model.forward import forward
from headwater.model.record import check_tokens, record
from headwater.model.reorder import Order, reordered
from headwater.model.sources import load_weights, look
from headwater.model.taps import NOBODY, Tap
from headwater.model.weights import Weights
from headwater.shapes import Logits, Tokens
from headwater.text.spoken import Spoken
from headwater.text.tokenizer import Tokenizer, read_tokenizer
from headwater.trace.edits import check_edits
from headwater.trace.places import Place, PlaceName, find_place
from headwater.trace.run import Run

Text: TypeAlias = str | Iterable[Any] | torch.Tensor
"""A text, or the ids of its tokens; a tensor ``[batch, pos]`` holds several texts."""

Format: TypeAlias = Literal["headwater", "hugging-face", "transformer-lens"]


@dataclass(frozen=True)
class Model:
    """Weights, and the tokenizer where there is one.

    >>> from headwater.model.presets import named
    >>> Model(Weights.draw(named("zero-layer"), seed=0)).logits([1, 2]).shape
    torch.Size([1, 2, 4096])
    """

    weights: Weights
    tokenizer: Tokenizer | None = None

    @property
    def config(self) -> ModelConfig:
        """What the model is made of."""
        return self.weights.config

    def tokens(self, text: Text) -> Tokens:
        """The ids of a text, or of a tensor's texts, as a batch on the weights' device."""
        if isinstance(text, torch.Tensor):
            tokens = text[None] if text.ndim == 1 else text
        else:
            tokens = torch.tensor([self._ids(text)], dtype=torch.long)
        check_tokens(self.config, tokens)
        return tokens.to(self.weights.device)

    def _ids(self, text: str | Iterable[Any]) -> list[int]:
        if isinstance(text, str):
            return self._tokenizer().encode(text)
        try:
            ids = [operator.index(token) for token in text]
        except TypeError:
            do = "give a text, or a list of ids; for several texts of one length, a tensor [batch, pos] of ids"
            raise InputError(f"{text!r:.80} as ids", "whole numbers", do) from None
        for token in ids:
            # Before torch sees them: some do not even fit its numbers.
            if not 0 <= token < self.config.vocab:
                raise InputError(
                    f"token id {token}", f"ids from 0 to {self.config.vocab - 1}", "use this model's own tokenizer"
                )
        return ids

    def logits(self, text: Text) -> Logits:
        """What the model says after each token."""
        with torch.no_grad():
            return forward(self.weights, self.tokens(text))

    def record(self, text: Text, sites: Iterable[str] = (), *, tap: Tap = NOBODY) -> Run:
        """Run the model on a text and keep what happened; ``sites`` are kept besides the stream and its writes."""
        check_edits(tap, self.config)
        return Run.of(record(self.weights, self.tokens(text), sites, tap=tap), self.tokenizer)

    def reordered(self, order: Order) -> "Model":
        """The same weights with norms ``pre`` or ``post``; they were trained for the order that they have now. See ``headwater.model.reorder``."""
        return Model(reordered(self.weights, order), self.tokenizer)

    def place(self, name: PlaceName) -> Place:
        """Where an edit is made: ``L1H4``, ``L0.feed_forward``, ``L1N17``, ``L1H4.pattern``, ``embed@3`` or any other site."""
        return find_place(name, self.config)

    @property
    def direct(self) -> Circuit:
        """``W_E W_U``: what each token says about the next by itself."""
        return self._spoken(tables.direct(self.weights))

    def ov(
        self,
        head: HeadName,
        *,
        source: Kind = "tokens",
        out: Literal["tokens", "stream"] = "tokens",
        scales: Scaling = "one",
    ) -> Circuit:
        """What a head says when it looks at ``source``: logits, or what it adds to the stream. See ``headwater.circuits.tables.ov``."""
        return self._spoken(tables.ov(self.weights, head, source=source, out=out, scales=scales))

    def qk(
        self,
        head: HeadName,
        *,
        dest: Kind = "tokens",
        source: Kind = "tokens",
        offset: int | None = None,
        scales: Scaling = "one",
    ) -> Circuit:
        """How much a head at ``dest`` looks for ``source``: scores before the softmax. See ``headwater.circuits.tables.qk``."""
        return self._spoken(tables.qk(self.weights, head, dest=dest, source=source, offset=offset, scales=scales))

    def heads(self, heads: Sequence[HeadName] | None = None, *, examples: int = 3, quick: bool = False) -> AllHeads:
        """What each head copies, matches, composes with, says and looks for, from the weights alone: as ``headwater heads`` tells it.

        ``quick`` leaves out where tokens stand in their own rows, which takes a pass over all entries of each circuit.
        """
        choices = Choices(examples=examples, ranks=not quick)
        told, pairs = overview(self.weights, heads, choices)
        return AllHeads(
            weights=self.weights, heads=tuple(told), composition=pairs, names=Spoken(self.tokenizer), choices=choices
        )

    def generate(
        self, text: Text, sampling: generate.Sampling | None = None, *, most: int = 50, past_end: bool = False
    ) -> Iterator[int]:
        """Up to ``most`` further tokens, each as soon as it is drawn; ends when the model says that the text has ended.

        That is: after a special token of its tokenizer, unless ``past_end`` asks to go on.
        """
        tokens = self.tokens(text)
        if len(tokens) > 1:
            raise InputError(f"{len(tokens)} texts to go on with", "one", "generate from them one by one")
        prompt = [int(token) for token in tokens[0]]
        ends = self.tokenizer.specials if self.tokenizer and not past_end else frozenset[int]()
        return generate.generate(self.weights, prompt, sampling or generate.Sampling(), most=most, ends=ends)

    def save(self, folder: str | Path, *, to: Format = "headwater", overwrite: bool = False) -> None:
        """Write the model, with its words, as a Headwater checkpoint or for another library."""
        words = self.tokenizer.to_json() if self.tokenizer else None
        writers = {
            "headwater": checkpoint.save,
            "hugging-face": export.export_hugging_face,
            "transformer-lens": export.export_transformer_lens,
        }
        if to not in writers:
            raise InputError(f"no format is called {to!r:.80}", f"one of {', '.join(writers)}", did_you_mean(to, writers))
        writers[to](self.weights, Path(folder), tokenizer_json=words, overwrite=overwrite)

    if not TYPE_CHECKING:
        # Hidden from type checkers: to them, whatever can be asked for would be there.
        def __getattr__(self, name: str) -> None:
            there = f"; TransformerLens' {name} is {MODEL_WORDS[name]} here" if name in MODEL_WORDS else ""
            raise AttributeError(f"'Model' object has no attribute {name!r}{there}", name=name, obj=self)

    def _spoken(self, circuit: Circuit) -> Circuit:
        return circuit.called(self._names) if self.tokenizer else circuit

    @cached_property
    def _names(self) -> tuple[str, ...]:
        """Every row of the embedding, as people read it; some models have more rows than their tokenizer has tokens."""
        known = self.tokenizer.size if self.tokenizer else 0
        words = self._tokenizer()
        return tuple(words.display(token) if token < known else f"#{token}" for token in range(self.config.vocab))

    def _tokenizer(self) -> Tokenizer:
        if self.tokenizer is None:
            raise InputError(
                "a text for a model without a tokenizer", "token ids", "give ids, or put a tokenizer.json beside the model"
            )
        return self.tokenizer


def load(path: str | Path) -> Model:
    """The model in a file or folder, whoever wrote it. Loading changes no number.

    Reads Headwater's own checkpoints, Hugging Face folders (GPT-2, GPT-NeoX, Llama and its close kin), TransformerLens state dicts,
    nanoGPT's ``ckpt.pt``, llama2.c's ``.bin`` and GGUF files, without the libraries that wrote them and without running code from
    the files. Half precision is widened to float32 to calculate with, which keeps every number.
    """
    source = look(path)
    words = read_tokenizer(source.words) if source.words else None
    if words is not None and words.size > source.config.vocab:
        given = f"{path}: a tokenizer of {words.size:,} tokens for a vocabulary of {source.config.vocab:,}"
        raise ModelFileError(
            given, "a row of the embedding for every token", "use the tokenizer that the model was trained with"
        )
    weights = load_weights(source)
    half = weights.dtype in (torch.float16, torch.bfloat16)
    return Model(weights.to(dtype=torch.float32) if half else weights, words)
