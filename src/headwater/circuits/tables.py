"""The circuits of a model, from its weights alone: what a token says by itself, what a head looks for, what it then says.

With rows multiplying from the left, and a table's axes reading *from → to*::

    direct[token, out]   = W_E W_U                      the logits of `out` that a token brings along by itself
    OV[source, out]      = W_E W_V W_O W_U              the logits that a head adds for `out` when it looks at `source`
    QK[dest, source]     = W_E W_Q (W_E W_K)ᵀ · scale   the score of `source` for `dest`, as the softmax gets it

Positions and biases are rows and columns of their own. With a run's patterns ``A``, a model of one layer without norms and
feed-forward layers is their sum and nothing else (``+`` stands for the sum over all kinds of rows that the model has)::

    scores[dest, source] = QK[tokens + positions + biases, tokens + positions + biases]
    logits[dest]         = direct[tokens + positions + biases] + Σ_heads Σ_source A[dest, source] · OV[tokens + positions]

Any invertible ``R`` with ``W_Q R``, ``W_K R⁻ᵀ`` and any ``S`` with ``W_V S``, ``S⁻¹ W_O`` leaves every circuit as it is. Rotary positions
stand between queries and keys and leave only those ``R`` that commute with the rotation.
"""

from dataclasses import dataclass, replace
from typing import Literal

import torch
from jaxtyping import Float
from torch import Tensor
from torch.nn.functional import pad

from headwater.circuits.bases import Basis, Kind, Reader, Side, widened
from headwater.circuits.factored import Factored
from headwater.circuits.head import HeadName, find_head, key_head
from headwater.circuits.norms import Scaling, passage
from headwater.circuits.streamed.lines import Entries
from headwater.circuits.streamed.scan import Progress, Wants, silent
from headwater.circuits.streamed.survey import Survey
from headwater.errors import InputError
from headwater.model.config import ModelConfig, RotaryPositions
from headwater.model.positions import place
from headwater.model.weights import Weights


@dataclass(frozen=True, eq=False, repr=False, kw_only=True)
class Circuit(Factored):
    """A factored matrix that knows what it is: its name, its sides, and what it is given. Sums and products are a plain ``Factored``."""

    name: str
    row_side: Side
    column_side: Side
    given: tuple[str, ...] = ()
    """What the numbers take for granted beyond the weights; nothing: they are exact as they stand."""

    def __repr__(self) -> str:
        rows, columns = (
            f"{side.kind} {size:,}" for side, size in zip((self.row_side, self.column_side), self.shape, strict=True)
        )
        given = f"; given {', '.join(self.given)}" if self.given else ""
        return f"Circuit({self.name}: {rows} → {columns}, inner {self.inner:,}{given})"

    def _with(self, left: Tensor, right: Tensor, how: str) -> "Circuit":
        return replace(self, left=left, right=right, name=f"{self.name}{how}")

    @property
    def T(self) -> "Circuit":  # noqa: N802
        """Rows and columns exchanged."""
        sides = {"row_side": self.column_side, "column_side": self.row_side}
        return replace(self, left=self.right.T, right=self.left.T, name=f"{self.name}, transposed", **sides)

    def top(self, k: int, progress: Progress = silent) -> Entries:
        """The ``k`` largest of all entries, exactly, with the names of rows and columns."""
        return replace(super().top(k, progress), row_names=self.row_side.names, column_names=self.column_side.names)

    def bottom(self, k: int, progress: Progress = silent) -> Entries:
        """The ``k`` smallest of all entries, exactly, with the names of rows and columns."""
        return replace(super().bottom(k, progress), row_names=self.row_side.names, column_names=self.column_side.names)

    def survey(self, wants: Wants, progress: Progress = silent) -> Survey:
        """Several answers from one pass, with the names of rows and columns."""
        found = super().survey(wants, progress)
        rows, columns = self.row_side.names, self.column_side.names
        return replace(
            found,
            **{
                kind: lines and replace(lines, line_names=ours, names=theirs)
                for kind, lines, ours, theirs in (
                    ("top_rows", found.top_rows, rows, columns),
                    ("bottom_rows", found.bottom_rows, rows, columns),
                    ("top_columns", found.top_columns, columns, rows),
                    ("bottom_columns", found.bottom_columns, columns, rows),
                )
            },
        )

    def called(self, names: tuple[str, ...]) -> "Circuit":
        """The same circuit with names for its tokens."""
        kinds = ("tokens", "effective-tokens")
        rows, columns = (
            replace(side, names=names) if side.kind in kinds else side for side in (self.row_side, self.column_side)
        )
        return replace(self, row_side=rows, column_side=columns)


def direct(weights: Weights, *, source: Kind = "tokens", scales: Scaling = "one") -> Circuit:
    """``W_E W_U`` through the norms on the way: rows of ``source``, columns of logits.

    As ``source``, ``"biases"`` are all constants on the skip route to the logits, ``b_U`` among them.

    >>> from headwater.model.presets import named
    >>> direct(Weights.draw(named("zero-layer"), seed=0))
    Circuit(direct: tokens 4,096 → tokens 4,096, inner 256)
    """
    weights = widened(weights)
    rows = Reader(weights, "unembed", scales).basis(source)
    left, right, side = rows.vectors, rows.passage.pull(weights.W_U), rows.side
    if rows.own_scales is not None:
        left = left * rows.own_scales[:, None]
    if source == "biases" and weights.b_U is not None:
        # One more inner entry, which only the row of b_U has.
        left = pad(left, (0, 1, 0, 1))
        left[-1, -1] = 1
        right, side = torch.cat([right, weights.b_U[None]]), _named(side, "b_U")
    _some(left, "the logits")
    return Circuit(left, right, name="direct", row_side=side, column_side=Side("tokens"), given=rows.given)


