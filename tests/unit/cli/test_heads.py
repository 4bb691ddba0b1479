"""``headwater heads``: the panel from weights alone, one head in full, JSON, pictures, and what it refuses."""

import json
import re
from dataclasses import replace

import pytest
import torch

import headwater as hw
from headwater.circuits.all_heads import remarks, tables
from headwater.cli import terminal
from headwater.cli.head_words import Words
from headwater.model.config import Attention, ModelConfig, RotaryPositions
from headwater.text import vocabularies
from headwater.text.tokenizer import Tokenizer, byte_tokenizer
from strategies import random_weights

FAST = ["--examples", "1", "--quick"]
CONFIG = ModelConfig(vocab=300, context=16, d_model=16, layers=2, attention=Attention(heads=2, d_head=8))


@pytest.fixture(scope="module")
def small(tmp_path_factory):
    """A model with more tokens than its tokenizer has words."""
    return saved(CONFIG, tmp_path_factory.mktemp("small") / "model")


@pytest.fixture(scope="module")
def rotary(tmp_path_factory):
    config = ModelConfig(
        vocab=64, context=16, d_model=16, layers=1, attention=Attention(heads=2, d_head=8), positions=RotaryPositions(dims=8)
    )
    return saved(config, tmp_path_factory.mktemp("rotary") / "model")


def saved(config, folder):
    words = byte_tokenizer() if config.vocab >= 256 else None
    hw.Model(random_weights(config, 14, torch.float32), words).save(folder)
    return folder


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
        assert sum(bool(re.match(rf"{head}\s{{2}}", line)) for line in lines) == 4, head
    assert any(line.startswith("L0H2") and "before 98%" in line for line in lines)
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
    told = headwater("heads", "two-layer", *FAST, "--head", "L0H0", "--join", "L1H1", "L1H2")
    assert "L1H1 + L1H2, added up" in told.stdout
    document = json.loads(headwater("heads", "two-layer", *FAST, "--head", "L0H0", "--join", "L1H1,L1H2", "--json").stdout)
    assert document["joined"]["name"] == "L1H1 + L1H2"
    assert document["joined"]["verdict"] == "copying"


def test_joined_heads_are_looked_at_as_the_others_are(headwater, small):
    quick = json.loads(headwater("heads", small, "--quick", "--join", "L0H0", "L1H1", "--json").stdout)["joined"]
    assert quick["ranks"] is None
    whole = json.loads(headwater("heads", small, "--join", "L0H0", "L1H1", "--json").stdout)["joined"]
    assert whole["ranks"]["mean"] > 0
    # Other draws of random circuits: a quick look takes fewer.
    assert whole["raw"]["tokens"]["score"] != quick["raw"]["tokens"]["score"]


def test_a_model_without_layers_shows_its_direct_path(headwater):
    told = headwater("heads", "zero-layer", *FAST)
    assert told.returncode == 0
    assert "direct path: spectra" in told.stdout


def test_the_direct_path_of_a_model_with_heads_in_json_has_texts_with_their_ids(headwater):
    words = hw.load("block").tokenizer
    document = json.loads(headwater("heads", "block", "--head", "DIRECT", *FAST, "--json").stdout)
    assert [each["kind"] for each in document["direct"]["spectra"]] == ["raw", "centred"]
    assert "given a scale of 1" in f"given {'; '.join(document['given'])}"
    [largest] = document["direct"]["largest"]
    found = [largest | {"token": largest["out"], "token_id": largest["out_id"]}, largest]
    found += [
        token
        for spectrum in document["direct"]["spectra"]
        for direction in spectrum["directions"]
        for token in (*direction["reads"], *direction["writes"])
    ]
    assert len(found) == 2 + 2 * 5 * 2 * 5
    for token in found:
        piece = words.token_bytes(token["token_id"])
        assert token["token"] in (piece.decode(errors="replace"), words.display(token["token_id"]))


def test_what_the_numbers_are_given_is_told(headwater):
    told = headwater("heads", "block", *FAST)
    assert "\ngiven a scale of 1" in told.stdout
    assert "given" not in told.stderr
    assert json.loads(headwater("heads", "block", *FAST, "--json").stdout)["given"]
    direct = headwater("heads", "block", "--head", "direct", *FAST)
    assert "\ngiven a scale of 1" in direct.stdout
    assert direct.stderr == ""


