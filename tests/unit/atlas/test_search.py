"""Looking things up in an atlas."""

import re
import subprocess
import sys
import threading

import duckdb
import numpy as np
import pytest

from headwater.atlas.atlas import open_atlas
from headwater.atlas.manifest import commit
from headwater.atlas.patterns import Contains, Matches, Prefix, read_pattern
from headwater.atlas.search import Query
from headwater.errors import InputError, ModelFileError
from headwater.files.tables import write_table
from small_atlas import EACH, HEADS, TEXTS, TRIPLES, K, small_atlas


@pytest.fixture(scope="module")
def small(tmp_path_factory):
    return small_atlas(tmp_path_factory.mktemp("search") / "atlas")


@pytest.fixture(scope="module")
def atlas(small):
    with open_atlas(small.folder) as opened:
        yield opened


def test_it_says_what_it_is(atlas):
    assert atlas.heads == HEADS
    assert atlas.words.texts == tuple(TEXTS)
    assert len(atlas.words) == len(TEXTS)
    assert atlas.summary == {"heads": [{"head": name} for name in HEADS]}
    assert {"vocab", "says/L0H1", "trigrams/by_out", "strongest", "evidence", "bigrams"} <= set(atlas.tables)
    assert "3 heads" in repr(atlas)


def test_a_row_has_texts_ids_and_every_number(atlas, small):
    found = atlas.search(source=" keep", head="L0H1", limit=1)
    row = found.rows[0]
    ids = [row[name] for name in ("source_id", "dest_id", "out_id")]
    assert (row["head"], row["source"], [TEXTS[each] for each in ids]) == (
        "L0H1",
        " keep",
        [row["source"], row["dest"], row["out"]],
    )
    source, dest, out = ids
    assert row["score"] == np.float32(small.score[1, dest, source])
    assert row["output"] == np.float32(small.output[1, source, out])
    assert row["attention"] == np.float32(small.attention[1, dest, source])
    assert row["lift"] == np.float32(small.lift(1, source, dest, out))
    assert row["lift"] == pytest.approx(row["attention"] * row["output"], rel=1e-6)


@pytest.mark.parametrize(
    ("pattern", "tokens"),
    [
        (" keep", [0]),
        (3, [3]),
        (Prefix(" "), [0, 1, 2, 3, 4, 7, 9]),
        (Contains("elf"), [8, 9]),
        (Matches(r"^ ?(def|self)$"), [6, 7, 8, 9]),
        (Matches("é"), [12]),
        (Contains('"b,\n'), [11]),
        (Contains("["), [13]),
    ],
)
def test_patterns_mean_tokens(atlas, small, pattern, tokens):
    for number, slot in enumerate(("source", "dest", "out"), 1):
        found = atlas.search(**{slot: pattern}, limit=1_000)
        assert {row[f"{slot}_id"] for row in found} == {row[number] for row in small.rows if row[number] in tokens}
        assert found.total == len(found) == sum(row[number] in tokens for row in small.rows)


def test_pages_follow_each_other_and_no_row_is_lost(atlas):
    whole = atlas.search(head="L0", limit=1_000)
    pages = [row for offset in range(0, whole.total + 7, 7) for row in atlas.search(head="L0", limit=7, offset=offset)]
    assert tuple(pages) == whole.rows
    assert len(whole) == whole.total
    assert atlas.search(head="L0", limit=0).rows == ()


def test_strongest_is_what_it_says(atlas, small):
    every = [(small.lift(h, a, b, c), h, a, b, c) for h in range(3) for a in range(14) for b in range(14) for c in range(14)]
    best = sorted(every, reverse=True)[:TRIPLES]
    found = atlas.strongest()
    assert [row["place"] for row in found] == list(range(1, TRIPLES + 1))
    assert [(row["lift"], HEADS.index(row["head"]), row["source_id"], row["dest_id"], row["out_id"]) for row in found] == best
    worst = sorted(each for each in every if each[1] == 2)[:TRIPLES]
    lowering = atlas.head("L1H0").strongest(lowering=True)
    assert [row["lift"] for row in lowering] == [each[0] for each in worst]
    assert [row["place"] for row in lowering] == list(range(-1, -TRIPLES - 1, -1))