def ov(
    weights: Weights,
    head: HeadName,
    *,
    source: Kind = "tokens",
    out: Literal["tokens", "stream"] = "tokens",
    scales: Scaling = "one",
) -> Circuit:
    """``W_V W_O`` of a head, from what it may look at to the logits, or to what it adds to the stream.

    >>> from headwater.model.presets import named
    >>> ov(Weights.draw(named("one-layer"), seed=0), "L0H3", source="stream", out="stream")
    Circuit(L0H3 OV: stream 256 → stream 256, inner 32)
    """
    weights, head = widened(weights), find_head(head, weights.config)
    attention, shared = weights.blocks[head.layer].attention, key_head(weights.config, head)
    place, W_O = f"L{head.layer}.attention", attention.W_O[head.head]
    rows = Reader(weights, place, scales).basis(source)
    left, side = _read(rows, attention.W_V[shared], None if attention.b_V is None else attention.b_V[shared], "b_V")
    given = rows.given
    match out:
        case "stream":
            right = W_O
        case "tokens":
            way = passage(weights, place, "unembed", scales)
            right, given = way.push(W_O) @ weights.W_U, (*given, *way.given)
        case _:
            raise InputError(f"{out!r:.40} as what a head writes to", "tokens or stream", "use one of these")
    return Circuit(left, right, name=f"{head} OV", row_side=side, column_side=Side(out), given=_once(given))


def qk(
    weights: Weights,
    head: HeadName,
    *,
    dest: Kind = "tokens",
    source: Kind = "tokens",
    offset: int | None = None,
    scales: Scaling = "one",
) -> Circuit:
    """The scores of a head as the softmax gets them, divided by √d_head where the model does: rows of ``dest``, columns of ``source``.

    Rotary positions make a score depend on how far the source lies behind the destination: on ``offset``, by default 0.

    >>> from headwater.model.presets import named
    >>> qk(Weights.draw(named("one-layer"), seed=0), "L0H3", source="positions")
    Circuit(L0H3 QK: tokens 4,096 → positions 256, inner 32)
    """
    weights, head = widened(weights), find_head(head, weights.config)
    layer, shared = weights.config.attention, key_head(weights.config, head)
    attention = weights.blocks[head.layer].attention
    assert layer is not None, "whoever has heads has attention"
    reader = Reader(weights, f"L{head.layer}.attention", scales, reads_marks=True)
    rows, columns = reader.basis(dest), reader.basis(source)
    queries, row_side = _read(
        rows, attention.W_Q[head.head], None if attention.b_Q is None else attention.b_Q[head.head], "b_Q"
    )
    keys, column_side = _read(columns, attention.W_K[shared], None if attention.b_K is None else attention.b_K[shared], "b_K")
    given = (*rows.given, *columns.given)
    if isinstance(weights.config.positions, RotaryPositions):
        offset = _checked_offset(weights.config, 0 if offset is None else offset)
        # ⟨turn_p(q), turn_{p−offset}(k)⟩ = ⟨turn_offset(q), k⟩; where attention looks ahead, the key is turned instead.
        queries, keys = _turned(weights, queries, max(offset, 0)), _turned(weights, keys, max(-offset, 0))
        given = (*given, f"offset {offset}")
    elif offset is not None:
        raise InputError(f"offset={offset} without rotary positions", "scores that depend on it", "leave it out")
    return Circuit(
        queries * layer.scale, keys.T, name=f"{head} QK", row_side=row_side, column_side=column_side, given=_once(given)
    )  # fmt: skip


def _read(rows: Basis, W: Tensor, b: Tensor | None, name: str) -> tuple[Float[Tensor, "line d_head"], Side]:
    """What a head makes of each line; its own bias is one more line of the biases."""
    read, side = rows.read_by(W), rows.side
    if side.kind == "biases" and b is not None:
        read, side = torch.cat([read, b[None]]), _named(side, name)
    return _some(read, "this head"), side


def _some(lines: Tensor, reader: str) -> Tensor:
    if not len(lines):
        raise InputError(f"biases that {reader} would read", "a model that has some", "leave this circuit out: it is zero")
    return lines


def _named(side: Side, name: str) -> Side:
    return Side(side.kind, (*side.names, name))


def _checked_offset(config: ModelConfig, offset: int) -> int:
    assert config.attention is not None, "whoever has heads has attention"
    least = 0 if config.attention.mask == "causal" else 1 - config.context
    if type(offset) is not int or not least <= offset < config.context:
        raise InputError(f"offset={offset}", f"an offset from {least} to {config.context - 1}", "choose one within the context")
    return offset


def _turned(weights: Weights, lines: Float[Tensor, "line d_head"], offset: int) -> Float[Tensor, "line d_head"]:
    turn = place(weights, offset, 1).turn
    assert turn is not None, "asked only of rotary positions"
    return turn(lines[:, None, None])[:, 0, 0]


def _once(given: tuple[str, ...]) -> tuple[str, ...]:
    return tuple(dict.fromkeys(given))
