"""What a forward pass leaves behind when somebody looks."""

from collections.abc import Iterable, Iterator, Mapping
from dataclasses import dataclass

import torch
from torch import Tensor

from headwater.errors import InputError
from headwater.model.config import ModelConfig
from headwater.model.forward import forward, run_block, unembed
from headwater.model.positions import place
from headwater.model.taps import NOBODY, Chain, Recorder, Tap, all_sites, canonical, expand
from headwater.model.weights import Weights
from headwater.shapes import Logits, Tokens

KEPT = ("embed", "positions", "L*.in", "L*.attention", "L*.feed_forward", "L*.out", "final")
"""What is kept unless told otherwise: the stream and everything that was written to it."""


@dataclass(frozen=True, eq=False)
class Record(Mapping[str, Tensor]):
    """The values of one forward pass, by site: ``record["L0.pattern"]``, ``record["L0.t3"]``.

    Sites that were kept are there; any other is made again, by running its block once more on the stream that the block got.
    So a record's memory is linear in the context, and still every site of the model can be asked for.
    """

    weights: Weights
    tokens: Tokens
    logits: Logits
    kept: dict[str, Tensor]
    tap: Tap = NOBODY
    """What intervened, and will again when a site is made anew."""

    __eq__ = object.__eq__
    __hash__ = object.__hash__  # pyright: ignore[reportAssignmentType]

    def __repr__(self) -> str:
        texts, length = self.tokens.shape
        size = sum(tensor.nbytes for tensor in self.kept.values()) + self.logits.nbytes
        return (
            f"Record({texts} × {length} tokens, {self.config.layers} layers, {len(self.kept)} sites kept, {size / 1e6:.1f} MB)"
        )

    @property
    def config(self) -> ModelConfig:
        """The model's configuration."""
        return self.weights.config

    def __iter__(self) -> Iterator[str]:
        return iter(all_sites(self.config))

    def __len__(self) -> int:
        return len(all_sites(self.config))

    def __contains__(self, site: object) -> bool:
        try:
            return isinstance(site, str) and bool(canonical(self.config, site))
        except InputError:
            return False

    def __getitem__(self, site: str) -> Tensor:
        name = canonical(self.config, site)
        if name == "logits":
            return self.logits
        return self.kept[name] if name in self.kept else self._again(name)

    @torch.no_grad()
    def _again(self, site: str) -> Tensor:
        recorder = Recorder([site])
        tap, part = Chain(self.tap, recorder), site.split(".", 1)[0]
        if part == "final":
            unembed(self.weights, self._stream_into(self.config.layers), tap)
        else:
            layer = int(part.removeprefix("L"))
            run_block(self.weights, layer, self._stream_into(layer), place(self.weights, 0, self.tokens.shape[1]), tap)
        return recorder.kept[site]

    def _stream_into(self, layer: int) -> Tensor:
        """The stream that a block, or after the last one the unembedding, is handed."""
        if layer:
            return self.kept[f"L{layer - 1}.out"]
        return self.kept["embed"] + self.kept["positions"] if "positions" in self.kept else self.kept["embed"]


@torch.no_grad()
def record(weights: Weights, tokens: Tokens, sites: Iterable[str] = (), *, tap: Tap = NOBODY) -> Record:
    """Run the model and keep the stream, every write to it, and ``sites`` (names or patterns such as ``"L*.pattern"``).

    ``tap`` may intervene on the way; it is asked again when a site that was not kept is made anew, so its answer must depend on
    the site and the value alone.

    >>> from headwater.model.presets import named
    >>> run = record(Weights.draw(named("one-layer"), seed=0), torch.tensor([[1, 2, 3]]))
    >>> run["L0.pattern"].shape, round(float(run["L0.pattern"][0, 0, 0, 0]), 6)
    (torch.Size([1, 8, 3, 3]), 1.0)
    """
    check_tokens(weights.config, tokens)
    recorder = Recorder([*KEPT, *expand(weights.config, sites)])
    logits = forward(weights, tokens, Chain(tap, recorder))
    return Record(weights, tokens, logits, recorder.kept, tap)


def check_tokens(config: ModelConfig, tokens: Tensor) -> None:
    """Refuse what is no batch of texts, and ids that the model has no row for."""
    if tokens.ndim != 2 or tokens.dtype not in (torch.int64, torch.int32):
        given = f"tokens of shape {list(tokens.shape)} in {str(tokens.dtype)[6:]}"
        raise InputError(given, "whole numbers of shape [batch, pos]", "for one text, give tokens[None]")
    if tokens.numel() == 0:
        raise InputError("no tokens", "at least one", "give a text or ids")
    low, high = int(tokens.min()), int(tokens.max())
    if low < 0 or high >= config.vocab:
        wrong = low if low < 0 else high
        raise InputError(f"token id {wrong}", f"ids from 0 to {config.vocab - 1}", "use this model's own tokenizer")
