"""What a forward pass leaves behind when somebody looks."""

from collections import OrderedDict
from collections.abc import Iterable, Iterator, Mapping
from contextlib import suppress
from dataclasses import dataclass, field
from functools import cached_property
from itertools import groupby
from typing import Any

import torch
from jaxtyping import Float
from torch import Tensor

from headwater.errors import InputError
from headwater.model.config import ModelConfig
from headwater.model.forward import affine, final_stream, last_norm, run_block
from headwater.model.positions import place
from headwater.model.taps import NOBODY, Chain, Enough, Fetcher, Recorder, Tap, all_sites, canonical, expand, show
from headwater.model.weights import Weights
from headwater.shapes import Logits, Tokens

KEPT = (
    *("embed", "positions", "*.scale"),
    *("L*.in", "L*.mixed", "L*.attention", "L*.feed_forward", "L*.out", "final"),
)
"""What is kept unless told otherwise: the stream, everything that was written to it, and what norms multiplied it by."""
MADE_AGAIN = 128 * 2**20
"""Bytes of sites that were made again and stay at hand for the next who asks."""


@dataclass(frozen=True, eq=False)
class Record(Mapping[str, Tensor]):
    """The values of one forward pass, by site: ``record["L0.pattern"]``, ``record["L0.t3"]``.

    Sites that were kept are there; any other is made again, by running its block once more on the stream that the block got.
    So a record's memory is linear in the context, and still every site of the model can be asked for. Logits are made when somebody asks.
    """

    weights: Weights
    tokens: Tokens
    kept: dict[str, Tensor]
    tap: Tap = NOBODY
    """What intervened, and will again when a site is made anew."""
    made: "OrderedDict[str, Tensor]" = field(default_factory=OrderedDict[str, Tensor], repr=False)
    """Sites that were made again, the latest last."""

    __eq__ = object.__eq__
    __hash__ = object.__hash__  # pyright: ignore[reportAssignmentType]

    def __repr__(self) -> str:
        texts, length = self.tokens.shape
        return f"{type(self).__name__}({texts} × {length} tokens, {self.config.layers} layers, {len(self.kept)} sites kept, {self.size / 1e6:.1f} MB)"

    @property
    def config(self) -> ModelConfig:
        """The model's configuration."""
        return self.weights.config

    @property
    def size(self) -> int:
        """Bytes of what was kept."""
        return sum(tensor.nbytes for tensor in {id(tensor): tensor for tensor in self.kept.values()}.values())

    @cached_property
    def logits(self) -> Logits:
        """What the model says after each token."""
        with torch.no_grad():
            return show(self.tap, "logits", affine(self.kept["final"], self.weights.W_U, self.weights.b_U))

    @torch.no_grad()
    def logits_at(self, position: int) -> Float[Tensor, "batch vocab"]:
        """What the model says after one position; the others' logits are not made for it."""
        if "logits" in self.__dict__ or self.tap.wants("logits"):
            return self.logits[:, position]
        return affine(self.kept["final"][:, position], self.weights.W_U, self.weights.b_U)

    def __iter__(self) -> Iterator[str]:
        return iter(all_sites(self.config))

    def __len__(self) -> int:
        return len(all_sites(self.config))

    def __contains__(self, site: object) -> bool:
        try:
            return isinstance(site, str) and bool(canonical(self.config, site))
        except InputError:
            return False

    def get(self, key: str, default: Any = None) -> Any:
        """The values at a site; ``default`` where this model has none of that name."""
        return self[key] if key in self else default  # noqa: SIM401  (this is that very function)

    def __getitem__(self, site: str) -> Tensor:
        name = canonical(self.config, site)
        if name == "logits":
            return self.logits
        return self.kept[name] if name in self.kept else self.together([name])[name]

    @torch.no_grad()
    def together(self, sites: Iterable[str]) -> dict[str, Tensor]:
        """Some sites, those of one block made again in one go where they were not kept.

        One alone has the bits of the pass. Several may differ in the last one: looking at patterns, say, changes how the rest is computed.
        """
        names = dict.fromkeys(canonical(self.config, site) for site in sites)
        found = {
            name: self.kept[name] if name in self.kept else self.made[name]
            for name in names
            if name in self.kept or name in self.made
        }
        if "logits" in names:
            found["logits"] = self.logits
        for part, missing in groupby(sorted(name for name in names if name not in found), key=_part):
            fetcher = Fetcher(missing)
            # Who looks decides which of several equal ways a pass takes: the same ones look again, so that no rounding differs.
            with suppress(Enough):
                self._again(part, Chain(self.tap, Recorder(self.kept), fetcher))
            found |= fetcher.kept
            self._stay(fetcher.kept)
        return found

    def _again(self, part: str, tap: Tap) -> None:
        if part == "final":
            last_norm(self.weights, self._stream_into(self.config.layers), tap)
        else:
            layer = int(part.removeprefix("L"))
            run_block(self.weights, layer, self._stream_into(layer), place(self.weights, 0, self.tokens.shape[1]), tap)

    def _stay(self, sites: dict[str, Tensor]) -> None:
        self.made.update(sites)
        while len(self.made) > 1 and sum(tensor.nbytes for tensor in self.made.values()) > MADE_AGAIN:
            self.made.popitem(last=False)

    def _stream_into(self, layer: int) -> Tensor:
        """The stream that a block, or after the last one the unembedding, is handed."""
        if layer:
            return self.kept[f"L{layer - 1}.out"]
        return self.kept["embed"] + self.kept["positions"] if "positions" in self.kept else self.kept["embed"]


