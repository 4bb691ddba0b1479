"""``run_recipe``: a recipe carried out in a folder, so that it can be killed at any moment and taken up again.

Taking up gives the same weights, bit for bit, as never having stopped: the order of the text is a function of the seed and the
update's number, and a checkpoint holds everything else that an update depends on.
"""

import errno
import math
import signal
import time
from collections.abc import Callable, Generator
from contextlib import contextmanager
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

import numpy as np
import torch
from torch import Tensor, nn

from headwater.errors import HeadwaterError, InputError
from headwater.files.atomic import write_file
from headwater.text.corpus import Corpus
from headwater.train.batches import Batches
from headwater.train.evaluate import bytes_of_tokens, window_starts
from headwater.train.folder import Checkpoint, RunFolder
from headwater.train.loop import DivergedError, Step, Trainer
from headwater.train.processes import Sharing, World, join_world
from headwater.train.recipe import Recipe, read_recipe, write_recipe
from headwater.train.subject import Subject, subject_of
from headwater.train.words import prepare_corpus


@dataclass(frozen=True)
class Progress:
    """Where a training stands: after each update."""

    step: Step
    steps: int
    tokens_per_second: float
    held_out: float | None
    """Mean nats on held-out text, when it was last looked at."""
    bits_per_byte: float | None


@dataclass(frozen=True)
class Outcome:
    """How a run ended: after which update, and by which signal if it was asked to stop."""

    step: int
    signal: int | None
    held_out: float | None = None
    bits_per_byte: float | None = None


Report = Callable[[Progress], None]
Reading = Callable[[int, int | None], None]
"""Called with the bytes of text read so far, and how many there are where that is known."""


@dataclass(frozen=True, kw_only=True)
class Ways:
    """How a recipe is carried out. Another device, number of processes or of threads rounds differently, and changes nothing else."""

    resume: bool = False
    device: str = "cpu"
    sharing: Sharing = "copies"
    report: Report = field(default=lambda progress: None)
    reading: Reading = field(default=lambda done, total: None)


def run_recipe(recipe: Recipe, path: str | Path, ways: Ways = Ways()) -> Outcome:  # noqa: B008  (a frozen value)
    """Train by a recipe, in a folder of its own; with ``ways.resume`` go on where it stopped."""
    folder, device = RunFolder(Path(path)), _device(ways.device)
    with join_world(device, ways.sharing) as world, _safe(folder):
        if not world.is_first:
            return _join(recipe, folder, world, ways)
        with folder.locked():
            _claim(folder, recipe, resume=ways.resume)
            prepare_corpus(recipe, folder.corpus, ways.reading)
            return _join(recipe, folder, world, ways)


def _join(recipe: Recipe, folder: RunFolder, world: World, ways: Ways) -> Outcome:
    """Train, once all processes are there. Until now there was nothing to save, and a signal just ended the process."""
    world.wait()
    with _stoppable() as asked:
        return _Run(recipe, folder, world, ways, asked).go()


