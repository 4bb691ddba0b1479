"""How much of what one component writes the next one reads.

For a writer with matrix ``A`` (its rows end in the stream) and a reader with matrix ``B`` (its rows begin in the stream)::

    score = ‖A B‖ / (‖A‖ · ‖B‖)          Frobenius norms

Between heads ``a`` and ``b`` of a later layer, with ``W_OV = W_V W_O`` and ``W_QK = W_Q W_Kᵀ``::

    Q   ‖W_OV^a W_QK^b‖  / …             what b looks from
    K   ‖W_OV^a W_QK^bᵀ‖ / …             what b looks for
    V   ‖W_OV^a W_OV^b‖  / …             what b hands on, a first

All matrices are taken as read and as written (``headwater.circuits.ports``): gains and centring of norms belong to them, biases and
rotary positions do not. 1 means that both have one direction and share it, 0 that the writer writes
past the reader. Scores do not change with any invertible change of basis inside a head.

**Chance.** Turn one side by a random rotation and the mean *square* of the score is ``1/dimensions``, whatever the two spectra: ``chance``
is its root (dimensions: d_model, with pre-norm LayerNorm one less). The paper and TransformerLens' users subtract the mean score of random
matrices instead, which is a little below it (Jensen) and depends on the draw.

**Accuracy.** Squares are added up from numbers in the weights' format, so that it is the square that has a fixed error. In float32 at
GPT-2's width scores near chance are off by 1e-8; the score of a writer that writes past a reader comes out as some 1e-4 instead of 0.
A head with a badly conditioned basis costs more (1e-5 at a
condition of a thousand). Give float64 weights for more.
"""

from collections.abc import Sequence
from dataclasses import dataclass
from itertools import pairwise
from typing import Any, Literal

import torch
from jaxtyping import Float
from torch import Tensor

from headwater.circuits.bases import Side
from headwater.circuits.grams import comes_before, squares
from headwater.circuits.head import HeadName, find_head
from headwater.circuits.norms import Scaling, passage
from headwater.circuits.ports import (
    Mode,
    Ports,
    arriving,
    dimensions,
    head_readers,
    head_writers,
    other_readers,
    other_writers,
)
from headwater.circuits.tables import Circuit, ov
from headwater.errors import InputError, did_you_mean
from headwater.model.config import PostNorm
from headwater.model.weights import Weights

MODES: tuple[Mode, ...] = ("Q", "K", "V")


@dataclass(frozen=True)
class Link:
    """A writer and a reader: how much the one reads of the other, and how far that is above chance."""

    writer: str
    reader: str
    score: float
    excess: float

    def plain(self) -> dict[str, Any]:
        """For programs."""
        return {"writer": self.writer, "reader": self.reader, "score": self.score, "excess": self.excess}


