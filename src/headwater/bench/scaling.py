"""Seconds and bytes of each kind of task of an atlas, one at a time with one thread: the numbers of docs/scaling.md.

python -m headwater.bench.scaling            the reference one-layer model, and one head of GPT-2-small shape with random weights
"""

import sys
import tempfile
import time
from dataclasses import replace
from pathlib import Path
from typing import NoReturn

import torch

from headwater import Model
from headwater.atlas.build import AtlasChoices, build_atlas
from headwater.atlas.joins import DIRECTIONS
from headwater.atlas.order import Order
from headwater.atlas.tasks import Task, perform, stages
from headwater.model.presets import named
from headwater.model.weights import Weights

HEADS = ("L0H3", "L0H4", "L0H5")


class StopError(Exception):
    """A build that goes no further than its order."""


class Stop:
    """Whoever does nothing."""

    def start(self, order: Order) -> NoReturn:
        """Say what was to be done."""
        raise StopError(order)


def order_of(model: str | Path, folder: Path) -> Order:
    try:
        build_atlas(model, folder, AtlasChoices(), engine=Stop())
    except StopError as stopped:
        return stopped.args[0]
    raise AssertionError("nothing was to be done")


def do(order: Order, task: Task) -> tuple[float, int]:
    """Seconds and bytes."""
    begin = time.perf_counter()
    perform(order, task)
    return time.perf_counter() - begin, sum(order.path(file).stat().st_size for file in task.files(order))


def measure(model: str | Path, folder: Path, heads: tuple[str, ...], layers: int = 1) -> None:
    """The best of several heads: what is compiled or read once is not part of a task. Joined rows are cut for an atlas of so many layers."""
    order = order_of(model, folder)
    every = tuple(name.replace("L0", f"L{layer}") for layer in range(layers) for name in order.plan.heads)
    order = replace(order, plan=replace(order.plan, heads=every))
    vocab, k, each = order.plan.vocab, order.settings.k, order.settings.each
    _say(f"\n{vocab:,} tokens, {len(order.plan.heads)} heads, k = {k}, each = {each}, {len(order.edges) - 1} parts\n")
    _say("| task | seconds | bytes |\n|---|---|---|")
    for stage in stages(order):
        for kind in dict.fromkeys(task.kind for task in stage):
            mine = [task for task in stage if task.kind == kind and task.name in (*heads, *DIRECTIONS)]
            if kind == "merge" and len(heads) < len(order.plan.heads):
                continue
            found = [do(order, task) for task in mine]
            seconds, size = min(each[0] for each in found), sum(each[1] for each in found) / len(found)
            _say(f"| {kind} | {seconds:.2f} | {size:,.0f} |")


def _say(line: str) -> None:
    sys.stdout.write(f"{line}\n")
    sys.stdout.flush()


def main() -> None:
    torch.set_num_threads(1)
    with tempfile.TemporaryDirectory() as folder:
        measure("one-layer", Path(folder) / "one-layer", tuple(f"L0H{number}" for number in range(8)))
        # Every layer's heads are alike: one layer of GPT-2's is enough.
        weights = Weights.draw(replace(named("gpt2-small"), layers=1), seed=0)
        Model(weights).save(Path(folder) / "random")
        measure(Path(folder) / "random", Path(folder) / "gpt2-shape", HEADS, layers=12)


if __name__ == "__main__":
    main()
