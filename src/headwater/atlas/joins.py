"""Skip-trigrams from the lists: the strongest of a head, and joined rows for every source, dest and out.

For each head, joined rows are, raising and lowering each by itself: the best few of every source and of every out, exactly; the best few of every
dest among its listed sources; and the strongest of all. Each stands there once. They are cut by the id that a person will look
up, and merged over all heads.
"""

from dataclasses import dataclass

import numpy as np
import torch
from jaxtyping import Float, Int
from numpy.typing import NDArray
from torch import Tensor

from headwater.atlas.lift import Looking, Speaking, Trigrams, among_the_first, best_of_each, strongest
from headwater.atlas.lists import Lists, looking_of, read_dense, read_lists
from headwater.atlas.manifest import WORK
from headwater.atlas.order import Order
from headwater.atlas.subject import DIRECT, Subject
from headwater.circuits.factored import Factored
from headwater.circuits.streamed.exact import dots
from headwater.circuits.streamed.lines import Lines
from headwater.files.atomic import new_file
from headwater.files.safetensors import read_tensors, write_tensors
from headwater.files.tables import read_table, write_table

DIRECTIONS = {"by_source": "source", "by_dest": "dest", "by_out": "out"}
GROUP = 32_768
"""Rows of a row group of joined rows: small, since a search wants a few lines of them."""


def files(order: Order, name: str) -> list[str]:
    """What is made for one head."""
    return [
        *(f"{WORK}/{way}/{name}.parquet" for way in DIRECTIONS),
        f"{WORK}/strongest/{name}.parquet",
        f"lines/{name}.safetensors",
    ]


def write_trigrams(order: Order, subject: Subject, name: str) -> None:
    """The skip-trigrams of one head."""
    looking, outputs = looking_of(order, subject, name), subject.outputs(name).to(device="cpu")
    looking = Looking(looking.scores.to(device="cpu"), looking.mass.cpu(), looking.others)
    raising, lowering = (_of_sign(_Head.of(order, name, looking, outputs, sign), order) for sign in (1, -1))
    _write_strongest(order, name, looking, raising.best, lowering.best.negated())
    _write_joined(order, name, looking, Trigrams.joined([raising.joined, lowering.joined.negated()]))
    write_lines(order, name, {"bound": raising.bound, "bound_lowering": lowering.bound})


@dataclass(frozen=True, eq=False)
class _Signed:
    """What is kept of a head's skip-trigrams of one sign."""

    best: Trigrams
    joined: Trigrams
    bound: Float[Tensor, " source"]


def _of_sign(head: "_Head", order: Order) -> _Signed:
    each, vocab = order.settings.each, order.plan.vocab
    best, some = strongest(head.speaking, order.settings.triples), head.joined(each)
    return _Signed(best, _once(Trigrams.joined([*some, best]), vocab), _bound(some[0], each, vocab))


def write_lines(order: Order, name: str, more: dict[str, Tensor] | None = None) -> None:
    """All that there is one number of for every token, in one file."""
    tables = ("says",) if name == DIRECT else ("says", "seeks", "sought")
    dense = {key: value for table in tables for key, value in read_dense(order, table, name).items()}
    if "own_rank" not in dense:
        dense |= read_tensors(order.path(f"{WORK}/own/{name}.safetensors"))
    with new_file(order.path(f"lines/{name}.safetensors")) as path:
        write_tensors(path, dict(sorted((dense | (more or {})).items())))


@dataclass(frozen=True, eq=False)
class _Head:
    """A head's lists on the way to skip-trigrams that raise an output; for those that lower one, with every output negated."""

    speaking: Speaking
    seeks: Lists
    said: Int[Tensor, "out k"]

    @staticmethod
    def of(order: Order, name: str, looking: Looking, outputs: Factored, sign: int) -> "_Head":
        dests = read_lists(order, "sought", name, ("dest", "score")).top
        says, said = (
            read_lists(order, table, name, (other, "output")) for table, other in (("says", "out"), ("said", "source"))
        )
        outs, sources = (says.top, said.top) if sign > 0 else (says.bottom, said.bottom)
        speaking = Speaking(
            looking,
            Factored(sign * outputs.left, outputs.right),
            Lines(dests["dest"], dests["score"] - looking.mass[dests["dest"]], 0.0),
            Lines(outs["out"], sign * outs["output"], 0.0),
        )
        return _Head(speaking, read_lists(order, "seeks", name, ("source", "score")), sources["source"])

    def joined(self, each: int) -> tuple[Trigrams, Trigrams, Trigrams]:
        """The best few of every source, every out and every dest."""
        by_out, by_dest = self._of_outs(each), self._of_dests(each)
        return (
            self.speaking.listed().best_of_each(each),
            best_of_each(by_out, by_out.out, each),
            best_of_each(by_dest, by_dest.dest, each),
        )

    def _of_outs(self, each: int) -> Trigrams:
        """Of every out the sources that raise it most, each with its best dests: the n-th of these cannot come before the n-th of those."""
        i, j = _triangle(each, self.said.shape[1], self.speaking.dests.ids.shape[1])
        source, outputs = self.said[:, i], self.speaking.outputs
        out = torch.arange(len(self.said))[:, None].expand_as(source)
        output = dots(outputs.left, outputs.right.T, source.flatten(), out.flatten()).view(source.shape)
        dests = self.speaking.dests
        return self._first(each, source, dests.ids[source, j], out, dests.values[source, j], output)

    def _of_dests(self, each: int) -> Trigrams:
        """Of every dest its listed sources, each with what is said most."""
        outs, width = self.speaking.outs, min(each, self.speaking.outs.ids.shape[1])
        sources = self.seeks.top["source"].repeat_interleave(width, dim=1)
        lead = (self.seeks.top["score"] - self.speaking.looking.mass[:, None]).repeat_interleave(width, dim=1)
        nth = torch.arange(width).repeat(self.seeks.top["source"].shape[1])
        dest = torch.arange(len(sources))[:, None].expand_as(sources)
        return self._first(each, sources, dest, outs.ids[sources, nth], lead, outs.values[sources, nth])

    def _first(self, each: int, source: Tensor, dest: Tensor, out: Tensor, lead: Tensor, output: Tensor) -> Trigrams:
        """What can be among the best of its line, a row of each of these."""
        attention = self.speaking.looking.attention(lead)
        chosen = among_the_first(attention * output, each)
        return Trigrams(*(one[chosen] for one in (source, dest, out, lead, output, attention, attention * output)))


