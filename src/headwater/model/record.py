"""What a forward pass leaves behind when somebody looks."""

from collections.abc import Iterable, Iterator
from dataclasses import dataclass

import torch
from torch import Tensor

from headwater.errors import InputError
from headwater.model.config import ModelConfig
from headwater.model.forward import forward, run_block, unembed
from headwater.model.positions import place
from headwater.model.taps import Recorder, all_sites, canonical
from headwater.model.weights import Weights
from headwater.shapes import Logits, Tokens

KEPT = ("embed", "L*.in", "L*.attention", "L*.feed_forward", "L*.out", "final")
"""What is kept unless told otherwise: the stream and everything that was written to it."""


@dataclass(frozen=True, eq=False)
class Record:
    """The values of one forward pass, by site: ``record["L0.pattern"]``, ``record["L0.t3"]``.

    Sites that were kept are there; any other is made again, by running its block once more on the stream that the block got.
    So a record's memory is linear in the context, and still every site of the model can be asked for.
    """

    weights: Weights
    tokens: Tokens
    logits: Logits
    kept: dict[str, Tensor]

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

    def __getitem__(self, site: str) -> Tensor:
        name = canonical(self.config, site)
        if name == "logits":
            return self.logits
        return self.kept[name] if name in self.kept else self._again(name)

    @torch.no_grad()
    def _again(self, site: str) -> Tensor:
        recorder, place_in_model = Recorder([site]), site.split(".", 1)[0]
        placed = place(self.weights, 0, self.tokens.shape[1])
        if place_in_model == "positions":
            assert placed.in_stream is not None, "listed only where positions are added to the stream"
            return placed.in_stream
        if place_in_model == "final":
            last = f"L{self.config.layers - 1}.out"
            unembed(self.weights, self.kept[last] if last in self.kept else self._stream_without_blocks(), recorder)
        else:
            layer = int(place_in_model.removeprefix("L"))
            run_block(self.weights, layer, self.kept[f"L{layer}.in"], placed, recorder)
        return recorder.kept[site]

    def _stream_without_blocks(self) -> Tensor:
        return self.kept["embed"] + self["positions"] if "positions" in all_sites(self.config) else self.kept["embed"]


@torch.no_grad()
def record(weights: Weights, tokens: Tokens, sites: Iterable[str] = ()) -> Record:
    """Run the model and keep the stream, every write to it, and ``sites`` (names or patterns such as ``"L*.pattern"``).

    >>> from headwater.model.presets import named
    >>> run = record(Weights.draw(named("one-layer"), seed=0), torch.tensor([[1, 2, 3]]))
    >>> run["L0.pattern"].shape, round(float(run["L0.pattern"][0, 0, 0, 0]), 6)
    (torch.Size([1, 8, 3, 3]), 1.0)
    """
    check_tokens(weights.config, tokens)
    names = [canonical(weights.config, site) if "*" not in site else site for site in sites]
    recorder = Recorder([*KEPT, *names])
    logits = forward(weights, tokens, recorder)
    return Record(weights, tokens, logits, recorder.kept)


def check_tokens(config: ModelConfig, tokens: Tokens) -> None:
    """Refuse ids that the model has no row for, and texts of no tokens."""
    if tokens.numel() == 0:
        raise InputError("no tokens", "at least one", "give a text or ids")
    low, high = int(tokens.min()), int(tokens.max())
    if low < 0 or high >= config.vocab:
        wrong = low if low < 0 else high
        raise InputError(f"token id {wrong}", f"ids from 0 to {config.vocab - 1}", "use this model's own tokenizer")