class _Run:
    """One process' part in a run."""

    def __init__(self, recipe: Recipe, folder: RunFolder, world: World, ways: Ways, asked: list[int]) -> None:
        self.recipe, self.folder, self.world, self.ways, self.asked = recipe, folder, world, ways, asked
        self.corpus = prepare_corpus(recipe, folder.corpus)
        self.subject: Subject = subject_of(recipe, self.corpus.tokenizer)
        self.batches = Batches(
            ids=self.corpus.train,
            vocab=recipe.model.vocab,
            context=recipe.model.context,
            batch=recipe.training.batch,
            seed=recipe.training.seed,
            repeats=recipe.text.repeats,
        )
        self.held_out = _HeldOut(self.corpus, recipe)
        module: nn.Module = self.subject.draw().to(_device(ways.device))
        self.trainer = Trainer(module, recipe.training, world)
        self.latest: dict[str, float] = {}

    def go(self) -> Outcome:
        """All updates that are still to be made."""
        first, steps = self._restore(), self.recipe.training.steps
        before, begin = self._seconds(), time.perf_counter()
        snapshots = set(self.recipe.keeping.snapshots(steps))
        if first == 0 and 0 in snapshots:
            self._snapshot(0)
        tokens = self.recipe.training.batch * self.recipe.model.context
        for number in range(first, steps):
            step = self.trainer.update(number, self.batches(number))
            seconds = time.perf_counter() - begin
            self._evaluate(step)
            rate = tokens * (step.number - first) / seconds
            self.ways.report(Progress(step, steps, rate, self.latest.get("held_out"), self.latest.get("bits_per_byte")))
            self._log(step, before + seconds)
            if step.number in snapshots:
                self._snapshot(step.number)
            stop = self.world.any(bool(self.asked))
            if stop or step.number % self.recipe.keeping.checkpoint_every == 0 or step.number == steps:
                self._checkpoint(step.number)
            if stop and step.number < steps:
                return Outcome(step.number, self.asked[0] if self.asked else signal.SIGTERM)
        self._finish()
        return Outcome(steps, None, self.latest.get("held_out"), self.latest.get("bits_per_byte"))

    def _restore(self) -> int:
        checkpoint = self.folder.last_checkpoint()
        step = 0 if checkpoint is None else checkpoint.step
        if checkpoint is not None:
            self.trainer.restore(_under("parameter.", checkpoint.tensors), _under("moment.", checkpoint.tensors), step)
            torch.set_rng_state(checkpoint.tensors["random.torch"])
        if self.world.is_first:
            self.folder.rewind_log(step)
            for line in self.folder.read_log():
                self.latest |= {key: line[key] for key in ("held_out", "bits_per_byte") if key in line}
        return step

    def _seconds(self) -> float:
        lines = self.folder.read_log() if self.world.is_first else []
        return lines[-1]["seconds"] if lines else 0.0

    def _is_looked_at(self, step: Step) -> bool:
        return step.number % self.recipe.keeping.evaluate_every == 0 or step.number == self.recipe.training.steps

    def _evaluate(self, step: Step) -> None:
        if self._is_looked_at(step):
            self.latest = self.held_out.look(self.trainer)

    def _log(self, step: Step, seconds: float) -> None:
        looked = self._is_looked_at(step)
        if self.world.is_first and (looked or step.number % self.recipe.keeping.log_every == 0 or step.number == 1):
            line: dict[str, Any] = {
                "step": step.number,
                "loss": round(step.loss, 6),
                "gradient_norm": float(f"{step.gradient_norm:.4g}"),
                "learning_rate": float(f"{step.learning_rate:.6g}"),
                "seconds": round(seconds, 2),
            }
            self.folder.write_log(line | (self.latest if looked else {}))

    def _snapshot(self, step: int) -> None:
        tensors = self.trainer.tensors()
        if self.world.is_first:
            self.subject.save(tensors, self.folder.snapshot(step))

    def _checkpoint(self, step: int) -> None:
        tensors = {f"parameter.{name}": tensor for name, tensor in self.trainer.tensors().items()}
        tensors |= {f"moment.{name}": tensor for name, tensor in self.trainer.moments().items()}
        tensors["random.torch"] = torch.get_rng_state()
        if self.world.is_first:
            self.folder.save_checkpoint(Checkpoint(step, tensors))

    def _finish(self) -> None:
        tensors = self.trainer.tensors()
        if self.world.is_first:
            if not self.folder.model.exists():
                self.subject.save(tensors, self.folder.model)
            # Whoever was killed just after the last checkpoint has not let go of the others yet.
            self.folder.let_go()
        self.world.wait()