def test_lists_of_a_head(atlas, small):
    head = atlas.head("L0H1")
    says = head.says(" self").rows
    order = np.argsort(small.output[1, 9])
    assert [row["out_id"] for row in says if row["place"] > 0] == order[::-1][:K].tolist()
    assert [row["out_id"] for row in says if row["place"] < 0] == order[:K].tolist()
    assert [row["output"] for row in says if row["place"] > 0] == np.sort(small.output[1, 9])[::-1][:K].tolist()
    assert [row["source_id"] for row in head.seeks(" self")] == np.argsort(-small.score[1, 9])[:K].tolist()
    assert [row["dest_id"] for row in head.sought(" self")] == np.argsort(-small.attention[1, :, 9])[:K].tolist()
    lifts = small.attention[1].max(axis=0) * small.output[1, :, 9]
    assert [row["source_id"] for row in head.said(" self") if row["place"] > 0] == np.argsort(-lifts)[:K].tolist()
    assert {row["token"] for row in atlas.bigrams(Contains("def"))} == {"def", " def"}


def test_evidence_stands_beside_rows_and_sorts_them(atlas, small):
    found = atlas.search(sort="nats", limit=1_000)
    nats = [row["nats"] for row in found]
    there = sorted((each["nats"] for each in small.evidence.values()), reverse=True)
    assert nats == [*there, *[None] * (found.total - len(there))]
    by_lift = atlas.search(source="keep", limit=1_000)
    for row in by_lift:
        told = small.evidence.get((HEADS.index(row["head"]), row["source_id"], row["dest_id"], row["out_id"]))
        assert row["nats"] == (told["nats"] if told else None)
        assert row["chances"] == (told["chances"] if told else None)
        assert row["measured"] == (None if told is None or np.isnan(told["measured"]) else told["measured"])


def test_an_atlas_without_a_text_says_that_it_needs_one(tmp_path):
    small_atlas(tmp_path / "atlas", corpus=False)
    with open_atlas(tmp_path / "atlas") as atlas:
        assert "nats" not in atlas.search(limit=1).rows[0]
        with pytest.raises(InputError, match="--corpus"):
            atlas.search(sort="nats")


def test_what_a_cut_leaves_out_is_said_and_true(atlas, small):
    """Every skip-trigram beyond the bound that is told, looked up among all of them, is there."""
    for source in range(len(TEXTS)):
        for heads in (None, "L0", "L1H0"):
            found = atlas.search(source=source, head=heads, limit=1_000)
            above, below = map(float, re.search(r"above (\S+) or below (\S+) is listed", found.remarks[0]).groups())
            there = {(HEADS.index(row["head"]), row["dest_id"], row["out_id"]) for row in found}
            for head in range(3) if heads is None else (0, 1) if heads == "L0" else (2,):
                lifts = small.attention[head, :, source][:, None] * small.output[head, source]
                beyond = np.argwhere((lifts > above + 1e-3 * abs(above)) | (lifts < below - 1e-3 * abs(below)))
                assert {(head, *map(int, each)) for each in beyond} <= there
    assert f"{TRIPLES} strongest" in atlas.search(out="def").remarks[0]
    assert f"best {EACH}" in atlas.search().remarks[0]
    assert "for their lift" in atlas.search(sort="score").remarks[-1]


@pytest.mark.parametrize(
    ("asked", "words"),
    [
        ({"source": "kep"}, "did you mean 'keep'"),
        ({"source": "mind"}, "' mind'"),
        ({"source": 14}, "0 to 13"),
        ({"source": -1}, "0 to 13"),
        ({"out": Matches("(a")}, "RE2"),
        ({"out": Matches(r"(?=a)")}, "RE2"),
        ({"out": Matches("(" * 199)}, "RE2"),
        ({"out": Matches("a" * 1_001)}, "1,001 letters"),
        ({"out": Prefix("")}, "0 letters"),
        ({"out": ""}, "0 letters"),
        ({"dest": Prefix("zzz")}, "fits no token"),
        ({"head": "L7"}, "heads or layers"),
        ({"head": ["L0H0", "L0H9"]}, "L0H9"),
        ({"sort": "lifts"}, "did you mean lift"),
        ({"sort": "lift; DROP TABLE vocabulary"}, "sorting by"),
        ({"limit": -1}, "a limit"),
        ({"offset": -1}, "an offset"),
    ],
)
def test_what_cannot_be_asked_is_told(atlas, asked, words):
    with pytest.raises(InputError, match=re.escape(words)):
        atlas.search(**asked)


def test_a_regular_expression_cannot_run_away(atlas):
    """Python's own would try 2⁴⁰ ways to read the token of forty letters."""
    assert {row["source"] for row in atlas.search(source=Matches(r"(a+)+b|^ keep$"), limit=1_000)} == {" keep"}


def test_other_tables_and_heads_are_refused_by_name(atlas):
    with pytest.raises(InputError, match="did you mean strongest"):
        atlas.relation("strongst")
    with pytest.raises(InputError, match="a head of this atlas"):
        atlas.head("L0")
    with pytest.raises(InputError, match="no line"):
        atlas.lines("L0H0", ["nothing"])


