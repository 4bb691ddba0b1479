# pyright: basic, reportMissingImports=false
# numba carries no types.
"""The machine that a report is made on: its name, what its processor knows, and how fast it multiplies."""

import platform
from collections.abc import Callable
from concurrent.futures import ThreadPoolExecutor
from importlib.metadata import PackageNotFoundError, version
from pathlib import Path
from typing import Any

from headwater.bench.contest import THREADS, contest

LIBRARIES = ("torch", "transformers", "transformer-lens", "faiss-cpu", "numba", "numpy")
FLAGS = ("avx2", "fma", "avx512f", "avx512_vnni", "avx_vnni", "amx_int8")
"""What vectors a processor has decides how fast any of this can be."""
EDGE = 2048
ROWS, STEPS, TIMES = 64, 32, 1000
ROUNDS = 3
FLOAT32, FLOAT64, BYTES = "float32", "float64", "bytes"


def about() -> dict[str, Any]:
    """All that is said of the machine, speeds measured now."""
    known = _processor()
    have = set(known.get("flags", "").split())
    return {
        "cores": THREADS,
        "processor": known.get("model name") or platform.processor() or platform.machine(),
        "has": [flag for flag in FLAGS if flag in have],
        "has_not": [flag for flag in FLAGS if flag not in have],
        "python": platform.python_version(),
        "libraries": dict(filter(None, map(_installed, LIBRARIES))),
        "billions_a_second": speeds(),
    }


def speeds() -> dict[str, float | None]:
    """Operations of matrix products (two for each product) and products of bytes, in billions a second."""
    jobs = {FLOAT32: f"machine:gemm:{FLOAT32}", FLOAT64: f"machine:gemm:{FLOAT64}", BYTES: "machine:bytes_loop"}
    results = contest(jobs, ROUNDS)
    work = {FLOAT32: 2 * EDGE**3, FLOAT64: 2 * EDGE**3, BYTES: bytes_products()}
    return {name: None if each.missing else round(work[name] / each.seconds / 1e9, 1) for name, each in results.items()}


def sentence(machine: dict[str, Any]) -> str:
    """The machine in words."""
    known = {name: speed for name, speed in machine["billions_a_second"].items() if speed is not None}
    units = {
        FLOAT32: "GFLOP/s in float32",
        FLOAT64: "GFLOP/s in float64",
        BYTES: "billion products/s in our loop over bytes at its peak",
    }
    libraries = ", ".join(f"{name} {number}" for name, number in machine["libraries"].items())
    lacks = f", without {', '.join(machine['has_not'])}" if machine["has_not"] else ""
    return (
        f"{machine['cores']} cores ({machine['processor']}) with {', '.join(machine['has']) or 'none of the vectors asked for'}{lacks}. "
        + (f"Matrix products: {', '.join(f'{speed:,.0f} {units[name]}' for name, speed in known.items())}. " if known else "")
        + f"Python {machine['python']}; {libraries}."
    )


def _processor() -> dict[str, str]:
    file = Path("/proc/cpuinfo")
    lines = file.read_text().split("\n\n")[0].splitlines() if file.exists() else []
    return {name.strip(): value.strip() for name, _, value in (line.partition(":") for line in lines)}


def _installed(name: str) -> tuple[str, str] | None:
    try:
        return name, version(name)
    except PackageNotFoundError:
        return None


def gemm(kind: str) -> Callable[[], object]:
    """One product of square matrices."""
    import torch

    left, right, out = (torch.ones(EDGE, EDGE, dtype=getattr(torch, kind)) for _ in range(3))
    return lambda: torch.mm(left, right, out=out)


def bytes_products() -> int:
    """How many products a turn of ``bytes_loop`` does."""
    return THREADS * TIMES * ROWS * STEPS * 2 * 192


def bytes_loop() -> Callable[[], object]:
    """The innermost loop of the fused kernel on numbers that stay in the nearest cache, where nothing passes: its peak."""
    import numpy as np
    from numba import njit

    from headwater.circuits.streamed.microkernel import BYTES as VECTOR
    from headwater.circuits.streamed.microkernel import VECTORS, Tile, tile_int8

    @njit(nogil=True)
    def loop(words, panel, start, room, times):
        at, there, begin, steps = words.ctypes.data, panel.ctypes.data, start.ctypes.data, words.shape[1]
        limits, counts, out = room[0].ctypes.data, room[1].ctypes.data, room[2].ctypes.data
        for _ in range(times):
            for row in range(len(words)):
                tile_int8(Tile(at + row * steps * 4, there, begin, limits, counts, counts, counts, out, steps, 1))  # pyright: ignore[reportCallIssue]

    def one(_: int) -> None:
        words, panel = np.zeros((ROWS, STEPS), np.int32), np.zeros((STEPS, VECTORS * VECTOR), np.uint8)
        room = np.zeros((3, 8192), np.int32)
        room[0] = 32767
        loop(words, panel, np.zeros(VECTORS * VECTOR, np.uint8), room, TIMES)

    pool = ThreadPoolExecutor(THREADS)
    return lambda: list(pool.map(one, range(THREADS)))
