"""The stream at every stage of every block: how long it is, where it points, what it would say, who wrote it, what norms changed."""

import math
from collections.abc import Iterable, Mapping
from dataclasses import dataclass
from typing import Any

import torch
from jaxtyping import Int
from torch import Tensor

from headwater.errors import InputError
from headwater.model.record import Record
from headwater.shapes import floats, whole
from headwater.show.html import fragment
from headwater.show.text import written
from headwater.show.values import Grid, Panel, Progress, Table, silent
from headwater.text.spoken import Spoken
from headwater.trace.question import within
from headwater.trace.view import shown
from headwater.trace.view.lens import Lens, lenses
from headwater.trace.view.measures import VECTORS, Measured, chosen_tokens, measured
from headwater.trace.view.normed import Normed, norms, numbers
from headwater.trace.view.shares import shares_and_sizes
from headwater.trace.view.stages import Stage, see


@dataclass(frozen=True, kw_only=True, eq=False, repr=False)
class StreamView:
    """What a run's stream went through; a row for each stage, a column for each position that was looked at."""

    stages: tuple[Stage, ...]
    positions: tuple[int, ...]
    tokens: Int[Tensor, " length"]
    """The whole text."""
    words: Spoken
    norm: Measured
    """Lengths: ``‖x‖``."""
    cosine_before: Measured
    """With the stage of the stream that comes before, is copied or is written to; not a number where there is none."""
    cosine_embed: Measured
    """With the token's embedding."""
    cosine_final: Measured
    """With the stream that the last block leaves."""
    chosen: Int[Tensor, " pos"]
    """The token whose probability and rank are told: the one asked for, else the next of the text, and after its end the likeliest."""
    was_asked: bool
    """Whether that token was asked for."""
    lenses: tuple[Lens, ...]
    """What each stage would say if it were the last."""
    shares: Mapping[str, Measured]
    """By component: ``<write, x>/<x, x>``, in the stages of the stream and in copies. They add up to 1."""
    norms: tuple[Normed, ...]
    certificate: float
    """The largest difference between a sum of shares and 1."""
    bound: float
    """What rounding may come to in it, in this format, at this width and depth, and with writes of this size."""

    def index(self, stage: str) -> int:
        """The row of a stage, by any of its names."""
        found = [number for number, one in enumerate(self.stages) if stage in (one.name, *one.also, one.site)]
        if not found:
            names = ", ".join(one.names for one in self.stages)
            raise InputError(f"no stage is called {stage!r:.40}", "a stage of this model", f"use one of: {names}")
        return found[0]

    def column(self, position: int = -1) -> int:
        """The column of a position of the text; -1 is the last that was looked at."""
        if position == -1:
            return len(self.positions) - 1
        at = within(position, len(self.tokens), "position")
        if at not in self.positions:
            raise InputError(f"position {at}", "one that was looked at", "view the stream there, or at all positions")
        return self.positions.index(at)

    def tables(self, position: int = -1) -> tuple[Table, ...]:
        """For people: one position, stage by stage; who wrote what is there; what norms changed."""
        return shown.tables(self, self.column(position))

    def grids(self) -> tuple[Grid, ...]:
        """For a picture: all positions, stage by stage."""
        return shown.grids(self)

    def curves(self, position: int = -1) -> tuple[Panel, ...]:
        """For a plot: one position, along the stages of the stream."""
        return shown.curves(self, self.column(position))

    def __repr__(self) -> str:
        return f"StreamView({len(self.stages)} stages, {len(self.positions)} positions, certificate {self.certificate:.1e})"

    def __str__(self) -> str:
        return written(*self.tables())

    def _repr_html_(self) -> str:
        return fragment(*self.tables(), *self.grids())

    def plain(self) -> dict[str, Any]:
        """For programs: for each stage a list of numbers, one for each position; None where there is no number."""
        return {
            "positions": list(self.positions),
            "tokens": [self._token(int(self.tokens[position])) for position in self.positions],
            "chosen": [self._token(int(token)) for token in self.chosen],
            "stages": [self._plain(row) for row in range(len(self.stages))],
            "norms": [norm.plain() for norm in self.norms],
            "certificate": self.certificate,
            "bound": self.bound if math.isfinite(self.bound) else None,
        }

    def _plain(self, row: int) -> dict[str, Any]:
        stage, said = self.stages[row], self.lenses[row]
        measured = {name: getattr(self, name) for name in ("norm", "cosine_before", "cosine_embed", "cosine_final")}
        columns = range(len(self.positions))
        tops = [[self._token(token) | {"p": p} for token, p in said.likeliest(column)] for column in columns]
        return {
            "stage": stage.name,
            "also": list(stage.also),
            "site": stage.site,
            "role": stage.role,
            "what": stage.what,
            "of": stage.of,
            **{name: numbers(values[row]) for name, values in measured.items()},
            "lens": {"top": tops, "p": floats(said.chance), "rank": whole(said.rank), "entropy": floats(said.entropy)},
            "shares": {name: numbers(share[row]) for name, share in self.shares.items()} if stage.role != "write" else None,
        }

    def _token(self, token: int) -> dict[str, Any]:
        return {"token": self.words.text(token), "id": token}


