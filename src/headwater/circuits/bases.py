"""What the rows of a circuit are: the vectors that a head or the unembedding may read.

==================  ===============================================================================================
side                one line for each
==================  ===============================================================================================
tokens              token, as ``W_E`` has it
effective-tokens    token, as block 0's feed-forward layer leaves it: ``x + feed_forward(norm(x))``, attention left out
positions           position, where the model adds positions to the stream or to what queries and keys are made from
stream              entry of the stream that is read, before a pre-norm model normalises it: circuits of the weights alone
biases              constant on the way there: biases of norms, heads and feed-forward layers
==================  ===============================================================================================

At layer 0 tokens, positions and biases are all that there is: what a head reads is their sum. At later layers they are what the skip
route brings; what earlier heads and feed-forward layers make of them comes on top. Effective tokens hold the biases of block 0's feed-forward
layer already, which are also listed among the biases: do not add both.
"""

from collections.abc import Iterator
from dataclasses import dataclass, field, replace
from typing import Literal, TypeAlias

import torch
from jaxtyping import Float
from torch import Tensor

from headwater.circuits.head import Head, key_head
from headwater.circuits.norms import Passage, Scales, Scaling, norms_between, passage
from headwater.errors import InputError, did_you_mean
from headwater.model.components import norm_scale
from headwater.model.config import PostNorm, PreNorm
from headwater.model.forward import Block
from headwater.model.positions import Placed, place
from headwater.model.taps import NOBODY, Look
from headwater.model.weights import Weights

Kind: TypeAlias = Literal["tokens", "effective-tokens", "positions", "stream", "biases"]
KINDS: tuple[Kind, ...] = ("tokens", "effective-tokens", "positions", "stream", "biases")
ROWS_AT_ONCE = 4096
"""Tokens that go through a feed-forward layer together: its neurons are never held for a whole vocabulary."""


@dataclass(frozen=True)
class Side:
    """What the rows or the columns of a circuit are. Biases have names of their own; tokens have those that ``Circuit.called`` gives them."""

    kind: Kind
    names: tuple[str, ...] = ()


@dataclass(frozen=True, eq=False)
class Basis:
    """Contributions to the stream, on their way to one reader."""

    side: Side
    vectors: Float[Tensor, "line d_model"]
    passage: Passage = field(default_factory=Passage)
    own_scales: Float[Tensor, " line"] | None = None
    """What the reader's norm multiplies each line by, where a line is all that the stream holds."""
    given: tuple[str, ...] = ()

    def read_by(self, W: Float[Tensor, "d_model any"]) -> Float[Tensor, "line any"]:
        """``norm(vectors) W``, without the norm's bias."""
        read = self.vectors @ self.passage.pull(W)
        return read if self.own_scales is None else read * self.own_scales[:, None]


@dataclass(frozen=True, eq=False)
class Reader:
    """Who reads the stream, ``"L1.attention"`` or ``"unembed"``, and how far its norms' scales are known."""

    weights: Weights
    place: str
    scales: Scaling = "one"
    reads_marks: bool = False
    """Whether it also reads positions that are added to queries' and keys' input alone."""

    def __post_init__(self) -> None:
        if not isinstance(self.scales, Scales) and self.scales not in ("one", "exact"):
            raise InputError(f"scales={self.scales!r:.40}", '"one", "exact" or measured Scales', "see headwater.circuits.norms")

    @property
    def depth(self) -> int:
        """How many blocks have written before it reads."""
        return self.weights.config.layers if self.place == "unembed" else int(self.place[1:].split(".")[0])

    @property
    def is_placed(self) -> bool:
        """Whether positions are part of the stream."""
        return place(self.weights, 0, 1).in_stream is not None

    def basis(self, kind: Kind) -> Basis:
        """The contributions of one kind, as they come here."""
        match kind:
            case "tokens":
                return self.takes(Side(kind), self.weights.W_E, is_all=self.depth == 0 and not self.is_placed)
            case "effective-tokens":
                return _effective_tokens(self)
            case "positions":
                return _positions(self)
            case "stream":
                return _stream(self)
            case "biases":
                return _biases(self)
            case _:
                raise InputError(f"{kind!r:.40} as a side of a circuit", "what it is made of", did_you_mean(str(kind), KINDS))

    def takes(
        self, side: Side, vectors: Float[Tensor, "line d_model"], *, writer: str = "embed", is_all: bool = False
    ) -> Basis:
        """Contributions that ``writer`` wrote; ``is_all`` where each line is all that the stream holds."""
        norm = self.weights.config.norm
        if is_all and isinstance(norm, PreNorm):
            # The scale is the line's own, so none has to be given.
            way = replace(passage(self.weights, writer, self.place, "one"), given=())
            return Basis(side, vectors, way, norm_scale(norm.norm, vectors))
        way = passage(self.weights, writer, self.place, self.scales)
        return Basis(side, vectors, way, given=way.given)


