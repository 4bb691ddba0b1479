"""``headwater bench``, as a person uses it: on small tables, since speed is never asserted."""

import importlib
import json
import sys
import textwrap
from collections import defaultdict
from types import ModuleType, SimpleNamespace

import pytest

from headwater.bench import machine, report
from headwater.bench.contest import Result, absent, contest
from headwater.bench.goals import Table, at_least, at_most, beside

HERE = {
    "cores": 2,
    "processor": "a processor",
    "has": ["avx2"],
    "has_not": ["avx512f"],
    "python": "3.11",
    "libraries": {"torch": "2"},
    "billions_a_second": {"float32": 100.0, "float64": 50.0, "bytes": None},
}


@pytest.fixture
def jobs(tmp_path, monkeypatch):
    """Jobs of our own, in a module that the processes of a contest find."""
    code = """
        def quick():
            return lambda: 1.5

        def peer():
            import faiss.not_there

        def broken():
            import not_a_peer

        def phases():
            return lambda: {"one": 0.3, "other": 0.1}

        def late():
            import pathlib, time
            time.sleep(2)
            pathlib.Path(__file__).with_name("ready").touch()
            return lambda: 1.0

        def early():
            import pathlib
            return lambda: float(pathlib.Path(__file__).with_name("ready").exists())

        def long():
            import itertools, time
            turns = itertools.count(1)
            return lambda: time.sleep(0.2) or float(next(turns))
    """
    (tmp_path / "few").mkdir()
    (tmp_path / "few" / "__init__.py").touch()
    (tmp_path / "few" / "jobs.py").write_text(textwrap.dedent(code))
    # No faiss here, whatever is installed.
    (tmp_path / "faiss").mkdir()
    (tmp_path / "faiss" / "__init__.py").touch()
    monkeypatch.setenv("PYTHONPATH", ":".join(filter(None, [str(tmp_path), *sys.path])))


@pytest.fixture
def tables(monkeypatch):
    """Two tables instead of all: one with a met and a missed goal, one whose peer is not there."""
    turns = []
    missed = at_least("times faster", 1.5, 2.0, limit=1.8, why="few.jobs:phases", because="There is no more to be had.")
    found = {
        "small": Table([["", "seconds"], ["ours | theirs", "0.5"]], [at_most("time", 0.5, 1.0, unit="s"), missed, beside("more", 3.0)]),
        "lonely": Table([["", "seconds"]], [at_least("than a peer", float("nan"), 2.0)], ["faiss is not installed"]),
    }  # fmt: skip
    for name, table in found.items():
        module = ModuleType(f"headwater.bench.{name}")
        module.TITLE, module.ROUNDS = f"{name.title()} things: of all kinds", 3
        module.table = lambda rounds, name=name, table=table: turns.append((name, rounds)) or table
        monkeypatch.setitem(sys.modules, f"headwater.bench.{name}", module)
    monkeypatch.setattr(report, "TABLES", tuple(found))
    monkeypatch.setattr(machine, "about", lambda: HERE)
    return turns


def test_help_names_every_table(headwater):
    told = headwater("bench", "--help").stdout
    for name in report.TABLES:
        assert name in told


def test_every_table_has_what_a_report_needs():
    for name in report.TABLES:
        module = __import__(f"headwater.bench.{name}", fromlist=["table"])
        assert ": " in module.TITLE
        assert module.ROUNDS >= 1
        assert callable(module.table)


@pytest.fixture
def results(monkeypatch):
    """Tables out of results that nobody measured: every job gives the same numbers, or is missing where a word of its job says so."""
    asked = []

    def stand_in(missing=()):
        def contested(jobs, rounds, **more):
            asked.extend(jobs.values())
            return {name: _result(name, missing) for name in jobs}

        for name in report.TABLES:
            module = importlib.import_module(f"headwater.bench.{name}")
            monkeypatch.setattr(module, "contest", contested)
            monkeypatch.setattr(module, "close", lambda *given: None, raising=False)
        monkeypatch.setattr("headwater.bench.search._write", lambda folder: defaultdict(int))
        monkeypatch.setattr("headwater.bench.generation._export", lambda folder: None)
        monkeypatch.setattr("headwater.bench.studio.model", lambda: SimpleNamespace(save=lambda folder: None))
        monkeypatch.setattr("headwater.bench.studio.first_picture", lambda times: _result("picture", ("picture",)))
        return asked

    return stand_in


def _result(name, missing):
    lost = any(word in name for word in missing)
    return Result(missing="faiss") if lost else Result(1.0, 100.0, 50.0, 2.0, {"document 000": 1.0})


@pytest.mark.parametrize("name", report.TABLES)
def test_every_table_asks_for_jobs_that_there_are_and_names_its_goals_once(name, results):
    asked = results()
    found = importlib.import_module(f"headwater.bench.{name}").table(1)
    assert len({len(row) for row in found.rows}) == 1
    assert len({goal.name for goal in found.goals}) == len(found.goals)
    for job in [*asked, *(goal.why for goal in found.goals if goal.why)]:
        module, function, *_ = job.split(":")
        assert callable(getattr(importlib.import_module(f"headwater.bench.{module}"), function))


@pytest.mark.parametrize("name", report.TABLES)
def test_every_table_does_without_its_peers(name, results):
    results(("TransformerLens", "faiss", "transformers", "plain torch", "our loop"))
    module = importlib.import_module(f"headwater.bench.{name}")
    found = module.table(1)
    plain = {
        "name": name,
        "title": module.TITLE,
        "rounds": 1,
        "rows": found.rows,
        "why": [],
        "notes": found.notes,
        "seconds": 1.0,
    }
    document = {
        "format": report.FORMAT,
        "machine": HERE,
        "tables": [{**plain, "goals": [goal.plain() for goal in found.goals]}],
    }
    assert "nan" not in report.markdown(document).replace("nanoGPT", "")
    json.dumps(document, allow_nan=False)


