"""Which component moves information between positions.

One token of a text is replaced, and the model runs on both texts. Every component is then taken by itself: it gets its input of the first run, and the
same with only the one position changed to that of the second. Where its output differs at another position, it mixes positions. Attention does; norms,
feed-forward layers and the unembedding do not, and the difference is exactly zero, not merely small: they compute every position alone.

Beside it stands how far the same values differ between the two runs themselves. There a feed-forward layer's output changes at later positions, too:
its function is applied to each position alone, but what it reads already holds context.
"""

from collections.abc import Callable
from dataclasses import dataclass
from typing import Any, TypeAlias

import torch
from torch import Tensor

from headwater.errors import InputError
from headwater.model.config import ModelConfig, NoNorm, PostNorm, PreNorm
from headwater.model.forward import Block, affine, last_norm
from headwater.model.positions import place
from headwater.model.record import Record, record
from headwater.model.taps import NOBODY, Look
from headwater.model.weights import Weights
from headwater.shapes import Stream, Tokens, floats
from headwater.show.html import fragment
from headwater.show.text import written
from headwater.show.values import Table
from headwater.trace.question import within

Component: TypeAlias = Callable[[Stream], Tensor]


@dataclass(frozen=True)
class Moved:
    """The largest differences, at the position that was changed, before it and after it; None where there are no such positions."""

    own: float
    earlier: float | None
    later: float | None

    @property
    def mixes(self) -> bool:
        """Whether anything differs at another position at all."""
        return bool(self.earlier or self.later)


@dataclass(frozen=True)
class Local:
    """One component."""

    name: str
    """``L0.attention``, ``L0.norm_1``."""
    alone: Moved
    """Its output, when its input differs at the one position only."""
    in_run: Moved
    """Its output in the two runs."""


@dataclass(frozen=True, kw_only=True)
class Locality:
    """Every component of a model, when the token at ``position`` was replaced."""

    position: int
    token: int
    instead: int
    components: tuple[Local, ...]

    @property
    def mixing(self) -> tuple[str, ...]:
        """Those that mix positions."""
        return tuple(one.name for one in self.components if one.alone.mixes)

    def tables(self) -> tuple[Table, ...]:
        """For people: the largest change of any entry."""
        rows = tuple(
            (one.name, *_shown(one.alone), "yes" if one.alone.mixes else "no", *_shown(one.in_run)) for one in self.components
        )
        title = f"largest change where the token at position {self.position} is another: each component alone, and in the whole model"
        columns = (
            "component",
            "alone\nthere#",
            "\nearlier#",
            "\nlater#",
            "mixes\npositions",
            "in the run\nthere#",
            "\nearlier#",
            "\nlater#",
        )
        return (Table(title=title, columns=columns, rows=rows),)

    def remark(self) -> str:
        """In a line.

        >>> Locality(position=0, token=1, instead=2, components=(Local("L0.attention", Moved(1.0, None, 0.5), Moved(1.0, None, 0.5)),)).remark()
        'only attention moves information between positions: L0.attention; all others change exactly nothing elsewhere'
        """
        if not self.mixing:
            return "no component moves information between positions here: elsewhere exactly nothing changes"
        kinds = {name.rpartition(".")[2] for name in self.mixing}
        which = "only attention moves" if kinds == {"attention"} else f"{' and '.join(sorted(kinds))} move"
        return f"{which} information between positions: {', '.join(self.mixing)}; all others change exactly nothing elsewhere"

    def __str__(self) -> str:
        return f"{written(*self.tables())}\n{self.remark()}"

    def _repr_html_(self) -> str:
        return fragment(*self.tables(), remarks=(self.remark(),))

    def plain(self) -> dict[str, Any]:
        """For programs."""
        rows = [
            {"component": one.name, "mixes": one.alone.mixes, "alone": vars(one.alone), "in_run": vars(one.in_run)}
            for one in self.components
        ]
        return {"position": self.position, "id": self.token, "instead_id": self.instead, "components": rows}


def _shown(moved: Moved) -> tuple[str, ...]:
    return tuple(
        "" if change is None else "0" if change == 0 else f"{change:.3g}" for change in (moved.own, moved.earlier, moved.later)
    )


