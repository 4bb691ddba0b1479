"""``headwater atlas show`` and ``quote``: what an atlas says of its heads, and places to read."""

import json
from dataclasses import replace

import pytest

from headwater.api import Model
from headwater.atlas.build import build_atlas
from headwater.files.tables import read_table
from headwater.model.config import ModelConfig
from headwater.model.weights import Weights
from headwater.text.corpus import open_corpus
from tiny_atlas import CHOSEN, build_here, save_corpus, save_model


@pytest.fixture(scope="module")
def place(tmp_path_factory):
    there = tmp_path_factory.mktemp("shown")
    save_model(there / "model")
    save_corpus(there / "corpus")
    build_here(there, there / "without", with_text=False)
    # Enough rows and enough text that some of them stand in it.
    chosen = replace(CHOSEN, triples=20_000, rows=256, windows=300)
    build_atlas(there / "model", there / "with", chosen, corpus=open_corpus(there / "corpus"))
    return there


def test_show_tells_of_every_head_what_its_tables_say(headwater, place):
    told = json.loads(headwater("atlas", "show", place / "with", "--json").stdout)
    strongest = read_table(place / "with" / "strongest.parquet")
    assert [row["head"] for row in told["heads"]] == ["L0H0", "L0H1", "L0H2"]
    for number, row in enumerate(told["heads"]):
        first = (strongest["head"] == number) & (strongest["place"] == 1)
        assert row["strongest"]["lift"] == strongest["lift"][first].item()
        assert 0 <= row["placement"]["positions"] <= 1
        assert row["agreement"]["rows"] >= row["agreement"]["raising_rows"]
    assert told["tables"]["strongest"]["rows"] == len(strongest["lift"])


def test_show_of_an_atlas_without_text_has_no_agreement(headwater, place):
    told = json.loads(headwater("atlas", "show", place / "without", "--json").stdout)
    assert all(row["agreement"] is None for row in told["heads"])
    printed = headwater("atlas", "show", place / "without").stdout
    assert "L0H2" in printed
    assert "Spearman" not in printed


def test_quotes_are_the_lines_of_the_table_the_strongest_first(headwater, place):
    table = read_table(place / "with" / "lines_of_text.parquet")
    found = json.loads(headwater("atlas", "quote", place / "with", "--limit", "100000", "--json").stdout)
    sizes = [abs(row["measured"]) for row in found["rows"]]
    assert found["total"] > 0
    assert found["total"] == len(sizes) == len(table["measured"])
    assert sizes == sorted(map(abs, table["measured"].tolist()), reverse=True)


def test_a_quote_has_source_and_dest_where_they_stood(headwater, place):
    source = int(read_table(place / "with" / "lines_of_text.parquet")["source"][0])
    found = json.loads(headwater("atlas", "quote", place / "with", "--source", f"#{source}", "--json").stdout)
    assert found["rows"]
    for row in found["rows"]:
        assert row["source_id"] == source
        assert row["text"].count("⟦") >= 2
        assert " → " in row["text"]


def test_quotes_of_an_atlas_without_text_are_refused(headwater, place):
    result = headwater("atlas", "quote", place / "without")
    assert result.returncode == 2
    assert "--corpus" in result.stderr


def test_an_atlas_says_which_text_its_evidence_is_from(headwater, place):
    assert "places in held-out text" in headwater("atlas", "quote", place / "with", "--limit", 1).stdout
    assert "on held-out text" in headwater("atlas", "bugs", place / "with").stdout
    chosen = replace(CHOSEN, triples=100, part="train")
    build_atlas(place / "model", place / "train", chosen, corpus=open_corpus(place / "corpus"))
    assert "places in training text" in headwater("atlas", "quote", place / "train", "--limit", 1).stdout
    assert "on training text" in headwater("atlas", "bugs", place / "train").stdout


def test_an_atlas_without_heads_is_not_said_to_lack_a_text(headwater, place):
    config = ModelConfig(vocab=open_corpus(place / "corpus").vocab, context=8, d_model=4, layers=0)
    Model(Weights.draw(config, seed=0), open_corpus(place / "corpus").tokenizer).save(place / "zero")
    built = headwater(
        "atlas", "build", place / "zero", "--corpus", place / "corpus", "--out", place / "headless", "--windows", 2
    )
    assert built.returncode == 0, built.stderr
    assert "atlas search" not in built.stderr
    for verb in ("quote", "bugs"):
        refused = headwater("atlas", verb, place / "headless")
        assert refused.returncode == 2
        assert "without heads" in refused.stderr
