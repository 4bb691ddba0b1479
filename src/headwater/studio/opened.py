"""How models and atlases are read for a studio: so that reading can be given up, and so that damage is found before it is shown."""

import ctypes
from contextlib import suppress
from pathlib import Path
from typing import TYPE_CHECKING

from torch import Tensor

from headwater.api import Model
from headwater.errors import ModelFileError
from headwater.model.record import check_finite, record
from headwater.model.taps import Tap
from headwater.shapes import Tokens
from headwater.studio.work import Stop
from headwater.trace.run import Run

if TYPE_CHECKING:
    from headwater.atlas.atlas import Atlas

HASHED_BYTES = 512 * 2**20
"""Of an atlas that is read whole when it is opened; of a larger one only sizes are compared."""


class Watch(Tap):
    """Looks on while a model runs, and ends the run once nobody waits for it."""

    def __init__(self, stop: Stop) -> None:
        self._stop = stop

    def wants(self, site: str) -> bool:
        """The stream before and after each block, which is kept in any case."""
        return site.endswith((".in", ".out"))

    def __call__(self, site: str, value: Tensor) -> Tensor:
        """The value as it is."""
        del site
        self._stop()
        return value


def record_until(model: Model, tokens: Tokens, stop: Stop) -> Run:
    """A run of a text, given up between two layers once nobody waits for it; refused where its numbers overflow."""
    run = Run.of(record(model.weights, tokens, watch=Watch(stop)), model.tokenizer)
    check_finite(run)
    return run


def open_checked(folder: Path) -> "Atlas":
    """An atlas whose files have the hashes that they were written with."""
    from headwater.atlas.atlas import open_atlas
    from headwater.atlas.verify import verify

    atlas = open_atlas(folder)
    if sum(file.bytes for file in atlas.manifest.files) <= HASHED_BYTES:
        found = verify(folder)
        if not found.ok:
            atlas.close()
            first = found.findings[0]
            given = f"{folder.name}: {first.path} is not as it was written ({first.what})"
            raise ModelFileError(given, "the bytes that the atlas was built with", "build the atlas again")
    return atlas


def give_back() -> None:
    """Hand freed memory to the system: some allocators keep what lies between things that are still in use."""
    with suppress(AttributeError, OSError, TypeError):
        ctypes.CDLL(None).malloc_trim(0)