@dataclass(frozen=True, eq=False)
class Composition:
    """The scores of all writers with all readers.

    Writers are ``"L0H3"``, ``"embed"``, ``"positions"``, ``"L0.feed_forward"``; readers ``"L1H4.Q"``, ``"L1H4.K"``, ``"L1H4.V"``,
    ``"L1.feed_forward"``, ``"L1.gate"``, ``"unembed"``.
    """

    writers: tuple[str, ...]
    readers: tuple[str, ...]
    scores: Float[Tensor, "writer reader"]
    """float64; nan where the writer does not come before the reader, or where one of the two is zero."""
    chance: float

    def __repr__(self) -> str:
        return f"Composition({len(self.writers):,} writers × {len(self.readers):,} readers, chance {self.chance:.4f})"

    @property
    def excess(self) -> Float[Tensor, "writer reader"]:
        """Scores minus chance."""
        return self.scores - self.chance

    def of(self, mode: Mode) -> Float[Tensor, "writer head"]:
        """The scores of one mode: a row for each writer, a column for each head."""
        _checked([mode])
        chosen = [number for number, reader in enumerate(self.readers) if reader.endswith(f".{mode}")]
        return self.scores[:, chosen]

    def between(self, writer: str, reader: str) -> float:
        """One score."""
        return float(self.scores[_find(writer, self.writers), _find(reader, self.readers)])

    def strongest(self, name: str, count: int = 5) -> tuple[Link, ...]:
        """The links of one component by falling score, whether it writes or reads; ``"L1H4.K"`` asks for one way of reading."""
        writing = [writer == name for writer in self.writers]
        reading = [name in (reader, _component(reader)) for reader in self.readers]
        if not any(writing) and not any(reading):
            raise InputError(
                f"{name!r:.40} in a composition", "a component", did_you_mean(name, (*self.writers, *self.readers))
            )
        mine = torch.tensor(writing)[:, None] | torch.tensor(reading)
        return self._ranked(mine, count)

    def top(self, count: int = 10) -> tuple[Link, ...]:
        """The strongest links of all."""
        return self._ranked(torch.ones(self.scores.shape, dtype=torch.bool), count)

    def _ranked(self, chosen: Tensor, count: int) -> tuple[Link, ...]:
        scores = self.scores.cpu()
        scores = torch.where(chosen & ~scores.isnan(), scores, -torch.inf).flatten()
        order = scores.argsort(descending=True, stable=True)[: min(count, int((scores >= 0).sum()))]
        return tuple(self._link(int(place)) for place in order)

    def _link(self, place: int) -> Link:
        writer, reader = divmod(place, len(self.readers))
        score = float(self.scores[writer, reader])
        return Link(self.writers[writer], self.readers[reader], score, score - self.chance)

    def plain(self) -> dict[str, Any]:
        """For programs; None where there is no score."""
        scores = [[None if score.isnan() else float(score) for score in row] for row in self.scores.cpu()]
        return {"writers": list(self.writers), "readers": list(self.readers), "chance": self.chance, "scores": scores}


def composition(weights: Weights, modes: Sequence[str] = MODES) -> Composition:
    """Q, K and V composition of all pairs of heads.

    >>> from headwater.model.config import Attention, ModelConfig
    >>> config = ModelConfig(vocab=50, context=16, d_model=16, layers=2, attention=Attention(heads=2, d_head=4))
    >>> found = composition(Weights.draw(config, seed=0))
    >>> found.chance, found.of("K").shape
    (0.25, torch.Size([4, 4]))
    >>> [link.writer for link in found.strongest("L1H0.K")]
    ['L0H0', 'L0H1']
    """
    return _composition(weights, [head_writers(weights)], [head_readers(weights, mode) for mode in _checked(modes)])


def connections(weights: Weights, modes: Sequence[str] = MODES) -> Composition:
    """The same for all that touches the stream: embedding, positions, heads, feed-forward layers, unembedding.

    A head's score with ``embed`` says how much of ``W_E`` it reads by itself, a head's score with ``unembed`` how much of what it
    writes is seen in the logits at once.
    """
    writers = [*other_writers(weights), head_writers(weights)]
    readers = [*(head_readers(weights, mode) for mode in _checked(modes)), *other_readers(weights)]
    return _composition(weights, writers, readers)


