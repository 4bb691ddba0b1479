"""Nothing that happens to a build loses it: taken up, it ends in the bytes that it would have had."""

import errno
import multiprocessing
import os
import random
import resource
import shutil
import signal
import time
from dataclasses import replace
from pathlib import Path

import pytest

import tiny_atlas
from headwater.atlas.build import build_atlas
from headwater.atlas.engines import Local
from headwater.atlas.manifest import MANIFEST, PLAN, WORK, read_manifest
from headwater.errors import HeadwaterError, InputError
from headwater.files.lock import held
from tiny_atlas import CHOSEN, PRELOAD, AskedError, Nobody, begin, build_here, contents, save_corpus, save_model


@pytest.fixture(scope="module")
def place(tmp_path_factory):
    """A folder with a model, a corpus, and the atlas that comes of an undisturbed build."""
    place = tmp_path_factory.mktemp("place")
    save_model(place / "model")
    save_corpus(place / "corpus")
    build_here(place, place / "whole")
    return place


@pytest.fixture(scope="module")
def whole(place):
    return contents(place / "whole")


@pytest.fixture
def finished(place, tmp_path):
    """A copy of the atlas, to do things to."""
    shutil.copytree(place / "whole", tmp_path / "atlas")
    return tmp_path / "atlas"


def failing(monkeypatch, writes):
    """A disk that is full after so many writes."""
    left, sync = [writes], os.fsync

    def fsync(descriptor):
        left[0] -= 1
        if left[0] < 0:
            raise OSError(errno.ENOSPC, os.strerror(errno.ENOSPC))
        sync(descriptor)

    monkeypatch.setattr(os, "fsync", fsync)


@pytest.mark.slow
def test_a_disk_that_is_full_again_and_again_costs_nothing(place, whole, tmp_path, monkeypatch):
    lots, said = random.Random(0), []
    while not (tmp_path / "atlas" / MANIFEST).exists():
        with monkeypatch.context() as patch:
            failing(patch, lots.randrange(2, 24))
            try:
                build_here(place, tmp_path / "atlas")
            except InputError as error:
                said.append(error.given)
    assert len(said) > 5
    assert all("No space left" in words for words in said)
    assert contents(tmp_path / "atlas") == whole


def in_a_process(place, out, limit=None):
    """What a command does, in a process that can be killed; ``limit`` is what a file can hold before the disk is full."""
    import torch

    torch.set_num_threads(1)
    if limit is not None:
        signal.signal(signal.SIGXFSZ, signal.SIG_IGN)
        resource.setrlimit(resource.RLIMIT_FSIZE, (limit, limit))
    try:
        build_here(place, out)
    except HeadwaterError as error:
        (out.parent / "said.txt").write_text(str(error))
        os._exit(2)


def start(*arguments):
    context = multiprocessing.get_context("forkserver")
    context.set_forkserver_preload(PRELOAD)
    process = context.Process(target=in_a_process, args=arguments)
    process.start()
    return process


@pytest.mark.slow
def test_kills_in_the_middle_of_a_build_cost_nothing(place, whole, tmp_path):
    out = tmp_path / "atlas"
    for files in (4, 30, 60):
        process = start(place, out)
        while process.exitcode is None and sum(path.is_file() for path in out.rglob("*")) < files:
            time.sleep(0.002)
        os.kill(process.pid, signal.SIGKILL)
        process.join()
        assert not (out / MANIFEST).exists()
    build_here(place, out)
    assert contents(out) == whole


def test_a_full_disk_is_said_and_what_was_whole_is_kept(place, whole, tmp_path):
    process = start(place, tmp_path / "atlas", 12_000)
    process.join()
    assert process.exitcode == 2
    assert "cannot be written" in (tmp_path / "said.txt").read_text()
    before = contents(tmp_path / "atlas")
    assert PLAN in before
    assert MANIFEST not in before
    assert all(whole[name] == data for name, data in before.items() if not name.startswith(WORK))
    build_here(place, tmp_path / "atlas")
    assert contents(tmp_path / "atlas") == whole


@pytest.mark.parametrize("where", ["file/atlas", "file"])
def test_a_folder_that_cannot_be_is_refused(place, tmp_path, where):
    (tmp_path / "file").write_text("mine")
    with pytest.raises(InputError, match="is a file or lies under one"):
        build_here(place, tmp_path / where)
    assert (tmp_path / "file").read_text() == "mine"


def test_a_folder_without_rights_is_refused(place):
    with pytest.raises(InputError, match=r"/proc/atlas cannot be written \(.+\)\na place with room and rights"):
        build_here(place, Path("/proc/atlas"))


def test_an_interrupted_build_goes_on(place, whole, tmp_path):
    def interrupt(what, share):
        if what == "sought":
            raise KeyboardInterrupt

    with pytest.raises(KeyboardInterrupt):
        build_here(place, tmp_path / "atlas", progress=interrupt)
    assert not (tmp_path / "atlas" / MANIFEST).exists()
    there = set(contents(tmp_path / "atlas"))
    assert any(name.startswith("says/") for name in there)
    build_here(place, tmp_path / "atlas")
    assert contents(tmp_path / "atlas") == whole


