"""``Subject``: a model as the atlas looks at it, as three kinds of matrices from tokens to tokens."""

from dataclasses import dataclass

import torch
from jaxtyping import Float
from torch import Tensor

from headwater.atlas.settings import Settings
from headwater.circuits import tables
from headwater.circuits.bases import Kind, Reader
from headwater.circuits.factored import Factored
from headwater.circuits.head import Head, HeadName, every_head, find_head
from headwater.circuits.streamed import sums, tiles
from headwater.circuits.streamed.scan import Wants
from headwater.circuits.tables import Circuit
from headwater.errors import InputError
from headwater.model.config import ModelConfig, RotaryPositions
from headwater.model.weights import Weights

DIRECT = "direct"
"""The path that no head is on, where a name stands for a circuit."""
GRID = 2.0**20
"""A mass is a multiple of one over this: half a millionth of a nat, so that it is the same number whatever tiles it was summed in."""
EVERY = slice(None)
IN_EFFECTIVE_TOKENS = ("L0.b_out", "L0.norm_1.bias", "L0.norm_2.bias")
"""Constants that effective tokens hold already."""


@dataclass(frozen=True, eq=False)
class Subject:
    """A model, how often its tokens occur, and how it is looked at."""

    weights: Weights
    shares: Float[Tensor, " vocab"]
    """p: adds up to one; in float64."""
    settings: Settings

    @property
    def config(self) -> ModelConfig:
        """What the model is made of."""
        return self.weights.config

    @property
    def heads(self) -> list[Head]:
        """All heads, in the order of their numbers."""
        return every_head(self.config) if self.config.layers else []

    def says(self, name: HeadName) -> Circuit:
        """``[source, out]``: the logits that a head adds when it looks at ``source``; of ``"direct"``, those that a token brings along by itself."""
        if name == DIRECT:
            return tables.direct(self.weights, source=self._kind(self.config.layers), scales=self.settings.scaling)
        head = find_head(name, self.config)
        return tables.ov(self.weights, head, source=self._kind(head.layer), scales=self.settings.scaling)

    def outputs(self, name: HeadName) -> Factored:
        """The same with each row's mean taken out: what a softmax can see of it."""
        return self.says(name).centred_rows()

    def scores(self, head: HeadName) -> Factored:
        """``[dest, source]``: what the softmax gets for a source, but for positions.

        Constants (biases of norms, queries and keys, and of what earlier layers write) are part of both sides: a head that adds
        one to its queries prefers some sources whatever it looks from.
        """
        found = find_head(head, self.config)
        kind = self._kind(found.layer)
        circuit = self._qk(found, kind, kind)
        left, right = circuit.left, circuit.right
        attention, written = self.weights.blocks[found.layer].attention, self._constants(found, kind)
        if attention.b_Q is not None or written:
            left = left + self._sum(self._qk(found, "biases", kind), rows=True)
        if attention.b_K is not None or written:
            right = right + self._sum(self._qk(found, kind, "biases"), rows=False)[:, None]
        return Factored(left, right)

    def mass(self, scores: Factored, lines: slice = EVERY) -> Float[Tensor, " dest"]:
        """``log Σ_source p(source) exp(score)`` of some dests: what an average other token weighs in their softmax.

        A dest has the same mass whichever others it is asked with, so that no order depends on tiles: the fast kernel adds up each row by
        itself, and what float64 leaves to chance lies far below the grid.
        """
        log_shares = self.shares.log()
        ours, theirs, wants = scores.left, scores.right.T, Wants(logsumexp=log_shares.to(scores.left))
        if sums.pays(ours, theirs, wants):
            found = sums.scan(ours[lines], theirs, wants).logsumexp
        else:
            found = tiles.scan(ours[lines].double(), theirs.double(), Wants(logsumexp=log_shares)).logsumexp
        assert found is not None, "it was asked for"
        if not bool(found.isfinite().all()):
            raise InputError("scores that are infinite or none (NaN)", "finite ones", "look at the model's weights")
        return self.rounded(found)

    @staticmethod
    def rounded(mass: Float[Tensor, " dest"]) -> Float[Tensor, " dest"]:
        """To a multiple of ``1/GRID``."""
        return (mass.double() * GRID).round() / GRID

    def _qk(self, head: Head, dest: Kind, source: Kind) -> Circuit:
        offset = self.settings.offset if isinstance(self.config.positions, RotaryPositions) else None
        return tables.qk(self.weights, head, dest=dest, source=source, offset=offset, scales=self.settings.scaling)

    def _constants(self, head: Head, kind: Kind) -> tuple[str, ...]:
        """The names of constants that a head reads besides the tokens."""
        reader = Reader(self.weights, f"L{head.layer}.attention", self.settings.scaling)
        return tuple(name for name in reader.basis("biases").side.names if not _is_held(name, kind))

    def _sum(self, circuit: Circuit, *, rows: bool) -> Tensor:
        """All constants of one side together."""
        side = circuit.row_side if rows else circuit.column_side
        lines = circuit.left if rows else circuit.right.T
        kind = (circuit.column_side if rows else circuit.row_side).kind
        kept = [not _is_held(name, kind) for name in side.names]
        return lines[torch.tensor(kept, device=lines.device)].sum(dim=0)

    def _kind(self, depth: int) -> Kind:
        return "tokens" if depth == 0 or self.config.feed_forward is None else self.settings.basis


def _is_held(name: str, kind: Kind) -> bool:
    return kind == "effective-tokens" and name in IN_EFFECTIVE_TOKENS
