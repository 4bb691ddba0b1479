"""The factored tables: a few entries of every line of what a head looks for and of what it says.

On disk a list is one row for each entry, sorted by line and place: places −k … −1 are the smallest (−1 the very smallest), 1 … k the
largest. What there is one number of for every line is kept beside it, dense.
"""

from collections.abc import Mapping
from dataclasses import dataclass
from pathlib import Path

import numpy as np
import torch
from jaxtyping import Float, Int
from torch import Tensor

from headwater.atlas.lift import Looking
from headwater.atlas.manifest import WORK
from headwater.atlas.order import Order
from headwater.atlas.subject import DIRECT, Subject
from headwater.circuits.factored import Factored
from headwater.circuits.streamed.exact import dots
from headwater.circuits.streamed.lines import Lines
from headwater.circuits.streamed.scan import Wants
from headwater.circuits.streamed.survey import survey
from headwater.files.atomic import new_file
from headwater.files.safetensors import read_tensors, write_tensors
from headwater.files.tables import read_table, write_table


def write_says(order: Order, subject: Subject, name: str, first: int) -> None:
    """For every source its largest and smallest outputs, and where its own stands; mean and spread of the whole row."""
    raw, lines, k = subject.says(name), slice(first, first + order.settings.rows), order.settings.k
    outputs, is_direct = raw.centred_rows(), name == DIRECT
    wants = Wants(
        top_rows=k,
        bottom_rows=k,
        own_ranks=len(order.starts) == 1,
        logsumexp=outputs.right.new_zeros(outputs.shape[1]) if is_direct else None,
    )
    found = survey(outputs.left[lines], outputs.right.T, wants)
    # Of all rows, since a product of a few has other last digits than that of many.
    dense = {"mean": raw.row_means()[lines], "spread": raw.row_spreads()[lines]}
    dense |= {"own_rank": found.own_ranks} if found.own_ranks is not None else {}
    dense |= {"log_normaliser": subject.rounded(found.logsumexp)} if found.logsumexp is not None else {}
    assert found.top_rows is not None, "it was asked for"
    assert found.bottom_rows is not None, "it was asked for"
    listed = Listed(first, found.top_rows, found.bottom_rows)
    write_list(order.path(files_of(order, "says", name, first)[0]), ("source", "out"), listed, {"output": listed.values})
    write_dense(order, "says", name, first, dense)


def write_own(order: Order, subject: Subject, name: str) -> None:
    """Where every token stands in its own row, where rows are divided among tasks of which none sees the whole square."""
    with new_file(order.path(f"{WORK}/own/{name}.safetensors")) as path:
        write_tensors(path, {"own_rank": subject.outputs(name).own_ranks().cpu()})


def write_seeks(order: Order, subject: Subject, name: str, first: int) -> None:
    """For every dest its highest scores, and its mass."""
    scores, lines = subject.scores(name), slice(first, first + order.settings.rows)
    mine = Factored(scores.left[lines], scores.right)
    found, mass = mine.top_rows(order.settings.k), subject.mass(scores, lines)
    listed = Listed(first, found)
    attention = Looking(mine, mass, order.settings.others).attention(found.values - mass[:, None])
    columns = {"score": listed.values, "attention": attention}
    write_list(order.path(files_of(order, "seeks", name, first)[0]), ("dest", "source"), listed, columns)
    write_dense(order, "seeks", name, first, {"mass": mass})


def write_sought(order: Order, subject: Subject, name: str, first: int) -> None:
    """For every source the dests that pay it most attention."""
    looking, lines = looking_of(order, subject, name), slice(first, first + order.settings.rows)
    mine = Factored(looking.leads.left[lines], looking.leads.right)
    found = mine.top_rows(order.settings.k)
    listed, sources = Listed(first, found), torch.arange(first, first + len(found.ids), device=found.ids.device)
    score = looking.score(found.ids, sources[:, None].expand_as(found.ids))
    attention = looking.attention(found.values)
    write_list(
        order.path(files_of(order, "sought", name, first)[0]),
        ("source", "dest"), listed, {"score": score, "attention": attention},
    )  # fmt: skip
    write_dense(order, "sought", name, first, {"best_attention": attention[:, 0]})


def write_said(order: Order, subject: Subject, name: str, first: int) -> None:
    """For every out the sources that raise and lower it most, each at the dest that attends to it most."""
    outputs, lines = subject.outputs(name), slice(first, first + order.settings.rows)
    best = read_dense(order, "sought", name)["best_attention"].to(outputs.left.device)
    ours, theirs, k = outputs.right.T[lines].double(), best[:, None] * outputs.left.double(), order.settings.k
    found = survey(ours, theirs, Wants(top_rows=k, bottom_rows=k))
    assert found.top_rows is not None, "it was asked for"
    assert found.bottom_rows is not None, "it was asked for"
    top = _by_lift(outputs, best, found.top_rows.ids, first)
    bottom = _by_lift(-outputs, best, found.bottom_rows.ids, first)
    output, lift = (Listed(first, up, down.negated()) for up, down in zip(top, bottom, strict=True))
    columns = {"output": output.values, "lift": lift.values}
    write_list(order.path(files_of(order, "said", name, first)[0]), ("out", "source"), lift, columns)