def test_a_finished_atlas_is_left_alone(place, finished):
    before = {path: path.stat().st_mtime_ns for path in finished.rglob("*") if path.is_file()}
    assert build_here(place, finished, engine=Nobody()) == read_manifest(finished)
    assert {path: path.stat().st_mtime_ns for path in finished.rglob("*") if path.is_file()} == before
    assert not (finished / WORK).exists()


def test_an_atlas_of_other_weights_is_refused_as_stale(place, finished, whole, tmp_path):
    save_model(tmp_path / "model", seed=1)
    save_corpus(tmp_path / "corpus")
    with pytest.raises(InputError, match="an atlas of other weights") as told:
        build_here(tmp_path, finished)
    assert "--out" in told.value.do
    assert "--overwrite" in told.value.do
    assert contents(finished) == whole


def test_weights_that_changed_under_the_same_path_are_noticed(place, tmp_path):
    save_model(tmp_path / "model")
    begin(tmp_path / "model", tmp_path / "atlas")
    shutil.rmtree(tmp_path / "model")
    save_model(tmp_path / "model", seed=1)
    with pytest.raises(InputError, match="an atlas of other weights"):
        build_atlas(tmp_path / "model", tmp_path / "atlas", CHOSEN)


def test_other_settings_are_refused_and_named(place, finished, whole):
    from headwater.text.corpus import open_corpus

    with pytest.raises(InputError, match="k 6 instead of 7, rows 150 instead of 90"):
        build_atlas(place / "model", finished, replace(CHOSEN, k=7, rows=90), corpus=open_corpus(place / "corpus"))
    with pytest.raises(InputError, match="another corpus"):
        build_atlas(place / "model", finished, CHOSEN)
    assert contents(finished) == whole


def test_overwriting_replaces_an_atlas_of_another_model(place, whole, tmp_path):
    save_model(tmp_path / "model", seed=1)
    begin(tmp_path / "model", tmp_path / "atlas")
    (tmp_path / "atlas" / "says").mkdir()
    (tmp_path / "atlas" / "says" / "L0H0.00000.parquet").write_bytes(b"of another model")
    build_here(place, tmp_path / "atlas", overwrite=True)
    assert contents(tmp_path / "atlas") == whole


def test_overwriting_mends_a_damaged_atlas(place, finished, whole):
    (finished / "vocab.parquet").write_bytes(b"")
    (finished / "lines" / "L0H1.safetensors").unlink()
    build_here(place, finished, overwrite=True)
    assert contents(finished) == whole


@pytest.mark.slow
def test_overwriting_that_is_stopped_half_way_is_no_atlas_and_goes_on(place, finished, whole, monkeypatch):
    removed, remove = [], shutil.rmtree

    def stopping(path, **ways):
        if len(removed) == 2:
            raise KeyboardInterrupt
        removed.append(path)
        remove(path, **ways)

    with monkeypatch.context() as patch:
        patch.setattr(shutil, "rmtree", stopping)
        with pytest.raises(KeyboardInterrupt):
            build_here(place, finished, overwrite=True)
    assert not (finished / MANIFEST).exists()
    with pytest.raises(InputError, match="whose plan cannot be read"):
        build_here(place, finished)
    build_here(place, finished, overwrite=True)
    assert contents(finished) == whole


def test_overwriting_removes_nothing_but_an_atlas(place, tmp_path):
    (tmp_path / PLAN).write_text('{"of": "something else"}')
    (tmp_path / "diary.txt").write_text("mine")
    with pytest.raises(InputError, match="cannot be read"):
        build_here(place, tmp_path)
    with pytest.raises(InputError, match=r"holds 'diary\.txt' too"):
        build_here(place, tmp_path, overwrite=True)
    assert (tmp_path / "diary.txt").read_text() == "mine"
    assert (tmp_path / PLAN).read_text() == '{"of": "something else"}'


def test_a_folder_with_other_things_is_refused(place, tmp_path):
    (tmp_path / "diary.txt").write_text("mine")
    with pytest.raises(InputError, match=r"holds 'diary\.txt'"):
        build_here(place, tmp_path, overwrite=True)


def test_what_a_kill_left_of_the_plan_is_in_nobodys_way(place, tmp_path):
    (tmp_path / "atlas" / WORK).mkdir(parents=True)
    (tmp_path / "atlas" / f".{PLAN}.3f2a.part").write_text("{")
    with pytest.raises(AskedError):
        build_here(place, tmp_path / "atlas", engine=Nobody())


def test_the_second_process_in_a_folder_is_told(place, tmp_path):
    with held(tmp_path / "atlas" / WORK, ""), pytest.raises(InputError, match=f"in use by process {os.getpid()}"):
        build_here(place, tmp_path / "atlas")


def test_the_number_of_threads_changes_no_byte_and_how_far_it_is_never_goes_back(place, whole, tmp_path):
    told = []
    build_here(place, tmp_path / "atlas", engine=Local(5), progress=lambda what, share: told.append((what, share)))
    assert contents(tmp_path / "atlas") == whole
    kinds, shares = [what for what, _ in told], [share for _, share in told]
    assert kinds.index("merge") > kinds.index("trigrams") > kinds.index("said") > kinds.index("sought") > kinds.index("seeks")
    assert sum(what in ("says", "own", "seeks", "sought", "said", "trigrams", "merge") for what in kinds) == tiny_atlas.TASKS
    assert shares == sorted(shares)
