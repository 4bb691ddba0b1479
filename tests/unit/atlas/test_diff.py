"""Two atlases side by side: what is said of a lift is true of the arrays that the atlases were made from."""

import json
import shutil

import numpy as np
import pytest

from headwater.atlas.atlas import open_atlas
from headwater.atlas.diff import Change, Standing, diff
from headwater.atlas.manifest import commit, read_manifest
from headwater.errors import InputError
from headwater.files.tables import read_table, write_table
from small_atlas import HEADS, TRIPLES, small_atlas

ALL = 10_000
SEEDS = (7, 15)
"""Of two small atlases that list some skip-trigrams in common."""


@pytest.fixture(scope="module")
def small(tmp_path_factory):
    return [small_atlas(tmp_path_factory.mktemp("atlas") / str(seed), seed=seed) for seed in SEEDS]


@pytest.fixture(scope="module")
def atlases(small):
    with open_atlas(small[0].folder) as before, open_atlas(small[1].folder) as after:
        yield before, after


@pytest.fixture(scope="module")
def found(atlases):
    return diff(*atlases, limit=ALL)


def again(folder, to, heads=HEADS, **settings):
    """The atlas of a folder in another one, with other files or settings, and a manifest that fits."""
    before = read_manifest(folder)
    shutil.copytree(folder, to, dirs_exist_ok=True, ignore=lambda _, names: [name for name in names if (to / name).is_file()])
    (to / "manifest.json").unlink(missing_ok=True)
    commit(to, model=before.model, settings={**before.settings, **settings}, plan=before.plan, heads=heads, vocab=before.vocab)
    return open_atlas(to)


def test_what_is_known_of_a_lift_is_true(small, found):
    kinds = set()
    for change in (*found.appeared, *found.vanished, *found.changed):
        head, *ids = change.key
        for side, standing in ((small[0], change.before), (small[1], change.after)):
            lift = side.lift(HEADS.index(head), *ids)
            kinds.add(standing.how)
            room = {"listed": 1e-12, "joined": 1e-6, "bounded": 1e-12}[standing.how]
            assert standing.low - room <= lift <= standing.high + room
            assert (standing.low == standing.high) == (standing.how != "bounded") or standing.low == standing.high == 0
    assert kinds == {"listed", "joined", "bounded"}


def test_every_row_of_both_is_told_once(small, found):
    listed = [set(), set()]
    for side, some in zip(small, listed, strict=True):
        rows = read_table(side.folder / "strongest.parquet")
        columns = [rows[name].tolist() for name in ("head", "source", "dest", "out")]
        some |= {(HEADS[head], *ids) for head, *ids in zip(*columns, strict=True)}
    assert {change.key for change in found.appeared} == listed[1] - listed[0]
    assert {change.key for change in found.vanished} == listed[0] - listed[1]
    assert {change.key for change in found.changed} == listed[0] & listed[1]
    assert found.counts == {word: len(getattr(found, word)) for word in ("appeared", "vanished", "changed")}
    assert len(listed[0]) == 2 * TRIPLES * len(HEADS)


def test_rows_stand_by_how_much_they_changed_at_least(small, found):
    for rows in (found.appeared, found.vanished, found.changed):
        assert [row.least for row in rows] == sorted((row.least for row in rows), reverse=True)
    for row in found.changed:
        lifts = [side.lift(HEADS.index(row.key[0]), *row.key[1:]) for side in small]
        assert row.least == pytest.approx(abs(lifts[1] - lifts[0]))


def test_a_bound_counts_for_as_little_as_it_allows():
    inside, above = Standing("bounded", -0.2, 0.5), Standing("listed", 0.4, 0.4)
    assert Change(("L0H0", 0, 0, 0), inside, above).least == 0
    assert Change(("L0H0", 0, 0, 0), inside, Standing("listed", 0.9, 0.9)).least == pytest.approx(0.4)
    assert Change(("L0H0", 0, 0, 0), Standing("listed", -0.9, -0.9), inside).least == pytest.approx(0.7)


def test_an_atlas_does_not_differ_from_itself(atlases):
    found = diff(atlases[0], atlases[0], limit=ALL)
    assert found.appeared == found.vanished == ()
    assert {change.least for change in found.changed} == {0.0}
    assert {head.same_output for head in found.heads} == {1.0}
    assert found.remarks == ("both are of the same weights",)


