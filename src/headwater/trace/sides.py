"""The two sides of an attention score: how a head's query and key are made of the stream.

A query is affine in the stream at its position, a key likewise, with the scales of norms held fixed (``R`` turns by position, where positions are
rotary; a model has at most one of ``R`` and ``position``)::

    query = R_dest   ((norm(x_dest)   + position_dest)   W_Q + b_Q)
    key   = R_source ((norm(x_source) + position_source) W_K + b_K)

So whatever is asked of one of them, ``<query, wanted>``, is a question about the stream, pulled back through the turn by its transpose.
"""

from dataclasses import dataclass
from typing import Literal, TypeAlias

import torch
from jaxtyping import Float
from torch import Tensor

from headwater.circuits.head import Head, key_head
from headwater.model.positions import Placed, Turn
from headwater.shapes import floats, whole
from headwater.trace.components import components
from headwater.trace.course import AttentionStep, course
from headwater.trace.frozen import Frozen, Rows
from headwater.trace.nodes import StreamNode
from headwater.trace.parts import Part, Way, group
from headwater.trace.question import Question

SideName: TypeAlias = Literal["query", "key"]


@dataclass(frozen=True, eq=False)
class SideNode(StreamNode):
    """The stream where a query or a key was made from it; positions that go into queries and keys only are beside it."""

    placed: tuple[Part, ...] = ()
    """What such positions come to: one part, or none."""

    def parts(self, by: Way) -> list[Part]:
        """As the stream is taken apart, and the positions."""
        # All other ways begin with the components.
        return [*super().parts(by), *(self.placed if by in ("token", "order") else ())]

    def components(self) -> list[Part]:
        """One part for each component, and one for the positions."""
        return [*super().components(), *self.placed]


@dataclass(frozen=True, eq=False)
class Side:
    """The query of a head at its destination, or the key at its source; or how far one key is from another: ``Σ_row sign · key_row``."""

    frozen: Frozen
    head: Head
    name: SideName
    at: Rows
    signs: Float[Tensor, " row"]
    placed: Placed
    """What positions do in this run."""

    @property
    def label(self) -> str:
        """What it is, and where."""
        places = " above ".join(map(self.frozen.place, whole(self.at)))
        return f"{self.name} of {self.head} at {places}"

    @torch.no_grad()
    def vector(self) -> Float[Tensor, " d_head"]:
        """The query or key itself, as the model had it."""
        return self.signs @ self.each()

    def each(self) -> Float[Tensor, "row d_head"]:
        """The query, or the key at each row, as the model had it."""
        config, site = self.frozen.record.config, "queries" if self.name == "query" else "keys"
        number = self.head.head if self.name == "query" else key_head(config, self.head)
        return self.frozen.record[f"L{self.head.layer}.{site}"][0, number, self.at]

    @torch.no_grad()
    def vectors(self) -> Float[Tensor, "part d_head"]:
        """What each part put into it, in the order of the components of a node; they add up to ``vector``."""
        entries = torch.eye(self.W.shape[-1], dtype=self.W.dtype, device=self.W.device)
        question, placed = self.ask(entries)
        written = [each.value for each in components(self.frozen, question)]
        return torch.stack(written if placed is None else [*written, placed.sum(dim=-1)])

    @torch.no_grad()
    def node(self, wanted: Float[Tensor, " d_head"]) -> SideNode:
        """``<vector, wanted>``, to be taken apart."""
        question, placed = self.ask(wanted)
        parts = () if placed is None else (self._positions(floats(placed)),)
        return SideNode(self.frozen, question, placed=parts)

    def ask(self, wanted: Float[Tensor, "*many d_head"]) -> tuple[Question, Float[Tensor, "*many row"] | None]:
        """``<vector, wanted>`` as a question about the stream that the head reads; and what positions that are not in the stream add."""
        before = self.signs[:, None] * self._turned_back(wanted)
        read = before @ self.W.T
        pulled = self.frozen.through(self.step, self.at, read)
        constants = {name: value.sum(dim=-1) for name, value in pulled.constants.items()}
        if self.b is not None:
            constants[f"{self.head}.b_{self._letter}"] = (before @ self.b).sum(dim=-1)
        marks = self.placed.in_queries_and_keys
        placed = None if marks is None else (read * marks[self.at]).sum(dim=-1)
        return Question(self.step.reads, self.at, pulled.q, constants), placed

    def _turned_back(self, wanted: Float[Tensor, "*many d_head"]) -> Float[Tensor, "*many row d_head"]:
        """What is asked of the vector as it was before it was turned, at each row."""
        rows = wanted[..., None, :].expand(*wanted.shape[:-1], len(self.at), wanted.shape[-1])
        turn = self.placed.turn
        if turn is None:
            return rows
        # The transpose of a turn is the turn by the opposite angle.
        back = Turn(turn.cos[self.at], -turn.sin[self.at], turn.halves)
        return back(rows.reshape(-1, 1, *rows.shape[-2:])).reshape(rows.shape)

    def _positions(self, values: list[float]) -> Part:
        each = [
            Part(label=f"position {at}", value=value, kind="position", facts={"name": "positions", "position": at})
            for at, value in zip(whole(self.at), values, strict=True)
        ]
        return each[0] if len(each) == 1 else group("positions", each, kind="position", facts={"name": "positions"})

    @property
    def _letter(self) -> str:
        return "Q" if self.name == "query" else "K"

    @property
    def step(self) -> AttentionStep:
        """Where on its course the stream is read."""
        steps = course(self.frozen.record.config)
        return next(step for step in steps if isinstance(step, AttentionStep) and step.layer == self.head.layer)

    @property
    def W(self) -> Float[Tensor, "d_model d_head"]:  # noqa: N802
        """``W_Q`` or ``W_K``."""
        weights = self.frozen.block(self.head.layer).attention
        number = key_head(self.frozen.record.config, self.head)
        return weights.W_Q[self.head.head] if self.name == "query" else weights.W_K[number]

    @property
    def b(self) -> Float[Tensor, " d_head"] | None:
        """``b_Q`` or ``b_K``, where there is one."""
        weights = self.frozen.block(self.head.layer).attention
        if weights.b_Q is None or weights.b_K is None:
            return None
        number = key_head(self.frozen.record.config, self.head)
        return weights.b_Q[self.head.head] if self.name == "query" else weights.b_K[number]
