"""Other ways to tell what the stream holds where a question meets it: by head, layer, source, token and order."""

from collections.abc import Callable
from dataclasses import replace
from itertools import groupby

import torch
from torch import Tensor

from headwater.shapes import floats
from headwater.trace.course import layer_of
from headwater.trace.frozen import Looked
from headwater.trace.nodes import HeadNode, StreamNode, bias_parts, last_position, token_facts
from headwater.trace.parts import Group, Part, Way, group
from headwater.trace.pull import wanted_of_heads
from headwater.trace.sweep import Swept, sweep


def by_head(node: StreamNode) -> list[Part]:
    """Heads one by one, the rest by kind."""
    parts = node.components()
    return [*(part for part in parts if part.kind == "head"), *_by_kind([part for part in parts if part.kind != "head"])]


def by_layer(node: StreamNode) -> list[Part]:
    """Everything that a layer wrote, together."""
    parts = node.components()
    layers = {layer: [part for part in parts if _layer(part) == layer] for layer in range(node.frozen.record.config.layers)}
    told = [group(f"L{layer}", some, kind="layer", facts={"layer": layer}) for layer, some in layers.items() if some]
    first, last = [], []
    for part in _by_kind([part for part in parts if _layer(part) is None]):
        (first if part.kind in ("embedding", "position") else last).append(part)
    return [*first, *told, *last]


def by_source(node: StreamNode) -> list[Part]:
    """Where the last heads before the question took it from; what no head moved is told by kind."""
    frozen, parts = node.frozen, node.components()
    heads = [part.node for part in parts if isinstance(part.node, HeadNode)]
    rest = [part for part in parts if not isinstance(part.node, HeadNode)]
    if not heads:
        return _by_kind(rest)
    read: list[Looked] = []
    for _, layer in groupby(heads, key=lambda head: head.step.layer):
        some = list(layer)
        wanted = wanted_of_heads(frozen.block(some[0].step.layer).attention, some[0].q)
        read.append(frozen.sources(some[0].step.layer, node.question.at, wanted))
        rest += [bias for head in some for bias in bias_parts(head.biases(wanted))]
    values = torch.cat([each.values for each in read])
    paid = [each.paid(head) for each in read for head in range(len(each.values))]
    last = last_position(frozen, node.question.at)
    told = [_from(node, heads, at, values[:, at], [row[at] for row in paid]) for at in range(last + 1)]
    return [*told, *_by_kind(rest)]


def _from(node: StreamNode, heads: list[HeadNode], position: int, values: Tensor, paid: list[float | None]) -> Part:
    """What all heads read at a position; each of them only when somebody asks."""

    def members() -> list[Part]:
        found = [head.source(position, *each) for head, each in zip(heads, zip(floats(values), paid, strict=True), strict=True)]
        names = [f"L{head.step.layer}H{head.head}" for head in heads]
        return [
            replace(part, label=f"{name} {part.label}", facts={**part.facts, "head": name})
            for name, part in zip(names, found, strict=True)
        ]

    facts = {"position": position} | token_facts(node.frozen, position)
    label, total = f"from {node.frozen.place(position)}", float(values.double().sum())
    return Part(label=label, value=total, kind="source", facts=facts, node=Group(members))


def by_token(node: StreamNode) -> list[Part]:
    """Everything, down to the tokens that it came from, through whatever lies between."""
    return tokens_of(node, sweep(node.frozen.record, node.question))


def tokens_of(node: StreamNode, swept: Swept) -> list[Part]:
    """The same, of a question that was swept."""
    frozen, last, placed = node.frozen, last_position(node.frozen, node.question.at), swept.positions()
    tokens = [
        Part(label=frozen.place(at), value=value, kind="token", facts={"position": at} | token_facts(frozen, at))
        for at, value in enumerate(floats(swept.tokens())[: last + 1])
    ]
    positions = [
        Part(label=f"position {at}", value=value, kind="position", facts={"position": at})
        for at, value in enumerate([] if placed is None else floats(placed)[: last + 1])
    ]
    told = [group("positions", positions, kind="position")] if positions else []
    return [*tokens, *told, *_by_kind(bias_parts(swept.biases()))]


def by_order(node: StreamNode) -> list[Part]:
    """By how many heads a path goes on its way to the answer."""
    return orders_of(node, sweep(node.frozen.record, node.question, orders=True))


def orders_of(node: StreamNode, swept: Swept) -> list[Part]:
    """The same, of a question that was swept, its orders apart."""
    values = floats(swept.orders())
    last = max((number for number, value in enumerate(values) if value), default=0)
    orders = [_order(node.beyond + number, value) for number, value in enumerate(values[: last + 1])]
    return [*orders, *_by_kind(bias_parts(swept.biases()))]


def _order(order: int, value: float) -> Part:
    way = "past no head" if order == 0 else f"by way of {order} head{'s' * (order > 1)}"
    return Part(label=f"order {order}: {way}", value=value, kind="order", facts={"order": order})


def _layer(part: Part) -> int | None:
    return layer_of(part.facts.get("name", ""))


def _by_kind(parts: list[Part]) -> list[Part]:
    """Embeddings and positions by themselves, feed-forward layers together, biases together."""
    told = [part for part in parts if part.kind in ("embedding", "position")]
    for kind, label in (("feed-forward", "feed-forward layers"), ("bias", "biases")):
        some = [part for part in parts if part.kind == kind]
        told += some if len(some) == 1 else [group(label, some)] if some else []
    return told


WAYS: dict[Way, Callable[[StreamNode], list[Part]]] = {
    "head": by_head,
    "layer": by_layer,
    "source": by_source,
    "token": by_token,
    "order": by_order,
}
