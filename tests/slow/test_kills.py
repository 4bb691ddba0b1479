"""A training killed with SIGKILL at a hundred random moments, and taken up each time: always the same weights in the end."""

import hashlib
import multiprocessing
import os
import random
import shutil
import signal
import time
from pathlib import Path

import pytest

from tiny import tiny_recipe

KILLS = 100
SETTINGS = ["training.steps=120", "keeping.checkpoint_every=7", "keeping.evaluate_every=20", "training.pieces=1"]


def go_on(recipe: Path, out: Path) -> None:
    import torch

    from headwater.train.recipe import read_recipe
    from headwater.train.run import Ways, run_recipe

    torch.set_num_threads(1)
    run_recipe(read_recipe(recipe, SETTINGS), out, Ways(resume=True))


def outcome(out: Path) -> str:
    """The hash of the final model's every file, and of what the log says but for its times."""
    digest = hashlib.sha256()
    for file in sorted((out / "model").iterdir()):
        digest.update(file.read_bytes())
    import json

    for line in (out / "log.jsonl").read_text().splitlines():
        digest.update(json.dumps({key: value for key, value in json.loads(line).items() if key != "seconds"}).encode())
    return digest.hexdigest()


@pytest.mark.slow
@pytest.mark.timeout(1200)
def test_a_hundred_kills_change_nothing(tmp_path: Path) -> None:
    recipe = tiny_recipe(tmp_path)
    # A process that has torch loaded hands out copies of itself: a kill can come early in a run, not only while torch is read.
    context = multiprocessing.get_context("forkserver")
    context.set_forkserver_preload(["headwater.train.run"])

    def start(out: Path) -> multiprocessing.process.BaseProcess:
        process = context.Process(target=go_on, args=(recipe, out))
        process.start()
        return process

    whole = start(tmp_path / "whole")
    whole.join()
    assert whole.exitcode == 0
    expected = outcome(tmp_path / "whole")

    begin = time.perf_counter()
    again = start(tmp_path / "again")
    again.join()
    duration = time.perf_counter() - begin
    assert outcome(tmp_path / "again") == expected

    moments = random.Random(0)
    kills, runs, out = 0, 0, tmp_path / "killed"
    while kills < KILLS:
        process = start(out)
        process.join(moments.uniform(0, 1.2 * duration))
        if process.exitcode is None and process.pid is not None:
            os.kill(process.pid, signal.SIGKILL)
            process.join()
            kills += 1
        elif process.exitcode == 0:
            assert outcome(out) == expected
            shutil.rmtree(out)
            runs += 1
        else:
            pytest.fail(f"taking up ended with {process.exitcode} after {kills} kills")
    last = start(out)
    last.join()
    assert outcome(out) == expected
    assert runs > 5, "kills came so fast that hardly a run was completed"
