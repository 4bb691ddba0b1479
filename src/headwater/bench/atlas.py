# pyright: basic, reportMissingImports=false
# Peers carry no types.
"""One head of an atlas at GPT-2-small shape: every table that it is made of, written to disk, beside plain torch and faiss finding the same.

The peers only find: they write nothing. Plain torch does all that the tables hold. faiss does the lists alone, no ranks, means, spreads or sums; what
it needs of sums to list dests is given to it. How long all heads take is one head's time times their number.
"""

import atexit
import math
import shutil
import tempfile
from collections.abc import Callable
from dataclasses import replace
from typing import Any

import torch

from headwater.bench.contest import THREADS, Result, absent, close, contest
from headwater.bench.goals import Goal, Table, at_most, beside, shown
from headwater.bench.machine import EDGE, bytes_products
from headwater.bench.phases import functions

VOCAB, INNER, K, HEADS = 50_257, 64, 16, 144
HEAD, ROUNDS = "L0H3", 1
TITLE = f"The atlas: one head at GPT-2-small shape ({VOCAB:,} tokens, d_head {INNER}), random weights, k = {K}"
TABLES = {
    "says": "OV: headwater, top and bottom of every source, own ranks, means, spreads",
    "seeks": "QK: headwater, top sources of every dest, log-sum-exps",
    "sought": "QK: headwater, top dests of every source",
    "said": "lift: headwater, sources that raise and lower every out most",
    "trigrams": "lift: headwater, strongest skip-trigrams and joined rows",
}
OV, QK = "OV: {}, the same found", "QK: {}, the same found"
TORCH, FAISS = "plain torch", "faiss (lists alone)"
PEAK, LOOP, MODEL = "a float32 GEMM", "our loop over bytes", "the model alone"
PRODUCT = 2 * VOCAB**2 * INNER
PRODUCTS = {TABLES["says"]: 1, TABLES["seeks"]: 1, TABLES["sought"]: 1, TABLES["said"]: 1}
PRODUCTS |= {OV.format(TORCH): 1, QK.format(TORCH): 2, OV.format(FAISS): 2, QK.format(FAISS): 2}
"""How often all entries are needed once."""

COMPLETE = (
    "A complete table has own ranks and sums of exponentials besides its lists. For these every product is needed once, in bytes for the"
    " first and in float32 for the second: on two cores without instructions for products of bytes, that alone takes the limit."
)


def jobs(folder: str) -> dict[str, str]:
    """Every job; those that write have a folder each."""
    return {
        **{name: f"atlas:ours:{kind}:{folder}/{kind}" for kind, name in TABLES.items()},
        OV.format(TORCH): "atlas:plain:says",
        QK.format(TORCH): "atlas:plain:seeks",
        OV.format(FAISS): "atlas:by_faiss:says",
        QK.format(FAISS): "atlas:by_faiss:seeks",
        PEAK: "machine:gemm:float32",
        LOOP: "machine:bytes_loop",
        MODEL: "atlas:model",
    }


def table(rounds: int) -> Table:
    with tempfile.TemporaryDirectory() as folder:
        results = contest(jobs(folder), rounds)
    _same(results)
    model, peak, loop = (results.pop(name) for name in (MODEL, PEAK, LOOP))
    speed = 2 * EDGE**3 / peak.seconds
    memory = {name: result.megabytes for name, result in results.items()}
    # Preparing runs earlier tasks: what those have left behind, libraries and all, counts too.
    memory |= {name: memory[name] + results[name].resident - model.resident for name in TABLES.values()}
    rows = [["", "seconds", "MB over the model", "products, as a share of a float32 GEMM's speed"]]
    for name, result in results.items():
        share = PRODUCTS.get(name, math.nan) * PRODUCT / result.seconds / speed
        rows.append([name, shown(result.seconds), shown(memory[name], 0), "" if math.isnan(share) else f"{share:.0%}"])
    each = [results[name].seconds for name in TABLES.values()]
    rows.append([f"all {2 * HEADS} circuits, from these: OV and QK tables", shown(HEADS * sum(each[:3]), 0), "", ""])
    rows.append([f"all {HEADS} heads, from these: every table", shown(HEADS * sum(each), 0), "", ""])
    in_bytes, in_floats = VOCAB**2 * INNER * loop.seconds / bytes_products(), PRODUCT / speed
    rows.append(["all products of a circuit in our loop over bytes at its peak", shown(in_bytes), "", ""])
    rows.append(["all products of a circuit at the speed of a float32 GEMM", shown(in_floats), "", ""])
    most = max(memory[name] for name in TABLES.values())
    memory_goal = at_most("every table, memory over the model", most, 1024.0, unit="MB")
    return Table(rows, [*_goals(results, in_bytes, in_floats), memory_goal], absent(results))