def test_a_table_that_there_is_not_is_refused_before_anything_is_measured(headwater, tables):
    result = headwater("bench", "--only", "smal")
    assert result.returncode == 2
    assert "did you mean small?" in result.stderr
    assert not tables


@pytest.mark.parametrize("rounds", ["0", "-1"])
def test_no_rounds_are_refused(headwater, tables, rounds):
    result = headwater("bench", "--rounds", rounds)
    assert result.returncode == 2
    assert "rounds" in result.stderr
    assert not tables


def test_the_report_for_people(headwater, tables, jobs):
    told = headwater("bench").stdout
    assert tables == [("small", 3), ("lonely", 3)]
    assert "with avx2, without avx512f. Matrix products: 100 GFLOP/s in float32, 50 GFLOP/s in float64. " in told
    assert "1 of 3 goals are met, 1 missed, 1 not measured." in told
    assert "| time | 0.5 s | at most 1 s | yes |  | [Small things](#small-things) |" in told
    assert "| times faster | 1.5× | at least 2× | **no** | 1.8× | [Small things](#small-things) |" in told
    assert "| than a peer | not measured | at least 2× |  |  | [Lonely things](#lonely-things) |" in told
    assert "## Small things\n\nOf all kinds. Best of 3 turns" in told
    assert "| ours \\| theirs | 0.5 |" in told
    assert "| more | 3× |  |  |  |" in told


def test_a_missed_goal_has_its_profile(headwater, tables, jobs):
    told = headwater("bench", "--only", "small").stdout
    assert "**Missed: times faster.** There is no more to be had.\n" in told
    assert "Where the time goes (times faster):" in told
    assert "| one | 0.300 | 75% |" in told


def test_json_has_the_shape_that_programs_rely_on(headwater, tables, jobs):
    told = json.loads(headwater("bench", "--json", "--rounds", "1").stdout)
    assert tables == [("small", 1), ("lonely", 1)]
    small, lonely = told["tables"]
    assert [goal["met"] for goal in small["goals"]] == [True, False, None]
    assert small["why"] == [{"goals": ["times faster"], "seconds": {"one": 0.3, "other": 0.1}}]
    assert lonely["goals"][0]["measured"] is None
    assert told["machine"] == HERE


def test_what_is_not_measured_stays_as_it_was(headwater, tables, jobs, tmp_path):
    assert headwater("bench", "--out", tmp_path / "out").returncode == 0
    before = json.loads((tmp_path / "out" / "report.json").read_text())
    result = headwater("bench", "--out", tmp_path / "out", "--only", "lonely", "--rounds", "7")
    after = json.loads((tmp_path / "out" / "report.json").read_text())
    assert tables[-1] == ("lonely", 7)
    assert after["tables"][0] == before["tables"][0]
    assert after["tables"][1]["rounds"] == 7
    assert (tmp_path / "out" / "REPORT.md").read_text() == result.stdout
    assert "faiss is not installed" in result.stderr


def test_what_was_measured_before_it_broke_is_kept(headwater, tables, jobs, tmp_path, monkeypatch):
    def breaks(rounds):
        raise RuntimeError("out of memory")

    monkeypatch.setattr(sys.modules["headwater.bench.lonely"], "table", breaks)
    assert headwater("bench", "--out", tmp_path / "out").returncode == 70
    assert [table["name"] for table in json.loads((tmp_path / "out" / "report.json").read_text())["tables"]] == ["small"]


def test_a_report_of_another_form_is_not_mixed_in(headwater, tables, tmp_path, monkeypatch):
    (tmp_path / "report.json").write_text('{"tables": []}')
    result = headwater("bench", "--out", tmp_path, "--only", "small")
    assert result.returncode == 2
    assert "measure all tables" in result.stderr
    assert (tmp_path / "report.json").read_text() == '{"tables": []}'
    monkeypatch.setattr(report, "TABLES", ("lonely",))
    assert headwater("bench", "--out", tmp_path).returncode == 0
    assert json.loads((tmp_path / "report.json").read_text())["format"] == report.FORMAT


def test_a_peer_that_is_not_installed_is_left_out_and_told(jobs):
    results = contest({"ours": "few.jobs:quick", "theirs": "few.jobs:peer"}, 1)
    assert results["ours"].answer == 1.5
    assert results["ours"].seconds > 0
    assert results["theirs"].seconds != results["theirs"].seconds
    assert absent(results) == ["faiss is not installed (pip install headwater[peers]). Left out: theirs"]


def test_nobody_is_asked_while_another_prepares(jobs):
    assert contest({"early": "few.jobs:early", "late": "few.jobs:late"}, 1)["early"].answer == 1.0


@pytest.mark.parametrize(("equal", "turns"), [(False, 2), (True, 3)])
def test_a_long_turn_needs_no_warming_up_unless_all_are_to_have_as_many(jobs, monkeypatch, equal, turns):
    monkeypatch.setattr("headwater.bench.contest.LONG", 0.1)
    assert contest({"long": "few.jobs:long"}, 2, equal=equal)["long"].answer == turns


def test_a_job_that_fails_for_another_reason_is_an_error(jobs, capfd):
    with pytest.raises(RuntimeError, match="broken ended"):
        contest({"broken": "few.jobs:broken"}, 1)
    assert "not_a_peer" in capfd.readouterr().err
