"""``headwater atlas timeline`` and ``headwater atlas diff``, as people run them."""

import json

import pytest

from headwater.train.folder import RunFolder
from small_atlas import HEADS, small_atlas
from tiny_atlas import save_corpus, save_model


@pytest.fixture(scope="module")
def run(tmp_path_factory):
    folder = tmp_path_factory.mktemp("timeline") / "run"
    for step in (0, 1, 2, 4):
        save_model(RunFolder(folder).snapshot(step), seed=step)
    save_corpus(folder / "corpus")
    return folder


@pytest.fixture(scope="module")
def atlases(tmp_path_factory):
    folders = [tmp_path_factory.mktemp("atlas") / str(seed) for seed in (7, 15)]
    for folder, seed in zip(folders, (7, 15), strict=True):
        small_atlas(folder, seed=seed)
    return folders


def test_a_training_is_told_and_drawn(headwater, run, tmp_path):
    told = headwater("atlas", "timeline", run, "--every", "3", "--plot", tmp_path / "curves.svg")
    assert told.returncode == 0
    assert "since step" in told.stdout
    assert "→" in told.stdout
    assert "given norms at the corpus' mean scale" in told.stdout
    assert b"L0H1" in (tmp_path / "curves.svg").read_bytes()


def test_a_training_as_json(headwater, run):
    told = headwater("atlas", "timeline", run, "--every", "3", "--top", "0", "--json")
    document = json.loads(told.stdout)
    assert sorted({moment["step"] for moment in document["moments"]}) == [0, 4]
    assert [one["head"] for one in document["became"]] == ["L0H0", "L0H1", "L0H2"]
    assert document["moments"][0]["says"] == []


def test_two_atlases_are_told_apart(headwater, atlases):
    told = headwater("atlas", "diff", *atlases, "--limit", "2")
    assert told.returncode == 0
    assert "appeared: 2 of" in told.stdout
    assert "--limit" in told.stderr
    one = json.loads(headwater("atlas", "diff", *atlases, "--head", HEADS[1], "--json").stdout)
    assert {row["head"] for row in one["vanished"]} == {HEADS[1]}


@pytest.mark.parametrize(
    ("arguments", "words"),
    [
        (["timeline", "RUN", "--every", "0"], "--every 0"),
        (["timeline", "RUN", "--top", "-1"], "--top -1"),
        (["timeline", "RUN", "--plot", "curves.txt"], "curves.txt"),
        (["timeline", "nowhere"], "no snapshots"),
        (["diff", "ATLAS", "nowhere"], "is not there"),
        (["diff", "ATLAS", "ATLAS", "--limit", "-3"], "--limit -3"),
        (["diff", "ATLAS", "ATLAS", "--head", "L9H9"], "L9H9"),
    ],
)
def test_what_cannot_be_done_is_refused_in_words(headwater, run, atlases, arguments, words):
    places = {"RUN": run, "ATLAS": atlases[0]}
    told = headwater("atlas", *(places.get(each, each) for each in arguments))
    assert told.returncode != 0
    assert words in told.stderr
    assert "Traceback" not in told.stderr