def _goals(results: dict[str, Result], in_bytes: float, in_floats: float) -> list[Goal]:
    """Bytes can filter lists, but sums of exponentials need floats: the least of QK is one pass of each."""
    ov, seeks, sought = (results[name].seconds for name in list(TABLES.values())[:3])
    qk, least = seeks + sought, in_bytes + in_floats
    goals = [
        at_most("OV, one circuit", ov, 0.6, unit="s", limit=in_bytes, why="atlas:why:says", because=COMPLETE),
        at_most("QK, one circuit", qk, 0.6, unit="s", limit=least, why="atlas:why:seeks:sought", because=COMPLETE),
        at_most(
            f"tables of all {2 * HEADS} circuits", HEADS * (ov + qk) / 60, 5.0, unit="minutes", limit=HEADS * (in_bytes + least) / 60,
            because=COMPLETE,
        ),
    ]  # fmt: skip
    for peer in (TORCH, FAISS):
        goals.append(beside(f"OV, times faster than {peer}", results[OV.format(peer)].seconds / ov))
        goals.append(beside(f"QK, times faster than {peer}", results[QK.format(peer)].seconds / qk))
    return goals


def why(*kinds: str):
    """By steps: what is calculated from the vocabulary, found, and written."""
    from headwater.atlas import lists
    from headwater.atlas.subject import Subject
    from headwater.circuits.factored import Factored
    from headwater.circuits.streamed import fused, sums, survey

    places = {
        "factors of the circuit": (Subject, "says" if "says" in kinds else "scores"),
        "turning and balancing factors in float64": (fused, "balanced"),
        "floors guessed from a sample": (fused._Guess, "of"),
        "the loop: integers filter, float64 decides": (fused._Run, "over"),
        "lines looked at again": (fused._Run, "scan"),
        "sums of exponentials in float32": (sums, "scan"),
        "answers settled": (survey, "settle"),
        "own ranks settled": (survey, "settle_ranks"),
        "means of rows": (Factored, "row_means"),
        "spreads of rows": (Factored, "row_spreads"),
        "lists written to disk": (lists, "write_list"),
        "dense numbers written to disk": (lists, "write_dense"),
    }
    folder = tempfile.mkdtemp()
    atexit.register(shutil.rmtree, folder, ignore_errors=True)
    runs = [ours(kind, folder) for kind in kinds]
    return functions(lambda: [run() for run in runs], places)


def _same(results: dict[str, Result]) -> None:
    """Every job gives the sum of the sizes of what it listed."""
    for circuit, names in ((OV, [TABLES["says"]]), (QK, [TABLES["seeks"], TABLES["sought"]])):
        found = Result(answer=sum(results[name].answer for name in names))
        close(circuit, (found, results[circuit.format(TORCH)], results[circuit.format(FAISS)]), 1e-4)


def _subject(vocab: int = VOCAB):
    from headwater.atlas.settings import Settings
    from headwater.atlas.subject import Subject
    from headwater.model.presets import named
    from headwater.model.weights import Weights

    # Every layer's heads are alike: one layer is enough.
    weights = Weights.draw(replace(named("gpt2-small"), vocab=vocab, layers=1), seed=0)
    return Subject(weights, torch.full((vocab,), 1 / vocab, dtype=torch.float64), Settings(others=1023, k=K))


def _order(folder: str, settings, vocab: int):
    """An atlas of the whole model, so that joined rows are cut into as many parts as they would be."""
    from headwater.atlas.order import Order, Plan
    from headwater.circuits.head import every_head
    from headwater.model.presets import named

    heads = tuple(map(str, every_head(named("gpt2-small"))))
    return Order(Plan(format="bench", model="", vocab=vocab, heads=heads, settings=settings, libraries=()), "", folder)