def test_there_and_back_is_the_same_the_other_way_round(atlases, found):
    back = diff(*reversed(atlases), limit=ALL)
    assert [row.key for row in back.appeared] == [row.key for row in found.vanished]
    assert [(row.before, row.after) for row in back.vanished] == [(row.after, row.before) for row in found.appeared]


def test_one_head_and_a_few_rows(atlases, found):
    few = diff(*atlases, "L1H0", limit=3)
    assert {row.key[0] for row in few.appeared} == {"L1H0"}
    assert few.appeared == tuple(row for row in found.appeared if row.key[0] == "L1H0")[:3]
    assert [one.head for one in few.heads] == ["L1H0"]
    assert few.counts["appeared"] + few.counts["changed"] == 2 * TRIPLES


def test_first_entries_are_compared(small, found):
    said = [side.output.argmax(axis=2) for side in small]
    sought = [side.score.argmax(axis=2) for side in small]
    for number, one in enumerate(found.heads[:-1]):
        assert one.same_output == pytest.approx(np.mean(said[0][number] == said[1][number]))
        assert one.same_source == pytest.approx(np.mean(sought[0][number] == sought[1][number]))
    assert found.heads[-1].head == "direct"


def test_summaries_are_put_side_by_side(small, tmp_path):
    def told(copying, positions):
        numbers = {"verdict": "copying", "copying": copying, "placement": {"positions": positions}, "induction": None}
        return {"heads": [{"head": name, **numbers} for name in HEADS]}

    for number, summary in enumerate((told(0.5, 0.25), told(-0.5, 0.75))):
        (tmp_path / str(number)).mkdir()
        (tmp_path / str(number) / "heads.json").write_text(json.dumps(summary))
    with again(small[0].folder, tmp_path / "0") as one, again(small[1].folder, tmp_path / "1") as other:
        found = diff(one, other)
    assert found.heads[0].numbers["copying"] == (0.5, -0.5)
    assert found.heads[0].numbers["positions"] == (0.25, 0.75)
    assert found.heads[0].numbers["induction"] == (None, None)
    assert found.tables()[1].rows[0][1:4] == ("copying", "+0.50 → -0.50", "+0.25 → +0.75")


def test_other_settings_and_heads_are_told(small, atlases, tmp_path):
    with again(small[1].folder, tmp_path / "other", heads=("L0H0", "L0H1", "L2H5"), others=99, rows=3) as other:
        found = diff(atlases[0], other)
        with pytest.raises(InputError, match="L1H0"):
            diff(atlases[0], other, "L1H0")
    text = " ".join(found.remarks)
    assert "other others" in text
    assert "rows" not in text
    assert "only before: L1H0" in text
    assert "only after: L2H5" in text
    assert {row.key[0] for row in found.appeared} <= {"L0H0", "L0H1"}


def test_other_vocabularies_are_refused(small, atlases, tmp_path):
    (tmp_path / "other").mkdir()
    rows = read_table(small[1].folder / "vocab.parquet")
    rows["text"][3] = " else"
    write_table(tmp_path / "other" / "vocab.parquet", rows)
    with again(small[1].folder, tmp_path / "other") as other, pytest.raises(InputError, match="#3 is not the same"):
        diff(atlases[0], other)


def test_tables_and_documents_say_which_numbers_are_bounds(found):
    tables = found.tables()
    assert [table.title.split(":")[0].strip() for table in tables[2:]] == ["appeared", "vanished", "changed"]
    cells = [cell for table in tables[2:] for row in table.rows for cell in row]
    assert any(cell.startswith("≤ ") for cell in cells)
    assert any(cell.startswith("≥ ") for cell in cells)
    document = json.loads(json.dumps(found.plain(), allow_nan=False))
    sides = [row[side] for row in document["appeared"] for side in ("before", "after")]
    assert {side["lift"] is None for side in sides if side["how"] == "bounded"} == {True}
    assert document["appeared"][0]["source_id"] == found.appeared[0].key[1]
    assert found.curves() == ()


def test_a_head_may_be_written_in_small_letters(atlases):
    assert diff(*atlases, "l0h1").plain() == diff(*atlases, "L0H1").plain()