@torch.no_grad()
def locality(weights: Weights, tokens: Tokens, position: int = 0, *, instead: int | None = None) -> Locality:
    """Replace the token at ``position`` by ``instead`` (by default the one with the next id), and see what changes where.

    >>> from headwater.model.presets import named
    >>> locality(Weights.draw(named("one-layer"), seed=0), torch.tensor([[1, 2, 3]]), 1).mixing
    ('L0.attention',)
    """
    texts, length = tokens.shape
    if texts != 1:
        raise InputError(f"{texts} texts", "one", "take them one by one")
    at, vocab = within(position, length, "position"), weights.config.vocab
    token = int(tokens[0, at])
    other = (token + 1) % vocab if instead is None else instead
    if other == token or not 0 <= other < vocab:
        raise InputError(f"token id {other} instead of {token}", f"another id from 0 to {vocab - 1}", "choose another")
    changed = tokens.clone()
    changed[0, at] = other
    runs = record(weights, tokens), record(weights, changed)
    found = [_local(name, reads, makes, component, runs, at) for name, reads, makes, component in _components(weights, length)]
    embedding = change(runs[0]["embed"], runs[1]["embed"], at)
    return Locality(position=at, token=token, instead=other, components=(Local("embed", embedding, embedding), *found))


def alone(component: Component, first: Stream, second: Stream, position: int) -> Moved:
    """What a component makes of an input, and of the same with one position changed to that of another."""
    mixed = first.clone()
    mixed[:, position] = second[:, position]
    return change(component(first), component(mixed), position)


def change(first: Tensor, second: Tensor, position: int) -> Moved:
    """The largest difference at a position, before it and after it."""
    off = floats((first - second).abs().flatten(2).amax(dim=(0, 2)))
    return Moved(off[position], max(off[:position], default=None), max(off[position + 1 :], default=None))


def _local(name: str, reads: str, makes: str, component: Component, runs: tuple[Record, Record], at: int) -> Local:
    one, other = runs
    return Local(name, alone(component, one[reads], other[reads], at), change(one[makes], other[makes], at))


def _components(weights: Weights, length: int) -> list[tuple[str, str, str, Component]]:
    """Name, the site that it reads, the site that it makes, and the function."""
    config, placed = weights.config, place(weights, 0, length)
    found: list[tuple[str, str, str, Component]] = []
    for layer in range(config.layers):
        block, at = Block(config, weights.blocks[layer], placed, Look(NOBODY)), f"L{layer}."
        parts = {"attention": block.attend, "feed_forward": block.feed_forward, "norm_1": block.norm_1, "norm_2": block.norm_2}
        found += [(at + name, at + reads, at + makes, parts[name]) for name, reads, makes in _course(config)]
    if isinstance(config.norm, PreNorm):
        end = f"L{config.layers - 1}.out" if config.layers else "embed"
        # Without blocks, positions are added to what the last norm reads and nowhere else.
        marks = placed.in_stream if placed.in_stream is not None and not config.layers else 0
        found.append(("final", end, "final", lambda x: last_norm(weights, x + marks)))
    return [*found, ("unembedding", "final", "logits", lambda x: affine(x, weights.W_U, weights.b_U))]


def _course(config: ModelConfig) -> list[tuple[str, str, str]]:
    """The components of a block in order, with what they read and make."""
    feeds, is_post = config.feed_forward is not None, isinstance(config.norm, PostNorm)
    attention = ("attention", "attention_input", "attention")
    feeding = [("feed_forward", "feed_forward_input", "feed_forward")] * feeds
    if isinstance(config.norm, NoNorm):
        return [attention, *feeding]
    if is_post:
        second = [("norm_2", "sum", "out")] * feeds
        return [attention, ("norm_1", "middle", "feed_forward_input" if feeds else "out"), *feeding, *second]
    read = "in" if config.feed_forward and config.feed_forward.reads == "beside-attention" else "middle"
    return [("norm_1", "in", "attention_input"), attention, *[("norm_2", read, "feed_forward_input")] * feeds, *feeding]
