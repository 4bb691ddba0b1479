"""A training followed through its snapshots: the numbers of each, and when a head became what it is."""

import json
import shutil
from dataclasses import replace

import pytest
import torch

from headwater.api import Model, load
from headwater.atlas.leading import leading
from headwater.atlas.settings import Settings
from headwater.atlas.subject import Subject
from headwater.atlas.timeline import Became, Moment, timeline
from headwater.circuits.behaviour import attending
from headwater.circuits.head import Head
from headwater.circuits.overview import Choices, overview
from headwater.circuits.placement import placements
from headwater.errors import InputError, ModelFileError
from headwater.model.config import ModelConfig
from headwater.model.weights import Weights
from headwater.show.plots import drawing
from headwater.text.corpus import open_corpus
from headwater.train.folder import RunFolder
from tiny_atlas import save_corpus, save_model

STEPS = [0, 1, 2, 4, 8, 12]
HEADS = ["L0H0", "L0H1", "L0H2"]


@pytest.fixture(scope="module")
def run(tmp_path_factory):
    """The folder of a training, as far as it is looked at: random models, and a text."""
    folder = tmp_path_factory.mktemp("timeline") / "run"
    for step in STEPS:
        save_model(RunFolder(folder).snapshot(step), seed=step)
    save_corpus(folder / "corpus")
    return folder


@pytest.fixture(scope="module")
def found(run):
    return timeline(run)


def moment(step, *, verdict="neither", previous=0.1, induction=None):
    return Moment(
        step=step, head=Head(0, 0), copying=0.0, centred=0.0, verdict=verdict, previous=previous, positions=0.5,
        induction=induction, partner=None, says=(),
    )  # fmt: skip


def test_every_head_is_told_at_every_snapshot(found):
    assert [(one.step, str(one.head)) for one in found.moments] == [(step, head) for step in STEPS for head in HEADS]


def test_numbers_are_those_of_the_snapshots(run, found):
    for step, place in RunFolder(run).snapshots()[::3]:
        weights = load(place).weights
        told, _ = overview(weights, None, Choices(ranks=False, examples=0))
        looks = {one.head: one for one in attending(weights)}
        for one in told:
            ours = next(each for each in found.by_head[one.head] if each.step == step)
            assert ours.copying == pytest.approx(one.copying.raw.score)
            assert ours.centred == pytest.approx(one.copying.centred.score)
            assert ours.previous == looks[one.head].previous
            assert ours.induction is None
            assert ours.verdict == one.copying.verdict
    # Or a timeline and `headwater heads` would call one head by two names.
    assert found.plain()["draws"] == Choices().draws.count


def test_the_texts_own_frequencies_and_scales_are_used(run, found):
    weights, text = load(RunFolder(run).snapshot(12)).weights, open_corpus(run / "corpus")
    shares = torch.tensor(text.unigrams, dtype=torch.float64) / int(text.unigrams.sum())
    exact = placements(weights, frequencies=shares)
    for one in exact:
        # The norm's scale is a token's own here, so that none has to be measured.
        assert found.by_head[one.head][-1].positions == pytest.approx(one.positions)
    assert found.given == ("norms at the corpus' mean scale",)


def test_skip_trigrams_are_those_of_the_weights_and_texts(run, tmp_path):
    shutil.copytree(run / "snapshots", tmp_path / "run" / "snapshots")
    found = timeline(tmp_path / "run", every=9, top=2)
    assert found.given == ()
    weights = load(RunFolder(run).snapshot(12)).weights
    subject = Subject(weights, torch.full((256,), 1 / 256, dtype=torch.float64), Settings(others=15))
    for head, [last] in found.by_head.items():
        best = leading(subject, head, 2)
        assert [said.source for said in last.says] == best.source.tolist()
        assert [said.lift for said in last.says] == best.lift.tolist()


def test_some_snapshots_are_enough_and_the_last_is_among_them(run, found):
    few = timeline(run, every=2, top=0)
    assert [one.step for one in few.by_head[Head(0, 1)]] == [1, 4, 12]
    last = found.by_head[Head(0, 1)][-1]
    assert few.by_head[Head(0, 1)][-1] == replace(last, says=())


@pytest.mark.parametrize(
    ("roles", "role", "since", "before"),
    [
        (["neither", "copying", "copying"], "copying", 1, "neither"),
        (["copying", "neither", "copying"], "copying", 2, "neither"),
        (["copying", "copying", "copying"], "copying", 0, None),
        (["copying", "anti-copying", "neither"], "neither", 2, "anti-copying"),
    ],
)
def test_a_head_became_what_it_is_when_it_stayed_so(roles, role, since, before):
    moments = [moment(step, verdict=word) for step, word in enumerate(roles)]
    assert Became.of(moments) == Became(Head(0, 0), role, since, before)


def test_induction_and_looking_back_come_before_copying():
    assert moment(0, verdict="copying", previous=0.9).role == "previous-token"
    assert moment(0, verdict="copying", previous=0.9, induction=0.7).role == "induction"
    assert moment(0, verdict="anti-copying", previous=None, induction=-0.7).role == "anti-copying"
    assert moment(0, verdict="copying", previous=0.5, induction=0.5).role == "copying"


def test_tables_documents_and_curves(found):
    ends, *along = found.tables()
    assert [row[0] for row in ends.rows] == HEADS
    assert along[0].columns == ("head", "0#", "1#", "2#", "4#", "8#", "12#")
    assert all(len(row) == len(table.columns) for table in (ends, *along) for row in table.rows)
    assert not any("induction" in table.title for table in along)
    document = json.loads(json.dumps(found.plain(), allow_nan=False))
    assert len(document["moments"]) == len(HEADS) * len(STEPS)
    assert document["moments"][0]["says"][0]["source_id"] == found.moments[0].says[0].source
    assert [one["since"] for one in document["became"]] == [one.since for one in found.became]
    panels = found.curves()
    assert [len(panel.lines) for panel in panels] == [len(HEADS)] * len(panels)
    assert {line.x for panel in panels for line in panel.lines} == {(1.0, 1.0, 2.0, 4.0, 8.0, 12.0)}
    assert drawing(panels).startswith(b"<?xml")


def test_progress_names_the_steps(run):
    told = []
    timeline(run, every=3, top=0, progress=lambda what, share: told.append((what, share)))
    assert told == [("step 2", 0.5), ("step 12", 1.0)]


def test_the_number_of_threads_changes_nothing(run, found):
    before = torch.get_num_threads()
    torch.set_num_threads(3)
    try:
        assert timeline(run).plain() == found.plain()
        assert torch.get_num_threads() == 3
    finally:
        torch.set_num_threads(before)


def test_a_damaged_snapshot_is_refused(run, tmp_path):
    shutil.copytree(run / "snapshots", tmp_path / "run" / "snapshots")
    for file in (tmp_path / "run" / "snapshots" / "00000004").glob("*.safetensors"):
        file.write_bytes(file.read_bytes()[:-9])
    with pytest.raises(ModelFileError):
        timeline(tmp_path / "run", top=0)


def test_a_folder_without_snapshots_is_refused(tmp_path):
    with pytest.raises(InputError, match="no snapshots"):
        timeline(tmp_path)


def test_a_model_without_heads_is_refused(tmp_path):
    weights = Weights.draw(ModelConfig(vocab=9, context=4, d_model=4, layers=0), seed=0)
    Model(weights).save(tmp_path / "snapshots" / "00000000")
    with pytest.raises(InputError, match="without layers"):
        timeline(tmp_path)
