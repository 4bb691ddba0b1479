"""Two real processes train one model: the same losses as one, and checkpoints that go from one world to another."""

import json
import os
import shutil
import subprocess
import sys
from pathlib import Path

import pytest

from tiny import tiny_recipe


@pytest.fixture(scope="module")
def recipe(tmp_path_factory: pytest.TempPathFactory) -> Path:
    return tiny_recipe(tmp_path_factory.mktemp("recipe"))


@pytest.fixture(scope="module")
def alone(recipe: Path) -> Path:
    """A run by one process."""
    assert len(train(recipe, recipe.parent / "alone")) == 12
    return recipe.parent / "alone"


def train(recipe: Path, out: Path, *options: str, processes: int = 1) -> list[dict[str, float]]:
    """Train in a world of its own, and the log that it leaves."""
    start = [sys.executable, "-m", "torch.distributed.run", "--standalone", "--nproc-per-node", str(processes), "-m"]
    command = [*(start if processes > 1 else [sys.executable, "-m"]), "headwater", "train", str(recipe), "--out", str(out)]
    environment = os.environ | {"OMP_NUM_THREADS": "1", "HEADWATER_THREADS": "1"}
    done = subprocess.run([*command, *options], capture_output=True, text=True, env=environment, timeout=240, check=False)
    assert done.returncode == 0, done.stderr
    return log(out)


def log(out: Path) -> list[dict[str, float]]:
    return [json.loads(line) for line in (out / "log.jsonl").read_text().splitlines()]


def same(one: list[dict[str, float]], other: list[dict[str, float]]) -> bool:
    keys = ("step", "loss", "held_out", "learning_rate")
    return len(one) == len(other) and all(
        abs(a.get(key, 0) - b.get(key, 0)) < 2e-5 for a, b in zip(one, other, strict=True) for key in keys
    )


@pytest.mark.timeout(900)
@pytest.mark.parametrize("sharing", ["copies", "shards"])
def test_two_processes_have_the_losses_of_one_and_hand_over_to_each_other(
    recipe: Path, alone: Path, tmp_path: Path, sharing: str
) -> None:
    expected = log(alone)
    assert same(expected, train(recipe, tmp_path / "together", "--sharing", sharing, processes=2))
    # The last checkpoint but one, made by two processes, is taken up by one; and the other way round.
    shutil.copytree(alone, tmp_path / "alone")
    for folder, processes in ((tmp_path / "together", 1), (tmp_path / "alone", 2)):
        drop_end(folder)
        assert same(expected, train(recipe, folder, "--resume", "--sharing", sharing, processes=processes))


def drop_end(folder: Path) -> None:
    """As if the run had been killed after its eighth update."""
    (folder / "model").rename(folder / "model-then")
    last = folder / "checkpoints" / "00000012"
    last.rename(folder / "last-then")
    assert (folder / "checkpoints" / "00000008").exists()