def _bound(listed: Trigrams, each: int, vocab: int) -> Tensor:
    """For every source: each of its skip-trigrams of this sign with a larger lift, in size, is among the joined rows."""
    counts = torch.bincount(listed.source, minlength=vocab)
    last = (counts.cumsum(0) - 1).clamp(min=0)
    return torch.where(counts == each, listed.lift[last], 0.0) if len(listed) else torch.zeros(vocab, dtype=torch.float64)


def _triangle(each: int, across: int, down: int) -> tuple[Tensor, Tensor]:
    """Places ``i, j`` from 0 on with ``i + j < each``."""
    i, j = torch.meshgrid(torch.arange(min(each, across)), torch.arange(min(each, down)), indexing="ij")
    return i[i + j < each], j[i + j < each]


def _once(triples: Trigrams, vocab: int) -> Trigrams:
    """Each triple one time only, by source, dest and out."""
    # One number for all three: a vocabulary of two million would still fit.
    keys, order = ((triples.source * vocab + triples.dest) * vocab + triples.out).sort(stable=True)
    return triples.some(order[torch.cat([keys.new_ones(min(1, len(keys))).bool(), keys[1:] != keys[:-1]])])


def _columns(triples: Trigrams, looking: Looking) -> dict[str, NDArray[np.generic]]:
    ids = {name: getattr(triples, name).numpy().astype(np.uint32) for name in DIRECTIONS.values()}
    score = looking.score(triples.dest, triples.source)
    return {**ids, "score": score.numpy(), **{name: getattr(triples, name).numpy() for name in ("output", "attention", "lift")}}


def _write_strongest(order: Order, name: str, looking: Looking, raising: Trigrams, lowering: Trigrams) -> None:
    """Raising ones by falling lift with places 1, 2 …, before them lowering ones: sorted by place."""
    back = torch.arange(len(lowering)).flip(0)
    place = np.concatenate([-1 - back.numpy(), 1 + np.arange(len(raising))]).astype(np.int32)
    columns = _columns(Trigrams.joined([lowering.some(back), raising]), looking)
    write_table(order.path(f"{WORK}/strongest/{name}.parquet"), {"place": place, **columns})


def _write_joined(order: Order, name: str, looking: Looking, triples: Trigrams) -> None:
    """The same rows three times, each time by another id."""
    columns = _columns(triples, looking)
    head = np.full(len(triples), order.plan.heads.index(name), np.uint16)
    rows = {
        "head": head,
        **{key: value.astype(np.float32) if value.dtype.kind == "f" else value for key, value in columns.items()},
    }
    for way, key in DIRECTIONS.items():
        by_id = np.argsort(rows[key], kind="stable")
        write_table(
            order.path(f"{WORK}/{way}/{name}.parquet"), {key: value[by_id] for key, value in rows.items()}, groups=GROUP
        )


def write_merged(order: Order, way: str, part: int) -> None:
    """The joined rows of all heads for some ids, sorted by id, then by falling size of lift."""
    key, (first, end) = DIRECTIONS[way], order.edges[part : part + 2]
    rows = read_table([order.path(f"{WORK}/{way}/{name}.parquet") for name in order.plan.heads], between=(key, first, end - 1))
    others = [rows[each] for each in DIRECTIONS.values() if each != key]
    chosen = np.lexsort((*reversed(others), rows["head"], -np.abs(rows["lift"]), rows[key]))
    write_table(
        order.path(f"trigrams/{way}/{part:03d}.parquet"), {each: value[chosen] for each, value in rows.items()}, groups=GROUP
    )


def write_all_strongest(order: Order) -> None:
    """The strongest of all heads in one table, with their places among all: equal lifts by head, then as in the head."""
    parts = [read_table(order.path(f"{WORK}/strongest/{name}.parquet")) for name in order.plan.heads]
    head = np.repeat(np.arange(len(parts), dtype=np.uint16), [len(part["place"]) for part in parts])
    rows = {key: np.concatenate([part[key] for part in parts]) for key in parts[0]}
    in_model = np.zeros(len(head), np.int32)
    for sign in (1, -1):
        mine = (rows["place"] * sign > 0).nonzero()[0]
        order_of = mine[np.lexsort((sign * rows["place"][mine], head[mine], -sign * rows["lift"][mine]))][
            : order.settings.triples
        ]
        in_model[order_of] = sign * np.arange(1, len(order_of) + 1)
    write_table(
        order.path("strongest.parquet"),
        {"head": head, "place": rows.pop("place"), "in_model": np.ma.masked_equal(in_model, 0), **rows},
    )
