"""The routes from the embedding to the logits, and what flows along each of them once attention patterns are given.

A layer of heads adds to the stream: ``x + Σ_heads A (x W_V) W_O``. Multiplied out over all layers, the model is a sum of end-to-end
paths, each through at most one head of every layer. A path through ``L0H3`` and then ``L1H4`` gives the logits

    (A² A¹) X  W_E  W_V¹ W_O¹  W_V² W_O²  W_U

with later patterns on the left, since a row of logits stands for a *dest*. Whatever else enters the stream starts paths of its own:

==========  =======================================================================================
origin      what enters
==========  =======================================================================================
embed       the tokens' rows of ``W_E``
positions   what positions add to the stream
b_V         the bias of the first head's values: part of what that head writes, so that it counts as passed
L0.b_O      the bias of what layer 0 writes: enters after that layer's heads
b_U         the bias of the logits
==========  =======================================================================================

Paths pass through heads only. What a feed-forward layer or a norm does is linear only at the gates and scales of a given run, so that
models with norms are refused where matrices are multiplied, and models with feed-forward layers where a sum would claim to be complete.
"""

import re
from collections.abc import Iterable, Iterator, Sequence
from dataclasses import dataclass
from functools import reduce
from itertools import combinations, product
from math import comb
from typing import Any

import torch
from einops import einsum, repeat
from jaxtyping import Float
from torch import Tensor

from headwater.circuits.factored import Factored
from headwater.circuits.head import Head, HeadName, every_head, find_head, key_head
from headwater.errors import InputError, did_you_mean
from headwater.model.config import ModelConfig, NoNorm
from headwater.model.positions import place
from headwater.model.record import check_tokens
from headwater.model.taps import all_sites
from headwater.model.weights import Weights
from headwater.shapes import Logits, Pattern, Stream, Tokens

_ORIGIN = re.compile(r"embed|positions|b_V|L(?P<layer>\d{1,6})\.b_O|b_U", re.ASCII)


@dataclass(frozen=True)
class Path:
    """A route to the logits: where it starts, and the heads that it passes through, layer by layer.

    >>> print(Path((Head(0, 3), Head(1, 4))))
    embed → L0H3 → L1H4 → logits
    >>> print(Path())
    embed → logits
    """

    heads: tuple[Head, ...] = ()
    origin: str = "embed"

    def __post_init__(self) -> None:
        for before, after in zip(self.heads, self.heads[1:], strict=False):
            if before.layer >= after.layer:
                raise InputError(f"a path through {before} and then {after}", "heads of rising layers", "put them in order")

    def __str__(self) -> str:
        return " → ".join([self.origin, *map(str, self.heads), "logits"])

    @property
    def order(self) -> int:
        """How many heads it passes through."""
        return len(self.heads)


def find_path(name: Path | str, config: ModelConfig) -> Path:
    """The path of this model that is written so; without an origin it starts at the embedding, without heads it is the direct one.

    >>> from headwater.model.config import Attention
    >>> config = ModelConfig(vocab=50, context=16, d_model=8, layers=2, attention=Attention(heads=5, d_head=4))
    >>> find_path("L0H3 L1H4", config) == find_path("embed → L0H3 → L1H4 → logits", config)
    True
    >>> find_path("direct", config)
    Path(heads=(), origin='embed')
    """
    path = name if isinstance(name, Path) else _parse(name, config)
    if path.origin not in origins(config):
        known = origins(config)
        raise InputError(
            f"a path from {path.origin!r:.40}", "something that enters the stream", did_you_mean(path.origin, known)
        )
    for head in path.heads:
        if find_head(head, config).layer not in _layers(config, path.origin):
            raise InputError(f"a path from {path.origin} through {head}", "heads of later layers", "leave that head out")
    if path.order < _fewest(path.origin):
        raise InputError("a path from b_V through no head", "the head whose value it is", "write b_V L0H3")
    return path


def _parse(text: str, config: ModelConfig) -> Path:
    steps = [step for step in re.split(r"→|->|\s", text) if step]
    if not steps:
        raise InputError("an empty path", "heads, such as L0H3 L1H4", "write direct for the path through none")
    if steps == ["direct"]:
        return Path()
    origin = steps.pop(0) if _ORIGIN.fullmatch(steps[0]) else "embed"
    heads = steps[:-1] if steps[-1:] == ["logits"] else steps
    return Path(tuple(find_head(head, config) for head in heads), origin)


