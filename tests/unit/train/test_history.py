"""A training as its folder tells it: its curve, its state, its speed, and whether anybody trains."""

import json
import math
import subprocess
import sys

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from headwater.files.lock import held, is_held
from headwater.model.sources import load_weights, look
from headwater.text.counts import entropy
from headwater.train.evaluate import conditional_entropy
from headwater.train.folder import RunFolder
from headwater.train.history import Point, corpus_of, entropies, points_of, read_history, speed, thinned
from headwater.train.recipe import read_recipe, write_recipe
from headwater.train.run import run_recipe
from headwater.train.studies import bigram
from headwater.train.studies.pairs import Pairs
from tiny import tiny_recipe


@pytest.fixture(scope="module")
def run(tmp_path_factory):
    folder = tmp_path_factory.mktemp("history")
    run_recipe(read_recipe(tiny_recipe(folder)), folder / "run")
    return folder / "run"


losses = st.one_of(st.none(), st.floats(-5, 5))
curves = st.lists(st.tuples(losses, losses), min_size=1, max_size=300)


@given(curves, st.integers(8, 60))
def test_a_thinned_curve_is_short_and_keeps_its_ends_and_extremes(rows, most):
    points = [Point(step=step, loss=loss, held_out=held_out) for step, (loss, held_out) in enumerate(rows)]
    kept = thinned(points, most)
    assert len(kept) <= max(most, 6)
    assert [point.step for point in kept] == sorted({point.step for point in kept})
    assert (kept[0], kept[-1]) == (points[0], points[-1])
    for name in ("loss", "held_out"):
        there, here = ([getattr(each, name) for each in some if getattr(each, name) is not None] for some in (points, kept))
        assert (min(there, default=None), max(there, default=None)) == (min(here, default=None), max(here, default=None))


def test_points_are_the_lines_of_the_log(run):
    lines = [json.loads(line) for line in (run / "log.jsonl").read_text().splitlines()]
    history = read_history(run)
    assert [point.step for point in history.points] == [line["step"] for line in lines]
    for point, line in zip(history.points, lines, strict=True):
        assert all(getattr(point, name) == line.get(name) for name in ("loss", "held_out", "bits_per_byte", "learning_rate"))
    assert history.state.phase == "finished"
    assert (history.state.step, history.state.steps, history.state.tokens) == (12, 12, 12 * 8 * 16)
    assert history.state.remaining is None
    assert history.snapshots == (0, 1, 2, 4, 8, 12)


def test_lines_that_are_not_ours_are_passed_over():
    hostile = [
        {"step": 3, "loss": float("inf"), "seconds": 1},
        {"step": 2**70, "seconds": 1},
        {"step": -4, "seconds": 1},
        {"step": 1, "loss": True, "seconds": 10**400},
        {"step": 3, "loss": 2, "seconds": 2},
    ]
    assert points_of(hostile) == (Point(step=1), Point(step=3, loss=2.0, seconds=2.0))


def test_speed_is_that_of_the_last_lines():
    slow, fast = [Point(step=step, seconds=float(step)) for step in range(50)], [Point(step=60, seconds=50.0)]
    assert speed(slow) == 1.0
    assert speed([*slow, *fast], 2) == 11.0
    assert speed(slow[:1]) is None
    assert speed([Point(step=1), Point(step=2)]) is None


def test_a_folder_that_has_only_begun_is_told(run, tmp_path):
    folder = tmp_path / "begun"
    folder.mkdir()
    (folder / "recipe.toml").write_bytes(write_recipe(read_recipe(run / "recipe.toml")))
    history = read_history(folder)
    assert (history.state.phase, history.state.step, history.points, history.snapshots) == ("begun", 0, (), ())
    assert not history.state.running
    with RunFolder(folder).locked():
        assert (read_history(folder).state.phase, read_history(folder).state.running) == ("begun", True)
    assert corpus_of(folder, history.recipe) is None
    (folder / "log.jsonl").write_text('{"step": 4, "loss": 1.5, "seconds": 2.0}\n{"step": 8, "lo')
    assert read_history(folder).state.phase == "stopped"
    with RunFolder(folder).locked():
        state = read_history(folder).state
        assert (state.phase, state.step) == ("running", 4)


def test_a_lock_counts_as_long_as_its_process_lives(tmp_path):
    assert not is_held(tmp_path / "nowhere")
    code = f"import time; from headwater.files.lock import held\nwith held(__import__('pathlib').Path({str(tmp_path)!r}), ''):\n print('in', flush=True); time.sleep(60)"
    with subprocess.Popen([sys.executable, "-c", code], stdout=subprocess.PIPE, text=True) as process:
        assert process.stdout.readline() == "in\n"
        assert is_held(tmp_path)
        process.kill()
        process.wait()
    assert not is_held(tmp_path)
    assert (tmp_path / "lock").read_text() == str(process.pid)


def test_who_only_looks_keeps_nobody_out(tmp_path):
    """A look holds the lock for a moment; whoever wants it in that moment tries again."""
    import fcntl
    import threading

    with held(tmp_path, ""):
        pass
    with (tmp_path / "lock").open() as looking:
        fcntl.flock(looking, fcntl.LOCK_SH)
        threading.Timer(0.03, lambda: fcntl.flock(looking, fcntl.LOCK_UN)).start()
        with held(tmp_path, "a folder of its own"):
            assert is_held(tmp_path)


def test_entropies_are_those_of_the_text(run):
    corpus = corpus_of(run, read_recipe(run / "recipe.toml"))
    found = entropies(corpus)
    assert found.uniform == math.log(corpus.vocab)
    assert found.unigram == entropy(corpus.unigrams)
    assert found.bigram == conditional_entropy(corpus.train)
    shares = np.bincount(corpus.train) / len(corpus.train)
    there = shares[shares > 0]
    assert found.unigram == pytest.approx(-(there * np.log(there)).sum(), abs=1e-12)


def test_all_snapshots_against_the_pairs(run):
    study = bigram.of_training(run, often=100)
    folder = RunFolder(run)
    corpus = corpus_of(run, read_recipe(folder.recipe))
    pairs = Pairs.of(corpus.train, 256)
    assert [fit.step for fit in study.fits] == [0, 1, 2, 4, 8, 12]
    last = bigram.fit(load_weights(look(folder.snapshot(12))), pairs, step=12, often=100)
    assert study.fits[-1].loss == pytest.approx(last.loss, abs=1e-12)
    assert study.entropy == pytest.approx(entropies(corpus).bigram, abs=1e-9)
