"""Whatever becomes of a training's files while it is served: right numbers or an error, at once, and nothing that ends the studio."""

import hashlib
import json
import os
import shutil
import tracemalloc

import numpy as np
import pytest

from headwater.files.lock import held, is_held
from headwater.studio import limits, training_log, training_work
from headwater.studio import shelf as shelves
from headwater.studio.errors import Gone
from headwater.studio.training_live import Follower
from headwater.studio.training_log import Log
from headwater.studio.work import Stop
from headwater.train.folder import RunFolder
from headwater.train.recipe import read_recipe
from headwater.train.run import run_recipe
from studio_app import Studio, filled
from tiny import tiny_recipe

ROUTES = {"": "", "/heads": "", "/said": "&head=L0H0", "/bigrams": "", "/baselines": "&against=bigram,trigram"}


@pytest.fixture(scope="module")
def trained(tmp_path_factory):
    folder = tmp_path_factory.mktemp("trained")
    run_recipe(read_recipe(tiny_recipe(folder)), folder / "run")
    return folder / "run"


@pytest.fixture
def run(trained, tmp_path):
    """A training of one's own to damage."""
    shutil.copytree(trained, tmp_path / "run")
    return RunFolder(tmp_path / "run")


@pytest.fixture
def studio(run):
    there = Studio(filled(run.path.parent, "run"))
    yield there
    there.close()


def ask(studio, route="", **ways):
    return studio.ask(f"/api/training{route}?training=run{ROUTES[route]}", **ways)


def nats(answer):
    return [each["nats"] for each in answer.json()["baselines"]]


def in_place(path, data):
    """Other bytes, and the time of the last change put back."""
    state = path.stat()
    with path.open("r+b") as file:
        file.write(data)
    os.utime(path, ns=(state.st_atime_ns, state.st_mtime_ns))


def cut(corpus):
    os.truncate(corpus / "train.bin", 1_000)


def overwrite(corpus):
    for name in ("train.bin", "held_out.bin"):
        in_place(corpus / name, bytes((corpus / name).stat().st_size))


def garble(corpus):
    in_place(corpus / "bigrams.bin", b"\xff" * (corpus / "bigrams.bin").stat().st_size)


def make_a_pipe(corpus):
    (corpus / "train.bin").unlink()
    os.mkfifo(corpus / "train.bin")


def take_away(corpus):
    shutil.rmtree(corpus)


DAMAGES = [cut, overwrite, garble, make_a_pipe, take_away]


@pytest.mark.parametrize("damage", DAMAGES)
def test_a_text_that_changes_is_refused_until_it_is_opened_again(studio, run, trained, damage):
    before = {route: ask(studio, route) for route in ROUTES}
    assert {answer.status for answer in before.values()} == {200}
    damage(run.corpus)
    for route in ROUTES:
        assert ask(studio, route).status == 409, route
    shutil.rmtree(run.corpus, ignore_errors=True)
    shutil.copytree(trained / "corpus", run.corpus)
    assert ask(studio).status == 409, "they are other files, though the same is in them"
    assert studio.ask("/api/training/run/reopen", "POST").status == 200
    for route, answer in before.items():
        assert ask(studio, route).json() == answer.json()


@pytest.mark.parametrize("damage", [cut, overwrite, garble, make_a_pipe])
def test_a_text_that_is_not_as_it_was_written_is_no_text(studio, run, damage):
    damage(run.corpus)
    for route in ROUTES:
        answer = ask(studio, route)
        assert answer.status == 409, (route, answer.body)
        assert set(answer.json()) == {"given", "needed", "do"}


def test_a_text_that_has_been_opened_does_not_read_its_files_again(studio, run):
    corpus = studio.shelf.corpus("run", Stop())
    parts = (corpus.train, corpus.held_out, corpus.unigrams, corpus.bigrams.count)
    # A file that is mapped and cut short ends the process.
    assert not any(isinstance(part, np.memmap) or isinstance(part.base, np.memmap) for part in parts)
    sums = [int(part.sum()) for part in parts]
    for path in run.corpus.glob("*.bin"):
        os.truncate(path, 0)
    assert [int(part.sum()) for part in parts] == sums


