"""Where heads look in a text: the pattern of one head, plain or weighted by what it carries, and all heads in a few numbers each.

A pattern says how a head shares out its attention, not how much comes of it: what it looks at may be worth next to nothing to it. So the *value-weighted*
pattern multiplies each attention by the length of what the head would write if it looked at that source alone::

    weighted[dest, source] = attention[dest, source] · ‖v_source W_O‖

``v_source`` is the value as the head has it, with ``b_V`` where there is one; ``b_O`` belongs to no head and is no part of it.
By the triangle inequality a row adds up to at least the length of what the head wrote there; it is more where sources cancel.

Nothing here holds the patterns of a whole layer: one head, or some destinations, at a time.
"""

from collections.abc import Callable, Iterator
from dataclasses import dataclass
from typing import Any, Literal, TypeAlias, get_args

import torch
from jaxtyping import Float, Float32, UInt8
from torch import Tensor
from torch.nn.functional import adaptive_max_pool1d, max_pool1d

from headwater.circuits.head import Head, HeadName, every_head, find_head, key_head
from headwater.errors import InputError, did_you_mean
from headwater.model.attention import Rule, scores
from headwater.model.positions import for_each_head
from headwater.shapes import floats
from headwater.trace.frozen import Frozen
from headwater.trace.question import check_one_text
from headwater.trace.sizes import squares

View: TypeAlias = Literal["pattern", "weighted", "scores"]
AT_ONCE = 2**23
"""Attentions of all heads of a layer that are held at one time."""
SIDE = 64
"""Cells on each side of a small picture."""


@torch.no_grad()
def looks(frozen: Frozen, head: HeadName, view: View = "pattern") -> Float[Tensor, "dest source"]:
    """Where one head looks: its attention, that times the length of what it would write, or its scores, −∞ where the mask forbids.

    >>> from headwater.model.presets import named
    >>> from headwater.model.record import record
    >>> from headwater.model.weights import Weights
    >>> run = record(Weights.draw(named("one-layer"), seed=0), torch.tensor([[1, 2, 3]]))
    >>> looks(Frozen(run), "L0H3").sum(dim=1)
    tensor([1., 1., 1.])
    """
    check_one_text(frozen.record)
    if view not in get_args(View):
        known = ", ".join(get_args(View))
        raise InputError(f"the view {view!r:.40} of a head", f"one of {known}", did_you_mean(str(view), get_args(View)))
    found = find_head(head, frozen.record.config)
    if view == "scores":
        return _scores(frozen, found)
    attention = _pattern(frozen, found)
    return attention if view == "pattern" else attention * _lengths(frozen, found)


@torch.no_grad()
def lengths(frozen: Frozen, layer: int) -> Float[Tensor, "head source"]:
    """How long a write each head of a layer would make of each source alone: ``‖v_source W_O‖``."""
    return torch.stack([_lengths(frozen, Head(layer, head)) for head in range(frozen.record.config.heads)])


def cells(found: Float[Tensor, "dest source"]) -> Float32[Tensor, "dest source"]:
    """What ``looks`` found, for drawings: in single precision, not a number where there is no score because the mask forbids to look."""
    return found.masked_fill(found.isinf(), float("nan")).to("cpu", torch.float32)


def _lengths(frozen: Frozen, head: Head) -> Float[Tensor, " source"]:
    values = frozen.record[f"L{head.layer}.values"][0, key_head(frozen.record.config, head)]
    writes = values @ frozen.block(head.layer).attention.W_O[head.head]
    return squares(writes).sqrt().to(values.dtype)


def _is_told(frozen: Frozen, site: str) -> bool:
    """Whether the record itself has to say what was there: it kept it, or somebody may have intervened."""
    return site in frozen.record.kept or frozen.record.tap.wants(site)


def _scores(frozen: Frozen, head: Head) -> Float[Tensor, "dest source"]:
    record, attention, site = frozen.record, frozen.record.config.attention, f"L{head.layer}."
    assert attention is not None, "whoever has heads has attention"
    if _is_told(frozen, f"{site}scores"):
        return record[f"{site}scores"][0, head.head]
    made = record.together([f"{site}queries", f"{site}keys"])
    q = made[f"{site}queries"][:, head.head, None]
    k = for_each_head(made[f"{site}keys"], attention.heads)[:, head.head, None]
    return scores(q, k, Rule(attention.mask, attention.scale))[0, 0]


def _pattern(frozen: Frozen, head: Head) -> Float[Tensor, "dest source"]:
    site = f"L{head.layer}.pattern"
    return frozen.record[site][0, head.head] if _is_told(frozen, site) else _scores(frozen, head).softmax(dim=-1)


@dataclass(frozen=True, kw_only=True)
class Looks:
    """One head's pattern in a few numbers: means over the destinations after the first, which alone have a choice."""

    head: Head
    previous: float | None
    """Mean attention to the token before; None, as the next ones, where a text has one token only."""
    own: float | None
    first: float | None
    entropy: float | None
    """Mean entropy of a row, in nats."""
    even: float | None
    """What a head pays to the previous token that looks everywhere alike."""
    longest: float
    """The largest cell of the value-weighted pattern."""

    def plain(self) -> dict[str, Any]:
        """For programs."""
        names = ("previous", "own", "first", "entropy", "even", "longest")
        return {"head": str(self.head), **{name: getattr(self, name) for name in names}}