def _part(site: str) -> str:
    """Where a site is made: ``L0``, ``final``."""
    return site.partition(".")[0]


@torch.no_grad()
def record(weights: Weights, tokens: Tokens, sites: Iterable[str] = (), *, tap: Tap = NOBODY, watch: Tap = NOBODY) -> Record:
    """Run the model and keep the stream, every write to it, and ``sites`` (names or patterns such as ``"L*.pattern"``).

    ``tap`` may intervene on the way; it is asked again when a site that was not kept is made anew, so its answer must depend on
    the site and the value alone. ``watch`` looks on this once, changes nothing, and may end the pass by an error of its own.

    >>> from headwater.model.presets import named
    >>> run = record(Weights.draw(named("one-layer"), seed=0), torch.tensor([[1, 2, 3]]))
    >>> run["L0.pattern"].shape, round(float(run["L0.pattern"][0, 0, 0, 0]), 6)
    (torch.Size([1, 8, 3, 3]), 1.0)
    """
    check_tokens(weights.config, tokens)
    recorder = Recorder([*KEPT, *expand(weights.config, sites)])
    watching = Chain(tap, recorder, watch)
    last_norm(weights, final_stream(weights, tokens, watching), watching)
    return Record(weights, tokens, recorder.kept, tap)


def check_finite(record: Record) -> None:
    """Refuse a record in which numbers have become too large: nothing adds up to what is no number."""
    wrong = next((site for site in record if site in record.kept and not bool(record.kept[site].isfinite().all())), None)
    if wrong is None and not _are_logits_finite(record):
        wrong = "logits"
    if wrong is not None:
        raise InputError(f"a run with NaN or infinity in {wrong}", "finite numbers", "check the model: its numbers overflow")


def _are_logits_finite(record: Record) -> bool:
    """They are made only where they may be too large: none is above ``d_model · max |x| · max |W_U| + max |b_U|``."""
    read, W_U, b_U = record.kept["final"], record.weights.W_U, record.weights.b_U
    largest = record.config.d_model * _largest(read) * _largest(W_U) + (0.0 if b_U is None else _largest(b_U))
    if largest < torch.finfo(W_U.dtype).max / 2:
        return True
    return all(bool(record.logits_at(position).isfinite().all()) for position in range(record.tokens.shape[1]))


def _largest(values: Tensor) -> float:
    lowest, highest = values.aminmax()
    return max(abs(float(lowest)), abs(float(highest)))


def check_tokens(config: ModelConfig, tokens: Tensor) -> None:
    """Refuse what is no batch of texts, and ids that the model has no row for."""
    if tokens.ndim != 2 or tokens.dtype not in (torch.int64, torch.int32):
        given = f"tokens of shape {list(tokens.shape)} in {str(tokens.dtype)[6:]}"
        do = "for one text, give tokens[None]" if tokens.ndim == 1 else "give int64: a row of ids for each text"
        raise InputError(given, "whole numbers (int64 or int32) of shape [batch, pos]", do)
    if tokens.numel() == 0:
        raise InputError("no tokens", "at least one", "give a text or ids")
    low, high = int(tokens.min()), int(tokens.max())
    if low < 0 or high >= config.vocab:
        wrong = low if low < 0 else high
        raise InputError(f"token id {wrong}", f"ids from 0 to {config.vocab - 1}", "use this model's own tokenizer")
