"""The ten largest entries of every row of a 50,257 × 50,257 circuit of rank 64, beside plain torch, faiss and the product alone."""

import torch

from contest import THREADS, Result, contest

VOCAB, INNER, K, BEST = 50_257, 64, 10, 1000
TITLE = f"Largest entries: {VOCAB:,} × {VOCAB:,}, inner dimension {INNER}, float32, exact"
CIRCUITS = ("flat", "dominated", "trained-like")
"""Without structure; with one direction thirty times the others; and with a falling spectrum and norms that differ, as in trained models."""

ROWS, PLAIN, FAISS = f"headwater, top {K} of rows", f"plain torch, top {K} of rows", f"faiss, top {K} of rows"
ALL = f"headwater, top {K} of rows and columns, own ranks"
GLOBAL, PLAIN_GLOBAL = f"headwater, top {BEST} of all", f"plain torch, top {BEST} of all"
PEAK = "the product alone"
JOBS = {
    **{f"{circuit}: {name}": f"topk:{job}:{circuit}" for circuit in CIRCUITS for name, job in
       ((ROWS, "rows"), (PLAIN, "plain"), (FAISS, "by_faiss"), (ALL, "everything"))},
    f"trained-like: {GLOBAL}": "topk:best:trained-like",
    f"trained-like: {PLAIN_GLOBAL}": "topk:plain_best:trained-like",
    PEAK: "topk:product_alone",
}  # fmt: skip


def table(rounds: int) -> tuple[list[list[str]], list[dict[str, object]]]:
    """Rows for people, and the goals with whether they are met."""
    results = contest(JOBS, rounds)
    rows = [["", "seconds", "MB over the factors"]]
    rows += [[name, f"{result.seconds:.2f}", f"{result.megabytes:,.0f}"] for name, result in results.items()]
    goals: list[dict[str, object]] = []
    for circuit in CIRCUITS:
        ours, plain, faiss, everything = (results[f"{circuit}: {name}"] for name in (ROWS, PLAIN, FAISS, ALL))
        _same(ours, plain, faiss, everything)
        goals.append(_goal(f"{circuit}: rows, times faster than plain torch", plain, ours, 5.0))
        goals.append(_goal(f"{circuit}: rows, times faster than faiss", faiss, ours, 10.0))
        goals.append(_goal(f"{circuit}: rows over the product alone in float32", results[PEAK], ours, 0.0))
        goals.append(_goal(f"{circuit}: rows over rows, columns and own ranks", ours, everything, 0.8))
    best, plain = (results[f"trained-like: {name}"] for name in (GLOBAL, PLAIN_GLOBAL))
    _same(best, plain)
    return rows, [*goals, _goal(f"trained-like: top {BEST} of all, times faster than plain torch", plain, best, 100.0)]


def _goal(name: str, peer: Result, ours: Result, goal: float) -> dict[str, object]:
    ratio = peer.seconds / ours.seconds
    return {"name": name, "ratio": round(ratio, 2), "goal": goal, "met": ratio >= goal}


def _same(first: Result, *others: Result) -> None:
    """Every job gives the sum of the values it found."""
    assert first.answer is not None
    for other in others:
        assert other.answer is not None
        assert abs(other.answer - first.answer) <= 1e-5 * abs(first.answer), (first.answer, other.answer)


def factors(circuit: str) -> tuple[torch.Tensor, torch.Tensor]:
    draw = torch.Generator().manual_seed(0)
    left, right = (torch.randn(VOCAB, INNER, generator=draw) for _ in range(2))
    if circuit == "dominated":
        left[:, 0], right[:, 0] = 30 * left[:, 0], 30 * right[:, 0]
    if circuit == "trained-like":
        spectrum = torch.logspace(0, -1.5, INNER)
        left, right = (x * spectrum * (0.3 * torch.randn(VOCAB, 1, generator=draw)).exp() for x in (left, right))
    return left, right


def _survey(circuit: str, **asked: int):
    from headwater.circuits.streamed.scan import Wants
    from headwater.circuits.streamed.survey import survey

    left, right = factors(circuit)

    @torch.inference_mode()
    def run():
        return float(survey(left, right, Wants(**asked)).top_rows.values.sum())

    return run


def rows(circuit: str):
    return _survey(circuit, top_rows=K)


def everything(circuit: str):
    return _survey(circuit, top_rows=K, top_columns=K, own_ranks=True)


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
