"""A model together with the words it speaks: what ``headwater.load`` returns."""

from collections.abc import Iterable, Iterator, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Literal, TypeAlias

import torch

from headwater.errors import ConfigError, InputError
from headwater.model import checkpoint, export, generate
from headwater.model.config import ModelConfig
from headwater.model.forward import forward
from headwater.model.record import Record, check_tokens, record
from headwater.model.sources import load_weights, look
from headwater.model.weights import Weights
from headwater.shapes import Logits, Tokens
from headwater.text.tokenizer import Tokenizer, read_tokenizer

Text: TypeAlias = str | Sequence[int]
"""A text, or the ids of its tokens."""

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

    def __post_init__(self) -> None:
        if self.tokenizer is not None and self.tokenizer.size > self.config.vocab:
            raise ConfigError(
                f"a tokenizer of {self.tokenizer.size:,} tokens for a vocabulary of {self.config.vocab:,}",
                "a row of the embedding for every token",
                "use the tokenizer that the model was trained with",
            )

    @property
    def config(self) -> ModelConfig:
        """What the model is made of."""
        return self.weights.config

    def tokens(self, text: Text) -> Tokens:
        """The ids of a text, as a batch of one."""
        ids = self._tokenizer().encode(text) if isinstance(text, str) else list(text)
        tokens = torch.tensor([ids], dtype=torch.long, device=self.weights.device)
        check_tokens(self.config, tokens)
        return tokens

    def logits(self, text: Text) -> Logits:
        """What the model says after each token."""
        with torch.no_grad():
            return forward(self.weights, self.tokens(text))

    def record(self, text: Text, sites: Iterable[str] = ()) -> Record:
        """Run the model on a text and keep what happened; ``sites`` are kept besides the stream and its writes."""
        return record(self.weights, self.tokens(text), sites)

    def generate(self, text: Text, sampling: generate.Sampling | None = None, *, most: int = 50) -> Iterator[int]:
        """Up to ``most`` further tokens, each as soon as it is drawn."""
        prompt = [int(token) for token in self.tokens(text)[0]]
        return generate.generate(self.weights, prompt, sampling or generate.Sampling(), most=most)

    def save(self, folder: str | Path, *, to: Format = "headwater", overwrite: bool = False) -> None:
        """Write the model, with its words, as a Headwater checkpoint or for another library."""
        words = self.tokenizer.to_json() if self.tokenizer else None
        match to:
            case "headwater":
                checkpoint.save(self.weights, Path(folder), tokenizer_json=words, overwrite=overwrite)
            case "hugging-face":
                export.export_hugging_face(self.weights, Path(folder), tokenizer_json=words, overwrite=overwrite)
            case "transformer-lens":
                export.export_transformer_lens(self.weights, Path(folder), tokenizer_json=words, overwrite=overwrite)

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
    the files.
    """
    source = look(path)
    weights = load_weights(source)
    return Model(weights, read_tokenizer(source.words) if source.words else None)
