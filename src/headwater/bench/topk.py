# pyright: basic, reportMissingImports=false
# Peers carry no types.
"""The ten largest entries of every row of a 50,257 × 50,257 circuit of rank 64, beside plain torch, faiss and the product alone."""

import torch

from headwater.bench.contest import THREADS, Result, absent, close, contest
from headwater.bench.goals import Goal, Table, at_least, at_most, beside, shown
from headwater.bench.machine import bytes_products
from headwater.bench.phases import functions
from headwater.circuits.streamed.scan import Wants

VOCAB, INNER, K, BEST = 50_257, 64, 10, 1000
TITLE = f"Largest entries: {VOCAB:,} × {VOCAB:,}, inner dimension {INNER}, float32, exact"
ROUNDS = 2
CIRCUITS = ("flat", "dominated", "trained-like")
"""Without structure; with one direction thirty times the others; and with a falling spectrum and norms that differ, as in trained models."""

ROWS, PLAIN, FAISS = f"headwater, top {K} of rows", f"plain torch, top {K} of rows", f"faiss, top {K} of rows"
ALL = f"headwater, top {K} of rows and columns, own ranks"
GLOBAL, PLAIN_GLOBAL = f"headwater, top {BEST} of all", f"plain torch, top {BEST} of all"
PEAK, LOOP = "the product alone", "our loop over bytes"
WORKS = {ROWS: "rows", PLAIN: "plain", FAISS: "by_faiss", ALL: "everything"}
JOBS = {f"{circuit}: {name}": f"topk:{job}:{circuit}" for circuit in CIRCUITS for name, job in WORKS.items()}
JOBS |= {PEAK: "topk:product_alone", LOOP: "machine:bytes_loop"}
SLOW = {f"trained-like: {GLOBAL}": "topk:best:trained-like", f"trained-like: {PLAIN_GLOBAL}": "topk:plain_best:trained-like"}

BYTES = (
    "faiss runs close to the machine's float32 speed. Our loop over bytes does not twice as many products a second as a float32 GEMM,"
    " since there is no instruction here that multiplies bytes and adds them up; all that is beyond that ratio comes from passing over lines"
    " whose norms rule them out, of which a flat circuit has few."
)
RANKS = (
    "Rows alone pass over most products, as their floors rise quickly. An own rank counts every entry above the diagonal's, and columns"
    " have floors of their own: few products can be left out then, and every entry is held against three numbers instead of one."
)


def table(rounds: int) -> Table:
    # Three quarters of a minute, and a hundred times the other's: one turn is enough.
    results = {**contest(JOBS, rounds), **contest(SLOW, 1)}
    rows = [["", "seconds", "MB over the factors"]]
    rows += [[name, shown(each.seconds), shown(each.megabytes, 0)] for name, each in results.items() if name != LOOP]
    loop = VOCAB**2 * INNER * results[LOOP].seconds / bytes_products()
    rows.insert(-2, ["all products in our loop over bytes, none passed over", shown(loop), ""])
    goals = [goal for circuit in CIRCUITS for goal in _goals(circuit, results)]
    best, plain = (results[name] for name in SLOW)
    close(GLOBAL, (best, plain), 1e-5)
    name = f"trained-like: top {BEST} of all, times faster than plain torch"
    return Table(rows, [*goals, at_least(name, plain.seconds / best.seconds, 100.0)], absent(results))


def _goals(circuit: str, results: dict[str, Result]) -> list[Goal]:
    ours, plain, faiss, everything = (results[f"{circuit}: {name}"] for name in (ROWS, PLAIN, FAISS, ALL))
    close(circuit, (ours, plain, faiss, everything), 1e-5)
    why, more = f"topk:why:rows:{circuit}", f"topk:why:everything:{circuit}"
    return [
        at_least(f"{circuit}: rows, times faster than plain torch", plain.seconds / ours.seconds, 5.0, why=why),
        at_least(f"{circuit}: rows, times faster than faiss", faiss.seconds / ours.seconds, 10.0, why=why, because=BYTES),
        at_most(
            f"{circuit}: rows, columns and own ranks, times rows",
            everything.seconds / ours.seconds,
            1.25,
            why=more,
            because=RANKS,
        ),
        beside(f"{circuit}: rows, times faster than the product alone in float32", results[PEAK].seconds / ours.seconds),
    ]


def why(job: str, circuit: str):
    """By steps of the pass. The loop is that over integers, with what float64 decides in it."""
    from headwater.circuits.streamed import fused, integers, survey

    run = rows(circuit) if job == "rows" else everything(circuit)
    places = {
        "looking at the factors: finite, comfortable": (survey, "_check"),
        "turning and balancing the factors in float64": (fused, "balanced"),
        "norms and errors of lines": (fused.Side, "of"),
        "floors guessed from a sample": (fused._Guess, "of"),
        "columns as integers": (integers, "panels"),
        "the loop: integers filter, float64 decides": (fused._Run, "over"),
        "columns of all threads joined; lines looked at again": (fused._Run, "scan"),
        "answers settled": (survey, "settle"),
        "own ranks settled": (survey, "settle_ranks"),
    }
    return functions(run, places)


def factors(circuit: str) -> tuple[torch.Tensor, torch.Tensor]:
    draw = torch.Generator().manual_seed(0)
    left, right = (torch.randn(VOCAB, INNER, generator=draw) for _ in range(2))
    if circuit == "dominated":
        left[:, 0], right[:, 0] = 30 * left[:, 0], 30 * right[:, 0]
    if circuit == "trained-like":
        spectrum = torch.logspace(0, -1.5, INNER)
        left, right = (x * spectrum * (0.3 * torch.randn(VOCAB, 1, generator=draw)).exp() for x in (left, right))
    return left, right


def _survey(circuit: str, asked: Wants):
    from headwater.circuits.streamed.survey import survey

    left, right = factors(circuit)

    @torch.inference_mode()
    def run():
        found = survey(left, right, asked).top_rows
        assert found is not None
        return float(found.values.sum())

    return run


def rows(circuit: str):
    return _survey(circuit, Wants(top_rows=K))


def everything(circuit: str):
    return _survey(circuit, Wants(top_rows=K, top_columns=K, own_ranks=True))


def plain(circuit: str):
    left, right = factors(circuit)

    @torch.inference_mode()
    def run():
        best = [(block @ right.T).topk(K, dim=1) for block in left.split(512)]
        return float(torch.cat([values for values, _ in best]).double().sum())

    return run


def by_faiss(circuit: str):
    import faiss

    faiss.omp_set_num_threads(THREADS)
    left, right = (x.numpy() for x in factors(circuit))

    def run():
        index = faiss.IndexFlatIP(INNER)
        index.add(right)
        return float(torch.from_numpy(index.search(left, K)[0]).double().sum())

    return run


def best(circuit: str):
    from headwater.circuits.factored import Factored

    left, right = factors(circuit)
    circuit_ = Factored(left, right.T)

    @torch.inference_mode()
    def run():
        return float(circuit_.top(BEST).values.sum())

    return run


def plain_best(circuit: str):
    left, right = factors(circuit)

    @torch.inference_mode()
    def run():
        found = torch.cat([(block @ right.T).flatten().topk(BEST).values for block in left.split(512)])
        return float(found.topk(BEST).values.double().sum())

    return run


def product_alone():
    left, right = factors("flat")
    out = torch.empty(512, VOCAB)

    @torch.inference_mode()
    def run():
        for block in left.split(512):
            torch.mm(block, right.T, out=out[: len(block)])

    return run
