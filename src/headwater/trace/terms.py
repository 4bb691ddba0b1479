"""How much each order of paths is worth: the term importance of "A Mathematical Framework for Transformer Circuits".

With what a run measured held fixed (patterns, scales of norms, gates of activations) its logits are an exact sum over paths, each through at
most one head of every layer: (1 + H)^L of them, C(L,k)·H^k of *order* k, the number of heads passed. Order 0 is the direct path. Norms and
feed-forward layers are linear steps on the way and raise no order. Positions in the stream start paths as tokens do. Biases count with order 0,
but for ``b_V``, which is part of what a head writes, and so of order 1; all of them are then carried on like the rest.

Left out of the sum, an order costs nats on a text; so do a layer's or a head's terms. These answers are *frozen*: patterns stay as they were in
the whole model. The *free* effect, with patterns, scales and gates recomputed, says how far they carry.
"""

import math
from collections.abc import Iterator, Sequence
from dataclasses import asdict, dataclass
from typing import Any

import torch
from jaxtyping import Float, Int
from torch import Tensor
from torch.nn.functional import cross_entropy

from headwater.circuits.head import Head, every_head
from headwater.circuits.paths import count
from headwater.errors import InputError
from headwater.model.config import ModelConfig, NoNorm, PreNorm
from headwater.model.forward import affine, final_stream, last_norm
from headwater.model.record import Record, record
from headwater.model.taps import NOBODY, Chain, Tap, all_sites
from headwater.model.weights import Weights
from headwater.shapes import Logits, Stream
from headwater.show.values import Line, Panel, Progress, Table, silent
from headwater.trace import push
from headwater.trace.course import AttentionStep, FeedForwardStep, Given, NormStep, course
from headwater.trace.edits import MEASURED, Freeze, Zero
from headwater.trace.places import find_place

LOGITS_AT_ONCE = 2**23

ByOrder = Float[Tensor, "order batch pos d_model"]
Key = tuple[str, str]


@torch.no_grad()
def orders(run: Record) -> Float[Tensor, "order batch pos vocab"]:
    """The logits of a run as a sum over orders: row k holds all paths through k heads.

    >>> from headwater.model.presets import named
    >>> run = record(Weights.draw(named("one-layer"), seed=0), torch.tensor([[1, 2, 3]]))
    >>> orders(run).shape, torch.allclose(orders(run).sum(dim=0), run.logits, atol=1e-5)
    (torch.Size([2, 1, 3, 4096]), True)
    """
    return push.joined(streams(run) @ run.weights.W_U, run.weights.b_U)


@torch.no_grad()
def streams(run: Record) -> ByOrder:
    """What the unembedding reads as a sum over orders: ``orders`` without the vocabulary, for whoever takes it piece by piece.

    No path is listed: the stream is carried along in parts, one for each number of heads passed, and every layer moves what its heads write up
    by one.
    """
    if run.tap is not NOBODY:
        raise InputError("a run in which something intervened", "a run of the model itself", "record it without a tap")
    before = now = torch.zeros_like(run["embed"])[None]
    for stage, step in enumerate(course(run.config)):
        match step:
            case Given(site):
                after = push.joined(now, run[site])
            case NormStep(layer, norm):
                after = _normed(run, f"L{layer}.{norm}", now)
            case _:
                # A feed-forward layer beside attention reads what attention read, one stage earlier.
                read = now if step.reads == stage else before
                read = read if step.norm is None else _normed(run, f"L{step.layer}.{step.norm}", read)
                after = push.added(now, _written(run, step, read))
        before, now = now, after
    return _normed(run, "final", now) if isinstance(run.config.norm, PreNorm) else now


def _normed(run: Record, name: str, parts: ByOrder) -> ByOrder:
    """Through one of the run's norms."""
    norm = run.config.norm
    assert not isinstance(norm, NoNorm), "asked only where there are norms"
    return push.through_norm(norm.norm, run.weights.norm(name), run[f"{name}.scale"], parts)


def _written(
    run: Record, step: AttentionStep | FeedForwardStep, read: ByOrder
) -> Float[Tensor, "one_more_order batch pos d_model"]:
    """What a component writes; through heads it has passed one more than what they read."""
    block = run.weights.blocks[step.layer]
    if isinstance(step, AttentionStep):
        writes = push.through_heads(block.attention, run[f"L{step.layer}.pattern"], read)
        return push.joined(torch.cat([torch.zeros_like(writes[:1]), writes]), block.attention.b_O)
    assert block.feed_forward is not None, "a step only where there is a feed-forward layer"
    return push.through_feed_forward(block.feed_forward, run[f"L{step.layer}.gates"], read)