def _effective_tokens(reader: Reader) -> Basis:
    config, W_E = reader.weights.config, reader.weights.W_E
    if config.feed_forward is None or reader.depth == 0:
        where = "a model without feed-forward layers" if config.feed_forward is None else "layer 0"
        raise InputError(f"effective tokens in {where}", "a reader behind block 0's feed-forward layer", "use tokens")
    block = Block(config, reader.weights.blocks[0], Placed(), Look(NOBODY))
    is_post = isinstance(config.norm, PostNorm)

    def through(x: Float[Tensor, "batch pos d_model"]) -> Float[Tensor, "batch pos d_model"]:
        if is_post:
            x = block.norm_1(x)
            return block.norm_2(x + block.feed_forward(x))
        return x + block.feed_forward(block.norm_2(x))

    starts = range(0, len(W_E), ROWS_AT_ONCE)
    vectors = torch.cat([through(W_E[None, start : start + ROWS_AT_ONCE])[0] for start in starts])
    writer = "L0.norm_2" if is_post else "L0.feed_forward"
    found = reader.takes(Side("effective-tokens"), vectors, writer=writer, is_all=reader.depth == 1)
    left_out = ["block 0's attention left out"] + ["positions left out"] * reader.is_placed
    return replace(found, given=(*left_out, *found.given))


def _positions(reader: Reader) -> Basis:
    marks, side = place(reader.weights, 0, reader.weights.config.context), Side("positions")
    if marks.in_stream is not None:
        return reader.takes(side, marks.in_stream)
    if marks.in_queries_and_keys is not None and reader.reads_marks:
        return Basis(side, marks.in_queries_and_keys)
    if marks.in_queries_and_keys is not None:
        raise InputError("positions that only queries and keys read", "a circuit of scores", "ask qk for them")
    if marks.turn is not None:
        raise InputError("rotary positions, which turn queries and keys", "positions that are vectors", "ask qk at an offset")
    raise InputError("positions of a model without any", "positions that are vectors", "use tokens")


def _stream(reader: Reader) -> Basis:
    """The stream right before its reader: a post-norm model's is normalised already."""
    W_E, is_post = reader.weights.W_E, isinstance(reader.weights.config.norm, PostNorm)
    eye = torch.eye(W_E.shape[1]).to(W_E)
    return Basis(Side("stream"), eye) if is_post else reader.takes(Side("stream"), eye)


def _biases(reader: Reader) -> Basis:
    """Constants on the skip route. One that a nonlinearity or a later head has read is not among them."""
    weights, lines = reader.weights, list[tuple[str, Tensor, tuple[str, ...]]]()
    for name, writer, vector in _constants(reader):
        way = passage(weights, writer, reader.place, reader.scales)
        lines.append((name, way.push(vector[None]), way.given))
    if isinstance(weights.config.norm, PreNorm):
        site = norms_between(weights.config, "embed", reader.place)[0]
        own = weights.norm(site.removesuffix(".scale")).bias
        lines += [] if own is None else [(site.replace("scale", "bias"), own[None], ())]
    vectors = torch.cat([weights.W_E[:0], *(line for _, line, _ in lines)])
    given = dict.fromkeys(label for _, _, labels in lines for label in labels)
    return Basis(Side("biases", tuple(name for name, _, _ in lines)), vectors, given=tuple(given))


def _constants(reader: Reader) -> Iterator[tuple[str, str, Float[Tensor, " d_model"]]]:
    """What the blocks before a reader write whatever they read: name, writer, vector."""
    is_post = isinstance(reader.weights.config.norm, PostNorm)
    for layer, block in enumerate(reader.weights.blocks[: reader.depth]):
        # Patterns sum to one: a head hands on all of what is the same at every source.
        yield from ((f"L{layer}{name}", f"L{layer}.attention", vector) for name, vector in _values(reader.weights, layer))
        written = [("attention", "b_O", block.attention.b_O), ("norm_1", "norm_1.bias", block.norm_1.bias if is_post else None)]
        if block.feed_forward is not None:
            written += [("feed_forward", "b_out", block.feed_forward.b_out)]
            written += [("norm_2", "norm_2.bias", block.norm_2.bias if is_post else None)]
        for writer, name, vector in written:
            if vector is not None:
                yield f"L{layer}.{name}", f"L{layer}.{writer}", vector


def _values(weights: Weights, layer: int) -> Iterator[tuple[str, Float[Tensor, " d_model"]]]:
    """``b_V W_O`` of every head and, where the norm stands before it, ``bias W_V W_O``."""
    block = weights.blocks[layer]
    attention, bias, is_post = block.attention, block.norm_1.bias, isinstance(weights.config.norm, PostNorm)
    for head, W_O in enumerate(attention.W_O):
        shared = key_head(weights.config, Head(layer, head))
        if attention.b_V is not None:
            yield f"H{head}.b_V", attention.b_V[shared] @ W_O
        if bias is not None and not is_post:
            yield f"H{head}.norm_1.bias", bias @ attention.W_V[shared] @ W_O


def widened(weights: Weights) -> Weights:
    """The same weights in float32 at least: half precision has too few digits to multiply factors in."""
    dtype = torch.promote_types(weights.dtype, torch.float32)
    return weights if dtype == weights.dtype else weights.to(dtype=dtype)
