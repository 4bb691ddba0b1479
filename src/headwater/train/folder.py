"""``RunFolder``: where a training keeps what it has, so that nothing is lost.

::

    recipe.toml        every setting, as it was resolved
    corpus/            the text as ids, with the tokenizer
    log.jsonl          one line for some of the updates and for each evaluation
    checkpoints/N/     all that the updates after N need: parameters, optimiser, random state
    snapshots/N/       the model after N updates, to look into
    model/             the model in the end
    lock               held by the process that trains
"""

import hashlib
import json
import shutil
from collections.abc import Generator
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING, Any, cast

from headwater.errors import HeadwaterError, ModelFileError
from headwater.files.atomic import new_folder, write_file
from headwater.files.lock import held, is_held
from headwater.files.plain import open_file, read_json
from headwater.files.safetensors import read_tensors, write_tensors

if TYPE_CHECKING:
    from torch import Tensor

FORMAT = "headwater-checkpoint/1"
STATE, TENSORS = "state.json", "training.safetensors"
KEPT_CHECKPOINTS = 2


@dataclass(frozen=True)
class Checkpoint:
    """A training after ``step`` updates."""

    step: int
    tensors: "dict[str, Tensor]"


@dataclass(frozen=True)
class RunFolder:
    """The files of one training."""

    path: Path

    @property
    def recipe(self) -> Path:
        """The resolved recipe."""
        return self.path / "recipe.toml"

    @property
    def corpus(self) -> Path:
        """The text as ids."""
        return self.path / "corpus"

    @property
    def log(self) -> Path:
        """What happened, one JSON object on each line."""
        return self.path / "log.jsonl"

    @property
    def model(self) -> Path:
        """The model in the end."""
        return self.path / "model"

    def snapshot(self, step: int) -> Path:
        """The model after some updates."""
        return self.path / "snapshots" / f"{step:08d}"

    def snapshots(self) -> list[tuple[int, Path]]:
        """All models that were kept on the way, in the order of their updates."""
        return _numbered(self.path / "snapshots")

    def has_begun(self) -> bool:
        """Whether there is more than a recipe: a start that failed leaves no more than that."""
        kept = (self.corpus, self.log, self.model, self.path / "checkpoints", self.path / "snapshots")
        return any(path.exists() for path in kept)

    def sweep(self) -> None:
        """Remove what processes left that were killed while they wrote."""
        for folder in (self.path, self.path / "checkpoints", self.path / "snapshots"):
            for left in folder.glob(".*.part"):
                shutil.rmtree(left) if left.is_dir() else left.unlink()

    @contextmanager
    def locked(self) -> Generator[None]:
        """Keep every other process out of the folder until the block ends, however it ends."""
        with held(self.path, "a run folder of its own for each training"):
            yield

    def is_running(self) -> bool:
        """Whether a process is training here now."""
        return is_held(self.path)

    def checkpoint_steps(self) -> list[int]:
        """After how many updates there are checkpoints, in ascending order."""
        return [step for step, _ in _numbered(self.path / "checkpoints")]

    def save_checkpoint(self, checkpoint: Checkpoint) -> None:
        """Write a checkpoint, whole or not at all, and let go of those that are not needed any more."""
        with new_folder(self._checkpoint(checkpoint.step), overwrite=True, ours=(STATE, TENSORS)) as temporary:
            write_tensors(temporary / TENSORS, checkpoint.tensors)
            with (temporary / TENSORS).open("rb") as file:
                digest = hashlib.file_digest(file, "sha256").hexdigest()
            state = {"format": FORMAT, "step": checkpoint.step, "sha256": digest}
            write_file(temporary / STATE, json.dumps(state, indent=2).encode() + b"\n")
        self.let_go()

    def let_go(self) -> None:
        """Of all checkpoints but the last few."""
        for step in self.checkpoint_steps()[:-KEPT_CHECKPOINTS]:
            shutil.rmtree(self._checkpoint(step), ignore_errors=True)

    def last_checkpoint(self) -> Checkpoint | None:
        """The latest checkpoint that is whole; a damaged one is told of only when there is none before it."""
        damage: HeadwaterError | None = None
        for step in reversed(self.checkpoint_steps()):
            try:
                return _read(self._checkpoint(step))
            except ModelFileError as error:
                damage = damage or error.within(f"checkpoints/{step:08d}")
        if damage:
            raise damage
        return None

    def _checkpoint(self, step: int) -> Path:
        return self.path / "checkpoints" / f"{step:08d}"

    def write_log(self, line: dict[str, Any]) -> None:
        """Add one line."""
        with self.log.open("a") as file:
            file.write(json.dumps(line) + "\n")

    def read_log(self) -> list[dict[str, Any]]:
        """All lines that are whole; what a power cut or somebody else left between them is passed over."""
        if not self.log.exists():
            return []
        with open_file(self.log) as file:
            return log_lines(file.read())

    def rewind_log(self, step: int) -> None:
        """Forget what happened after ``step``: it will happen again."""
        kept = [line for line in self.read_log() if line["step"] <= step]
        write_file(self.log, b"".join(json.dumps(line).encode() + b"\n" for line in kept))


def log_lines(data: bytes) -> list[dict[str, Any]]:
    """The lines of some part of a log that are whole and ours."""
    return [read for line in data.splitlines() if (read := _read_line(line)) is not None]


def _read_line(line: bytes) -> dict[str, Any] | None:
    try:
        read: Any = json.loads(line)
    except (ValueError, RecursionError):
        return None
    if not isinstance(read, dict):
        return None
    found = cast(dict[str, Any], read)
    is_ours = type(found.get("step")) is int and isinstance(found.get("seconds"), int | float)
    return found if is_ours else None


def _numbered(folder: Path) -> list[tuple[int, Path]]:
    inner = folder.iterdir() if folder.is_dir() else ()
    return sorted((int(path.name), path) for path in inner if path.name.isdecimal())


def _read(folder: Path) -> Checkpoint:
    state = read_json(folder / STATE)
    if state.get("format") != FORMAT or type(state.get("step")) is not int or type(state.get("sha256")) is not str:
        raise ModelFileError(f"{STATE} has the format {state.get('format')!r:.80}", FORMAT, "use the Headwater that wrote it")
    if state["step"] != int(folder.name):
        raise ModelFileError(f"{STATE} is of update {state['step']}", f"that of update {int(folder.name)}", "use one before it")
    return Checkpoint(state["step"], read_tensors(folder / TENSORS, sha256=state["sha256"]))
