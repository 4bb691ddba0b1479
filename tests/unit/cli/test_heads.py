"""``headwater heads``: the panel from weights alone, one head in full, JSON, pictures, and what it refuses."""

import json

import pytest

import headwater as hw
from headwater.model.presets import named

FAST = ["--examples", "2", "--quick"]


@pytest.fixture(scope="module")
def panel():
    """What the library says about the two-layer model."""
    from headwater.circuits.overview import overview

    return overview(hw.load("two-layer").weights)


def test_every_head_has_a_row_with_its_numbers(headwater):
    told = headwater("heads", "two-layer", *FAST)
    assert told.returncode == 0
    lines = told.stdout.splitlines()
    for head in (f"L{layer}H{number}" for layer in range(2) for number in range(4)):
        assert sum(line.startswith(head) for line in lines) == 2, head
    assert "before 98%" in next(line for line in lines if line.startswith("L0H2"))
    assert "how many of 8 heads copy" in told.stdout


def test_json_holds_what_the_library_says(headwater, panel):
    told, pairs = panel
    document = json.loads(headwater("heads", "two-layer", "--json").stdout)
    assert [row["head"] for row in document["heads"]] == [str(one.head) for one in told]
    for row, one in zip(document["heads"], told, strict=True):
        assert row["copying"] == pytest.approx(one.copying.raw.score, abs=1e-6)
        assert row["copying_panel"]["ranks"]["top_1"] == one.copying.ranks.top_1
        assert [entry["source_id"] for entry in row["says"]] == one.says.rows.tolist()
    assert document["composition"]["chance"] == pytest.approx(pairs.chance)


def test_tokens_in_json_are_exact_texts_with_their_ids(headwater):
    words = hw.load("two-layer").tokenizer
    document = json.loads(headwater("heads", "two-layer", *FAST, "--head", "L1H1", "--json").stdout)
    assert len(document["heads"]) == 1
    for entry in document["heads"][0]["says"]:
        assert entry["source"] == words.decode([entry["source_id"]])
        assert entry["out"] == words.decode([entry["out_id"]])


def test_the_induction_head_is_named_from_weights_alone(headwater):
    rows = json.loads(headwater("heads", "two-layer", *FAST, "--json").stdout)["heads"]
    scores = {row["head"]: row["induction"]["score"] for row in rows if row["induction"]}
    assert max(scores, key=scores.get) == "L1H1"
    assert next(row for row in rows if row["head"] == "L1H1")["induction"]["fed_by"] == "L0H2"


def test_one_head_in_full_has_its_panels_directions_and_links(headwater):
    told = headwater("heads", "two-layer", "--head", "l1h1", *FAST)
    for heading in ("does L1H1 say what it looks at?", "OV, centred: directions", "QK: the largest scores", "composition ("):
        assert heading in told.stdout
    assert "L0H2     L1H1.K" in told.stdout


def test_joined_heads_get_a_panel_of_their_own(headwater):
    told = headwater("heads", "two-layer", *FAST, "--join", "L1H1", "L1H2")
    assert "L1H1 + L1H2, added up" in told.stdout
    document = json.loads(headwater("heads", "two-layer", *FAST, "--join", "L1H1", "L1H2", "--json").stdout)
    assert document["joined"]["verdict"] == "copying"


def test_a_model_without_layers_shows_its_direct_path(headwater):
    told = headwater("heads", "zero-layer", *FAST)
    assert told.returncode == 0
    assert "direct path: spectra" in told.stdout
    document = json.loads(headwater("heads", "one-layer", "--head", "direct", *FAST, "--json").stdout)
    assert [each["kind"] for each in document["direct"]["spectra"]] == ["raw", "centred"]


def test_what_the_numbers_are_given_is_told(headwater):
    told = headwater("heads", "block", *FAST)
    assert "given a scale of 1" in told.stderr
    assert json.loads(headwater("heads", "block", *FAST, "--json").stdout)["given"]


@pytest.mark.parametrize("kind", ["svg", "png", "pdf"])
def test_pictures_are_written(headwater, tmp_path, kind):
    place = tmp_path / f"heads.{kind}"
    assert headwater("heads", "two-layer", *FAST, "--plot", place).returncode == 0
    assert place.stat().st_size > 10_000


def test_the_same_weights_give_the_same_picture(headwater, tmp_path):
    for name in ("one.svg", "two.svg"):
        headwater("heads", "two-layer", "--head", "L1H1", *FAST, "--plot", tmp_path / name)
    assert (tmp_path / "one.svg").read_bytes() == (tmp_path / "two.svg").read_bytes()


def test_a_model_without_words_shows_ids(headwater, tmp_path):
    hw.Model(hw.Weights.draw(named("one-layer"), seed=0)).save(tmp_path / "model")
    told = headwater("heads", tmp_path / "model", "--head", "L0H3", *FAST)
    assert told.returncode == 0
    assert "#" in told.stdout


@pytest.mark.parametrize(
    ("arguments", "words"),
    [
        (["two-layer", "--head", "L9H0"], "no head is called L9H0"),
        (["two-layer", "--head", "seven"], "'seven' as a head"),
        (["zero-layer", "--head", "L0H0"], "no layers"),
        (["two-layer", "--examples", "-1"], "--examples -1"),
        (["two-layer", "--plot", "heads.gif"], "heads.gif"),
        (["two-layer", "--offset", "3"], "offset"),
        (["nowhere"], "nowhere"),
    ],
)
def test_mistakes_are_told_in_two_lines(headwater, arguments, words):
    told = headwater("heads", *arguments)
    assert told.returncode == 2
    assert words in told.stderr
    assert len(told.stderr.strip().splitlines()) == 2