def test_where_definitions_disagree_is_part_of_the_result(headwater, small):
    told = headwater("heads", small, "--quick", "--examples", "0")
    document = json.loads(headwater("heads", small, "--quick", "--examples", "0", "--json").stdout)
    differing = [row for row in document["heads"] if row["copying_panel"]["disagreements"]]
    assert differing
    for row in differing:
        [line] = [line for line in told.stdout.splitlines() if line.startswith(row["head"]) and " says " in line]
        assert all(words in line for words in row["copying_panel"]["disagreements"])
    assert told.stderr == f"one head in full: headwater heads {small} --head L1H1\n"


def test_score_and_trace_that_disagree_are_told_as_that(panel):
    told = [one for one in panel[0] if one.copying.verdict == "copying"][-2:]
    assert not any("score and trace disagree" in line for line in remarks(told))
    copying = replace(told[1].copying, centred=replace(told[1].copying.centred, trace=0.0))
    line = remarks([told[0], replace(told[1], copying=copying)])[-1]
    assert line.startswith(f"{told[1].head}: score and trace disagree; score says copying, ")
    assert "trace says neither" in line


@pytest.mark.parametrize("arguments", [["--quick"], ["--head", "L1H1"], ["--head", "direct"]])
def test_tables_fit_eighty_columns_and_no_name_folds(headwater, small, monkeypatch, arguments):
    monkeypatch.setattr(terminal, "PIPED", 80)
    told = headwater("heads", small, *arguments)
    lines = told.stdout.splitlines()
    assert max(map(len, lines[: lines.index("how many of 4 heads copy")] if "--quick" in arguments else lines)) <= 80
    if arguments == ["--quick"]:
        assert lines[0].split() == ["head", "copying", "centred", "verdict", "self-match"]
        assert any(re.search(r"\s(anti-copying|copying|neither)\s", line) for line in lines)


def test_a_column_that_nothing_stands_in_is_left_out(headwater, small):
    assert "own 1st" in headwater("heads", small).stdout
    assert "own 1st" not in headwater("heads", small, "--quick").stdout
    assert "induction" in headwater("heads", small, "--quick").stdout


def test_partners_are_told_where_they_are_above_chance(headwater, small):
    table = headwater("heads", small, "--quick", "--examples", "0").stdout.split("\n\n")[1]
    document = json.loads(headwater("heads", small, "--quick", "--json").stdout)
    assert f"composition by chance: {document['composition']['chance']:.3f}" in table
    first = [row["partners"][0] for row in document["heads"]]
    assert {link["excess"] > 0 for link in first} == {True, False}
    for link, line in zip(first, table.splitlines()[2:], strict=True):
        shown = f"{link['writer']}→{link['reader']} {link['score']:.3f}"
        assert (shown in line) == (link["excess"] > 0)


def test_the_tally_says_what_chance_would_give(headwater, small):
    lines = headwater("heads", small, "--quick", "--examples", "0").stdout.splitlines()
    start = next(number for number, line in enumerate(lines) if line.startswith("how many of 4 heads copy"))
    assert lines[start + 1].rstrip().endswith("chance, each way")
    rows = {re.split(r"\s{2,}", line)[0]: line.rstrip() for line in lines[start + 2 : start + 8]}
    assert all(rows[name].endswith("≈ 0.2") for name in ("score", "raw score", "signs", "trace"))
    assert rows["verdict"].endswith("≤ 0.2")
    assert not rows["diagonal"].endswith("0.2")


def test_a_panel_has_both_kinds_of_chance_in_the_unit_of_its_row(headwater, small):
    told = headwater("heads", small, "--head", "L0H1", "--quick").stdout
    panel = json.loads(headwater("heads", small, "--head", "L0H1", "--quick", "--json").stdout)["heads"][0]["copying_panel"]
    table = told.split("does L0H1 say")[1].split("\n\n")[0]
    assert re.search(r"chance\s+chance\s+measured\s+over tokens\s+in the stream\s+says", table)
    tokens, stream = panel["centred"]["tokens"], panel["centred"]["stream"]
    shares = [f"{each['positive']['low']:.1%} … {each['positive']['high']:.1%}" for each in (tokens, stream)]
    assert re.search(rf"positive λ, centred .* {shares[0]} +{shares[1]} ", table)
    spreads = [f"0 ± {each['radius']:,.1f}" for each in (tokens, stream)]
    assert re.search(rf"trace, centred .* {spreads[0]} +{spreads[1]} ", table)


def test_what_heads_say_is_called_centred(headwater, small):
    assert "says (source→out, row means taken out, each token once)" in headwater("heads", small, *FAST).stdout
    assert all(row["says_centred"] for row in json.loads(headwater("heads", small, *FAST, "--json").stdout)["heads"])