def _by_lift(outputs: Factored, best: Tensor, sources: Int[Tensor, "out k"], first: int) -> tuple[Lines, Lines]:
    """Outputs and lifts of these sources, the largest lift first; a product of weighted factors, by which they were found, rounds otherwise."""
    sources = sources.sort(dim=1).values
    outs = torch.arange(first, first + len(sources), device=sources.device)[:, None].expand_as(sources)
    output = dots(outputs.left, outputs.right.T, sources.flatten(), outs.flatten()).view(sources.shape)
    lift = best[sources] * output
    order = lift.argsort(dim=1, descending=True, stable=True)
    sources, output, lift = (each.gather(1, order) for each in (sources, output, lift))
    return Lines(sources, output, 0.0), Lines(sources, lift, 0.0)


def files_of(order: Order, table: str, name: str, first: int) -> list[str]:
    """What a task of one of these tables makes: the list, and what there is one number of for every line."""
    place = f"{WORK}/{table}" if name == DIRECT else table
    dense = [] if table == "said" else [order.part(f"{WORK}/{table}", name, first, "safetensors")]
    return [order.part(place, name, first), *dense]


@dataclass(frozen=True, eq=False)
class Listed:
    """The lists of some lines, beginning with line ``first``: smallest and largest side by side."""

    first: int
    top: Lines
    bottom: Lines | None = None

    @property
    def ids(self) -> Int[Tensor, "line place"]:
        """Of the other axis."""
        return self.top.ids if self.bottom is None else torch.cat([self.bottom.ids.flip(1), self.top.ids], dim=1)

    @property
    def values(self) -> Float[Tensor, "line place"]:
        """The entries."""
        return self.top.values if self.bottom is None else torch.cat([self.bottom.values.flip(1), self.top.values], dim=1)

    @property
    def places(self) -> Int[Tensor, " place"]:
        """−k … −1, 1 … k."""
        up = torch.arange(1, self.top.ids.shape[1] + 1)
        return up if self.bottom is None else torch.cat([-up.flip(0), up])


def write_list(path: Path, names: tuple[str, str], listed: Listed, columns: Mapping[str, Tensor]) -> None:
    """One row for each entry: the line, the place, the other axis' id, and numbers."""
    count, width = listed.ids.shape
    write_table(
        path,
        {
            names[0]: np.repeat(np.arange(listed.first, listed.first + count, dtype=np.uint32), width),
            "place": np.tile(listed.places.numpy().astype(np.int16), count),
            names[1]: listed.ids.flatten().cpu().numpy().astype(np.uint32),
            **{name: column.flatten().cpu().numpy() for name, column in columns.items()},
        },
    )


@dataclass(frozen=True, eq=False)
class Lists:
    """All lists of a table, the furthest first: the largest of every line, and the smallest where they are listed."""

    top: dict[str, Tensor]
    bottom: dict[str, Tensor]


def read_lists(order: Order, table: str, name: str, columns: tuple[str, ...]) -> Lists:
    """What ``write_list`` wrote: for each column ``[line, place]``."""
    found = read_table(order.parts(table, name), ["place", *columns])
    width = len(found["place"]) // order.plan.vocab
    below = int((found["place"][:width] < 0).sum())
    whole = {
        column: torch.from_numpy(np.ascontiguousarray(found[column].reshape(-1, width))).to(
            torch.float64 if found[column].dtype.kind == "f" else torch.int64
        )
        for column in columns
    }
    return Lists(
        {column: values[:, below:] for column, values in whole.items()},
        {column: values[:, :below].flip(1) for column, values in whole.items()},
    )


def write_dense(order: Order, table: str, name: str, first: int, tensors: Mapping[str, Tensor]) -> None:
    """Numbers of lines."""
    with new_file(order.path(order.part(f"{WORK}/{table}", name, first, "safetensors"))) as path:
        write_tensors(path, {key: tensor.cpu() for key, tensor in tensors.items()})


def read_dense(order: Order, table: str, name: str) -> dict[str, Tensor]:
    """Numbers of all lines."""
    parts = [read_tensors(path) for path in order.parts(f"{WORK}/{table}", name, "safetensors")]
    return {key: torch.cat([part[key] for part in parts]) for key in parts[0]}


def looking_of(order: Order, subject: Subject, name: str) -> Looking:
    """How a head's dests look at sources, once all masses are known."""
    scores = subject.scores(name)
    return Looking(scores, read_dense(order, "seeks", name)["mass"].to(scores.left.device), order.settings.others)