@dataclass(frozen=True, kw_only=True)
class Order:
    """The paths through so many heads, in nats per token."""

    order: int
    paths: int
    loss: float
    """With this order and all below it."""
    gain: float
    """How far that is below the loss with those below it alone; for the direct path: below ``ln vocab``."""
    missed: float
    """How far the loss rises above the model's when this order alone is left out."""

    @property
    def gain_per_path(self) -> float:
        """The gain, shared by all paths of the order."""
        return self.gain / self.paths


@dataclass(frozen=True, kw_only=True)
class Worth:
    """What a head, or all heads of a layer, are worth, in nats per token: by how much the loss rises without them."""

    name: str
    beside_direct: float
    """Its terms added to the direct path, and nothing else there."""
    among_single: float
    """Its terms of order 1 taken from the sum of orders 0 and 1: the paper's measure of a layer."""
    single: float
    """Its terms of order 1 taken from the whole sum."""
    frozen: float
    """All paths through it taken from the whole sum."""
    free: float
    """Removed from the model, whose later layers then attend, scale and gate anew."""


@dataclass(frozen=True, kw_only=True)
class Terms:
    """What the orders, layers and heads of a model are worth on a text."""

    layers: int
    heads: int
    windows: int
    tokens: int
    """How many were predicted."""
    loss: float
    """The model's own, in nats per token."""
    certificate: float
    """The largest difference between a logit of the model and the sum of its orders."""
    by_order: tuple[Order, ...]
    by_layer: tuple[Worth, ...]
    by_head: tuple[Worth, ...]

    def tables(self) -> tuple[Table, ...]:
        """What was looked at, orders, layers, and heads with the dearest first."""
        heads = sorted(self.by_head, key=lambda head: -head.free)
        found = (self._text(), self._orders(), _worths("layers", self.by_layer), _worths("heads", heads))
        return tuple(table for table in found if table.rows)

    def _text(self) -> Table:
        rows = (
            ("model", f"{self.layers} × {self.heads} heads, {sum(order.paths for order in self.by_order):,} paths"),
            ("text", f"{self.tokens:,} tokens in {self.windows:,} windows"),
            ("loss", f"{self.loss:.4f} nats per token"),
            ("certificate", f"{self.certificate:.1e}, the largest |sum of orders − logit|"),
        )
        return Table(title="", columns=("", ""), rows=rows)

    def _orders(self) -> Table:
        rows = tuple(
            (
                f"{order.order}" if order.order else "0 (direct)",
                f"{order.paths:,}",
                f"{order.loss:.4f}",
                f"{order.gain:+.4f}",
                f"{order.gain_per_path:+.5f}",
                f"{order.missed:+.4f}",
            )
            for order in self.by_order
        )
        columns = ("order", "paths#", "loss up to it#", "gain#", "gain per path#", "lost without it#")
        return Table(title="paths by the number of heads they pass, in nats per token", columns=columns, rows=rows)

    def plain(self) -> dict[str, Any]:
        """All numbers."""
        by_order = [asdict(order) | {"gain_per_path": order.gain_per_path} for order in self.by_order]
        return asdict(self) | {"study": "terms", "by_order": by_order}

    def curves(self) -> tuple[Panel, ...]:
        """The loss against the highest order that is kept, and what each head is worth."""
        x = tuple(float(order.order) for order in self.by_order)
        sums = (
            Line(label="orders up to this", x=x, y=tuple(order.loss for order in self.by_order)),
            Line(label="the model", x=x, y=(self.loss,) * len(x), kind="bound"),
        )
        numbers = tuple(float(number) for number in range(len(self.by_head)))
        lines = {
            "beside the direct path": [head.beside_direct for head in self.by_head],
            "all its paths, frozen": [head.frozen for head in self.by_head],
            "removed, all else free": [head.free for head in self.by_head],
        }
        worths = tuple(Line(label=label, x=numbers, y=tuple(y)) for label, y in lines.items())
        panels = (
            Panel(title="Loss of a sum of orders", x="highest order", y="nats", lines=sums),
            Panel(title="What each head is worth", x="layer · heads + head", y="nats", lines=worths),
        )
        return panels if self.by_head else panels[:1]


def _worths(title: str, rows: Sequence[Worth]) -> Table:
    columns = ("", "beside the\ndirect path#", "among\norders 0, 1#", "its order 1\nof the whole#", "all its paths,\nfrozen#", "removed,\nfree#")  # fmt: skip
    told = tuple((row.name, *(f"{value:+.4f}" for value in list(asdict(row).values())[1:])) for row in rows)
    return Table(title=f"what {title} are worth, in nats per token", columns=columns, rows=told)