def test_the_notation_of_the_command_line():
    assert [read_pattern(text) for text in ("#17", "# 17", "#", "prefix:#1", "contains: a:b", "regex:^x", "exact:regex:x", "a:b")] == [
        17, "# 17", "#", Prefix("#1"), Contains(" a:b"), Matches("^x"), "regex:x", "a:b",
    ]  # fmt: skip


def test_a_regular_expression_is_short(atlas):
    with pytest.raises(InputError, match="1 to 200"):
        read_pattern(f"regex:{'a' * 201}")
    with pytest.raises(InputError, match="1 to 200"):
        atlas.search(source=Matches("a?" * 101))
    assert read_pattern(f"contains:{'a' * 201}") == Contains("a" * 201)


def test_relations_answer_sql_and_reach_nothing_else(atlas, tmp_path):
    assert atlas.relation("strongest").filter("place > 0").aggregate("count(*)").fetchall() == [(3 * TRIPLES,)]
    (tmp_path / "secret.csv").write_text("a\n1\n")
    with atlas.cursor() as cursor, pytest.raises(duckdb.Error, match="disabled"):
        cursor.execute(f"FROM '{tmp_path}/secret.csv'")


def test_many_threads_ask_at_once(atlas):
    expected, answers = atlas.search(out="def").rows, []
    threads = [threading.Thread(target=lambda: answers.append(atlas.search(out="def").rows)) for _ in range(8)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    assert answers == [expected] * 8


def test_an_atlas_with_a_changed_size_is_not_opened(tmp_path):
    small_atlas(tmp_path / "atlas")
    path = tmp_path / "atlas" / "says" / "L0H0.parquet"
    path.write_bytes(path.read_bytes() + b"x")
    with pytest.raises(ModelFileError, match=r"says/L0H0\.parquet has"):
        open_atlas(tmp_path / "atlas")


def test_a_vocabulary_of_other_ids_is_refused(tmp_path):
    small_atlas(tmp_path / "atlas")
    write_table(
        tmp_path / "atlas" / "vocab.parquet", {"id": np.arange(1, 15, dtype=np.uint32), "text": TEXTS, "shown": ["x"] * 14}
    )
    commit(tmp_path / "atlas", model={}, settings={}, plan={}, heads=HEADS, vocab=14)
    with pytest.raises(ModelFileError, match="other ids"):
        open_atlas(tmp_path / "atlas")


def test_rows_without_damage_but_of_another_table_are_refused(tmp_path):
    small = small_atlas(tmp_path / "atlas")
    for part in (small.folder / "trigrams" / "by_out").iterdir():
        write_table(part, {"out": np.zeros(3, np.uint32)})
    commit(small.folder, model={}, settings={}, plan={}, heads=HEADS, vocab=14)
    with open_atlas(small.folder) as atlas, pytest.raises(ModelFileError, match="cannot be read"):
        atlas.search(out="def")


def test_a_part_that_takes_the_database_with_it_does_not_take_the_atlas(tmp_path):
    """Whatever bits change in one file, the others are still read."""
    small = small_atlas(tmp_path / "atlas")
    path = small.folder / "trigrams" / "by_out" / "000.parquet"
    whole, lots, refused = path.read_bytes(), np.random.default_rng(0), 0
    with open_atlas(small.folder) as atlas:
        expected = atlas.search(source="def").rows
        with pytest.raises(duckdb.InternalException), atlas.cursor():
            raise duckdb.InternalException("what DuckDB says of some damage")
        for place in lots.integers(0, len(whole), 25).tolist():
            changed = bytearray(whole)
            changed[place] ^= 1 << int(lots.integers(8))
            path.write_bytes(changed)
            try:
                atlas.search(out=" in")
            except ModelFileError:
                refused += 1
            assert atlas.search(source="def").rows == expected
    assert refused > 3


def test_opening_and_searching_need_no_torch(small):
    script = (
        "import sys; from headwater.atlas.atlas import open_atlas; atlas = open_atlas(sys.argv[1]);"
        "atlas.search(source='def', limit=3); print(atlas.search(out=3)); assert 'torch' not in sys.modules"
    )
    told = subprocess.run([sys.executable, "-c", script, small.folder], capture_output=True, text=True, check=True)
    assert "lift" in told.stdout
    assert told.stderr == ""


def test_a_head_may_be_written_in_small_letters(atlas):
    assert atlas.strongest("l0h1").plain() == atlas.strongest("L0H1").plain()
    assert atlas.head("l0h1").name == "L0H1"


@pytest.mark.parametrize("pattern", [" keep", 17, "#17", "prefix:de", "exact:x", Prefix(" de"), Contains("#1"), Matches("^a")])
def test_a_query_is_told_as_it_is_written(pattern):
    assert read_pattern(Query(source=pattern).plain()["source"]) == pattern