def origins(config: ModelConfig) -> list[str]:
    """Everything that enters the stream of this model or its logits, and so starts paths.

    >>> from headwater.model.config import Attention
    >>> attention = Attention(heads=2, d_head=4, input_bias=True, output_bias=True)
    >>> origins(ModelConfig(vocab=50, context=16, d_model=8, layers=2, attention=attention))
    ['embed', 'b_V', 'L0.b_O', 'L1.b_O']
    """
    attention = config.attention
    found = ["embed"] + ["positions"] * ("positions" in all_sites(config))
    if attention is not None and attention.input_bias:
        found.append("b_V")
    if attention is not None and attention.output_bias:
        found += [f"L{layer}.b_O" for layer in range(config.layers)]
    return found + ["b_U"] * config.unembedding.bias


def _layers(config: ModelConfig, origin: str) -> range:
    """The layers whose heads can still read what enters there."""
    if origin == "b_U":
        return range(0)
    origin_of_layer = _ORIGIN.fullmatch(origin)
    writer = origin_of_layer and origin_of_layer["layer"]
    return range(int(writer) + 1 if writer else 0, config.layers)


def _fewest(origin: str) -> int:
    return 1 if origin == "b_V" else 0


@dataclass(frozen=True)
class _Choice:
    """The paths from one origin through certain heads: which layers are settled, which are free."""

    config: ModelConfig
    origin: str
    through: frozenset[Head]

    @staticmethod
    def of(config: ModelConfig, origin: str, through: Iterable[HeadName]) -> "_Choice":
        if origin not in origins(config):
            given = f"paths from {origin!r:.40}"
            raise InputError(given, "something that enters the stream", did_you_mean(origin, origins(config)))
        return _Choice(config, origin, frozenset(find_head(head, config) for head in through))

    @property
    def free(self) -> list[int]:
        """Layers where any head will do, or none."""
        settled = {head.layer for head in self.through}
        return [layer for layer in _layers(self.config, self.origin) if layer not in settled]

    @property
    def orders(self) -> range:
        """The numbers of heads that such a path can have; none at all where no path passes through all that is asked for."""
        layers = [head.layer for head in self.through]
        possible = len(set(layers)) == len(layers) and set(layers) <= set(_layers(self.config, self.origin))
        fewest = max(len(layers), _fewest(self.origin))
        return range(fewest, len(layers) + len(self.free) + 1) if possible else range(0)


def paths(
    config: ModelConfig, *, origin: str = "embed", order: int | None = None, through: Iterable[HeadName] = ()
) -> Iterator[Path]:
    """The paths of a model's heads, one after the other as they are asked for: the direct one, then those through one head, and so on.

    ``order`` asks for those through so many heads, ``through`` for those that pass through all the heads named.

    >>> from headwater.model.config import Attention
    >>> config = ModelConfig(vocab=50, context=16, d_model=8, layers=2, attention=Attention(heads=2, d_head=4))
    >>> for path in paths(config, through=["L1H0"]):
    ...     print(path)
    embed → L1H0 → logits
    embed → L0H0 → L1H0 → logits
    embed → L0H1 → L1H0 → logits
    """
    choice = _Choice.of(config, origin, through)
    return _enumerate(choice, choice.orders if order is None else [n for n in choice.orders if n == order])


def _enumerate(choice: _Choice, orders: Iterable[int]) -> Iterator[Path]:
    for order in orders:
        for layers in combinations(choice.free, order - len(choice.through)):
            for heads in product(range(choice.config.heads), repeat=len(layers)):
                chosen = map(Head, layers, heads)
                yield Path(tuple(sorted([*chosen, *choice.through])), choice.origin)


