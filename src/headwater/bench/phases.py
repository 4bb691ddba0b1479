"""Where the time of a job goes, measured: by torch's operations, or by the functions of ours that it passes through."""

import time
from collections import defaultdict
from collections.abc import Callable, Generator, Mapping
from contextlib import contextmanager
from typing import Any

import torch

KINDS = {
    "products of matrices": ("mm", "addmm", "addmm_", "bmm", "baddbmm", "linear"),
    "attention": ("_scaled_dot_product_flash_attention_for_cpu", "_softmax", "_log_softmax"),
    "norms": ("native_layer_norm",),
    "activations": ("gelu", "relu", "silu", "tanh"),
    "eigenvalues": ("linalg_eig", "_linalg_eigvals", "linalg_eigvals"),
    "QR, SVD, Cholesky": ("linalg_qr", "_linalg_svd", "linalg_cholesky_ex", "linalg_solve_triangular"),
    "copies, also to another format": ("copy_", "clone", "cat", "stack"),
    "additions": ("add", "add_", "sum", "mul", "mul_"),
}
OTHER = "everything else"
OTHERS = 3
"""Operations of no kind that are named: those that take longest."""


def operations(run: Callable[[], object]) -> Callable[[], dict[str, float]]:
    """Seconds of a run by kinds of torch's operations, each without those that it calls."""

    def profiled() -> dict[str, float]:
        activity = torch.profiler.ProfilerActivity.CPU
        with torch.profiler.profile(activities=[activity], acc_events=True) as profile:
            began = time.perf_counter()
            run()
            whole = time.perf_counter() - began
        events: Any = profile.key_averages()
        found: dict[str, float] = {event.key.removeprefix("aten::"): event.self_cpu_time_total / 1e6 for event in events}
        kinds = {kind: sum(found.pop(name, 0.0) for name in names) for kind, names in KINDS.items()}
        others = sorted(found, key=lambda name: -found[name])[:OTHERS]
        return ranked({**kinds, **{f"torch's {name}": found[name] for name in others}}, whole)

    return profiled


def functions(run: Callable[[], object], places: Mapping[str, tuple[Any, str]]) -> Callable[[], dict[str, float]]:
    """Seconds of a run in some functions, each without those of them that it calls."""

    def profiled() -> dict[str, float]:
        with _watched(places) as spent:
            began = time.perf_counter()
            run()
            whole = time.perf_counter() - began
        return ranked(spent, whole)

    return profiled


def ranked(phases: Mapping[str, float], whole: float) -> dict[str, float]:
    """The phases that took any time, the longest first, and what is left of the whole.

    >>> ranked({"a": 0.1, "b": 0.6, "c": 0.0}, 1.0)
    {'b': 0.6, 'a': 0.1, 'everything else': 0.3}
    """
    there = {name: round(seconds, 4) for name, seconds in sorted(phases.items(), key=lambda item: -item[1]) if seconds > 5e-5}
    return {**there, OTHER: round(max(0.0, whole - sum(there.values())), 4)}


@contextmanager
def _watched(places: Mapping[str, tuple[Any, str]]) -> Generator[dict[str, float]]:
    """The functions at these places, each with a clock around it until the block ends; what runs in threads is not seen."""
    spent: dict[str, float] = defaultdict(float)
    inner: list[float] = []
    before = {name: getattr(place, attribute) for name, (place, attribute) in places.items()}

    def clocked(name: str, function: Callable[..., Any]) -> Callable[..., Any]:
        def call(*given: Any, **named: Any) -> Any:
            began = time.perf_counter()
            inner.append(0.0)
            try:
                return function(*given, **named)
            finally:
                took = time.perf_counter() - began
                spent[name] += took - inner.pop()
                if inner:
                    inner[-1] += took

        return call

    for name, (place, attribute) in places.items():
        setattr(place, attribute, clocked(name, before[name]))
    try:
        yield spent
    finally:
        for name, (place, attribute) in places.items():
            setattr(place, attribute, before[name])
