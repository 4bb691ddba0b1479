"""One head of an atlas at GPT-2-small shape: every table that it is made of, written to disk, beside plain torch and faiss finding the same.

The peers only find: they write nothing. Plain torch does all that the tables hold. faiss does the lists alone, no ranks, means, spreads or sums; what
it needs of sums to list dests is given to it. How long all heads take is one head's time times their number.
"""

import tempfile
from collections.abc import Callable
from dataclasses import replace

import torch

from contest import THREADS, Result, contest

VOCAB, INNER, K, HEADS = 50_257, 64, 16, 144
HEAD = "L0H3"
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
PEAK, MODEL = "float32 GEMM, 4,096³", "the model alone"
PRODUCT = 2 * VOCAB**2 * INNER
PRODUCTS = {TABLES["says"]: 1, TABLES["seeks"]: 1, TABLES["sought"]: 1, TABLES["said"]: 1}
PRODUCTS |= {OV.format(TORCH): 1, QK.format(TORCH): 2, OV.format(FAISS): 2, QK.format(FAISS): 2}
"""How often all entries are needed once."""


def jobs(folder: str) -> dict[str, str]:
    """Every job; those that write have a folder each."""
    return {
        **{name: f"atlas:ours:{kind}:{folder}/{kind}" for kind, name in TABLES.items()},
        OV.format(TORCH): "atlas:plain:says",
        QK.format(TORCH): "atlas:plain:seeks",
        OV.format(FAISS): "atlas:by_faiss:says",
        QK.format(FAISS): "atlas:by_faiss:seeks",
        PEAK: "atlas:peak",
        MODEL: "atlas:model",
    }


def table(rounds: int) -> tuple[list[list[str]], list[dict[str, object]]]:
    """Rows for people, and the goals with whether they are met."""
    with tempfile.TemporaryDirectory() as folder:
        results = contest(jobs(folder), rounds)
    _same(results)
    peak = 2 * 4096**3 / results[PEAK].seconds
    rows = [["", "seconds", "MB over the model", "products, as a share of the GEMM's speed"]]
    model = results.pop(MODEL)
    memory = {name: result.megabytes for name, result in results.items()}
    # Preparing runs earlier tasks: what those have left behind, libraries and all, counts too.
    memory |= {name: memory[name] + results[name].resident - model.resident for name in TABLES.values()}
    for name, result in results.items():
        share = f"{PRODUCTS[name] * PRODUCT / result.seconds / peak:.0%}" if name in PRODUCTS else ""
        rows.append([name, f"{result.seconds:.2f}", "" if name == PEAK else f"{memory[name]:,.0f}", share])
    ov, looks, sought, said, trigrams = (results[name].seconds for name in TABLES.values())
    qk = looks + sought
    rows.append([f"all {2 * HEADS} circuits, from these: OV and QK tables", f"{HEADS * (ov + qk):,.0f}", "", ""])
    rows.append([f"all {HEADS} heads, from these: every table", f"{HEADS * (ov + qk + said + trigrams):,.0f}", "", ""])
    most = max(memory[name] for name in TABLES.values())
    goals = [
        _goal("OV, times within 0.6 s", 0.6 / ov, 1.0),
        _goal("QK, times within 0.6 s", 0.6 / qk, 1.0),
        _goal(f"tables of all {2 * HEADS} circuits, times within 5 minutes", 300 / (HEADS * (ov + qk)), 1.0),
        _goal("every table, times within 1 GB over the model", 1024 / most, 1.0),
    ]
    for peer in (TORCH, FAISS):
        goals.append(_goal(f"OV, times faster than {peer}", results[OV.format(peer)].seconds / ov, 0.0))
        goals.append(_goal(f"QK, times faster than {peer}", results[QK.format(peer)].seconds / qk, 0.0))
    return rows, goals


def _goal(name: str, ratio: float, goal: float) -> dict[str, object]:
    return {"name": name, "ratio": round(ratio, 2), "goal": goal, "met": ratio >= goal}


def _same(results: dict[str, Result]) -> None:
    """Every job gives the sum of the sizes of what it listed."""
    for circuit, names in ((OV, [TABLES["says"]]), (QK, [TABLES["seeks"], TABLES["sought"]])):
        ours = sum(results[name].answer for name in names)
        for peer in (TORCH, FAISS):
            theirs = results[circuit.format(peer)].answer
            assert abs(ours - theirs) <= 1e-4 * abs(ours), (circuit, peer, ours, theirs)


def _subject():
    from headwater.atlas.settings import Settings
    from headwater.atlas.subject import Subject
    from headwater.model.presets import named
    from headwater.model.weights import Weights

    # Every layer's heads are alike: one layer is enough.
    weights = Weights.draw(replace(named("gpt2-small"), layers=1), seed=0)
    return Subject(weights, torch.full((VOCAB,), 1 / VOCAB, dtype=torch.float64), Settings(others=1023, k=K))


def _order(folder: str, settings):
    """An atlas of the whole model, so that joined rows are cut into as many parts as they would be."""
    from headwater.atlas.order import Order, Plan
    from headwater.circuits.head import every_head
    from headwater.model.presets import named

    heads = tuple(map(str, every_head(named("gpt2-small"))))
    return Order(Plan(format="bench", model="", vocab=VOCAB, heads=heads, settings=settings, libraries=()), "", folder)


def ours(kind: str, folder: str) -> Callable[[], float]:
    """One task as it is, files and all, once those that it needs have run; gives the sum of the sizes of what it listed."""
    from headwater.atlas import joins, lists
    from headwater.atlas.tasks import Task
    from headwater.files.tables import read_table

    subject = _subject()
    order = _order(folder, subject.settings)

    @torch.no_grad()
    def perform(name: str) -> None:
        for file in Task(name, HEAD).files(order):
            order.path(file).parent.mkdir(parents=True, exist_ok=True)
        if name == "trigrams":
            joins.write_trigrams(order, subject, HEAD)
        else:
            getattr(lists, f"write_{name}")(order, subject, HEAD, 0)

    before = {"sought": ("seeks",), "said": ("seeks", "sought"), "trigrams": ("says", "seeks", "sought", "said")}
    for name in (*before.get(kind, ()), kind):
        perform(name)
    column = {"says": "output", "seeks": "score", "sought": "score"}.get(kind)
    answer = float(abs(read_table(order.parts(kind, HEAD), [column])[column]).sum()) if column else 0.0

    def run() -> float:
        perform(kind)
        return answer

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
            found = values if masses[number] is None else values + masses[number][ids]
            total += float(found.double().abs().sum())
        return total

    return run


def model() -> Callable[[], None]:
    subject = _subject()

    def run() -> None:
        assert subject.config.vocab == VOCAB

    return run


def peak() -> Callable[[], None]:
    left, right, out = (torch.ones(4096, 4096) for _ in range(3))

    def run() -> None:
        torch.mm(left, right, out=out)

    return run