@pytest.mark.parametrize("arguments", [[], ["--head", "L1H0"], ["--head", "direct"]])
def test_no_examples_no_tables_of_them(headwater, small, arguments):
    some = headwater("heads", small, "--quick", "--examples", "1", *arguments).stdout
    none = headwater("heads", small, "--quick", "--examples", "0", *arguments).stdout
    assert "largest" in some
    assert "largest" not in none


def test_no_number_is_a_negative_zero(headwater, small, panel):
    for arguments in ([], ["--head", "L1H0"], ["--head", "direct"]):
        assert not re.search(r"-0\.0+(?![0-9])", headwater("heads", small, "--quick", *arguments).stdout)
    (one, *_), pairs = panel
    small_score = replace(one, copying=replace(one.copying, raw=replace(one.copying.raw, score=-1e-9)))
    assert tables([small_score], pairs, Words(None))[0].rows[0][1] == "+0.00"


def test_an_id_without_a_word_is_shown_as_its_number(headwater, small):
    words = Words(hw.load(small).tokenizer)
    assert (words(97), words(256)) == ("‘a’", "#256")
    assert words.exact([{"source": 97, "out": 299, "value": 1.0}]) == [
        {"source": "a", "out": None, "value": 1.0, "source_id": 97, "out_id": 299}
    ]
    for arguments in ([], ["--json"], ["--head", "L0H1"], ["--head", "direct"], ["--head", "direct", "--json"]):
        told = headwater("heads", small, "--quick", "--examples", "40", *arguments)
        assert told.returncode == 0, told.stderr
        assert ("null" if "--json" in arguments else "#2") in told.stdout


def test_words_that_are_quotes_or_read_from_the_right_stay_readable():
    letters = vocabularies.byte_letters()
    vocab = {letter: byte for byte, letter in enumerate(letters)}
    added = ["’", "‘", "“’”", "שלום", "مرحبا"]
    vocab |= {"".join(letters[byte] for byte in word.encode()): 256 + number for number, word in enumerate(added)}
    words = Words(Tokenizer.parse(vocabularies.dump(vocabularies.byte_level(vocab, []))))
    assert [words(256 + number) for number in range(5)] == ["“’”", "“‘”", "«“’”»", "\u2068‘שלום’\u2069", "\u2068‘مرحبا’\u2069"]


def test_help_tells_what_the_columns_are(headwater):
    whole = headwater("--help").stdout
    assert "Show what the weights say about each head." in whole
    assert "One row" not in whole
    told = " ".join(headwater("heads", "--help").stdout.split())
    assert "One row for each head: the copying score Σλ/Σ|λ| of its OV circuit" in told
    assert "Reads headers only" in headwater("inspect", "--help").stdout


@pytest.mark.parametrize("kind", ["svg", "png", "pdf"])
def test_pictures_are_written(headwater, tmp_path, kind):
    place = tmp_path / f"heads.{kind}"
    assert headwater("heads", "two-layer", *FAST, "--plot", place).returncode == 0
    assert place.stat().st_size > 10_000


def test_the_same_weights_give_the_same_picture(headwater, tmp_path):
    for name in ("one.svg", "two.svg"):
        headwater("heads", "two-layer", "--head", "L1H1", *FAST, "--plot", tmp_path / name)
    assert (tmp_path / "one.svg").read_bytes() == (tmp_path / "two.svg").read_bytes()


def test_a_model_without_words_shows_ids(headwater, rotary):
    told = headwater("heads", rotary, "--head", "L0H1", *FAST)
    assert told.returncode == 0
    assert re.search(r"#\d+ +#\d+ ", told.stdout)


@pytest.mark.parametrize("offset", ["-1", "16"])
def test_an_offset_outside_the_context_is_refused(headwater, rotary, offset):
    told = headwater("heads", rotary, *FAST, "--offset", offset)
    assert told.returncode == 2
    assert f"--offset {offset}\n" in told.stderr
    assert "from 0 to 15" in told.stderr
    assert "offset 15" in headwater("heads", rotary, *FAST, "--offset", "15").stdout


@pytest.mark.parametrize(
    ("arguments", "words"),
    [
        (["two-layer", "--head", "L9H0"], "no head is called L9H0"),
        (["two-layer", "--head", "seven"], "'seven' as a head"),
        (["two-layer", "--head", ""], "'' as a head"),
        (["two-layer", "--join"], "--join without heads"),
        (["two-layer", "--join", "L0H0,L0H9"], "no head is called L0H9"),
        (["two-layer", "--head", "direct", "--join", "L0H0"], "--head direct with --join L0H0"),
        (["zero-layer", "--join", "L0H0"], "no layers"),
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
