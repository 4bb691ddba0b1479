"""Real text that is on every machine: source files of the standard library, one token for each character."""

import os
from functools import cache
from pathlib import Path

import numpy as np


@cache
def characters(most=1_000_000):
    """Ids of the first characters, and how many different ones there are."""
    text = ""
    for path in sorted(Path(os.__file__).parent.glob("*.py")):
        text += path.read_text(encoding="utf-8")
        if len(text) >= most:
            break
    points = np.frombuffer(text[:most].encode("utf-32-le"), dtype=np.uint32)
    vocabulary, ids = np.unique(points, return_inverse=True)
    return ids.astype(np.uint16), len(vocabulary)