def virtual(
    weights: Weights,
    heads: Sequence[HeadName],
    *,
    source: Literal["tokens", "stream"] = "tokens",
    out: Literal["tokens", "stream"] = "tokens",
    scales: Scaling = "one",
) -> Circuit:
    """Heads one after the other as one head: ``W_OV^a W_OV^b …``, the first head first, through the norms on the way.

    It attends with the product of the patterns and hands on this matrix; by default from tokens to logits.

    >>> from headwater.model.config import Attention, ModelConfig
    >>> config = ModelConfig(vocab=50, context=16, d_model=16, layers=2, attention=Attention(heads=2, d_head=4))
    >>> virtual(Weights.draw(config, seed=0), ["L0H1", "L1H0"])
    Circuit(L0H1 → L1H0 OV: tokens 50 → tokens 50, inner 4)
    """
    if out not in ("tokens", "stream"):
        raise InputError(f"{out!r:.40} as what a virtual head writes to", "tokens or stream", "use one of these")
    path = [find_head(head, weights.config) for head in heads]
    if not path or any(one.layer >= other.layer for one, other in pairwise(path)):
        raise InputError(f"a virtual head of {[str(head) for head in path]}", "heads of rising layers", "put them in order")
    first = ov(weights, path[0], source=source, out="stream", scales=scales)
    writer, written, given = f"L{path[0].layer}.attention", first.right, first.given
    for head in path[1:]:
        reader = f"L{head.layer}.attention"
        way = passage(weights, writer, reader, scales)
        attention = weights.blocks[head.layer].attention
        W_V, W_O = attention.W_V[head.head * len(attention.W_V) // weights.config.heads], attention.W_O[head.head]
        written, given, writer = way.push(written) @ W_V.to(written) @ W_O.to(written), (*given, *way.given), reader
    if out == "tokens":
        way = passage(weights, writer, "unembed", scales)
        written, given = way.push(written) @ weights.W_U.to(written), (*given, *way.given)
    name, given = " → ".join(map(str, path)), tuple(dict.fromkeys(given))
    return Circuit(first.left, written, name=f"{name} OV", row_side=first.row_side, column_side=Side(out), given=given)


def _composition(weights: Weights, writers: Sequence[Ports], readers: Sequence[Ports]) -> Composition:
    with torch.no_grad():
        scores = torch.cat([_scores(weights, kind, readers) for kind in writers])
    names = [tuple(name for kind in kinds for name in kind.names) for kinds in (writers, readers)]
    return Composition(names[0], names[1], scores, dimensions(weights) ** -0.5)


def _scores(weights: Weights, writers: Ports, readers: Sequence[Ports]) -> Float[Tensor, "writer reader"]:
    """One kind of writers with all readers."""
    if isinstance(weights.config.norm, PostNorm):
        return torch.cat([_after_norms(weights, writers, kind) for kind in readers], dim=1)
    return torch.cat(_measured(writers, readers), dim=1)


def _after_norms(weights: Weights, writers: Ports, readers: Ports) -> Float[Tensor, "writer reader"]:
    """Norms stand in the stream: what a write is when it arrives depends on where it is read."""
    scores = writers.left.new_full((len(writers.names), len(readers.names)), torch.nan, dtype=torch.float64)
    for stage in dict.fromkeys(readers.stages):
        here = readers.where(lambda read, stage=stage: read == stage)
        arrived = arriving(weights, writers, stage)
        if arrived.names:
            first = readers.stages.index(stage)
            scores[: len(arrived.names), first : first + len(here.names)] = _measured(arrived, [here])[0]
    return scores


def _measured(writers: Ports, readers: Sequence[Ports]) -> list[Float[Tensor, "writer reader"]]:
    own = writers.norms()[:, None]
    return [
        torch.where(comes_before(writers, kind).to(square.device), square.sqrt() / (own * kind.norms()), torch.nan)
        for kind, square in zip(readers, squares(writers, readers), strict=True)
    ]


def _component(reader: str) -> str:
    """Whose reading it is: ``L1H4`` for ``L1H4.K``."""
    name, _, mode = reader.rpartition(".")
    return name if mode in MODES else reader


def _find(name: str, known: tuple[str, ...]) -> int:
    if name not in known:
        raise InputError(f"{name!r:.40} in a composition", "a component", did_you_mean(name, known))
    return known.index(name)


def _checked(modes: Sequence[str]) -> list[Mode]:
    wrong = [mode for mode in modes if mode not in MODES]
    if wrong or not modes:
        raise InputError(f"composition by {', '.join(wrong) or 'nothing'}", "some of Q, K and V", "choose among these")
    return [mode for mode in MODES if mode in modes]