@dataclass(frozen=True, kw_only=True)
class Count:
    """How many paths there are. A path of several heads counts for each of its layers and heads, so that only orders add up."""

    by_order: tuple[int, ...]
    """Through no head, through one, and so on: ``binomial(layers, n) · headsⁿ`` where nothing else is asked."""
    by_layer: tuple[int, ...]
    """Those that pass through some head of the layer."""
    by_head: dict[Head, int]
    """Those that pass through the head."""

    @property
    def total(self) -> int:
        """All of them: ``(1 + heads)^layers`` where nothing else is asked."""
        return sum(self.by_order)

    def plain(self) -> dict[str, Any]:
        """As JSON has it."""
        by_head = {str(head): number for head, number in self.by_head.items()}
        return {"total": self.total, "by_order": list(self.by_order), "by_layer": list(self.by_layer), "by_head": by_head}


def count(config: ModelConfig, *, origin: str = "embed", through: Iterable[HeadName] = ()) -> Count:
    """How many paths ``paths`` would list, without listing them.

    >>> from headwater.model.config import Attention
    >>> gpt_2 = ModelConfig(vocab=50257, context=1024, d_model=768, layers=12, attention=Attention(heads=12, d_head=64))
    >>> f"{count(gpt_2).total:,}", count(gpt_2).by_order[:4]
    ('23,298,085,122,481', (1, 144, 9504, 380160))
    """
    choice = _Choice.of(config, origin, through)
    free, settled, heads = choice.free, len(choice.through), config.heads
    by_order = tuple(
        comb(len(free), order - settled) * heads ** (order - settled) if order in choice.orders else 0
        for order in range(config.layers + 1)
    )
    rest = (1 + heads) ** (len(free) - 1) if free and choice.orders else 0

    def passing(head: Head) -> int:
        return sum(by_order) if head in choice.through else rest * (head.layer in free)

    by_head = {head: passing(head) for head in every_head(config)}
    by_layer = tuple(sum(by_head[Head(layer, head)] for head in range(heads)) for layer in range(config.layers))
    return Count(by_order=by_order, by_layer=by_layer, by_head=by_head)


def circuit(weights: Weights, path: Path | str) -> Factored:
    """What a path makes of what enters it: a row of logits for each token, position, or for the one bias that it starts from.

    Under given patterns these rows are mixed from *source* to *dest* and nothing more. The inner dimension is d_head or less as soon
    as there is a head. Norms are refused; what passes through feed-forward layers is on no path.
    """
    _refuse_norms(weights.config)
    entering, chain = _chain(weights, find_path(path, weights.config))
    narrowest = min(range(len(chain)), key=lambda step: chain[step].shape[0])
    return Factored(reduce(torch.matmul, chain[:narrowest], entering), reduce(torch.matmul, chain[narrowest:]))


def contribution(weights: Weights, path: Path | str, patterns: Sequence[Pattern], tokens: Tokens) -> Logits:
    """The part of the logits that came along one path in a run whose patterns, one for each layer, are given.

    >>> from headwater.model.config import Attention
    >>> from headwater.model.record import record
    >>> config = ModelConfig(vocab=50, context=16, d_model=8, layers=1, attention=Attention(heads=2, d_head=4))
    >>> weights, tokens = Weights.draw(config, seed=0, dtype=torch.float64), torch.tensor([[3, 1, 4]])
    >>> run = record(weights, tokens)
    >>> parts = [contribution(weights, path, [run["L0.pattern"]], tokens) for path in paths(config)]
    >>> torch.allclose(sum(parts), run.logits)
    True
    """
    _refuse_norms(weights.config)
    _check_run(weights.config, patterns, tokens)
    path = find_path(path, weights.config)
    entering, chain = _chain(weights, path)
    match path.origin:
        case "embed":
            x = entering[tokens]
        case "positions":
            x = entering[: tokens.shape[1]].expand(*tokens.shape, -1)
        case _:
            x = entering.expand(*tokens.shape, 1)
    for head in path.heads:
        x = patterns[head.layer][:, head.head] @ x
    return reduce(torch.matmul, chain, x)


