"""The pieces of work that an atlas is made of: each a pure function of the model, whose result is some files.

========  =========================  ======================================================================================
stage     for each                   makes
========  =========================  ======================================================================================
says      head (and direct), lines   for every source its largest and smallest outputs
own       head (and direct)          where every token stands in its own row, where no says task sees all rows
seeks     head, lines                for every dest its highest scores, and its mass
sought    head, lines                for every source the dests that attend to it most; needs all masses
said      head, lines                for every out the sources that raise and lower it most; needs the best attention of sources
trigrams  head                       the strongest skip-trigrams, and joined rows, cut by id
merge     direction, ids             joined rows of all heads, sorted for one look-up direction
========  =========================  ======================================================================================

A task whose files are there is done. Two that do the same write the same bytes, so it does no harm to do one twice.
"""

from dataclasses import dataclass
from typing import Literal, TypeAlias

import torch

from headwater.atlas import joins, lists
from headwater.atlas.manifest import WORK
from headwater.atlas.order import Order, subject_of
from headwater.atlas.subject import DIRECT

Kind: TypeAlias = Literal["says", "own", "seeks", "sought", "said", "trigrams", "merge"]


@dataclass(frozen=True)
class Task:
    """One piece of work."""

    kind: Kind
    name: str
    """A head, ``direct``, or the direction that joined rows are sorted for."""
    first: int = 0
    """Its first line, or the number of the part."""

    def key(self, order: Order) -> str:
        """A name that no other task of any atlas has: engines know by it what they have done."""
        return f"{self.kind}-{self.name}-{self.first}-{order.sha256[:16]}"

    def files(self, order: Order) -> list[str]:
        """What it makes."""
        match self.kind:
            case "own":
                return [f"{WORK}/own/{self.name}.safetensors"]
            case "trigrams":
                return joins.files(order, self.name)
            case "merge":
                return [f"trigrams/{self.name}/{self.first:03d}.parquet"]
            case _:
                return lists.files_of(order, self.kind, self.name, self.first)

    def is_done(self, order: Order) -> bool:
        """Whether all its files are there: none is before it is whole."""
        return all(order.path(name).exists() for name in self.files(order))


def perform(order: Order, task: Task) -> None:
    """Do a piece of work, unless it is done."""
    if task.is_done(order):
        return
    for file in task.files(order):
        order.path(file).parent.mkdir(parents=True, exist_ok=True)
    with torch.no_grad():
        _do(order, task)


def _do(order: Order, task: Task) -> None:
    match task.kind:
        case "says":
            lists.write_says(order, subject_of(order), task.name, task.first)
        case "own":
            lists.write_own(order, subject_of(order), task.name)
        case "seeks":
            lists.write_seeks(order, subject_of(order), task.name, task.first)
        case "sought":
            lists.write_sought(order, subject_of(order), task.name, task.first)
        case "said":
            lists.write_said(order, subject_of(order), task.name, task.first)
        case "trigrams":
            joins.write_trigrams(order, subject_of(order), task.name)
        case "merge":
            joins.write_merged(order, task.name, task.first)


def stages(order: Order) -> list[list[Task]]:
    """All tasks; those of a stage need nothing but earlier stages."""
    heads, starts = order.plan.heads, order.starts
    lines = [[Task(kind, head, first) for head in heads for first in starts] for kind in ("seeks", "sought", "said")]
    says = [Task("says", name, first) for name in (DIRECT, *heads) for first in starts]
    own = [Task("own", name) for name in (DIRECT, *heads)] if len(starts) > 1 else []
    merges = [Task("merge", way, part) for way in joins.DIRECTIONS for part in range(len(order.edges) - 1)] if heads else []
    found = [says + own + lines[0], lines[1], lines[2], [Task("trigrams", head) for head in heads], merges]
    return [stage for stage in found if stage]
