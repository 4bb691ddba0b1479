"""A text of a small vocabulary out of any other: its bytes."""

from typing import Any

import numpy as np
from numpy.typing import NDArray

from headwater.text.sources import Files, StandardInput, StandardLibrary, documents


def read_bytes(source: Files | StandardInput | StandardLibrary, most: int = 1_000_000) -> tuple[NDArray[Any], int]:
    """Ids of the first ``most`` bytes of a source, and how many different ones there are: a byte that does not occur has no id."""
    data = bytearray()
    for chunk in (chunk for document in documents(source) for chunk in document.chunks()):
        data += chunk[: most - len(data)]
        if len(data) >= most:
            break
    found, ids = np.unique(np.frombuffer(data, dtype=np.uint8), return_inverse=True)
    return ids, len(found)
