"""Totals: what every token, head, layer, order and bias comes to in an answer, by one sweep and without walking a path."""

from collections.abc import Callable, Mapping
from dataclasses import dataclass
from typing import Any

import torch
from jaxtyping import Float, Int
from torch import Tensor

from headwater.errors import InputError
from headwater.shapes import floats
from headwater.show.html import fragment
from headwater.show.text import written
from headwater.show.values import Grid, Table
from headwater.trace.frozen import Frozen
from headwater.trace.question import Question, about_final, check_one_text, known, within
from headwater.trace.sweep import sweep

Listen = Callable[[], None]
AT_ONCE = 2**24
"""Numbers of questions that are swept together."""


@dataclass(frozen=True, eq=False, kw_only=True, repr=False)
class Totals:
    """One row for each position that was asked about. Tokens, positions and biases add up to the values; so do orders and biases.

    Heads, feed-forward layers and layers do not: what a head wrote is made of what earlier ones wrote. Each says by how much the answer would fall
    if it had written nothing anywhere, all else being frozen.
    """

    frozen: Frozen
    at: Int[Tensor, " asked"]
    """The positions that were asked about."""
    ids: Int[Tensor, " asked"]
    """The tokens whose logits they are."""
    values: Float[Tensor, " asked"]
    """The model's own numbers."""
    tokens: Float[Tensor, "asked pos"]
    positions: Float[Tensor, "asked pos"] | None
    orders: Float[Tensor, "asked order"]
    biases: Mapping[str, Float[Tensor, " asked"]]
    writes: Mapping[str, Float[Tensor, " asked"]]
    """Each head (``L0H3``) and feed-forward layer (``L0.feed_forward``)."""
    layers: Mapping[str, Float[Tensor, " asked"]]
    size: Float[Tensor, " asked"]
    """Of what size the numbers are that were added up: ``headwater.trace.sizes`` tells what rounding may come to in them."""

    @property
    def certificate(self) -> float:
        """How far the sums of tokens, positions and biases, and those of orders and biases, are from the model's own numbers."""
        biases = sum((value.double() for value in self.biases.values()), torch.zeros_like(self.values, dtype=torch.float64))
        placed = 0.0 if self.positions is None else self.positions.double().sum(dim=-1)
        by_token, by_order = self.tokens.double().sum(dim=-1) + placed + biases, self.orders.double().sum(dim=-1) + biases
        return float(torch.stack([by_token - self.values, by_order - self.values]).abs().max())

    def tables(self) -> tuple[Table, ...]:
        """For people: sums over all that was asked about."""
        many = f", added up over {len(self.at)} positions" if len(self.at) > 1 else ""
        tokens = [
            (self.frozen.place(position), f"{value:+z.3f}") for position, value in enumerate(floats(self.tokens.sum(dim=0)))
        ]
        orders = [(f"order {order}", f"{value:+z.3f}") for order, value in enumerate(floats(self.orders.sum(dim=0)))]
        biases = [("biases", f"{sum(float(value.sum()) for value in self.biases.values()):+z.3f}")] if self.biases else []
        placed = [] if self.positions is None else [("positions", f"{float(self.positions.sum()):+z.3f}")]
        writes = [(name, f"{float(value.sum()):+z.3f}") for name, value in {**self.layers, **self.writes}.items()]
        return (
            Table(title=f"tokens{many}", columns=("token", "total#"), rows=(*tokens, *placed, *biases)),
            Table(title="orders: by how many heads", columns=("", "total#"), rows=(*orders, *biases)),
            Table(
                title="layers, heads and feed-forward layers, through everything downstream",
                columns=("", "total#"),
                rows=tuple(writes),
            ),
        )

    def __repr__(self) -> str:
        return f"Totals({len(self.at)} positions, {len(self.writes)} writes, certificate {self.certificate:.1e})"

    def __str__(self) -> str:
        return f"{written(*self.tables())}\n\n{self.remark()}"

    def _repr_html_(self) -> str:
        return fragment(*self.tables(), *([self.grid()] if len(self.at) > 1 else []), remarks=(self.remark(),))

    def remark(self) -> str:
        """The certificate, in words."""
        return f"certificate {self.certificate:.1e}: so far are the sums of tokens and of orders from the number"

    def grid(self) -> Grid:
        """What each token (columns) comes to in the answer at each position (rows)."""
        reach = float(self.tokens.abs().max()) or 1.0
        columns = tuple(self.frozen.place(position) for position in range(self.tokens.shape[1]))
        rows = tuple(
            f"{self.frozen.place(int(position))} → {self.frozen.words(int(token))}"
            for position, token in zip(self.at, self.ids, strict=True)
        )
        values = tuple(tuple(floats(row)) for row in self.tokens)
        return Grid(
            title="tokens' totals", rows=rows, columns=columns, values=values, x="token", y="asked", middle=0.0, reach=reach
        )

    def plain(self) -> dict[str, Any]:
        """For programs."""
        words = self.frozen.words

        def listed(some: Mapping[str, Tensor]) -> dict[str, list[float]]:
            return {name: floats(value) for name, value in some.items()}

        return {
            "certificate": self.certificate,
            "positions_asked": self.at.tolist(),
            "asked": [{"token": words.text(int(token)), "id": int(token)} for token in self.ids],
            "values": self.values.tolist(),
            "tokens": self.tokens.tolist(),
            "positions": None if self.positions is None else self.positions.tolist(),
            "orders": self.orders.tolist(),
            "biases": listed(self.biases),
            "writes": listed(self.writes),
            "layers": listed(self.layers),
        }


