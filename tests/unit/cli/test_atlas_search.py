"""``headwater atlas search``, ``export`` and ``verify``."""

import json
import shutil
import subprocess
import sys

import pytest

from small_atlas import small_atlas


@pytest.fixture(scope="module")
def built(tmp_path_factory):
    return small_atlas(tmp_path_factory.mktemp("cli") / "atlas").folder


def test_a_search_prints_a_table_and_what_is_left_out(headwater, built):
    told = headwater("atlas", "search", built, "--source", " keep", "--head", "L0", "--limit", 3)
    assert told.returncode == 0
    lines = told.stdout.splitlines()
    assert lines[1].split()[:4] == ["head", "source", "dest", "out"]
    assert "‘ keep’" in lines[2]
    assert "rows 1 to 3 of" in told.stdout
    assert "every skip-trigram of this source with a lift above" in told.stdout


@pytest.mark.parametrize(
    ("written", "tokens"), [("#3", {3}), ("prefix: ", {0, 1, 2, 3, 4, 7, 9}), ("regex:^ ?def$", {6, 7}), ("keep", {5})]
)
def test_json_has_the_shape_that_is_documented(headwater, built, written, tokens):
    told = headwater("atlas", "search", built, "--out", written, "--json", "--limit", 1000)
    document = json.loads(told.stdout)
    assert {row["out_id"] for row in document["rows"]} == tokens
    assert {"head", "source", "dest", "out", "score", "output", "attention", "lift", "source_id", "dest_id", "out_id"} <= set(
        document["rows"][0]
    )
    assert document["total"] == len(document["rows"])


def test_sorting_pages_and_several_heads(headwater, built):
    whole = json.loads(headwater("atlas", "search", built, "--head", "L0H0,L1", "--sort", "-lift", "--json").stdout)["rows"]
    page = json.loads(
        headwater(
            "atlas", "search", built, "--head", "L0H0", "L1", "--sort", "-lift", "--limit", 5, "--offset", 2, "--json"
        ).stdout
    )
    assert page["rows"] == whole[2:7]
    assert [row["lift"] for row in whole] == sorted(row["lift"] for row in whole)
    assert {row["head"] for row in whole} == {"L0H0", "L1H0"}


@pytest.mark.parametrize(
    ("arguments", "words"),
    [
        (["--source", "kep"], "did you mean"),
        (["--out", "regex:(a"], "RE2"),
        (["--sort", "lifts"], "did you mean lift"),
        (["--head", "L9"], "heads or layers"),
        (["--limit", "-1"], "a limit"),
    ],
)
def test_what_cannot_be_asked_is_two_lines_and_exit_code_2(headwater, built, arguments, words):
    told = headwater("atlas", "search", built, *arguments)
    assert told.returncode == 2
    assert words in told.stderr
    assert told.stdout == ""


def test_verify_says_all_is_well_or_exits_with_1(headwater, built, tmp_path):
    told = headwater("atlas", "verify", built)
    assert (told.returncode, "as they were written" in told.stdout) == (0, True)
    folder = shutil.copytree(built, tmp_path / "atlas")
    (folder / "says" / "L0H0.parquet").unlink()
    told = headwater("atlas", "verify", folder)
    assert told.returncode == 1
    assert "says/L0H0.parquet" in told.stdout
    told = headwater("atlas", "verify", folder, "--json")
    assert told.returncode == 1
    assert json.loads(told.stdout)["findings"][0]["what"] == "missing"
    assert headwater("atlas", "verify", tmp_path / "nothing").returncode == 2


def test_export_knows_the_format_by_the_ending(headwater, built, tmp_path):
    for name, first in (("x.csv", b'"head"'), ("x.jsonl", b'{"head"'), ("x.parquet", b"PAR1")):
        told = headwater("atlas", "export", built, "strongest", "--out", tmp_path / name, "--json")
        assert told.returncode == 0
        assert json.loads(told.stdout)["rows"] == 120
        assert (tmp_path / name).read_bytes().startswith(first)
    assert headwater("atlas", "export", built, "--out", tmp_path / "x.txt").returncode == 2
    assert headwater("atlas", "export", built, "--out", tmp_path / "x.txt", "--format", "csv").returncode == 0


def test_a_search_from_the_command_line_waits_for_no_torch(built):
    script = "import sys; from headwater.cli.main import main\ntry: main()\nfinally: assert 'torch' not in sys.modules, 'torch'"
    told = subprocess.run(
        [sys.executable, "-c", script, "atlas", "search", built, "--limit", "1"], capture_output=True, text=True, check=False
    )
    assert (told.returncode, told.stderr) == (0, "")
