"""Bugs that factorisation forces: planted ones are found, and nothing else is."""

import json

import numpy as np
import pytest
from tests.planted_atlas import AT, BAY, IN, KEEP, MIND, WORDS, all_rows, keeper, sayings

from headwater.atlas.bugs import Texts, Thresholds, bugs
from headwater.atlas.evidence import evidence
from headwater.atlas.manifest import commit
from headwater.files.tables import write_table


def planted(searched=80, held_out=40, **thresholds):
    weights, texts = keeper(), (sayings(searched, seed=1), sayings(held_out, seed=2))
    shares = np.bincount(texts[0].ravel(), minlength=len(WORDS)) / texts[0].size
    rows = all_rows(weights, shares, others=23)
    return weights, rows, texts, bugs(weights, rows, Texts(*texts, shares), Thresholds(**thresholds))


def test_the_crossed_pair_is_found_and_nothing_else():
    _, _, _, found = planted()
    triples = set(zip(found.source.tolist(), found.dest.tolist(), found.out.tolist(), strict=True))
    assert triples == {(KEEP, IN, BAY), (KEEP, AT, MIND)}
    assert len(found.cost) == 2
    assert (found.lift > 0).all()
    assert (found.measured > 0).all()
    assert found.cost[0] >= found.cost[1] > 0


def test_a_bug_knows_its_parents():
    _, rows, (searched, _), found = planted()
    which = found.dest.tolist().index(IN)
    assert (found.dest_parent_out[which], found.out_parent_dest[which]) == (MIND, AT)
    assert found.dest_parent_occurs[which] == count_slowly(searched, IN, MIND)
    assert found.out_parent_occurs[which] == count_slowly(searched, AT, BAY)
    assert found.chances[which] == count_slowly(searched, IN, None)
    shares = np.bincount(searched.ravel(), minlength=len(WORDS)) / searched.size
    assert found.expected[which] == pytest.approx(found.chances[which] * shares[BAY])
    listed = (rows.source == KEEP) & (rows.dest == IN) & (rows.out == BAY)
    assert found.lift[which] == pytest.approx(rows.lift[listed].item(), rel=1e-12)


def count_slowly(text, dest, out):
    """Places of “keep … dest”, or those of them that go on with ``out``."""
    return sum(
        window[at] == dest and KEEP in window[:at] and out in (None, window[at + 1])
        for window in text.tolist()
        for at in range(len(window) - 1)
    )


def test_what_a_bug_costs_is_what_it_is_worth_with_the_other_sign():
    weights, rows, (_, held_out), found = planted()
    for which in range(2):
        row = (rows.source == KEEP) & (rows.dest == found.dest[which]) & (rows.out == found.out[which])
        alone = evidence(weights, held_out, rows.some(row))
        assert found.cost[which] == pytest.approx(-alone.nats.item(), rel=1e-12)
        assert found.places[which] == alone.chances.item()


def test_what_occurs_once_anywhere_is_no_bug():
    weights, rows, (searched, held_out), _ = planted()
    shares = np.full(len(WORDS), 1 / len(WORDS))
    for both in ((_said(searched, IN, BAY), held_out), (searched, _said(held_out, IN, BAY))):
        found = bugs(weights, rows, Texts(*both, shares))
        assert list(zip(found.dest.tolist(), found.out.tolist(), strict=True)) == [(AT, MIND)]


def _said(text, dest, out):
    said = text.copy()
    window, at = np.argwhere(said == dest)[0]
    said[window, at + 1] = out
    return said


def test_rare_parents_and_few_chances_make_no_bug():
    assert not len(planted(common=1000)[3].cost)
    assert not len(planted(chances=1000)[3].cost)
    assert not len(planted(searched=2)[3].cost)


@pytest.fixture
def atlas(tmp_path):
    """As much of an atlas as bugs are told from."""
    found = planted()[3]
    texts = {"id": np.arange(len(WORDS), dtype=np.uint32), "text": WORDS, "shown": [f"‘{word}’" for word in WORDS]}
    write_table(tmp_path / "vocab.parquet", texts)
    write_table(tmp_path / "bugs.parquet", found.columns())
    commit(tmp_path, model={}, settings={}, plan={}, heads=["L0H0"], vocab=len(WORDS))
    return tmp_path


def test_bugs_are_shown_with_their_parents(headwater, atlas):
    told = headwater("atlas", "bugs", atlas)
    assert told.returncode == 0
    assert "‘keep’ … ‘in’ → ‘bay’" in told.stdout
    assert "… ‘in’ → ‘mind’" in told.stdout
    assert "2 bugs" in told.stdout


def test_programs_get_exact_texts_and_ids(headwater, atlas):
    told = headwater("atlas", "bugs", atlas, "--json", "--head", "l0h0", "--limit", "1")
    document = json.loads(told.stdout)
    [bug] = document["bugs"]
    assert document["total"] == 2
    assert {bug["out"], bug["dest"]} in ({"in", "bay"}, {"at", "mind"})
    assert bug["head"] == "L0H0"
    assert bug["source"] == "keep"
    assert bug["source_id"] == KEEP
    assert {parent["dest"] for parent in bug["parents"]} == {"in", "at"}


def test_a_head_that_is_not_there_and_a_limit_below_zero_are_refused(headwater, atlas):
    for arguments in (["--head", "L7H7"], ["--limit", "-1"]):
        told = headwater("atlas", "bugs", atlas, *arguments)
        assert told.returncode == 2
        assert "Traceback" not in told.stderr


def test_an_atlas_without_text_has_no_bugs_to_tell(headwater, tmp_path):
    write_table(tmp_path / "vocab.parquet", {"id": np.arange(2, dtype=np.uint32), "text": ["a", "b"], "shown": ["a", "b"]})
    commit(tmp_path, model={}, settings={}, plan={}, heads=["L0H0"], vocab=2)
    told = headwater("atlas", "bugs", tmp_path)
    assert told.returncode == 2
    assert "--corpus" in told.stderr