@torch.no_grad()
def totals(
    frozen: Frozen, at: list[int], ids: list[int], against: list[int] | None = None, *, listen: Listen = lambda: None
) -> Totals:
    """The totals of some logits: of the token ``ids[n]`` (or how far it is above ``against[n]``) after the position ``at[n]``.

    ``listen`` is called between two steps, and may end it by an error.
    """
    record = frozen.record
    check_one_text(record)
    length, vocab = record.tokens.shape[1], record.config.vocab
    if not at or len(at) != len(ids) or (against is not None and len(against) != len(at)):
        raise InputError(f"{len(at)} positions and {len(ids)} tokens", "a token for each position", "give as many of both")
    places = [within(position, length, "position") for position in at]
    chosen, other = ([known(token, vocab) for token in some] for some in (ids, against or []))
    size = max(1, AT_ONCE // ((1 + record.config.layers) * length * max(record.config.d_model, record.config.d_mlp)))
    pieces = [
        _some(frozen, places[start : start + size], chosen[start : start + size], other[start : start + size], listen)
        for start in range(0, len(at), size)
    ]
    return pieces[0] if len(pieces) == 1 else _joined(frozen, pieces)


def _some(frozen: Frozen, at: list[int], ids: list[int], against: list[int], listen: Listen) -> Totals:
    record, weights = frozen.record, frozen.record.weights
    device = weights.device
    where, which = torch.tensor(at, device=device), torch.tensor(ids, device=device)
    q, b_U = weights.W_U[:, which].T, None if weights.b_U is None else weights.b_U[which]
    values = torch.stack([record.logits_at(position)[0, token] for position, token in zip(at, ids, strict=True)])
    if against:
        q = q - weights.W_U[:, against].T
        b_U = None if b_U is None or weights.b_U is None else b_U - weights.b_U[against]
        values = values - torch.stack(
            [record.logits_at(position)[0, token] for position, token in zip(at, against, strict=True)]
        )
    # One question for each position: its covector there, nothing elsewhere.
    rows = torch.tensor(sorted(set(at)), device=device)
    spread = q.new_zeros(len(at), len(rows), q.shape[-1])
    spread[torch.arange(len(at), device=device), torch.searchsorted(rows, where)] = q
    question = about_final(record, rows, spread, {} if b_U is None else {"b_U": b_U})
    return _of(frozen, question, (where, which, values), listen)


def _of(frozen: Frozen, question: Question, asked: tuple[Tensor, Tensor, Tensor], listen: Listen) -> Totals:
    swept = sweep(frozen.record, question, orders=True, listen=listen)
    at, ids, values = asked
    return Totals(
        frozen=frozen,
        at=at,
        ids=ids,
        values=values,
        tokens=swept.tokens(),
        positions=swept.positions(),
        orders=swept.orders().T,
        biases=swept.biases(),
        writes={name: value.sum(dim=(0, -1)) for name, value in swept.writes.items()},
        layers={name: value.sum(dim=(0, -1)) for name, value in swept.layers.items()},
        size=swept.size,
    )


def _joined(frozen: Frozen, pieces: list[Totals]) -> Totals:
    def named(name: str) -> dict[str, Tensor]:
        return {key: torch.cat([getattr(piece, name)[key] for piece in pieces]) for key in getattr(pieces[0], name)}

    placed = [piece.positions for piece in pieces if piece.positions is not None]
    return Totals(
        frozen=frozen,
        at=torch.cat([piece.at for piece in pieces]),
        ids=torch.cat([piece.ids for piece in pieces]),
        values=torch.cat([piece.values for piece in pieces]),
        tokens=torch.cat([piece.tokens for piece in pieces]),
        positions=torch.cat(placed) if placed else None,
        orders=torch.cat([piece.orders for piece in pieces]),
        biases=named("biases"),
        writes=named("writes"),
        layers=named("layers"),
        size=torch.cat([piece.size for piece in pieces]),
    )