@torch.no_grad()
def stream(
    record: Record,
    *,
    positions: int | Iterable[int] | None = None,
    token: int | None = None,
    top: int = 5,
    words: Spoken | None = None,
    tell: Progress = silent,
) -> StreamView:
    """Look at the stream of a record of one text.

    ``positions`` limits the work to some of them; ``token`` is the one whose probability and rank are told at every stage, without it
    the one that the text goes on with. Memory does not grow with positions × vocabulary: of each stage's logits only the ``top`` are kept.

    >>> from headwater.model.presets import named
    >>> from headwater.model.record import record
    >>> from headwater.model.weights import Weights
    >>> view = stream(record(Weights.draw(named("one-layer"), seed=0), torch.tensor([[1, 2, 3]])))
    >>> [stage.names for stage in view.stages], list(view.shares)[:2]
    (['embed = L0.t0 = L0.t1', 'L0.t2', 'L0.t3 = L0.h = final'], ['embed', 'L0H0'])
    >>> bool(abs(sum(view.shares.values())[view.index("L0.h")] - 1).max() < 1e-5)
    True
    """
    if top < 1:
        raise InputError(f"the top {top}", "at least 1", "ask for one or more")
    seen = see(record, positions, tell)
    chosen = chosen_tokens(record, seen, token)
    split, sizes = shares_and_sizes(seen, tell)
    return StreamView(
        stages=seen.stages,
        positions=seen.positions,
        tokens=record.tokens[0],
        words=words or Spoken(getattr(record, "tokenizer", None)),
        **{name: measured(seen, name, tell) for name in VECTORS},
        chosen=chosen,
        was_asked=token is not None,
        lenses=lenses(seen, chosen, top=top, tell=tell),
        shares=split,
        norms=norms(seen),
        certificate=_certificate(split),
        bound=_bound(record, sizes),
    )


def _certificate(split: Mapping[str, Measured]) -> float:
    off = torch.stack(list(split.values())).double().sum(dim=0) - 1
    # A stream of nothing but zeros has no shares.
    return max(floats(off[~off.isnan()].abs()), default=0.0)


def _bound(record: Record, sizes: Measured) -> float:
    """Rounding of ``n`` products, added up: about ``√n`` units in the last place of their size, as in ``headwater.trace.check``.

    Of hundreds of random models in single precision the worst came to a quarter of it.
    """
    there = sizes[~sizes.isnan()]
    depth, unit = 4 * record.config.layers + 2, torch.finfo(record.weights.dtype).eps
    return 2 * unit * math.sqrt(record.config.d_model * depth) * max(floats(there), default=1.0)