@dataclass(frozen=True, eq=False, kw_only=True)
class Survey:
    """All heads of a model on one text: in numbers, and as small pictures."""

    heads: tuple[Looks, ...]
    pattern: Float[Tensor, "head dest source"]
    """Patterns, of a long text the largest attention in each field of ``dest`` and ``source``."""
    weighted: Float[Tensor, "head dest source"]
    """Value-weighted ones, likewise."""

    def picture(self, view: Literal["pattern", "weighted"]) -> UInt8[Tensor, "head dest source"]:
        """In bytes: 255 is attention 1, or the longest write of the same head."""
        # A head that writes nothing at all has nothing to be longest: it is dark, and not a division by zero.
        longest = self.weighted.amax(dim=(1, 2), keepdim=True).clamp(min=1e-30)
        shares = self.pattern if view == "pattern" else self.weighted / longest
        return (255 * shares.double()).round().clamp(0, 255).to("cpu", torch.uint8)


@torch.no_grad()
def survey(frozen: Frozen, side: int = SIDE, listen: Callable[[], None] = lambda: None) -> Survey:
    """Look at every head, some destinations of a layer at a time; ``listen`` is called between, and may end it by an error."""
    check_one_text(frozen.record)
    if side < 1:
        raise InputError(f"pictures of {side} cells", "at least one", "ask for 64")
    config, length = frozen.record.config, frozen.record.tokens.shape[1]
    if not config.layers:
        none = torch.zeros(0, min(side, length), min(side, length))
        return Survey(heads=(), pattern=none, weighted=none)
    seen = [_of_layer(frozen, layer, min(side, length), listen) for layer in range(config.layers)]
    numbers = torch.cat([layer.numbers for layer in seen], dim=1)
    return Survey(
        heads=_told(every_head(config), length, numbers, _even(frozen)),
        pattern=torch.cat([layer.pattern for layer in seen]),
        weighted=torch.cat([layer.weighted for layer in seen]),
    )


@dataclass(frozen=True, eq=False)
class _Layer:
    numbers: Float[Tensor, "number head"]
    pattern: Float[Tensor, "head dest source"]
    weighted: Float[Tensor, "head dest source"]


def _of_layer(frozen: Frozen, layer: int, side: int, listen: Callable[[], None]) -> _Layer:
    carried = lengths(frozen, layer)[:, None]
    numbers, small = carried.new_zeros(5, len(carried), dtype=torch.float64), list[tuple[Tensor, Tensor]]()
    for at in _pieces(frozen):
        listen()
        pattern = frozen.pattern(layer, at)
        weighted = pattern * carried
        numbers[:4] += _sums(pattern, at)
        numbers[4] = torch.maximum(numbers[4], weighted.amax(dim=(1, 2)).double())
        small.append((_narrow(pattern, side), _narrow(weighted, side)))
    pictures = [_narrow(torch.cat(some, dim=1).mT, side).mT for some in zip(*small, strict=True)]
    return _Layer(numbers, *pictures)


def _pieces(frozen: Frozen) -> Iterator[Tensor]:
    """The destinations, as many at a time as there is room for."""
    length = frozen.record.tokens.shape[1]
    size = max(1, AT_ONCE // (length * frozen.record.config.heads))
    yield from torch.arange(length, device=frozen.record.tokens.device).split(size)


def _narrow(values: Float[Tensor, "head row column"], side: int) -> Float[Tensor, "head row side"]:
    """The largest value of each field, where there are more columns than fields."""
    columns = values.shape[-1]
    if columns <= side:
        return values
    return adaptive_max_pool1d(values, side) if columns % side else max_pool1d(values, columns // side)


def _sums(pattern: Float[Tensor, "head row source"], at: Tensor) -> Float[Tensor, "number head"]:
    """Attention to the token before, to its own, to the first one, and entropies: added up over the rows after the first."""
    # Of all rows, and the first is left out of what it comes to: a pattern is large to copy.
    entropies = -(pattern * pattern.clamp(min=torch.finfo(pattern.dtype).tiny).log()).sum(dim=-1)
    rows = (at > 0).nonzero().flatten()
    index = (at[rows] - 1, at[rows], torch.zeros_like(rows))
    looked = [pattern[:, rows, source].double().sum(dim=1) for source in index]
    return torch.stack([*looked, entropies[:, rows].double().sum(dim=1)])


def _even(frozen: Frozen) -> float | None:
    attention, length = frozen.record.config.attention, frozen.record.tokens.shape[1]
    assert attention is not None, "whoever has heads has attention"
    seen = torch.arange(2, length + 1) if attention.mask == "causal" else torch.full((length - 1,), length)
    return float((1 / seen.double()).mean()) if length > 1 else None


def _told(heads: list[Head], length: int, numbers: Float[Tensor, "number head"], even: float | None) -> tuple[Looks, ...]:
    names, found = ("previous", "own", "first", "entropy"), list[Looks]()
    # Entropies may be a little below zero; what is no number stays none.
    for head, (*sums, longest) in zip(heads, map(floats, numbers.clamp(min=0).T), strict=True):
        means = {name: None if length < 2 else each / (length - 1) for name, each in zip(names, sums, strict=True)}
        found.append(Looks(head=head, even=even, longest=longest, **means))
    return tuple(found)