def _performer(folder: str, vocab: int = VOCAB):
    """What does one task as it is, files and all; and the order that it is of."""
    from headwater.atlas import joins, lists
    from headwater.atlas.tasks import Task

    subject = _subject(vocab)
    order = _order(folder, subject.settings, vocab)

    @torch.no_grad()
    def perform(name: Any) -> None:
        for file in Task(name, HEAD).files(order):
            order.path(file).parent.mkdir(parents=True, exist_ok=True)
        if name == "trigrams":
            joins.write_trigrams(order, subject, HEAD)
        else:
            getattr(lists, f"write_{name}")(order, subject, HEAD, 0)

    return perform, order


def ours(kind: str, folder: str) -> Callable[[], float]:
    """One task, once those that it needs have run; gives the sum of the sizes of what it listed."""
    from headwater.files.tables import read_table

    perform, order = _performer(folder)
    before = {"sought": ("seeks",), "said": ("seeks", "sought"), "trigrams": ("says", "seeks", "sought", "said")}
    for name in (*before.get(kind, ()), kind):
        perform(name)
    column = {"says": "output", "seeks": "score", "sought": "score"}.get(kind)
    answer = float(abs(read_table(order.parts(kind, HEAD), [column])[column]).sum()) if column else 0.0

    def run() -> float:
        perform(kind)
        return answer

    return run


def lists(folder: str, vocab: str) -> Callable[[], None]:
    """All lists of one head over a vocabulary of this size."""
    perform, _ = _performer(f"{folder}/{vocab}", int(vocab))

    def run() -> None:
        for name in ("says", "seeks", "sought", "said"):
            perform(name)

    return run


def _circuits(kind: str) -> tuple[torch.Tensor, torch.Tensor]:
    subject = _subject()
    with torch.no_grad():
        circuit = subject.outputs(HEAD) if kind == "says" else subject.scores(HEAD)
        return circuit.left.contiguous(), circuit.right.T.contiguous()


def plain(kind: str) -> Callable[[], float]:
    left, right = _circuits(kind)
    run = _plain_says if kind == "says" else _plain_looks
    return torch.no_grad()(lambda: run(left, right))


def _plain_says(left: torch.Tensor, right: torch.Tensor) -> float:
    total = 0.0
    for start in range(0, VOCAB, 512):
        tile = left[start : start + 512] @ right.T
        own = tile[torch.arange(len(tile)), torch.arange(start, start + len(tile))]
        kept = [tile.topk(K, dim=1, largest=up).values for up in (True, False)]
        _ = (tile > own[:, None]).sum(dim=1), torch.std_mean(tile, dim=1)
        total += sum(float(values.double().abs().sum()) for values in kept)
    return total


def _plain_looks(left: torch.Tensor, right: torch.Tensor) -> float:
    total, mass, by_source = 0.0, torch.empty(VOCAB), left.T.contiguous()
    for start in range(0, VOCAB, 512):
        tile = left[start : start + 512] @ right.T
        mass[start : start + 512] = tile.logsumexp(dim=1)
        total += float(tile.topk(K, dim=1).values.double().abs().sum())
    for start in range(0, VOCAB, 512):
        tile = right[start : start + 512] @ by_source
        found = (tile - mass).topk(K, dim=1)
        total += float(tile.gather(1, found.indices).double().abs().sum())
    return total


def by_faiss(kind: str) -> Callable[[], float]:
    import faiss

    faiss.omp_set_num_threads(THREADS)
    left, right = _circuits(kind)
    if kind == "says":
        asked, masses = [(left, right), (-left, right)], [None, None]
    else:
        with torch.no_grad():
            mass = torch.cat([(block @ right.T).logsumexp(dim=1) for block in left.split(512)])
        wider = (torch.cat([right, right.new_ones(VOCAB, 1)], dim=1), torch.cat([left, -mass[:, None]], dim=1))
        asked, masses = [(left, right), wider], [None, mass]

    def run() -> float:
        total = 0.0
        for number, (queries, keys) in enumerate(asked):
            index = faiss.IndexFlatIP(keys.shape[1])
            index.add(keys.numpy())
            values, ids = (torch.from_numpy(each) for each in index.search(queries.numpy(), K))
            found = values if (mass := masses[number]) is None else values + mass[ids]
            total += float(found.double().abs().sum())
        return total

    return run


def model() -> Callable[[], None]:
    subject = _subject()

    def run() -> None:
        assert subject.config.vocab == VOCAB

    return run