@torch.no_grad()
def study(weights: Weights, windows: Int[Tensor, "window pos"], *, progress: Progress = silent) -> Terms:
    """What orders, layers and heads are worth on windows of a text, of which all tokens but each first one are predicted.

    >>> from headwater.model.presets import named
    >>> found = study(Weights.draw(named("zero-layer"), seed=0), torch.tensor([[1, 2, 3]]))
    >>> found.tokens, [order.paths for order in found.by_order]
    (2, [1])
    """
    if windows.shape[0] < 1 or windows.shape[1] < 2:
        raise InputError(f"windows of shape {list(windows.shape)}", "at least one, of at least two tokens", "give more text")
    config, losses, certificate = weights.config, dict[Key, float](), 0.0
    sums = 3 + 2 * config.layers + 5 * len(_groups(config))
    size = max(1, LOGITS_AT_ONCE // (config.vocab * windows.shape[1]))
    for begin in range(0, len(windows), size):
        batch = windows[begin : begin + size].to(weights.device)
        run = record(weights, batch[:, :-1], [site for site in all_sites(config) if site.endswith(MEASURED)])
        parts = streams(run)
        certificate = max(certificate, _certificate(run, parts))
        for number, (key, read) in enumerate(_sums(run, parts), 1):
            nats = cross_entropy(_logits(weights, read).flatten(0, 1), batch[:, 1:].flatten())
            losses[key] = losses.get(key, 0.0) + float(nats) * len(batch) / len(windows)
            progress("terms", (begin + len(batch) * number / sums) / len(windows))
    return _told(config, windows, losses, certificate)


def _certificate(run: Record, parts: ByOrder) -> float:
    """The largest difference between the sum of all orders' logits and the model's."""
    left = run.logits if run.weights.b_U is None else run.logits - run.weights.b_U
    for part in parts:
        left = left - part @ run.weights.W_U
    return float(left.abs().max())


def _sums(run: Record, parts: ByOrder) -> Iterator[tuple[Key, Stream]]:
    """What the unembedding reads in every sum that is measured, with what was done, and to which order, layer or head."""
    whole, every = run["final"], set(every_head(run.config))
    yield ("whole", ""), whole
    for order, part in enumerate(parts):
        yield ("up to", f"{order}"), parts[: order + 1].sum(dim=0)
        yield ("without", f"{order}"), whole - part
    for name, heads in _groups(run.config).items():
        chosen, others = ([Zero(find_place(head, run.config)) for head in some] for some in (heads, every - heads))
        alone = _read(run, Freeze(run), *others)
        # No two of these heads are on one path: all that they add to the direct path is of order 1.
        single = alone - parts[0]
        yield ("beside_direct", name), alone
        yield ("among_single", name), parts[0] + parts[1] - single
        yield ("single", name), whole - single
        yield ("frozen", name), _read(run, Freeze(run), *chosen)
        yield ("free", name), _read(run, *chosen)


def _groups(config: ModelConfig) -> dict[str, set[Head]]:
    """The heads of each layer, and each head alone."""
    layers = {f"layer {layer}": {Head(layer, head) for head in range(config.heads)} for layer in range(config.layers)}
    return layers | {str(head): {head} for head in every_head(config)}


def _read(run: Record, *edits: Tap) -> Stream:
    """What the unembedding reads when a run's text is run with edits."""
    tap = Chain(*edits)
    return last_norm(run.weights, final_stream(run.weights, run.tokens, tap), tap)


def _logits(weights: Weights, read: Stream) -> Logits:
    return affine(read, weights.W_U, weights.b_U)


def _told(config: ModelConfig, windows: Tensor, losses: dict[Key, float], certificate: float) -> Terms:
    whole, paths = losses["whole", ""], count(config).by_order
    up_to = [math.log(config.vocab), *(losses["up to", f"{order}"] for order in range(config.layers + 1))]
    by_order = tuple(
        Order(
            order=order,
            paths=paths[order],
            loss=up_to[order + 1],
            gain=up_to[order] - up_to[order + 1],
            missed=losses["without", f"{order}"] - whole,
        )
        for order in range(config.layers + 1)
    )

    def worth(name: str) -> Worth:
        lost = {measure: losses[measure, name] - whole for measure in ("single", "frozen", "free")}
        beside, among = up_to[1] - losses["beside_direct", name], losses["among_single", name] - up_to[2]
        return Worth(name=name, beside_direct=beside, among_single=among, **lost)

    worths = [worth(name) for name in _groups(config)]
    return Terms(
        layers=config.layers,
        heads=config.heads,
        windows=len(windows),
        tokens=windows[:, 1:].numel(),
        loss=whole,
        certificate=certificate,
        by_order=by_order,
        by_layer=tuple(worths[: config.layers]),
        by_head=tuple(worths[config.layers :]),
    )
