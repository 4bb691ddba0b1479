"""One bit of one file is another: an atlas, a model and a training's checkpoint must not be taken for what they were."""

import random
import tempfile
from collections.abc import Callable
from pathlib import Path

import torch

import headwater
from headwater.atlas.verify import verify
from headwater.errors import HeadwaterError
from headwater.train.folder import RunFolder
from jobs import contents, make_jobs, new_place, said
from tally import Tally


def flips(atlas: int, checkpoints: int) -> list[Tally]:
    """So many in an atlas; as many as ``checkpoints`` says in a model and in a training's last checkpoint together."""
    with tempfile.TemporaryDirectory() as folder:
        jobs, found = make_jobs(Path(folder)), dict[str, Path]()
        for name in ("atlas", "training"):
            found[name] = new_place(Path(folder), f"{name}-whole")
            assert jobs[name].finish(found[name]) == 0, said(found[name])
        training = RunFolder(found["training"])
        model = training.model
        right = headwater.load(model).weights.tensors()
        last = training.path / "checkpoints" / f"{training.checkpoint_steps()[-1]:08d}"
        whole = [training.last_checkpoint(), _second_last(training)]
        return [
            _flipped("an atlas", found["atlas"], atlas, lambda: verify(found["atlas"]).ok),
            _flipped("a model", model, checkpoints // 2, lambda: _loads_otherwise(model, right)),
            _flipped(
                "a training's last checkpoint", last, checkpoints - checkpoints // 2, lambda: not _is_one(training, whole)
            ),
        ]


def _flipped(what: str, folder: Path, times: int, is_taken: Callable[[], bool]) -> Tally:
    """``is_taken`` tells whether what was changed is taken for something that it is not."""
    tally, lots, before = Tally(f"one bit flipped in {what}"), random.Random(0), contents(folder)
    for path in lots.choices(sorted(folder.rglob("*.*")), k=times):
        whole = path.read_bytes()
        place, bit = lots.randrange(len(whole)), lots.randrange(8)
        path.write_bytes(whole[:place] + bytes([whole[place] ^ 1 << bit]) + whole[place + 1 :])
        try:
            complaint = f"bit {bit} of byte {place} of {path.name} was not noticed" if is_taken() else None
        except HeadwaterError:
            complaint = None
        tally.count(complaint)
        path.write_bytes(whole)
    assert contents(folder) == before
    return tally


def _loads_otherwise(model: Path, right: dict[str, torch.Tensor]) -> bool:
    """A model with any flipped bit is to be refused; that it were the same would be as good."""
    found = headwater.load(model).weights.tensors()
    return any(not torch.equal(found[name], tensor) for name, tensor in right.items())


def _second_last(training: RunFolder):
    last = training.path / "checkpoints" / f"{training.checkpoint_steps()[-1]:08d}"
    aside = last.rename(last.with_name("aside"))
    before = training.last_checkpoint()
    aside.rename(last)
    return before


def _is_one(training: RunFolder, whole: list) -> bool:
    """Whether what a training would go on from is one of the checkpoints that it had."""
    found = training.last_checkpoint()
    return any(
        found.step == each.step and all(torch.equal(found.tensors[name], tensor) for name, tensor in each.tensors.items())
        for each in whole
    )
