"""Threads that do tasks, what engines are refused for, and that errors travel."""

import os
import pickle
import stat
import sys
from concurrent.futures import ThreadPoolExecutor
from dataclasses import replace

import pytest
import torch

from headwater.atlas.engines import Local, engine_named, perform_away, until_seen
from headwater.atlas.order import Order, subject_of
from headwater.atlas.tasks import Task, stages
from headwater.errors import ConfigError, HeadwaterError, InputError, ModelFileError
from headwater.files.atomic import write_file
from headwater.train.loop import DivergedError
from tiny_atlas import TASKS, begin, save_model


@pytest.fixture
def order(tmp_path):
    save_model(tmp_path / "model")
    return begin(tmp_path / "model", tmp_path / "atlas")


def test_the_first_error_ends_it(order):
    first, wrong, *others = [Task("says", "L0H0"), Task("says", "L7H7"), *stages(order)[0][3:]]
    done = []
    with pytest.raises(InputError, match="L7H7"), Local(1).start(order) as do:
        done.extend(do([first, wrong, *others]))
    assert first.is_done(order)
    assert sum(task.is_done(order) for task in others) <= 1


def test_torch_has_as_many_threads_afterwards_as_before(order):
    before = torch.get_num_threads()
    torch.set_num_threads(2)
    try:
        with Local().start(order) as do:
            list(do(stages(order)[0][:3]))
        assert torch.get_num_threads() == 2
        with ThreadPoolExecutor(1) as pool:
            assert pool.submit(torch.get_num_threads).result() == 2
    finally:
        torch.set_num_threads(before)


def test_threads_share_one_model(order):
    with ThreadPoolExecutor(8) as pool:
        assert len({id(found) for found in pool.map(subject_of, [order] * 16)}) == 1


def test_tasks_of_two_folders_have_different_names(order):
    there = Order(order.plan, order.model, "/elsewhere")
    assert len({task.key(each) for each in (order, there) for stage in stages(order) for task in stage}) == 2 * TASKS


def test_a_worker_refuses_a_folder_that_is_not_shared(order):
    with pytest.raises(InputError, match="/elsewhere is not there on"):
        perform_away(Task("says", "L0H0"), Order(order.plan, order.model, "/elsewhere"))


def test_a_worker_refuses_other_versions(order):
    changed = Order(replace(order.plan, libraries=("numpy 0.1",)), order.model, order.folder)
    with pytest.raises(InputError, match=r"does not have numpy 0\.1"):
        perform_away(Task("says", "L0H0"), changed)


def test_a_worker_refuses_other_weights(order, tmp_path):
    save_model(tmp_path / "other", seed=1)
    with pytest.raises(InputError, match="other weights here"):
        perform_away(Task("says", "L0H0"), Order(order.plan, str(tmp_path / "other"), order.folder))


def test_files_that_nobody_sees_are_not_waited_for_without_end(order, monkeypatch):
    monkeypatch.setattr("headwater.atlas.engines.PATIENCE", 0.2)
    with pytest.raises(InputError, match=r"says/L0H0.*was written, but not to"):
        until_seen(order, [Task("says", "L0H0")])


@pytest.mark.parametrize(
    ("given", "words"),
    [
        (("dusk",), "did you mean dask"),
        (("local", "tcp://here:1"), "use dask or ray"),
        (("local", None, 0), "at least one"),
        (("dask", "tcp://here:1", 2), "leave one of them out"),
    ],
)
def test_engines_that_cannot_be_are_refused(given, words):
    with pytest.raises(InputError, match=words):
        engine_named(*given)


@pytest.mark.parametrize(("name", "module"), [("dask", "distributed"), ("ray", "ray")])
def test_a_missing_library_is_said(monkeypatch, name, module):
    monkeypatch.setitem(sys.modules, module, None)
    with pytest.raises(InputError, match=r"pip install 'headwater\[engines\]'"):
        engine_named(name)


@pytest.mark.parametrize("kind", [HeadwaterError, ConfigError, InputError, ModelFileError, DivergedError])
def test_errors_travel_between_processes(kind):
    error = kind("given", "needed", "do")
    there = pickle.loads(pickle.dumps(error))
    assert type(there) is kind
    assert str(there) == str(error)
    assert (there.given, there.needed, there.do) == ("given", "needed", "do")


def test_files_written_by_several_threads_have_the_rights_of_any_new_file(tmp_path):
    before, interval = os.umask(0o027), sys.getswitchinterval()
    sys.setswitchinterval(1e-6)
    try:
        with ThreadPoolExecutor(8) as pool:
            list(pool.map(lambda number: write_file(tmp_path / str(number), b"x"), range(200)))
        assert {stat.S_IMODE(path.stat().st_mode) for path in tmp_path.iterdir()} == {0o640}
        assert os.umask(0o027) == 0o027
    finally:
        sys.setswitchinterval(interval)
        os.umask(before)
