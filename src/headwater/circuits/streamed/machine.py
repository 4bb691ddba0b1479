"""What this machine can do."""

import platform
from functools import cache
from importlib.util import find_spec
from typing import Any


@cache
def available() -> bool:
    """Whether numba is here and the processor has AVX2."""
    if platform.machine().lower() not in ("x86_64", "amd64") or find_spec("numba") is None:
        return False
    from llvmlite import binding

    features: Any = binding.get_host_cpu_features()
    return bool(features.get("avx2", False))


def sweep() -> Any:
    """``headwater.circuits.streamed.sweep``: what numba compiles has no types, and is not there without numba."""
    from headwater.circuits.streamed import sweep

    return sweep