def by_order(weights: Weights, patterns: Sequence[Pattern], tokens: Tokens) -> Float[Tensor, "order batch pos vocab"]:
    """The logits of a run as a sum over orders: row n holds all paths through n heads, whatever their origin.

    No path is listed: the stream is carried along in parts, one for each number of heads passed, and every layer moves what its heads
    write up by one. The sum over orders is the model's logits, so that feed-forward layers and norms are refused.
    """
    config = weights.config
    _refuse_norms(config)
    if config.feed_forward is not None:
        raise InputError("a model with feed-forward layers", "heads alone, or the gates of a run", "ask for single paths")
    _check_run(config, patterns, tokens)
    placed = place(weights, 0, tokens.shape[1]).in_stream
    start = weights.W_E[tokens] if placed is None else weights.W_E[tokens] + placed
    streams = torch.cat([start[None], start.new_zeros(config.layers, *start.shape)])
    for layer, pattern in enumerate(patterns):
        streams = _passed(weights, layer, streams, pattern)
    logits = streams @ weights.W_U
    return logits if weights.b_U is None else torch.cat([logits[:1] + weights.b_U, logits[1:]])


def _passed(
    weights: Weights, layer: int, streams: Float[Tensor, "order batch pos d_model"], pattern: Pattern
) -> Float[Tensor, "order batch pos d_model"]:
    """The stream's parts after a layer; what its heads write has passed one head more."""
    block, heads = weights.blocks[layer].attention, weights.config.heads
    W_V = repeat(block.W_V, "key_head d_model d_head -> (key_head group) d_model d_head", group=heads // block.W_V.shape[0])
    values = einsum(streams, W_V, "order batch source d_model, head d_model d_head -> order batch head source d_head")
    if block.b_V is not None:
        b_V = repeat(block.b_V, "key_head d_head -> (key_head group) 1 d_head", group=heads // block.b_V.shape[0])
        values = torch.cat([values[:1] + b_V, values[1:]])
    mixed = einsum(pattern, values, "batch head dest source, order batch head source d_head -> order batch head dest d_head")
    writes = einsum(mixed, block.W_O, "order batch head dest d_head, head d_head d_model -> order batch dest d_model")
    unmoved: Stream = streams[0] if block.b_O is None else streams[0] + block.b_O
    return torch.cat([unmoved[None], streams[1:] + writes[:-1]])


def _chain(weights: Weights, path: Path) -> tuple[Float[Tensor, "row first"], list[Tensor]]:
    """What enters the path, and the matrices that it then meets; a bias is a matrix that reads a constant one."""
    steps = [matrix for head in path.heads for matrix in _reads_and_writes(weights, head)] + [weights.W_U]
    one = weights.W_E.new_ones(1, 1)
    match path.origin:
        case "embed":
            return weights.W_E, steps
        case "positions":
            placed = place(weights, 0, weights.config.context).in_stream
            assert placed is not None, "a path from positions was found only where the stream has them"
            return placed, steps
        case "b_V":
            first = path.heads[0]
            bias = weights.blocks[first.layer].attention.b_V
            assert bias is not None, "a path from b_V was found only where there is one"
            return one, [bias[key_head(weights.config, first)][None], *steps[1:]]
        case "b_U":
            assert weights.b_U is not None, "a path from b_U was found only where there is one"
            return one, [weights.b_U[None]]
        case _:
            bias = weights.blocks[_layers(weights.config, path.origin).start - 1].attention.b_O
            assert bias is not None, "a path from b_O was found only where there is one"
            return one, [bias[None], *steps]


def _reads_and_writes(weights: Weights, head: Head) -> tuple[Tensor, Tensor]:
    """``W_V`` and ``W_O`` of a head; heads of a group share the first."""
    block = weights.blocks[head.layer].attention
    return block.W_V[key_head(weights.config, head)], block.W_O[head.head]


def _refuse_norms(config: ModelConfig) -> None:
    if not isinstance(config.norm, NoNorm):
        given = "a model with norms, whose scale differs from one position to the next"
        raise InputError(given, "a stream that is read as it is, or the scales of a run", "choose a model without norms")


def _check_run(config: ModelConfig, patterns: Sequence[Tensor], tokens: Tensor) -> None:
    check_tokens(config, tokens)
    batch, length = tokens.shape
    needed = [(batch, config.heads, length, length)] * config.layers
    if [tuple(pattern.shape) for pattern in patterns] != needed:
        given = f"patterns of the shapes {[list(pattern.shape) for pattern in patterns]!s:.80}"
        do = 'record the run and give run["L0.pattern"] and so on'
        raise InputError(given, f"{config.layers} of shape {[batch, config.heads, length, length]}", do)