def test_a_text_that_changes_while_it_is_counted_spoils_the_answer(studio, run, monkeypatch):
    from headwater.train import baselines

    right, real = nats(ask(studio, "/baselines")), baselines.compare

    def meanwhile(*asked, **ways):
        found = real(*asked, **ways)
        overwrite(run.corpus)
        return found

    monkeypatch.setattr(baselines, "compare", meanwhile)
    again = studio.ask("/api/training/baselines?training=run&against=trigram,bigram")
    assert again.status == 409 or nats(again) == right[::-1]


def test_ids_that_are_none_are_refused_though_the_hashes_fit(studio, run):
    path, manifest = run.corpus / "train.bin", json.loads((run.corpus / "manifest.json").read_text())
    path.write_bytes(b"\xff" * path.stat().st_size)
    manifest["files"][0]["sha256"] = hashlib.sha256(path.read_bytes()).hexdigest()
    (run.corpus / "manifest.json").write_text(json.dumps(manifest))
    assert {ask(studio, route).status for route in ROUTES} == {409}


def test_a_text_that_is_too_long_is_told_and_the_curve_is_there(studio, monkeypatch):
    monkeypatch.setattr(shelves, "CORPUS_BYTES", 1_000)
    told = ask(studio).json()
    assert [each["kind"] for each in told["baselines"]] == ["model_uniform"]
    assert len(told["curve"]["step"]) == 12
    assert ask(studio, "/bigrams").status == 413


def test_whoever_leaves_while_a_text_is_read_ends_it(studio):
    stop = Stop()
    stop.now()
    with pytest.raises(Gone):
        studio.shelf.corpus("run", stop)
    assert studio.shelf.corpus("run", Stop()) is not None


def test_a_training_that_goes_on_is_not_refused(studio, run, trained):
    assert {ask(studio, route).status for route in ROUTES} == {200}
    run.write_log({"step": 13, "loss": 1.5, "seconds": 99.0})
    shutil.copytree(run.snapshot(12), run.snapshot(13))
    assert ask(studio).json()["state"]["step"] == 13
    assert ask(studio, "/heads").json()["steps"][-1] == 13
    # Taken up again, it writes what it had written after its last checkpoint once more.
    shutil.rmtree(run.snapshot(13))
    shutil.copytree(trained / "snapshots" / f"{8:08d}", run.snapshot(13))
    heads = ask(studio, "/heads").json()
    assert all(head["copying"][-1] == head["copying"][heads["steps"].index(8)] for head in heads["heads"])


def test_a_snapshot_that_changes_while_it_is_looked_at_spoils_the_answer(studio, run, monkeypatch):
    from headwater.atlas import timeline

    real, last = timeline.snapshot_at, run.snapshot(12)

    def meanwhile(step, place, *asked):
        found = real(step, place, *asked)
        if place == last:
            os.utime(next(place.glob("*.safetensors")), ns=(1, 1))
        return found

    monkeypatch.setattr(timeline, "snapshot_at", meanwhile)
    assert ask(studio, "/heads").status == 409
    monkeypatch.setattr(timeline, "snapshot_at", real)
    assert ask(studio, "/heads").status == 200


def log_pipe(run):
    run.log.unlink()
    os.mkfifo(run.log)


def log_without_end(run):
    run.log.unlink()
    run.log.symlink_to("/dev/zero")


def log_folder(run):
    run.log.unlink()
    run.log.mkdir()


@pytest.mark.parametrize("damage", [log_pipe, log_without_end, log_folder])
def test_a_log_that_is_no_file_is_told_at_once(studio, run, damage):
    damage(run)
    for _ in range(3):
        assert ask(studio).status == 409
    assert studio.ask("/api/training/live?training=run").is_whole
    assert studio.ask("/api/shelf").status == 200
    assert ask(studio, "/bigrams").status == 200, "which needs no log"


def test_a_pipe_in_the_place_of_a_lock_is_nobodys(studio, run):
    (run.path / "lock").unlink()
    os.mkfifo(run.path / "lock")
    assert not is_held(run.path)
    assert ask(studio).json()["state"]["running"] is False


