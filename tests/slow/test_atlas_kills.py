"""Builds of an atlas killed with SIGKILL at fifty random moments, and taken up each time: always the same bytes in the end."""

import multiprocessing
import os
import random
import shutil
import signal
import time
from pathlib import Path

import pytest

from tiny_atlas import PRELOAD, build_here, contents, save_corpus, save_model

KILLS = 50


def go_on(place: Path, out: Path) -> None:
    import torch

    torch.set_num_threads(2)
    build_here(place, out)


@pytest.mark.slow
@pytest.mark.timeout(1200)
def test_fifty_kills_change_nothing(tmp_path: Path) -> None:
    save_model(tmp_path / "model")
    save_corpus(tmp_path / "corpus")
    context = multiprocessing.get_context("forkserver")
    context.set_forkserver_preload(PRELOAD)

    def start(out: Path) -> multiprocessing.process.BaseProcess:
        process = context.Process(target=go_on, args=(tmp_path, out))
        process.start()
        return process

    durations = []
    for name in ("warm", "whole"):
        begin = time.perf_counter()
        process = start(tmp_path / name)
        process.join()
        assert process.exitcode == 0
        durations.append(time.perf_counter() - begin)
    expected = contents(tmp_path / "whole")
    assert contents(tmp_path / "warm") == expected

    moments = random.Random(0)
    kills, builds, left, out = 0, 0, set[int](), tmp_path / "killed"
    while kills < KILLS:
        process = start(out)
        process.join(moments.uniform(0, 1.1 * durations[-1]))
        if process.exitcode is None and process.pid is not None:
            os.kill(process.pid, signal.SIGKILL)
            process.join()
            kills += 1
            left.add(sum(path.is_file() for path in out.rglob("*")))
        elif process.exitcode == 0:
            assert contents(out) == expected
            shutil.rmtree(out)
            builds += 1
        else:
            pytest.fail(f"taking up ended with {process.exitcode} after {kills} kills")
    last = start(out)
    last.join()
    assert contents(out) == expected
    assert builds > 5, "kills came so fast that hardly a build was completed"
    assert len(left) > KILLS // 4, "kills came at the same few moments"