class _HeldOut:
    """The part of the held-out text that a run is measured by, the same every time."""

    def __init__(self, corpus: Corpus, recipe: Recipe) -> None:
        context, self.batch = recipe.model.context, recipe.training.batch
        most = min(recipe.keeping.evaluation_tokens, len(corpus.held_out) - context)
        # Whole batches, so that any number of processes can share them.
        count = most // (context * self.batch) * self.batch
        starts = (
            window_starts(len(corpus.held_out) - context + 1, context, count * context) if count > 0 else np.empty(0, np.int64)
        )
        places = starts[:, None] + np.arange(context + 1)
        self.windows = torch.from_numpy(corpus.held_out[places].astype(np.int64))
        sizes = bytes_of_tokens(corpus.tokenizer, recipe.model.vocab)
        self.bytes_per_token = float(sizes[self.windows[:, 1:].numpy()].mean()) if count > 0 else 0.0

    def look(self, trainer: Trainer) -> dict[str, float]:
        """Mean nats for each token, and bits for each byte; nothing where too little text is held out."""
        if not self.bytes_per_token:
            return {}
        losses = [trainer.loss(some) for some in self.windows.reshape(-1, self.batch, self.windows.shape[1])]
        mean = math.fsum(losses) / len(losses)
        return {"held_out": round(mean, 6), "bits_per_byte": round(mean / math.log(2) / self.bytes_per_token, 6)}


def _under(prefix: str, tensors: dict[str, Tensor]) -> dict[str, Tensor]:
    return {name.removeprefix(prefix): tensor for name, tensor in tensors.items() if name.startswith(prefix)}


def _claim(folder: RunFolder, recipe: Recipe, *, resume: bool) -> None:
    """Make the folder this recipe's own; one that holds another run, or this one without ``resume``, is left alone."""
    folder.sweep()
    if not folder.has_begun():
        write_file(folder.recipe, write_recipe(recipe))
    elif not folder.recipe.exists():
        raise InputError(f"{folder.path} holds parts of a run without its recipe", "a whole run, or none", "give another --out")
    elif not resume:
        steps = folder.checkpoint_steps()
        given = f"{folder.path} holds a run" + (f" of {steps[-1]:,} updates" if steps else "")
        raise InputError(given, "a new folder, or leave to go on", "add --resume, or give another --out")
    elif read_recipe(folder.recipe) != recipe:
        raise InputError(
            f"{folder.path} was begun with other settings",
            "the same recipe",
            f"compare it with {folder.recipe}, or give another --out",
        )


def _device(name: str) -> torch.device:
    available = {"cpu": True, "cuda": torch.cuda.is_available(), "mps": torch.backends.mps.is_available()}
    if not available.get(name):
        here = ", ".join(kind for kind, there in available.items() if there)
        raise InputError(f"the device {name!r:.40}", f"one that is here: {here}", "change --device")
    return torch.device(name)


@contextmanager
def _stoppable() -> Generator[list[int]]:
    """Ctrl-C and SIGTERM are noted down, for the loop to stop after the update it is in; a second Ctrl-C interrupts at once."""
    asked: list[int] = []

    def note(number: int, frame: object) -> None:
        if number == signal.SIGINT and number in asked:
            raise KeyboardInterrupt
        asked.append(number)

    try:
        before = {number: signal.signal(number, note) for number in (signal.SIGINT, signal.SIGTERM)}
    except ValueError:
        # Only the main thread may handle signals; elsewhere whoever started us does.
        yield asked
        return
    try:
        yield asked
    finally:
        for number, handler in before.items():
            signal.signal(number, handler)


@contextmanager
def _safe(folder: RunFolder) -> Generator[None]:
    """Tell what is left when a run breaks off."""
    try:
        yield
    except DivergedError as error:
        raise DivergedError(error.given, error.needed, f"{error.do}; {_left(folder)}") from None
    except (OSError, HeadwaterError) as error:
        cause = error if isinstance(error, OSError) else error.__cause__
        if not isinstance(cause, OSError):
            raise
        do = "free some room" if cause.errno in (errno.ENOSPC, errno.EDQUOT) else "check path and rights"
        given = f"{folder.path} cannot be written ({cause.strerror or cause})"
        raise InputError(given, "a folder with room and rights", f"{do}; {_left(folder)}") from cause


def _left(folder: RunFolder) -> str:
    steps = folder.checkpoint_steps()
    if not steps:
        return "there is no checkpoint yet"
    return f"the last good checkpoint is that of update {steps[-1]:,}: go on from it with --resume"