def test_a_lock_that_is_held_still_is(tmp_path):
    with held(tmp_path, "nobody else"):
        assert is_held(tmp_path)


def test_lines_without_sense_are_passed_over(studio, run):
    with run.log.open("a") as file:
        file.write("[" * 100_000 + "\n" + '{"step": ' + "9" * 5_000 + "}\n")
    run.write_log({"step": 20, "loss": 1.0, "seconds": 100.0})
    told = ask(studio).json()
    assert (told["points"], told["state"]["step"]) == (13, 20)
    assert len(run.read_log()) == 13


def lines(*steps):
    return "".join(json.dumps({"step": step, "loss": 3.0, "seconds": step / 2}) + "\n" for step in steps)


def test_a_log_is_read_a_piece_at_a_time_and_once(run, monkeypatch):
    monkeypatch.setattr(training_log, "PIECE", 1_000)
    run.log.write_text(lines(*range(1, 101)))
    log, read = Log(run), []
    real = training_log.log_lines
    monkeypatch.setattr(training_log, "log_lines", lambda data: read.append(len(data)) or real(data))
    first = log.read_on(most=1)
    assert not first.is_whole
    assert 0 < len(first.points) < 25
    follower, other = Follower(log, -1), Follower(log, 100)
    while follower.look() is None:
        assert not follower.is_whole
    assert other.look().rewound is False
    whole = log.read_on()
    assert [point.step for point in whole.points] == list(range(1, 101))
    assert max(read) <= 1_000
    assert sum(read) == run.log.stat().st_size, "each byte once, for everybody"
    with run.log.open("a") as file:
        file.write(lines(101))
    assert follower.look().curve.step == [101]
    assert other.look().curve.step == [101]


def test_speeds_are_those_of_a_log_that_is_read_at_once(run, monkeypatch):
    from headwater.train.history import read_history

    monkeypatch.setattr(training_log, "PIECE", 300)
    run.log.write_text(lines(1, 2, 4, 8, 16, 17, 18, 12, 13, 30, 31))
    assert Log(run).read_on().points == read_history(run.path).points


def test_a_line_without_end_is_passed_over_and_takes_no_memory(run):
    with run.log.open("w") as file:
        file.write(lines(1))
        for _ in range(10):
            file.write("x" * 2**20 * 3)
        file.write("\n" + lines(2))
    log = Log(run)
    tracemalloc.start()
    points = log.read_on().points
    peak = tracemalloc.get_traced_memory()[1]
    tracemalloc.stop()
    assert [point.step for point in points] == [1, 2]
    assert peak < 6 * training_log.PIECE


def test_whoever_leaves_leaves_what_was_read_to_others(run, monkeypatch):
    monkeypatch.setattr(training_log, "PIECE", 1_000)
    run.log.write_text(lines(*range(1, 101)))
    log, stop = Log(run), Stop()
    stop.now()
    with pytest.raises(Gone):
        training_work.history(log, stop)
    assert 0 < len(log.read_on(most=1).points) < 50
    assert len(log.read_on().points) == 100


def test_a_log_that_is_too_long_is_not_read(studio, run, monkeypatch):
    monkeypatch.setattr(training_log, "LOG_BYTES", 100)
    assert ask(studio).status == 413
    live = studio.ask("/api/training/live?training=run")
    assert (live.is_whole, live.body) == (True, b"")
    assert limits.LOG_BYTES > 2**20


def test_another_log_in_the_place_of_one_is_noticed(run):
    run.log.write_text(lines(1, 2, 3))
    log = Log(run)
    log.read_on()
    # In place, longer than before, and with other steps in front.
    with run.log.open("r+") as file:
        file.write(lines(5, 6, 7, 8))
    again = log.read_on()
    assert ([point.step for point in again.points], again.beginnings) == ([5, 6, 7, 8], 1)
    run.recipe.write_text(run.recipe.read_text().replace("batch = 8", "batch = 16"))
    assert log.read_on().points[-1].tokens_per_second == 2 * again.points[-1].tokens_per_second
